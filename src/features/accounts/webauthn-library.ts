/**
 * Named exports of @simplewebauthn/server, so that the bundler drops the rest of the library.
 * webauthn.ts imports this file on the first use of a passkey.
 */
export {
	generateAuthenticationOptions,
	generateRegistrationOptions,
	verifyAuthenticationResponse,
	verifyRegistrationResponse,
} from "@simplewebauthn/server";
