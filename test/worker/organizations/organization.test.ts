/**
 * Showing, creating and changing organizations, and the effect of a policy change on existing keys.
 * organization-deletion.test.ts covers deletion and restoration.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { rows, run } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { bind } from "../support/people";
import { createTestApp, createTestKey, createWorld, NOW_MS, type World } from "../support/world";

let world: World;

beforeEach(async () => {
	world = await createWorld();
});

const change = (fields: Record<string, unknown>, key = world.adminKey, via: Pick<World, "request"> = world) =>
	via.request("POST", "/organization", { key, body: { orgId: world.orgId, ...fields } });

const show = async (key = world.adminKey, orgId = world.orgId) =>
	(await world.request("GET", "/organization", { key, query: { orgId } })).body;

const create = (fields: Record<string, unknown>, key = world.adminKey, via: Pick<World, "request"> = world) =>
	via.request("PUT", "/organization", { key, body: fields });

const auditOf = (orgId: string) =>
	rows(query.selectFrom("audit_log").selectAll().where("org_id", "=", orgId).orderBy("id"));
const orgKey = (role: string, fields: Record<string, unknown> = {}) => createTestKey(world, role, undefined, fields);

async function createdOrganization(name = "Second", key = world.adminKey): Promise<string> {
	const { status, body } = await create({ name }, key);
	if (status !== 201) throw new Error(JSON.stringify(body));
	return body.id;
}

describe("GET /organization", () => {
	test("shows the record with the policies, and nothing else", async () => {
		expect(await show()).toEqual({
			id: world.orgId,
			name: "Test",
			logo: null,
			website: null,
			management_email: null,
			customer_id: null,
			created_by: world.userId,
			created_at: "2026-11-21T08:00:00.000Z",
			updated_at: "2026-11-21T08:00:00.000Z",
			enforce_hashed_api_keys: false,
			require_apikey_expiration: false,
			max_apikey_expiration_days: null,
			require_signed_bundles: false,
		});
	});

	test("returns 403 to a key with a role on an app there, and 404 to a key of another organization", async () => {
		const app = await createTestApp(world);
		const { text } = await createTestKey(world, "app_admin", app);
		const refused = await world.request("GET", "/organization", { key: text, query: { orgId: world.orgId } });
		expect(refused).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.read", scope: "org" } },
		});
		expect((await world.request("GET", "/organization", { key: text })).body).toEqual([]);
		const elsewhere = await createWorld();
		const hidden = await world.request("GET", "/organization", {
			key: elsewhere.adminKey,
			query: { orgId: world.orgId },
		});
		expect(hidden).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
	});

	test("names the policy that suspends a key of another organization there", async () => {
		const orgId = await createdOrganization();
		const { text } = await createTestKey(world, "org_super_admin");
		const admin = await foreignKeyIn(orgId);
		await run(query.updateTable("organizations").set({ max_apikey_expiration_days: 1 }).where("id", "=", orgId));
		const stopped = await world.request("GET", "/organization", { key: admin, query: { orgId } });
		expect(stopped).toMatchObject({
			status: 401,
			body: { error: "api_key_violates_policy", moreInfo: { policy: "max_apikey_expiration_days", org_id: orgId } },
		});
		expect((await show(text)).id).toBe(world.orgId);
	});
});

/** A key of this world's organization that administers another one. */
async function foreignKeyIn(orgId: string, fields: Record<string, unknown> = {}): Promise<string> {
	const { id, text } = await orgKey("org_admin", fields);
	await bind({ api_key_id: id }, "org_super_admin", orgId);
	return text;
}

