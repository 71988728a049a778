/**
 * Permissions of callers on keys: no caller changes a stronger key. The time of the last use of a
 * key.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { DAY_MS, MINUTE_MS } from "../../../src/domain/time";
import type { QueueMessage } from "../../../src/messages";
import { readThenWrite } from "../support/interleave";
import { at, onOrganization } from "../support/people";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "../support/world";

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

describe("a caller", () => {
	let admin: TestKey;
	let superAdmin: TestKey;
	beforeAll(async () => {
		admin = await createTestKey(world, "org_admin");
		superAdmin = await createTestKey(world, "org_super_admin", undefined, { hashed: false });
	});

	test("with org_admin cannot rename, regenerate, reveal, extend or revoke an org_super_admin key, nor become one", async () => {
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

	test("without org.manage_apikeys changes no key, not even its own", async () => {
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

	test("with a replaced secret cannot reveal, change or create keys, nor invite, during the overlap", async () => {
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

	test("that expires cannot create, change or regenerate a key without an expiry or beyond one year", async () => {
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

	test("that expires or has an address limit adds no rights to a key without one", async () => {
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

	test("that deletes another caller concurrently leaves one of both", async () => {
		const [one, other] = [await createTestKey(world, "org_admin"), await createTestKey(world, "org_admin")];
		const answer = await readThenWrite(
			world,
			(slow) => slow.request("DELETE", `/apikey/${other.id}`, { key: one.text }),
			() => world.request("DELETE", `/apikey/${one.id}`, { key: other.text }),
		);
		expect(answer.status).toBe(401);
		expect(await use(other.text)).toBe(200);
	});

	test("needs a key's rights elsewhere to regenerate it, but not to revoke it at home", async () => {
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

describe("last_used_at", () => {
	const deliver = (on: World, messages: readonly QueueMessage[]) =>
		consume(on.deps, { messages: messages.map((body) => ({ body })) as never });

	test("is reported once a minute, accurate to the minute, and written by the consumer", async () => {
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

	test("does not change for a refused key, or by a message for another organization's key", async () => {
		const own = await createWorld();
		const key = await createTestKey(own, "org_member", undefined, { expires_at: at(1) });
		own.deps.keyUses.length = 0;
		own.clock.nowMs += 1;
		expect(await use(key.text, own)).toBe(401);
		expect(own.deps.keyUses).toEqual([]);
		await deliver(own, [{ kind: "key_used", keyId: key.id, orgId: world.orgId, atMs: NOW_MS }]);
		expect((await show(key.id, own)).body.last_used_at).toBe(null);
	});

	test("is reported again after the Queue refused it, and the request succeeds", async () => {
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

	test("finds keys that were not used for a number of days", async () => {
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

	test("finds only the keys of the given organization", async () => {
		const other = await createWorld();
		const list = (org_id: string) => world.request("GET", "/apikey", { key: world.adminKey, query: { org_id } });
		expect((await list(other.orgId)).body).toEqual([]);
		expect((await list(world.orgId)).body.length).toBeGreaterThan(1);
	});
});
