/**
 * One request for every endpoint of signing in and of one's own account; each makes what it needs and gives back a request that succeeds
 * once. A new endpoint that is for sessions alone needs an entry here: the coverage test fails and names it.
 */
import { createAuthenticator } from "./authenticator";
import type { PreparedRequest } from "./requests";
import { createTestMember } from "./scene";
import { askForCode, codeFor, OWN_PAGE, signIn, signInLink } from "./sessions";
import { ORIGIN, type World } from "./world";

type Prepare = (world: World) => Promise<PreparedRequest>;
let counter = 0;

async function someone(world: World) {
	const { email } = await createTestMember(world, "org_member");
	return { email, headers: (await signIn(world, email)).headers };
}

async function madePasskey(world: World) {
	const { headers } = await someone(world);
	const authenticator = await createAuthenticator(ORIGIN);
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
		headers: OWN_PAGE,
		body: { email: (await createTestMember(world, "org_member")).email },
	}),
	"POST /sign-in/code/verify": async (world) => {
		const { email } = await createTestMember(world, "org_member");
		const attempt = await askForCode(world, email);
		return { path: "/sign-in/code/verify", headers: OWN_PAGE, body: { attempt, code: codeFor(world, email) } };
	},
	"POST /sign-in/link": async (world) => ({
		path: "/sign-in/link",
		headers: OWN_PAGE,
		body: { token: await signInLink(world) },
	}),
	"POST /sign-in/passkey/options": async () => ({ path: "/sign-in/passkey/options", headers: OWN_PAGE, body: {} }),
	"POST /sign-in/passkey": async (world) => {
		const { authenticator } = await madePasskey(world);
		const { body } = await world.request("POST", "/sign-in/passkey/options", { headers: OWN_PAGE, body: {} });
		const credential = await authenticator.get(body.options);
		return { path: "/sign-in/passkey", headers: OWN_PAGE, body: { attempt: body.attempt, credential } };
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
		return { path: "/account/email", headers, body: { attempt: body.attempt, email, code: codeFor(world, email) } };
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
		const authenticator = await createAuthenticator(ORIGIN);
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
	"GET /account/log": async (world) => ({ path: "/account/log", headers: (await someone(world)).headers }),
	"DELETE /account": async (world) => ({ path: "/account", headers: (await someone(world)).headers }),
};
