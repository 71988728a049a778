/**
 * Decides which devices count for rollout health. A device must predate the rollout, and each network contributes only a few, so forged
 * ids cannot steer it.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { Deps } from "../deps";

const NETWORK_LENGTH = 24;

export type NetworkPseudonyms = (rolloutId: string, network: string) => string;

/** The network as a keyed hash that differs in every rollout. */
export function networkPseudonyms({ config }: Pick<Deps, "config">): NetworkPseudonyms {
	const known = new Map<string, string>();
	return (rolloutId, network) => {
		const text = `rollout network\n${rolloutId}\n${network}`;
		const before = known.get(text);
		if (before !== undefined) return before;
		const pseudonym = bytesToHex(hmac(sha256, config.secret, utf8ToBytes(text))).slice(0, NETWORK_LENGTH);
		known.set(text, pseudonym);
		return pseudonym;
	};
}
