/**
 * Signing in with a code, with a link, through an invitation: each once, in time, and so that nobody learns who has an account, nobody
 * guesses a code, and nobody who only had a link shares an account with whoever the address belongs to.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { sweep } from "../../src/events/sweep";
import { createAuthenticator } from "./support/authenticator";
import { readThenWrite } from "./support/interleave";
import {
	askForCode,
	codeFor,
	OWN_PAGE,
	sessionOf,
	sessionTokenOf,
	signIn,
	signInLink,
	type TestSession,
} from "./support/sessions";
import {
	createTestApp,
	createTestMember,
	createWorld,
	makeOperator,
	ORIGIN,
	testEnv,
	tokenOf,
	type World,
} from "./support/world";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

let world: World;
beforeEach(async () => {
	world = await createWorld();
});

const verify = (attempt: string, code: string, headers: Record<string, string> = OWN_PAGE) =>
	world.request("POST", "/sign-in/code/verify", { headers, body: { attempt, code } });
const wrong = (code: string | undefined) => (code === "111111" ? "222222" : "111111");
const FAILED = { status: 401, body: { error: "sign_in_failed", moreInfo: {} } };

describe("a code", () => {
	test("signs in once, in one round trip, until ten minutes have passed, with its own attempt alone", async () => {
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

	test("bears five tries, also when they come at once", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const code = codeFor(world, world.adminEmail) ?? "";
		await Promise.all([1, 2, 3, 4].map(() => verify(attempt, wrong(code))));
		expect((await verify(attempt, code)).status).toBe(200);
		const second = await askForCode(world, world.adminEmail);
		await Promise.all([1, 2, 3, 4, 5].map(() => verify(second, wrong(code))));
		expect(await verify(second, codeFor(world, world.adminEmail) ?? "")).toMatchObject(FAILED);
	});

	test("is kept so that the database alone does not give it away", async () => {
		const attempt = await askForCode(world, world.adminEmail);
		const code = codeFor(world, world.adminEmail) ?? "";
		const rows = JSON.stringify((await testEnv.DB.prepare("SELECT * FROM sign_in_attempts").all()).results);
		expect(rows).not.toContain(attempt);
		expect(rows).not.toContain(`"${code}"`);
		const plain = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(code)));
		expect(rows).not.toContain(Array.from(plain, (byte) => byte.toString(16).padStart(2, "0")).join(""));
	});

	test("goes to accounts alone, and neither answer, statements nor limits tell whether there is one", async () => {
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

	describe("is sent so often only", () => {
		const ask = (email = world.adminEmail, headers: Record<string, string> = {}) =>
			world.request("POST", "/sign-in/code", { headers: { ...OWN_PAGE, ...headers }, body: { email } });
		const from = (address: string) => ({ "cf-connecting-ip": address });
		const TOO_MANY = { status: 429, body: { error: "too_many_requests", moreInfo: { retryAfterSeconds: 600 } } };
		const statuses = async (answers: Promise<{ status: number }>[]) =>
			(await Promise.all(answers)).map(({ status }) => status).toSorted();

		test("to one who asks: three times in ten minutes, twenty times a day, and not after twenty-five wrong ones", async () => {
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
			await sweep(world.deps);
			world.clock.nowMs += DAY_MS;
			expect((await ask()).status).toBe(202);
		});

		test("and nobody is told by that whether there is an account", async () => {
			for (const email of [world.adminEmail, "nobody@example.com"]) {
				expect(await statuses([1, 2, 3].map(() => ask(email)))).toEqual([202, 202, 202]);
				expect(await ask(email)).toMatchObject(TOO_MANY);
			}
		});

		test("to each network by itself, and to all strangers together ten times in ten minutes", async () => {
			for (const network of ["192.0.2", "198.51.100", "203.0.113"]) {
				expect(await statuses([1, 2, 3, 4].map((host) => ask(undefined, from(`${network}.${host}`))))).toEqual([
					202, 202, 202, 429,
				]);
			}
			expect((await ask(undefined, from("2001:db8:1::1"))).status).toBe(202);
			expect(await ask(undefined, from("2001:db8:2::1"))).toMatchObject(TOO_MANY);
			expect((await ask("other@example.com", from("192.0.2.1"))).status).toBe(202);
		});

		test("but whoever signed in with a code in this browser before gets one, whatever strangers ask and guess", async () => {
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
			// Of another address it says nothing, and nobody makes one up.
			const other = await createTestMember(world, "org_member");
			for (let stranger = 0; stranger < 10; stranger++) await ask(other.email, from(`10.0.${stranger}.1`));
			const forged = `${cookie.slice(0, -1)}${cookie.endsWith("0") ? "1" : "0"}`;
			expect(await ask(other.email, { cookie })).toMatchObject(TOO_MANY);
			world.clock.nowMs += 10 * MINUTE_MS;
			for (let stranger = 0; stranger < 10; stranger++) await ask(undefined, from(`10.0.${stranger}.1`));
			expect(await ask(undefined, { cookie: forged })).toMatchObject(TOO_MANY);
			expect((await ask(undefined, { cookie })).status).toBe(202);
		});

		test("together with the guesses of a day: a hundred by all strangers", async () => {
			for (let round = 0; round < 20; round++) {
				const { body } = await ask(undefined, from(`10.0.${round}.1`));
				for (let count = 0; count < 5; count++) await verify(body.attempt, wrong(codeFor(world, world.adminEmail)));
				world.clock.nowMs += 10 * MINUTE_MS;
			}
			expect(await ask(undefined, from("10.0.99.1"))).toMatchObject(TOO_MANY);
		});
	});

	test("is refused in words that say so where a deployment sends no mail", async () => {
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
	])("is sent through %s, after the answer, and a failure stays in the log", async (provider, url, header, value) => {
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
		expect(String(calls[0]?.init.body)).toMatch(/\d{6} signs you in/);
		expect(String(calls[0]?.init.body)).toContain(mailing.adminEmail);
		expect(mailing.deps.printed).toEqual([]);
		expect((await ask()).status).toBe(202);
	});
});

describe("a link", () => {
	test("signs in once, until it runs out", async () => {
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
	const invited = async (email: string, through = world) => {
		const { body } = await through.request("POST", "/organization/members", {
			key: through.adminKey,
			body: { orgId: through.orgId, email, role: "org_admin" },
		});
		return tokenOf(body.link);
	};
	const accept = (token: string, headers: Record<string, string> = OWN_PAGE, sign_in = true) =>
		world.request("POST", "/invitation/accept", { headers, body: { token, sign_in } });
	const fresh = () => `${crypto.randomUUID()}@example.com`;

	test("signs a new account in, from the own page alone, and gives the key besides", async () => {
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

	test("answers a program as ever: a key and no session", async () => {
		const answer = await accept(await invited(fresh()), {}, false);
		expect(answer).toMatchObject({ status: 201, body: { signed_in: false } });
		expect(answer.headers.get("set-cookie")).toBeNull();
	});

	test("signs nobody in to an account that is there: the inviter has the link as well", async () => {
		const elsewhere = await createWorld();
		const answer = await accept(await invited(elsewhere.adminEmail));
		expect(answer).toMatchObject({ status: 401, body: { error: "sign_in_required" } });
		expect(answer.headers.get("set-cookie")).toBeNull();
	});

	test("brings nothing to an account that somebody without proof signs in to, unless they accept it themselves", async () => {
		const email = fresh();
		const squatter = sessionOf(sessionTokenOf((await accept(await invited(email))).headers) ?? "");
		const other = await createWorld();
		const token = await invited(email, other);
		expect(await accept(token)).toMatchObject({ status: 401, body: { error: "sign_in_required" } });
		expect(await accept(token, {}, false)).toMatchObject({ status: 401, body: { error: "sign_in_required" } });
		const own = await accept(token, squatter.headers);
		expect(own).toMatchObject({ status: 201, body: { signed_in: true } });
	});

	test("the address's owner throws out whoever used the account before, with their passkeys; its user keeps theirs", async () => {
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

		// The same proof from the browser of the account's user takes nothing away; nor does any later one.
		const second = fresh();
		const user = sessionOf(sessionTokenOf((await accept(await invited(second))).headers) ?? "");
		expect(await register(user)).toBe(201);
		const proved = await signIn(world, second, user.headers);
		expect((await world.request("GET", "/account", proved)).body).toMatchObject({ email_verified: true, passkeys: 1 });
		await signIn(world, second);
		expect((await world.request("GET", "/account", proved)).body).toMatchObject({ passkeys: 1 });
	});
});

describe("a change of address", () => {
	test("needs the code that went to the new one, ends every other session, and gives this one a new token", async () => {
		const [mine, other] = [await signIn(world), await signIn(world)];
		const email = `${crypto.randomUUID()}@example.com`;
		const { body } = await world.request("POST", "/account/email", { headers: mine.headers, body: { email } });
		const code = codeFor(world, email) ?? "";
		const change = (by: TestSession, to: string, digits: string) =>
			world.request("PUT", "/account/email", {
				headers: by.headers,
				body: { attempt: body.attempt, email: to, code: digits },
			});
		expect(await change(mine, email, wrong(code))).toMatchObject(FAILED);
		expect(await change(mine, "another@example.com", code)).toMatchObject(FAILED);
		const { email: theirs } = await createTestMember(world, "org_member");
		expect(await change(await signIn(world, theirs), email, code)).toMatchObject(FAILED);
		const mailsToOld = () => world.deps.printed.filter((line) => line.startsWith(`Mail to ${world.adminEmail}: `));
		const before = mailsToOld().length;
		const changed = await change(mine, email, code);
		expect(changed).toMatchObject({ status: 200, trips: 2 });
		// The old address is told, and not which one took its place.
		expect(mailsToOld().slice(before)).toEqual([expect.stringContaining("has another address now")]);
		expect(mailsToOld().at(-1)).not.toContain(email);
		const renewed = sessionOf(sessionTokenOf(changed.headers) ?? "");
		for (const old of [mine, other]) expect((await world.request("GET", "/account", old)).status).toBe(401);
		expect((await world.request("GET", "/account", renewed)).body).toMatchObject({ email, email_verified: true });
		const audit = await world.request("GET", "/organization/audit", {
			headers: renewed.headers,
			query: { orgId: world.orgId, action: "member.change_email" },
		});
		expect(audit.body).toMatchObject([{ before: { email: world.adminEmail }, after: { email } }]);
	});

	test("to an address that another account has sends nothing and tells nothing", async () => {
		const { email } = await createTestMember(world, "org_member");
		const mine = await signIn(world);
		const before = world.deps.printed.length;
		const answer = await world.request("POST", "/account/email", { headers: mine.headers, body: { email } });
		expect(answer.status).toBe(202);
		expect(world.deps.printed).toHaveLength(before);
	});
});

describe("deleting an account", () => {
	test("is refused to the last who may delete an organization, by its name", async () => {
		const mine = await signIn(world);
		const refused = await world.request("DELETE", "/account", mine);
		expect(refused).toMatchObject({
			status: 409,
			body: {
				error: "cannot_remove_last_super_admin",
				message: expect.stringContaining('"Test"'),
				moreInfo: { organizations: [{ id: world.orgId, name: "Test", deleted: false }] },
			},
		});
		await world.request("DELETE", "/organization", { key: world.adminKey, query: { orgId: world.orgId } });
		const still = await world.request("DELETE", "/account", mine);
		expect(still.body.moreInfo).toEqual({ organizations: [{ id: world.orgId, name: "Test", deleted: true }] });
	});

	test("takes along what the account holds and made in every organization, in each one's log, and nothing else", async () => {
		const { uid, email, key } = await createTestMember(world, "org_super_admin");
		const mine = await signIn(world, email);
		const elsewhere = await createWorld();
		await testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms) VALUES (?, ?, 'org_member', 'org', ?, 0)",
		)
			.bind(crypto.randomUUID(), uid, elsewhere.orgId)
			.run();
		await testEnv.DB.prepare("UPDATE organizations SET created_by = ? WHERE id = ?").bind(uid, world.orgId).run();
		const app = await createTestApp({ ...world, adminKey: key.text });
		const made = await world.request("POST", "/apikey", {
			headers: mine.headers,
			body: { name: "theirs", bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }] },
		});
		const preview = await world.request("DELETE", "/account", { ...mine, query: { dry_run: "true" } });
		expect(preview).toMatchObject({ status: 200, body: { dry_run: true } });
		expect((await world.request("GET", "/account", mine)).status).toBe(200);
		const gone = await world.request("DELETE", "/account", mine);
		expect(gone).toMatchObject({ status: 200, trips: 2 });
		expect({ ...gone.body, dry_run: true }).toEqual(preview.body);
		expect(gone.body.left_organizations.map((one: { id: string }) => one.id).sort()).toEqual(
			[world.orgId, elsewhere.orgId].sort(),
		);
		expect(gone.body.revoked_api_keys.map((one: { id: string }) => one.id).sort()).toEqual(
			[key.id, made.body.id].sort(),
		);
		expect(gone.headers.get("set-cookie")).toMatch(/Max-Age=0$/);
		for (const dead of [key.text, made.body.key]) {
			expect((await world.request("GET", "/app", { key: dead })).status).toBe(401);
		}
		expect((await world.request("GET", "/account", mine)).status).toBe(401);
		// What it made is the organization's.
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
		for (const one of [world, elsewhere]) {
			const log = await one.request("GET", "/organization/audit", {
				key: one.adminKey,
				query: { orgId: one.orgId, action: "member.remove" },
			});
			expect(log.body, "left in the log").toMatchObject([
				{ actor: { type: "user", id: uid, name: email }, target: { name: email }, details: { account_deleted: true } },
			]);
		}
		const left = await testEnv.DB.batch(
			["role_bindings", "api_keys", "sessions", "passkeys", "account_log"].map((table) =>
				testEnv.DB.prepare(`SELECT 1 FROM ${table} WHERE user_id = ?`).bind(uid),
			),
		);
		expect(left.flatMap(({ results }) => results)).toEqual([]);
		const heir = await testEnv.DB.prepare("SELECT created_by FROM organizations WHERE id = ?")
			.bind(world.orgId)
			.first();
		expect(heir).toEqual({ created_by: world.userId });
	});

	test.each<[string, (appId: string) => Promise<unknown>]>([
		["can be restored", async () => undefined],
		[
			"has no id any more",
			(app_id) => world.request("DELETE", "/app/reservation", { key: world.adminKey, query: { app_id } }),
		],
	])("is possible for the creator of an organization while a deleted app of it %s", async (_, between) => {
		const app = await createTestApp(world);
		const { uid } = await createTestMember(world, "org_super_admin");
		const operator = await createWorld();
		await makeOperator(operator);
		const mine = await signIn(world);
		expect((await world.request("DELETE", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
		await between(app.appId);
		expect(await world.request("DELETE", "/account", mine)).toMatchObject({ status: 200 });
		const named = await testEnv.DB.prepare(
			"SELECT o.created_by FROM organizations o JOIN apps a ON a.owner_org = o.id WHERE a.id = ?",
		)
			.bind(app.uuid)
			.first();
		expect([uid, operator.userId]).toContain(named?.created_by);
	});

	test("is not done when the account becomes the last owner at that moment", async () => {
		const { email } = await createTestMember(world, "org_super_admin");
		const mine = await signIn(world, email);
		const demoted = await readThenWrite(
			world,
			(racing) => racing.request("DELETE", "/account", mine),
			() =>
				world.request("PUT", "/organization/members", {
					headers: mine.headers,
					body: { orgId: world.orgId, email: world.adminEmail, role: "org_admin" },
				}),
		);
		expect(demoted).toMatchObject({ status: 409, body: { error: "account_changed" } });
		expect((await world.request("GET", "/account", mine)).status).toBe(200);
	});
});

describe("a session that ends between a request's decision and its write", () => {
	test("writes nothing", async () => {
		const app = await createTestApp(world);
		const [mine, other] = [await signIn(world), await signIn(world)];
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("POST", "/apikey", {
					headers: mine.headers,
					query: { org_id: world.orgId },
					body: { name: "late" },
				}),
			() => world.request("DELETE", "/account/sessions", { ...other, query: { others: "true" } }),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_session" } });
		expect(app.uuid).toMatch(/-/);
		const keys = await world.request("GET", "/apikey", { key: world.adminKey });
		expect(keys.body.map((row: { name: string }) => row.name)).not.toContain("late");
	});
});
