/**
 * Retention: unused bundles that are older than their app's retention are deleted, to the millisecond, with their bytes and an audit entry. A
 * bundle that is in use, comes into use during the clean-up, or is the app's newest is kept.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { expiredBundlesOfApps } from "../../../src/db/bundles";
import { query } from "../../../src/db/client";
import { JOBS, sweep } from "../../../src/schedule";
import { register, rows, run, storedKeys } from "../support/bytes";
import { beforeSecondTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The default of an app. */
const KEPT_DAYS = 30;
/** A device that changes nothing may have been seen this long after its row says. */
const UNCERTAIN_DAYS = 7;
const DEVICE = "0f9b0a3e-43cf-4d1f-8a07-6a1c3b1f7e01";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const readyOf = async (of = app) =>
	(
		await rows(
			query
				.selectFrom("bundles")
				.select("name")
				.where("app_id", "=", of.uuid)
				.where("status", "=", "ready")
				.orderBy("name"),
		)
	).map(({ name }) => name);
const revisionOf = async () =>
	(await rows(query.selectFrom("apps").select("revision").where("id", "=", app.uuid)))[0]?.revision;
const changeApp = async (body: object, of = app) => {
	const { status } = await world.request("PUT", `/app/${of.appId}`, { key: world.adminKey, body });
	expect(status).toBe(200);
};
const deletions = async () => {
	const { body } = await world.request("GET", "/organization/audit", {
		key: world.adminKey,
		query: { orgId: world.orgId, action: "bundle.delete" },
	});
	return body as { actor: object; target: object; details: object }[];
};

/** Uploads these versions an hour apart, the last one now. */
async function upload(...versions: readonly string[]): Promise<number[]> {
	const ids: number[] = [];
	for (const version of versions) {
		world.clock.nowMs += HOUR_MS;
		ids.push(await uploadTestBundle(world, app, version));
	}
	return ids;
}

/** Rows that the clean-up's query reads. */
async function rowsReadBySweep(): Promise<number> {
	const { sql, parameters } = expiredBundlesOfApps(world.clock.nowMs, 50, 200);
	const { meta } = await testEnv.DB.prepare(sql)
		.bind(...parameters)
		.all();
	return meta.rows_read;
}

/** More bundles than one run deletes. */
async function manyOld(): Promise<string[]> {
	const many = Array.from({ length: 60 }, (_, index) => `1.0.${index}`);
	const old = { app_id: app.uuid, status: "ready" as const, storage_provider: "external" as const, created_by: "x" };
	await run(
		...many.map((name, index) =>
			query.insertInto("bundles").values({ ...old, name, created_at_ms: index, updated_at_ms: index } as never),
		),
	);
	return many;
}

async function runs(version: string, device_id = DEVICE): Promise<void> {
	const nowMs = world.clock.nowMs;
	await run(
		query.insertInto("devices").values({
			...{ app_id: app.uuid, device_id, version_name: version },
			...{ last_seen_at_ms: nowMs, created_at_ms: nowMs, updated_at_ms: nowMs },
		} as never),
	);
}

