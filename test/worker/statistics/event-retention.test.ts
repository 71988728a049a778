/**
 * Retention and storage of events: the time until each kind is deleted, and the rows that a day of
 * events costs.
 */

import { describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { RETENTION_DAYS } from "../../../src/domain/defaults";
import { DAY_MS } from "../../../src/domain/time";
import {
	deleteOldDevices,
	deleteOldEvents,
	deleteOldStatistics,
	deleteOldStorage,
	measureStorage,
} from "../../../src/features/statistics/retention";
import type { DeviceEvent, DeviceSeen } from "../../../src/messages";
import { storedKeys } from "../support/bytes";
import { app, counted, installs, message, prepareEventScene, rowsOf, world } from "../support/event-scene";
import { notingStatements, plansOf, scansIn } from "../support/plans";
import { openReports, REPORTS, reportsOf } from "../support/reports";
import { seenEvent } from "../support/sent-events";
import { NOW_MS, testEnv, uploadTestBundle } from "../support/world";
import { bundleOf, testBundle } from "../support/zip";

const { DEVICE_DAYS, STATISTICS_DAYS } = RETENTION_DAYS;

const TODAY = Math.floor(NOW_MS / DAY_MS);
prepareEventScene();

describe("retention", () => {
	test("never counts an event again after its id was removed", async () => {
		const once = message(counted(), counted({ metric: "get" }));
		await consume(world.deps, { messages: [{ body: once }] });
		for (let day = 0; day < 40; day++) {
			for (const hour of [0, 15, 15.99]) {
				world.clock.nowMs = NOW_MS + day * DAY_MS + hour * 3_600_000;
				await deleteOldEvents(world.deps, openReports());
				// A run that began before the clean-up did.
				world.clock.nowMs -= 15 * 60_000;
				await consume(world.deps, { messages: [{ body: once }] });
				expect(await installs(), `day ${day}`).toBe(1);
			}
		}
	});

	test("keeps ids for as long as the Queue may redeliver their events", async () => {
		const served = { type: "served", id: "bytes", appUuid: app.uuid, atMs: NOW_MS, bytes: { x: 7 } } as const;
		await consume(world.deps, { messages: [{ body: message(served) }] });
		world.clock.nowMs = (TODAY + 14) * DAY_MS;
		await deleteOldEvents(world.deps, openReports());
		expect(await rowsOf("counted_ids")).toHaveLength(1);
		world.clock.nowMs += DAY_MS;
		await deleteOldEvents(world.deps, openReports());
		expect(await rowsOf("counted_ids")).toHaveLength(0);
	});

	test("removes statistics by day, and devices without an override by their last check or report", async () => {
		const old = TODAY - STATISTICS_DAYS.default;
		for (const [index, day] of [old, old + 1].entries()) {
			const runIn =
				(db: D1Database) =>
				(text: string, ...values: (string | number)[]) =>
					db
						.prepare(text)
						.bind(app.uuid, ...values)
						.run();
			const [run, runInMain] = [runIn(await reportsOf(app.uuid)), runIn(testEnv.DB)];
			await run("INSERT INTO daily_counts VALUES (?, ?, '', '', 'get', 1)", day);
			await run("INSERT INTO daily_totals (app_id, day) VALUES (?, ?)", day);
			await run("INSERT INTO daily_install_times VALUES (?, ?, '', 1, 1)", day);
			await run("INSERT INTO device_sketches VALUES (?, ?, 'all', '', 0, '', 1, 1)", day);
			await runInMain("INSERT INTO daily_storage VALUES (?, ?, 1)", day);
			for (const kind of ["plain", "set"]) {
				await run(
					"INSERT INTO devices (app_id, device_id, last_seen_at_ms, created_at_ms, updated_at_ms) VALUES (?, ?, ?, 1, 1)",
					`${kind}${index}`,
					NOW_MS - (DEVICE_DAYS.default - index) * DAY_MS - 1,
				);
			}
			await runInMain(
				"INSERT INTO device_overrides (app_id, device_id, channel_id, created_by, created_at_ms, updated_at_ms) SELECT ?, ?, id, '', 1, 1 FROM channels LIMIT 1",
				`set${index}`,
			);
		}
		await deleteOldStatistics(world.deps, openReports());
		await deleteOldStorage(world.deps);
		// The tests before left more than one run's worth of devices.
		for (let run = 0; run < 4; run++) await deleteOldDevices(world.deps, openReports());
		const mine = `app_id = '${app.uuid}'`;
		for (const table of ["daily_counts", "daily_totals", "daily_install_times", "device_sketches", "daily_storage"]) {
			expect(
				(await rowsOf(table, mine)).map((row) => row.day),
				table,
			).toEqual([old + 1]);
		}
		expect((await rowsOf("devices", mine)).map((row) => row.device_id)).toEqual(["plain1", "set0", "set1"]);
	});

	test("scans a large table in ranges, and starts again after the last one", async () => {
		const reports = await reportsOf(app.uuid);
		await reports
			.prepare(
				`INSERT INTO devices (app_id, device_id, last_seen_at_ms, created_at_ms, updated_at_ms)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11000)
			SELECT '${app.uuid}', printf('%05d', i), CASE WHEN i % 2 THEN 1 ELSE ${NOW_MS} END, 1, 1 FROM n`,
			)
			.run();
		const left = async () => (await rowsOf("devices", `app_id = '${app.uuid}'`)).length;
		const seen: number[] = [];
		for (let run = 0; run < 12; run++) {
			await deleteOldDevices(world.deps, openReports());
			seen.push(await left());
		}
		expect(seen[0]).toBeGreaterThanOrEqual(11_000 - 5_000);
		expect(seen.at(-1)).toBe(5_500);
		await REPORTS.prepare("DELETE FROM devices WHERE app_id = ?").bind(app.uuid).run();
	});
});

describe("storage", () => {
	const stored = async () => {
		const rows = await rowsOf("daily_storage", `app_id = '${app.uuid}' ORDER BY day`);
		return rows.map((row) => [Number(row.day) - TODAY, row.size_bytes]);
	};
	const inBucket = async () => {
		const sizes = await Promise.all(
			(await storedKeys(`${app.uuid}/`)).map(async (key) => (await testEnv.BUNDLES.head(key))?.size ?? 0),
		);
		return sizes.reduce((total, size) => total + size, 0);
	};

	test("equals the bytes in the bucket; the first run after midnight measures the end of a day", async () => {
		await uploadTestBundle(world, app, "1.0.2", undefined, bundleOf(12_345));
		await measureStorage(world.deps);
		expect(await stored()).toEqual([[0, await inBucket()]]);
		await world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version: "1.0.2" } });
		world.clock.nowMs = (TODAY + 1) * DAY_MS + 60_000;
		await measureStorage(world.deps);
		const after = await inBucket();
		expect(after).toBe(testBundle("1.0.1").length);
		expect(await stored()).toEqual([
			[0, after],
			[1, after],
		]);
		await uploadTestBundle(world, app, "1.0.3", undefined, bundleOf(220));
		world.clock.nowMs += 15 * 60_000;
		await measureStorage(world.deps);
		expect(await stored()).toEqual([
			[0, after],
			[1, after + 220],
		]);
	});
});

