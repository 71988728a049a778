/**
 * App ids ignore case, for people, devices and the stock CLI: no second app can have an id that
 * differs only in case.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { locationOf, tusCreate } from "../support/bytes";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
/** The same id in another spelling. */
let other: string;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	other = app.appId.replace("com.example", "Com.EXAMPLE");
});

const by = (method: string, path: string, options: object = {}) =>
	world.request(method, path, { key: world.adminKey, ...options });
const deviceOf = (appId: string) => ({
	app_id: appId,
	device_id: crypto.randomUUID(),
	platform: "android",
	version_name: "builtin",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
});
const check = (appId: string) => world.request("POST", "/updates", { body: deviceOf(appId) });

describe("an app id in another case", () => {
	test("is taken by the app that has the id", async () => {
		const stranger = await createWorld();
		for (const caller of [stranger, world]) {
			const body = { app_id: other, name: "twin", owner_org: caller.orgId };
			const answer = await caller.request("POST", "/app", { key: caller.adminKey, body });
			expect(answer).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
		}
		const free = { app_id: `${other}x`, name: "free", owner_org: stranger.orgId };
		expect(await stranger.request("POST", "/app", { key: stranger.adminKey, body: free })).toMatchObject({
			status: 201,
		});
	});

	test("is registered by one of 20 concurrent requests", async () => {
		const id = `com.example.race.t${crypto.randomUUID().slice(0, 8)}`;
		const answers = await Promise.all(
			Array.from({ length: 20 }, (_, index) =>
				by("POST", "/app", {
					body: { app_id: index % 2 === 0 ? id : id.toUpperCase(), name: "race", owner_org: world.orgId },
				}),
			),
		);
		expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
		expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
	});

	test("names the app in every management request, and answers show the stored spelling", async () => {
		await uploadTestBundle(world, { ...app, appId: other }, "1.0.1");
		await setTestChannel(world, { ...app, appId: other }, "production", { version: "1.0.1", public: true });
		expect(await by("GET", `/app/${other}`)).toMatchObject({ status: 200, body: { app_id: app.appId } });
		expect(await by("PUT", `/app/${other}`, { body: { name: "renamed" } })).toMatchObject({
			status: 200,
			body: { app_id: app.appId, name: "renamed" },
		});
		for (const path of ["/channel", "/bundle", "/device"]) {
			expect(await by("GET", path, { query: { app_id: other } }), path).toMatchObject({ status: 200 });
		}
		const log = await by("GET", `/app/${other}/audit`);
		expect(new Set((log.body as { app_id: string }[]).map(({ app_id }) => app_id))).toEqual(new Set([app.appId]));
		const stranger = await createWorld();
		expect(await stranger.request("GET", `/app/${other}`, { key: stranger.adminKey })).toMatchObject({ status: 404 });
	});

	test("gets devices the app's bundle, from the database and the cache, and counts them for the app", async () => {
		await uploadTestBundle(world, app, "1.0.1");
		await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
		const sent = deviceOf(other);
		for (const attempt of ["database", "memory"]) {
			const answer = await world.request("POST", "/updates", { body: sent });
			expect(answer.body, attempt).toMatchObject({ version: "1.0.1" });
		}
		await world.request("POST", "/stats", { body: { ...sent, action: "set", version_name: "1.0.1" } });
		expect(
			await world.request("GET", "/channel_self", { query: { app_id: other, platform: "android" } }),
		).toMatchObject({
			status: 200,
		});
		for (const body of world.deps.sent) await consume(world.deps, { messages: [{ body }] } as never);
		const devices = await by("GET", "/device", { query: { app_id: app.appId } });
		expect(devices.body).toMatchObject([{ device_id: sent.device_id, app_id: app.appId }]);
		// A change under one spelling shows in the next check of the same isolate under the other.
		await setTestChannel(world, app, "production", { version: null });
		expect((await check(other)).body).not.toHaveProperty("version");
	});

	test("is accepted from the stock CLI", async () => {
		const rpc = "/compat/capgo-cli/rest/v1";
		expect(
			(await by("GET", `${rpc}/apps`, { query: { app_id: `eq.${other}`, select: "app_id" } })).status,
		).toBeLessThan(300);
		expect(
			await by("POST", `${rpc}/rpc/cli_check_permission`, {
				body: { permission_key: "app.upload_bundle", app_id: other },
			}),
		).toMatchObject({ status: 200, body: true });
		await by("POST", "/bundle", { body: { app_id: other, version: "3.0.0" } });
		locationOf(await tusCreate(world, world.adminKey, `orgs/${world.orgId}/apps/${other}/3.0.0.zip`, 10));
		const key = await createTestKey(world, "app_admin", app);
		expect(await by("DELETE", `/app/${other}`, { key: key.text })).toMatchObject({ status: 200 });
		expect((await check(app.appId)).body).toMatchObject({ error: "app_not_found" });
	});
});
