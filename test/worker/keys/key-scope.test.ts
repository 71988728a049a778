/**
 * The scope of a key's bindings: each applies in its organization only, and neither the owner's
 * rights nor the key's bindings elsewhere are ever added to it.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { bind } from "../support/people";
import {
	createTestApp,
	createTestKey,
	createWorld,
	type TestApp,
	type TestKey,
	testEnv,
	type World,
} from "../support/world";

describe("a key inherits nothing", () => {
	let world: World;
	let app: TestApp;
	let reader: TestKey;
	beforeAll(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		reader = await createTestKey(world, "app_reader", app);
	});

	test("from its owner, who may hold everything in the organization and elsewhere", async () => {
		const elsewhere = await createWorld();
		const foreignApp = await createTestApp(elsewhere);
		// The owner is a super admin of their organization from the start.
		await bind({ user_id: world.userId }, "org_super_admin", elsewhere.orgId);
		const sibling = await createTestApp(world);
		const status = async (method: string, path: string, more: object = {}) =>
			(await world.request(method, path, { key: reader.text, ...more })).status;
		expect(await status("GET", `/app/${app.appId}`)).toBe(200);
		expect(await status("DELETE", `/app/${app.appId}`)).toBe(403);
		expect(await status("GET", `/app/${sibling.appId}`)).toBe(404);
		expect(await status("GET", `/app/${foreignApp.appId}`)).toBe(404);
		expect(await status("POST", "/apikey", { query: { org_id: world.orgId }, body: { name: "x" } })).toBe(403);
		expect(await status("POST", "/apikey", { query: { org_id: elsewhere.orgId }, body: { name: "x" } })).toBe(404);
		expect((await world.request("GET", "/app", { key: reader.text })).body).toHaveLength(1);
		expect((await world.request("GET", "/organization", { key: reader.text })).body).toEqual([]);
	});

	test("from the key that created it, nor from other keys of the account", async () => {
		const bare = await world.request("POST", "/apikey", {
			key: world.adminKey,
			query: { org_id: world.orgId },
			body: { name: "bare", hashed: true },
		});
		expect(bare.body).toMatchObject({ user_id: world.userId, bindings: [] });
		expect((await world.request("GET", "/app", { key: bare.body.key })).body).toEqual([]);
		expect((await world.request("GET", `/app/${app.appId}`, { key: bare.body.key })).status).toBe(404);
	});
});

describe("a binding", () => {
	let home: World;
	let away: World;
	let awayApp: TestApp;
	beforeAll(async () => {
		home = await createWorld();
		away = await createWorld();
		awayApp = await createTestApp(away);
	});
	const sees = async (key: string) => {
		const list = await home.request("GET", "/app", { key });
		return list.body.map((row: { app_id: string }) => row.app_id);
	};

	test("on an app without a role on the organization grants that app only", async () => {
		const sibling = await createTestApp(away);
		const key = await createTestKey(home, "org_member");
		await bind({ api_key_id: key.id }, "app_admin", away.orgId, awayApp.uuid);
		expect(await sees(key.text)).toEqual([awayApp.appId]);
		const status = async (method: string, path: string, more: object = {}) =>
			(await home.request(method, path, { key: key.text, ...more })).status;
		expect(await status("PUT", `/app/${awayApp.appId}`, { body: { name: "mine" } })).toBe(200);
		expect(await status("PUT", `/app/${sibling.appId}`, { body: { name: "mine" } })).toBe(404);
		expect(await status("POST", "/apikey", { query: { org_id: away.orgId }, body: { name: "x" } })).toBe(403);
		// A role in one organization grants nothing in the other.
		expect(await status("PUT", `/app/${awayApp.appId}`, { body: { name: "x", owner_org: home.orgId } })).toBe(200);
		const { owner_org } = (await away.request("GET", `/app/${awayApp.appId}`, { key: away.adminKey })).body;
		expect(owner_org).toBe(away.orgId);
	});

	test("survives the loss of every role in the key's home organization, and grants nothing there", async () => {
		const key = await createTestKey(home, "org_admin");
		const bindingId = await bind({ api_key_id: key.id }, "app_reader", away.orgId, awayApp.uuid);
		const stripped = await home.request("PUT", `/apikey/${key.id}`, { key: home.adminKey, body: { bindings: [] } });
		expect(stripped.status).toBe(200);
		const own = (await home.request("GET", "/apikey", { key: key.text })).body;
		expect(own).toMatchObject([{ bindings: [{ id: bindingId, org_id: away.orgId }] }]);
		expect(await sees(key.text)).toEqual([awayApp.appId]);
		expect((await home.request("GET", `/apikey/${key.id}`, { key: key.text })).status).toBe(404);
		expect((await home.request("GET", "/organization", { key: key.text })).body).toEqual([]);
	});

	test("grants nothing if it is expired, revoked, or in a deleted organization", async () => {
		const doomed = await createTestApp(away);
		const key = await createTestKey(home, "org_member");
		await bind({ api_key_id: key.id }, "app_reader", away.orgId, doomed.uuid);
		const onApp = await bind({ api_key_id: key.id }, "app_reader", away.orgId, awayApp.uuid);
		expect((await sees(key.text)).sort()).toEqual([awayApp.appId, doomed.appId].sort());
		await away.request("DELETE", `/app/${doomed.appId}`, { key: away.adminKey });
		expect(await sees(key.text)).toEqual([awayApp.appId]);
		await testEnv.DB.prepare("UPDATE role_bindings SET expires_at_ms = ? WHERE id = ?")
			.bind(home.clock.nowMs, onApp)
			.run();
		expect(await sees(key.text)).toEqual([]);
		expect((await home.request("GET", `/app/${awayApp.appId}`, { key: key.text })).status).toBe(404);
	});

	test("with a role of a newer version grants nothing, and takes nothing from the others", async () => {
		const key = await createTestKey(home, "org_member");
		await bind({ api_key_id: key.id }, "app_owner", away.orgId, awayApp.uuid);
		expect(await sees(key.text)).toEqual([]);
		expect((await home.request("GET", `/app/${awayApp.appId}`, { key: key.text })).status).toBe(404);
		await bind({ api_key_id: key.id }, "app_reader", away.orgId, awayApp.uuid);
		expect(await sees(key.text)).toEqual([awayApp.appId]);
	});
});
