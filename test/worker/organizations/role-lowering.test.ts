/**
 * Lowering a role: the same batch lowers the member's keys in the organization, no key can raise
 * its own account, and the old link of an invitation whose role changed is invalid.
 */
import { sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { rows } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { onApp, onOrganization } from "../support/people";
import {
	createTestApp,
	createTestMember,
	createWorld,
	type TestApp,
	type TestKey,
	type TestMember,
	testEnv,
	tokenOf,
	type World,
} from "../support/world";

const PATH = "/organization/members";

let world: World;
let app: TestApp;
let admin: TestMember;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	admin = await createTestMember(world, "org_admin");
});

const setRole = (role: string, fields: object = {}, via: Pick<World, "request"> = world, email = admin.email) =>
	via.request("PUT", PATH, { key: world.adminKey, body: { orgId: world.orgId, email, role, ...fields } });
async function makeKey(name: string, bindings: readonly object[], by = admin.key.text, fields: object = {}) {
	const { body, status } = await world.request("POST", "/apikey", {
		key: by,
		body: { name, expires_at: "2026-12-01T00:00:00Z", bindings, ...fields },
	});
	if (status !== 201) throw new Error(JSON.stringify(body));
	return { id: body.id as string, text: body.key as string };
}
const orgBinding = (role: string, orgId = world.orgId) => onOrganization(role, orgId);
const lost = (role_name: string, on?: TestApp) => ({ role_name, app_id: on?.appId ?? null, channel_id: null });
const appBinding = (role: string) => onApp(role, world.orgId, app);
const rolesOf = async (id: string) =>
	(
		await rows(query.selectFrom("role_bindings").select("role_name").where("api_key_id", "=", id).orderBy("role_name"))
	).map(({ role_name }) => role_name);
const may = async (key: string, permission: "read" | "invite" | "rename") => {
	const requests = {
		read: ["GET", `/app/${app.appId}`, {}],
		rename: ["PUT", `/app/${app.appId}`, { body: { name: "Renamed" } }],
		invite: ["POST", PATH, { body: { orgId: world.orgId, email: "x@example.com", role: "org_member" } }],
	} as const;
	const [method, path, fields] = requests[permission];
	return (await world.request(method, path, { key, ...fields })).status < 300;
};