describe("an unused bundle", () => {
	test("is deleted when its retention ends, to the millisecond, with its bytes and an audit entry; the newest is kept", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS - HOUR_MS - 1;
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
		const before = await revisionOf();

		world.clock.nowMs += 1;
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
		expect(await revisionOf()).toBe((before ?? 0) + 1);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(1);
		expect(await deletions()).toMatchObject([
			{
				...{ actor: { type: "system", name: "Automatic clean-up" }, target: { type: "bundle", name: "1.0.0" } },
				details: { reason: "retention" },
			},
		]);
		expect(await violations(app.uuid)).toEqual([]);

		world.clock.nowMs += 400 * DAY_MS;
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
		expect(await deletions()).toHaveLength(1);
		expect(await violations(app.uuid, { settled: true })).toEqual([]);
		// The version is free again.
		await upload("1.0.0");
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
	});

	test("costs the clean-up no rows while it is young", async () => {
		await upload("2.0.0", "2.1.0");
		const before = await rowsReadBySweep();
		expect(before).toBeGreaterThan(0);
		const young = (await manyOld()).length;
		await run(
			query
				.updateTable("bundles")
				.set({ created_at_ms: world.clock.nowMs - DAY_MS })
				.where("app_id", "=", app.uuid)
				.where("created_at_ms", "<", young),
		);
		expect(await rowsReadBySweep()).toBe(before);
	});

	test("costs a few rows when it expires, for any number of devices, bundles and channels", async () => {
		await upload("2.0.0", "2.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await rowsReadBySweep();
		const before = await rowsReadBySweep();
		const many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)";
		const made = "created_at_ms, updated_at_ms";
		await testEnv.DB.batch(
			[
				`devices (app_id, device_id, version_name, last_seen_at_ms, ${made}) SELECT ?1, 'device-' || i, '2.1.0', 0, 0, 0`,
				`channels (app_id, name, created_by, ${made}) SELECT ?1, 'channel-' || i, 'test', 0, 0`,
				`bundles (app_id, name, status, storage_provider, created_by, deleted_at_ms, ${made})
					SELECT ?1, '1.0.' || i, 'deleted', 'r2', 'test', 0, 0, 0`,
			].map((rows) => testEnv.DB.prepare(`${many} INSERT INTO ${rows} FROM n`).bind(app.uuid)),
		);
		expect(await rowsReadBySweep()).toBe(before);
	});

	test("is kept by its own app's retention; 1 keeps only the newest, 0 keeps everything", async () => {
		const long = app;
		await upload("1.0.0", "1.1.0");
		await changeApp({ retention: 63_113_904 });
		const forEver = await createTestApp(world);
		app = forEver;
		await upload("1.0.0", "1.1.0");
		await changeApp({ retention: 0 });
		app = await createTestApp(world);
		await upload("1.0.0", "1.1.0", "1.2.0");
		await changeApp({ retention: 1 });
		await sweep(world.deps);
		expect([await readyOf(), await readyOf(long)]).toEqual([["1.2.0"], ["1.0.0", "1.1.0"]]);
		world.clock.nowMs += 700 * DAY_MS;
		await sweep(world.deps);
		expect(await readyOf(long)).toEqual(["1.0.0", "1.1.0"]);
		world.clock.nowMs += 700 * DAY_MS;
		await sweep(world.deps);
		expect([await readyOf(long), await readyOf(forEver)]).toEqual([["1.1.0"], ["1.0.0", "1.1.0"]]);
	});

	test("is kept if only deleted and pending bundles are newer", async () => {
		await changeApp({ retention: 1 });
		await upload("1.0.0", "1.1.0", "1.2.0");
		const { status } = await world.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "1.2.0" },
		});
		expect(status).toBe(200);
		world.clock.nowMs += HOUR_MS;
		await register(world, app, "1.3.0", world.adminKey);
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
		expect(
			await rows(
				query.selectFrom("bundles").select("name").where("app_id", "=", app.uuid).where("status", "=", "pending"),
			),
		).toEqual([{ name: "1.3.0" }]);
	});

	test("is deleted even if a device of another app runs the same version or has it as an override", async () => {
		const [id = 0] = await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const first = app;
		app = await createTestApp(world);
		await runs("1.0.0");
		const override = { app_id: app.uuid, device_id: DEVICE, channel_id: null, version_id: id, created_by: "x" };
		await run(query.insertInto("device_overrides").values({ ...override, created_at_ms: 1, updated_at_ms: 1 }));
		await sweep(world.deps);
		expect(await readyOf(first)).toEqual(["1.1.0"]);
	});

	test("is kept while its organization is deleted and can be restored", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await run(
			query.updateTable("organizations").set({ deleted_at_ms: world.clock.nowMs }).where("id", "=", world.orgId),
		);
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
	});

	test("is deleted in bounded runs, the oldest first, without delaying other apps", async () => {
		const many = await manyOld();
		const first = app;
		app = await createTestApp(world);
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await sweep(world.deps);
		expect([await readyOf(first), await readyOf()]).toEqual([many.slice(50).toSorted(), ["1.1.0"]]);
		await sweep(world.deps);
		expect(await readyOf(first)).toEqual([many.at(-1)]);
	});

	test("is deleted even if many older ones are in use", async () => {
		const many = await manyOld();
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		for (const [index, version] of many.slice(0, -2).entries()) await runs(version, `device-${index}`);
		await sweep(world.deps);
		expect(await readyOf()).toEqual(many.filter((version) => version !== many.at(-2)).toSorted());
	});

	test("is deleted in the next run if the deletion fails, which does not stop other apps", async () => {
		const apps = [app, await createTestApp(world)];
		for (const one of apps) {
			app = one;
			await upload("1.0.0", "1.1.0");
		}
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const { d1 } = beforeSecondTrip(testEnv.DB, async () => {
			throw new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued.");
		});
		await expect(JOBS["expired bundles"]?.({ ...world.deps, d1 })).rejects.toThrow();
		const left = (await Promise.all(apps.map(readyOf))).map(({ length }) => length).sort();
		expect(left).toEqual([1, 2]);
		await sweep(world.deps);
		expect(await Promise.all(apps.map(readyOf))).toEqual([["1.1.0"], ["1.1.0"]]);
	});
});

