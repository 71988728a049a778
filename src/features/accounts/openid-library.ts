/**
 * Named exports of oauth4webapi, so that the bundler drops the rest of the library. openid.ts
 * imports this file on the first sign-in with a provider.
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
