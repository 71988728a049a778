/**
 * One request for every endpoint of signing in and of one's own account; each makes what it needs
 * and gives back a request that succeeds once. A new endpoint that is for sessions alone needs an
 * entry here: the coverage test fails and names it. Made by requests, and by what `People` has, so
 * that they are the same in workerd and against the running product.
 */
import { createAuthenticator } from "./authenticator";
import type { PreparedRequest } from "./request-parts";
import { createTestMember, type Scene } from "./scene";

/** A scene in which people can be reached. */
export interface People extends Scene {
	readonly origin: string;
	/** Name of the session cookie. */
	readonly cookieName: string;
	/** The code that went to the address last, for this attempt. */
	codeSentTo(email: string, attempt: string): Promise<string>;
	/** The token of a link that signs the administrator in once. */
	linkToken(): Promise<string>;
	/** Makes the account known at GitHub, where nobody signs in by requests. */
	linkProvider(uid: string): Promise<void>;
}

type Prepare = (world: People) => Promise<PreparedRequest>;
let counter = 0;

const ownPage = ({ origin }: People) => ({ origin, "sec-fetch-site": "same-origin" });

async function askForCode(world: People, email: string) {
	const { body } = await world.request("POST", "/sign-in/code", { headers: ownPage(world), body: { email } });
	return { attempt: body.attempt as string, code: await world.codeSentTo(email, body.attempt) };
}

async function signIn(world: People, email: string): Promise<Record<string, string>> {
	const headers = ownPage(world);
	const body = await askForCode(world, email);
	const answer = await world.request("POST", "/sign-in/code/verify", { headers, body });
	const token = /=(ses_\w+)/.exec(answer.headers.get("set-cookie") ?? "")?.[1];
	if (token === undefined) throw new Error(`not signed in: ${JSON.stringify(answer.body)}`);
	return { ...headers, cookie: `${world.cookieName}=${token}` };
}

async function someone(world: People) {
	const { email } = await createTestMember(world, "org_member");
	return { email, headers: await signIn(world, email) };
}

async function madePasskey(world: People) {
	const { headers } = await someone(world);
	const authenticator = await createAuthenticator(world.origin);
	const { body } = await world.request("POST", "/account/passkey-options", { headers, body: {} });
	const credential = await authenticator.create(body.options);
	const made = { attempt: body.attempt, name: "phone", credential };
	const { body: passkey } = await world.request("POST", "/account/passkeys", { headers, body: made });
	return { headers, authenticator, id: passkey.id as string };
}

export const SESSION_REQUESTS: Readonly<Record<string, Prepare>> = {
	"GET /sign-in/methods": async () => ({ path: "/sign-in/methods" }),
	"POST /sign-in/code": async (world) => ({
		path: "/sign-in/code",
		headers: ownPage(world),
		body: { email: (await createTestMember(world, "org_member")).email },
	}),
	"POST /sign-in/code/verify": async (world) => {
		const { email } = await createTestMember(world, "org_member");
		return { path: "/sign-in/code/verify", headers: ownPage(world), body: await askForCode(world, email) };
	},
	"POST /sign-in/link": async (world) => ({
		path: "/sign-in/link",
		headers: ownPage(world),
		body: { token: await world.linkToken() },
	}),
	"POST /sign-in/passkey/options": async (world) => ({
		path: "/sign-in/passkey/options",
		headers: ownPage(world),
		body: {},
	}),
	"POST /sign-in/passkey": async (world) => {
		const { authenticator } = await madePasskey(world);
		const { body } = await world.request("POST", "/sign-in/passkey/options", { headers: ownPage(world), body: {} });
		const credential = await authenticator.get(body.options);
		return { path: "/sign-in/passkey", headers: ownPage(world), body: { attempt: body.attempt, credential } };
	},
	"POST /sign-out": async (world) => ({ path: "/sign-out", headers: (await someone(world)).headers }),
	"GET /account": async (world) => ({ path: "/account", headers: (await someone(world)).headers }),
	"POST /account/email": async (world) => ({
		path: "/account/email",
		headers: (await someone(world)).headers,
		body: { email: `new${++counter}@example.com` },
	}),
	"PUT /account/email": async (world) => {
		const { headers } = await someone(world);
		const email = `newer${++counter}@example.com`;
		const { body } = await world.request("POST", "/account/email", { headers, body: { email } });
		const code = await world.codeSentTo(email, body.attempt);
		return { path: "/account/email", headers, body: { attempt: body.attempt, email, code } };
	},
	"GET /account/mails": async (world) => ({ path: "/account/mails", headers: (await someone(world)).headers }),
	"PUT /account/mails": async (world) => {
		const { email } = await createTestMember(world, "org_admin");
		const body = { org_id: world.orgId, events: ["rollout.paused"] };
		return { path: "/account/mails", headers: await signIn(world, email), body };
	},
	"GET /account/sessions": async (world) => ({ path: "/account/sessions", headers: (await someone(world)).headers }),
	"DELETE /account/sessions/:id": async (world) => {
		const { email, headers } = await someone(world);
		await signIn(world, email);
		const { body } = await world.request("GET", "/account/sessions", { headers });
		const other = body.find((one: { current: boolean }) => !one.current);
		return { path: `/account/sessions/${other.id}`, headers };
	},
	"DELETE /account/sessions": async (world) => ({ path: "/account/sessions", headers: (await someone(world)).headers }),
	"GET /account/passkeys": async (world) => ({ path: "/account/passkeys", headers: (await someone(world)).headers }),
	"POST /account/passkey-options": async (world) => ({
		path: "/account/passkey-options",
		headers: (await someone(world)).headers,
		body: {},
	}),
	"POST /account/passkeys": async (world) => {
		const { headers } = await someone(world);
		const authenticator = await createAuthenticator(world.origin);
		const { body } = await world.request("POST", "/account/passkey-options", { headers, body: {} });
		const credential = await authenticator.create(body.options);
		return { path: "/account/passkeys", headers, body: { attempt: body.attempt, name: "phone", credential } };
	},
	"PUT /account/passkeys/:id": async (world) => {
		const { headers, id } = await madePasskey(world);
		return { path: `/account/passkeys/${id}`, headers, body: { name: `renamed ${++counter}` } };
	},
	"DELETE /account/passkeys/:id": async (world) => {
		const { headers, id } = await madePasskey(world);
		return { path: `/account/passkeys/${id}`, headers };
	},
	"GET /account/providers": async (world) => ({ path: "/account/providers", headers: (await someone(world)).headers }),
	"DELETE /account/providers/:provider": async (world) => {
		const { headers } = await someone(world);
		const { body } = await world.request("GET", "/account", { headers });
		await world.linkProvider(body.uid);
		return { path: "/account/providers/github", headers };
	},
	"GET /account/log": async (world) => ({ path: "/account/log", headers: (await someone(world)).headers }),
	"DELETE /account": async (world) => ({ path: "/account", headers: (await someone(world)).headers }),
};
