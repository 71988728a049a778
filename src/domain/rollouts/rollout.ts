/**
 * The cohort of a staged rollout: a pure function of the rollout and the device. A device has the
 * same place in every isolate, a larger share only adds devices, and a share that is lowered and
 * raised again has the same devices.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";

const BUCKETS = 10_000;

/** The place of the device in the rollout: 0 to 9999, evenly distributed. */
export function rolloutBucket(rolloutId: string, deviceId: string): number {
	const hash = sha256(utf8ToBytes(`${rolloutId}:${deviceId}`));
	// 48 bits keep the bias of the remainder far below one device in a billion.
	const number = hash.slice(0, 6).reduce((sum, byte) => sum * 256 + byte, 0);
	return number % BUCKETS;
}

/** Whether the share, in basis points, includes the device. */
export function isInRollout(rolloutId: string, deviceId: string, percentageBps: number): boolean {
	return rolloutBucket(rolloutId, deviceId) < percentageBps;
}
