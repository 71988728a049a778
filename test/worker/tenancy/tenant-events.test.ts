/**
 * The consumer and the clean-up write only to the app, device, version and rollout that an event
 * names. Two tenants have things with the same names, and some events name one tenant's app with
 * another tenant's thing. A missing condition shows as a changed row of the other tenant, or of
 * something else in the same app.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { openTelemetry } from "../../../src/db/telemetry-reads";
import { countDistinct, decodeSketch, mergeSketches } from "../../../src/domain/statistics/distinct-count";
import { DAY_MS } from "../../../src/domain/time";
import { outcomeStatements } from "../../../src/features/rollouts/outcomes";
import { MOST_SAMPLED, recordSamples } from "../../../src/features/rollouts/samples";
import { assignEvents, readKnownSince, storeAppsAndVersions } from "../../../src/features/statistics/assign";
import { consumeDeviceEvents } from "../../../src/features/statistics/device-events";
import { deleteOldDevices, measureStorage } from "../../../src/features/statistics/retention";
import {
	type CountedEvent,
	type DeviceEvent,
	type DeviceSeen,
	type RolloutReported,
	type RolloutRuns,
	type RolloutServed,
	rolloutDeviceKey,
} from "../../../src/messages";
import { resendDeadLetters, storeDeadLetters } from "../../../src/queue/dead-letters";
import { countingRows } from "../support/counting";
import { openReports, REPORTS } from "../support/reports";
import { countedEvent, seenEvent } from "../support/sent-events";
import { insertTenants } from "../support/tenant-rows";
import { changesBy } from "../support/tenant-statements";
import { A, B, type TenantRows } from "../support/tenants";
import { createWorld, NOW_MS, testEnv, type World } from "../support/world";

const TODAY = Math.floor(NOW_MS / DAY_MS);
/** A version that only the apps of this tenant have. */
const onlyOf = ({ name }: TenantRows) => `7.0.0-${name}`;

let world: World;
beforeEach(async () => {
	world = await createWorld();
	await insertTenants();
	for (const of of [A, B]) {
		await run(
			`INSERT INTO bundles (app_id, name, status, storage_provider, created_by, created_at_ms, updated_at_ms)
			VALUES (?, ?, 'ready', 'r2', 'Same', 1, 1)`,
			...[of.app, onlyOf(of)],
		);
		await runOnReports("INSERT INTO bundles (app_id, name) VALUES (?, ?)", of.app, onlyOf(of));
	}
});

const runOn =
	(d1: D1Database) =>
	(text: string, ...values: (string | number | null)[]) =>
		d1
			.prepare(text)
			.bind(...values)
			.run<Record<string, unknown>>();
const [run, runOnReports] = [runOn(testEnv.DB), runOn(REPORTS)];
const rowsOf = async (...statement: Parameters<typeof run>) => (await run(...statement)).results;
const reportedRows = async (...statement: Parameters<typeof run>) => (await runOnReports(...statement)).results;

/** Consumes events as the consumer of the Queue does, in the databases of their apps. */
async function consume(events: readonly DeviceEvent[], deps = world.deps): Promise<void> {
	for (const assigned of await assignEvents(deps, events)) {
		await storeAppsAndVersions(deps, assigned);
		await consumeDeviceEvents(deps, openTelemetry(deps, assigned.binding), assigned.reports);
		if (assigned.rolloutEvents.length > 0) {
			await recordSamples(deps, assigned.rolloutEvents, await readKnownSince(deps, assigned));
		}
	}
}

/** The consumer's dependencies; `between` runs before the first batch that has such a statement. */
function interruptedAt(statement: RegExp, between: () => Promise<unknown>): World["deps"] {
	let waits = true;
	let isMet = false;
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = REPORTS.withSession(constraint);
			return {
				prepare(text: string) {
					isMet ||= statement.test(text);
					return session.prepare(text);
				},
				async batch(statements: D1PreparedStatement[]) {
					if (isMet && waits) {
						waits = false;
						await between();
					}
					return session.batch(statements);
				},
			};
		},
	} as unknown as D1Database;
	return { ...world.deps, telemetry: { TELEMETRY: d1 } };
}

let events = 0;
const counted = (fields: Partial<CountedEvent> = {}) =>
	countedEvent({
		id: `event-${++events}`,
		appId: A.publicAppId,
		deviceId: "device-1",
		versionName: "1.0.0",
		atMs: NOW_MS,
		...fields,
	});

