/**
 * Creating, listing and revoking API keys: the secret is returned once and cannot be derived from
 * the stored data, and no caller creates, sees or removes a key that is stronger than itself.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { ROLE_NAMES, ROLES } from "../../../src/authz/permissions";
import { isWellFormedKey, mintKey, openKey, sealKey } from "../../../src/authz/secrets";
import { onApp, onOrganization } from "../support/people";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type TestApp,
	testEnv,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const create = (
	body: Record<string, unknown>,
	key: string = world.adminKey,
	query: Record<string, string> = { org_id: world.orgId },
) => world.request("POST", "/apikey", { key, query, body });
const orgBinding = (role: string) => onOrganization(role, world.orgId);
const appBinding = (role: string, uuid = app.uuid) => onApp(role, world.orgId, { uuid });

describe("the secret of a key", () => {
	const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));

	test("has a prefix, 32 random characters and a checksum that detects every single typo", () => {
		const { text } = mintKey(random);
		expect(text).toMatch(/^cap_[0-9A-Za-z]{38}$/);
		fc.assert(
			fc.property(fc.nat(37), fc.constantFrom(..."0123456789ABCXYZabcxyz"), (position, char) => {
				const changed = `${text.slice(0, 4 + position)}${char}${text.slice(5 + position)}`;
				expect(isWellFormedKey(changed)).toBe(changed === text);
			}),
		);
	});

	test("has evenly distributed characters", () => {
		const counts = new Map<string, number>();
		for (let round = 0; round < 2000; round++) {
			for (const char of mintKey(random).text.slice(4, 36)) counts.set(char, (counts.get(char) ?? 0) + 1);
		}
		const expected = (2000 * 32) / 62;
		for (const count of counts.values()) expect(Math.abs(count - expected) / expected).toBeLessThan(0.25);
		expect(counts.size).toBe(62);
	});

	test("when sealed, opens with the same signing secret and key id only", async () => {
		const secret = { id: "0a0a0a0a", bytes: random(32), signsFromMs: 0 };
		const sealed = await sealKey("cap_text", "id-1", secret, random);
		expect(sealed).not.toContain("cap_");
		expect(await openKey(sealed, "id-1", [secret])).toBe("cap_text");
		await expect(openKey(sealed, "id-2", [secret])).rejects.toThrow();
		await expect(openKey(sealed, "id-1", [{ ...secret, bytes: random(32) }])).rejects.toThrow();
	});
});

describe("POST /apikey", () => {
	test("returns the secret once, and stores only its hash unless hashed: false is sent", async () => {
		const made = await create({ name: "CI", bindings: [orgBinding("org_member")] });
		expect(made).toMatchObject({
			status: 201,
			body: { is_hashed_key: true, org_id: world.orgId, user_id: world.userId },
		});
		const shown = await world.request("GET", `/apikey/${made.body.id}`, {
			key: world.adminKey,
			query: { reveal: "true" },
		});
		expect(shown.body).not.toHaveProperty("key");
		const stored = JSON.stringify((await testEnv.DB.prepare("SELECT * FROM api_keys").all()).results);
		const audit = JSON.stringify((await testEnv.DB.prepare("SELECT * FROM audit_log").all()).results);
		expect(stored + audit).not.toContain(made.body.key.slice(8));
	});

	test("with hashed: false stores the secret sealed, reveals it to managers, and audits the reveal", async () => {
		const made = await create({ name: "readable", hashed: false, bindings: [appBinding("app_reader")] });
		expect(made.body.is_hashed_key).toBe(false);
		const shown = await world.request("GET", `/apikey/${made.body.id}`, {
			key: world.adminKey,
			query: { reveal: "true" },
		});
		expect(shown.body.key).toBe(made.body.key);
		const plain = await world.request("GET", `/apikey/${made.body.id}`, { key: world.adminKey });
		expect(plain.body).not.toHaveProperty("key");
		const { results } = await testEnv.DB.prepare(
			"SELECT actor_id FROM audit_log WHERE action = 'api_key.reveal' AND target_id = ?",
		)
			.bind(made.body.id)
			.all();
		expect(results).toEqual([{ actor_id: world.adminKeyId }]);
	});

	test("with hashed: false shows who revealed the key and when, until it is regenerated", async () => {
		const reader = await createTestMember(world, "org_admin");
		const show = async (id: string, query: Record<string, string> = {}) =>
			(await world.request("GET", `/apikey/${id}`, { key: reader.key.text, query })).body;
		const change = (id: string, body: object) => world.request("PUT", `/apikey/${id}`, { key: world.adminKey, body });
		const none = { revealed_at: null, revealed_by: null };
		const { body } = await create({
			name: "Shared",
			hashed: false,
			expires_at: "2026-12-01T00:00:00Z",
			bindings: [orgBinding("org_member")],
		});
		const { id } = body;
		expect(body).toMatchObject(none);
		expect(await show(id)).toMatchObject(none);
		const mark = { revealed_at: new Date(world.clock.nowMs).toISOString(), revealed_by: reader.uid };
		expect(await show(id, { reveal: "true" })).toMatchObject(mark);
		expect(await show(id)).toMatchObject(mark);
		const { body: list } = await world.request("GET", "/apikey", { key: world.adminKey });
		expect(list.find((key: { id: string }) => key.id === id)).toMatchObject(mark);
		await change(id, { name: "Renamed" });
		expect(await show(id)).toMatchObject(mark);
		await change(id, { regenerate: true });
		expect(await show(id)).toMatchObject(none);
	});

	test("accepts bindings in place of org_id if all name the same organization", async () => {
		expect((await create({ name: "derived", bindings: [orgBinding("org_member")] }, world.adminKey, {})).status).toBe(
			201,
		);
		const other = await createWorld();
		const mixed = [orgBinding("org_member"), { role_name: "org_member", scope_type: "org", org_id: other.orgId }];
		expect(await create({ name: "mixed", bindings: mixed }, world.adminKey, {})).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "bindings.1.org_id" }] } },
		});
		expect((await create({ name: "none" }, world.adminKey, {})).status).toBe(400);
	});

	test.each<[string, Record<string, unknown>, string]>([
		["no name", {}, "name"],
		["an expiry in the past", { name: "x", expires_at: "2020-01-01T00:00:00Z" }, "expires_at"],
		["an expiry that is no time", { name: "x", expires_at: "tomorrow" }, "expires_at"],
		[
			"a role that does not exist",
			{ name: "x", bindings: [{ role_name: "boss", scope_type: "org", org_id: "ORG" }] },
			"bindings.0.role_name",
		],
		[
			"a role that only the service gives",
			{ name: "x", bindings: [{ role_name: "channel_preview", scope_type: "app", org_id: "ORG", app_id: "APP" }] },
			"bindings.0.role_name",
		],
		[
			"a role at the wrong level",
			{ name: "x", bindings: [{ role_name: "app_admin", scope_type: "org", org_id: "ORG" }] },
			"bindings.0.scope_type",
		],
		[
			"an app without its UUID",
			{ name: "x", bindings: [{ role_name: "app_reader", scope_type: "app", org_id: "ORG" }] },
			"bindings.0.app_id",
		],
		["a permission that is not global", { name: "x", global_permissions: ["org.delete"] }, "global_permissions.0"],
	])("returns 400 for %s and names the field", async (_, body, path) => {
		const text = JSON.stringify(body).replaceAll("ORG", world.orgId).replaceAll("APP", app.uuid);
		const answer = await create(JSON.parse(text));
		expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path)).toContain(path);
	});

	test("refuses an app of another organization like one that does not exist", async () => {
		const other = await createWorld();
		const foreign = await createTestApp(other);
		for (const id of [foreign.uuid, crypto.randomUUID()]) {
			expect(await create({ name: "x", bindings: [appBinding("app_reader", id)] })).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "bindings.0.app_id" }] } },
			});
		}
	});

	test("grants org.create only on request, only with an administering binding, and only from a holder", async () => {
		const plain = await create({ name: "plain", hashed: true, bindings: [orgBinding("org_admin")] });
		expect(plain.body.global_permissions).toEqual([]);
		expect(
			await create({ name: "x", global_permissions: ["org.create"], bindings: [orgBinding("org_member")] }),
		).toMatchObject({
			status: 400,
			body: { error: "invalid_global_permissions" },
		});
		const given = await create({ name: "x", global_permissions: ["org.create"], bindings: [orgBinding("org_admin")] });
		expect(given.body.global_permissions).toEqual(["org.create"]);
		const byOther = await create(
			{ name: "x", global_permissions: ["org.create"], bindings: [orgBinding("org_admin")] },
			plain.body.key,
		);
		expect(byOther).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create" } } });
	});

	test("requires org_id if no binding names an organization", async () => {
		const answer = await create({ name: "none", bindings: [] }, world.adminKey, {});
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.moreInfo.issues).toMatchObject([{ path: "org_id" }]);
	});

	test.each([
		"2027-02-30T00:00:00Z",
		"2027-13-01T00:00:00Z",
		"2027-01-31",
		"2027-01-31T00:00:00",
		"1800000000000",
		"",
		// A valid date in a year of five digits.
		"9999-12-31T23:00:00-01:00",
	])("refuses the expiry %j, which is not an RFC 3339 time", async (expires_at) => {
		const answer = await create({ name: "x", expires_at });
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		const paths = answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path);
		expect(new Set(paths)).toEqual(new Set(["expires_at"]));
	});

	test("stores an expiry in UTC to the millisecond, and refuses the present", async () => {
		const made = await create({ name: "x", hashed: true, expires_at: "2027-01-31T01:02:03.004+02:00" });
		expect(made.body.expires_at).toBe("2027-01-30T23:02:03.004Z");
		const now = new Date(world.clock.nowMs).toISOString();
		expect((await create({ name: "x", expires_at: now })).status).toBe(400);
		const soon = new Date(world.clock.nowMs + 1).toISOString();
		expect((await create({ name: "x", hashed: true, expires_at: soon })).status).toBe(201);
	});

	test("lets an org_admin grant every role except org_super_admin", async () => {
		const admin = await createTestKey(world, "org_admin");
		const channel = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "of-roles" },
		});
		for (const role of ROLE_NAMES.filter((name) => ROLES[name].assignable)) {
			const { scopeType } = ROLES[role];
			const binding =
				scopeType === "org"
					? orgBinding(role)
					: {
							...appBinding(role),
							scope_type: scopeType,
							...(scopeType === "channel" ? { channel_id: channel.body.id } : {}),
						};
			const answer = await create({ name: role, bindings: [binding] }, admin.text);
			expect(answer.status, role).toBe(role === "org_super_admin" ? 403 : 201);
		}
	});

	test("without an organization names the missing field", async () => {
		expect(await world.request("POST", "/apikey", { key: world.adminKey, body: { name: "x" } })).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "org_id" }] } },
		});
	});
	test("refuses a date that does not exist", async () => {
		const body = { name: "x", expires_at: "2030-02-31T00:00:00Z" };
		expect(
			await world.request("POST", "/apikey", { key: world.adminKey, query: { org_id: world.orgId }, body }),
		).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "expires_at" }] } },
		});
	});
});

describe("DELETE and GET /apikey/:id", () => {
	test("does not show the text of a key with org.create to a manager without it", async () => {
		const strong = await world.request("POST", "/apikey", {
			key: world.adminKey,
			body: {
				name: "creator",
				hashed: false,
				global_permissions: ["org.create"],
				bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }],
			},
		});
		const manager = await createTestKey(world, "org_admin");
		const reveal = (key: string) =>
			world.request("GET", `/apikey/${strong.body.id}`, { key, query: { reveal: "true" } });
		const refused = await reveal(manager.text);
		expect(refused).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create" } } });
		expect(JSON.stringify(refused.body)).not.toContain(strong.body.key);
		expect((await reveal(world.adminKey)).body.key).toBe(strong.body.key);
	});

	test("revoke a key immediately, with its bindings", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const use = () => world.request("GET", `/app/${app.appId}`, { key: key.text });
		expect((await use()).status).toBe(200);
		expect((await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey })).body).toEqual({
			status: "ok",
			success: true,
		});
		expect(await use()).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect(await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey })).toMatchObject({
			status: 404,
			body: { error: "api_key_not_found" },
		});
	});

	test("refuse the calling key itself, stronger keys, keys of other organizations, and a secret as the id", async () => {
		expect(await world.request("DELETE", `/apikey/${world.adminKeyId}`, { key: world.adminKey })).toMatchObject({
			status: 409,
			body: { error: "cannot_delete_own_api_key" },
		});
		const admin = await createTestKey(world, "org_admin");
		expect(await world.request("DELETE", `/apikey/${world.adminKeyId}`, { key: admin.text })).toMatchObject({
			status: 403,
		});
		const other = await createWorld();
		for (const id of [world.adminKeyId, world.adminKey, "7"]) {
			expect(await world.request("GET", `/apikey/${id}`, { key: other.adminKey })).toMatchObject({
				status: 404,
				body: { error: "api_key_not_found" },
			});
		}
	});

	test("reveal no key with org.create to a key without it, but let it revoke that key", async () => {
		const holder = await create({
			name: "holder",
			hashed: false,
			global_permissions: ["org.create"],
			bindings: [orgBinding("org_admin")],
		});
		const admin = await createTestKey(world, "org_admin");
		const shown = await world.request("GET", `/apikey/${holder.body.id}`, {
			key: admin.text,
			query: { reveal: "true" },
		});
		expect(shown).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.create", scope: "global" } } });
		expect(JSON.stringify(shown.body)).not.toContain(holder.body.key);
		expect((await world.request("GET", "/app", { key: holder.body.key })).status).toBe(200);
		expect((await world.request("DELETE", `/apikey/${holder.body.id}`, { key: admin.text })).status).toBe(200);
	});

	test("list the organization's keys to a manager, and only the calling key to others", async () => {
		const own = await createWorld();
		const member = await createTestKey(own, "org_member");
		const all = await own.request("GET", "/apikey", { key: own.adminKey });
		expect(all.body.map((row: { id: string }) => row.id).sort()).toEqual([own.adminKeyId, member.id].sort());
		expect(all.body.every((row: object) => !("key" in row) && !("key_hash" in row))).toBe(true);
		const alone = await own.request("GET", "/apikey", { key: member.text });
		expect(alone.body).toMatchObject([{ id: member.id, bindings: [{ role_name: "org_member" }] }]);
	});
});
