/**
 * When an isolate sends what devices report, on a fixed clock: soon after installs, rarely for
 * signs of devices, at once when a message is half full, and again after the Queue failed, without
 * waiting for another request.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { messagesPerEvent } from "../../../bench/cost-model";
import { HOUR_MS } from "../../../src/domain/time";
import type { CountedEvent, DeviceEvents, DeviceSeen } from "../../../src/messages";
import { createEventBuffer } from "../../../src/queue/event-buffer";
import { URGENT_INSTALLS_AN_HOUR } from "../../../src/queue/urgency";
import { countedEvent, seenEvent } from "../support/sent-events";
import { NOW_MS } from "../support/world";

interface Waiting {
	readonly atMs: number;
	readonly resume: () => void;
}

let nowMs: number;
let waiting: Waiting[];
let sent: { readonly atMs: number; readonly events: number }[];
let isQueueDown: boolean;
let attempts: number;
let buffer: ReturnType<typeof createEventBuffer>;
const bufferOf = (localRun?: object) =>
	createEventBuffer({
		events: {
			send: async (message: unknown) => {
				attempts += 1;
				if (isQueueDown) throw new Error("the Queue is down");
				sent.push({ atMs: nowMs - NOW_MS, events: (message as DeviceEvents).events.length });
			},
		} as never,
		log: () => undefined,
		config: { localRun: localRun as undefined },
		now: () => nowMs,
		delay: (ms) => new Promise((resume) => waiting.push({ atMs: nowMs + ms, resume })),
		newId: () => crypto.randomUUID(),
	});
beforeEach(() => {
	nowMs = NOW_MS;
	waiting = [];
	sent = [];
	attempts = 0;
	isQueueDown = false;
	buffer = bufferOf();
});

/** Lets time pass, with everything that is due. */
async function pass(ms: number): Promise<void> {
	const untilMs = nowMs + ms;
	const settle = async () => {
		for (let turn = 0; turn < 20; turn++) await Promise.resolve();
	};
	await settle();
	for (;;) {
		const next = waiting.toSorted((one, other) => one.atMs - other.atMs)[0];
		if (next === undefined || next.atMs > untilMs) break;
		waiting = waiting.filter((one) => one !== next);
		nowMs = next.atMs;
		next.resume();
		await settle();
	}
	nowMs = untilMs;
}

let devices = 0;
const seen = () =>
	seenEvent({
		appId: "app",
		deviceId: `device-${++devices}`,
		atMs: nowMs,
		versionName: "1",
	});
const install = () =>
	countedEvent({
		id: `id-${++devices}`,
		appId: "app",
		deviceId: "device",
		versionName: "1",
		channelName: "",
		atMs: nowMs,
	});
const add = (...events: (DeviceSeen | CountedEvent)[]) => buffer.add(events, () => undefined);

describe("sightings of devices", () => {
	test("are sent as one message when no other arrived for 25 seconds", async () => {
		add(seen());
		await pass(24_999);
		expect(sent).toEqual([]);
		await pass(1);
		expect(sent).toEqual([{ atMs: 25_000, events: 1 }]);
		for (let second = 0; second < 90; second++) {
			add(seen());
			await pass(1_000);
		}
		expect(sent).toHaveLength(1);
		await pass(25_000);
		expect(sent.slice(1)).toEqual([{ atMs: expect.any(Number), events: 90 }]);
		expect(sent[1]?.atMs).toBeGreaterThan(25_000 + 90_000 + 19_000);
	});

	test("wait for three minutes while others arrive", async () => {
		for (let second = 0; second < 450; second++) {
			add(seen());
			await pass(1_000);
		}
		await pass(25_000);
		expect(sent.map(({ events }) => events)).toEqual([179, 180, 91]);
		expect(sent[0]?.atMs).toBe(179_000);
	});

	test("are sent by the next request if the one that should have sent them ended early", async () => {
		add(seen());
		waiting = [];
		await pass(60_000);
		add(seen());
		await pass(25_000);
		expect(sent).toEqual([{ atMs: 85_000, events: 2 }]);
		add(seen());
		waiting = [];
		await pass(6_000);
		add(seen());
		await pass(25_000);
		expect(sent.slice(1)).toEqual([{ atMs: 116_000, events: 2 }]);
	});

	test("are sent at once when a message is half full", async () => {
		for (let index = 0; index < 100; index++) add(seen());
		await pass(0);
		expect(sent).toEqual([]);
		for (let index = 0; index < 150; index++) add(seen());
		await pass(0);
		expect(sent.reduce((sum, { events }) => sum + events, 0)).toBeGreaterThan(150);
		expect(sent).toHaveLength(1);
	});

	test("wait for a second in a local run", async () => {
		buffer = bufferOf({});
		add(seen());
		await pass(1_000);
		expect(sent).toHaveLength(1);
	});
});

