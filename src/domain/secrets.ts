/**
 * The secrets of a deployment. One signs and seals; every secret that is configured verifies and opens, so a new one can take over
 * without an outage: it is known everywhere before the first signature is made with it. `npm run rotate-secret` does that.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** The two names take turns: a rotation writes the free one and removes the other when nothing needs it any more. */
export const SECRET_NAMES = ["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"] as const;

export interface Secret {
	/** Names the secret beside what it sealed; says nothing about its bytes. */
	readonly id: string;
	readonly bytes: Uint8Array;
	/** Epoch milliseconds from which it signs. */
	readonly signsFromMs: number;
}

export type Secrets = readonly [Secret, ...Secret[]];

const SHAPE = /^([0-9a-f]{64})(?:@(\d{1,12}))?$/;

/** A secret from its text: 64 lower-case hexadecimal digits, then optionally `@` and the epoch seconds from which it signs. */
export function parseSecret(text: string): Secret | undefined {
	const [, hex, fromSeconds = "0"] = SHAPE.exec(text) ?? [];
	if (hex === undefined) return undefined;
	const bytes = Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
	const id = bytesToHex(sha256(new Uint8Array([...utf8ToBytes("capstan secret id\0"), ...bytes]))).slice(0, 8);
	return { id, bytes, signsFromMs: Number(fromSeconds) * 1000 };
}

/** The secret that signs now: the latest whose time has come. Before the time of every secret, the earliest. */
export function signingSecret(secrets: Secrets, nowMs: number): Secret {
	let [chosen] = secrets;
	for (const secret of secrets) {
		const isDue = secret.signsFromMs <= nowMs;
		const chosenIsDue = chosen.signsFromMs <= nowMs;
		if (
			isDue
				? !chosenIsDue || secret.signsFromMs > chosen.signsFromMs
				: !chosenIsDue && secret.signsFromMs < chosen.signsFromMs
		) {
			chosen = secret;
		}
	}
	return chosen;
}

/** The secret that signed before every other one. */
export function firstSecret(secrets: Secrets): Secret {
	return secrets.reduce((first, secret) => (secret.signsFromMs < first.signsFromMs ? secret : first));
}
