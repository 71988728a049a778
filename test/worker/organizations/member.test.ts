/**
 * Members: listing and changing them, by callers with enough rights, also under concurrent
 * requests.
 */
import { beforeEach, describe, expect, test } from "vitest";
import type { OrgId } from "../../../src/authz/decide";
import { query } from "../../../src/db/client";
import { membersOf } from "../../../src/db/members";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { memberActions } from "../support/member-actions";
import { bind } from "../support/people";
import { plansOf, scansIn } from "../support/plans";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	NOW_MS,
	testEnv,
	tokenOf,
	type World,
} from "../support/world";

const PATH = "/organization/members";
let world: World;

/** The first member's address. */
let owner: string;

beforeEach(async () => {
	world = await createWorld();
	owner = `${world.userId}@example.com`;
});
const { list, setRole, remove, invite, works, auditHere, roleOf, keyOf, passingOwner } = memberActions(() => world);

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

	test("omits people with a role on one app only, although they can be removed", async () => {
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

	test("omits expired invitations and roles", async () => {
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

	test("shows nothing of other organizations, and requires org.read_members", async () => {
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

	test("has the given limit and page, by default 50, and says whether another page follows", async () => {
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

	test("is the one member or invitation with the given uid, and none of another organization", async () => {
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
		expect(scansIn(plan, ["members", "page"])).toEqual([]);
		expect(plan.join(" ")).toMatch(
			/SEARCH b USING INDEX role_bindings_of_members \(org_id=\? AND scope_type=\? AND user_id=\?\)/,
		);
		expect(plan.join(" ")).not.toContain("role_bindings_by_org");
	});

	test("without parameters contains everyone up to a thousand, and links to the rest", async () => {
		await invitations(999);
		const whole = await page({});
		expect([whole.body.length, next(whole)]).toEqual([1000, null]);
		await testEnv.DB.prepare(
			"INSERT INTO invitations (id, org_id, email, role_name, token_hash, invited_by, expires_at_ms, created_at_ms) SELECT id || 'x', org_id, 'b@example.com', role_name, token_hash || 'x', invited_by, expires_at_ms, 0 FROM invitations WHERE org_id = ? LIMIT 1",
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
		"refuses %j",
		async (query) => {
			expect(await page(query as unknown as Record<string, string>)).toMatchObject({
				status: 400,
				body: { error: "invalid_request", moreInfo: { issues: [{ path: Object.keys(query)[0] }] } },
			});
		},
	);
});

describe("PUT /organization/members", () => {
	test("refuses a key that is limited to addresses to change an invitation", async () => {
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

	test("changes the role, lowers the member's keys and lists all of them", async () => {
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
				{ id: member.key.id, name: "Personal key", lost: [{ role_name: "org_admin", app_id: null, channel_id: null }] },
				{ id: expect.any(String), name: "second", lost: [{ role_name: "org_admin", app_id: null, channel_id: null }] },
			],
			revealed_api_keys: [],
			dry_run: false,
			link: null,
		});
		expect(await roleOf(member.email)).toBe("org_member");
		expect((await setRole(member.email, "org_member", member.key.text)).status, "its key follows").toBe(403);
		expect((await setRole(member.email, "org_member")).body.lowered_api_keys).toEqual([]);
		const [entry, ...more] = await auditHere("member.update");
		expect(more, "an unchanged role is no change").toEqual([]);
		expect(entry).toMatchObject({ target_id: member.uid, target_name: member.email });
		expect([JSON.parse(entry?.before ?? ""), JSON.parse(entry?.after ?? "")]).toEqual([
			{ role: "org_admin" },
			{ role: "org_member" },
		]);
	});

	test("changes the role of a pending invitation, and makes the caller its inviter", async () => {
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

	test("refuses if the old or the new role is stronger than the caller", async () => {
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

	test("returns 404 for strangers, members of other organizations and expired invitations", async () => {
		const elsewhere = await createWorld();
		const stranger = await createTestMember(elsewhere, "org_member");
		await invite("late@example.com", "org_member");
		world.clock.nowMs += 7 * DAY_MS;
		for (const email of ["nobody@example.com", stranger.email, "late@example.com"]) {
			expect(await setRole(email, "org_admin")).toMatchObject({ status: 404, body: { error: "member_not_found" } });
		}
		expect((await setRole(owner, "org_admin", elsewhere.adminKey)).body.error).toBe("organization_not_found");
	});

	test("keeps the member's roles on apps and in other organizations", async () => {
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
		// The person's roles in other organizations are not compared.
		const admin = await createTestMember(world, "org_admin");
		expect((await setRole(person.email, "org_admin", admin.key.text)).status).toBe(200);
		expect(await rows(bindings)).toEqual([
			{ role_name: "app_reader", org_id: world.orgId },
			{ role_name: "org_admin", org_id: world.orgId },
			{ role_name: "org_super_admin", org_id: elsewhere.orgId },
		]);
	});

	test("does not make a member of a person who only has a role on an app or a key", async () => {
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

	test("does not overwrite a concurrent change of the member", async () => {
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
