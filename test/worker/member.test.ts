/**
 * Members: who is listed, who may change and remove whom, what becomes of everything that a removed person held, and that the last one
 * who may delete the organization stays, whoever asks and however many at once.
 */
import { beforeEach, describe, expect, test } from "vitest";
import type { OrgId } from "../../src/authz/decide";
import { query } from "../../src/db/client";
import { membersOf } from "../../src/db/members";
import { rows, run } from "./support/bytes";
import { databaseText } from "./support/database-text";
import { readThenWrite } from "./support/interleave";
import { plansOf, scansIn } from "./support/plans";
import {
	type Answer,
	acceptInvitation,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	NOW_MS,
	type TestMember,
	testEnv,
	tokenOf,
	type World,
} from "./support/world";

const DAY_MS = 86_400_000;
const PATH = "/organization/members";

let world: World;
/** The first member's address. */
let owner: string;
beforeEach(async () => {
	world = await createWorld();
	owner = `${world.userId}@example.com`;
});

const list = async (key = world.adminKey, orgId = world.orgId) =>
	(await world.request("GET", PATH, { key, query: { orgId } })).body;
const setRole = (email: string, role: string, key = world.adminKey, via: Pick<World, "request"> = world) =>
	via.request("PUT", PATH, { key, body: { orgId: world.orgId, email, role } });
const remove = (
	email: string,
	key = world.adminKey,
	fields: Record<string, string> = {},
	via: Pick<World, "request"> = world,
	orgId = world.orgId,
) => via.request("DELETE", PATH, { key, query: { orgId, email, ...fields } });
const invite = async (email: string, role: string, key = world.adminKey): Promise<string> => {
	const { body, status } = await world.request("POST", PATH, { key, body: { orgId: world.orgId, email, role } });
	if (status !== 201) throw new Error(JSON.stringify(body));
	return tokenOf(body.link);
};
/** Whether the key can see the organization. */
const works = async (key: string, orgId = world.orgId) =>
	(await world.request("GET", "/organization", { key, query: { orgId } })).status === 200;
const auditOf = (...actions: string[]) =>
	rows(query.selectFrom("audit_log").selectAll().where("action", "in", actions).orderBy("id"));
const roleOf = async (email: string) => (await list()).find((each: { email: string }) => each.email === email)?.role;

/** Another key of the member's account, made by the member's own one. */
async function keyOf(member: TestMember, name: string, role: string, by = member.key.text): Promise<string> {
	// Keys are listed oldest first.
	world.clock.nowMs += 1;
	const { body, status } = await world.request("POST", "/apikey", {
		key: by,
		body: {
			name,
			hashed: false,
			expires_at: new Date(NOW_MS + DAY_MS).toISOString(),
			bindings: [{ role_name: role, scope_type: "org", org_id: world.orgId }],
		},
	});
	if (status !== 201) throw new Error(JSON.stringify(body));
	return body.key;
}

/** Gives the member's first key another role, behind the service's back. */
const strengthen = (member: TestMember, role: string) =>
	run(query.updateTable("role_bindings").set({ role_name: role }).where("api_key_id", "=", member.key.id));

/** Somebody who owns the organization until tomorrow, and does not count as its last owner. */
async function passingOwner(): Promise<TestMember> {
	const member = await createTestMember(world, "org_super_admin");
	await run(
		query
			.updateTable("role_bindings")
			.set({ expires_at_ms: NOW_MS + DAY_MS })
			.where("user_id", "=", member.uid),
	);
	return member;
}

/** Binds a key or a person on an organization, behind the service's back. */
const bind = (
	holder: { api_key_id: string } | { user_id: string },
	role_name: string,
	org_id: string,
	app_id?: string,
) =>
	run(
		query.insertInto("role_bindings").values({
			id: crypto.randomUUID(),
			api_key_id: null,
			user_id: null,
			...holder,
			role_name,
			scope_type: app_id === undefined ? "org" : "app",
			org_id,
			app_id: app_id ?? null,
			channel_id: null,
			parent_binding_id: null,
			expires_at_ms: null,
			created_at_ms: NOW_MS,
		}),
	);

