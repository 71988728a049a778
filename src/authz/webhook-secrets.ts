/**
 * Secrets of webhooks by Standard Webhooks: `whsec_` for HMAC-SHA256 (v1), and an ed25519 key pair
 * (v1a) whose public half is `whpk_`. The two are independent, so that who verifies with the secret
 * cannot sign as v1a. Both sign every delivery.
 */
import { utf8ToBytes } from "@noble/hashes/utils.js";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;
const SEED_BYTES = 32;
/** PKCS#8 before the 32 bytes of an ed25519 private key. */
const PKCS8_PREFIX = Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20);

export interface WebhookSecret {
	/** `whsec_` and base64. */
	readonly secret: string;
	/** Base64 of the ed25519 private key. */
	readonly seed: string;
}

export function mintWebhookSecret(randomBytes: (length: number) => Uint8Array): WebhookSecret {
	return { secret: mintSharedSecret(randomBytes), seed: base64(randomBytes(SEED_BYTES)) };
}

/** The secret alone: `whsec_` and base64. */
export function mintSharedSecret(randomBytes: (length: number) => Uint8Array): string {
	return PREFIX + base64(randomBytes(SECRET_BYTES));
}

/** `whpk_` and base64. */
export async function publicKeyOf({ seed }: WebhookSecret): Promise<string> {
	const { x = "" } = (await crypto.subtle.exportKey("jwk", await privateKey(seed))) as JsonWebKey;
	return `whpk_${x.replaceAll("-", "+").replaceAll("_", "/")}=`;
}

/** The header `webhook-signature`: two signatures for each secret. */
export async function webhookSignature(
	secrets: readonly WebhookSecret[],
	id: string,
	timestampSeconds: number,
	body: string,
): Promise<string> {
	const signed = utf8ToBytes(`${id}.${timestampSeconds}.${body}`);
	const symmetric = secrets.map(({ secret }) => sharedSignature(secret, signed));
	const asymmetric = secrets.map(async ({ seed }) => {
		const signature = await crypto.subtle.sign("Ed25519", await privateKey(seed), new Uint8Array(signed));
		return `v1a,${base64(new Uint8Array(signature))}`;
	});
	return (await Promise.all([...symmetric, ...asymmetric])).join(" ");
}

/**
 * The signature `v1` of Standard Webhooks.
 * @param signed id, seconds and body, with dots between them
 */
export async function sharedSignature(secret: string, signed: Uint8Array): Promise<string> {
	return `v1,${base64(await hmacSha256(bytesOf(secret.slice(PREFIX.length)), signed))}`;
}

export async function hmacSha256(key: Uint8Array, message: Uint8Array): Promise<Uint8Array> {
	const algorithm = { name: "HMAC", hash: "SHA-256" };
	const imported = await crypto.subtle.importKey("raw", new Uint8Array(key), algorithm, false, ["sign"]);
	return new Uint8Array(await crypto.subtle.sign(algorithm, imported, new Uint8Array(message)));
}

function privateKey(seed: string): Promise<CryptoKey> {
	const pkcs8 = new Uint8Array([...PKCS8_PREFIX, ...bytesOf(seed)]);
	return crypto.subtle.importKey("pkcs8", pkcs8, { name: "Ed25519" }, true, ["sign"]);
}

const base64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
const bytesOf = (text: string) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