describe("a bundle in use is kept at any age:", () => {
	const uses: readonly [string, (id: number, version: string) => Promise<unknown>][] = [
		["by a channel", (_, version) => setTestChannel(world, app, "production", { version })],
		[
			"by a rollout",
			async (_, rolloutVersion) => {
				await setTestChannel(world, app, "production", { version: "2.0.0" });
				await setTestChannel(world, app, "production", { rolloutVersion, rolloutEnabled: false });
			},
		],
		[
			"by a device that an operator set it for",
			(version_id) =>
				world.request("POST", "/device", {
					key: world.adminKey,
					body: { app_id: app.appId, device_id: DEVICE, version_id },
				}),
		],
		["by a device that was seen running it", (_, version) => runs(version)],
		[
			"by a channel on which it was live before",
			async (_, version) => {
				for (const live of [version, "2.0.0"]) await setTestChannel(world, app, "production", { version: live });
			},
		],
	];

	test.each(uses)("%s", async (_, use) => {
		const [id = 0] = await upload("1.0.0", "1.1.0", "2.0.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await use(id, "1.0.0");
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "2.0.0"]);
	});

	test.each(uses)("%s, even if that begins between the read and the deletion", async (_, use) => {
		const [id = 0] = await upload("1.0.0", "1.1.0", "2.0.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const racing = beforeSecondTrip(testEnv.DB, async () => void (await use(id, "1.0.0")));
		await JOBS["expired bundles"]?.({ ...world.deps, d1: racing.d1 });
		expect(racing.trips).toBe(2);
		// The bundle that came into use is kept, and the other one deleted.
		expect(await readyOf()).toEqual(["1.0.0", "2.0.0"]);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(3);
		expect(await violations(app.uuid)).toEqual([]);
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "2.0.0"]);
	});

	test("an app with a longer retention, even if that is set between the read and the deletion", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const racing = beforeSecondTrip(testEnv.DB, () => changeApp({ retention: 63_113_904 }));
		await JOBS["expired bundles"]?.({ ...world.deps, d1: racing.d1 });
		expect(racing.trips).toBe(2);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
	});

	test("one that devices still ran when it was replaced, for the app's retention", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += 2 * KEPT_DAYS * DAY_MS;
		await runs("1.0.0");
		world.clock.nowMs += (KEPT_DAYS + UNCERTAIN_DAYS) * DAY_MS - 1;
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
		world.clock.nowMs += 1;
		await sweep(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
	});

	test("but a promotion of a just deleted bundle is refused", async () => {
		const [id = 0] = await upload("1.0.0", "2.0.0");
		await setTestChannel(world, app, "production", { version: "2.0.0" });
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await sweep(world.deps);
		const { status, body } = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "production", version: "1.0.0" },
		});
		expect([status, body.error]).toEqual([404, "bundle_not_found"]);
		expect(id).toBeGreaterThan(0);
	});
});

