/**
 * Rows that D1 bills for the reports of a fleet, by its own counters: indexes count, and so do
 * deletions. Events pass the isolate's buffer and the consumer as in production. Daily figures are
 * a few rows per batch of the Queue, shared by its devices.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { type Database, openDb } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { deleteOldEvents } from "../../../src/features/statistics/retention";
import type { CountedEvent, DeviceEvent, DeviceSeen } from "../../../src/messages";
import { countingRows } from "../support/counting";
import { REPORTS, reportsOf } from "../support/reports";
import { countedEvent, seenEvent } from "../support/sent-events";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const TODAY = Math.floor(NOW_MS / DAY_MS);
const FLEET = 200;

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["1.0.1", "1.0.2"]) await uploadTestBundle(world, app, version);
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await REPORTS.prepare("DELETE FROM counted_ids").run();
});

const seen = (device: number, fields: Partial<DeviceSeen> = {}) =>
	seenEvent({
		appId: app.appId,
		deviceId: `device-${device}`,
		atMs: world.clock.nowMs,
		versionName: "1.0.1",
		channelId: 1,
		...fields,
	});
const counted = (device: number, metric: CountedEvent["metric"], fields: Partial<CountedEvent> = {}) =>
	countedEvent({
		id: `${metric}-${device}`,
		appId: app.appId,
		deviceId: `device-${device}`,
		versionName: "1.0.2",
		metric,
		atMs: world.clock.nowMs,
		deviceAtMs: world.clock.nowMs,
		timed: true,
		...fields,
	});
const ofFleet = (eventsOf: (device: number) => readonly DeviceEvent[]) =>
	Array.from({ length: FLEET }, (_, device) => eventsOf(device)).flat();

/** Rows written for a batch of the Queue, and for the clean-up of what it left behind. */
async function written(work: (deps: World["deps"], reports: Database) => Promise<unknown>): Promise<number> {
	const [main, reports] = [countingRows(testEnv.DB), countingRows(REPORTS)];
	const deps = { ...world.deps, d1: main.d1, telemetry: { TELEMETRY: reports.d1 } };
	await work(deps, openDb(reports.d1, "first-primary"));
	return main.written + reports.written;
}
const consumed = (events: readonly DeviceEvent[]) =>
	written((deps) => consume(deps, { messages: [{ body: { kind: "device_events", id: "message", events } }] }));

const totals = () =>
	REPORTS.prepare("SELECT get_count, install_count FROM daily_totals WHERE app_id = ? AND day = ?")
		.bind(app.uuid, TODAY)
		.first<Record<string, number>>();
const timed = async () =>
	(
		await REPORTS.prepare("SELECT bucket, amount FROM daily_install_times WHERE app_id = ? ORDER BY 1")
			.bind(app.uuid)
			.all<{ bucket: number; amount: number }>()
	).results;

describe("rows written", () => {
	/** Daily figures of one batch: sketches and counts, each row perhaps with an index. */
	const A_BATCH = 14;

	test("are 4 for a new device, one of its row and one of each index, and none for a device that returns without news", async () => {
		expect(await consumed(ofFleet((device) => [seen(device)]))).toBeLessThanOrEqual(4 * FLEET + A_BATCH);
		expect(await consumed(ofFleet((device) => [seen(device)]))).toBeLessThanOrEqual(A_BATCH);
		world.clock.nowMs += DAY_MS;
		expect(await consumed(ofFleet((device) => [seen(device)]))).toBeLessThanOrEqual(A_BATCH);
	});

	test("are at most 5 for an update whose reports arrive in separate batches, with none deleted", async () => {
		await consumed(ofFleet((device) => [seen(device)]));
		world.clock.nowMs += 3_600_000;
		let rows = 0;
		const minuteLater = async (eventsOf: (device: number) => readonly DeviceEvent[]) => {
			world.clock.nowMs += 60_000;
			rows += await consumed(ofFleet(eventsOf));
		};
		await minuteLater((device) => [seen(device), counted(device, "start")]);
		await minuteLater((device) => [counted(device, "get")]);
		await minuteLater((device) => [
			seen(device, { versionName: "1.0.2", channelId: null, moved: true }),
			counted(device, "install"),
		]);
		await minuteLater((device) => [seen(device, { versionName: "1.0.2" })]);
		expect(rows).toBeLessThanOrEqual(5 * FLEET + 4 * A_BATCH);
		expect(await totals()).toEqual({ get_count: FLEET, install_count: FLEET });
		expect(await timed()).toEqual([{ bucket: 240, amount: FLEET }]);
		world.clock.nowMs += 40 * DAY_MS;
		expect(await written(deleteOldEvents)).toBe(0);
	});

	test("are one for a download that is not installed yet, because only an install moves the device in the indexes", async () => {
		await consumed(ofFleet((device) => [seen(device)]));
		world.clock.nowMs += 3_600_000;
		const rows = await consumed(ofFleet((device) => [seen(device), counted(device, "start"), counted(device, "get")]));
		expect(rows).toBeLessThanOrEqual(FLEET + A_BATCH);
	});

	test("are 3 for an update whose reports arrive in one batch", async () => {
		await consumed(ofFleet((device) => [seen(device)]));
		world.clock.nowMs += 60_000;
		const rows = await consumed(
			ofFleet((device) => [
				seen(device, { versionName: "1.0.2", channelId: null, moved: true }),
				...(["start", "get", "install"] as const).map((metric) => counted(device, metric)),
			]),
		);
		expect(rows).toBeLessThanOrEqual(3 * FLEET + A_BATCH);
	});
});

