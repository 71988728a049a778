/**
 * Which devices a staged rollout takes in: a monotone function of the rollout and the device. Nothing is stored or drawn, so a device
 * keeps its place wherever it asks from, raising the share only adds devices, and lowering and raising it brings the same ones back.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";

const BUCKETS = 10_000;

/** The place of the device in this rollout, 0 to 9999, evenly spread. */
export function rolloutBucket(rolloutId: string, deviceId: string): number {
	const hash = sha256(utf8ToBytes(`${rolloutId}:${deviceId}`));
	// 48 bits: the unevenness of the remainder is far below one device in a billion.
	const number = hash.slice(0, 6).reduce((sum, byte) => sum * 256 + byte, 0);
	return number % BUCKETS;
}

/** Whether the share of devices, in basis points, holds this one. */
export function isInRollout(rolloutId: string, deviceId: string, percentageBps: number): boolean {
	return rolloutBucket(rolloutId, deviceId) < percentageBps;
}
