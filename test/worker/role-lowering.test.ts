/**
 * A lower role is lower in every way: the member's keys in the organization follow it in the same batch, no key raises its own account,
 * and the link of an invitation whose role was raised is worth nothing to the person who had it before.
 */
import { sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../src/db/client";
import { rows } from "./support/bytes";
import { databaseText } from "./support/database-text";
import { readThenWrite } from "./support/interleave";
import {
	createTestApp,
	createTestMember,
	createWorld,
	type TestApp,
	type TestMember,
	testEnv,
	tokenOf,
	type World,
} from "./support/world";

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
const onOrganization = (role_name: string, org_id = world.orgId) => ({ role_name, scope_type: "org", org_id });
const onApp = (role_name: string) => ({ role_name, scope_type: "app", org_id: world.orgId, app_id: app.uuid });
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
	test("cannot be undone with the key that the invitation gave", async () => {
		expect(await may(admin.key.text, "invite")).toBe(true);
		expect((await setRole("org_member")).status).toBe(200);
		const undo = await world.request("PUT", PATH, {
			key: admin.key.text,
			body: { orgId: world.orgId, email: admin.email, role: "org_admin" },
		});
		expect(undo).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		const stronger = await world.request("POST", "/apikey", {
			key: admin.key.text,
			body: { name: "again", expires_at: "2027-06-01T00:00:00Z", bindings: [onOrganization("org_admin")] },
		});
		expect(stronger.status).toBe(403);
		expect(await may(admin.key.text, "read")).toBe(true);
	});

	test("lowers every key of the account in the organization, says which, and writes it down", async () => {
		const keys = {
			strong: await makeKey("strong", [onOrganization("org_admin"), onApp("app_developer")]),
			preview: await makeKey("preview", [onApp("app_preview")]),
			weak: await makeKey("weak", [onOrganization("org_member"), onApp("app_reader")]),
			mixed: await makeKey("mixed", [onOrganization("org_member"), onOrganization("org_admin")]),
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
				{ id: admin.key.id, name: "Personal key", lost: [{ role_name: "org_admin", app_id: null }] },
				{
					...{ id: keys.strong.id, name: "strong" },
					lost: expect.arrayContaining([
						{ role_name: "org_admin", app_id: null },
						{ role_name: "app_developer", app_id: app.appId },
					]),
				},
				{ id: keys.preview.id, name: "preview", lost: [{ role_name: "app_preview", app_id: app.appId }] },
				{ id: keys.mixed.id, name: "mixed", lost: [{ role_name: "org_admin", app_id: null }] },
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

	test("leaves other people's keys, raised roles and other organizations alone", async () => {
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

	test("lowers a key of another organization, here alone", async () => {
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

	test("keeps what the account holds on an app itself", async () => {
		await testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, app_id, created_at_ms) VALUES (?, ?, 'app_developer', 'app', ?, ?, 1)",
		)
			.bind(crypto.randomUUID(), admin.uid, world.orgId, app.uuid)
			.run();
		const key = await makeKey("mine", [onApp("app_uploader")]);
		const stronger = await makeKey("stronger", [onApp("app_admin")]);
		await setRole("org_member");
		expect(await rolesOf(key.id)).toEqual(["app_uploader"]);
		expect(await rolesOf(stronger.id)).toEqual([]);
	});

	test("takes org.create from a key that administers nothing any more", async () => {
		const key = await makeKey("creator", [onOrganization("org_super_admin")], world.adminKey, {
			expires_at: undefined,
			global_permissions: ["org.create"],
		});
		await createTestMember(world, "org_super_admin");
		await setRole("org_member", {}, world, world.adminEmail);
		expect(await rows(query.selectFrom("api_keys").select("global_permissions").where("id", "=", key.id))).toEqual([
			{ global_permissions: "[]" },
		]);
	});

	test("with keep_keys leaves the keys, which still give nobody any rights", async () => {
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
			body: { name: "x", expires_at: "2026-12-01T00:00:00Z", bindings: [onOrganization("org_member")] },
		});
		expect(created.status).toBe(403);
		const { body: visible } = await world.request("GET", "/apikey", { key: admin.key.text });
		expect(visible.map(({ id }: { id: string }) => id)).toEqual([admin.key.id]);
	});

	test("with keep_keys lets no key give its account, or anybody, more than the account holds", async () => {
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

	test("that happens while a key of the account writes stops that write", async () => {
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

	test("and a removal are not held off by keys that the person makes and deletes", async () => {
		for (const end of [
			(via: Pick<World, "request">) => setRole("org_member", {}, via),
			(via: Pick<World, "request">) =>
				via.request("DELETE", PATH, { key: world.adminKey, query: { orgId: world.orgId, email: admin.email } }),
		]) {
			admin = await createTestMember(world, "org_admin");
			const going = await makeKey("going", [onOrganization("org_admin")]);
			let coming: { id: string } | undefined;
			const answer = await readThenWrite(world, end, async () => {
				coming = await makeKey("coming", [onOrganization("org_admin")]);
				return world.request("DELETE", `/apikey/${going.id}`, { key: admin.key.text });
			});
			expect(answer.status, JSON.stringify(answer.body)).toBe(200);
			expect(await rolesOf(coming?.id ?? "")).not.toContain("org_admin");
		}
	});

	test("and a removal take nothing from a key that got more than the caller holds meanwhile", async () => {
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
					body: { bindings: [onOrganization("org_super_admin")] },
				}),
			);
			expect(answer).toMatchObject({ status: 409, body: { error: "member_changed" } });
			expect(await rolesOf(admin.key.id)).toEqual(["org_super_admin"]);
		}
	});

	test("sees a key that is created while it runs", async () => {
		let late: { id: string } | undefined;
		const answer = await readThenWrite(
			world,
			(via) => setRole("org_member", {}, via),
			async () => {
				late = await makeKey("late", [onApp("app_developer")]);
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

	test("is a new one when somebody changes the role, and the old one is dead", async () => {
		const kept = await invite();
		const { body } = await setRole("org_super_admin", {}, world, email);
		const sent = tokenOf(body.link);
		for (const answer of [await show(kept), await accept(kept)]) {
			expect(answer).toMatchObject({ status: 404, body: { error: "invitation_not_found" } });
		}
		expect((await show(sent)).body).toMatchObject({ role: "org_super_admin" });
		expect((await accept(sent)).status).toBe(201);
	});

	test("stays when the role does, and in a dry run", async () => {
		const kept = await invite();
		expect((await setRole("org_member", {}, world, email)).body.link).toBeNull();
		expect((await setRole("org_admin", { dry_run: true }, world, email)).body.link).toBeNull();
		expect((await accept(kept)).body).toMatchObject({ role: "org_member" });
	});

	test("is one of two when two people change the role at once", async () => {
		const kept = await invite();
		const second = await readThenWrite(
			world,
			(via) => setRole("org_admin", {}, via, email),
			() => setRole("org_super_admin", {}, world, email),
		);
		expect(second).toMatchObject({ status: 409, body: { error: "member_changed" } });
		expect((await show(kept)).status).toBe(404);
	});

	test("that is used while the role changes gives the old role to nobody", async () => {
		const kept = await invite();
		const answer = await readThenWrite(
			world,
			(via) => via.request("POST", "/invitation/accept", { body: { token: kept } }),
			() => setRole("org_super_admin", {}, world, email),
		);
		expect(answer.status).toBe(404);
	});
});
