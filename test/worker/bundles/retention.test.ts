/**
 * Retention: unused bundles that are older than their app's retention are deleted, to the
 * millisecond, with their bytes and an audit entry. A bundle that is in use, comes into use during
 * the clean-up, or is the app's newest is kept.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { JOBS, runJobs } from "../../../src/schedule";
import { register, rows, run, storedKeys } from "../support/bytes";
import { beforeSecondTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import { reportsOf } from "../support/reports";
import { setTestChannel, testEnv } from "../support/world";
import {
	app,
	changeApp,
	DEVICE,
	deletions,
	KEPT_DAYS,
	manyOld,
	prepareRetention,
	readyOf,
	revisionOf,
	rowsReadByCleanUp,
	runs,
	startApp,
	UNCERTAIN_DAYS,
	upload,
	world,
} from "./retention-scene";

beforeEach(prepareRetention);

describe("an unused bundle", () => {
	test("is deleted when its retention ends, to the millisecond, with its bytes and an audit entry; the newest is kept", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS - HOUR_MS - 1;
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
		const before = await revisionOf();

		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
		expect(await revisionOf()).toBe((before ?? 0) + 1);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(1);
		expect(await deletions()).toMatchObject([
			{
				actor: { type: "system", name: "Automatic clean-up" },
				target: { type: "bundle", name: "1.0.0" },
				details: { reason: "retention" },
			},
		]);
		expect(await violations(app.uuid)).toEqual([]);

		world.clock.nowMs += 400 * DAY_MS;
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
		expect(await deletions()).toHaveLength(1);
		expect(await violations(app.uuid, { settled: true })).toEqual([]);
		// The version is free again.
		await upload("1.0.0");
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
	});

	test("costs the clean-up no rows while it is young", async () => {
		await upload("2.0.0", "2.1.0");
		const before = await rowsReadByCleanUp();
		expect(before).toBeGreaterThan(0);
		const young = (await manyOld()).length;
		await run(
			query
				.updateTable("bundles")
				.set({ created_at_ms: world.clock.nowMs - DAY_MS })
				.where("app_id", "=", app.uuid)
				.where("created_at_ms", "<", young),
		);
		expect(await rowsReadByCleanUp()).toBe(before);
	});

	test("costs a few rows when it expires, for any number of devices, bundles and channels", async () => {
		await upload("2.0.0", "2.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await rowsReadByCleanUp();
		const before = await rowsReadByCleanUp();
		const many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)";
		const made = "created_at_ms, updated_at_ms";
		const reports = await reportsOf(app.uuid);
		await reports
			.prepare(`${many} INSERT INTO devices (app_id, device_id, version_name, last_seen_at_ms, ${made})
				SELECT ?1, 'device-' || i, '2.1.0', 0, 0, 0 FROM n`)
			.bind(app.uuid)
			.run();
		await testEnv.DB.batch(
			[
				`channels (app_id, name, created_by, ${made}) SELECT ?1, 'channel-' || i, 'test', 0, 0`,
				`bundles (app_id, name, status, storage_provider, created_by, deleted_at_ms, ${made})
					SELECT ?1, '1.0.' || i, 'deleted', 'r2', 'test', 0, 0, 0`,
			].map((rows) => testEnv.DB.prepare(`${many} INSERT INTO ${rows} FROM n`).bind(app.uuid)),
		);
		expect(await rowsReadByCleanUp()).toBe(before);
	});

	test("is kept by its own app's retention; one day keeps only the newest, 0 keeps everything", async () => {
		const long = app;
		await upload("1.0.0", "1.1.0");
		await changeApp({ retention: 63_113_904 });
		const forEver = await startApp();
		await upload("1.0.0", "1.1.0");
		await changeApp({ retention: 0 });
		await startApp();
		await upload("1.0.0", "1.1.0", "1.2.0");
		await changeApp({ retention: 86_400 });
		world.clock.nowMs += 2 * DAY_MS;
		await runJobs(world.deps);
		expect([await readyOf(), await readyOf(long)]).toEqual([["1.2.0"], ["1.0.0", "1.1.0"]]);
		world.clock.nowMs += 700 * DAY_MS;
		await runJobs(world.deps);
		expect(await readyOf(long)).toEqual(["1.0.0", "1.1.0"]);
		world.clock.nowMs += 700 * DAY_MS;
		await runJobs(world.deps);
		expect([await readyOf(long), await readyOf(forEver)]).toEqual([["1.1.0"], ["1.0.0", "1.1.0"]]);
	});

	test("is kept if only deleted and pending bundles are newer", async () => {
		await changeApp({ retention: 86_400 });
		await upload("1.0.0", "1.1.0", "1.2.0");
		const { status } = await world.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "1.2.0" },
		});
		expect(status).toBe(200);
		world.clock.nowMs += 2 * DAY_MS;
		await register(world, app, "1.3.0", world.adminKey);
		await runJobs(world.deps);
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
		await startApp();
		await runs("1.0.0");
		const override = { app_id: app.uuid, device_id: DEVICE, channel_id: null, version_id: id, created_by: "x" };
		await run(query.insertInto("device_overrides").values({ ...override, created_at_ms: 1, updated_at_ms: 1 }));
		await runJobs(world.deps);
		expect(await readyOf(first)).toEqual(["1.1.0"]);
	});

	test("is kept while its organization is deleted and can be restored", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await run(
			query.updateTable("organizations").set({ deleted_at_ms: world.clock.nowMs }).where("id", "=", world.orgId),
		);
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
	});

	test("is deleted in bounded runs, the oldest first, without delaying other apps", async () => {
		const many = await manyOld();
		const first = app;
		await startApp();
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await runJobs(world.deps);
		expect([await readyOf(first), await readyOf()]).toEqual([many.slice(50).toSorted(), ["1.1.0"]]);
		await runJobs(world.deps);
		expect(await readyOf(first)).toEqual([many.at(-1)]);
	});

	test("is deleted even if many older ones are in use", async () => {
		const many = await manyOld();
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		for (const [index, version] of many.slice(0, -2).entries()) await runs(version, `device-${index}`);
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(many.filter((version) => version !== many.at(-2)).toSorted());
	});

	test("is deleted in the next run if the deletion fails, which does not stop other apps", async () => {
		await upload("1.0.0", "1.1.0");
		const apps = [app, await startApp()];
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const { d1 } = beforeSecondTrip(testEnv.DB, async () => {
			throw new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued.");
		});
		await expect(JOBS["expired bundles"]?.({ ...world.deps, d1 })).rejects.toThrow();
		const left = (await Promise.all(apps.map(readyOf))).map(({ length }) => length).sort();
		expect(left).toEqual([1, 2]);
		await runJobs(world.deps);
		expect(await Promise.all(apps.map(readyOf))).toEqual([["1.1.0"], ["1.1.0"]]);
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
			"1.0.0": text(startMs + HOUR_MS + keptMs),
			"1.1.0": text(startMs + 2 * HOUR_MS + keptMs),
			"1.2.0": null,
			"1.3.0": null,
			"1.4.0": null,
			"1.5.0": null,
		});
		world.clock.nowMs = startMs + HOUR_MS + keptMs - 1;
		await runJobs(world.deps);
		expect(await readyOf()).toContain("1.0.0");
		world.clock.nowMs += 1;
		await runJobs(world.deps);
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
		await runJobs(world.deps);
		expect(await readyOf()).toContain("1.0.0");
		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await readyOf()).not.toContain("1.0.0");
	});
});
