/**
 * Dry runs of deleting a channel and bundles: they show what would be deleted, refuse what the
 * deletion refuses, and change nothing. The tests compare each dry run with the deletion.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { databaseText } from "../support/database-text";
import { reportsOf } from "../support/reports";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { testBundle } from "../support/zip";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const sizeOf = (version: string) => testBundle(version).length;

async function remove(
	path: "/channel" | "/bundle",
	query: Record<string, string>,
	key = world.adminKey,
	// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
): Promise<Answer<any>> {
	return world.request("DELETE", path, { key, query: { app_id: app.appId, ...query } });
}

/** Sends the dry run, which must change nothing. */
async function announce(path: "/channel" | "/bundle", query: Record<string, string>, key = world.adminKey) {
	const before = await databaseText();
	const answer = await remove(path, { ...query, dry_run: "true" }, key);
	expect(await databaseText(), "a dry run changed something").toBe(before);
	return answer;
}

async function setDevice(values: { readonly channel?: string; readonly version_id?: number }): Promise<void> {
	const { status, body } = await world.request("POST", "/device", {
		key: world.adminKey,
		body: { app_id: app.appId, device_id: crypto.randomUUID(), ...values },
	});
	expect(status, JSON.stringify(body)).toBe(200);
}

const countOf = async (table: string, where = "1") =>
	(
		await testEnv.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE app_id = ? AND ${where}`)
			.bind(app.uuid)
			.first<{ n: number }>()
	)?.n ?? 0;

describe("a dry run of deleting a channel", () => {
	test("shows its bindings, devices and rollouts, and no bundle, because the bundle stays", async () => {
		const stable = await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0");
		const preview = await createTestKey(world, "app_preview", app);
		const id = await setTestChannel(world, app, "pr-1", {}, preview.text);
		await setTestChannel(world, app, "pr-1", {
			version: "1.0.0",
			rolloutVersion: "1.1.0",
			rolloutPercentage: 10,
			rolloutEnabled: true,
		});
		await setTestChannel(world, app, "other");
		await setDevice({ channel: "pr-1" });
		await setDevice({ channel: "pr-1", version_id: stable });
		await setDevice({ channel: "other" });

		const answer = await announce("/channel", { channel: "pr-1" });
		expect(answer).toMatchObject({ status: 200, trips: 2 });
		expect(answer.body).toEqual({
			status: "ok",
			dry_run: true,
			id,
			name: "pr-1",
			removes: { bundles: 0, bundle_bytes: 0, api_key_bindings: 1, device_overrides: 2, rollouts: 1 },
			bundles: [],
		});
		const before = [await countOf("role_bindings"), await countOf("device_overrides"), await countOf("rollouts")];
		expect(await remove("/channel", { channel: "pr-1", dry_run: "false" })).toMatchObject({
			status: 200,
			body: { status: "ok" },
		});
		const after = [await countOf("role_bindings"), await countOf("device_overrides"), await countOf("rollouts")];
		expect(before.map((count, index) => count - (after[index] ?? 0))).toEqual([1, 2, 1]);
	});

	test("with its bundle shows every bundle that would be deleted", async () => {
		const [stable, next] = [await uploadTestBundle(world, app, "1.0.0"), await uploadTestBundle(world, app, "1.10.0")];
		await setTestChannel(world, app, "pr-2", { version: "1.0.0", rolloutVersion: "1.10.0" });
		await setDevice({ version_id: next });
		const { body, status } = await announce("/channel", { channel: "pr-2", delete_bundle: "true" });
		expect({ body, status }).toMatchObject({
			status: 200,
			body: {
				removes: { bundles: 2, bundle_bytes: sizeOf("1.0.0") + sizeOf("1.10.0"), device_overrides: 1 },
				bundles: [
					{ id: stable, version: "1.0.0", size: sizeOf("1.0.0") },
					{ id: next, version: "1.10.0", size: sizeOf("1.10.0") },
				],
			},
		});
		expect((await remove("/channel", { channel: "pr-2", delete_bundle: "true" })).body).toEqual({ status: "ok" });
		expect(await countOf("bundles", "status = 'ready'")).toBe(0);
		expect(await countOf("device_overrides")).toBe(0);
	});

	test("counts a device that has both the channel and the bundle once", async () => {
		const stable = await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "pr-3", { version: "1.0.0" });
		await setDevice({ channel: "pr-3", version_id: stable });
		const { body } = await announce("/channel", { channel: "pr-3", delete_bundle: "true" });
		expect(body.removes).toMatchObject({ bundles: 1, device_overrides: 1 });
	});

	test("refuses what the deletion refuses, with the same error", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "pr-4", { version: "1.0.0" });
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		const preview = await createTestKey(world, "app_preview", app);
		await setTestChannel(world, app, "pr-mine", {}, preview.text);
		await setTestChannel(world, app, "pr-mine", { version: "1.0.0" });
		for (const [query, key, status] of [
			[{ channel: "absent" }, world.adminKey, 404],
			[{ channel: "pr-4", delete_bundle: "true" }, world.adminKey, 409],
			[{ channel: "pr-mine", delete_bundle: "true" }, preview.text, 403],
			[{ channel: "pr-4" }, preview.text, 404],
			[{ channel: "pr-4" }, (await createTestKey(world, "app_reader", app)).text, 403],
			[{ channel: "pr-4" }, (await createWorld()).adminKey, 404],
		] as const) {
			const announced = await announce("/channel", query, key);
			const refused = await remove("/channel", query, key);
			expect(announced.status, JSON.stringify(query)).toBe(status);
			expect(announced.body).toEqual({ ...refused.body, requestId: announced.body.requestId });
		}
	});
});

describe("a dry run of deleting bundles", () => {
	test("counts the devices that run each bundle, with a channel that uses its bundle as well", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0");
		const other = await createTestApp(world);
		const reports = await reportsOf(app.uuid, other.uuid);
		const device = (of: string) =>
			reports
				.prepare(
					"INSERT INTO devices (app_id, device_id, version_name, created_at_ms, updated_at_ms) VALUES (?, ?, '1.0.0', 1, 1)",
				)
				.bind(of, crypto.randomUUID());
		await reports.batch([device(app.uuid), device(app.uuid), device(other.uuid)]);
		expect((await announce("/bundle", { all: "true" })).body).toMatchObject({
			removes: { bundles: 2, devices: 2 },
			bundles: [
				{ version: "1.1.0", devices: 0 },
				{ version: "1.0.0", devices: 2 },
			],
		});
		await setTestChannel(world, app, "pr-5", { version: "1.0.0" });
		expect((await announce("/channel", { channel: "pr-5", delete_bundle: "true" })).body).toMatchObject({
			bundles: [{ id, version: "1.0.0", devices: 2 }],
		});
	});

	test("shows the bytes of one bundle and the devices that were offered it", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0");
		await setTestChannel(world, app, "beta");
		await setDevice({ version_id: id });
		await setDevice({ version_id: id, channel: "beta" });
		const answer = await announce("/bundle", { version: "1.0.0" });
		expect(answer).toMatchObject({ status: 200, trips: 2 });
		expect(answer.body).toEqual({
			status: "ok",
			dry_run: true,
			removes: { bundles: 1, bundle_bytes: sizeOf("1.0.0"), device_overrides: 2, devices: 0 },
			kept_for_rollback: 0,
			bundles: [{ id, version: "1.0.0", size: sizeOf("1.0.0"), devices: 0, rollback_target_of: [] }],
		});
		expect((await remove("/bundle", { version: "1.0.0" })).body).toEqual({ status: "ok" });
		expect(await countOf("device_overrides", "version_id IS NOT NULL")).toBe(0);
	});

	test("shows no bytes for an unfinished registration", async () => {
		await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "3.0.0", size: 5, checksum: "0".repeat(64) },
		});
		const { body } = await announce("/bundle", { version: "3.0.0" });
		expect(body).toMatchObject({ removes: { bundles: 1, bundle_bytes: 0 }, bundles: [{ version: "3.0.0", size: 5 }] });
	});

	test("of all unused bundles lists the newest hundred, counts the rest, and skips those that a channel uses", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0");
		await setTestChannel(world, app, "production", { version: "1.0.0", rolloutVersion: "1.1.0" });
		expect((await announce("/bundle", { all: "true" })).body).toMatchObject({
			removes: { bundles: 0, bundle_bytes: 0, device_overrides: 0 },
			bundles: [],
		});
		await testEnv.DB.prepare(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 103)
			INSERT INTO bundles (app_id, name, status, storage_provider, object_key, size_bytes, created_by, created_at_ms, updated_at_ms)
			SELECT ?, '2.0.' || i, 'ready', 'r2', 'absent/' || i, 10, ?, i, i FROM n`,
		)
			.bind(app.uuid, world.userId)
			.run();
		await registerOnly("9.0.0");
		const { body } = await announce("/bundle", { all: "true" });
		expect(body.removes).toEqual({ bundles: 103, bundle_bytes: 1030, device_overrides: 0, devices: 0 });
		expect(body.bundles).toHaveLength(100);
		expect(body.bundles[0]).toMatchObject({ version: "2.0.103", size: 10 });
		expect((await remove("/bundle", { all: "true" })).body).toEqual({ status: "ok" });
		expect(await countOf("bundles", "status = 'deleted'")).toBe(103);
	});

	test("refuses what the deletion refuses, with the same error", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production", { version: "1.0.0" });
		for (const [query, status] of [
			[{ version: "absent" }, 404],
			[{ version: "1.0.0" }, 409],
			[{ all: "false" }, 400],
			[{ vresion: "1.0.0" }, 400],
			[{ version: "" }, 400],
		] as const) {
			const announced = await announce("/bundle", query);
			expect(announced.status, JSON.stringify(query)).toBe(status);
			expect(announced.body).toEqual({
				...(await remove("/bundle", query)).body,
				requestId: announced.body.requestId,
			});
		}
	});
});

async function registerOnly(version: string): Promise<void> {
	const { status } = await world.request("POST", "/bundle", {
		key: world.adminKey,
		body: { app_id: app.appId, version },
	});
	expect(status).toBe(201);
}
