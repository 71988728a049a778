/**
 * Changing and regenerating API keys: omitted fields stay, the old secret overlaps with the new one
 * until its own expiry at most, usage is recorded without a write in the request, and no caller
 * makes a key stronger than itself.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { mintKey } from "../../../src/authz/secrets";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { readThenWrite } from "../support/interleave";
import { at, onApp, onOrganization } from "../support/people";
import { createTestApp, createTestKey, createWorld, type TestApp, testEnv, type World } from "../support/world";

let world: World;
let app: TestApp;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const change = (id: string, body: Record<string, unknown>, key = world.adminKey, on = world) =>
	on.request("PUT", `/apikey/${id}`, { key, body });
const show = (id: string, on = world) => on.request("GET", `/apikey/${id}`, { key: on.adminKey });
const use = async (key: string, on = world) => (await on.request("GET", "/app", { key })).status;
const orgBinding = (role: string, on = world) => onOrganization(role, on.orgId);
const appBinding = (role: string, target = app) => onApp(role, world.orgId, target);

describe("PUT /apikey/:id", () => {
	test("changes the given fields and keeps the others", async () => {
		const key = await createTestKey(world, "app_reader", app, { expires_at: at(DAY_MS), ip_allow_list: ["::/0"] });
		const before = (await show(key.id)).body;
		const renamed = await change(key.id, { name: "renamed", expires_at: null, bindings: null });
		expect(renamed).toMatchObject({ status: 200, trips: 2 });
		expect(renamed.body).toEqual({ ...before, name: "renamed", updated_at: expect.any(String) });
		const later = await change(key.id, { expires_at: at(2 * DAY_MS) });
		expect(later.body).toMatchObject({ name: "renamed", expires_at: at(2 * DAY_MS) });
		expect((await change(key.id, { expires_at: "never", ip_allow_list: [] })).body).toMatchObject({
			expires_at: null,
			ip_allow_list: [],
		});
	});

	test.each([
		["nothing", {}, ""],
		["only false", { regenerate: false }, ""],
		["only null", { name: null, bindings: null }, ""],
		["an overlap without a new secret", { name: "x", overlap_seconds: 5 }, "overlap_seconds"],
		["hashed without a new secret", { hashed: true }, "hashed"],
		["an overlap of more than a day", { regenerate: true, overlap_seconds: 86_401 }, "overlap_seconds"],
		["an overlap that is no whole number", { regenerate: true, overlap_seconds: 1.5 }, "overlap_seconds"],
		["an expiry in the past", { expires_at: "2020-01-01T00:00:00Z" }, "expires_at"],
		["an expiry that is a word", { expires_at: "tomorrow" }, "expires_at"],
		["a name that is empty", { name: "" }, "name"],
		["a range that is none", { ip_allow_list: ["192.0.2.0/33"] }, "ip_allow_list.0"],
	])("returns 400 for %s and names the field", async (_, body, path) => {
		const key = await createTestKey(world, "app_reader", app);
		const answer = await change(key.id, body);
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path)).toContain(path);
	});

	test("replaces all bindings, and keeps the id and child bindings of one that stays", async () => {
		const key = await createTestKey(world, "app_preview", app);
		await world.request("POST", "/channel", { key: key.text, body: { app_id: app.appId, channel: "pr-1" } });
		const before = (await show(key.id)).body.bindings;
		expect(before).toHaveLength(2);
		const kept = await change(key.id, { bindings: [appBinding("app_preview"), orgBinding("org_member")] });
		expect(kept.body.bindings).toEqual(
			expect.arrayContaining([...before, expect.objectContaining({ role_name: "org_member" })]),
		);
		expect(kept.body.bindings).toHaveLength(3);
		const replaced = await change(key.id, { bindings: [appBinding("app_reader")] });
		expect(replaced.body.bindings).toMatchObject([{ role_name: "app_reader" }]);
		expect((await change(key.id, { bindings: [] })).body.bindings).toEqual([]);
		expect((await world.request("GET", `/app/${app.appId}`, { key: key.text })).status).toBe(404);
	});

	test("refuses a binding on an app of another organization like one that does not exist", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const foreign = await createTestApp(await createWorld());
		for (const uuid of [foreign.uuid, crypto.randomUUID()]) {
			const bindings = [{ ...appBinding("app_reader"), app_id: uuid }];
			expect(await change(key.id, { bindings })).toMatchObject({
				status: 400,
				body: { moreInfo: { issues: [{ path: "bindings.0.app_id" }] } },
			});
		}
		expect((await show(key.id)).body.bindings).toMatchObject([{ app_id: app.uuid }]);
	});

	test("grants org.create to an administering key, and removes it with the last administering binding", async () => {
		const key = await createTestKey(world, "org_admin");
		expect((await show(key.id)).body.global_permissions).toEqual([]);
		const given = await change(key.id, { global_permissions: ["org.create"] });
		expect(given.body.global_permissions).toEqual(["org.create"]);
		const kept = await change(key.id, { bindings: [orgBinding("org_admin"), orgBinding("org_member")] });
		expect(kept.body.global_permissions).toEqual(["org.create"]);
		const gone = await change(key.id, { bindings: [orgBinding("org_member")] });
		expect(gone.body.global_permissions).toEqual([]);
		const back = await change(key.id, { bindings: [orgBinding("org_admin")] });
		expect(back.body.global_permissions).toEqual([]);
		expect(
			await change(key.id, { bindings: [orgBinding("org_member")], global_permissions: ["org.create"] }),
		).toMatchObject({ status: 400, body: { error: "invalid_global_permissions" } });
	});

	test("refuses a key to remove its own administering role or its own address", async () => {
		const key = await createTestKey(world, "org_admin");
		const self = (body: object, address = "192.0.2.1") =>
			world.request("PUT", `/apikey/${key.id}`, {
				key: key.text,
				body,
				headers: { "cf-connecting-ip": address },
			});
		for (const bindings of [[], [orgBinding("org_member")], [appBinding("app_admin")]]) {
			expect(await self({ bindings })).toMatchObject({ status: 409, body: { error: "cannot_delete_own_api_key" } });
		}
		expect(await self({ ip_allow_list: ["198.51.100.0/24"] })).toMatchObject({
			status: 400,
			body: { moreInfo: { issues: [{ path: "ip_allow_list", received: "192.0.2.1" }] } },
		});
		expect((await self({ ip_allow_list: ["192.0.2.0/24"], bindings: [orgBinding("org_admin")] })).status).toBe(200);
		expect((await change(key.id, { bindings: [], ip_allow_list: ["198.51.100.0/24"] })).status).toBe(200);
	});

	test("refuses the second of two concurrent changes", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const first = await readThenWrite(
			world,
			(slow) => slow.request("PUT", `/apikey/${key.id}`, { key: world.adminKey, body: { bindings: [] } }),
			() => change(key.id, { name: "meanwhile" }),
		);
		expect(first).toMatchObject({ status: 409, body: { error: "api_key_changed" } });
		expect((await show(key.id)).body).toMatchObject({ name: "meanwhile", bindings: [{ role_name: "app_reader" }] });
	});

	test("changes and creates nothing with a key that is revoked between reading and writing", async () => {
		const admin = await createTestKey(world, "org_admin");
		const key = await createTestKey(world, "app_reader", app);
		const revoke = () => world.request("DELETE", `/apikey/${admin.id}`, { key: world.adminKey });
		const first = await readThenWrite(
			world,
			(slow) => slow.request("PUT", `/apikey/${key.id}`, { key: admin.text, body: { regenerate: true } }),
			revoke,
		);
		expect(first).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		expect(await use(key.text)).toBe(200);
		const another = await createTestKey(world, "org_admin");
		const made = await readThenWrite(
			world,
			(slow) =>
				slow.request("POST", "/apikey", {
					key: another.text,
					query: { org_id: world.orgId },
					body: { name: "made too late" },
				}),
			() => world.request("DELETE", `/apikey/${another.id}`, { key: world.adminKey }),
		);
		expect(made).toMatchObject({ status: 401, body: { error: "invalid_api_key" } });
		const { results } = await testEnv.DB.prepare("SELECT id FROM api_keys WHERE name = 'made too late'").all();
		expect(results).toEqual([]);
	});
});

describe("regenerating a key", () => {
	test("without an overlap ends the old secret immediately and keeps id, name and bindings", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const before = (await show(key.id)).body;
		const made = await change(key.id, { regenerate: true });
		expect(made.body).toMatchObject({
			id: key.id,
			name: before.name,
			bindings: before.bindings,
			is_hashed_key: true,
			previous_key_valid_until: null,
		});
		expect(made.body.key).not.toBe(key.text);
		expect([await use(key.text), await use(made.body.key)]).toEqual([401, 200]);
		expect((await show(key.id)).body).not.toHaveProperty("key");
	});

	test("with an overlap keeps the old secret valid until its last millisecond", async () => {
		const own = await createWorld();
		const key = await createTestKey(own, "org_member");
		const made = await change(key.id, { regenerate: true, overlap_seconds: 3600 }, own.adminKey, own);
		expect(made.body.previous_key_valid_until).toBe(at(HOUR_MS));
		expect([await use(key.text, own), await use(made.body.key, own)]).toEqual([200, 200]);
		const unknown = mintKey(own.deps.randomBytes).text;
		expect(await use(unknown, own), "an overlap lets in the old key alone").toBe(401);
		own.clock.nowMs += HOUR_MS - 1;
		expect(await use(key.text, own)).toBe(200);
		own.clock.nowMs += 1;
		expect([await use(key.text, own), await use(made.body.key, own)]).toEqual([401, 200]);
		expect((await show(key.id, own)).body.previous_key_valid_until).toBe(null);
	});

	test("never extends the old secret beyond its expiry", async () => {
		const own = await createWorld();
		const key = await createTestKey(own, "org_member", undefined, { expires_at: at(HOUR_MS) });
		const made = await change(
			key.id,
			{ regenerate: true, overlap_seconds: 86_400, expires_at: at(30 * DAY_MS) },
			own.adminKey,
			own,
		);
		expect(made.body).toMatchObject({ previous_key_valid_until: at(HOUR_MS), expires_at: at(30 * DAY_MS) });
		own.clock.nowMs += HOUR_MS;
		expect([await use(key.text, own), await use(made.body.key, own)]).toEqual([401, 200]);
	});

	test("twice ends the first of the old secrets, and revoking the key ends all", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const second = await change(key.id, { regenerate: true, overlap_seconds: 60 });
		const third = await change(key.id, { regenerate: true, overlap_seconds: 60 });
		expect([await use(key.text), await use(second.body.key), await use(third.body.key)]).toEqual([401, 200, 200]);
		await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey });
		expect([await use(second.body.key), await use(third.body.key)]).toEqual([401, 401]);
	});

	test("with a stored secret stores the new one, and hashed: true deletes it", async () => {
		const plain = await createTestKey(world, "app_reader", app, { hashed: false });
		const reveal = (id: string) =>
			world.request("GET", `/apikey/${id}`, { key: world.adminKey, query: { reveal: "true" } });
		const made = await change(plain.id, { regenerate: true });
		expect((await reveal(plain.id)).body.key).toBe(made.body.key);
		const hashed = await change(plain.id, { regenerate: true, hashed: true });
		expect(hashed.body).toMatchObject({ is_hashed_key: true });
		expect((await reveal(plain.id)).body).not.toHaveProperty("key");
	});

	test("is allowed with the key itself", async () => {
		const own = await createWorld();
		const made = await change(own.adminKeyId, { regenerate: true }, own.adminKey, own);
		expect(made.status).toBe(200);
		expect([await use(own.adminKey, own), await use(made.body.key, own)]).toEqual([401, 200]);
	});

	test("leaves neither secrets nor hashes in the audit log", async () => {
		const key = await createTestKey(world, "app_reader", app, { hashed: false });
		const made = await change(key.id, { regenerate: true, overlap_seconds: 60, name: "rotated" });
		const { results } = await testEnv.DB.prepare("SELECT * FROM audit_log WHERE target_id = ? ORDER BY id DESC LIMIT 1")
			.bind(key.id)
			.all();
		expect(results).toMatchObject([
			{ action: "api_key.regenerate", actor_id: world.adminKeyId, target_name: "rotated", after: '{"name":"rotated"}' },
		]);
		const stored = (await testEnv.DB.prepare(
			"SELECT key_hash, previous_key_hash, key_ciphertext FROM api_keys WHERE id = ?",
		)
			.bind(key.id)
			.first()) as Record<string, string>;
		for (const secret of [made.body.key, key.text, ...Object.values(stored)]) {
			expect(JSON.stringify(results)).not.toContain(secret);
		}
	});
});
