/**
 * A deployment with GitHub and an OpenID provider, both played by a fake that signs real ID tokens,
 * and the browser of a person who signs in. All state belongs to the running test; tests change the
 * person, the issuer and its metadata.
 */
import { createWorld, type World } from "../support/world";

export const ISSUER = "https://id.example.com";
export const CONFIG = {
	GITHUB_CLIENT_ID: "github-client",
	GITHUB_CLIENT_SECRET: "github-secret",
	OIDC_ISSUER: ISSUER,
	OIDC_NAME: "Example ID",
	OIDC_CLIENT_ID: "oidc-client",
	OIDC_CLIENT_SECRET: "oidc-secret",
};
export type Provider = "github" | "oidc";
/** The `provider` column of the identities. */
export const IDENTITY = { github: "github", oidc: `oidc ${ISSUER}` };

interface Person {
	subject: string;
	email: string;
	verified: boolean;
	/** Claims that override the valid ones of the ID token. */
	claims?: Record<string, unknown>;
}

const base64url = (bytes: Uint8Array) =>
	btoa(String.fromCharCode(...bytes))
		.replaceAll("+", "-")
		.replaceAll("/", "_")
		.replaceAll("=", "");
const encoded = (value: unknown) => base64url(new TextEncoder().encode(JSON.stringify(value)));

let pair: CryptoKeyPair;
let foreign: CryptoKeyPair;
export let world: World;
/** The provider that responds, and the person who signs in; a test may change each. */
export const fake = {
	issuer: ISSUER,
	person: { subject: "", email: "", verified: true } as Person,
	/** Optional fields of the provider's metadata. */
	metadata: {} as Record<string, unknown>,
	/** True: ID tokens are signed with a key that the provider does not publish. */
	signsForeign: false,
	/** Values of the flow that began last. */
	nonce: "",
	challenge: "",
};
/** The client authentications that the token endpoint received. */
export let authentications: string[];

/** For `beforeAll`. */
export async function createProviderKeys(): Promise<void> {
	const make = () =>
		crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
			"sign",
			"verify",
		]) as Promise<CryptoKeyPair>;
	[pair, foreign] = [await make(), await make()];
}

async function idToken(): Promise<string> {
	const now = Math.floor(Date.now() / 1000);
	const claims = {
		iss: fake.issuer,
		aud: CONFIG.OIDC_CLIENT_ID,
		sub: fake.person.subject,
		iat: now,
		exp: now + 300,
		nonce: fake.nonce,
		email: fake.person.email,
		email_verified: fake.person.verified,
		...fake.person.claims,
	};
	const signed = `${encoded({ alg: "ES256", kid: "one" })}.${encoded(claims)}`;
	const signature = await crypto.subtle.sign(
		{ name: "ECDSA", hash: "SHA-256" },
		(fake.signsForeign ? foreign : pair).privateKey,
		new TextEncoder().encode(signed),
	);
	return `${signed}.${base64url(new Uint8Array(signature))}`;
}

async function answerOf(url: URL, init: RequestInit): Promise<Response> {
	switch (`${url.origin}${url.pathname}`) {
		case `${fake.issuer}/.well-known/openid-configuration`:
			return Response.json({
				issuer: fake.issuer,
				authorization_endpoint: `${fake.issuer}/authorize`,
				token_endpoint: `${fake.issuer}/token`,
				jwks_uri: `${fake.issuer}/jwks`,
				id_token_signing_alg_values_supported: ["ES256"],
				...fake.metadata,
			});
		case `${fake.issuer}/jwks`: {
			const jwk = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
			return Response.json({ keys: [{ ...jwk, kid: "one", alg: "ES256", use: "sig" }] });
		}
		case `${fake.issuer}/token`:
		case "https://github.com/login/oauth/access_token": {
			const body = new URLSearchParams(String(init.body));
			const inHeader = new Headers(init.headers).get("authorization");
			authentications.push(`${url.hostname} ${inHeader ?? body.get("client_secret")}`);
			const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body.get("code_verifier") ?? ""));
			if (body.get("code") !== "good" || base64url(new Uint8Array(digest)) !== fake.challenge) {
				return Response.json({ error: "invalid_grant" }, { status: 400 });
			}
			const isGitHub = url.hostname === "github.com";
			return Response.json({
				access_token: "access",
				token_type: "bearer",
				...(isGitHub ? {} : { id_token: await idToken() }),
			});
		}
		case "https://api.github.com/user":
			return Response.json({ id: Number(fake.person.subject), login: "ada" });
		case "https://api.github.com/user/emails":
			return Response.json([
				{ email: "other@example.com", primary: false, verified: true },
				{ email: fake.person.email, primary: true, verified: fake.person.verified },
			]);
		default:
			return new Response("not here", { status: 404 });
	}
}

export async function begin(provider: Provider, next?: string) {
	const answer = await world.request("GET", `/sign-in/provider/${provider}`, {
		...(next === undefined ? {} : { query: { next } }),
	});
	const url = new URL(answer.headers.get("location") ?? "");
	fake.nonce = url.searchParams.get("nonce") ?? "";
	fake.challenge = url.searchParams.get("code_challenge") ?? "";
	const cookie = /__Host-capstan-provider=[0-9a-f.]+/.exec(answer.headers.get("set-cookie") ?? "")?.[0] ?? "";
	return { answer, url, cookie, state: url.searchParams.get("state") ?? "" };
}

export const comeBack = (
	provider: Provider,
	query: Record<string, string>,
	cookie: string,
	client: Pick<World, "request"> = world,
) => client.request("GET", `/sign-in/provider/${provider}/callback`, { query, headers: { cookie } });

export async function enter(provider: Provider, next?: string) {
	const { cookie, state } = await begin(provider, next);
	return comeBack(provider, { code: "good", state }, cookie);
}

/** A new world with the providers; a test may start another one. */
export async function startWorld(config: Readonly<Record<string, string>> = {}): Promise<void> {
	world = await createWorld({
		config: { ...CONFIG, ...config },
		bindings: { fetch: (url, init) => answerOf(new URL(String(url)), init) },
	});
}

/** For `beforeEach`. */
export async function prepareProvider(): Promise<void> {
	authentications = [];
	Object.assign(fake, { issuer: ISSUER, metadata: {}, signsForeign: false });
	await startWorld();
	fake.person = { subject: String(Math.floor(Math.random() * 1e9)), email: world.adminEmail, verified: true };
}
