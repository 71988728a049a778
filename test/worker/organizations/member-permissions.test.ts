/**
 * Global permissions of accounts: only the operator grants org.create, because it applies in every
 * organization, and it takes effect while the account administers an organization.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { readThenWrite } from "../support/interleave";
import { signIn } from "../support/sessions";
import { createTestKey, createTestMember, createWorld, makeOperator, testEnv, type World } from "../support/world";

let world: World;
let member: Awaited<ReturnType<typeof createTestMember>>;
beforeEach(async () => {
	world = await createWorld();
	member = await createTestMember(world, "org_admin");
});

const ALLOWED = ["org.create"];
const set = (global_permissions: string[], options: object = { key: world.adminKey }, email = member.email) =>
	world.request("PUT", "/organization/members/permissions", {
		...options,
		body: { orgId: world.orgId, email, global_permissions },
	});
const listed = async () =>
	(
		await world.request("GET", "/organization/members", { key: world.adminKey, query: { orgId: world.orgId } })
	).body.find(({ email }: { email: string }) => email === member.email).global_permissions;
const create = async () =>
	world.request("PUT", "/organization", { ...(await signIn(world, member.email)), body: { name: "theirs" } });

describe("a member's org.create", () => {
	test("lets the member create organizations until it is removed", async () => {
		expect(await listed()).toEqual([]);
		expect(await create()).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect(await set(ALLOWED)).toMatchObject({ status: 200, trips: 2, body: { global_permissions: ALLOWED } });
		expect(await listed()).toEqual(ALLOWED);
		expect((await create()).status).toBe(201);
		expect((await set([])).status).toBe(200);
		expect(await create()).toMatchObject({ status: 403, body: { error: "permission_denied" } });
	});

	test("is set by a permitted session with an audit entry, and an unchanged value writes none", async () => {
		const admin = await signIn(world);
		expect(await set(ALLOWED, admin)).toMatchObject({ status: 200 });
		expect(await set(ALLOWED, admin)).toMatchObject({ status: 200, trips: 1 });
		const { results } = await testEnv.DB.prepare(
			"SELECT actor_name, before, after FROM audit_log WHERE org_id = ? AND action = 'member.update'",
		)
			.bind(world.orgId)
			.all();
		expect(results).toEqual([
			{
				actor_name: world.adminEmail,
				before: '{"role":"org_admin","global_permissions":[]}',
				after: '{"role":"org_admin","global_permissions":["org.create"]}',
			},
		]);
	});

	test("has no effect after the member loses the administering role", async () => {
		await set(ALLOWED);
		await world.request("PUT", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email: member.email, role: "org_member" },
		});
		expect((await create()).status).toBe(403);
	});
});

describe("PUT /organization/members/permissions", () => {
	test("refuses a caller without org.create to grant or remove it", async () => {
		const weaker = await createTestKey(world, "org_super_admin");
		expect(await set(ALLOWED, { key: weaker.text })).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.create", scope: "global" } },
		});
		await set(ALLOWED);
		expect((await set([], { key: weaker.text })).status).toBe(403);
		expect(await listed()).toEqual(ALLOWED);
	});

	test("refuses a member without an administering role, an invitation, a stranger, and a stronger member", async () => {
		const weak = await createTestMember(world, "org_member");
		expect(await set(ALLOWED, undefined, weak.email)).toMatchObject({
			status: 400,
			body: { error: "invalid_global_permissions" },
		});
		await world.request("POST", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email: "invited@example.com", role: "org_admin" },
		});
		const elsewhere = await createWorld({ isOperator: false });
		for (const email of ["invited@example.com", elsewhere.adminEmail]) {
			expect(await set(ALLOWED, undefined, email)).toMatchObject({ status: 404, body: { error: "member_not_found" } });
		}
		const admin = await createTestKey(world, "org_admin", undefined, { global_permissions: ALLOWED });
		const answer = await set([], { key: admin.text }, world.adminEmail);
		expect(answer.status).toBe(403);
	});

	test("refuses a caller of another organization, with any role there", async () => {
		const elsewhere = await createWorld({ isOperator: false });
		expect(await set(ALLOWED, { key: elsewhere.adminKey })).toMatchObject({
			status: 404,
			body: { error: "organization_not_found" },
		});
		expect(await listed()).toEqual([]);
	});

	test("refuses an owner of the account's organization, because only the operator changes global permissions", async () => {
		const operator = await createWorld();
		const refused = { status: 404, body: { error: "organization_not_found" } };
		expect(await set(ALLOWED)).toMatchObject(refused);
		expect(await set(ALLOWED, await signIn(world))).toMatchObject(refused);
		// The operator names the organization in which the account is a member.
		expect((await set(ALLOWED, { key: operator.adminKey })).status).toBe(200);
		expect(await set([])).toMatchObject(refused);
		expect(await listed()).toEqual(ALLOWED);
		await makeOperator(world);
		expect((await set([])).status).toBe(200);
	});
});

describe("PUT /organization/members/permissions, in a race", () => {
	test.each<[string, (world: World) => Promise<unknown>, number]>([
		[
			"the caller loses org.create",
			(there) =>
				testEnv.DB.prepare("UPDATE api_keys SET global_permissions = '[]' WHERE id = ?").bind(there.adminKeyId).run(),
			403,
		],
		[
			"the member loses the role",
			() => testEnv.DB.prepare("DELETE FROM role_bindings WHERE user_id = ?").bind(member.uid).run(),
			409,
		],
		[
			"somebody else lets them",
			() => testEnv.DB.prepare(`UPDATE users SET global_permissions = '["x"]' WHERE id = ?`).bind(member.uid).run(),
			409,
		],
	])("writes nothing if %s", async (_, change, status) => {
		const body = { orgId: world.orgId, email: member.email, global_permissions: ALLOWED };
		const answer = await readThenWrite(
			world,
			(racing) => racing.request("PUT", "/organization/members/permissions", { key: world.adminKey, body }),
			async () => {
				await change(world);
				return { status: 200, body: undefined, headers: new Headers(), trips: undefined };
			},
		);
		expect(answer.status).toBe(status);
		const { results } = await testEnv.DB.prepare(
			"SELECT 1 FROM audit_log WHERE org_id = ? AND action = 'member.update'",
		)
			.bind(world.orgId)
			.all();
		expect(results).toEqual([]);
	});
});
