/**
 * The stock CLI's `key create` and `bundle encrypt` as a function: a fresh RSA key pair, and
 * bundles that its private key encrypts. The wire form is held against the published CLI by
 * test/proof/clients/capgo-cli-uploads.test.ts.
 */
import { bytesToHex as hex } from "@noble/hashes/utils.js";

export interface Signer {
	/** PKCS#1, as `key create` writes it. */
	readonly publicKey: string;
	/** The same key as SubjectPublicKeyInfo. */
	readonly spki: string;
	readonly keyId: string;
	readonly fingerprint: string;
	/** Encrypts with the private key, in a PKCS#1 block of type 1. */
	sign(data: Uint8Array): Uint8Array;
	/** A file's hash as the manifest of an encrypted bundle has it. */
	signedHash(content: Uint8Array): Promise<string>;
	encrypt(zip: Uint8Array<ArrayBuffer>): Promise<EncryptedBundle>;
}

export interface EncryptedBundle {
	readonly bytes: Uint8Array<ArrayBuffer>;
	/** For POST /bundle. */
	readonly fields: { readonly checksum: string; readonly session_key: string; readonly key_id: string };
}

const base64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
const sha256 = async (bytes: Uint8Array<ArrayBuffer>) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
const pem = (label: string, text: string) =>
	`-----BEGIN ${label}-----\n${text.replace(/.{64}(?=.)/g, "$&\n")}\n-----END ${label}-----\n`;

/** Bytes before the PKCS#1 key in the SubjectPublicKeyInfo of a key with 2,048 bits. */
const SPKI_HEADER_BYTES = 24;

export async function createSigner(modulusLength = 2048): Promise<Signer> {
	const { publicKey, privateKey } = (await crypto.subtle.generateKey(
		{ name: "RSASSA-PKCS1-v1_5", modulusLength, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-256" },
		true,
		["sign", "verify"],
	)) as CryptoKeyPair;
	const spki = new Uint8Array((await crypto.subtle.exportKey("spki", publicKey)) as ArrayBuffer);
	const pkcs1 = spki.slice(SPKI_HEADER_BYTES);
	const { n = "", d = "" } = (await crypto.subtle.exportKey("jwk", privateKey)) as JsonWebKey;
	const modulus = numberOf(n);
	const exponent = numberOf(d);
	const length = modulusLength / 8;

	const sign = (data: Uint8Array) => {
		const block = new Uint8Array(length).fill(0xff);
		block.set([0, 1]);
		block[length - data.length - 1] = 0;
		block.set(data, length - data.length);
		return bytesOf(power(BigInt(`0x${hex(block)}`), exponent, modulus), length);
	};
	return {
		publicKey: pem("RSA PUBLIC KEY", base64(pkcs1)),
		spki: pem("PUBLIC KEY", base64(spki)),
		keyId: base64(pkcs1).slice(0, 20),
		fingerprint: hex(await sha256(pkcs1)),
		sign,
		signedHash: async (content) => hex(sign(await sha256(Uint8Array.from(content)))),
		async encrypt(zip) {
			const aesKey = crypto.getRandomValues(new Uint8Array(16));
			const iv = crypto.getRandomValues(new Uint8Array(16));
			const key = await crypto.subtle.importKey("raw", aesKey, "AES-CBC", false, ["encrypt"]);
			return {
				bytes: new Uint8Array(await crypto.subtle.encrypt({ name: "AES-CBC", iv }, key, zip)),
				fields: {
					checksum: hex(sign(await sha256(zip))),
					session_key: `${base64(iv)}:${base64(sign(aesKey))}`,
					key_id: base64(pkcs1).slice(0, 20),
				},
			};
		},
	};
}

function numberOf(base64Url: string): bigint {
	const text = atob(base64Url.replace(/-/g, "+").replace(/_/g, "/"));
	return BigInt(`0x${hex(Uint8Array.from(text, (char) => char.charCodeAt(0)))}`);
}

function bytesOf(number: bigint, length: number): Uint8Array {
	const text = number.toString(16).padStart(2 * length, "0");
	return Uint8Array.from({ length }, (_, index) => Number.parseInt(text.slice(2 * index, 2 * index + 2), 16));
}

function power(base: bigint, exponent: bigint, modulus: bigint): bigint {
	let [result, square] = [1n, base % modulus];
	for (let rest = exponent; rest > 0n; rest >>= 1n) {
		if (rest & 1n) result = (result * square) % modulus;
		square = (square * square) % modulus;
	}
	return result;
}