describe("a demotion", () => {
	test("cannot be undone with the key of the invitation", async () => {
		expect(await may(admin.key.text, "invite")).toBe(true);
		expect((await setRole("org_member")).status).toBe(200);
		const undo = await world.request("PUT", PATH, {
			key: admin.key.text,
			body: { orgId: world.orgId, email: admin.email, role: "org_admin" },
		});
		expect(undo).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		const stronger = await world.request("POST", "/apikey", {
			key: admin.key.text,
			body: { name: "again", expires_at: "2027-06-01T00:00:00Z", bindings: [orgBinding("org_admin")] },
		});
		expect(stronger.status).toBe(403);
		expect(await may(admin.key.text, "read")).toBe(true);
	});

	test("lowers every key of the account in the organization, lists them, and audits them", async () => {
		const keys = {
			strong: await makeKey("strong", [orgBinding("org_admin"), appBinding("app_developer")]),
			preview: await makeKey("preview", [appBinding("app_preview")]),
			weak: await makeKey("weak", [orgBinding("org_member"), appBinding("app_reader")]),
			mixed: await makeKey("mixed", [orgBinding("org_member"), orgBinding("org_admin")]),
		};
		await world.request("POST", "/channel", {
			key: keys.preview.text,
			body: { app_id: app.appId, channel: "pr-1" },
		});
		const before = await databaseText();
		const dryRun = await setRole("org_member", { dry_run: true });
		expect(await databaseText()).toBe(before);
		const { body } = await setRole("org_member");
		expect(body.lowered_api_keys).toEqual(
			[
				{ id: admin.key.id, name: "Personal key", lost: [lost("org_admin")] },
				{
					id: keys.strong.id,
					name: "strong",
					lost: expect.arrayContaining([lost("org_admin"), lost("app_developer", app)]),
				},
				{ id: keys.preview.id, name: "preview", lost: [lost("app_preview", app)] },
				{ id: keys.mixed.id, name: "mixed", lost: [lost("org_admin")] },
			].sort((left, right) => order(left.id) - order(right.id)),
		);
		function order(id: string): number {
			return dryRun.body.lowered_api_keys.findIndex((key: { id: string }) => key.id === id);
		}
		expect({ ...dryRun.body, dry_run: false }).toEqual(body);
		expect(await rolesOf(admin.key.id)).toEqual(["org_member"]);
		expect(await rolesOf(keys.strong.id)).toEqual(["org_member"]);
		expect(await rolesOf(keys.preview.id)).toEqual([]);
		expect(await rolesOf(keys.weak.id)).toEqual(["app_reader", "org_member"]);
		expect(await rolesOf(keys.mixed.id)).toEqual(["org_member"]);
		const log = await rows(
			query
				.selectFrom("audit_log")
				.select(["action", "target_id"])
				.where("org_id", "=", world.orgId)
				.where(sql`details ->> 'lowered_member'`, "=", admin.uid),
		);
		const of = (id: string) => log.filter((entry) => entry.target_id === id).map(({ action }) => action);
		expect(of(keys.strong.id)).toEqual(["binding.delete", "binding.delete", "binding.create"]);
		expect(of(keys.weak.id)).toEqual([]);
	});

	test("keeps other members' keys, raised roles and other organizations unchanged", async () => {
		const other = await createTestMember(world, "org_admin");
		const elsewhere = await createWorld();
		await testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms) VALUES (?, ?, 'org_admin', 'org', ?, 1)",
		)
			.bind(crypto.randomUUID(), admin.key.id, elsewhere.orgId)
			.run();
		expect((await setRole("org_super_admin")).body.lowered_api_keys).toEqual([]);
		await setRole("org_member");
		expect(await rolesOf(admin.key.id)).toEqual(["org_admin", "org_member"]);
		expect(await rolesOf(other.key.id)).toEqual(["org_admin"]);
		expect(await may(other.key.text, "invite")).toBe(true);
	});

	test("lowers a key of another organization, in this organization only", async () => {
		const home = await createWorld();
		await testEnv.DB.batch([
			testEnv.DB.prepare("UPDATE api_keys SET org_id = ? WHERE id = ?").bind(home.orgId, admin.key.id),
			testEnv.DB.prepare(
				"INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms) VALUES (?, ?, 'org_admin', 'org', ?, 1)",
			).bind(crypto.randomUUID(), admin.key.id, home.orgId),
		]);
		const { body } = await setRole("org_member");
		expect(body.lowered_api_keys).toMatchObject([{ id: admin.key.id }]);
		expect(await rolesOf(admin.key.id)).toEqual(["org_admin", "org_member"]);
		expect((await world.request("GET", "/organization", { key: admin.key.text })).body).toHaveLength(2);
	});

	test("keeps the roles on apps that the account holds itself", async () => {
		await testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, app_id, created_at_ms) VALUES (?, ?, 'app_developer', 'app', ?, ?, 1)",
		)
			.bind(crypto.randomUUID(), admin.uid, world.orgId, app.uuid)
			.run();
		const key = await makeKey("mine", [appBinding("app_uploader")]);
		const stronger = await makeKey("stronger", [appBinding("app_admin")]);
		await setRole("org_member");
		expect(await rolesOf(key.id)).toEqual(["app_uploader"]);
		expect(await rolesOf(stronger.id)).toEqual([]);
	});

	test("removes org.create from a key that no longer administers any organization", async () => {
		const key = await makeKey("creator", [orgBinding("org_super_admin")], world.adminKey, {
			expires_at: undefined,
			global_permissions: ["org.create"],
		});
		await createTestMember(world, "org_super_admin");
		await setRole("org_member", {}, world, world.adminEmail);
		expect(await rows(query.selectFrom("api_keys").select("global_permissions").where("id", "=", key.id))).toEqual([
			{ global_permissions: "[]" },
		]);
	});

	test("with keep_keys keeps the keys, which still cannot grant rights to anyone", async () => {
		const { body } = await setRole("org_member", { keep_keys: true });
		expect(body.lowered_api_keys).toEqual([]);
		expect(await rolesOf(admin.key.id)).toEqual(["org_admin"]);
		expect(await may(admin.key.text, "rename")).toBe(true);
		const undo = await world.request("PUT", PATH, {
			key: admin.key.text,
			body: { orgId: world.orgId, email: admin.email, role: "org_admin" },
		});
		expect(undo).toMatchObject({
			status: 403,
			body: {
				error: "permission_denied",
				message: expect.stringContaining("the account that it acts for does not"),
				moreInfo: { permission: "org.update_user_roles", scope: "org" },
			},
		});
		expect(await may(admin.key.text, "invite")).toBe(false);
		const created = await world.request("POST", "/apikey", {
			key: admin.key.text,
			body: { name: "x", expires_at: "2026-12-01T00:00:00Z", bindings: [orgBinding("org_member")] },
		});
		expect(created.status).toBe(403);
		const { body: visible } = await world.request("GET", "/apikey", { key: admin.key.text });
		expect(visible.map(({ id }: { id: string }) => id)).toEqual([admin.key.id]);
	});

	test("with keep_keys lets no key grant its account, or others, more than the account holds", async () => {
		const owner = await createTestMember(world, "org_super_admin");
		expect((await setRole("org_admin", { keep_keys: true }, world, owner.email)).status).toBe(200);
		expect(await rolesOf(owner.key.id)).toEqual(["org_super_admin"]);
		const give = (role: string, email = owner.email) =>
			world.request("PUT", PATH, { key: owner.key.text, body: { orgId: world.orgId, email, role } });
		for (const email of [owner.email, admin.email]) {
			expect(await give("org_super_admin", email)).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		}
		const invited = await world.request("POST", PATH, {
			key: owner.key.text,
			body: { orgId: world.orgId, email: "x@example.com", role: "org_super_admin" },
		});
		expect(invited.status).toBe(403);
		expect((await give("org_member", admin.email)).status).toBe(200);
	});

	test("stops a concurrent write of a key of the account", async () => {
		const racing = await readThenWrite(
			world,
			(via) =>
				via.request("POST", PATH, {
					key: admin.key.text,
					body: { orgId: world.orgId, email: "friend@example.com", role: "org_admin" },
				}),
			() => setRole("org_member", { keep_keys: true }),
		);
		expect(racing.status).toBe(401);
		expect(await rows(query.selectFrom("invitations").select("id").where("org_id", "=", world.orgId))).toEqual([]);
	});

	test("and a removal cannot be blocked by keys that the person creates and deletes", async () => {
		for (const end of [
			(via: Pick<World, "request">) => setRole("org_member", {}, via),
			(via: Pick<World, "request">) =>
				via.request("DELETE", PATH, { key: world.adminKey, query: { orgId: world.orgId, email: admin.email } }),
		]) {
			admin = await createTestMember(world, "org_admin");
			const going = await makeKey("going", [orgBinding("org_admin")]);
			let coming: { id: string } | undefined;
			const answer = await readThenWrite(world, end, async () => {
				coming = await makeKey("coming", [orgBinding("org_admin")]);
				return world.request("DELETE", `/apikey/${going.id}`, { key: admin.key.text });
			});
			expect(answer.status, JSON.stringify(answer.body)).toBe(200);
			expect(await rolesOf(coming?.id ?? "")).not.toContain("org_admin");
		}
	});

	test("and a removal take nothing from a key that gained more than the caller holds meanwhile", async () => {
		const caller = (await createTestMember(world, "org_admin")).key.text;
		for (const end of [
			(via: Pick<World, "request">) =>
				via.request("PUT", PATH, {
					key: caller,
					body: { orgId: world.orgId, email: admin.email, role: "org_member" },
				}),
			(via: Pick<World, "request">) =>
				via.request("DELETE", PATH, { key: caller, query: { orgId: world.orgId, email: admin.email } }),
		]) {
			admin = await createTestMember(world, "org_admin");
			const answer = await readThenWrite(world, end, () =>
				world.request("PUT", `/apikey/${admin.key.id}`, {
					key: world.adminKey,
					body: { bindings: [orgBinding("org_super_admin")] },
				}),
			);
			expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
			expect(await rolesOf(admin.key.id)).toEqual(["org_super_admin"]);
		}
	});

	test("includes a key that is created at the same moment", async () => {
		let late: { id: string } | undefined;
		const answer = await readThenWrite(
			world,
			(via) => setRole("org_member", {}, via),
			async () => {
				late = await makeKey("late", [appBinding("app_developer")]);
				return { status: 200 } as never;
			},
		);
		expect(answer.status).toBe(200);
		expect((answer.body as { lowered_api_keys: unknown }).lowered_api_keys).toContainEqual(
			expect.objectContaining({ name: "late" }),
		);
		expect(await rolesOf(late?.id ?? "")).toEqual([]);
	});
});

