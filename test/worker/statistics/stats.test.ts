/**
 * Events of devices: validated one by one, buffered into few messages, and counted exactly once in
 * any order and with any repetition.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { deleteOldEvents } from "../../../src/features/statistics/retention";
import type { QueueMessage } from "../../../src/messages";
import { beforeEachTrip } from "../support/interleave";
import { openReports, REPORTS } from "../support/reports";
import {
	type Answer,
	createTestApp,
	createWorld,
	NOW_MS,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const DAY = Math.floor(NOW_MS / 86_400_000);
let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	world.deps.sent.length = 0;
});

let devices = 0;
const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
const event = (fields: Record<string, unknown> = {}) => ({
	app_id: app.appId,
	device_id: newDevice(),
	platform: "android",
	version_name: "1.0.1",
	version_os: "15",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	action: "set",
	timestamp: NOW_MS,
	...fields,
});
const report = (body: unknown) => world.request("POST", "/stats", { body });
const sent = () => world.deps.sent.filter((message) => message.kind === "device_events");
const deliver = (messages: readonly QueueMessage[]) =>
	consume(world.deps, { messages: messages.map((body) => ({ body })) as never });
async function counts(): Promise<Record<string, number>> {
	const { results } = await REPORTS.prepare(
		"SELECT day, version_name, metric, sum(amount) AS amount FROM daily_counts WHERE app_id = ? AND metric <> 'devices' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
	)
		.bind(app.uuid)
		.all<{ day: number; version_name: string; metric: string; amount: number }>();
	return Object.fromEntries(
		results.map((row) => [
			`${row.metric} ${row.version_name}${row.day === DAY ? "" : ` day ${row.day - DAY}`}`,
			row.amount,
		]),
	);
}

describe("POST /stats", () => {
	test("accepts one event or many; in a batch each has its result, and an invalid one affects no other", async () => {
		expect((await report(event())).body).toEqual({ status: "ok" });
		const batch = await report([
			event(),
			event({ device_id: 7 }),
			"nonsense",
			event({ app_id: "com.example.absent" }),
			event(),
		]);
		expect(batch.status).toBe(200);
		expect(batch.body).toMatchObject({
			status: "ok",
			results: [
				{ status: "ok", index: 0 },
				{ status: "error", index: 1, error: "invalid_event" },
				{ status: "error", index: 2, error: "invalid_event" },
				{ status: "error", index: 3, error: "app_not_found" },
				{ status: "ok", index: 4 },
			],
		});
		expect((await report([])).body).toEqual({ status: "ok", results: [] });
		expect((await report(event({ device_id: 7 }))).status).toBe(400);
		await deliver(sent());
		expect(await counts()).toEqual({ "install 1.0.1": 3 });
	});

	test("answers an unknown app with HTTP 200 and app_not_found", async () => {
		expect(await report(event({ app_id: "com.example.absent" }))).toMatchObject({
			status: 200,
			body: { status: "error", error: "app_not_found" },
		});
	});

	test("accepts unknown actions, builtin, and empty and null fields", async () => {
		const odd = [
			event({ action: "a_new_one", version_name: "builtin" }),
			event({ action: undefined, version_name: "" }),
			event({ custom_id: null, key_id: null, defaultChannel: null, metadata: { any: "thing" } }),
			event({ version_name: "1.0.1:index.html", action: "download_manifest_file_fail" }),
		];
		const { body } = await report(odd);
		expect(body.results.every((result: { status: string }) => result.status === "ok")).toBe(true);
		await deliver(sent());
		expect(await counts()).toEqual({ "install 1.0.1": 1 });
	});

	test("makes no database call, and buffers many reports into one message", async () => {
		await report(event());
		world.deps.sent.length = 0;
		let release: () => void = () => undefined;
		let first: Promise<Answer> | undefined;
		await new Promise<void>((flushes) => {
			const delay = () => {
				flushes();
				return new Promise<void>((resolve) => {
					release = resolve;
				});
			};
			Object.assign(world.deps, { delay });
			first = report(event());
		});
		// The first report alone waits for the message; the others are answered before it is sent.
		const others = await Promise.all(Array.from({ length: 20 }, () => report([event(), event()])));
		release();
		const answers = [await first, ...others];
		expect(answers.map((answer) => answer?.trips)).toEqual(answers.map(() => 0));
		expect(sent()).toHaveLength(1);
		await deliver(sent());
		expect(await counts()).toEqual({ "install 1.0.1": 41 });
	});
});

describe("counts", () => {
	test("map actions to metrics, by bundle and day; a version that the app never had counts only for the app", async () => {
		for (const action of [
			"set",
			"download_complete",
			"set_fail",
			"update_fail",
			"download_fail",
			"ping",
			"download_50",
		]) {
			await report(event({ action }));
		}
		await report(event({ version_name: "6.6.6-made-up" }));
		world.clock.nowMs += 24 * 60 * 60 * 1000;
		await report(event());
		await deliver(sent());
		expect(await counts()).toEqual({
			"install 1.0.1": 1,
			"get 1.0.1": 1,
			"fail 1.0.1": 3,
			"install ": 1,
			"install 1.0.1 day 1": 1,
		});
	});

	test("include a repeated event once, with a time and without", async () => {
		const [timed, untimed] = [event(), event({ timestamp: undefined })];
		for (let round = 0; round < 3; round++) await report([timed, untimed]);
		await report({ ...timed, timestamp: NOW_MS + 1 });
		await deliver(sent());
		expect(await counts()).toEqual({ "install 1.0.1": 3 });
	});

	test("include a report once, however late it is repeated, and its device is seen each time", async () => {
		const late = event();
		const dated = event({ timestamp: new Date(NOW_MS).toISOString() });
		const lastSeen = () =>
			REPORTS.prepare("SELECT last_seen_at_ms FROM devices WHERE device_id = ?").bind(late.device_id).first();
		for (const day of [0, 1, 14, 15, 16, 40]) {
			world.clock.nowMs = NOW_MS + day * 86_400_000;
			await deleteOldEvents(world.deps, openReports());
			world.deps.sent.length = 0;
			await report([late, dated]);
			await deliver(sent());
			expect(await counts(), `day ${day}`).toEqual({ "install 1.0.1": 2 });
		}
		expect(await lastSeen()).toEqual({ last_seen_at_ms: world.clock.nowMs });
	});

	test("include an event once after redelivery, reordering, parallel delivery and a crash between any two statements", async () => {
		for (let index = 0; index < 30; index++) await report([event(), event({ action: "update_fail" })]);
		const messages = sent();
		expect(messages.length).toBeGreaterThan(10);
		const { d1 } = beforeEachTrip(testEnv.TELEMETRY, (trip) => {
			if (trip > 1) throw new Error("Network connection lost.");
		});
		const failing = { ...world.deps, telemetry: { TELEMETRY: d1 } };
		await expect(consume(failing, { messages: messages.map((body) => ({ body })) as never })).rejects.toThrow();
		await Promise.all([deliver(messages.slice(0, 20)), deliver([...messages].reverse())]);
		await deliver(messages);
		expect(await counts()).toEqual({ "install 1.0.1": 30, "fail 1.0.1": 30 });
	});
});

describe("devices", () => {
	const row = (deviceId: string) =>
		REPORTS.prepare("SELECT * FROM devices WHERE app_id = ? AND device_id = ?").bind(app.uuid, deviceId).first();

	test("are written for checks and reports, once a week unless something changed", async () => {
		const device_id = newDevice();
		const check = (fields: object = {}) =>
			world.request("POST", "/updates", { body: { ...event({ device_id }), version_name: "builtin", ...fields } });
		await check();
		await check();
		expect(sent()).toHaveLength(1);
		await deliver(sent());
		const first = await row(device_id);
		expect(first).toMatchObject({
			version_name: "builtin",
			version_build: "1.0.0",
			last_seen_at_ms: NOW_MS,
			platform: "android",
		});
		world.clock.nowMs += 60_000;
		await deliver(sent().map((message) => later(message, 60_000)));
		expect(await row(device_id), "nothing changed within the day").toEqual(first);
		await check({ version_name: "1.0.1" });
		await deliver(sent());
		expect(await row(device_id)).toMatchObject({ version_name: "1.0.1", last_seen_at_ms: NOW_MS + 60_000 });
		await deliver(sent().slice(0, 1));
		expect(await row(device_id), "an older message takes nothing back").toMatchObject({ version_name: "1.0.1" });
		world.clock.nowMs += 6 * 24 * 60 * 60 * 1000;
		await check({ version_name: "1.0.1" });
		await deliver(sent());
		expect(await row(device_id)).toMatchObject({ last_seen_at_ms: NOW_MS + 60_000 });
		world.clock.nowMs += 24 * 60 * 60 * 1000;
		await check({ version_name: "1.0.1" });
		await deliver(sent());
		expect(await row(device_id)).toMatchObject({ last_seen_at_ms: world.clock.nowMs });
	});

	function later(message: QueueMessage, ms: number): QueueMessage {
		if (message.kind !== "device_events") return message;
		return { ...message, events: message.events.map((item) => ({ ...item, atMs: item.atMs + ms })) };
	}

	test("keep their version when a failure is reported", async () => {
		const device_id = newDevice();
		await report(event({ device_id, version_name: "1.0.1" }));
		await report(event({ device_id, version_name: "2.0.0", action: "download_fail" }));
		await deliver(sent());
		expect(await row(device_id)).toMatchObject({ version_name: "1.0.1" });
	});
});
