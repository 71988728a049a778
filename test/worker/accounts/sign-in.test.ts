/**
 * Signing in with a code, a link and an invitation: each is valid once and for a limited time,
 * reveals no accounts, cannot be guessed, and gives an account that was used without proof back to
 * the owner of its address.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS, MINUTE_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { createAuthenticator } from "../support/authenticator";
import { invitedToken } from "../support/people";
import {
	askForCode,
	codeFor,
	OWN_PAGE,
	sessionOf,
	sessionTokenOf,
	signIn,
	signInLink,
	type TestSession,
} from "../support/sessions";
import { createTestMember, createWorld, ORIGIN, testEnv, type World } from "../support/world";

let world: World;

beforeEach(async () => {
	world = await createWorld();
});

const verify = (attempt: string, code: string, headers: Record<string, string> = OWN_PAGE) =>
	world.request("POST", "/sign-in/code/verify", { headers, body: { attempt, code } });
const wrong = (code: string | undefined) => (code === "111111" ? "222222" : "111111");
const FAILED = { status: 401, body: { error: "sign_in_failed", moreInfo: {} } };

describe("a code", () => {
	test("signs in once, in one round trip, within ten minutes, with its own attempt only", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const code = codeFor(world, world.adminEmail) ?? "";
		const other = await askForCode(world, world.adminEmail);
		expect(await verify(other, code)).toMatchObject(FAILED);
		world.clock.nowMs += 10 * MINUTE_MS;
		expect(await verify(attempt, code)).toMatchObject(FAILED);
		world.clock.nowMs -= 1;
		const racing = await Promise.all([verify(attempt, code), verify(attempt, code)]);
		expect(racing.map(({ status }) => status).sort()).toEqual([200, 401]);
		expect(racing.find(({ status }) => status === 200)?.trips).toBe(1);
		expect(await verify(attempt, code)).toMatchObject(FAILED);
	});

	test("is limited to five tries, also for concurrent tries", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const code = codeFor(world, world.adminEmail) ?? "";
		await Promise.all([1, 2, 3, 4].map(() => verify(attempt, wrong(code))));
		expect((await verify(attempt, code)).status).toBe(200);
		const second = await askForCode(world, world.adminEmail);
		await Promise.all([1, 2, 3, 4, 5].map(() => verify(second, wrong(code))));
		expect(await verify(second, codeFor(world, world.adminEmail) ?? "")).toMatchObject(FAILED);
	});

	test("is stored so that the database alone does not reveal it", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const code = codeFor(world, world.adminEmail) ?? "";
		const rows = JSON.stringify((await testEnv.DB.prepare("SELECT * FROM sign_in_attempts").all()).results);
		expect(rows).not.toContain(attempt);
		expect(rows).not.toContain(`"${code}"`);
		const plain = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(code)));
		expect(rows).not.toContain(Array.from(plain, (byte) => byte.toString(16).padStart(2, "0")).join(""));
	});

	test("is sent to accounts only, and responses, statements and limits do not reveal whether one exists", async () => {
		const ask = async (email: string) => {
			const { status, body, trips } = await world.request("POST", "/sign-in/code", {
				headers: OWN_PAGE,
				body: { email },
			});
			return { status, trips, fields: Object.keys(body), length: body.attempt.length };
		};
		const stranger = "nobody@example.com";
		expect(await ask(stranger)).toEqual(await ask(world.adminEmail));
		expect(world.deps.printed.filter((line) => line.includes(stranger))).toEqual([]);
		const { body } = await world.request("POST", "/sign-in/code", { headers: OWN_PAGE, body: { email: stranger } });
		const unknown = await verify(body.attempt, "123456");
		const known = await verify(await askForCode(world, world.adminEmail), wrong(codeFor(world, world.adminEmail)));
		expect({ ...unknown.body, requestId: "" }).toEqual({ ...known.body, requestId: "" });
		expect(unknown.trips).toBe(known.trips);
		const counts = await testEnv.DB.prepare(
			"SELECT count(*) AS attempts FROM sign_in_attempts WHERE email IN (?, ?) GROUP BY email",
		)
			.bind(stranger, world.adminEmail)
			.all();
		expect(counts.results).toEqual([{ attempts: 2 }, { attempts: 2 }]);
	});

	describe("limits", () => {
		const ask = (email = world.adminEmail, headers: Record<string, string> = {}) =>
			world.request("POST", "/sign-in/code", { headers: { ...OWN_PAGE, ...headers }, body: { email } });
		const from = (address: string) => ({ "cf-connecting-ip": address });
		const TOO_MANY = { status: 429, body: { error: "too_many_requests", moreInfo: { retryAfterSeconds: 600 } } };
		const statuses = async (answers: Promise<{ status: number }>[]) =>
			(await Promise.all(answers)).map(({ status }) => status).toSorted();

		test("allow one requester three codes in ten minutes, twenty a day, and none after twenty-five wrong ones", async () => {
			const sent = () => world.deps.printed.length;
			expect(await statuses([1, 2, 3, 4, 5].map(() => ask()))).toEqual([202, 202, 202, 429, 429]);
			expect(sent()).toBe(3);
			for (let round = 0; round < 17; round++) {
				world.clock.nowMs += 10 * MINUTE_MS;
				expect((await ask()).status).toBe(202);
			}
			world.clock.nowMs += 10 * MINUTE_MS;
			expect(await ask()).toMatchObject(TOO_MANY);
			expect(sent()).toBe(20);
			world.clock.nowMs += DAY_MS;
			for (let round = 0; round < 5; round++) {
				world.clock.nowMs += 10 * MINUTE_MS;
				const attempt = await askForCode(world, world.adminEmail);
				for (let count = 0; count < 5; count++) await verify(attempt, wrong(codeFor(world, world.adminEmail)));
			}
			world.clock.nowMs += 10 * MINUTE_MS;
			expect(await ask()).toMatchObject(TOO_MANY);
			expect(sent()).toBe(25);
			await runJobs(world.deps);
			world.clock.nowMs += DAY_MS;
			expect((await ask()).status).toBe(202);
		});

		test("do not reveal whether an account exists", async () => {
			for (const email of [world.adminEmail, "nobody@example.com"]) {
				expect(await statuses([1, 2, 3].map(() => ask(email)))).toEqual([202, 202, 202]);
				expect(await ask(email)).toMatchObject(TOO_MANY);
			}
		});

		test("count each network separately, and all strangers together up to ten codes in ten minutes", async () => {
			for (const network of ["192.0.2", "198.51.100", "203.0.113"]) {
				expect(await statuses([1, 2, 3, 4].map((host) => ask(undefined, from(`${network}.${host}`))))).toEqual([
					202, 202, 202, 429,
				]);
			}
			expect((await ask(undefined, from("2001:db8:1::1"))).status).toBe(202);
			expect(await ask(undefined, from("2001:db8:2::1"))).toMatchObject(TOO_MANY);
			expect((await ask("other@example.com", from("192.0.2.1"))).status).toBe(202);
		});

		test("let a browser that signed in with a code before get one, whatever strangers request and guess", async () => {
			const attempt = await askForCode(world, world.adminEmail);
			const first = await verify(attempt, codeFor(world, world.adminEmail) ?? "");
			const cookie = /__Host-capstan-known-browser=[^;]+/.exec(first.headers.get("set-cookie") ?? "")?.[0] ?? "";
			expect(first.headers.get("set-cookie")).toMatch(
				/known-browser=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=31536000/,
			);
			expect(cookie).not.toContain(world.adminEmail);
			for (let stranger = 0; stranger < 12; stranger++) await ask(undefined, from(`10.0.${stranger}.1`));
			expect(await ask(undefined, from("10.0.99.1"))).toMatchObject(TOO_MANY);

			expect(await statuses([1, 2, 3].map(() => ask(undefined, { cookie })))).toEqual([202, 202, 202]);
			expect(await ask(undefined, { cookie })).toMatchObject(TOO_MANY);
			// The cookie is valid for its address only, and cannot be forged.
			const other = await createTestMember(world, "org_member");
			for (let stranger = 0; stranger < 10; stranger++) await ask(other.email, from(`10.0.${stranger}.1`));
			const forged = `${cookie.slice(0, -1)}${cookie.endsWith("0") ? "1" : "0"}`;
			expect(await ask(other.email, { cookie })).toMatchObject(TOO_MANY);
			world.clock.nowMs += 10 * MINUTE_MS;
			for (let stranger = 0; stranger < 10; stranger++) await ask(undefined, from(`10.0.${stranger}.1`));
			expect(await ask(undefined, { cookie: forged })).toMatchObject(TOO_MANY);
			expect((await ask(undefined, { cookie })).status).toBe(202);
		});

		test("stop codes after a hundred wrong guesses a day by all strangers together", async () => {
			for (let round = 0; round < 20; round++) {
				const { body } = await ask(undefined, from(`10.0.${round}.1`));
				for (let count = 0; count < 5; count++) await verify(body.attempt, wrong(codeFor(world, world.adminEmail)));
				world.clock.nowMs += 10 * MINUTE_MS;
			}
			expect(await ask(undefined, from("10.0.99.1"))).toMatchObject(TOO_MANY);
		});
	});

	test("is refused by a deployment without mail, with an error that says so", async () => {
		const silent = await createWorld({ config: { CAPSTAN_MAIL_TO_TERMINAL: "" } });
		const answer = await silent.request("POST", "/sign-in/code", {
			headers: OWN_PAGE,
			body: { email: silent.adminEmail },
		});
		expect(answer).toMatchObject({ status: 404, body: { error: "sign_in_method_not_found" } });
		expect((await silent.request("GET", "/sign-in/methods")).body.code).toBe(false);
	});

	test.each([
		["resend", "https://api.resend.com/emails", "authorization", "Bearer mail-key"],
		["postmark", "https://api.postmarkapp.com/email", "x-postmark-server-token", "mail-key"],
	])("is sent through %s after the response, and a failure is only logged", async (provider, url, header, value) => {
		const calls: { url: string; init: RequestInit }[] = [];
		const config = { MAIL_PROVIDER: provider, MAIL_FROM: "Capstan <updates@example.com>", MAIL_API_KEY: "mail-key" };
		const fetch = async (to: string, init: RequestInit) => {
			calls.push({ url: to, init });
			return new Response("{}", { status: calls.length === 1 ? 200 : 500 });
		};
		const mailing = await createWorld({ config, bindings: { fetch } });
		const ask = () =>
			mailing.request("POST", "/sign-in/code", { headers: OWN_PAGE, body: { email: mailing.adminEmail } });
		expect((await ask()).status).toBe(202);
		expect(calls).toHaveLength(1);
		expect(calls[0]?.url).toBe(url);
		expect(new Headers(calls[0]?.init.headers).get(header)).toBe(value);
		expect(String(calls[0]?.init.body)).toMatch(/\d{6} is your sign-in code/);
		expect(String(calls[0]?.init.body)).toContain(mailing.adminEmail);
		expect(mailing.deps.printed).toEqual([]);
		expect((await ask()).status).toBe(202);
	});
});

describe("a sign-in link", () => {
	test("signs in once, until it expires", async () => {
		const enter = (token: string) => world.request("POST", "/sign-in/link", { headers: OWN_PAGE, body: { token } });
		const token = await signInLink(world);
		world.clock.nowMs += 60_000;
		expect(await enter(token)).toMatchObject(FAILED);
		world.clock.nowMs -= 1;
		const racing = await Promise.all([enter(token), enter(token)]);
		expect(racing.map(({ status }) => status).sort()).toEqual([200, 401]);
		expect(await enter(token)).toMatchObject(FAILED);
		expect(await enter(await signInLink(await createWorld()))).toMatchObject({ status: 200 });
	});
});

describe("an invitation", () => {
	const invited = (email: string, through = world) => invitedToken(through, email, "org_admin");
	const accept = (token: string, headers: Record<string, string> = OWN_PAGE, sign_in = true) =>
		world.request("POST", "/invitation/accept", { headers, body: { token, sign_in } });
	const fresh = () => `${crypto.randomUUID()}@example.com`;

	test("signs in to a new account from the service's own page only, and returns the key", async () => {
		const email = fresh();
		const token = await invited(email);
		expect((await accept(token, {})).status).toBe(403);
		const answer = await accept(token);
		expect(answer).toMatchObject({
			status: 201,
			trips: 2,
			body: { signed_in: true, api_key: { key: expect.stringMatching(/^cap_/) } },
		});
		const mine = sessionOf(sessionTokenOf(answer.headers) ?? "");
		expect((await world.request("GET", "/account", mine)).body).toMatchObject({ email, email_verified: false });
		const readable = await world.request("GET", "/organization", mine);
		expect(readable.body).toMatchObject([{ id: world.orgId }]);
	});

	test("returns a key and no session to other callers", async () => {
		const answer = await accept(await invited(fresh()), {}, false);
		expect(answer).toMatchObject({ status: 201, body: { signed_in: false } });
		expect(answer.headers.get("set-cookie")).toBeNull();
	});

	test("does not sign in to an existing account, because the inviter has the link as well", async () => {
		const elsewhere = await createWorld();
		const answer = await accept(await invited(elsewhere.adminEmail));
		expect(answer).toMatchObject({ status: 401, body: { error: "sign_in_required" } });
		expect(answer.headers.get("set-cookie")).toBeNull();
	});

	test("gives nothing to an existing unverified account unless its user accepts it", async () => {
		const email = fresh();
		const squatter = sessionOf(sessionTokenOf((await accept(await invited(email))).headers) ?? "");
		const other = await createWorld();
		const token = await invited(email, other);
		expect(await accept(token)).toMatchObject({ status: 401, body: { error: "sign_in_required" } });
		expect(await accept(token, {}, false)).toMatchObject({ status: 401, body: { error: "sign_in_required" } });
		const own = await accept(token, squatter.headers);
		expect(own).toMatchObject({ status: 201, body: { signed_in: true } });
	});

	test("lets the address's owner remove earlier users with their passkeys, and keeps those of a signed-in user", async () => {
		const email = fresh();
		const join = async () => sessionOf(sessionTokenOf((await accept(await invited(email))).headers) ?? "");
		const squatter = await join();
		const register = async (by: TestSession) => {
			const { body } = await world.request("POST", "/account/passkey-options", { headers: by.headers, body: {} });
			const credential = await (await createAuthenticator(ORIGIN)).create(body.options);
			const made = { attempt: body.attempt, name: "x", credential };
			return (await world.request("POST", "/account/passkeys", { headers: by.headers, body: made })).status;
		};
		expect(await register(squatter)).toBe(201);
		const owner = await signIn(world, email);
		expect((await world.request("GET", "/account", squatter)).status).toBe(401);
		expect((await world.request("GET", "/account", owner)).body).toMatchObject({ email_verified: true, passkeys: 0 });

		// A proof from a signed-in browser of the account removes nothing, and neither does any later
		// proof.
		const second = fresh();
		const user = sessionOf(sessionTokenOf((await accept(await invited(second))).headers) ?? "");
		expect(await register(user)).toBe(201);
		const proved = await signIn(world, second, user.headers);
		expect((await world.request("GET", "/account", proved)).body).toMatchObject({ email_verified: true, passkeys: 1 });
		await signIn(world, second);
		expect((await world.request("GET", "/account", proved)).body).toMatchObject({ passkeys: 1 });
	});
});