describe("the link of an invitation", () => {
	let email: string;
	beforeEach(() => {
		email = `new.${crypto.randomUUID()}@example.com`;
	});
	const show = (token: string) => world.request("POST", "/invitation/show", { body: { token } });
	const accept = (token: string) => world.request("POST", "/invitation/accept", { body: { token } });
	const invite = async (role = "org_member") =>
		tokenOf(
			(
				await world.request("POST", PATH, {
					key: admin.key.text,
					body: { orgId: world.orgId, email, role },
				})
			).body.link,
		);

	test("is replaced when the role changes, and the old link stops working", async () => {
		const kept = await invite();
		const { body } = await setRole("org_super_admin", {}, world, email);
		const sent = tokenOf(body.link);
		for (const answer of [await show(kept), await accept(kept)]) {
			expect(answer).toMatchObject({ status: 404, body: { error: "invitation_not_found" } });
		}
		expect((await show(sent)).body).toMatchObject({ role: "org_super_admin" });
		expect((await accept(sent)).status).toBe(201);
	});

	test("stays if the role stays, and in a dry run", async () => {
		const kept = await invite();
		expect((await setRole("org_member", {}, world, email)).body.link).toBeNull();
		expect((await setRole("org_admin", { dry_run: true }, world, email)).body.link).toBeNull();
		expect((await accept(kept)).body).toMatchObject({ role: "org_member" });
	});

	test("is replaced once by two concurrent changes of the role", async () => {
		const kept = await invite();
		const second = await readThenWrite(
			world,
			(via) => setRole("org_admin", {}, via, email),
			() => setRole("org_super_admin", {}, world, email),
		);
		expect(second).toMatchObject({ status: 409, body: { error: "member_changed" } });
		expect((await show(kept)).status).toBe(404);
	});

	test("does not grant the old role when it is used during a change of the role", async () => {
		const kept = await invite();
		const answer = await readThenWrite(
			world,
			(via) => via.request("POST", "/invitation/accept", { body: { token: kept } }),
			() => setRole("org_super_admin", {}, world, email),
		);
		expect(answer.status).toBe(404);
	});
});

