/**
 * Consumers that run at the same time, as the Queue starts them when messages wait: they do not
 * abort each other's batches, lose no device, and need no more round trips than one. Clean-up
 * merges what they wrote.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { openDb } from "../../../src/db/client";
import { SLOTS } from "../../../src/db/device-sketches";
import { countDistinct, decodeSketch, mergeSketches } from "../../../src/domain/statistics/distinct-count";
import { mergeSketchSlots } from "../../../src/features/statistics/sketches";
import type { DeviceEvents } from "../../../src/messages";
import { beforeEachTrip } from "../support/interleave";
import { openReports, REPORTS } from "../support/reports";
import { seenEvent } from "../support/sent-events";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const TODAY = Math.floor(NOW_MS / 86_400_000);
const BATCHES = 16;
const DEVICES = 20;

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
});

const seen = (deviceId: string) =>
	seenEvent({
		appId: app.appId,
		deviceId,
		atMs: NOW_MS,
		versionName: "1.0.1",
	});
const batchOf = (number: number) => {
	const events = Array.from({ length: DEVICES }, (_, index) => seen(`device-${number}-${index}`));
	return { messages: [{ body: { kind: "device_events", id: `m${number}`, events } satisfies DeviceEvents }] };
};
const sketches = async () =>
	(
		await REPORTS.prepare(
			"SELECT slot, sketch, devices FROM device_sketches WHERE app_id = ? AND kind = 'all' AND day = ?",
		)
			.bind(app.uuid, TODAY)
			.all<{ slot: number; sketch: string; devices: number | null }>()
	).results;
const devices = async () =>
	countDistinct((await sketches()).map(({ sketch }) => decodeSketch(sketch)).reduce(mergeSketches));
const mauOfToday = async () => {
	const date = new Date(NOW_MS).toISOString().slice(0, 10);
	const query = { from: date, to: date };
	const { body } = await world.request("GET", `/statistics/app/${app.appId}`, { key: world.adminKey, query });
	return body[0].mau;
};

describe.each([1, 2, 4, 8])("%i consumers at the same time", (consumers) => {
	test("abort no batch, and count every device once", async () => {
		const failures: unknown[] = [];
		let trips = 0;
		const waiting = Array.from({ length: BATCHES }, (_, index) => batchOf(index));
		await Promise.all(
			Array.from({ length: consumers }, async () => {
				const { d1 } = beforeEachTrip(testEnv.TELEMETRY, () => {
					trips += 1;
				});
				const deps = { ...world.deps, telemetry: { TELEMETRY: d1 }, log: (...line: unknown[]) => failures.push(line) };
				for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) await consume(deps, batch);
			}),
		);
		expect(failures).toEqual([]);
		expect(await devices()).toBe(BATCHES * DEVICES);
		expect(await mauOfToday()).toBe(BATCHES * DEVICES);
		// One for the app, two for the rows, two for the sketches, and one pair more for each slot that
		// two consumers drew at once.
		expect(trips).toBeLessThan(BATCHES * 6);
	});
});

describe("two consumers that draw the same slot", () => {
	test("abort nothing: the later one draws again", async () => {
		const draws = [3, 3, 5];
		const randomBytes = (length: number) => new Uint8Array(length).fill(draws.shift() ?? 0);
		const failures: unknown[] = [];
		const deps = { ...world.deps, randomBytes, log: (...line: unknown[]) => failures.push(line) };
		let isFirst = true;
		// Before the first one writes its slot.
		const { d1 } = beforeEachTrip(testEnv.TELEMETRY, async (trip) => {
			// The first trip tells the database of the app.
			if (trip !== 5 || !isFirst) return;
			isFirst = false;
			await consume(deps, batchOf(1));
		});
		await consume({ ...deps, telemetry: { TELEMETRY: d1 } }, batchOf(0));
		expect(failures).toEqual([]);
		expect((await sketches()).map(({ slot }) => slot)).toEqual([4, 6]);
		expect(await devices()).toBe(2 * DEVICES);
	});
});

describe("clean-up", () => {
	test("merges the slots of a day into one, beside consumers and another run, without losing a device", async () => {
		for (let slot = 0; slot < SLOTS; slot++) {
			await consume({ ...world.deps, randomBytes: (length) => new Uint8Array(length).fill(slot) }, batchOf(slot));
		}
		expect(await sketches()).toHaveLength(SLOTS);
		let isFirst = true;
		const { d1 } = beforeEachTrip(testEnv.TELEMETRY, async (trip) => {
			// Between what the run read of the day and what it writes.
			if (trip !== 3 || !isFirst) return;
			isFirst = false;
			await consume(world.deps, batchOf(100));
			await mergeSketchSlots(world.deps, openReports());
			await consume(world.deps, batchOf(101));
		});
		await mergeSketchSlots(world.deps, openDb(d1, "first-primary"));
		expect(await devices()).toBe((SLOTS + 2) * DEVICES);
		await mergeSketchSlots(world.deps, openReports());
		expect(await sketches()).toMatchObject([{ slot: 0, devices: (SLOTS + 2) * DEVICES }]);
		expect(await mauOfToday()).toBe((SLOTS + 2) * DEVICES);
	});
});