describe("counting an event", () => {
	test("adds to a version only if the app has it, and otherwise to the app", async () => {
		await consume(["1.0.0", onlyOf(A), onlyOf(B), "9.9.9"].map((versionName) => counted({ versionName })));
		expect(
			await reportedRows("SELECT app_id, version_name, amount FROM daily_counts WHERE day = ? ORDER BY 1, 2", TODAY),
		).toEqual([
			{ app_id: A.app, version_name: "", amount: 2 },
			{ app_id: A.app, version_name: "1.0.0", amount: 1 },
			{ app_id: A.app, version_name: onlyOf(A), amount: 1 },
		]);
	});

	test("adds served bytes to a bundle only if the app has it, and otherwise to the app", async () => {
		const bytes = { [`${A.app}/${A.stable}`]: 5, [`${B.app}/${B.next}`]: 7 };
		await consume([{ type: "served", id: "served", appUuid: A.app, atMs: NOW_MS, bytes }]);
		expect(
			await reportedRows("SELECT app_id, version_name, amount FROM daily_counts WHERE day = ? ORDER BY 1, 2", TODAY),
		).toEqual([
			{ app_id: A.app, version_name: "", amount: 7 },
			{ app_id: A.app, version_name: "1.0.0", amount: 5 },
		]);
	});
});

