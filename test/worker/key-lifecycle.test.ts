/**
 * The life of an API key after its creation: changes keep what they do not name, a new secret may overlap with the old one and never
 * outlives it, when a key was used is known without a write in any request, and nothing of it makes a key stronger than its changer.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { mintKey } from "../../src/authz/keys";
import { consume } from "../../src/events/consumer";
import type { QueueMessage } from "../../src/events/messages";
import { readThenWrite } from "./support/interleave";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "./support/world";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const at = (offsetMs: number) => new Date(NOW_MS + offsetMs).toISOString();
const change = (id: string, body: Record<string, unknown>, key = world.adminKey, on = world) =>
	on.request("PUT", `/apikey/${id}`, { key, body });
const show = (id: string, on = world) => on.request("GET", `/apikey/${id}`, { key: on.adminKey });
const use = async (key: string, on = world) => (await on.request("GET", "/app", { key })).status;
const orgBinding = (role_name: string, on = world) => ({ role_name, scope_type: "org", org_id: on.orgId });
const appBinding = (role_name: string, target = app) => ({
	role_name,
	scope_type: "app",
	org_id: world.orgId,
	app_id: target.uuid,
});

describe("PUT /apikey/:id", () => {
	test("changes what it names and keeps the rest", async () => {
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
	])("%s is 400 and names the field", async (_, body, path) => {
		const key = await createTestKey(world, "app_reader", app);
		const answer = await change(key.id, body);
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.moreInfo.issues.map((issue: { path: string }) => issue.path)).toContain(path);
	});

	test("bindings are replaced as a whole; one that stays keeps its id and what the service gave because of it", async () => {
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

	test("a binding to an app of another organization is refused like one that does not exist", async () => {
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

	test("org.create can be given to a key that administers, and goes with its last admin binding", async () => {
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

	test("no key shuts itself out: not of its administration, not of its address", async () => {
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

	test("two changes at once: the second is told that the key is not what it read", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const first = await readThenWrite(
			world,
			(slow) => slow.request("PUT", `/apikey/${key.id}`, { key: world.adminKey, body: { bindings: [] } }),
			() => change(key.id, { name: "meanwhile" }),
		);
		expect(first).toMatchObject({ status: 409, body: { error: "api_key_changed" } });
		expect((await show(key.id)).body).toMatchObject({ name: "meanwhile", bindings: [{ role_name: "app_reader" }] });
	});

	test("a key that is revoked between reading and writing makes and changes nothing", async () => {
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

describe("a new secret", () => {
	test("without an overlap ends the old one at once and keeps id, name and bindings", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const before = (await show(key.id)).body;
		const made = await change(key.id, { regenerate: true });
		expect(made.body).toMatchObject({
			...{ id: key.id, name: before.name, bindings: before.bindings },
			...{ is_hashed_key: true, previous_key_valid_until: null },
		});
		expect(made.body.key).not.toBe(key.text);
		expect([await use(key.text), await use(made.body.key)]).toEqual([401, 200]);
		expect((await show(key.id)).body).not.toHaveProperty("key");
	});

	test("with an overlap lets the old one work until the last millisecond of it", async () => {
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

	test("never makes the old one outlive the expiry that it had", async () => {
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

	test("a second one ends the first one's predecessor, and revoking the key ends all", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const second = await change(key.id, { regenerate: true, overlap_seconds: 60 });
		const third = await change(key.id, { regenerate: true, overlap_seconds: 60 });
		expect([await use(key.text), await use(second.body.key), await use(third.body.key)]).toEqual([401, 200, 200]);
		await world.request("DELETE", `/apikey/${key.id}`, { key: world.adminKey });
		expect([await use(second.body.key), await use(third.body.key)]).toEqual([401, 401]);
	});

	test("of a key that can be revealed is what is revealed, and hashed: true ends that", async () => {
		const plain = await createTestKey(world, "app_reader", app, { hashed: false });
		const reveal = (id: string) =>
			world.request("GET", `/apikey/${id}`, { key: world.adminKey, query: { reveal: "true" } });
		const made = await change(plain.id, { regenerate: true });
		expect((await reveal(plain.id)).body.key).toBe(made.body.key);
		const hashed = await change(plain.id, { regenerate: true, hashed: true });
		expect(hashed.body).toMatchObject({ is_hashed_key: true });
		expect((await reveal(plain.id)).body).not.toHaveProperty("key");
	});

	test("may be made by the key itself", async () => {
		const own = await createWorld();
		const made = await change(own.adminKeyId, { regenerate: true }, own.adminKey, own);
		expect(made.status).toBe(200);
		expect([await use(own.adminKey, own), await use(made.body.key, own)]).toEqual([401, 200]);
	});

	test("neither it nor its hash, nor the old one's, is in the audit log", async () => {
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

describe("no key makes one that is stronger than itself", () => {
	let admin: TestKey;
	let superAdmin: TestKey;
	beforeAll(async () => {
		admin = await createTestKey(world, "org_admin");
		superAdmin = await createTestKey(world, "org_super_admin", undefined, { hashed: false });
	});

	test("org_admin cannot rename, regenerate, reveal, prolong or revoke an org_super_admin key, nor make itself one", async () => {
		const before = JSON.stringify((await show(superAdmin.id)).body);
		for (const body of [{ name: "mine" }, { regenerate: true }, { expires_at: at(DAY_MS) }, { bindings: [] }]) {
			expect(await change(superAdmin.id, body, admin.text)).toMatchObject({
				status: 403,
				body: { error: "permission_denied", moreInfo: { permission: "org.delete", scope: "org" } },
			});
		}
		const reveal = await world.request("GET", `/apikey/${superAdmin.id}`, {
			key: admin.text,
			query: { reveal: "true" },
		});
		expect(reveal.status).toBe(403);
		expect((await world.request("DELETE", `/apikey/${superAdmin.id}`, { key: admin.text })).status).toBe(403);
		expect((await change(admin.id, { bindings: [orgBinding("org_super_admin")] }, admin.text)).status).toBe(403);
		expect((await change(admin.id, { global_permissions: ["org.create"] }, admin.text)).status).toBe(403);
		expect(JSON.stringify((await show(superAdmin.id)).body)).toBe(before);
	});

	test("whoever cannot manage keys changes none, not even its own", async () => {
		for (const role of ["org_member", "app_admin", "app_preview"]) {
			const key = await createTestKey(world, role, role === "org_member" ? undefined : app);
			expect((await change(key.id, { name: "x" }, key.text)).status, role).toBe(403);
		}
		const other = await createWorld();
		expect(await change(admin.id, { name: "x" }, other.adminKey)).toMatchObject({
			status: 404,
			body: { error: "api_key_not_found" },
		});
	});

	test("the secret that was replaced neither reveals, changes nor makes keys, nor invites, for the rest of its overlap", async () => {
		const key = await createTestKey(world, "org_super_admin", undefined, { hashed: false });
		const renewed = (await change(key.id, { regenerate: true, overlap_seconds: 3600 }, key.text)).body.key;
		const old = { key: key.text };
		const body = { orgId: world.orgId, email: `old.secret.${crypto.randomUUID()}@example.com`, role: "org_member" };
		const tries = [
			await world.request("GET", `/apikey/${key.id}`, { ...old, query: { reveal: "true" } }),
			await change(key.id, { regenerate: true }, key.text),
			await world.request("POST", "/apikey", { ...old, query: { org_id: world.orgId }, body: { name: "late" } }),
			await world.request("POST", "/organization/members", { ...old, body }),
		];
		for (const answer of tries) {
			expect(answer).toMatchObject({ status: 403, body: { error: "permission_denied" } });
			expect(answer.body.message).toContain("has been replaced");
		}
		expect(await use(key.text)).toBe(200);
		const reveal = await world.request("GET", `/apikey/${key.id}`, { key: renewed, query: { reveal: "true" } });
		expect(reveal.body.key).toBe(renewed);
	});

	test("one that expires gives no life without end, by creation, change or a new secret, and a year at most", async () => {
		const expiring = await createTestKey(world, "org_admin", undefined, { expires_at: at(DAY_MS) });
		const create = (body: object) =>
			world.request("POST", "/apikey", { key: expiring.text, query: { org_id: world.orgId }, body });
		const refused = { status: 403, body: { moreInfo: { field: "expires_at" } } };
		expect(await create({ name: "eternal" })).toMatchObject(refused);
		expect(await create({ name: "nearly", expires_at: at(400 * DAY_MS) })).toMatchObject(refused);
		const made = await create({ name: "longer", expires_at: at(30 * DAY_MS) });
		expect(made.status).toBe(201);
		expect(await change(made.body.id, { expires_at: "never" }, expiring.text)).toMatchObject(refused);
		expect(await change(expiring.id, { expires_at: "never" }, expiring.text)).toMatchObject(refused);
		const eternal = await createTestKey(world, "app_reader", app, { hashed: false });
		expect(await change(eternal.id, { regenerate: true }, expiring.text)).toMatchObject(refused);
		expect((await change(eternal.id, { expires_at: at(DAY_MS) }, expiring.text)).status).toBe(200);
		const reveal = (id: string) =>
			world.request("GET", `/apikey/${id}`, { key: expiring.text, query: { reveal: "true" } });
		const another = await createTestKey(world, "app_reader", app, { hashed: false });
		expect(await reveal(another.id)).toMatchObject(refused);
		const far = await createTestKey(world, "app_reader", app, { hashed: false, expires_at: at(300 * DAY_MS) });
		expect(await reveal(far.id), "any end of a key that is there will do").toMatchObject({ status: 200 });
	});

	test("one that expires or is limited to addresses adds no rights to a key that does not and is not", async () => {
		const weak = [
			await createTestKey(world, "org_admin", undefined, { expires_at: at(DAY_MS) }),
			await createTestKey(world, "org_admin", undefined, { ip_allow_list: ["192.0.2.0/24"] }),
		];
		for (const { text } of weak) {
			const free = await createTestKey(world, "org_member");
			const answer = await world.request("PUT", `/apikey/${free.id}`, {
				key: text,
				body: { bindings: [orgBinding("org_admin")] },
				headers: { "cf-connecting-ip": "192.0.2.1" },
			});
			expect(answer.status).toBe(403);
			expect((await show(free.id)).body.bindings).toMatchObject([{ role_name: "org_member" }]);
		}
	});

	test("two that delete each other at once leave one", async () => {
		const [one, other] = [await createTestKey(world, "org_admin"), await createTestKey(world, "org_admin")];
		const answer = await readThenWrite(
			world,
			(slow) => slow.request("DELETE", `/apikey/${other.id}`, { key: one.text }),
			() => world.request("DELETE", `/apikey/${one.id}`, { key: other.text }),
		);
		expect(answer.status).toBe(401);
		expect(await use(other.text)).toBe(200);
	});

	test("a key's rights in another organization guard its secret, and do not keep its own organization from revoking it", async () => {
		const home = await createWorld();
		const away = await createWorld();
		const roamer = await createTestKey(home, "org_admin");
		await testEnv.DB.prepare(
			"INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms) VALUES (?, ?, 'org_super_admin', 'org', ?, 0)",
		)
			.bind(crypto.randomUUID(), roamer.id, away.orgId)
			.run();
		const inBoth = await home.request("GET", "/organization", { key: roamer.text });
		expect(inBoth.body).toHaveLength(2);
		expect((await change(roamer.id, { regenerate: true }, home.adminKey, home)).status).toBe(403);
		const bindings = [orgBinding("org_member", home)];
		expect((await change(roamer.id, { bindings }, home.adminKey, home)).status).toBe(200);
		expect((await change(roamer.id, { bindings }, away.adminKey, away)).status).toBe(404);
		expect((await home.request("DELETE", `/apikey/${roamer.id}`, { key: home.adminKey })).status).toBe(200);
		expect(await use(roamer.text, home)).toBe(401);
	});
});

describe("last use", () => {
	const deliver = (on: World, messages: readonly QueueMessage[]) =>
		consume(on.deps, { messages: messages.map((body) => ({ body })) as never });

	test("is told once a minute, to the minute, without a write in the request, and written by the consumer", async () => {
		const own = await createWorld();
		const key = await createTestKey(own, "org_member");
		own.deps.keyUses.length = 0;
		own.clock.nowMs += 61_234;
		for (let request = 0; request < 3; request++) {
			expect(await own.request("GET", "/app", { key: key.text })).toMatchObject({ status: 200, trips: 2 });
		}
		const [message] = own.deps.keyUses;
		expect(own.deps.keyUses).toEqual([{ kind: "key_used", keyId: key.id, orgId: own.orgId, atMs: NOW_MS + MINUTE_MS }]);
		expect((await show(key.id, own)).body.last_used_at).toBe(null);
		await deliver(own, own.deps.keyUses);
		expect((await show(key.id, own)).body.last_used_at).toBe(at(MINUTE_MS));
		own.clock.nowMs += MINUTE_MS;
		await use(key.text, own);
		await deliver(own, [...own.deps.keyUses, ...(message === undefined ? [] : [message])]);
		await deliver(own, message === undefined ? [] : [message]);
		expect((await show(key.id, own)).body.last_used_at).toBe(at(2 * MINUTE_MS));
	});

	test("a refused key is not used, and a message for another organization's key changes nothing", async () => {
		const own = await createWorld();
		const key = await createTestKey(own, "org_member", undefined, { expires_at: at(1) });
		own.deps.keyUses.length = 0;
		own.clock.nowMs += 1;
		expect(await use(key.text, own)).toBe(401);
		expect(own.deps.keyUses).toEqual([]);
		await deliver(own, [{ kind: "key_used", keyId: key.id, orgId: world.orgId, atMs: NOW_MS }]);
		expect((await show(key.id, own)).body.last_used_at).toBe(null);
	});

	test("a Queue that refuses fails no request, and is told again at the next one", async () => {
		const own = await createWorld();
		const key = await createTestKey(own, "org_member");
		own.deps.keyUses.length = 0;
		const { send } = own.deps.events;
		own.deps.events.send = async () => {
			throw new Error("Queue is unavailable");
		};
		expect(await use(key.text, own)).toBe(200);
		own.deps.events.send = send;
		expect(await use(key.text, own)).toBe(200);
		expect(own.deps.keyUses).toMatchObject([{ keyId: key.id }]);
	});

	test("lists the keys that nobody has used for so many days", async () => {
		const own = await createWorld();
		const [old, busy] = [await createTestKey(own, "org_member"), await createTestKey(own, "org_member")];
		own.clock.nowMs += 90 * DAY_MS;
		const young = await createTestKey(own, "org_member");
		const list = async (days: string) => {
			const { body } = await own.request("GET", "/apikey", { key: own.adminKey, query: { unused_for_days: days } });
			return body.map((row: { id: string }) => row.id);
		};
		await use(busy.text, own);
		await deliver(own, own.deps.keyUses);
		const listed = await list("90");
		expect(listed).toEqual([old.id]);
		expect(listed).not.toContain(young.id);
		expect(await list("91")).toEqual([]);
		for (const days of ["0", "-1", "1.5", "x", ""]) {
			const answer = await own.request("GET", "/apikey", { key: own.adminKey, query: { unused_for_days: days } });
			expect(answer.status, days).toBe(400);
		}
	});

	test("the list of one organization holds no other's", async () => {
		const other = await createWorld();
		const list = (org_id: string) => world.request("GET", "/apikey", { key: world.adminKey, query: { org_id } });
		expect((await list(other.orgId)).body).toEqual([]);
		expect((await list(world.orgId)).body.length).toBeGreaterThan(1);
	});
});
