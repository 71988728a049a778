/**
 * RSA public keys of organizations and the values that the stock CLI creates with the private key:
 * PKCS#1 v1.5 blocks of type 1, which the public key opens. A value that opens with strict padding
 * and has the expected length was created by the holder of the private key.
 *
 * WebCrypto has no raw RSA, so the public operation is computed here: 17 multiplications modulo
 * 2,048 bits, less than 0.1 ms.
 */

/** Devices accept values of exactly 256 bytes, which is RSA with 2,048 bits. */
const MODULUS_BYTES = 256;
const EXPONENT = 65_537n;
/**
 * Devices report this much of the base64 text of their public key, as the stock CLI stores it with
 * a bundle.
 */
const KEY_ID_LENGTH = 20;

export interface SigningKey {
	/** Lower-case hexadecimal SHA-256 of the key's PKCS#1 bytes. */
	readonly fingerprint: string;
	readonly modulus: bigint;
}

/** The key as text: base64 of its PKCS#1 bytes, as devices carry it. */
export function keyIdOf(publicKey: string): string {
	return publicKey.slice(0, KEY_ID_LENGTH);
}

/**
 * Reads a PEM, `RSA PUBLIC KEY` (PKCS#1, as `key create` of the stock CLI writes it) or `PUBLIC
 * KEY` (SubjectPublicKeyInfo), and returns base64 of its PKCS#1 bytes; undefined if it is not an
 * RSA public key of 2,048 bits with the exponent 65,537.
 */
export function parsePublicKey(pem: string): string | undefined {
	const match = /^\s*-----BEGIN (RSA )?PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END \1?PUBLIC KEY-----\s*$/.exec(pem);
	const bytes = match === null ? undefined : bytesOfBase64((match[2] ?? "").replace(/\s/g, ""));
	if (bytes === undefined) return undefined;
	const pkcs1 = match?.[1] === undefined ? pkcs1Within(bytes) : bytes;
	if (pkcs1 === undefined || modulusOf(pkcs1) === undefined) return undefined;
	return btoa(String.fromCharCode(...pkcs1));
}

export async function signingKeyOf(publicKey: string): Promise<SigningKey> {
	const bytes = bytesOfBase64(publicKey);
	const modulus = bytes === undefined ? undefined : modulusOf(bytes);
	if (bytes === undefined || modulus === undefined) throw new Error("a registered signing key cannot be read");
	return { fingerprint: hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))), modulus };
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** AlgorithmIdentifier of RSA with NULL parameters, after the header of the outer SEQUENCE. */
const SPKI_RSA = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

function pkcs1Within(spki: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
	const outer = new Der(spki).value(0x30);
	if (outer === undefined || !SPKI_RSA.every((byte, index) => outer[index] === byte)) return undefined;
	const bits = new Der(outer.subarray(SPKI_RSA.length)).value(0x03);
	// The first byte is the number of unused bits.
	return bits?.[0] === 0 ? Uint8Array.from(bits.subarray(1)) : undefined;
}

/** The modulus of a PKCS#1 key that devices can use. */
function modulusOf(pkcs1: Uint8Array): bigint | undefined {
	const body = new Der(pkcs1).value(0x30);
	if (body === undefined) return undefined;
	const integers = new Der(body);
	const modulus = integers.value(0x02);
	const exponent = integers.value(0x02);
	if (modulus === undefined || exponent === undefined || !integers.isAtEnd) return undefined;
	// A DER integer of 2,048 bits has a leading zero byte, because its first bit is the sign.
	const isFitting = modulus.length === MODULUS_BYTES + 1 && modulus[0] === 0 && (modulus[1] ?? 0) >= 0x80;
	const number = bigintOf(modulus);
	return isFitting && number % 2n === 1n && bigintOf(exponent) === EXPONENT ? number : undefined;
}

/** Reads definite lengths of up to two bytes; a PKCS#1 key of 2,048 bits has no longer ones. */
class Der {
	#at = 0;
	constructor(readonly bytes: Uint8Array) {}

	get isAtEnd(): boolean {
		return this.#at === this.bytes.length;
	}

	/** The next value if it has this tag. */
	value(tag: number): Uint8Array | undefined {
		const { bytes } = this;
		const [first = 0, high = 0, low = 0] = bytes.subarray(this.#at + 1, this.#at + 4);
		const [headerBytes, length] =
			first < 0x80 ? [2, first] : first === 0x81 ? [3, high] : first === 0x82 ? [4, high * 256 + low] : [0, 0];
		const start = this.#at + headerBytes;
		if (bytes[this.#at] !== tag || headerBytes === 0 || start + length > bytes.length) return undefined;
		this.#at = start + length;
		return bytes.subarray(start, this.#at);
	}
}

/**
 * The data that the private key encrypted; undefined if another key did, the value is not well
 * formed, or the data has another length.
 */
export function openValue(
	key: SigningKey,
	value: Uint8Array,
	lengthBytes: number,
): Uint8Array<ArrayBuffer> | undefined {
	const number = value.length === MODULUS_BYTES ? bigintOf(value) : key.modulus;
	if (number >= key.modulus) return undefined;
	let power = number;
	for (let square = 0; square < 16; square++) power = (power * power) % key.modulus;
	const block = bytesOf((power * number) % key.modulus);
	const dataAt = MODULUS_BYTES - lengthBytes;
	// 00 01 FF … FF 00, and the data.
	const isPadded = block[0] === 0 && block[1] === 1 && block[dataAt - 1] === 0;
	return isPadded && block.subarray(2, dataAt - 1).every((byte) => byte === 0xff) ? block.slice(dataAt) : undefined;
}

function bigintOf(bytes: Uint8Array): bigint {
	return BigInt(`0x${hex(bytes)}`);
}

function bytesOf(number: bigint): Uint8Array<ArrayBuffer> {
	const text = number.toString(16).padStart(2 * MODULUS_BYTES, "0");
	return Uint8Array.from({ length: MODULUS_BYTES }, (_, index) =>
		Number.parseInt(text.slice(2 * index, 2 * index + 2), 16),
	);
}

/** A checksum or file hash as stock clients accept it: hexadecimal, or base64 of older ones. */
export function bytesOfSigned(text: string): Uint8Array | undefined {
	if (!/^[0-9a-f]+$/i.test(text)) return bytesOfBase64(text);
	return text.length % 2 === 0
		? Uint8Array.from({ length: text.length / 2 }, (_, at) => Number.parseInt(text.slice(2 * at, 2 * at + 2), 16))
		: undefined;
}

interface SessionKey {
	readonly iv: Uint8Array<ArrayBuffer>;
	/** The AES key, encrypted with the private key. */
	readonly encryptedKey: Uint8Array<ArrayBuffer>;
}

/**
 * `<iv>:<encrypted key>`, base64 of 16 and of 256 bytes, as every device demands it; undefined for
 * anything else.
 */
export function parseSessionKey(text: string): SessionKey | undefined {
	const [ivText, keyText, ...rest] = text.split(":");
	const iv = bytesOfBase64(ivText ?? "");
	const encryptedKey = bytesOfBase64(keyText ?? "");
	if (rest.length > 0 || iv?.length !== 16 || encryptedKey?.length !== MODULUS_BYTES) return undefined;
	return { iv, encryptedKey };
}

function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
	if (text === "" || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
	try {
		return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
	} catch {
		return undefined;
	}
}
