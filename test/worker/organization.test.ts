/**
 * Organizations: showing, creating and changing them, and what a change of policies does to the keys that are there. Deleting and
 * restoring stand in organization-deletion.test.ts.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../src/db/client";
import { rows, run } from "./support/bytes";
import { databaseText } from "./support/database-text";
import { readThenWrite } from "./support/interleave";
import { signIn } from "./support/sessions";
import { createTestApp, createTestKey, createTestMember, createWorld, NOW_MS, type World } from "./support/world";

const DAY_MS = 86_400_000;
const at = (days: number) => new Date(NOW_MS + days * DAY_MS).toISOString();

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
			created_by: world.userId,
			created_at: "2026-11-21T08:00:00.000Z",
			updated_at: "2026-11-21T08:00:00.000Z",
			enforce_hashed_api_keys: false,
			require_apikey_expiration: false,
			max_apikey_expiration_days: null,
			require_signed_bundles: false,
		});
	});

	test("tells a key that works on an app there that it lacks org.read, and a key of elsewhere nothing", async () => {
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

	test("names the policy that stops a key of another organization there", async () => {
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
	await run(
		query.insertInto("role_bindings").values({
			id: crypto.randomUUID(),
			api_key_id: id,
			user_id: null,
			role_name: "org_super_admin",
			scope_type: "org",
			org_id: orgId,
			app_id: null,
			channel_id: null,
			parent_binding_id: null,
			expires_at_ms: null,
			created_at_ms: NOW_MS,
		}),
	);
	return text;
}

describe("PUT /organization", () => {
	test("makes the key and its account administrators of the new organization, in one audited step", async () => {
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

	test("refuses a body that means a change, as some clients send it with PUT, and creates nothing", async () => {
		const before = await databaseText();
		const { status, body } = await create({ orgId: world.orgId, name: "Renamed" });
		expect({ status, path: body.moreInfo.issues[0].path }).toEqual({ status: 400, path: "orgId" });
		expect(await databaseText()).toBe(before);
	});

	test("refuses a key that administers and lacks org.create, before it looks at the body", async () => {
		const { text } = await orgKey("org_super_admin");
		expect(await create({}, text)).toMatchObject({
			status: 403,
			body: { error: "permission_denied", moreInfo: { permission: "org.create", scope: "global" } },
		});
	});

	test("refuses a key whose last administering binding is gone, has run out, or is in a deleted organization", async () => {
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
	])("creates nothing when the %s goes while the request is under way", async (what, goes) => {
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
	test("changes what is given, answers with the record, and writes before and after to the audit log", async () => {
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

	test('clears an address with "", and leaves one alone that is null', async () => {
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

	test("writes nothing when nothing is different", async () => {
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

	test("is for who holds org.update_settings there", async () => {
		const member = await orgKey("org_member");
		expect(await change({ name: "x" }, member.text)).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "org.update_settings", scope: "org" } },
		});
		expect((await change({ name: "x" }, (await createWorld()).adminKey)).status).toBe(404);
		expect((await change({ name: "x" }, (await orgKey("org_admin")).text)).status).toBe(200);
	});
});

describe("policies", () => {
	const stoppedIds = (body: { stopped_api_keys: { id: string }[] }) => body.stopped_api_keys.map(({ id }) => id);

	test.each(["body", "query"])(
		"tell in a dry run (%s) which keys they will stop, and change nothing",
		async (where) => {
			const app = await createTestApp(world);
			await orgKey("org_super_admin", { expires_at: at(10) });
			const forever = await createTestKey(world, "app_reader", app, { name: "forever" });
			const soon = await createTestKey(world, "app_reader", app, { expires_at: at(5) });
			const late = await createTestKey(world, "app_reader", app, { name: "late", expires_at: at(40) });
			const before = await databaseText();
			const fields = { require_apikey_expiration: true, max_apikey_expiration_days: 30 };
			const { status, body } = await world.request("POST", "/organization", {
				key: world.adminKey,
				...(where === "query" ? { query: { dry_run: "true" } } : {}),
				body: { orgId: world.orgId, ...fields, ...(where === "body" ? { dry_run: true } : {}) },
			});
			expect(await databaseText()).toBe(before);
			expect(status).toBe(200);
			expect(body).toMatchObject({ status: "Dry run: nothing was changed", data: fields, stopped_api_key_count: 3 });
			expect(stoppedIds(body)).not.toContain(soon.id);
			expect(body.stopped_api_keys).toEqual(
				expect.arrayContaining([
					{
						id: world.adminKeyId,
						name: "admin",
						org_id: world.orgId,
						policy: "require_apikey_expiration",
						expires_at: null,
					},
					{
						id: forever.id,
						name: "forever",
						org_id: world.orgId,
						policy: "require_apikey_expiration",
						expires_at: null,
					},
					{
						id: late.id,
						name: "late",
						org_id: world.orgId,
						policy: "max_apikey_expiration_days",
						expires_at: at(40),
					},
				]),
			);

			const done = await change(fields);
			expect(stoppedIds(done.body).sort()).toEqual(stoppedIds(body).sort());
			for (const { key, works } of [
				{ key: forever, works: false },
				{ key: late, works: false },
				{ key: soon, works: true },
			]) {
				const answer = await world.request("GET", `/app/${app.appId}`, { key: key.text });
				expect(answer.status).toBe(works ? 200 : 401);
			}
			expect(JSON.parse((await auditOf(world.orgId)).at(-1)?.details ?? "")).toEqual({ stopped_api_key_count: 3 });
		},
	);

	test("name keys of other organizations that work there, and leave out those that do not work anyway", async () => {
		const orgId = await createdOrganization();
		const working = await foreignKeyIn(orgId, { name: "working", hashed: false });
		await foreignKeyIn(orgId, { name: "run out", hashed: false, expires_at: at(1) });
		await foreignKeyIn(orgId, { name: "hashed" });
		world.clock.nowMs += DAY_MS;
		const inOther = (fields: Record<string, unknown>) =>
			world.request("POST", "/organization", { key: working, body: { orgId, ...fields } });
		const { body } = await inOther({ enforce_hashed_api_keys: true, dry_run: true });
		expect(body.stopped_api_keys).toMatchObject([
			{ name: "working", org_id: world.orgId, policy: "enforce_hashed_api_keys" },
		]);
		// Its own organization stops it first.
		await change({ enforce_hashed_api_keys: true });
		const after = await world.request("POST", "/organization", {
			key: world.adminKey,
			body: { orgId, enforce_hashed_api_keys: true, dry_run: true },
		});
		expect(after.body.stopped_api_keys).toEqual([]);
	});

	test("repeated unchanged stop nobody and change nothing", async () => {
		await orgKey("org_super_admin", { expires_at: at(10) });
		const survivor = await orgKey("org_super_admin", { expires_at: at(10) });
		await change({ require_apikey_expiration: true });
		const before = await databaseText();
		const { status, body } = await change({ require_apikey_expiration: true }, survivor.text);
		expect({ status, stopped: body.stopped_api_keys }).toEqual({ status: 200, stopped: [] });
		expect(await databaseText()).toBe(before);
	});

	test("list a hundred stopped keys and count them all", async () => {
		const template = (await rows(query.selectFrom("api_keys").selectAll().where("id", "=", world.adminKeyId)))[0];
		if (template === undefined) throw new Error("no key");
		await run(
			...Array.from({ length: 105 }, () => {
				const id = crypto.randomUUID();
				return query.insertInto("api_keys").values({ ...template, id, name: "many", key_hash: id });
			}),
		);
		await orgKey("org_super_admin", { expires_at: at(10) });
		const { body } = await change({ require_apikey_expiration: true, dry_run: true });
		expect(body.stopped_api_key_count).toBe(106);
		expect(body.stopped_api_keys).toHaveLength(100);
	});

	test.each([
		["enforce_hashed_api_keys", true, { hashed: false }, { hashed: true }],
		["require_apikey_expiration", true, {}, { expires_at: at(300) }],
		["max_apikey_expiration_days", 30, { expires_at: at(31) }, { expires_at: at(30) }],
	])("%s is refused while it would stop every key that administers", async (policy, value, stopped, survives) => {
		const caller = await orgKey("org_super_admin", stopped);
		await run(query.deleteFrom("api_keys").where("id", "=", world.adminKeyId));
		const before = await databaseText();
		for (const dry_run of [true, false]) {
			const refused = await change({ [policy]: value, dry_run }, caller.text);
			expect(refused).toMatchObject({ status: 409, body: { error: "policy_stops_every_admin_key" } });
		}
		expect(await databaseText()).toBe(before);

		await createKeyWith(caller.text, "org_member", survives);
		expect((await change({ [policy]: value }, caller.text)).status, "a member is no administrator").toBe(409);
		const admin = await createKeyWith(caller.text, "org_super_admin", survives);
		const done = await change({ [policy]: value }, caller.text);
		expect(done.status).toBe(200);
		expect(done.body.stopped_api_keys).toMatchObject([{ id: caller.id }]);
		expect((await change({ name: "still here" }, admin)).status).toBe(200);
		expect((await change({ name: "stopped" }, caller.text)).status).toBe(401);
	});

	const createKeyWith = async (by: string, role: string, fields: Record<string, unknown>): Promise<string> => {
		const { body, status } = await world.request("POST", "/apikey", {
			key: by,
			body: {
				name: role,
				hashed: true,
				...fields,
				bindings: [{ role_name: role, scope_type: "org", org_id: world.orgId }],
			},
		});
		if (status !== 201) throw new Error(JSON.stringify(body));
		return body.key;
	};

	test("are not switched on when the last key that meets them goes at the same moment", async () => {
		const survivor = await orgKey("org_super_admin", { expires_at: at(10) });
		const answer = await readThenWrite(
			world,
			(racing) => change({ require_apikey_expiration: true }, world.adminKey, racing),
			() => world.request("DELETE", `/apikey/${survivor.id}`, { key: world.adminKey }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "policy_stops_every_admin_key" } });
		expect((await show()).require_apikey_expiration).toBe(false);
	});

	test("changed by two at the same moment do not lock everybody out together", async () => {
		// Each change alone leaves one of them.
		const expiring = await orgKey("org_super_admin", { hashed: false, expires_at: at(10) });
		const hashed = await orgKey("org_super_admin", { hashed: true });
		const answer = await readThenWrite(
			world,
			(racing) => change({ enforce_hashed_api_keys: true }, hashed.text, racing),
			() => change({ require_apikey_expiration: true }, expiring.text),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "organization_changed" } });
		expect((await change({ name: "still here" }, expiring.text)).status).toBe(200);
	});

	test("leave a key of those who own the organization working, whoever switches them on", async () => {
		const admin = await orgKey("org_admin", { expires_at: at(10) });
		const refused = await change({ require_apikey_expiration: true }, admin.text);
		expect(refused).toMatchObject({ status: 409, body: { error: "policy_stops_every_admin_key" } });
		const named = refused.body.moreInfo.stopped_api_keys.map((key: { id: string }) => key.id);
		expect(named).toContain(world.adminKeyId);
		await orgKey("org_super_admin", { expires_at: at(10) });
		expect((await change({ require_apikey_expiration: true }, admin.text)).status).toBe(200);
	});

	test("concern no person: where no key administers the organization they are switched on, and tell whom they stop", async () => {
		const { headers } = await signIn(world);
		const orgId = (await world.request("PUT", "/organization", { headers, body: { name: "Keyless" } })).body.id;
		const body = { name: "reads", bindings: [{ role_name: "org_member", scope_type: "org", org_id: orgId }] };
		const reader = (await world.request("POST", "/apikey", { headers, body: { ...body, org_id: orgId } })).body;
		const switchOn = (query: Record<string, string>) =>
			world.request("POST", "/organization", { headers, query, body: { orgId, require_apikey_expiration: true } });
		for (const query of [{ dry_run: "true" }, {}]) {
			expect(await switchOn(query as Record<string, string>)).toMatchObject({
				status: 200,
				body: { stopped_api_key_count: 1, stopped_api_keys: [{ id: reader.id, policy: "require_apikey_expiration" }] },
			});
		}
		expect(await world.request("GET", "/organization", { key: reader.key, query: { orgId } })).toMatchObject({
			status: 401,
			body: { error: "api_key_violates_policy" },
		});
	});

	test("and all else are changed as they were read, or not at all", async () => {
		const answer = await readThenWrite(
			world,
			(slow) =>
				slow.request("POST", "/organization", {
					key: world.adminKey,
					body: { orgId: world.orgId, name: "Second", enforce_hashed_api_keys: false },
				}),
			() => change({ name: "First" }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "organization_changed" } });
	});

	test("are lifted by whoever can, 0 days meaning no limit", async () => {
		const admin = await orgKey("org_super_admin", { expires_at: at(5) });
		await change({ max_apikey_expiration_days: 7 });
		expect((await show(admin.text)).max_apikey_expiration_days).toBe(7);
		expect((await world.request("GET", "/app", { key: world.adminKey })).status).toBe(401);
		expect((await change({ max_apikey_expiration_days: null }, admin.text)).body.data.max_apikey_expiration_days).toBe(
			7,
		);
		const lifted = await change({ max_apikey_expiration_days: 0 }, admin.text);
		expect(lifted.body).toMatchObject({ data: { max_apikey_expiration_days: null }, stopped_api_keys: [] });
		expect((await world.request("GET", "/app", { key: world.adminKey })).status).toBe(200);
	});

	test("of an organization shorten the first key of a new member", async () => {
		await orgKey("org_super_admin", { expires_at: at(9), global_permissions: ["org.create"] });
		const inviter = await orgKey("org_super_admin", { expires_at: at(9) });
		await change({ max_apikey_expiration_days: 10 });
		const member = await createTestMember({ ...world, adminKey: inviter.text }, "org_member");
		const [key] = await rows(query.selectFrom("api_keys").select("expires_at_ms").where("id", "=", member.key.id));
		expect(key?.expires_at_ms).toBe(NOW_MS + 10 * DAY_MS);
	});
});
