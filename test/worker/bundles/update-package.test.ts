/**
 * The update package of a channel: which combinations are refused when it is saved, and the answers
 * to a device, an explanation and a what-if. fast-path.test.ts compares the answers on both paths,
 * rollout-decision.test.ts tests the choice of a form.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
const ids: Record<string, number> = {};
const [BOTH, ZIP_ONLY, FILES_ONLY] = ["1.0.1", "1.0.2", "1.0.3"] as const;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of [BOTH, ZIP_ONLY, FILES_ONLY]) ids[version] = await uploadTestBundle(world, app, version);
	for (const version of [BOTH, FILES_ONLY]) await addTestFiles(app, ids[version] ?? 0, ["index.html"]);
	await removeTestZip(ids[FILES_ONLY] ?? 0);
});

const set = (channel: string, fields: Record<string, unknown>, key = world.adminKey) =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel, ...fields } });
const shown = async (channel: string) =>
	(await world.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel } })).body;
const device = {
	device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
};
const check = async (defaultChannel: string, fields: Record<string, unknown> = {}) =>
	(await world.request("POST", "/updates", { body: { app_id: app.appId, ...device, defaultChannel, ...fields } })).body;

describe("the update package of a channel", () => {
	test("is shown by GET /channel and in the audit log; the default is all", async () => {
		await setTestChannel(world, app, "shown", { version: BOTH });
		expect((await shown("shown")).updatePackage).toBe("all");
		expect((await set("shown", { updatePackage: "zip" })).status).toBe(200);
		expect((await shown("shown")).updatePackage).toBe("zip");
		const { body } = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "channel.update" },
		});
		expect(body[0]).toMatchObject({ before: { updatePackage: "all" }, after: { updatePackage: "zip" } });
		expect(await set("shown", { updatePackage: "tar" })).toMatchObject({
			status: 400,
			body: { error: "invalid_request", moreInfo: { issues: [{ path: "updatePackage" }] } },
		});
	});

	test.each([
		["zip", FILES_ONLY, "channel_zip_required"],
		["zip_from_builtin", FILES_ONLY, "channel_zip_required"],
		["delta", ZIP_ONLY, "channel_delta_required"],
		["delta_from_builtin", ZIP_ONLY, "channel_delta_required"],
	])("%s refuses the bundle %s on every path", async (updatePackage, version, error) => {
		const channel = `guarded-${updatePackage}`;
		const refused = { status: 409, body: { error, message: expect.stringContaining("updatePackage") } };
		expect(await set(channel, { version, updatePackage }), "created so").toMatchObject(refused);
		expect((await shown(channel)).error).toBe("channel_not_found");
		await set(channel, { version });
		expect(await set(channel, { updatePackage }), "switched to it").toMatchObject(refused);
		expect((await shown(channel)).updatePackage).toBe("all");
		await set(channel, { version: BOTH });
		expect((await set(channel, { updatePackage })).status).toBe(200);
		expect(await set(channel, { version }), "given by POST /channel").toMatchObject(refused);
		expect(await set(channel, { rolloutVersion: version }), "rolled out").toMatchObject(refused);
		const promote = await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: ids[version], channel_id: (await shown(channel)).id },
		});
		expect(promote, "promoted").toMatchObject(refused);
		const whatIf = await world.request("POST", "/channel/what_if", {
			key: world.adminKey,
			body: { app_id: app.appId, channel, version },
		});
		expect(whatIf, "asked beforehand").toMatchObject(refused);
		expect((await shown(channel)).version.name).toBe(BOTH);
	});

	test("needs channel.update_settings to change, and only read access otherwise", async () => {
		await setTestChannel(world, app, "watched", { version: BOTH, updatePackage: "delta" });
		const { createTestKey } = await import("../support/world");
		const reader = (await createTestKey(world, "app_reader", app)).text;
		expect(await set("watched", { updatePackage: "zip" }, reader)).toMatchObject({
			status: 403,
			body: { moreInfo: { permission: "channel.update_settings" } },
		});
		expect((await set("watched", { updatePackage: "delta" }, reader)).status).toBe(200);
	});
});

describe("the offer to a device", () => {
	test.each([
		["all", {}, { zip: true, files: true }],
		["zip", {}, { zip: true, files: false }],
		["delta", {}, { zip: false, files: true }],
		["zip_from_builtin", {}, { zip: true, files: false }],
		["zip_from_builtin", { version_name: "1.0.0-old" }, { zip: true, files: true }],
		["delta_from_builtin", {}, { zip: false, files: true }],
		["delta_from_builtin", { version_name: "1.0.0-old" }, { zip: true, files: true }],
		// Neither reads a manifest.
		["delta", { platform: "electron" }, { zip: true, files: false }],
		["delta", { plugin_version: "6.1.0" }, { zip: true, files: false }],
	])("for %s and %j is %j", async (updatePackage, fields, form) => {
		await setTestChannel(world, app, `offers-${updatePackage}`, {
			version: BOTH,
			updatePackage,
			allow_device_self_set: true,
		});
		const answer = await check(`offers-${updatePackage}`, fields);
		expect(answer.version).toBe(BOTH);
		expect({ zip: !answer.url.endsWith("/files/no-zip"), files: answer.manifest !== undefined }).toEqual(form);
		// iOS reads strictly: an address and a checksum are always there.
		expect(URL.canParse(answer.url)).toBe(true);
		expect(answer.checksum).not.toBe("");
	});

	test("is the same in the explanation and the what-if", async () => {
		await setTestChannel(world, app, "said", { version: BOTH, updatePackage: "delta", public: true });
		const { body } = await world.request("GET", "/device/explain", {
			key: world.adminKey,
			query: { app_id: app.appId, platform: "android", version_build: "1.0.0", plugin_version: "8.51.23" },
		});
		expect(body.trace).toContainEqual({
			rule: "update_package",
			outcome: "passed",
			finding: "the channel offers single files (delta)",
		});
		expect(body.answer.url).toMatch(/no-zip$/);
		await check("said");
		const { consume } = await import("../../../src/consumer");
		await consume(world.deps, { messages: world.deps.sent.splice(0).map((message) => ({ body: message })) as never });
		const planned = await world.request("POST", "/channel/what_if", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "said", updatePackage: "zip" },
		});
		expect(planned.body.outcomes).toMatchObject([
			{ before: { version: BOTH, package: "delta" }, after: { version: BOTH, package: "zip" }, changed: true },
		]);
	});
});
