/**
 * GET /device/explain: names the cause and the remedy of an update decision to a caller of the API.
 */
import { beforeAll, describe, expect, test } from "vitest";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

describe("GET /device/explain", () => {
	let world: World;
	let app: TestApp;
	beforeAll(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		for (const version of ["1.4.3", "2.0.0", "0.9.0"]) await uploadTestBundle(world, app, version);
	});

	const ask = (fields: Record<string, unknown>) => ({
		app_id: app.appId,
		platform: "ios",
		version_name: "builtin",
		version_build: "1.4.2",
		plugin_version: "8.51.23",
		...fields,
	});
	const explain = async (fields: Record<string, unknown>) => {
		const query = Object.fromEntries(Object.entries(ask(fields)).map(([name, value]) => [name, String(value)]));
		const { status, body } = await world.request("GET", "/device/explain", { key: world.adminKey, query });
		expect(status, JSON.stringify(body)).toBe(200);
		return body;
	};
	const check = async (fields: Record<string, unknown>) =>
		(await world.request("POST", "/updates", { body: ask({ device_id: crypto.randomUUID(), ...fields }) })).body;

	test.each<[string, Record<string, unknown>, Record<string, unknown>]>([
		["disable_auto_update_to_major", { version: "2.0.0" }, {}],
		["disable_auto_update_to_minor", { version: "0.9.0", disableAutoUpdate: "minor" }, {}],
		["disable_auto_update_to_patch", { version: "1.4.3", disableAutoUpdate: "patch" }, {}],
		["misconfigured_channel", { version: "1.4.3", disableAutoUpdate: "version_number" }, {}],
		["disable_auto_update_under_native", { version: "0.9.0" }, {}],
		["disable_prod_build", { version: "1.4.3", allow_prod: false }, {}],
		["disable_dev_build", { version: "1.4.3", allow_dev: false }, { is_prod: false }],
		["disable_device", { version: "1.4.3", allow_device: false }, {}],
		["disable_emulator", { version: "1.4.3", allow_emulator: false }, { is_emulator: true }],
		["no_channel", { version: "0.9.0", allow_device_self_set: false, ios: false }, {}],
	])(
		"answers %s with settings that, sent to POST /channel, give the device its bundle",
		async (error, settings, fields) => {
			const name = `remedy-${error}`;
			await setTestChannel(world, app, name, { allow_device_self_set: true, ...settings });
			const asking = { ...fields, defaultChannel: name };
			const why = await explain(asking);
			expect(why).toMatchObject({ outcome: "none", answer: { error }, remedy: { settings: { channel: name } } });
			expect(why.trace.at(-1)).toMatchObject({ outcome: "decided", remedy: why.remedy.message });
			const change = await world.request("POST", "/channel", {
				key: world.adminKey,
				body: { app_id: app.appId, ...why.remedy.settings },
			});
			expect(change.status).toBe(200);
			expect(await check(asking)).toMatchObject({ version: settings.version, url: expect.any(String) });
		},
	);

	test("names the bundle of an override as the cause, or the rule that refuses it", async () => {
		await setTestChannel(world, app, "override", { allow_device_self_set: true, version: "1.4.3" });
		const id = (
			await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version: "0.9.0" } })
		).body[0].id;
		const device_id = crypto.randomUUID();
		await world.request("POST", "/device", {
			key: world.adminKey,
			body: { app_id: app.appId, device_id, version_id: id },
		});
		const asking = { device_id, defaultChannel: "override", version_build: "0.8.0" };
		expect(await explain(asking)).toMatchObject({
			outcome: "update",
			answer: { version: "0.9.0" },
			decided_by: "device_bundle",
			because: "bundle 0.9.0 is set for this device",
			remedy: null,
		});
		expect(await explain({ ...asking, version_build: "1.4.2" })).toMatchObject({
			outcome: "none",
			decided_by: "channel_rule",
			remedy: {
				message:
					"Set a bundle from 1.4.2 to below 2.0.0 for this device, or turn off disableAutoUpdateUnderNative on channel override.",
			},
		});
	});
});
