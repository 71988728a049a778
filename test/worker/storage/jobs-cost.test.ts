/**
 * Rows that the clean-up reads. They are billed and D1 has one thread, so a run that finds nothing
 * to do must stay cheap in a large installation, and everything that has a retention must still go.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { removeTombstones } from "../../../src/db/bundle-deletion";
import { openDb } from "../../../src/db/client";
import { removeUnusedDeltaFiles } from "../../../src/db/delta-files";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { removeAuditEntries } from "../../../src/features/audit/retention";
import { JOBS, runJobs } from "../../../src/schedule";
import { countingRows } from "../support/counting";
import { emptyDatabase } from "../support/database-text";
import { withFault } from "../support/faults";
import { reportsOf } from "../support/reports";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const FILES = 10_000;
const APPS = 3;

const run = (text: string) => testEnv.DB.prepare(text).run();
const countOf = async (text: string) =>
	(await testEnv.DB.prepare(`SELECT count(*) AS amount FROM ${text}`).first<{ amount: number }>())?.amount;

/** Files, each in one bundle. */
async function addFiles(app: TestApp, bundleId: number, files: number): Promise<void> {
	const all = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${files})`;
	const path = `printf('file-${bundleId}-%05d', i)`;
	await run(`INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms)
		${all} SELECT '${app.uuid}', ${path}, printf('${app.uuid}/${bundleId}-%05d', i), 1, ${NOW_MS - 9 * DAY_MS} FROM n`);
	await run(`INSERT INTO bundle_files (bundle_id, app_id, file_name, file_hash, path)
		${all} SELECT ${bundleId}, '${app.uuid}', printf('%05d.js', i), 'aa', ${path} FROM n`);
}

describe("a run with nothing to do", () => {
	let world: World;
	beforeAll(async () => {
		world = await createWorld();
		for (let index = 0; index < APPS; index++) {
			const app = await createTestApp(world);
			await addFiles(app, await uploadTestBundle(world, app, "1.0.0"), FILES);
		}
	});

	test("reads under 5,000 rows in an account of 3 apps with 10,000 files each, and writes next to none", async () => {
		await runJobs(world.deps);
		for (let again = 0; again < 3; again++) {
			world.clock.nowMs += HOUR_MS;
			const counted = countingRows(testEnv.DB);
			await runJobs({ ...world.deps, d1: counted.d1 });
			expect(counted.read, JSON.stringify(counted.statements)).toBeLessThan(5_000);
			expect(counted.written).toBeLessThan(10);
		}
	});
});

/**
 * Whatever the number of jobs; it was 63, and the free plan of Cloudflare allows an invocation 50.
 */
const MOST_CALLS = 20;

/**
 * An app for whose bundles, channels and previews the clean-up asks in each run, and of which
 * nothing is to be removed.
 */
async function addLivingApp(world: World): Promise<TestApp> {
	const app = await createTestApp(world);
	const bundleId = await uploadTestBundle(world, app, "1.0.0");
	for (const version of ["0.8.0", "0.9.0"]) await uploadTestBundle(world, app, version);
	await world.request("DELETE", "/bundle", {
		key: world.adminKey,
		query: { app_id: app.appId, version: "0.8.0" },
	});
	const long = NOW_MS - 400 * DAY_MS;
	await testEnv.DB.batch(
		[
			`UPDATE apps SET retention = 86400 WHERE id = '${app.uuid}'`,
			`UPDATE bundles SET created_at_ms = ${long} WHERE app_id = '${app.uuid}' AND name <> '1.0.0'`,
			`UPDATE bundles SET deleted_at_ms = ${long} WHERE app_id = '${app.uuid}' AND name = '0.8.0'`,
			`INSERT INTO channels (app_id, name, created_by, is_preview, created_at_ms, updated_at_ms)
				VALUES ('${app.uuid}', 'pr-1', 'test', 1, 0, 0)`,
			`INSERT INTO device_overrides (app_id, device_id, version_id, created_by, created_at_ms, updated_at_ms)
				VALUES ('${app.uuid}', 'named', ${bundleId}, 'test', 0, 0)`,
		].map((text) => testEnv.DB.prepare(text)),
	);
	// Devices still run both versions, which keeps them.
	const reports = await reportsOf(app.uuid);
	await reports
		.prepare(`INSERT INTO devices (app_id, device_id, version_name, last_seen_at_ms, created_at_ms, updated_at_ms)
			VALUES (?1, 'a', '0.8.0', ?2, 1, 1), (?1, 'b', '0.9.0', ?2, 1, 1)`)
		.bind(app.uuid, NOW_MS)
		.run();
	return app;
}

describe("a run that has nothing to clean up", () => {
	test.each([1, 10])(
		`takes at most ${MOST_CALLS} calls of D1, R2 and the Queue with %i organizations and apps`,
		async (organizations) => {
			await emptyDatabase();
			let world = await createWorld();
			for (let index = 0; index < organizations; index++) {
				if (index > 0) world = await createWorld({ isOperator: false });
				await addLivingApp(world);
			}
			world.clock.nowMs += HOUR_MS;
			await runJobs(world.deps);
			// Apps that changed in the last minutes are published by each run, and this is the database's
			// clock.
			await run("UPDATE changes SET at_ms = at_ms - 3600000");
			world.clock.nowMs += HOUR_MS;
			const counted = withFault(world, 0, "refused");
			const before = await countOf("bundles");
			await runJobs(counted.deps);
			expect(await countOf("bundles")).toBe(before);
			expect(counted.calls.length, counted.calls.join()).toBeLessThanOrEqual(MOST_CALLS);
		},
	);
});

describe("files of a deleted bundle", () => {
	test("are deleted within an hour, except for those that another bundle has", async () => {
		const world = await createWorld();
		const app = await createTestApp(world);
		const [first, second] = [await uploadTestBundle(world, app, "1.0.0"), await uploadTestBundle(world, app, "1.0.1")];
		await addFiles(app, first, 50);
		await run(`INSERT INTO bundle_files SELECT ${second}, app_id, file_name, file_hash, path FROM bundle_files
			WHERE bundle_id = ${first} AND file_name <= '00010.js'`);
		const left = () => countOf(`delta_objects WHERE app_id = '${app.uuid}'`);
		await removeUnusedDeltaFiles(openDb(testEnv.DB, "first-primary"), NOW_MS);
		expect(await left()).toBe(50);
		// The slow walk over all files is elsewhere.
		await run(`INSERT INTO job_positions VALUES ('delta_files', '["zzz",""]')
			ON CONFLICT (step) DO UPDATE SET position = excluded.position`);
		world.clock.nowMs += HOUR_MS;
		await world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version: "1.0.0" } });
		// A run that began before the deletion and ends after it.
		await removeUnusedDeltaFiles(openDb(testEnv.DB, "first-primary"), world.clock.nowMs + 60_000);
		await run(`UPDATE job_positions SET position = '["zzz",""]' WHERE step = 'delta_files'`);
		await removeUnusedDeltaFiles(openDb(testEnv.DB, "first-primary"), world.clock.nowMs + HOUR_MS);
		expect(await left()).toBe(10);
		expect(await countOf(`garbage_objects WHERE object_prefix GLOB '${app.uuid}/${first}-*'`)).toBe(40);
	});
});

describe("rows of deleted bundles", () => {
	test("are deleted after 90 days unless a device still reports the version", async () => {
		const world = await createWorld();
		const app = await createTestApp(world);
		for (const version of ["1.0.0", "1.0.1", "1.0.2"]) await uploadTestBundle(world, app, version);
		for (const version of ["1.0.0", "1.0.1"]) {
			await world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version } });
		}
		const reports = await reportsOf(app.uuid);
		await reports
			.prepare(`INSERT INTO devices (app_id, device_id, version_name, created_at_ms, updated_at_ms)
			VALUES ('${app.uuid}', 'device', '1.0.1', 1, 1)`)
			.run();
		const names = async () =>
			(
				await testEnv.DB.prepare("SELECT name FROM bundles WHERE app_id = ? ORDER BY name").bind(app.uuid).all()
			).results.map(({ name }) => name);
		await removeTombstones(world.deps, world.clock.nowMs + 90 * DAY_MS - 1);
		expect(await names()).toEqual(["1.0.0", "1.0.1", "1.0.2"]);
		const elsewhere = await createTestApp(world);
		await uploadTestBundle(world, elsewhere, "1.0.0");
		await world.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: elsewhere.appId, version: "1.0.0" },
		});
		await testEnv.DB.prepare("UPDATE apps SET telemetry_binding = 'TELEMETRY_9' WHERE id = ?")
			.bind(elsewhere.uuid)
			.run();
		await expect(removeTombstones(world.deps, world.clock.nowMs + 90 * DAY_MS)).rejects.toThrow();
		const kept = await testEnv.DB.prepare("SELECT name FROM bundles WHERE app_id = ?").bind(elsewhere.uuid).all();
		expect(kept.results).toHaveLength(1);
		await testEnv.DB.prepare("DELETE FROM bundles WHERE app_id = ?").bind(elsewhere.uuid).run();
		expect(await names()).toEqual(["1.0.1", "1.0.2"]);
		await removeTombstones(world.deps, world.clock.nowMs + 90 * DAY_MS);
		expect(await names()).toEqual(["1.0.1", "1.0.2"]);
		await reports.prepare(`UPDATE devices SET version_name = '1.0.2' WHERE app_id = '${app.uuid}'`).run();
		await removeTombstones(world.deps, world.clock.nowMs + 90 * DAY_MS);
		expect(await names()).toEqual(["1.0.2"]);
	});
});

describe("entries of the audit log", () => {
	test("are deleted after AUDIT_DAYS, thousands in each run; a run without old ones reads only the oldest", async () => {
		const world = await createWorld();
		const own = `audit_log WHERE org_id = '${world.orgId}'`;
		await run("DELETE FROM audit_log");
		await run(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7000)
			INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, request_id)
			SELECT '${world.orgId}', ${NOW_MS} + i / 6000 * ${DAY_MS}, 'user', '', '', '', '', '' FROM n`);
		world.clock.nowMs = NOW_MS + world.deps.config.auditDays * DAY_MS;
		await removeAuditEntries(world.deps);
		expect(await countOf(own), "as old as allowed").toBe(7_000);
		world.clock.nowMs += 1;
		await removeAuditEntries(world.deps);
		expect(await countOf(own)).toBe(2_000);
		await removeAuditEntries(world.deps);
		expect(await countOf(own)).toBe(1_001);
		const counted = countingRows(testEnv.DB);
		await removeAuditEntries({ ...world.deps, d1: counted.d1 });
		expect(counted.read).toBeLessThan(3);
		expect(counted.written).toBe(0);
	});
});

describe("the size of the database", () => {
	test("is logged by the clean-up from 70 % of TELEMETRY_MAX_BYTES, and as an error from 90 %", async () => {
		const world = await createWorld();
		const sizeBytes = (await testEnv.DB.prepare("SELECT 1").run()).meta.size_after;
		const linesAt = async (share: number) => {
			const lines: unknown[][] = [];
			const config = { ...world.deps.config, telemetryMaxBytes: Math.floor(sizeBytes / share) };
			await JOBS["database size"]?.({ ...world.deps, config, log: (...line: unknown[]) => lines.push(line) });
			return lines.map(([level, event]) => [level, event]);
		};
		expect(await linesAt(0.69)).toEqual([]);
		expect(await linesAt(0.71)).toEqual([["warn", "database_filling"]]);
		expect(await linesAt(0.91)).toEqual([["error", "database_filling"]]);
	});
});