describe("the cost", () => {
	const seen = (fields: Partial<DeviceSeen>) =>
		seenEvent({
			appId: app.appId,
			deviceId: "",
			atMs: NOW_MS,
			versionName: "1.0.1",
			...fields,
		});

	test("of a hundred devices is one row each and its indexes at first, none on other days, and a row and an index once a week", async () => {
		let written = 0;
		const d1 = {
			withSession(constraint: D1SessionConstraint) {
				const session = testEnv.TELEMETRY.withSession(constraint);
				return {
					prepare: (text: string) => session.prepare(text),
					async batch(statements: D1PreparedStatement[]) {
						const results = await session.batch(statements);
						for (const { meta } of results) written += meta.rows_written;
						return results;
					},
				};
			},
		} as unknown as D1Database;
		let draws = 0;
		// Every consumer draws another slot.
		const randomBytes = (length: number) => new Uint8Array(length).fill(++draws);
		const costOf = async (list: readonly DeviceEvent[]) => {
			written = 0;
			await consume(
				{ ...world.deps, randomBytes, telemetry: { TELEMETRY: d1 } },
				{ messages: [{ body: message(...list) }] },
			);
			return written;
		};
		const fleet = Array.from({ length: 100 }, (_, index) => seen({ deviceId: `fleet-${index}` }));
		const later = (ms: number) => fleet.map((event) => ({ ...event, atMs: NOW_MS + ms }));
		const devices = {
			first: await costOf(fleet),
			sameDay: await costOf(later(1)),
			nextDay: await costOf(later(DAY_MS)),
			sixthDay: await costOf(later(6 * DAY_MS)),
			seventhDay: await costOf(later(7 * DAY_MS)),
		};
		// All devices: one slot each in the sketches of the day and of the version, with their indexes,
		// the new devices of the day, and one row of the app's events; once, the app and the version.
		// Each device: its row and three index entries at first, none on other days, and once a week its
		// row and the entry by last report.
		expect(devices).toEqual({ first: 409, sameDay: 4, nextDay: 4, sixthDay: 4, seventhDay: 204 });
		const named = Array.from({ length: 100 }, (_, index) =>
			seen({ deviceId: `named-${index}`, customId: `person-${index}` }),
		);
		const withCustomId = {
			first: await costOf(named),
			nextDay: await costOf(named.map((event) => ({ ...event, atMs: NOW_MS + DAY_MS }))),
		};
		// A place in one more index, once.
		expect(withCustomId).toEqual({ first: 506, nextDay: 4 });
	});

	test("does not grow with devices, events and keys: no statement scans a table", async () => {
		const [main, reports] = [notingStatements(), notingStatements(testEnv.TELEMETRY)];
		const deps = { ...world.deps, d1: main.d1, telemetry: { TELEMETRY: reports.d1 } };
		const of = { appId: app.appId, deviceId: "device-1", atMs: NOW_MS };
		const report = { type: "rollout_reported", ...of, network: "192.0.2.0/24" } as const;
		await consume(deps, {
			messages: [
				{ body: { kind: "key_used", keyId: world.adminKeyId, orgId: world.orgId, atMs: NOW_MS } },
				{
					body: message(
						seen({ moved: true }),
						counted({ timed: true, metric: "start", deviceId: "device-1" }),
						counted({ timed: true, atMs: NOW_MS + 1, deviceId: "device-1" }),
						{ type: "served", id: "bytes", appUuid: app.uuid, atMs: NOW_MS, bytes: { "bundles/x": 7 } },
						{ type: "rollout_served", ...of, rolloutId: "rollout", fromVersion: "1.0.0", network: "192.0.2.0/24" },
						{ type: "rollout_runs", ...of, versionName: "1.0.1", network: "192.0.2.0/24" },
						...(["installed", "failed", "download_failed"] as const).map((outcome) => ({
							...report,
							outcome,
							versionName: "1.0.1",
						})),
					),
				},
			],
		});
		// A week later as well: what is known already is written by another statement.
		await consume(deps, { messages: [{ body: message(seen({ atMs: NOW_MS + 7 * DAY_MS })) }] });
		const statements = [...main.statements, ...reports.statements];
		expect(statements.filter(({ sql }) => sql.startsWith("UPDATE devices SET"))).toHaveLength(1);
		const written = new Set(statements.map(({ sql }) => /(?:INSERT INTO|UPDATE) "?(\w+)/i.exec(sql)?.[1]));
		expect([...written].filter((table) => table !== undefined).sort()).toEqual([
			"api_keys",
			"apps",
			"bundles",
			"counted_ids",
			"daily_counts",
			"daily_install_times",
			"daily_totals",
			"device_events",
			"device_sketches",
			"devices",
			"rollout_devices",
		]);
		const made = ["served", "ranked", "placed"];
		// Rollouts that are under way and webhooks are few, and are looked at once a minute.
		const scans = new Set(
			scansIn([...(await plansOf(main.statements, testEnv.DB)), ...(await plansOf(reports.statements, REPORTS))], made),
		);
		expect(scans).toEqual(new Set(["SCAN due USING INDEX rollouts_under_way", "SCAN w"]));
	});
});
