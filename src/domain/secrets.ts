/**
 * Secrets of a deployment. One signs and seals; all configured ones verify and open. A rotation
 * (`npm run rotate-secret`) therefore has no outage: the new secret is deployed everywhere before
 * it signs.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** A rotation writes the unused name, and removes the other once nothing needs it. */
export const SECRET_NAMES = ["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"] as const;

export interface Secret {
	/** Names the secret in sealed texts without revealing any of it. */
	readonly id: string;
	readonly bytes: Uint8Array;
	/** Epoch milliseconds; the secret signs from then on. */
	readonly signsFromMs: number;
}

export type Secrets = readonly [Secret, ...Secret[]];

const SHAPE = /^([0-9a-f]{64})(?:@(\d{1,12}))?$/;

/**
 * Parses 64 lower-case hexadecimal digits, then optionally `@` and the epoch seconds from which the
 * secret signs.
 */
export function parseSecret(text: string): Secret | undefined {
	const [, hex, fromSeconds = "0"] = SHAPE.exec(text) ?? [];
	if (hex === undefined) return undefined;
	const bytes = Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
	return {
		// Most isolates never need it, and a library's first hash takes milliseconds.
		get id() {
			return bytesToHex(sha256(new Uint8Array([...utf8ToBytes("capstan secret id\0"), ...bytes]))).slice(0, 8);
		},
		bytes,
		signsFromMs: Number(fromSeconds) * 1000,
	};
}

/** The secret that signs now: the latest whose time has come, or the earliest if none has. */
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

/** The secret that signed first. */
export function firstSecret(secrets: Secrets): Secret {
	return secrets.reduce((first, secret) => (secret.signsFromMs < first.signsFromMs ? secret : first));
}

/**
 * Constant-time comparison of a given text with a secret. Only the length of the secret may leak.
 */
export function isSameText(given: string, expected: string): boolean {
	const [left, right] = [utf8ToBytes(given), utf8ToBytes(expected)];
	return left.length === right.length && crypto.subtle.timingSafeEqual(left, right);
}
