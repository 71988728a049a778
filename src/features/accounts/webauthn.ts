/**
 * Options for authenticators, and the verification of their responses. The library is loaded on the
 * first use of a passkey. A passkey is the only factor of a sign-in, so user verification is
 * required.
 */

import { bytesToHex, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from "@simplewebauthn/server";
import type { PasskeyRow } from "../../db/passkeys";
import { MINUTE_MS } from "../../domain/time";

const CHALLENGE_BYTES = 32;
/** Time for a person to use their authenticator. */
export const CHALLENGE_LIFETIME_MS = 5 * MINUTE_MS;
/** EdDSA, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257];

const library = () => import("./webauthn-library");
type Transports = NonNullable<RegistrationResponseJSON["response"]["transports"]>;
type RandomBytes = (length: number) => Uint8Array;

/** A copy on an ArrayBuffer, which the library's types require. */
const copyOf = (bytes: Uint8Array) => new Uint8Array(bytes);

export async function registrationOptions(
	origin: string,
	account: { readonly id: string; readonly email: string },
	existing: readonly PasskeyRow[],
	randomBytes: RandomBytes,
) {
	const { generateRegistrationOptions } = await library();
	return generateRegistrationOptions({
		rpName: "Capstan",
		rpID: new URL(origin).hostname,
		userID: copyOf(utf8ToBytes(account.id)),
		userName: account.email,
		challenge: copyOf(randomBytes(CHALLENGE_BYTES)),
		attestationType: "none",
		excludeCredentials: existing.map(({ credential_id, transports }) => ({
			id: credential_id,
			transports: JSON.parse(transports) as Transports,
		})),
		authenticatorSelection: { residentKey: "required", userVerification: "required" },
		supportedAlgorithmIDs: ALGORITHMS,
		timeout: CHALLENGE_LIFETIME_MS,
	});
}

export type NewPasskey = Pick<PasskeyRow, "credential_id" | "public_key" | "counter" | "transports">;

/**
 * @throws {Error} when the response does not match this challenge and origin, or the authenticator
 * did not verify its user
 */
export async function checkRegistration(
	origin: string,
	challenge: string,
	response: RegistrationResponseJSON,
): Promise<NewPasskey> {
	const { verifyRegistrationResponse } = await library();
	const { verified, registrationInfo } = await verifyRegistrationResponse({
		response,
		expectedChallenge: challenge,
		expectedOrigin: origin,
		expectedRPID: new URL(origin).hostname,
		requireUserVerification: true,
		supportedAlgorithmIDs: ALGORITHMS,
	});
	if (!verified) throw new Error("not verified");
	const { id, publicKey, counter, transports = [] } = registrationInfo.credential;
	return { credential_id: id, public_key: bytesToHex(publicKey), counter, transports: JSON.stringify(transports) };
}

/** Accepts any passkey of this host, so that people need not enter an address first. */
export async function authenticationOptions(origin: string, randomBytes: RandomBytes) {
	const { generateAuthenticationOptions } = await library();
	return generateAuthenticationOptions({
		rpID: new URL(origin).hostname,
		challenge: copyOf(randomBytes(CHALLENGE_BYTES)),
		allowCredentials: [],
		userVerification: "required",
		timeout: CHALLENGE_LIFETIME_MS,
	});
}

/**
 * @returns the authenticator's new counter
 * @throws {Error} as above, and when the counter decreased, which a cloned authenticator causes
 */
export async function checkAuthentication(
	origin: string,
	challenge: string,
	response: AuthenticationResponseJSON,
	passkey: PasskeyRow,
): Promise<number> {
	const { verifyAuthenticationResponse } = await library();
	const { verified, authenticationInfo } = await verifyAuthenticationResponse({
		response,
		expectedChallenge: challenge,
		expectedOrigin: origin,
		expectedRPID: new URL(origin).hostname,
		requireUserVerification: true,
		credential: {
			id: passkey.credential_id,
			publicKey: copyOf(hexToBytes(passkey.public_key)),
			counter: passkey.counter,
			transports: JSON.parse(passkey.transports) as Transports,
		},
	});
	if (!verified) throw new Error("not verified");
	return authenticationInfo.newCounter;
}