describe("GET /organization/members", () => {
	test("lists people and pending invitations by address, each with the strongest role", async () => {
		const member = await createTestMember(world, "org_member", "b@example.com.test");
		await invite("A@example.com.test", "org_admin");
		await bind({ user_id: member.uid }, "org_admin", world.orgId);
		const found = await list();
		const emails = found.map((each: { email: string }) => each.email);
		expect(emails).toEqual([...emails].sort());
		expect(found).toHaveLength(3);
		expect(found).toContainEqual({
			uid: member.uid,
			email: "b@example.com.test",
			image_url: "",
			role: "org_admin",
			is_tmp: false,
			global_permissions: [],
		});
		expect(found).toContainEqual(
			expect.objectContaining({ email: "a@example.com.test", role: "org_admin", is_tmp: true }),
		);
		expect(found).toContainEqual(expect.objectContaining({ uid: world.userId, role: "org_super_admin" }));
	});

	test("leaves out who has a role on one app alone, whom a removal knows all the same", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_member");
		await run(
			query
				.updateTable("role_bindings")
				.set({ role_name: "app_admin", scope_type: "app", app_id: app.uuid })
				.where("user_id", "=", member.uid),
		);
		expect(await list()).toHaveLength(1);
		expect((await remove(member.email)).status).toBe(200);
		expect(await rows(query.selectFrom("role_bindings").select("id").where("user_id", "=", member.uid))).toEqual([]);
		expect(await works(member.key.text)).toBe(false);
	});

	test("leaves out what has run out: invitations, and roles", async () => {
		const member = await createTestMember(world, "org_member");
		await invite("pending@example.com", "org_member");
		await run(
			query
				.updateTable("role_bindings")
				.set({ expires_at_ms: NOW_MS + DAY_MS })
				.where("user_id", "=", member.uid),
		);
		expect(await list()).toHaveLength(3);
		world.clock.nowMs += DAY_MS;
		expect((await list()).map((each: { email: string }) => each.email)).not.toContain(member.email);
		world.clock.nowMs += 6 * DAY_MS;
		expect(await list()).toHaveLength(1);
	});

	test("shows nothing of other organizations, and needs org.read_members", async () => {
		const elsewhere = await createWorld();
		await createTestMember(elsewhere, "org_member");
		expect(await list()).toHaveLength(1);
		const hidden = await world.request("GET", PATH, { key: elsewhere.adminKey, query: { orgId: world.orgId } });
		expect(hidden.status).toBe(404);
		const reader = await createTestKey(world, "app_reader", await createTestApp(world));
		expect((await world.request("GET", PATH, { key: reader.text, query: { orgId: world.orgId } })).status).toBe(403);
		expect((await world.request("GET", PATH, { key: world.adminKey })).status).toBe(400);
	});
});

