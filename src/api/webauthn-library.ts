/**
 * The part of the library of passkeys that is used, by name, so that the rest is left out of the Worker. Imported by webauthn.ts when
 * somebody uses a passkey and not before.
 */
export {
	generateAuthenticationOptions,
	generateRegistrationOptions,
	verifyAuthenticationResponse,
	verifyRegistrationResponse,
} from "@simplewebauthn/server";