describe("PUT /organization", () => {
	test("gives the key and its account the administering role, with audit entries in the same batch", async () => {
		const { status, body } = await create({
			name: "  Example Ltd ",
			management_email: "Ada@Example.com",
			website: "http://example.com/about",
			logo: "https://example.com/logo.png",
		});
		expect({ status, body }).toEqual({ status: 201, body: { status: "Organization created", id: expect.any(String) } });
		expect(await show(world.adminKey, body.id)).toMatchObject({
			name: "Example Ltd",
			management_email: "ada@example.com",
			website: "http://example.com/about",
			logo: "https://example.com/logo.png",
			created_by: world.userId,
		});
		const members = await world.request("GET", "/organization/members", {
			key: world.adminKey,
			query: { orgId: body.id },
		});
		expect(members.body).toMatchObject([{ uid: world.userId, role: "org_super_admin", is_tmp: false }]);
		const gone = await world.request("DELETE", "/organization", {
			key: world.adminKey,
			query: { orgId: body.id, dry_run: "true" },
		});
		expect(gone.body.removes).toMatchObject({ members: 1, api_keys: 0, apps: 0 });
		expect((await auditOf(body.id)).map(({ action, actor_id, target_id }) => [action, actor_id, target_id])).toEqual([
			["organization.create", world.adminKeyId, body.id],
			["binding.create", world.adminKeyId, world.adminKeyId],
			["member.add", world.adminKeyId, world.userId],
		]);
	});

	test.each([
		["a blank name", { name: "  " }, "name"],
		["no name", {}, "name"],
		["an address that is no web address", { name: "x", website: "ftp://example.com" }, "website"],
		["a password in the website", { name: "x", website: "https://ada:secret@example.com" }, "website"],
		["a password in the logo", { name: "x", logo: "https://ada:secret@example.com/logo.png" }, "logo"],
		["a user name in the logo", { name: "x", logo: "https://ada@example.com/logo.png" }, "logo"],
		["a logo over http", { name: "x", logo: "http://example.com/logo.png" }, "logo"],
		["an e-mail address without a domain", { name: "x", management_email: "ada" }, "management_email"],
	])("refuses %s", async (_, fields, path) => {
		const before = await databaseText();
		const { status, body } = await create(fields);
		expect({ status, path: body.moreInfo.issues[0].path }).toEqual({ status: 400, path });
		expect(await databaseText()).toBe(before);
	});

	test("with orgId changes that organization, as some clients do with PUT", async () => {
		const { status, body } = await create({ orgId: world.orgId, name: "Renamed" });
		expect({ status, body }).toMatchObject({
			status: 200,
			body: { status: "Organization updated", id: world.orgId, data: { name: "Renamed" } },
		});
		expect((await create({ orgId: world.orgId, name: "Test" })).status).toBe(200);
	});

	test("refuses an administering key without org.create, before it validates the body", async () => {
		const { text } = await orgKey("org_super_admin");
		expect(await create({}, text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.create", scope: "global" } },
		});
	});

	test("refuses a key whose last administering binding is removed, expired, or in a deleted organization", async () => {
		const admin = { name: "x", global_permissions: ["org.create"] };
		const bindingOf = (id: string) => query.updateTable("role_bindings").where("api_key_id", "=", id);
		const demoted = await orgKey("org_admin", admin);
		await run(bindingOf(demoted.id).set({ role_name: "org_member" }));
		const ranOut = await orgKey("org_admin", admin);
		await run(bindingOf(ranOut.id).set({ expires_at_ms: NOW_MS }));
		const good = await orgKey("org_admin", admin);
		expect((await create({ name: "x" }, demoted.text)).status).toBe(403);
		expect((await create({ name: "x" }, ranOut.text)).status).toBe(403);
		expect((await create({ name: "x" }, good.text)).status).toBe(201);

		const other = await createWorld();
		await other.request("DELETE", "/organization", { key: other.adminKey, query: { orgId: other.orgId } });
		expect((await create({ name: "x" }, other.adminKey, other)).status).toBe(403);
	});

	test.each([
		["binding", (id: string) => query.deleteFrom("role_bindings").where("api_key_id", "=", id)],
		[
			"permission",
			(id: string) => query.updateTable("api_keys").set({ global_permissions: "[]" }).where("id", "=", id),
		],
		[
			"organization",
			() => query.updateTable("organizations").set({ deleted_at_ms: NOW_MS }).where("id", "=", world.orgId),
		],
	])("creates nothing if the caller's %s is removed at the same moment", async (what, goes) => {
		const { id, text } = await orgKey("org_admin", { name: "x", global_permissions: ["org.create"] });
		const answer = await readThenWrite(
			world,
			(racing) => create({ name: "Raced" }, text, racing),
			async () => {
				await run(goes(id));
				return { status: 200, body: {}, headers: new Headers(), trips: 0 };
			},
		);
		const [status, error] = what === "binding" ? [401, "invalid_api_key"] : [403, "permission_denied"];
		expect(answer).toMatchObject({ status, body: { error } });
		expect(await rows(query.selectFrom("organizations").select("id").where("name", "=", "Raced"))).toEqual([]);
	});
});

describe("POST /organization", () => {
	test("changes the given fields, returns the record, and audits before and after", async () => {
		world.clock.nowMs += 1000;
		const { status, body } = await change({ name: "New", website: "https://example.com", logo: null });
		expect(status).toBe(200);
		expect(body).toEqual({
			status: "Organization updated",
			id: world.orgId,
			data: await show(),
			stopped_api_keys: [],
			stopped_api_key_count: 0,
			unsigned_channels: [],
			unsigned_channel_count: 0,
		});
		expect(body.data).toMatchObject({
			name: "New",
			website: "https://example.com",
			updated_at: "2026-11-21T08:00:01.000Z",
		});
		const [entry, ...more] = await auditOf(world.orgId);
		expect(more).toEqual([]);
		expect(entry).toMatchObject({ action: "organization.update", target_name: "New", actor_id: world.adminKeyId });
		expect(JSON.parse(entry?.before ?? "")).toEqual({ name: "Test", website: null });
		expect(JSON.parse(entry?.after ?? "")).toEqual({ name: "New", website: "https://example.com" });
	});

	test('clears an address with "", and ignores null', async () => {
		const full = {
			website: "https://example.com",
			logo: "https://example.com/l.png",
			management_email: "a@example.com",
		};
		await change(full);
		await change({ website: null, logo: null, management_email: null });
		expect(await show()).toMatchObject(full);
		await change({ website: "", logo: "", management_email: "" });
		expect(await show()).toMatchObject({ website: null, logo: null, management_email: null });
	});

	test("writes nothing if nothing differs", async () => {
		await change({ name: "Same", max_apikey_expiration_days: 0 });
		const before = await databaseText();
		expect((await change({ name: "Same", require_apikey_expiration: false, website: "" })).status).toBe(200);
		expect(await databaseText()).toBe(before);
	});

	test.each([
		["max_apikey_expiration_days", 366],
		["max_apikey_expiration_days", -1],
		["max_apikey_expiration_days", 1.5],
		["enforce_hashed_api_keys", "yes"],
		["website", "javascript:alert(1)"],
		["logo", "data:image/png;base64,AAAA"],
		["name", ""],
	])("refuses %s %s", async (field, value) => {
		const { status, body } = await change({ [field]: value });
		expect({ status, path: body.moreInfo.issues?.[0].path }).toEqual({ status: 400, path: field });
	});

	test("requires org.update_settings there", async () => {
		const member = await orgKey("org_member");
		expect(await change({ name: "x" }, member.text)).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "org.update_settings", scope: "org" } },
		});
		expect((await change({ name: "x" }, (await createWorld()).adminKey)).status).toBe(404);
		expect((await change({ name: "x" }, (await orgKey("org_admin")).text)).status).toBe(200);
	});
});