describe("a page of members", () => {
	const page = (query: Record<string, string>) =>
		world.request("GET", "/organization/members", { key: world.adminKey, query: { orgId: world.orgId, ...query } });
	const invitations = (count: number) =>
		testEnv.DB.prepare(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO invitations (id, org_id, email, role_name, token_hash, invited_by, expires_at_ms, created_at_ms)
			SELECT ?2 || i, ?2, printf('a%05d@example.com', i), 'org_member', ?2 || i, ?3, ?4, 0 FROM n`,
		)
			.bind(count, world.orgId, world.userId, NOW_MS + DAY_MS)
			.run();
	const next = (answer: Answer) => answer.headers.get("link");

	test("holds what limit and page say, 50 where only page is given, and says whether more follow", async () => {
		await invitations(119);
		const emails = (await list()).map((each: { email: string }) => each.email);
		expect(emails).toHaveLength(120);
		const shown = async (query: Record<string, string>) =>
			(await page(query)).body.map((each: { email: string }) => each.email);
		expect(await shown({ limit: "7", page: "2" })).toEqual(emails.slice(14, 21));
		expect(await shown({ limit: "7" })).toEqual(emails.slice(0, 7));
		expect(await shown({ page: "0" })).toEqual(emails.slice(0, 50));
		expect(await shown({ page: "2" })).toEqual(emails.slice(100));
		expect(await shown({ page: "3" })).toEqual([]);
		expect(next(await page({ limit: "7", page: "2" }))).toContain("limit=7");
		expect(next(await page({ limit: "7", page: "2" }))).toContain("page=3");
		expect(next(await page({ page: "2" }))).toBeNull();
		expect(next(await page({}))).toBeNull();
	});

	test("is the one whose uid is asked for, member or invited, however many there are, and nobody of elsewhere", async () => {
		await invitations(60);
		const email = "late@example.com";
		await world.request("POST", PATH, { key: world.adminKey, body: { orgId: world.orgId, email, role: "org_admin" } });
		const everybody: { readonly uid: string; readonly email: string }[] = await list();
		for (const address of [owner, email]) {
			const one = everybody.find((each) => each.email === address);
			expect(await page({ uid: one?.uid ?? "" })).toMatchObject({ status: 200, body: [one] });
		}
		expect((await page({ uid: (await createWorld()).userId })).body).toEqual([]);
		const plan = await plansOf([membersOf(world.orgId as OrgId, world.userId, NOW_MS, 50, 0)]);
		expect(scansIn(plan)).toEqual([]);
		expect(plan.join(" ")).toContain("SEARCH b USING INDEX role_bindings_by_user (user_id=?)");
		expect(plan.join(" ")).not.toContain("role_bindings_by_org");
	});

	test("is everybody where nothing is said, up to a thousand, and then says where the rest is", async () => {
		await invitations(999);
		const whole = await page({});
		expect([whole.body.length, next(whole)]).toEqual([1000, null]);
		await testEnv.DB.prepare(
			"INSERT INTO invitations SELECT id || 'x', org_id, 'b@example.com', role_name, token_hash || 'x', invited_by, expires_at_ms, 0 FROM invitations WHERE org_id = ? LIMIT 1",
		)
			.bind(world.orgId)
			.run();
		const first = await page({});
		expect(first.body).toHaveLength(1000);
		const link = new URL(/<(.+)>/.exec(next(first) ?? "")?.[1] ?? "");
		const rest = await page(Object.fromEntries(link.searchParams));
		expect(rest.body).toHaveLength(1);
		expect(next(rest)).toBeNull();
	});

	test.each([{ limit: "0" }, { limit: "1001" }, { limit: "x" }, { page: "-1" }, { page: "1.5" }])(
		"is not asked for by %j",
		async (query) => {
			expect(await page(query as unknown as Record<string, string>)).toMatchObject({
				status: 400,
				body: { error: "invalid_request", moreInfo: { issues: [{ path: Object.keys(query)[0] }] } },
			});
		},
	);
});

describe("PUT /organization/members", () => {
	test("does not let a key that is limited to addresses change what an invitation offers", async () => {
		const email = "pending@example.com";
		await invite(email, "org_member");
		const limited = await createTestKey(world, "org_super_admin", undefined, { ip_allow_list: ["192.0.2.0/24"] });
		const free = await createTestKey(world, "org_super_admin");
		const raise = (key: string) =>
			world.request("PUT", "/organization/members", {
				key,
				body: { orgId: world.orgId, email, role: "org_admin" },
				headers: { "cf-connecting-ip": "192.0.2.1" },
			});
		const before = await databaseText();
		expect(await raise(limited.text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { field: "ip_allow_list" } },
		});
		expect(await databaseText()).toBe(before);
		expect(await roleOf(email)).toBe("org_member");
		expect((await raise(free.text)).status, "the control").toBe(200);
	});

	test("changes the role, lowers the member's keys and names all of them", async () => {
		const member = await createTestMember(world, "org_admin");
		await keyOf(member, "second", "org_admin");
		const { status, body } = await setRole(member.email.toUpperCase(), "org_member");
		expect(status).toBe(200);
		expect(body).toEqual({
			status: "ok",
			uid: member.uid,
			email: member.email,
			role: "org_member",
			api_keys: [
				{ id: member.key.id, name: "Personal key" },
				{ id: expect.any(String), name: "second" },
			],
			lowered_api_keys: [
				{ id: member.key.id, name: "Personal key", lost: [{ role_name: "org_admin", app_id: null }] },
				{ id: expect.any(String), name: "second", lost: [{ role_name: "org_admin", app_id: null }] },
			],
			revealed_api_keys: [],
			dry_run: false,
			link: null,
		});
		expect(await roleOf(member.email)).toBe("org_member");
		expect((await setRole(member.email, "org_member", member.key.text)).status, "its key follows").toBe(403);
		expect((await setRole(member.email, "org_member")).body.lowered_api_keys).toEqual([]);
		const [entry, ...more] = (await auditOf("member.update")).filter(({ org_id }) => org_id === world.orgId);
		expect(more, "an unchanged role is no change").toEqual([]);
		expect(entry).toMatchObject({ target_id: member.uid, target_name: member.email });
		expect([JSON.parse(entry?.before ?? ""), JSON.parse(entry?.after ?? "")]).toEqual([
			{ role: "org_admin" },
			{ role: "org_member" },
		]);
	});

	test("changes what a pending invitation offers, and whoever changed it answers for it", async () => {
		const admin = await createTestMember(world, "org_admin");
		await invite("another@example.com", "org_member");
		const token = await invite("pending@example.com", "org_member", admin.key.text);
		const { body } = await setRole("pending@example.com", "org_super_admin");
		expect(body).toEqual({
			status: "ok",
			uid: expect.any(String),
			email: "pending@example.com",
			role: "org_super_admin",
			api_keys: [],
			lowered_api_keys: [],
			revealed_api_keys: [],
			dry_run: false,
			link: expect.stringContaining("/invitation#token=inv_"),
		});
		expect(await roleOf("another@example.com")).toBe("org_member");
		await remove(admin.email);
		expect((await world.request("POST", "/invitation/accept", { body: { token } })).status).toBe(404);
		const accepted = await world.request("POST", "/invitation/accept", { body: { token: tokenOf(body.link) } });
		expect(accepted).toMatchObject({ status: 201, body: { role: "org_super_admin" } });
	});

	test("is refused when the old or the new role is stronger than the caller", async () => {
		const admin = await createTestMember(world, "org_admin");
		const superAdmin = await createTestMember(world, "org_super_admin");
		const member = await createTestMember(world, "org_member");
		await invite("strong@example.com", "org_super_admin");
		const before = await databaseText();
		for (const email of [superAdmin.email, "strong@example.com"]) {
			expect(await setRole(email, "org_member", admin.key.text)).toMatchObject({
				status: 403,
				body: {
					error: "cannot_remove_higher_role",
					moreInfo: { permission: "org.delete", scope: "org", role_name: "org_super_admin" },
				},
			});
		}
		expect(await setRole(member.email, "org_super_admin", admin.key.text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.delete" } },
		});
		expect(await setRole(member.email, "org_admin", member.key.text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.update_user_roles" } },
		});
		expect(await databaseText()).toBe(before);
		expect((await setRole(member.email, "org_admin", admin.key.text)).status).toBe(200);
	});

	test("knows no stranger, nobody of elsewhere, and no invitation that ran out", async () => {
		const elsewhere = await createWorld();
		const stranger = await createTestMember(elsewhere, "org_member");
		await invite("late@example.com", "org_member");
		world.clock.nowMs += 7 * DAY_MS;
		for (const email of ["nobody@example.com", stranger.email, "late@example.com"]) {
			expect(await setRole(email, "org_admin")).toMatchObject({ status: 404, body: { error: "member_not_found" } });
		}
		expect((await setRole(owner, "org_admin", elsewhere.adminKey)).body.error).toBe("organization_not_found");
	});

	test("touches no role that the person has on an app, or in another organization", async () => {
		const elsewhere = await createWorld();
		const person = await createTestMember(elsewhere, "org_super_admin");
		await createTestMember(world, "org_member", person.email);
		const app = await createTestApp(world);
		const bindings = query
			.selectFrom("role_bindings")
			.select(["role_name", "org_id"])
			.where("user_id", "=", person.uid)
			.orderBy("role_name");
		await bind({ user_id: person.uid }, "app_reader", world.orgId, app.uuid);
		// What the person is elsewhere makes nobody here too weak for them.
		const admin = await createTestMember(world, "org_admin");
		expect((await setRole(person.email, "org_admin", admin.key.text)).status).toBe(200);
		expect(await rows(bindings)).toEqual([
			{ role_name: "app_reader", org_id: world.orgId },
			{ role_name: "org_admin", org_id: world.orgId },
			{ role_name: "org_super_admin", org_id: elsewhere.orgId },
		]);
	});

	test("makes no member of somebody who only has a role on one app, or only owns a key there", async () => {
		const member = await createTestMember(world, "org_member");
		const app = await createTestApp(world);
		const bindings = query.updateTable("role_bindings").where("user_id", "=", member.uid);
		await run(bindings.set({ role_name: "app_reader", scope_type: "app", app_id: app.uuid }));
		expect((await setRole(member.email, "org_admin")).status).toBe(404);
		await run(query.deleteFrom("role_bindings").where("user_id", "=", member.uid));
		expect((await setRole(member.email, "org_admin")).status).toBe(404);
	});

	test("demotes the last super admin never, the last but one once", async () => {
		const second = await createTestMember(world, "org_super_admin");
		const third = await passingOwner();
		expect((await setRole(owner, "org_super_admin")).status).toBe(200);
		const answer = await readThenWrite(
			world,
			(racing) => setRole(second.email, "org_member", third.key.text, racing),
			() => setRole(owner, "org_admin", third.key.text),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
		expect(await roleOf(second.email)).toBe("org_super_admin");
		expect((await setRole(second.email, "org_admin", third.key.text)).status).toBe(409);
	});

	test("does not undo what happens to the member at the same moment", async () => {
		const admin = await createTestMember(world, "org_admin");
		const member = await createTestMember(world, "org_member");
		const answer = await readThenWrite(
			world,
			(racing) => setRole(member.email, "org_admin", admin.key.text, racing),
			() => setRole(member.email, "org_super_admin"),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
		expect(await roleOf(member.email)).toBe("org_super_admin");
		const gone = await readThenWrite(
			world,
			(racing) => setRole(member.email, "org_admin", world.adminKey, racing),
			() => remove(member.email),
		);
		expect(gone).toMatchObject({ status: 404, body: { error: "member_not_found" } });
	});
});

describe("DELETE /organization/members", () => {
	test("removes every binding and revokes every key of the member at once, each named in the audit log", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_admin");
		const second = await keyOf(member, "second", "org_member");
		await bind({ user_id: member.uid }, "app_admin", world.orgId, app.uuid);
		const bystander = await createTestMember(world, "org_admin");
		await run(
			query.updateTable("api_keys").set({ global_permissions: '["org.create"]' }).where("id", "=", member.key.id),
		);

		const announced = await remove(member.email, world.adminKey, { dry_run: "true" });
		expect(announced.body).toMatchObject({ status: "ok", dry_run: true });
		expect(await works(second)).toBe(true);
		const { status, body } = await remove(member.email);
		expect(status).toBe(200);
		expect(body).toEqual({
			status: "ok",
			dry_run: false,
			other_organizations: { known: [], others: 0 },
			revoked_api_keys: [
				{ id: member.key.id, name: "Personal key" },
				{ id: expect.any(String), name: "second" },
			],
			revealed_api_keys: [],
		});
		expect(announced.body.revoked_api_keys).toEqual(body.revoked_api_keys);

		for (const key of [member.key.text, second]) {
			expect(await world.request("GET", "/organization", { key })).toMatchObject({
				status: 401,
				body: { error: "invalid_api_key" },
			});
		}
		expect(await rows(query.selectFrom("role_bindings").select("id").where("user_id", "=", member.uid))).toEqual([]);
		expect(await works(bystander.key.text)).toBe(true);
		expect(await works(world.adminKey)).toBe(true);
		const entries = (await auditOf("member.remove", "api_key.delete", "api_key.update", "binding.delete")).filter(
			({ org_id }) => org_id === world.orgId,
		);
		expect(entries.map((entry) => [entry.action, entry.target_name, entry.actor_id])).toEqual([
			["member.remove", member.email, world.adminKeyId],
			["api_key.delete", "Personal key", world.adminKeyId],
			["api_key.delete", "second", world.adminKeyId],
			["binding.delete", "Personal key", world.adminKeyId],
			["binding.delete", "second", world.adminKeyId],
		]);
		expect(JSON.parse(entries[0]?.before ?? "")).toEqual({ role: "org_admin" });
		expect(JSON.parse(entries[2]?.before ?? "")).toEqual({
			name: "second",
			user_id: member.uid,
			is_hashed_key: false,
			expires_at: "2026-11-22T08:00:00.000Z",
			bindings: [expect.objectContaining({ role_name: "org_member", scope_type: "org", org_id: world.orgId })],
		});
		expect(JSON.parse(entries[2]?.details ?? "")).toEqual({ removed_member: member.uid });
	});

	test("announces without doing anything, and refuses in the announcement what it would refuse", async () => {
		const member = await createTestMember(world, "org_member");
		const before = await databaseText();
		expect((await remove(member.email, world.adminKey, { dry_run: "true" })).status).toBe(200);
		expect((await remove(owner, world.adminKey, { dry_run: "true" })).body.error).toBe(
			"cannot_remove_last_super_admin",
		);
		expect(await databaseText()).toBe(before);
	});

	test("takes its parameters from a JSON body as well", async () => {
		const member = await createTestMember(world, "org_member");
		const { status } = await world.request("DELETE", PATH, {
			key: world.adminKey,
			body: { orgId: world.orgId, email: member.email },
		});
		expect(status).toBe(200);
		expect(await roleOf(member.email)).toBeUndefined();
	});

	test("leaves the person what they have elsewhere, and takes what their keys of elsewhere hold here", async () => {
		const elsewhere = await createWorld();
		const person = await createTestMember(elsewhere, "org_admin");
		const bystander = await createTestMember(world, "org_admin");
		const token = await invite(person.email, "org_super_admin");
		const here = await acceptInvitation(world, person.email, token);
		await bind({ api_key_id: person.key.id }, "org_admin", world.orgId);
		const other = await createTestMember(elsewhere, "org_admin");
		await bind({ api_key_id: other.key.id }, "org_admin", world.orgId);
		const read = (orgId: string) => world.request("GET", "/organization", { key: person.key.text, query: { orgId } });
		expect((await read(world.orgId)).status).toBe(200);
		const { body } = await remove(person.email);
		expect(body.revoked_api_keys).toEqual([{ id: here.body.api_key.id, name: "Personal key" }]);
		expect((await read(world.orgId)).status).toBe(404);
		expect((await read(elsewhere.orgId)).status).toBe(200);
		expect(await works(bystander.key.text)).toBe(true);
		expect(await works(other.key.text)).toBe(true);
		expect(await roleOf(bystander.email)).toBe("org_admin");
		const revoked = (await auditOf("api_key.delete")).map((each) => each.target_id);
		expect(revoked).toContain(here.body.api_key.id);
		expect(revoked).not.toContain(person.key.id);
		expect((await list(elsewhere.adminKey, elsewhere.orgId)).map((each: { uid: string }) => each.uid)).toContain(
			person.uid,
		);
		const [entry] = (await auditOf("binding.delete")).filter(({ org_id }) => org_id === world.orgId);
		expect(entry).toMatchObject({ target_type: "api_key", target_id: person.key.id });
		expect(JSON.parse(entry?.before ?? "")).toMatchObject({ role_name: "org_admin", org_id: world.orgId });
	});

	test("takes org.create from a key of elsewhere that loses its last administering role, and only from that", async () => {
		// It will administer nothing but what it creates; its twin keeps its role at home.
		const person = await createTestMember(world, "org_admin");
		const losing = person.key.id;
		const twin = await createTestKey(world, "org_admin");
		await run(
			query
				.updateTable("api_keys")
				.set({ user_id: person.uid, global_permissions: '["org.create"]' })
				.where("id", "=", twin.id),
			query.updateTable("api_keys").set({ global_permissions: '["org.create"]' }).where("id", "=", losing),
		);
		const made = await world.request("PUT", "/organization", { key: person.key.text, body: { name: "Made" } });
		const orgId: string = made.body.id;
		await bind({ api_key_id: twin.id }, "org_admin", orgId);
		await run(
			query
				.updateTable("role_bindings")
				.set({ role_name: "org_member" })
				.where("api_key_id", "=", losing)
				.where("org_id", "=", world.orgId),
		);
		// Somebody else's key that administers nothing but what the person leaves.
		const other = (await createTestMember(world, "org_member")).key;
		await bind({ api_key_id: other.id }, "org_admin", orgId);
		await run(query.updateTable("api_keys").set({ global_permissions: '["org.create"]' }).where("id", "=", other.id));
		// A role in a deleted organization is none.
		const gone = await createWorld();
		await gone.request("DELETE", "/organization", { key: gone.adminKey, query: { orgId: gone.orgId } });
		await bind({ api_key_id: losing }, "org_admin", gone.orgId);
		// Somebody else has to be there before the person can go.
		const invited = await world.request("POST", PATH, {
			key: person.key.text,
			body: { orgId, email: owner, role: "org_super_admin" },
		});
		const heir = await acceptInvitation(world, owner, tokenOf(invited.body.link));
		const globals = async (id: string) =>
			(await rows(query.selectFrom("api_keys").select("global_permissions").where("id", "=", id)))[0]
				?.global_permissions;

		expect((await remove(person.email, heir.body.api_key.key, {}, world, orgId)).status).toBe(200);
		expect(await globals(losing)).toBe("[]");
		expect(await globals(twin.id)).toBe('["org.create"]');
		expect(await globals(other.id)).toBe('["org.create"]');
		const changes = (await auditOf("api_key.update")).filter(({ target_id }) => [losing, twin.id].includes(target_id));
		expect(changes.map((entry) => [entry.target_id, entry.org_id])).toEqual([[losing, world.orgId]]);
		expect([JSON.parse(changes[0]?.before ?? ""), JSON.parse(changes[0]?.after ?? "")]).toEqual([
			{ global_permissions: ["org.create"] },
			{ global_permissions: [] },
		]);
	});

	test("deletes the invitations that the member made, and keeps those of others", async () => {
		const admin = await createTestMember(world, "org_admin");
		await invite("theirs@example.com", "org_member", admin.key.text);
		await invite("ours@example.com", "org_member");
		await remove(admin.email);
		const pending = (await list()).filter((each: { is_tmp: boolean }) => each.is_tmp);
		expect(pending).toMatchObject([{ email: "ours@example.com" }]);
		const entries = (await auditOf("invitation.delete")).filter(({ org_id }) => org_id === world.orgId);
		expect(entries.map((entry) => entry.target_name)).toEqual(["theirs@example.com"]);
	});

	test("deletes no invitation that the person made elsewhere, and the one that they have here", async () => {
		const elsewhere = await createWorld();
		const person = await createTestMember(elsewhere, "org_admin");
		const { uid, key } = await createTestMember(world, "org_member", person.email);
		const invited = await elsewhere.request("POST", PATH, {
			key: person.key.text,
			body: { orgId: elsewhere.orgId, email: "kept@example.com", role: "org_member" },
		});
		await run(query.deleteFrom("role_bindings").where("user_id", "=", uid).where("org_id", "=", world.orgId));
		await invite(person.email, "org_member");
		await invite("also-kept@example.com", "org_member");
		expect((await remove(person.email)).body.revoked_api_keys).toEqual([{ id: key.id, name: "Personal key" }]);
		const pending = (await list()).filter((each: { is_tmp: boolean }) => each.is_tmp);
		expect(pending).toMatchObject([{ email: "also-kept@example.com" }]);
		const accepted = await world.request("POST", "/invitation/accept", {
			body: { token: tokenOf(invited.body.link) },
		});
		expect(accepted.status).toBe(201);
	});

	test("withdraws a pending invitation, whose link is dead", async () => {
		const token = await invite("pending@example.com", "org_member");
		expect((await remove("pending@example.com", world.adminKey, { dry_run: "true" })).status).toBe(200);
		expect(await list()).toHaveLength(2);
		expect((await remove("pending@example.com")).body).toEqual({
			status: "ok",
			dry_run: false,
			revoked_api_keys: [],
			revealed_api_keys: [],
			other_organizations: { known: [], others: 0 },
		});
		expect(await list()).toHaveLength(1);
		expect((await world.request("POST", "/invitation/accept", { body: { token } })).status).toBe(404);
		expect((await remove("pending@example.com")).body.error).toBe("member_not_found");
	});

	test("and PUT leave an invitation alone that is accepted at the same moment", async () => {
		for (const request of [
			(racing: Pick<World, "request">) => remove("raced@example.com", world.adminKey, {}, racing),
			(racing: Pick<World, "request">) => setRole("raced@example.com", "org_admin", world.adminKey, racing),
		]) {
			const token = await invite("raced@example.com", "org_member");
			const answer = await readThenWrite(world, request, () => acceptInvitation(world, "raced@example.com", token));
			expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
			expect(await roleOf("raced@example.com")).toBe("org_member");
			await remove("raced@example.com");
		}
		const entries = await auditOf("invitation.delete", "invitation.update");
		expect(entries.filter(({ org_id }) => org_id === world.orgId)).toEqual([]);
	});

	test("knows no stranger, and nobody twice", async () => {
		const elsewhere = await createWorld();
		const stranger = await createTestMember(elsewhere, "org_member");
		const member = await createTestMember(world, "org_member");
		await remove(member.email);
		for (const email of [stranger.email, member.email, "nobody@example.com"]) {
			expect(await remove(email)).toMatchObject({ status: 404, body: { error: "member_not_found", moreInfo: {} } });
		}
		expect(await works(stranger.key.text, elsewhere.orgId)).toBe(true);
		expect((await remove(owner, elsewhere.adminKey)).body.error).toBe("organization_not_found");
	});

	test("needs org.update_user_roles, and is refused for a member who is stronger, or has a stronger key", async () => {
		const admin = await createTestMember(world, "org_admin");
		const superAdmin = await createTestMember(world, "org_super_admin");
		const member = await createTestMember(world, "org_member");
		expect(await remove(admin.email, member.key.text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.update_user_roles" } },
		});
		await strengthen(member, "org_super_admin");
		for (const email of [superAdmin.email, member.email]) {
			expect(await remove(email, admin.key.text)).toMatchObject({
				status: 403,
				body: {
					error: "cannot_remove_higher_role",
					moreInfo: { permission: "org.delete", scope: "org", role_name: "org_super_admin" },
				},
			});
		}
		await strengthen(member, "org_member");
		expect((await remove(member.email, admin.key.text)).status).toBe(200);
		expect((await remove(admin.email, admin.key.text)).status, "a key may remove its own owner").toBe(200);
		expect(await works(admin.key.text)).toBe(false);
	});

	test("is not stopped by what the member's key holds in another organization", async () => {
		const admin = await createTestMember(world, "org_admin");
		const member = await createTestMember(world, "org_member");
		const elsewhere = await createWorld();
		await bind({ api_key_id: member.key.id }, "org_super_admin", elsewhere.orgId);
		expect((await remove(member.email, admin.key.text)).status).toBe(200);
		expect(await works(member.key.text, elsewhere.orgId)).toBe(false);
	});

	test("goes on where nobody may delete the organization any more", async () => {
		const member = await createTestMember(world, "org_member");
		const admin = await createTestMember(world, "org_admin");
		await run(query.deleteFrom("role_bindings").where("user_id", "=", world.userId));
		expect((await remove(member.email, admin.key.text)).status).toBe(200);
	});

	test("leaves the last super admin, whoever else there is", async () => {
		await createTestMember(world, "org_admin");
		await invite("pending@example.com", "org_super_admin");
		const passing = await createTestMember(world, "org_super_admin");
		await run(
			query
				.updateTable("role_bindings")
				.set({ expires_at_ms: NOW_MS + DAY_MS })
				.where("user_id", "=", passing.uid),
		);
		const elsewhere = await createWorld();
		await createTestMember(elsewhere, "org_super_admin");
		const before = await databaseText();
		expect(await remove(owner)).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
		expect(await databaseText()).toBe(before);
		await createTestMember(world, "org_super_admin");
		expect((await remove(owner)).status).toBe(200);
	});

	test("of the last two super admins at once leaves one", async () => {
		const second = await createTestMember(world, "org_super_admin");
		const third = await passingOwner();
		const answer = await readThenWrite(
			world,
			(racing) => remove(second.email, third.key.text, {}, racing),
			() => remove(owner, third.key.text),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "cannot_remove_last_super_admin" } });
		expect(await roleOfAs(third, second.email)).toBe("org_super_admin");
		expect(await works(second.key.text)).toBe(true);
	});

	const roleOfAs = async (member: TestMember, email: string) =>
		(await list(member.key.text)).find((each: { email: string }) => each.email === email)?.role;

	test("of two who remove each other leaves one", async () => {
		const second = await createTestMember(world, "org_super_admin");
		const answer = await readThenWrite(
			world,
			(racing) => remove(second.email, world.adminKey, {}, racing),
			() => remove(owner, second.key.text),
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect((await list(second.key.text)).map((each: { uid: string }) => each.uid)).toEqual([second.uid]);
	});

	test("does not remove somebody who is made stronger than the caller at the same moment", async () => {
		const admin = await createTestMember(world, "org_admin");
		const member = await createTestMember(world, "org_member");
		const answer = await readThenWrite(
			world,
			(racing) => remove(member.email, admin.key.text, {}, racing),
			() => setRole(member.email, "org_super_admin"),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
		expect(await roleOf(member.email)).toBe("org_super_admin");
	});

	test("revokes a key as well that the member makes at the same moment", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_admin");
		let late = "";
		const answer = await readThenWrite(
			world,
			(racing) => remove(member.email, world.adminKey, {}, racing),
			async () => {
				world.clock.nowMs += 1;
				const made = await world.request("POST", "/apikey", {
					key: member.key.text,
					body: {
						name: "late",
						hashed: true,
						expires_at: new Date(NOW_MS + DAY_MS).toISOString(),
						bindings: [{ role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: app.uuid }],
					},
				});
				late = made.body.key;
				return made;
			},
		);
		expect(answer.status).toBe(200);
		expect(answer.body).toMatchObject({ revoked_api_keys: [{ name: "Personal key" }, { name: "late" }] });
		expect(await works(late)).toBe(false);
		const named = (await auditOf("api_key.delete")).filter(({ org_id }) => org_id === world.orgId);
		expect(named.map((entry) => entry.target_name)).toEqual(["Personal key", "late"]);
	});

	test("ends an upload link that one of the keys asked for", async () => {
		const app = await createTestApp(world);
		const member = await createTestMember(world, "org_admin");
		const { body } = await world.request("POST", "/bundle", {
			key: member.key.text,
			body: { app_id: app.appId, version: "1.0.0" },
		});
		await remove(member.email);
		const refused = await world.request("PUT", body.upload_url, {
			rawBody: "bytes",
			headers: { "content-length": "5" },
		});
		expect(refused.status).toBeGreaterThanOrEqual(400);
		expect(refused.status).toBeLessThan(500);
	});

	test("lets the person be invited again, with nothing of what they had", async () => {
		const member = await createTestMember(world, "org_super_admin");
		await remove(member.email);
		const back = await createTestMember(world, "org_member", member.email);
		expect(back.uid).toBe(member.uid);
		expect(await roleOf(member.email)).toBe("org_member");
		expect(await works(member.key.text)).toBe(false);
	});
});
