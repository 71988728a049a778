/**
 * Roles on single channels: a holder sees and changes these channels as an ordinary role would, and
 * nothing else of the app. The role ends with the channel, with the transfer of the app, and when
 * the account of the key is lowered.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { rows } from "../support/bytes";
import { guarded, keyOf } from "../support/isolation-cast";
import type { PreparedRequest } from "../support/request-parts";
import { REQUESTS } from "../support/requests";
import {
	createTestApp,
	createTestMember,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let own: number;
let other: number;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	const channel = async (name: string) =>
		(await world.request("POST", "/channel", { key: world.adminKey, body: { app_id: app.appId, channel: name } })).body
			.id as number;
	own = await channel("qa");
	other = await channel("beta");
	await uploadTestBundle(world, app, "1.0.0");
});

const onChannel = (role_name: string, channel_id = own, app_id = app.uuid) => ({
	role_name,
	scope_type: "channel",
	org_id: world.orgId,
	app_id,
	channel_id,
});
const create = (bindings: readonly object[], key = world.adminKey) =>
	world.request("POST", "/apikey", { key, body: { name: "QA", expires_at: "2026-12-01T00:00:00Z", bindings } });
async function keyWith(role: string, key = world.adminKey): Promise<{ id: string; text: string }> {
	const { status, body } = await create([onChannel(role)], key);
	expect(status, JSON.stringify(body)).toBe(201);
	return { id: body.id, text: body.key };
}
const status = async (key: string, method: string, path: string, fields: object) =>
	(await world.request(method, path, { key, ...fields })).status;
const set = (key: string, fields: object, channel = "qa") =>
	status(key, "POST", "/channel", { body: { app_id: app.appId, channel, ...fields } });
async function prepared(endpoint: AnyEndpoint): Promise<PreparedRequest> {
	const prepare = REQUESTS[keyOf(endpoint)];
	if (prepare === undefined) throw new Error(`no request for ${keyOf(endpoint)}`);
	return prepare(world, app);
}
const bindingsOfKey = async (id: string) =>
	(await rows(query.selectFrom("role_bindings").select("role_name").where("api_key_id", "=", id))).map(
		({ role_name }) => role_name,
	);

describe("a key with a role on one channel", () => {
	test("lists and reads that channel, and sees nothing else of the app", async () => {
		const { text: key } = await keyWith("channel_reader");
		const query = { app_id: app.appId };
		const listed = await world.request("GET", "/channel", { key, query });
		expect(listed.body.map(({ name }: { name: string }) => name)).toEqual(["qa"]);
		const all = await world.request("GET", "/channel", { key: world.adminKey, query });
		expect(all.body).toHaveLength(2);
		expect(listed.body[0]).toEqual(all.body.find(({ name }: { name: string }) => name === "qa"));
		expect((await world.request("GET", "/channel", { key, query: { ...query, page: "1" } })).body).toEqual([]);
		expect(await status(key, "GET", "/channel", { query: { ...query, channel: "qa" } })).toBe(200);
		const hidden = await world.request("GET", "/channel", { key, query: { ...query, channel: "beta" } });
		expect(hidden).toMatchObject({ status: 404, body: { error: "channel_not_found" } });
		expect(await status(key, "GET", `/app/${app.appId}`, {})).toBe(404);
		expect(await status(key, "GET", "/bundle", { query })).toBe(404);
		expect(await status(key, "GET", "/device", { query })).toBe(404);
		expect((await world.request("GET", "/app", { key })).body).toEqual([]);
	});

	test.each([
		["channel_reader", 403, 403, 403],
		["channel_developer", 200, 200, 403],
		["channel_admin", 200, 200, 200],
	])("%s promotes: %i, changes settings: %i, deletes: %i", async (role, promotes, changes, deletes) => {
		const { text: key } = await keyWith(role);
		const bundle = await rows(query.selectFrom("bundles").select("id").where("app_id", "=", app.uuid));
		const promotion = { app_id: app.appId, version_id: bundle[0]?.id };
		expect(await status(key, "PUT", "/bundle", { body: { ...promotion, channel_id: own } })).toBe(promotes);
		expect(await status(key, "PUT", "/bundle", { body: { ...promotion, channel_id: other } })).toBe(404);
		expect(await set(key, { version: "1.0.0" })).toBe(promotes);
		expect(await set(key, { allow_emulator: false })).toBe(changes);
		expect(await set(key, { version: "1.0.0" }, "beta")).toBe(404);
		expect(await set(key, {}, "new")).toBe(404);
		const channel = { app_id: app.appId, channel: "beta" };
		expect(await status(key, "DELETE", "/channel", { query: channel })).toBe(404);
		expect(await status(key, "DELETE", "/channel", { query: { ...channel, channel: "qa" } })).toBe(deletes);
	});

	test("reaches nothing else by any endpoint", { timeout: 120_000 }, async () => {
		const { text: key } = await keyWith("channel_admin");
		for (const endpoint of guarded) {
			const { path, thing: _, ...request } = await prepared(endpoint);
			const { status, body } = await world.request(endpoint.method, path, { key, ...request });
			const name = `${keyOf(endpoint)}: ${JSON.stringify(body)}`;
			if (keyOf(endpoint) === "GET /channel") expect([status, body.length], name).toEqual([200, 1]);
			else if (!("anyKey" in endpoint.access)) expect([403, 404], name).toContain(status);
			else if (!path.startsWith("/apikey")) expect(JSON.stringify(body ?? ""), name).not.toContain(app.uuid);
		}
	});

	test("cannot make the channel public, which would take the devices of the app from other channels", async () => {
		await setTestChannel(world, app, "beta", { public: true });
		const { text: key } = await keyWith("channel_admin");
		const refused = await world.request("POST", "/channel", {
			key,
			body: { app_id: app.appId, channel: "qa", public: true },
		});
		expect(refused).toMatchObject({ status: 403, body: { error: "permission_denied" } });
		expect(await set(world.adminKey, { public: true })).toBe(200);
	});

	test("keeps its role when the channel becomes public and protected, where the rules of protection apply", async () => {
		const { id, text: key } = await keyWith("channel_admin");
		expect(await set(world.adminKey, { public: true, protected: true })).toBe(200);
		expect(await bindingsOfKey(id)).toEqual(["channel_admin"]);
		expect(await set(key, { version: "1.0.0" })).toBe(403);
		expect(await status(key, "DELETE", "/channel", { query: { app_id: app.appId, channel: "qa" } })).toBe(403);
		expect(await set(world.adminKey, { promoters: ["channel_admin"] })).toBe(200);
		expect(await set(key, { version: "1.0.0" })).toBe(200);
	});

	test("loses it with the channel, whose name stays reserved", async () => {
		const { id } = await keyWith("channel_developer");
		const channel = { app_id: app.appId, channel: "qa" };
		expect(await status(world.adminKey, "DELETE", "/channel", { query: channel })).toBe(200);
		expect(await bindingsOfKey(id)).toEqual([]);
		const names = await rows(query.selectFrom("channel_names").selectAll().where("app_id", "=", app.uuid));
		expect(names.map(({ name }) => name)).toContain("qa");
	});
});

describe("a binding on a channel", () => {
	test("needs a role of channels and a channel of the app that it names", async () => {
		const sibling = await createTestApp(world);
		for (const binding of [
			onChannel("channel_reader", own, sibling.uuid),
			onChannel("channel_reader", 999_999),
			onChannel("app_reader"),
			onChannel("channel_preview"),
			{ ...onChannel("channel_reader"), channel_id: "qa" },
		]) {
			expect(await create([binding]), JSON.stringify(binding)).toMatchObject({ status: 400 });
		}
		expect((await create([onChannel("channel_reader"), onChannel("channel_reader")])).status).toBe(400);
		expect((await create([onChannel("channel_reader"), onChannel("channel_reader", other)])).status).toBe(201);
	});

	test("is replaced by PUT /apikey, which keeps the id of the binding that stays", async () => {
		const { body: made } = await create([onChannel("channel_reader"), onChannel("channel_developer", other)]);
		const { body } = await world.request("PUT", `/apikey/${made.id}`, {
			key: world.adminKey,
			body: { bindings: [onChannel("channel_reader"), onChannel("channel_reader", other)] },
		});
		const idOf = (record: typeof body, channel: number) =>
			record.bindings.find(({ channel_id }: { channel_id: number }) => channel_id === channel).id;
		expect(body.bindings).toHaveLength(2);
		expect(idOf(body, own)).toBe(idOf(made, own));
		expect(idOf(body, other)).not.toBe(idOf(made, other));
	});

	test("of a key is removed when the account of the key is lowered, and is listed in the dry run", async () => {
		const admin = await createTestMember(world, "org_admin");
		const { id } = await keyWith("channel_developer", admin.key.text);
		const reader = await keyWith("channel_reader", admin.key.text);
		const lower = (dry_run: boolean) =>
			world.request("PUT", "/organization/members", {
				key: world.adminKey,
				body: { orgId: world.orgId, email: admin.email, role: "org_member", dry_run },
			});
		const dryRun = await lower(true);
		expect(dryRun.body.lowered_api_keys).toContainEqual({
			id,
			name: "QA",
			lost: [{ role_name: "channel_developer", app_id: app.appId, channel_id: own }],
		});
		expect(await bindingsOfKey(id)).toEqual(["channel_developer"]);
		expect((await lower(false)).status).toBe(200);
		expect(await bindingsOfKey(id)).toEqual([]);
		expect(await bindingsOfKey(reader.id)).toEqual(["channel_reader"]);
	});
});
