/**
 * Secrets and their stored forms. An API key is `cap_`, 32 random base62 characters (190 bits) and
 * 6 characters of CRC-32 in base62: the checksum rejects typos and foreign tokens without a
 * database read, and lets secret scanners match. Never change the prefix. Keys are stored as
 * SHA-256, because such high entropy needs no slow hash; a key created with `hashed: false` is also
 * stored sealed.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import crc32 from "crc-32";
import { firstSecret, type Secret, type Secrets } from "../domain/secrets";

const PREFIX = "cap_";
/** Prefixes of other tokens, which have the same form. Never change them either. */
const INVITATION_PREFIX = "inv_";
const SESSION_PREFIX = "ses_";
const SIGN_IN_LINK_PREFIX = "sil_";
const ATTEMPT_PREFIX = "sia_";
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const SHAPE = new RegExp(`^([a-z]{3}_)([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`);
/** Characters of the random part in a hint: enough to distinguish keys, too few to guess one. */
const HINT_LENGTH = 4;

export interface MintedKey {
	/** Shown once, never stored in clear, never logged. */
	readonly text: string;
	readonly hash: string;
	/** E.g. `cap_a1B2…`. */
	readonly hint: string;
}

export function mintKey(randomBytes: (length: number) => Uint8Array): MintedKey {
	return mint(PREFIX, randomBytes);
}

/** The token of an invitation. */
export function mintInvitationToken(randomBytes: (length: number) => Uint8Array): MintedKey {
	return mint(INVITATION_PREFIX, randomBytes);
}

/** The token in a session's cookie. */
export function mintSessionToken(randomBytes: (length: number) => Uint8Array): MintedKey {
	return mint(SESSION_PREFIX, randomBytes);
}

/** The token of a link that signs in once. */
export function mintSignInLinkToken(randomBytes: (length: number) => Uint8Array): MintedKey {
	return mint(SIGN_IN_LINK_PREFIX, randomBytes);
}

/** The token that continues a sign-in in the browser that began it. */
export function mintAttemptToken(randomBytes: (length: number) => Uint8Array): MintedKey {
	return mint(ATTEMPT_PREFIX, randomBytes);
}

function mint(prefix: string, randomBytes: (length: number) => Uint8Array): MintedKey {
	let secret = "";
	while (secret.length < SECRET_LENGTH) {
		for (const byte of randomBytes(SECRET_LENGTH)) {
			// 248 is the largest multiple of 62 in a byte; higher values would favor the first characters.
			if (byte < 248 && secret.length < SECRET_LENGTH) secret += ALPHABET[byte % 62];
		}
	}
	const text = prefix + secret + checksum(secret);
	return { text, hash: hashKey(text), hint: `${prefix}${secret.slice(0, HINT_LENGTH)}…` };
}

/** Whether the text has the form and the checksum of a key; the key may not exist. */
export function isWellFormedKey(text: string): boolean {
	return isWellFormed(text, PREFIX);
}

export function isWellFormedSessionToken(text: string): boolean {
	return isWellFormed(text, SESSION_PREFIX);
}

function isWellFormed(text: string, prefix: string): boolean {
	const match = SHAPE.exec(text);
	return match !== null && match[1] === prefix && match[3] === checksum(match[2] ?? "");
}

const CODE_DIGITS = 6;

/** A six-digit code for e-mail, uniformly distributed. */
export function mintCode(randomBytes: (length: number) => Uint8Array): string {
	let digits = "";
	while (digits.length < CODE_DIGITS) {
		// 250 is the largest multiple of 10 in a byte.
		for (const byte of randomBytes(CODE_DIGITS)) if (byte < 250 && digits.length < CODE_DIGITS) digits += byte % 10;
	}
	return digits;
}

/**
 * The stored form of a sign-in code. A plain hash of six digits can be reversed, so the hash is
 * keyed with a secret, and bound to the attempt so that it is valid for no other.
 */
export function hashCode(code: string, attemptHash: string, secret: Secret): string {
	return keyedHash("capstan sign-in code", `${attemptHash} ${code}`, secret);
}

/**
 * The possible stored forms of a code: the secret may have been rotated since the code was created.
 */
export function codeHashes(code: string, attemptHash: string, secrets: Secrets): readonly string[] {
	return secrets.map((secret) => hashCode(code, attemptHash, secret));
}

/** Lower-case hexadecimal HMAC-SHA-256 under a key derived for this purpose. */
export function keyedHash(purpose: string, text: string, secret: Secret): string {
	return bytesToHex(hmac(sha256, keyFor(purpose, secret), utf8ToBytes(text)));
}

/** Derives a dedicated key for each use of the secret. */
function keyFor(purpose: string, secret: Secret) {
	return sha256(new Uint8Array([...utf8ToBytes(`${purpose}\0`), ...secret.bytes]));
}

/** Lower-case hexadecimal SHA-256 of the key's text. */
export function hashKey(text: string): string {
	return bytesToHex(sha256(utf8ToBytes(text)));
}

function checksum(secret: string): string {
	let rest = crc32.str(secret) >>> 0;
	let digits = "";
	for (let index = 0; index < CHECKSUM_LENGTH; index++) {
		digits = ALPHABET[rest % 62] + digits;
		rest = Math.floor(rest / 62);
	}
	return digits;
}

const SEAL_NONCE_BYTES = 12;

/**
 * AES-GCM over the key's text, bound to the key's id, so that a sealed text does not open in
 * another row. The result names the secret: `<secret id>.<nonce and ciphertext, hexadecimal>`.
 */
export async function sealKey(
	text: string,
	keyId: string,
	secret: Secret,
	randomBytes: (length: number) => Uint8Array,
): Promise<string> {
	const nonce = new Uint8Array(randomBytes(SEAL_NONCE_BYTES));
	const sealed = await crypto.subtle.encrypt(
		{ name: "AES-GCM", iv: nonce, additionalData: utf8ToBytes(keyId) },
		await sealingKey(secret),
		utf8ToBytes(text),
	);
	return `${secret.id}.${bytesToHex(nonce)}${bytesToHex(new Uint8Array(sealed))}`;
}

/**
 * Opens the result of `sealKey`. A sealed text without a secret id is older than these ids, and was
 * sealed with the first secret.
 * @throws {Error} when the secret is not configured, or the text was sealed for another key
 */
export async function openKey(sealed: string, keyId: string, secrets: Secrets): Promise<string> {
	const [, secretId, hex] = /^(?:([0-9a-f]{8})\.)?((?:[0-9a-f]{2})+)$/.exec(sealed) ?? [];
	const secret = secretId === undefined ? firstSecret(secrets) : secrets.find(({ id }) => id === secretId);
	if (secret === undefined) throw new Error(`no configured secret has the id ${secretId}`);
	const bytes = Uint8Array.from(hex?.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
	const text = await crypto.subtle.decrypt(
		{ name: "AES-GCM", iv: bytes.slice(0, SEAL_NONCE_BYTES), additionalData: utf8ToBytes(keyId) },
		await sealingKey(secret),
		bytes.slice(SEAL_NONCE_BYTES),
	);
	return new TextDecoder().decode(text);
}

async function sealingKey(secret: Secret): Promise<CryptoKey> {
	return crypto.subtle.importKey("raw", keyFor("capstan api key seal", secret), "AES-GCM", false, [
		"encrypt",
		"decrypt",
	]);
}