describe("the last bundles that were live on a channel", () => {
	const remove = (fields: Record<string, string>) =>
		world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, ...fields } });
	const live = async (channel: string, ...versions: readonly string[]) => {
		for (const version of versions) await setTestChannel(world, app, channel, { version });
	};
	const versions = (count: number) => Array.from({ length: count }, (_, index) => `1.${index}.0`);

	test("are the five before the present one, each counted once, and no clean-up deletes them", async () => {
		await upload(...versions(9));
		// 1.6.0 and 1.5.0 alternate, and 1.3.0 was live twice: only the last time counts.
		await live("production", ...versions(7), "1.5.0", "1.6.0", "1.5.0", "1.3.0", "1.6.0", "1.7.0");
		const dryRun = await remove({ all: "true", dry_run: "true" });
		expect(dryRun.body).toMatchObject({ kept_for_rollback: 5, removes: { bundles: 3 } });
		const kept = ["1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"];
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await sweep(world.deps);
		expect(await readyOf(), "the newest stays as well").toEqual([...kept, "1.8.0"]);
		expect((await remove({ all: "true" })).status).toBe(200);
		expect(await readyOf()).toEqual(kept);
		expect(await violations(app.uuid)).toEqual([]);
		// The channel can be rolled back to each of them.
		for (const version of kept) {
			const { body } = await world.request("POST", "/channel/rollback", {
				key: world.adminKey,
				body: { app_id: app.appId, channel: "production", version },
			});
			expect(body).toMatchObject({ version, was_live: true });
		}
	});

	test("are as many as keep_live_bundles for each channel, and shared ones are kept while one channel keeps them", async () => {
		await upload(...versions(5));
		await changeApp({ keep_live_bundles: 1 });
		await live("production", "1.0.0", "1.1.0", "1.2.0", "1.3.0");
		await live("beta", "1.1.0", "1.4.0");
		await remove({ all: "true" });
		expect(await readyOf()).toEqual(["1.1.0", "1.2.0", "1.3.0", "1.4.0"]);
		await changeApp({ keep_live_bundles: 0 });
		await remove({ all: "true" });
		expect(await readyOf()).toEqual(["1.3.0", "1.4.0"]);
		for (const keep_live_bundles of [-1, 51, 1.5, "5"]) {
			const { status, body } = await world.request("PUT", `/app/${app.appId}`, {
				key: world.adminKey,
				body: { keep_live_bundles },
			});
			expect([status, body.moreInfo.issues[0].path]).toEqual([400, "keep_live_bundles"]);
		}
	});

	test("are deleted by version, with a dry run that names the effect, and with their channel", async () => {
		await upload(...versions(4));
		await live("production", "1.0.0", "1.1.0", "1.2.0");
		await runs("1.0.0");
		const { body } = await remove({ version: "1.0.0", dry_run: "true" });
		expect(body).toMatchObject({
			removes: { bundles: 1, devices: 1 },
			bundles: [{ version: "1.0.0", devices: 1, rollback_target_of: ["production"] }],
		});
		expect((await remove({ version: "1.0.0" })).status).toBe(200);
		const channel = { app_id: app.appId, channel: "production" };
		expect((await world.request("DELETE", "/channel", { key: world.adminKey, query: channel })).status).toBe(200);
		await remove({ all: "true" });
		expect(await readyOf()).toEqual([]);
	});

	test("are found by index: many bundles and a long history of others cost no row", async () => {
		await upload("1.0.0", "1.1.0", "2.0.0");
		await live("production", "1.0.0", "1.1.0", "2.0.0");
		const other = await setTestChannel(world, app, "other");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await rowsReadBySweep();
		const before = await rowsReadBySweep();
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
			INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, actor_type, actor_name, rollback_target)
			SELECT ?, ?, 0, 'promotion', -i, 'system', 'x', i % 2 FROM n`,
		)
			.bind(app.uuid, other)
			.run();
		expect(await rowsReadBySweep()).toBe(before);
	});
});

describe("expires_at in GET /bundle", () => {
	const expiries = async () => {
		const { body } = await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId } });
		return Object.fromEntries(
			(body as { name: string; expires_at: string | null }[]).map(({ name, expires_at }) => [name, expires_at]),
		);
	};
	const text = (ms: number) => new Date(ms).toISOString();

	test("is the time of the clean-up, to the millisecond; null for a kept bundle", async () => {
		const startMs = world.clock.nowMs;
		const [, , overridden] = await upload("1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0");
		await setTestChannel(world, app, "production", { version: "1.3.0" });
		await setTestChannel(world, app, "production", { version: "1.4.0" });
		await world.request("POST", "/device", {
			key: world.adminKey,
			body: { app_id: app.appId, device_id: DEVICE, version_id: overridden },
		});
		const keptMs = KEPT_DAYS * DAY_MS;
		expect(await expiries()).toEqual({
			...{ "1.0.0": text(startMs + HOUR_MS + keptMs), "1.1.0": text(startMs + 2 * HOUR_MS + keptMs) },
			...{ "1.2.0": null, "1.3.0": null, "1.4.0": null, "1.5.0": null },
		});
		world.clock.nowMs = startMs + HOUR_MS + keptMs - 1;
		await sweep(world.deps);
		expect(await readyOf()).toContain("1.0.0");
		world.clock.nowMs += 1;
		await sweep(world.deps);
		expect(await readyOf()).not.toContain("1.0.0");
		await changeApp({ retention: 0 });
		expect(Object.values(await expiries())).toEqual([null, null, null, null, null]);
	});

	test("moves on while a device that runs the bundle is seen", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += 10 * DAY_MS;
		await runs("1.0.0");
		const seenMs = world.clock.nowMs;
		expect((await expiries())["1.0.0"]).toBe(text(seenMs + (KEPT_DAYS + UNCERTAIN_DAYS) * DAY_MS));
		world.clock.nowMs = seenMs + (KEPT_DAYS + UNCERTAIN_DAYS) * DAY_MS - 1;
		await sweep(world.deps);
		expect(await readyOf()).toContain("1.0.0");
		world.clock.nowMs += 1;
		await sweep(world.deps);
		expect(await readyOf()).not.toContain("1.0.0");
	});
});