describe("a download", () => {
	test("waits like a sighting, because the consumer writes it with the install that follows", async () => {
		add({ ...install(), metric: "start" });
		await pass(5_000);
		add({ ...install(), metric: "get" });
		buffer.addServed("uuid", "object", 7, () => undefined);
		await pass(5_000);
		expect(sent).toEqual([]);
		add(install());
		await pass(1_000);
		expect(sent).toEqual([{ atMs: 11_000, events: 4 }]);
		buffer.addServed("uuid", "object", 7, () => undefined);
		await pass(25_000);
		expect(sent).toHaveLength(2);
	});
});

describe("installs", () => {
	test("are sent after a second, together with waiting sightings", async () => {
		add(seen());
		await pass(5_000);
		add(install());
		await pass(999);
		expect(sent).toEqual([]);
		await pass(1);
		expect(sent).toEqual([{ atMs: 6_000, events: 2 }]);
		await pass(60_000);
		expect(sent).toHaveLength(1);
	});

	test("wait like sightings after the first ones of an hour, each app by itself; failures never wait", async () => {
		for (let count = 0; count < URGENT_INSTALLS_AN_HOUR; count++) {
			add(install());
			await pass(1_000);
		}
		expect(sent).toHaveLength(URGENT_INSTALLS_AN_HOUR);
		add(install());
		await pass(24_999);
		expect(sent).toHaveLength(URGENT_INSTALLS_AN_HOUR);
		await pass(1);
		expect(sent).toHaveLength(URGENT_INSTALLS_AN_HOUR + 1);
		for (const event of [
			{ ...install(), appId: "other" },
			{ ...install(), metric: "fail" as const },
		]) {
			const before = sent.length;
			add(event);
			await pass(1_000);
			expect(sent).toHaveLength(before + 1);
		}
		await pass(HOUR_MS);
		const before = sent.length;
		add(install());
		await pass(1_000);
		expect(sent).toHaveLength(before + 1);
	});
});

describe("a Queue that fails", () => {
	test("receives the events again after some seconds, without another request", async () => {
		isQueueDown = true;
		add(install());
		await pass(1_000);
		expect(attempts).toBe(1);
		await pass(500);
		expect(attempts).toBe(2);
		await pass(500);
		isQueueDown = false;
		await pass(500);
		expect(sent).toEqual([{ atMs: 2_500, events: 1 }]);
		await pass(60_000);
		expect(attempts).toBe(3);
	});

	test("is retried a bounded number of times, and then with the next events", async () => {
		isQueueDown = true;
		add(install());
		await pass(60_000);
		expect(attempts).toBe(4);
		for (let index = 0; index < 300; index++) add(seen());
		await pass(60_000);
		expect(attempts).toBeLessThan(16);
		isQueueDown = false;
		add(install());
		await pass(1_000);
		expect(sent.reduce((sum, { events }) => sum + events, 0)).toBe(302);
	});

	test("loses nothing that arrives while it is slow, and the last event needs no other request", async () => {
		isQueueDown = true;
		add(install());
		await pass(1_500);
		add(install());
		await pass(1_200);
		isQueueDown = false;
		await pass(30_000);
		expect(sent.reduce((sum, { events }) => sum + events, 0)).toBe(2);
	});

	test("does not stop an isolate whose request ended while it was sending", async () => {
		add(install());
		await pass(999);
		// The runtime drops what waits when a request ends.
		waiting = [];
		await pass(16_000);
		add(install());
		await pass(1_000);
		expect(sent).toEqual([{ atMs: 17_999, events: 2 }]);
	});
});

test("a fleet costs as many messages as the bench computes", async () => {
	const [perSecond, urgentPerSecond, seconds] = [0.115, 0.005, 40_000];
	let seed = 1;
	const random = () => {
		seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
		return (seed + 0.5) / 2 ** 32;
	};
	let [waited, urgent] = [0, 0];
	for (const endMs = nowMs + seconds * 1_000; nowMs < endMs; ) {
		await pass((-Math.log(random()) / (perSecond + urgentPerSecond)) * 1_000);
		const isUrgent = random() < urgentPerSecond / (perSecond + urgentPerSecond);
		if (isUrgent) urgent += 1;
		else waited += 1;
		add(isUrgent ? { ...install(), metric: "fail" } : seen());
	}
	const computed = messagesPerEvent(perSecond, urgentPerSecond, { pauseSeconds: 25, longestSeconds: 180 });
	expect((sent.length - urgent) / waited / computed).toBeGreaterThan(0.85);
	expect((sent.length - urgent) / waited / computed).toBeLessThan(1.15);
});
