/**
 * Versions that devices got stay taken after their bundle is deleted, by every way in which a
 * device gets a bundle. A reused version reaches the devices that have the old bytes, and ends
 * there.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { putBytes, register } from "../support/bytes";
import { app, body, check, prepareUpdates, world } from "../support/update-scene";
import { createTestKey, sha256Hex, uploadTestBundle } from "../support/world";
import { bundleOf } from "../support/zip";

beforeEach(prepareUpdates);

const change = (fields: object) =>
	world.admin("POST /channel", { body: { app_id: app.appId, channel: "production", ...fields } });
const removed = (version: string) =>
	world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version } });
const deleteChannel = (channel: string, delete_bundle: boolean) =>
	world.request("DELETE", "/channel", { key: world.adminKey, body: { app_id: app.appId, channel, delete_bundle } });
const registered = (version: string, fields: Record<string, unknown> = {}) =>
	register(world, app, version, world.adminKey, fields);
const DEVICE = "0b6f3f0e-5d0c-4d3e-9a53-1d1f5b0c7a11";
const REFUSED = { status: 409, body: { error: "version_was_used" } };

/** Each makes a device get 1.0.5, and then not any more. */
const USES: Record<string, () => Promise<unknown>> = {
	"was live": async () => {
		await change({ version: "1.0.5", public: true });
		await change({ version: "1.0.4" });
	},
	"was live when its channel was made": async () => {
		const made = { channel: "beta", version: "1.0.5" };
		expect((await change(made)).status).toBe(201);
		await deleteChannel("beta", false);
	},
	"was live in a public channel that is deleted with it": async () => {
		await change({ channel: "beta", version: "1.0.5", public: true });
		await deleteChannel("beta", true);
	},
	"was live in two channels": async () => {
		await change({ channel: "beta", version: "1.0.5" });
		await change({ channel: "gamma", version: "1.0.5" });
		await change({ channel: "gamma", version: "1.0.4" });
		await deleteChannel("beta", true);
	},
	"was rolled out": async () => {
		await change({ version: "1.0.4", public: true });
		await change({ rolloutVersion: "1.0.5", rolloutPercentage: 10, rolloutEnabled: true });
		await change({ rollback: true });
	},
	"was promoted by PUT /bundle": async () => {
		const created = await change({ public: true });
		const { id } = (await world.admin("GET /channel", { query: { app_id: app.appId, channel: "production" } })).body;
		expect(created.status).toBeLessThan(300);
		const [bundle] = (await world.admin("GET /bundle", { query: { app_id: app.appId, version: "1.0.5" } })).body;
		const put = { app_id: app.appId, version_id: bundle.id, channel_id: id };
		expect((await world.request("PUT", "/bundle", { key: world.adminKey, body: put })).status).toBe(200);
		await change({ version: "1.0.4" });
	},
	"was set for a device": async () => {
		const [bundle] = (await world.admin("GET /bundle", { query: { app_id: app.appId, version: "1.0.5" } })).body;
		const device = { app_id: app.appId, device_id: DEVICE };
		const set = await world.request("POST", "/device", {
			key: world.adminKey,
			body: { ...device, version_id: bundle.id },
		});
		expect(set.status).toBe(200);
		await world.request("DELETE", "/device", { key: world.adminKey, body: device });
	},
};

describe("a version is refused after its bundle is deleted if it", () => {
	test.each(Object.keys(USES))("%s", async (use) => {
		await uploadTestBundle(world, app, "1.0.4");
		await uploadTestBundle(world, app, "1.0.5");
		await USES[use]?.();
		await removed("1.0.5");
		expect(await registered("1.0.5")).toMatchObject(REFUSED);
		const upsert = { app_id: app.appId, name: "1.0.5", storage_provider: "r2-direct" };
		const key = world.adminKey;
		expect(await world.request("POST", "/compat/capgo-cli/rest/v1/app_versions", { key, body: upsert })).toMatchObject({
			status: 409,
		});
		expect((await registered("1.0.5", { reuse_version: false })).body.message).toContain("reuse_version: true");
		expect((await registered("1.0.6")).status).toBe(201);
	});
});

test("a version that no device got is free again", async () => {
	await uploadTestBundle(world, app, "1.0.5");
	await removed("1.0.5");
	expect(await registered("1.0.5", { reuse_version: true })).toMatchObject({ status: 201, body: { name: "1.0.5" } });
});

test("a version that is deleted with its own channel is free again", async () => {
	for (let round = 0; round < 3; round++) {
		await uploadTestBundle(world, app, "1.0.5");
		await change({ channel: "task-7", version: "1.0.5", allow_device_self_set: true });
		expect((await deleteChannel("task-7", true)).status).toBe(200);
	}
});

test("the version of a preview is free again, until production gets it", async () => {
	const preview = await createTestKey(world, "app_preview", app);
	const request = (channel: string, version: string) =>
		world.request("POST", "/channel", { key: preview.text, body: { app_id: app.appId, channel, version } });
	for (const round of [1, 2]) {
		const { body: bundle } = await register(world, app, "1.0.5-pr.1", preview.text);
		await putBytes(world, bundle.upload_url, bundleOf(300 + round));
		expect((await request("pr-1", "1.0.5-pr.1")).status).toBeLessThan(300);
		await world.request("DELETE", "/channel", {
			key: preview.text,
			query: { app_id: app.appId, channel: "pr-1", delete_bundle: "true" },
		});
		await removed("1.0.5-pr.1");
	}
	const { body: bundle } = await register(world, app, "1.0.5-pr.1", preview.text);
	await putBytes(world, bundle.upload_url, bundleOf(310));
	expect((await change({ version: "1.0.5-pr.1", public: true })).status).toBeLessThan(300);
	await change({ version: null });
	expect((await removed("1.0.5-pr.1")).status).toBe(200);
	expect(await register(world, app, "1.0.5-pr.1", preview.text)).toMatchObject(REFUSED);
});

test("a reused version reaches devices with the old bytes and new ones once, and requests name it as before", async () => {
	await uploadTestBundle(world, app, "1.0.4");
	await uploadTestBundle(world, app, "1.0.5");
	await change({ version: "1.0.5", public: true });
	const old = body({ version_name: "1.0.5" });
	for (const use of [2, 3]) {
		await change({ version: "1.0.4" });
		expect((await removed("1.0.5")).status).toBe(200);
		const bytes = bundleOf(1_000 + use);
		const reused = await registered("1.0.5", { reuse_version: true });
		const name = `1.0.5+reuse.${use}`;
		expect(reused).toMatchObject({ status: 201, body: { name } });
		await putBytes(world, reused.body.upload_url, bytes);
		expect((await registered("1.0.5", { reuse_version: true })).body.error).toBe("bundle_already_exists");
		const [shown] = (await world.admin("GET /bundle", { query: { app_id: app.appId, version: "1.0.5" } })).body;
		expect(shown).toMatchObject({ name });
		expect(await change({ version: "1.0.5" })).toMatchObject({ status: 200 });
		const offered = { version: name, checksum: await sha256Hex(bytes) };
		expect(await check({ ...old })).toMatchObject(offered);
		expect(await check({ version_name: "builtin" })).toMatchObject(offered);
		expect(await check({ version_name: name })).toMatchObject({ kind: "up_to_date" });
		old.version_name = name;
	}
});
