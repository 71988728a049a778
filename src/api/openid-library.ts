/**
 * The part of the library of OAuth and OpenID Connect that is used, by name, so that the rest is left out of the Worker. Imported by
 * openid.ts when somebody signs in with a provider and not before.
 */
export {
	authorizationCodeGrantRequest,
	ClientSecretBasic,
	ClientSecretPost,
	calculatePKCECodeChallenge,
	customFetch,
	discoveryRequest,
	generateRandomCodeVerifier,
	generateRandomNonce,
	generateRandomState,
	getValidatedIdTokenClaims,
	processAuthorizationCodeResponse,
	processDiscoveryResponse,
	protectedResourceRequest,
	validateApplicationLevelSignature,
	validateAuthResponse,
} from "oauth4webapi";