describe("a repeated report", () => {
	test("is counted once, from another batch, on another day, and in every order", async () => {
		const reports = [counted(1, "get"), counted(1, "install")];
		await consumed([seen(1), ...reports]);
		for (let day = 0; day < 14; day++) {
			world.clock.nowMs = NOW_MS + day * DAY_MS;
			await consumed(reports.toReversed().map((report) => ({ ...report, atMs: world.clock.nowMs })));
		}
		world.clock.nowMs = NOW_MS;
		expect(await totals()).toEqual({ get_count: 1, install_count: 1 });
	});

	test("is counted once if its device is unknown, and creates a device within the limit of new devices only", async () => {
		for (let again = 0; again < 2; again++) await consumed([counted(7, "install")]);
		await consumed([counted(8, "install", { crowded: true })]);
		expect(await totals()).toEqual({ get_count: 0, install_count: 1 });
		const rows = await REPORTS.prepare("SELECT device_id, last_seen_at_ms, created_at_ms FROM devices WHERE app_id = ?")
			.bind(app.uuid)
			.all();
		expect(rows.results).toEqual([{ device_id: "device-7", last_seen_at_ms: null, created_at_ms: NOW_MS }]);
	});

	test("of a device that another consumer writes at the same time is counted once", async () => {
		await consumed([seen(1)]);
		await Promise.all([consumed([counted(1, "get")]), consumed([counted(1, "get"), counted(1, "install")])]);
		expect(await totals()).toEqual({ get_count: 1, install_count: 1 });
	});
});

describe("bytes that many isolates served", () => {
	const served = (isolate: number, atMs = NOW_MS): DeviceEvent => ({
		type: "served",
		id: `bytes-${isolate}`,
		appUuid: app.uuid,
		atMs,
		bytes: { "bundles/unknown": 10 },
	});
	const bytes = async () =>
		(await REPORTS.prepare("SELECT sum(bandwidth_bytes) AS sum FROM daily_totals WHERE app_id = ?")
			.bind(app.uuid)
			.first<number>("sum")) ?? 0;

	test("cost a row of ids for five minutes, beside the two of their sums", async () => {
		const events = Array.from({ length: 60 }, (_, isolate) => served(isolate));
		await reportsOf(app.uuid);
		expect(await consumed(events)).toBe(3);
		expect(await bytes()).toBe(600);
	});

	test("count once, whatever arrives again with something new", async () => {
		await Promise.all([consumed([served(1), served(12)]), consumed([served(1), served(2)])]);
		expect(await bytes()).toBe(30);
		await consumed([served(2), served(3), served(3), served(4, NOW_MS - 300_000)]);
		expect(await bytes()).toBe(50);
		await consumed([served(4, NOW_MS - 300_000), served(12), served(2)]);
		expect(await bytes()).toBe(50);
	});

	test("count even if the row of their ids is full", async () => {
		const ids = "x".repeat(400_000);
		await REPORTS.prepare("INSERT INTO counted_ids VALUES (?, ?)")
			.bind(NOW_MS / 300_000, ids)
			.run();
		await consumed([served(1), served(2)]);
		expect(await bytes()).toBe(20);
		expect(await REPORTS.prepare("SELECT ids FROM counted_ids").first("ids")).toBe(ids);
	});
});
