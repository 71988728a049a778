/** Changes of an organization's key policies, and what a dry run shows of them. */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { bind } from "../support/people";
import { signIn } from "../support/sessions";
import { createTestApp, createTestKey, createTestMember, createWorld, NOW_MS, type World } from "../support/world";

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

/** A key of this world's organization that administers another one. */
async function foreignKeyIn(orgId: string, fields: Record<string, unknown> = {}): Promise<string> {
	const { id, text } = await orgKey("org_admin", fields);
	await bind({ api_key_id: id }, "org_super_admin", orgId);
	return text;
}

describe("a change of policies", () => {
	const stoppedIds = (body: { stopped_api_keys: { id: string }[] }) => body.stopped_api_keys.map(({ id }) => id);

	test.each(["body", "query"])(
		"lists in a dry run (%s) the keys that it would suspend, and changes nothing",
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

	test("lists keys of other organizations that are valid there, and omits keys that are already invalid", async () => {
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
		// Its home organization already suspends it.
		await change({ enforce_hashed_api_keys: true });
		const after = await world.request("POST", "/organization", {
			key: world.adminKey,
			body: { orgId, enforce_hashed_api_keys: true, dry_run: true },
		});
		expect(after.body.stopped_api_keys).toEqual([]);
	});

	test("without a difference suspends no key and writes nothing", async () => {
		await orgKey("org_super_admin", { expires_at: at(10) });
		const survivor = await orgKey("org_super_admin", { expires_at: at(10) });
		await change({ require_apikey_expiration: true });
		const before = await databaseText();
		const { status, body } = await change({ require_apikey_expiration: true }, survivor.text);
		expect({ status, stopped: body.stopped_api_keys }).toEqual({ status: 200, stopped: [] });
		expect(await databaseText()).toBe(before);
	});

	test("lists a hundred suspended keys and counts all", async () => {
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
	])("is refused for %s while it would suspend every administering key", async (policy, value, stopped, survives) => {
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

	test("is refused if the last key that meets it is deleted at the same moment", async () => {
		const survivor = await orgKey("org_super_admin", { expires_at: at(10) });
		const answer = await readThenWrite(
			world,
			(racing) => change({ require_apikey_expiration: true }, world.adminKey, racing),
			() => world.request("DELETE", `/apikey/${survivor.id}`, { key: world.adminKey }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "policy_stops_every_admin_key" } });
		expect((await show()).require_apikey_expiration).toBe(false);
	});

	test("does not lock everyone out when two changes are concurrent", async () => {
		// Each change alone keeps one key valid.
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

	test("keeps a key of the owners valid, regardless of the caller", async () => {
		const admin = await orgKey("org_admin", { expires_at: at(10) });
		const refused = await change({ require_apikey_expiration: true }, admin.text);
		expect(refused).toMatchObject({ status: 409, body: { error: "policy_stops_every_admin_key" } });
		const named = refused.body.moreInfo.stopped_api_keys.map((key: { id: string }) => key.id);
		expect(named).toContain(world.adminKeyId);
		await orgKey("org_super_admin", { expires_at: at(10) });
		expect((await change({ require_apikey_expiration: true }, admin.text)).status).toBe(200);
	});

	test("does not apply to people, so an organization without administering keys can make it", async () => {
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

	test("is refused if the organization was changed since it was read", async () => {
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

	test("removes them, with 0 days for no limit, by any permitted caller", async () => {
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

	test("shortens the first key of a new member", async () => {
		await orgKey("org_super_admin", { expires_at: at(9), global_permissions: ["org.create"] });
		const inviter = await orgKey("org_super_admin", { expires_at: at(9) });
		await change({ max_apikey_expiration_days: 10 });
		const member = await createTestMember({ ...world, adminKey: inviter.text }, "org_member");
		const [key] = await rows(query.selectFrom("api_keys").select("expires_at_ms").where("id", "=", member.key.id));
		expect(key?.expires_at_ms).toBe(NOW_MS + 10 * DAY_MS);
	});
});