describe("keys of others that a member has seen", () => {
	const sharedKey = (name: string, by = world.adminKey) =>
		makeKey(name, [orgBinding("org_admin")], by, { hashed: false });
	const reveal = (id: string, key: string) => world.request("GET", `/apikey/${id}`, { key, query: { reveal: "true" } });
	let seen: TestKey;
	let own: TestKey;
	beforeEach(async () => {
		seen = await sharedKey("Shared");
		own = await sharedKey("Own", admin.key.text);
		await sharedKey("Never seen");
		const other = await sharedKey("Seen by another account");
		for (const { id } of [seen, own]) await reveal(id, admin.key.text);
		await reveal(other.id, world.adminKey);
	});

	test("are listed when the member is removed, separately from their own, and stay valid", async () => {
		const remove = (fields: Record<string, string> = {}) =>
			world.request("DELETE", PATH, {
				key: world.adminKey,
				query: { orgId: world.orgId, email: admin.email, ...fields },
			});
		const before = await databaseText();
		const dryRun = await remove({ dry_run: "true" });
		expect(await databaseText()).toBe(before);
		expect(dryRun.body.revealed_api_keys).toEqual([{ id: seen.id, name: "Shared" }]);
		const { body } = await remove();
		expect({ ...body, dry_run: true }).toEqual(dryRun.body);
		expect(body.revoked_api_keys).toContainEqual({ id: own.id, name: "Own" });
		expect((await world.request("GET", "/organization", { key: seen.text })).status).toBe(200);
	});

	test("are listed by a demotion, and keep their rights", async () => {
		const before = await databaseText();
		const dryRun = await setRole("org_member", { dry_run: true });
		expect(await databaseText()).toBe(before);
		expect(dryRun.body.revealed_api_keys).toEqual([{ id: seen.id, name: "Shared" }]);
		expect((await setRole("org_super_admin", { dry_run: true })).body.revealed_api_keys, "raised").toEqual([]);
		expect((await setRole("org_member", { keep_keys: true, dry_run: true })).body.revealed_api_keys).toHaveLength(1);
		const { body } = await setRole("org_member");
		expect({ ...body, dry_run: true }).toEqual(dryRun.body);
		expect(await rolesOf(seen.id)).toEqual(["org_admin"]);
	});
});
