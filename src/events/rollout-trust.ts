/**
 * By what a device of a rollout is told from one that was made up: since when it is known, and from which network it comes.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { sql } from "kysely";
import type { Deps } from "../deps";
import { DAY_MS } from "./days";

const NETWORK_LENGTH = 24;

export type NetworkPseudonyms = (rolloutId: string, network: string) => string;

/** The network, recognizable within its rollout and nowhere else. */
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

/**
 * Whether the device, as `r`, `c` and `d` name its rollout, channel and row, may count. The day, not the hour: of a device's first day the
 * row may have the time of a later message.
 */
export const mayCount = sql`r.sampling = 1 AND (c.rollout_count_new_devices = 1
	OR d.created_at_ms < r.started_at_ms - r.started_at_ms % ${sql.lit(DAY_MS)})`;
