/**
 * Decides which devices count for rollout health. A device must predate the rollout, and each network contributes only a few, so forged
 * ids cannot steer it.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

const NETWORK_LENGTH = 24;

export type NetworkPseudonyms = (rolloutId: string, network: string) => string;

/**
 * The network as a hash that differs in every rollout. The rollout's own random id is the salt, so that a rotated secret does not make every
 * network of a running rollout look new.
 */
export function networkPseudonyms(): NetworkPseudonyms {
	const known = new Map<string, string>();
	return (rolloutId, network) => {
		const text = `${rolloutId}\n${network}`;
		const before = known.get(text);
		if (before !== undefined) return before;
		const pseudonym = bytesToHex(sha256(utf8ToBytes(`capstan rollout network\n${text}`))).slice(0, NETWORK_LENGTH);
		known.set(text, pseudonym);
		return pseudonym;
	};
}