describe("install times", () => {
	const step = (metric: "start" | "install", secondsLater: number, fields: Partial<CountedEvent> = {}) =>
		counted({ metric, timed: true, atMs: NOW_MS + secondsLater * 1_000, ...fields });
	const steps = () =>
		reportedRows(`SELECT app_id, device_id, version.key AS version_name, CASE step.value ->> 2 WHEN 1 THEN 'set' ELSE 'start' END AS step
			FROM devices, json_each(recent_reports, '$.steps') AS version, json_each(version.value) AS step ORDER BY 1, 2, 3, 4`);
	const timed = () => reportedRows("SELECT app_id, version_name, amount FROM daily_install_times WHERE day = ?", TODAY);

	test("are recorded only for ready versions of the app", async () => {
		const events = [onlyOf(B), "9.9.9", "2.0.0"].flatMap((versionName) => [
			step("start", 0, { versionName }),
			step("install", 5, { versionName }),
		]);
		await consume(events);
		expect([await steps(), await timed()]).toEqual([[], []]);
	});

	test("deduplicate a repeated step, but not the same step of another device, version or app", async () => {
		await consume([step("start", 0), step("install", 5)]);
		await consume([step("start", 0), step("install", 5)]);
		const first = { app_id: A.app, device_id: "device-1", version_name: "1.0.0" };
		expect(await steps()).toEqual([
			{ ...first, step: "set" },
			{ ...first, step: "start" },
		]);
		expect(await timed()).toEqual([{ app_id: A.app, version_name: "1.0.0", amount: 1 }]);
		for (const fields of [{ deviceId: "device-2" }, { versionName: "1.1.0" }, { appId: B.publicAppId }]) {
			await consume([step("start", 0, fields), step("install", 5, fields)]);
		}
		expect(await steps()).toHaveLength(8);
		expect(await timed()).toEqual([
			{ app_id: A.app, version_name: "1.0.0", amount: 2 },
			{ app_id: A.app, version_name: "1.1.0", amount: 1 },
			{ app_id: B.app, version_name: "1.0.0", amount: 1 },
		]);
	});

	test("are computed without reading the steps of other devices", async () => {
		await runOnReports(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
			INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms, recent_reports)
			SELECT ?, 'other-' || i, 1, 1, '{"ids":{},"steps":{"1.0.0":[[1,null,0]]}}' FROM n`,
			A.app,
		);
		const [main, telemetry] = [countingRows(testEnv.DB), countingRows(REPORTS)];
		const deps = { ...world.deps, d1: main.d1, telemetry: { TELEMETRY: telemetry.d1 } };
		await consume([step("start", 0), step("install", 5)], deps);
		expect(main.read + telemetry.read).toBeLessThan(200);
	});
});

describe("dead messages", () => {
	test("are deleted once they are resent, and stay if the Queue refuses them", async () => {
		const body = { kind: "collect_garbage" } as const;
		await storeDeadLetters(
			world.deps,
			["m1", "m2", "m3"].map((id) => ({ id, timestamp: new Date(NOW_MS), body })),
		);
		await run("UPDATE dead_messages SET resend = 1 WHERE id <> 'm1'");
		let sent = 0;
		const events = { send: async () => (++sent > 1 ? Promise.reject(new Error("full")) : undefined) } as never;
		await expect(resendDeadLetters({ ...world.deps, events })).rejects.toThrow("full");
		expect((await rowsOf("SELECT id FROM dead_messages ORDER BY id")).map(({ id }) => id)).toEqual(["m1", "m3"]);
	});
});

describe("counting a device", () => {
	const seen = (fields: Partial<DeviceSeen> = {}) =>
		seenEvent({
			appId: A.publicAppId,
			deviceId: "device-3",
			atMs: NOW_MS,
			versionName: "1.0.0",
			...fields,
		});
	/** Devices of each app. */
	const counts = async () => {
		const rows = await reportedRows(
			"SELECT app_id, sketch FROM device_sketches WHERE day = ? AND kind = 'all' ORDER BY app_id",
			TODAY,
		);
		const byApp = Map.groupBy(rows, ({ app_id }) => app_id as string);
		return [...byApp].map(([app, slots]) => [
			app,
			countDistinct(slots.map(({ sketch }) => decodeSketch(sketch as string)).reduce(mergeSketches)),
		]);
	};

	test("adds it to a version only if the app has that version", async () => {
		const reported = { "device-3": onlyOf(A), "device-4": onlyOf(B), "device-5": "9.9.9" };
		await consume(Object.entries(reported).map(([deviceId, versionName]) => seen({ deviceId, versionName })));
		expect(
			(
				await reportedRows(
					"SELECT app_id, version_name, sketch FROM device_sketches WHERE day = ? AND kind = 'version' ORDER BY 1, 2",
					TODAY,
				)
			).map(({ app_id, version_name, sketch }) => [
				app_id,
				version_name,
				countDistinct(decodeSketch(sketch as string)),
			]),
		).toEqual([
			[A.app, "", 2],
			[A.app, onlyOf(A), 1],
		]);
	});

	test("adds it to the sketches of its own app only", async () => {
		await consume([seen(), seen({ appId: B.publicAppId })]);
		await consume([seen({ deviceId: "device-4" })]);
		expect(await counts()).toEqual([
			[A.app, 2],
			[B.app, 1],
		]);
	});

	test("keeps it when another consumer writes the same slot at the same time", async () => {
		const deps = { ...world.deps, randomBytes: (length: number) => new Uint8Array(length) };
		await consume([seen(), seen({ appId: B.publicAppId })], deps);
		const early = interruptedAt(/^update "device_sketches/i, () => consume([seen({ deviceId: "device-5" })], deps));
		await consume([seen({ deviceId: "device-4" })], { ...early, randomBytes: deps.randomBytes });
		expect(await counts()).toEqual([
			[A.app, 3],
			[B.app, 1],
		]);
	});
});

describe("daily storage of an app", () => {
	test("is the size of its own ready bundles and files", async () => {
		world.clock.nowMs = (TODAY + 0.5) * DAY_MS;
		await measureStorage(world.deps);
		const stored = (of: TenantRows) => of.stable + of.next + of.unused + (of.stable + of.next + of.unused);
		expect(await rowsOf("SELECT app_id, size_bytes FROM daily_storage WHERE day = ? ORDER BY app_id", TODAY)).toEqual([
			{ app_id: A.app, size_bytes: stored(A) },
			{ app_id: B.app, size_bytes: stored(B) },
			{ app_id: "app-x", size_bytes: 3 },
			{ app_id: A.deletedApp, size_bytes: A.stable },
			{ app_id: B.deletedApp, size_bytes: B.stable },
			{ app_id: A.emptyApp, size_bytes: 0 },
			{ app_id: B.emptyApp, size_bytes: 0 },
		]);
	});
});

describe("deletion of old devices", () => {
	const left = async () =>
		(await reportedRows("SELECT app_id, device_id FROM devices ORDER BY 1, 2")).map((row) =>
			Object.values(row).join(" "),
		);

	test("keeps a device that has an override in the same app", async () => {
		await run("DELETE FROM device_overrides WHERE app_id = ? OR device_id = 'device-2'", B.app);
		await deleteOldDevices(world.deps, openReports());
		expect(await left()).toEqual(["app-a device-1", "app-x device-1"]);
	});

	test("continues after the stored position, and the next run starts again", async () => {
		await run("DELETE FROM device_overrides");
		await runOnReports("DELETE FROM job_positions");
		await runOnReports(`INSERT INTO job_positions (step, position) VALUES ('devices', '["app-b","device-1"]')`);
		await deleteOldDevices(world.deps, openReports());
		const before = ["app-a device-1", "app-a device-2", "app-b device-1"];
		expect(await left()).toEqual(before);
		await deleteOldDevices(world.deps, openReports());
		expect(await left()).toEqual([]);
	});
});

describe("rollout health samples", () => {
	const NETWORK = "192.0.2.0/24";
	const served = (fields: Partial<RolloutServed> = {}): RolloutServed => ({
		type: "rollout_served",
		appId: A.publicAppId,
		rolloutId: A.rollout,
		deviceId: "device-3",
		fromVersion: "1.0.0",
		network: NETWORK,
		atMs: NOW_MS,
		...fields,
	});
	const addDevice = (app: string, deviceId: string, createdAtMs: number) =>
		runOnReports(
			"INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms) VALUES (?, ?, ?, 1)",
			...[app, deviceId, createdAtMs],
		);
	const sample = (rollout: string, count: number) =>
		run(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO rollout_devices (rollout_id, device_id, first_served_at_ms) SELECT ?, 'sampled-' || i, 1 FROM n`,
			...[count, rollout],
		);
	const judged = async () =>
		(
			await rowsOf(
				"SELECT rollout_id, device_id, coalesce(not_counted, 'counts') FROM rollout_devices WHERE device_id LIKE 'device-%' AND device_id > 'device-2' ORDER BY 1, 2",
			)
		).map((row) => Object.values(row).join(" "));
	beforeEach(async () => {
		// The first day of these rollouts is a later one than that of the devices.
		await run("UPDATE rollouts SET started_at_ms = ?", 5 * DAY_MS);
		for (const { app } of [A, B]) {
			await addDevice(app, "device-3", 1);
			await addDevice(app, "device-4", 6 * DAY_MS);
		}
	});

	test("include only devices of the rollout's app, and count only those that are older than the rollout", async () => {
		await addDevice(B.app, "device-5", 1);
		await consume([
			served(),
			served({ deviceId: "device-4" }),
			served({ deviceId: "device-5" }),
			served({ rolloutId: B.rollout }),
			served({ appId: B.publicAppId, rolloutId: A.pausedRollout }),
		]);
		expect(await judged()).toEqual([`${A.rollout} device-3 counts`, `${A.rollout} device-4 newer`]);
	});

	test("record outcomes only for rollouts of the event's app", async () => {
		const report = {
			type: "rollout_reported",
			appId: A.publicAppId,
			deviceId: "device-3",
			outcome: "installed",
		} as const;
		const events: (RolloutReported | RolloutRuns)[] = [
			{ ...report, versionName: "1.1.0", network: NETWORK, atMs: NOW_MS },
		];
		const rollout = { public_app_id: A.publicAppId, version_name: "1.1.0" };
		const knownSince = new Map([[rolloutDeviceKey(report), 1]]);
		const about = (id: string) => outcomeStatements(events, [{ ...rollout, id }], () => NETWORK, knownSince);
		expect(await changesBy(about(B.rollout))).toEqual([]);
		expect(await changesBy(about(A.rollout))).toHaveLength(1);
	});

	describe("sampling", () => {
		const MANY = 500;
		const many = (fields: Partial<RolloutServed> = {}) =>
			Array.from({ length: MANY }, (_, index) => served({ deviceId: `absent-${index}`, ...fields }));
		const sampling = async () =>
			(await rowsOf("SELECT id FROM rollouts WHERE sampling = 0 ORDER BY id")).map(({ id }) => id);

		test("ends for the rollout of the event when it has enough devices, and for no other", async () => {
			for (const of of [A, B]) for (const id of [of.rollout, of.pausedRollout]) await sample(id, MOST_SAMPLED);
			await consume(many());
			expect(await sampling()).toEqual([A.rollout]);
		});

		test("does not count devices of another rollout", async () => {
			await sample(B.rollout, MOST_SAMPLED);
			await sample(A.pausedRollout, MOST_SAMPLED);
			await consume(many());
			expect(await sampling()).toEqual([]);
		});

		test("does not end by an event of another app", async () => {
			await sample(B.rollout, MOST_SAMPLED);
			await consume(many({ rolloutId: B.rollout }));
			expect(await sampling()).toEqual([]);
		});
	});
});
