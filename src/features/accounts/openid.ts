/**
 * Identifies a person at a provider with OAuth 2.0 and PKCE, and with OpenID Connect's nonce if the
 * provider supports it. The library is loaded on the first such sign-in. An address counts only if
 * the provider reports it as verified.
 */
import type { AuthorizationServer, Client } from "oauth4webapi";
import type { ProviderConfig } from "../../config";
import type { Deps } from "../../deps";

const library = () => import("./openid-library");
type Library = Awaited<ReturnType<typeof library>>;

/**
 * The state that a provider's response is checked with; only the browser that started the flow has
 * it, sealed in its cookie.
 */
export interface ProviderFlow {
	readonly provider: string;
	readonly state: string;
	readonly verifier: string;
	readonly nonce: string;
	readonly next: string | undefined;
	readonly expiresAtMs: number;
}

export interface ProviderAccount {
	readonly subject: string;
	/** Undefined: the provider reports no verified address. */
	readonly verifiedEmail: string | undefined;
}

/**
 * GitHub does not support OpenID discovery, so its endpoints are fixed, and its API identifies the
 * person.
 */
const GITHUB: AuthorizationServer = {
	issuer: "https://github.com",
	authorization_endpoint: "https://github.com/login/oauth/authorize",
	token_endpoint: "https://github.com/login/oauth/access_token",
};
const GITHUB_API = "https://api.github.com";

const redirectUri = (origin: string, id: string) => `${origin}/sign-in/provider/${id}/callback`;

async function serverOf(oauth: Library, provider: ProviderConfig, fetch: Deps["fetch"]): Promise<AuthorizationServer> {
	if (provider.id === "github") return GITHUB;
	const issuer = new URL(provider.issuer);
	const response = await oauth.discoveryRequest(issuer, { [oauth.customFetch]: fetch as never });
	return oauth.processDiscoveryResponse(issuer, response);
}

/**
 * Sends the client secret in the request body if the provider supports that, otherwise in the
 * header, which every provider must support.
 */
function authentication(oauth: Library, server: AuthorizationServer, secret: string) {
	const { token_endpoint_auth_methods_supported: methods = server === GITHUB ? ["client_secret_post"] : [] } = server;
	return methods.includes("client_secret_post") ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret);
}

/** The URL to redirect the browser to, and the state to check the response with. */
export async function beginProviderFlow(
	provider: ProviderConfig,
	origin: string,
	next: string | undefined,
	{ fetch }: Pick<Deps, "fetch">,
	expiresAtMs: number,
): Promise<{ readonly url: string; readonly flow: ProviderFlow }> {
	const oauth = await library();
	const server = await serverOf(oauth, provider, fetch);
	if (server.authorization_endpoint === undefined) throw new Error("the provider names no authorization_endpoint");
	const flow: ProviderFlow = {
		provider: provider.id,
		state: oauth.generateRandomState(),
		verifier: oauth.generateRandomCodeVerifier(),
		nonce: oauth.generateRandomNonce(),
		next,
		expiresAtMs,
	};
	const url = new URL(server.authorization_endpoint);
	const parameters = {
		client_id: provider.clientId,
		redirect_uri: redirectUri(origin, provider.id),
		response_type: "code",
		scope: provider.id === "github" ? "user:email" : "openid email",
		state: flow.state,
		code_challenge: await oauth.calculatePKCECodeChallenge(flow.verifier),
		code_challenge_method: "S256",
		...(provider.id === "github" ? {} : { nonce: flow.nonce }),
	};
	for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
	return { url: url.href, flow };
}

/**
 * The account that the provider reports.
 * @throws {Error} when the response does not belong to this flow, or the provider refuses it
 */
export async function finishProviderFlow(
	provider: ProviderConfig,
	origin: string,
	flow: ProviderFlow,
	answer: URL,
	{ fetch }: Pick<Deps, "fetch">,
): Promise<ProviderAccount> {
	const oauth = await library();
	const server = await serverOf(oauth, provider, fetch);
	const client: Client = { client_id: provider.clientId };
	const options = { [oauth.customFetch]: fetch as never };
	const parameters = oauth.validateAuthResponse(server, client, answer, flow.state);
	const response = await oauth.authorizationCodeGrantRequest(
		server,
		client,
		authentication(oauth, server, provider.clientSecret),
		parameters,
		redirectUri(origin, provider.id),
		flow.verifier,
		options,
	);
	if (provider.id === "github") {
		const { access_token } = await oauth.processAuthorizationCodeResponse(server, client, response);
		return gitHubAccount(oauth, access_token, fetch);
	}
	const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
		expectedNonce: flow.nonce,
		requireIdToken: true,
	});
	const claims = oauth.getValidatedIdTokenClaims(tokens);
	if (claims === undefined) throw new Error("the provider sent no ID token");
	await oauth.validateApplicationLevelSignature(server, response, options);
	const { sub, email, email_verified } = claims;
	const isVerified = email_verified === true && typeof email === "string";
	return { subject: sub, verifiedEmail: isVerified ? email : undefined };
}

async function gitHubAccount(oauth: Library, token: string, fetch: Deps["fetch"]): Promise<ProviderAccount> {
	const read = async (path: string) => {
		const headers = new Headers({ accept: "application/vnd.github+json", "user-agent": "capstan" });
		const options = { [oauth.customFetch]: fetch as never };
		const url = new URL(path, GITHUB_API);
		const response = await oauth.protectedResourceRequest(token, "GET", url, headers, null, options);
		if (!response.ok) throw new Error(`GitHub answered ${response.status}`);
		return response.json();
	};
	const { id } = (await read("/user")) as { id?: unknown };
	if (typeof id !== "number") throw new Error("GitHub names nobody");
	const addresses = (await read("/user/emails")) as { email: string; primary: boolean; verified: boolean }[];
	const primary = addresses.find((address) => address.primary && address.verified);
	// The numeric id, because another person can take a login name that was given up.
	return { subject: String(id), verifiedEmail: primary?.email };
}
