/**
 * Somebody who is signed in, by requests alone: the code is taken from the terminal that the
 * world's mail goes to. Requests of a session say that they come from the service's own pages, as a
 * browser does.
 */
import { mintSignInLinkToken } from "../../../src/authz/secrets";
import { createAuthenticator } from "./authenticator";
import type { People } from "./session-requests";
import { ORIGIN, testEnv, type World } from "./world";

export interface TestSession {
	readonly token: string;
	/** Request headers of the browser. */
	readonly headers: Readonly<Record<string, string>>;
}

export const OWN_PAGE = { origin: ORIGIN, "sec-fetch-site": "same-origin" } as const;

/** The token in an answer's Set-Cookie; undefined when it sets none. */
export function sessionTokenOf(headers: Headers): string | undefined {
	return /__Host-capstan-session=(ses_\w+)/.exec(headers.get("set-cookie") ?? "")?.[1];
}

export function sessionOf(token: string): TestSession {
	return { token, headers: { ...OWN_PAGE, cookie: `__Host-capstan-session=${token}` } };
}

/** The code in the last mail to the address. */
export function codeFor(world: World, email: string): string | undefined {
	const mail = world.deps.printed.findLast((line) => line.startsWith(`Mail to ${email}: `));
	return mail === undefined ? undefined : /: (\d{6}) /.exec(mail)?.[1];
}

/** Asks for a code; the attempt. */
export async function askForCode(world: World, email: string): Promise<string> {
	const { status, body } = await world.request("POST", "/sign-in/code", { headers: OWN_PAGE, body: { email } });
	if (status !== 202) throw new Error(`no code: ${JSON.stringify(body)}`);
	return body.attempt;
}

export async function signIn(world: World, email = world.adminEmail, headers: Record<string, string> = OWN_PAGE) {
	const attempt = await askForCode(world, email);
	const body = { attempt, code: codeFor(world, email) ?? "" };
	const answer = await world.request("POST", "/sign-in/code/verify", { headers, body });
	const token = sessionTokenOf(answer.headers);
	if (answer.status !== 200 || token === undefined) throw new Error(`not signed in: ${JSON.stringify(answer.body)}`);
	return sessionOf(token);
}

/** Adds a passkey to the session's account and signs in with it. */
export async function signInByPasskey(world: World, by: TestSession): Promise<TestSession> {
	const authenticator = await createAuthenticator(ORIGIN);
	const send = async (path: string, body: object, headers: TestSession["headers"]) => {
		const answer = await world.request("POST", path, { headers, body });
		if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
		return answer;
	};
	const wanted = (await send("/account/passkey-options", {}, by.headers)).body;
	const credential = await authenticator.create(wanted.options);
	await send("/account/passkeys", { attempt: wanted.attempt, name: "Test passkey", credential }, by.headers);
	const begun = (await send("/sign-in/passkey/options", {}, OWN_PAGE)).body;
	const assertion = await authenticator.get(begun.options);
	const answer = await send("/sign-in/passkey", { attempt: begun.attempt, credential: assertion }, OWN_PAGE);
	return sessionOf(sessionTokenOf(answer.headers) ?? "");
}

/**
 * The token of a link that signs the administrator in once, as the operator's command line makes
 * it.
 */
export async function signInLink(world: World, expiresAtMs = world.clock.nowMs + 60_000): Promise<string> {
	const { text, hash } = mintSignInLinkToken(world.deps.randomBytes);
	await testEnv.DB.prepare(
		"INSERT INTO sign_in_links (token_hash, user_id, created_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)",
	)
		.bind(hash, world.userId, world.clock.nowMs, expiresAtMs)
		.run();
	return text;
}

/** As signing in there does it. */
export async function linkProvider(world: World, provider: string, uid = world.userId): Promise<void> {
	await testEnv.DB.prepare("INSERT INTO identities (provider, subject, user_id, created_at_ms) VALUES (?, ?, ?, ?)")
		.bind(provider, crypto.randomUUID(), uid, world.clock.nowMs)
		.run();
}

/** The world as those requests want it. */
export const peopleOf = (world: World): People => ({
	...world,
	origin: ORIGIN,
	cookieName: "__Host-capstan-session",
	codeSentTo: async (email) => codeFor(world, email) ?? "",
	linkToken: () => signInLink(world),
	linkProvider: (uid) => linkProvider(world, "github", uid),
});
