/**
 * An authenticator made of software, for tests that no browser drives: one ES256 passkey, whose
 * answers can be bent in every part. What it makes is laid out in
 * https://www.w3.org/TR/webauthn-3/, sections 5.8.1, 6.1 and 6.5.
 */
export interface Bent {
	readonly origin?: string;
	readonly type?: string;
	readonly challenge?: string;
	readonly rpId?: string;
	readonly counter?: number;
	/** User present 1, user verified 4. */
	readonly flags?: number;
	readonly signature?: Uint8Array;
	/** The new passkey's own signature comes with it, which needs no certificate. */
	readonly selfAttested?: boolean;
}

const utf8 = (text: string) => new TextEncoder().encode(text);
const concat = (...parts: readonly Uint8Array[]) => {
	const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
	let offset = 0;
	for (const part of parts) {
		whole.set(part, offset);
		offset += part.length;
	}
	return whole;
};
const sha256 = async (bytes: Uint8Array) =>
	new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array(bytes)));
const base64url = (bytes: Uint8Array) =>
	btoa(String.fromCharCode(...bytes))
		.replaceAll("+", "-")
		.replaceAll("/", "_")
		.replaceAll("=", "");
const fromBase64url = (text: string) =>
	Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));

/** CBOR byte string. */
const cborBytes = (bytes: Uint8Array) =>
	bytes.length < 256
		? concat(new Uint8Array([0x58, bytes.length]), bytes)
		: concat(new Uint8Array([0x59, bytes.length >> 8, bytes.length & 255]), bytes);

/** An unsigned number of 32 bytes as DER has it. */
function derInteger(bytes: Uint8Array): Uint8Array {
	let start = 0;
	while (start < bytes.length - 1 && bytes[start] === 0) start += 1;
	const rest = bytes.slice(start);
	const padded = (rest[0] ?? 0) > 127 ? concat(new Uint8Array([0]), rest) : rest;
	return concat(new Uint8Array([2, padded.length]), padded);
}

export async function createAuthenticator(origin: string) {
	const pair = (await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
		"sign",
		"verify",
	])) as CryptoKeyPair;
	const jwk = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
	const credentialId = crypto.getRandomValues(new Uint8Array(16));
	const id = base64url(credentialId);
	let counter = 0;

	const clientData = (type: string, challenge: string, bent: Bent) =>
		utf8(
			JSON.stringify({
				type: bent.type ?? type,
				challenge: bent.challenge ?? challenge,
				origin: bent.origin ?? origin,
				crossOrigin: false,
			}),
		);
	const header = async (flags: number, bent: Bent) => {
		counter = bent.counter ?? counter + 1;
		const count = new Uint8Array([counter >> 24, counter >> 16, counter >> 8, counter].map((byte) => byte & 255));
		const rpIdHash = await sha256(utf8(bent.rpId ?? new URL(origin).hostname));
		return concat(rpIdHash, new Uint8Array([bent.flags ?? flags]), count);
	};

	/** As DER has it. */
	const sign = async (authData: Uint8Array, data: Uint8Array) => {
		const signed = concat(authData, await sha256(data));
		const raw = new Uint8Array(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, pair.privateKey, signed));
		const [r, s] = [derInteger(raw.slice(0, 32)), derInteger(raw.slice(32))];
		return concat(new Uint8Array([0x30, r.length + s.length]), r, s);
	};

	return {
		id,
		/** Result of `navigator.credentials.create`, as JSON. */
		async create(options: { readonly challenge: string }, bent: Bent = {}) {
			const data = clientData("webauthn.create", options.challenge, bent);
			const cose = concat(
				new Uint8Array([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21]),
				cborBytes(fromBase64url(jwk.x ?? "")),
				new Uint8Array([0x22]),
				cborBytes(fromBase64url(jwk.y ?? "")),
			);
			const authData = concat(
				await header(0x45, { ...bent, ...(bent.flags === undefined ? {} : { flags: bent.flags | 0x40 }) }),
				new Uint8Array(16),
				new Uint8Array([0, credentialId.length]),
				credentialId,
				cose,
			);
			const format = bent.selfAttested === true ? "packed" : "none";
			const statement =
				bent.selfAttested === true
					? concat(
							new Uint8Array([0xa2, 0x63]),
							utf8("alg"),
							new Uint8Array([0x26, 0x63]),
							utf8("sig"),
							cborBytes(bent.signature ?? (await sign(authData, data))),
						)
					: new Uint8Array([0xa0]);
			const attestationObject = concat(
				new Uint8Array([0xa3, 0x63]),
				utf8("fmt"),
				new Uint8Array([0x60 + format.length]),
				utf8(format),
				new Uint8Array([0x67]),
				utf8("attStmt"),
				statement,
				new Uint8Array([0x68]),
				utf8("authData"),
				cborBytes(authData),
			);
			return {
				id,
				rawId: id,
				type: "public-key" as const,
				clientExtensionResults: {},
				response: {
					clientDataJSON: base64url(data),
					attestationObject: base64url(attestationObject),
					transports: ["internal"],
				},
			};
		},
		/** Result of `navigator.credentials.get`, as JSON. */
		async get(options: { readonly challenge: string }, bent: Bent = {}) {
			const data = clientData("webauthn.get", options.challenge, bent);
			const authData = await header(0x05, bent);
			const signature = bent.signature ?? (await sign(authData, data));
			return {
				id,
				rawId: id,
				type: "public-key" as const,
				clientExtensionResults: {},
				response: {
					clientDataJSON: base64url(data),
					authenticatorData: base64url(authData),
					signature: base64url(signature),
				},
			};
		},
	};
}
