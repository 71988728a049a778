/** A change of address, the deletion of an account, and a session that ends during a write. */
import { beforeEach, describe, expect, test } from "vitest";
import { readThenWrite } from "../support/interleave";
import { codeFor, sessionOf, sessionTokenOf, signIn, type TestSession } from "../support/sessions";
import { createTestApp, createTestMember, createWorld, makeOperator, testEnv, type World } from "../support/world";

let world: World;

beforeEach(async () => {
	world = await createWorld();
});
const wrong = (code: string | undefined) => (code === "111111" ? "222222" : "111111");
const FAILED = { status: 401, body: { error: "sign_in_failed", moreInfo: {} } };

describe("a change of address", () => {
	test("requires the code sent to the new address, ends all other sessions, and replaces this session's token", async () => {
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
		// The old address is notified without the new one.
		expect(mailsToOld().slice(before)).toEqual([expect.stringContaining("was changed")]);
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

	test("to an address of another account sends no mail and reveals nothing", async () => {
		const { email } = await createTestMember(world, "org_member");
		const mine = await signIn(world);
		const before = world.deps.printed.length;
		const answer = await world.request("POST", "/account/email", { headers: mine.headers, body: { email } });
		expect(answer.status).toBe(202);
		expect(world.deps.printed).toHaveLength(before);
	});
});

describe("deleting an account", () => {
	test("is refused for the last member who can delete an organization, and names it", async () => {
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

	test("removes what the account holds and created in every organization, with entries in each log", async () => {
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
		// Apps and channels that the account created belong to the organization.
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

	test("is refused if the account becomes the last owner at the same moment", async () => {
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

test("a person whose role changes between a request's decision and its write stays signed in, and nothing is written", async () => {
	const { email } = await createTestMember(world, "org_admin");
	const theirs = await signIn(world, email);
	const appId = `com.example.n${crypto.randomUUID().replaceAll("-", "")}`;
	const create = (by: Pick<World, "request">) =>
		by.request("POST", "/app", {
			headers: theirs.headers,
			body: { app_id: appId, name: "Late", owner_org: world.orgId },
		});
	const answer = await readThenWrite(world, create, () =>
		world.request("PUT", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email, role: "org_member" },
		}),
	);
	const message = expect.stringContaining("repeat the request");
	expect(answer).toMatchObject({ status: 403, body: { error: "permission_denied", message } });
	expect(answer.headers.get("set-cookie")).toBeNull();
	expect((await world.request("GET", `/app/${appId}`, { key: world.adminKey })).status).toBe(404);
	// The new role allows it as well.
	expect((await create(world)).status).toBe(201);
});
