/**
 * API keys: the secret is told once, what is stored cannot be turned back into it, and no key makes, shows or removes one that is
 * stronger than itself.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { isWellFormedKey, mintKey, openKey, sealKey } from "../../src/authz/keys";
import { ROLE_NAMES, ROLES } from "../../src/authz/permissions";
import { createTestApp, createTestKey, createWorld, type TestApp, testEnv, type World } from "./support/world";

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
const orgBinding = (role_name: string) => ({ role_name, scope_type: "org", org_id: world.orgId });
const appBinding = (role_name: string, app_id = app.uuid) => ({
	role_name,
	scope_type: "app",
	org_id: world.orgId,
	app_id,
});

describe("the text of a key", () => {
	const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));

	test("has a prefix, 32 random characters and a checksum that catches every single typo", () => {
		const { text } = mintKey(random);
		expect(text).toMatch(/^cap_[0-9A-Za-z]{38}$/);
		fc.assert(
			fc.property(fc.nat(37), fc.constantFrom(..."0123456789ABCXYZabcxyz"), (position, char) => {
				const changed = `${text.slice(0, 4 + position)}${char}${text.slice(5 + position)}`;
				expect(isWellFormedKey(changed)).toBe(changed === text);
			}),
		);
	});

	test("draws its characters evenly", () => {
		const counts = new Map<string, number>();
		for (let round = 0; round < 2000; round++) {
			for (const char of mintKey(random).text.slice(4, 36)) counts.set(char, (counts.get(char) ?? 0) + 1);
		}
		const expected = (2000 * 32) / 62;
		for (const count of counts.values()) expect(Math.abs(count - expected) / expected).toBeLessThan(0.25);
		expect(counts.size).toBe(62);
	});

	test("sealed, opens with the same secret and key id alone", async () => {
		const secret = { id: "0a0a0a0a", bytes: random(32), signsFromMs: 0 };
		const sealed = await sealKey("cap_text", "id-1", secret, random);
		expect(sealed).not.toContain("cap_");
		expect(await openKey(sealed, "id-1", [secret])).toBe("cap_text");
		await expect(openKey(sealed, "id-2", [secret])).rejects.toThrow();
		await expect(openKey(sealed, "id-1", [{ ...secret, bytes: random(32) }])).rejects.toThrow();
	});
});

describe("POST /apikey", () => {
	test("answers with the secret once; nothing at rest holds it", async () => {
		const made = await create({ name: "CI", hashed: true, bindings: [orgBinding("org_member")] });
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

	test("with hashed: false the text is kept sealed, shown to its managers again, and that is audited", async () => {
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

	test("the organization may be left out when the bindings name it, and every binding must name the same", async () => {
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
	])("%s is 400 and names the field", async (_, body, path) => {
		const text = JSON.stringify(body).replaceAll("ORG", world.orgId).replaceAll("APP", app.uuid);
		const answer = await create(JSON.parse(text));
		expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path)).toContain(path);
	});

	test("an app of another organization is refused like one that does not exist", async () => {
		const other = await createWorld();
		const foreign = await createTestApp(other);
		for (const id of [foreign.uuid, crypto.randomUUID()]) {
			expect(await create({ name: "x", bindings: [appBinding("app_reader", id)] })).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "bindings.0.app_id" }] } },
			});
		}
	});

	test("org.create is given only when asked for, only with an admin binding, and only by a holder", async () => {
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

	test("an organization that nothing names is asked for by its name", async () => {
		const answer = await create({ name: "none", bindings: [] }, world.adminKey, {});
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.moreInfo.issues).toMatchObject([{ path: "org_id" }]);
	});

	test.each([
		...["2027-02-30T00:00:00Z", "2027-13-01T00:00:00Z", "2027-01-31", "2027-01-31T00:00:00", "1800000000000", ""],
		// It exists, in a year of five digits.
		"9999-12-31T23:00:00-01:00",
	])("an expiry of %j is no RFC 3339 time", async (expires_at) => {
		const answer = await create({ name: "x", expires_at });
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		const paths = answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path);
		expect(new Set(paths)).toEqual(new Set(["expires_at"]));
	});

	test("an expiry is kept to the millisecond, in UTC whatever its offset, and the past begins now", async () => {
		const made = await create({ name: "x", hashed: true, expires_at: "2027-01-31T01:02:03.004+02:00" });
		expect(made.body.expires_at).toBe("2027-01-30T23:02:03.004Z");
		const now = new Date(world.clock.nowMs).toISOString();
		expect((await create({ name: "x", expires_at: now })).status).toBe(400);
		const soon = new Date(world.clock.nowMs + 1).toISOString();
		expect((await create({ name: "x", hashed: true, expires_at: soon })).status).toBe(201);
	});

	test("an org_admin grants every role but org_super_admin", async () => {
		const admin = await createTestKey(world, "org_admin");
		for (const role of ROLE_NAMES.filter((name) => ROLES[name].assignable)) {
			const binding = ROLES[role].scopeType === "org" ? orgBinding(role) : appBinding(role);
			const answer = await create({ name: role, bindings: [binding] }, admin.text);
			expect(answer.status, role).toBe(role === "org_super_admin" ? 403 : 201);
		}
	});
});

describe("DELETE and GET /apikey/:id", () => {
	test("a deleted key stops working at once, and its bindings go with it", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const use = () => world.request("GET", `/app/${app.appId}`, { key: key.text });
		expect((await use()).status).toBe(200);
		expect((await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey })).body).toEqual({
			status: "ok",
		});
		expect(await use()).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect(await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey })).toMatchObject({
			status: 404,
			body: { error: "api_key_not_found" },
		});
	});

	test("a key cannot delete itself, nor a stronger one, nor see one of another organization or by its secret", async () => {
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

	test("a key without org.create does not show one that has it, and may revoke it: that gives nobody anything", async () => {
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

	test("the list holds the organization's keys with their bindings for a manager, and its own alone for others", async () => {
		const own = await createWorld();
		const member = await createTestKey(own, "org_member");
		const all = await own.request("GET", "/apikey", { key: own.adminKey });
		expect(all.body.map((row: { id: string }) => row.id).sort()).toEqual([own.adminKeyId, member.id].sort());
		expect(all.body.every((row: object) => !("key" in row) && !("key_hash" in row))).toBe(true);
		const alone = await own.request("GET", "/apikey", { key: member.text });
		expect(alone.body).toMatchObject([{ id: member.id, bindings: [{ role_name: "org_member" }] }]);
	});
});
