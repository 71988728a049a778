/**
 * Failing messages, retention and cost: a failing message blocks no other, a dead one is resent on
 * request, no id is removed whose event could be counted twice, and few rows are written.
 */
import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import type { CompiledQuery } from "kysely";
import { describe, expect, test } from "vitest";
import { consume, consumeAndSettle } from "../../../src/consumer";
import { openDb } from "../../../src/db/client";
import { deadMessages, dropDeadMessages, resendDeadMessages } from "../../../src/db/dead-messages";
import type { DeviceEvent, QueueMessage } from "../../../src/messages";
import { resendDeadLetters, storeDeadLetters } from "../../../src/queue/dead-letters";
import { app, counted, installs, message, prepareEventScene, rowsOf, world } from "../support/event-scene";
import { beforeEachTrip } from "../support/interleave";
import { NOW_MS, testEnv } from "../support/world";

prepareEventScene();

const batchOf = (bodies: readonly unknown[], queue = "capstan-events", attempts = 1) =>
	createMessageBatch<QueueMessage>(
		queue,
		bodies.map((body, index) => ({
			id: String(index),
			timestamp: new Date(NOW_MS),
			body: body as QueueMessage,
			attempts,
		})),
	);

describe("a message that fails", () => {
	test("does not prevent other messages from being counted and acknowledged, and is retried alone", async () => {
		const poison: unknown[] = [
			{ kind: "of_tomorrow" },
			{ kind: "device_events", id: "x", events: [counted({ atMs: "soon" as never })] },
			null,
		];
		const batch = batchOf([message(counted()), ...poison, message(counted()), { kind: "collect_garbage" }]);
		await consumeAndSettle(world.deps, batch as never);
		const result = await getQueueResult(batch, createExecutionContext());
		expect([...result.explicitAcks].sort()).toEqual(["0", "4", "5"]);
		expect(result.retryMessages.map(({ msgId }: { msgId: string }) => msgId).sort()).toEqual(["1", "2", "3"]);
		expect(await installs()).toBe(2);
	});

	test("is found by bisection: all good messages of a hundred are counted, in a bounded number of D1 batches", async () => {
		let batches = 0;
		const { d1 } = beforeEachTrip(testEnv.TELEMETRY, () => {
			batches += 1;
		});
		const poison = { kind: "device_events", id: "x", events: [counted({ atMs: "soon" as never })] };
		const bodies = Array.from({ length: 100 }, (_, index) => (index === 41 ? poison : message(counted())));
		const batch = batchOf(bodies);
		await consumeAndSettle({ ...world.deps, telemetry: { TELEMETRY: d1 } }, batch as never);
		const result = await getQueueResult(batch, createExecutionContext());
		expect(result.retryMessages.map(({ msgId }: { msgId: string }) => msgId)).toEqual(["41"]);
		expect(await installs()).toBe(99);
		expect(batches).toBeLessThan(50);
		batches = 0;
		const all = batchOf(Array.from({ length: 100 }, () => poison));
		await consumeAndSettle({ ...world.deps, telemetry: { TELEMETRY: d1 } }, all as never);
		expect((await getQueueResult(all, createExecutionContext())).retryMessages).toHaveLength(100);
		expect(batches).toBeLessThan(50);
	});

	test("is not one with many devices and the longest texts, which is stored in one batch", async () => {
		const failures: unknown[] = [];
		const deps = { ...world.deps, log: (...line: unknown[]) => failures.push(line) };
		// As a stranger of another version of this Worker may have sent them.
		const text = "\u0416".repeat(500);
		const long = (device: number): DeviceEvent => ({
			type: "seen",
			appId: app.appId,
			deviceId: `long-${device}`,
			atMs: NOW_MS,
			platform: "ios",
			versionName: text,
			versionBuild: text,
			osVersion: text,
			pluginVersion: text,
			isProd: true,
			isEmulator: false,
			customId: text,
			installSource: text,
			keyId: text,
			defaultChannel: text,
			channelId: null,
		});
		const messages = Array.from({ length: 75 }, (_, index) =>
			message(...Array.from({ length: 10 }, (__, device) => long(index * 10 + device))),
		);
		const large = Array.from({ length: 1_500 }, () => counted({ versionName: text, channelName: text }));
		await consume(deps, { messages: [...messages, message(...large)].map((body) => ({ body })) });
		expect(failures).toEqual([]);
		expect(await rowsOf("devices", `app_id = '${app.uuid}' AND device_id GLOB 'long-*'`)).toHaveLength(750);
		expect(await installs()).toBe(1_500);
	});

	test("is retried after growing delays of at most an hour", async () => {
		const delays: (number | undefined)[] = [];
		for (const attempts of [1, 2, 6, 20]) {
			const retry = (options?: { delaySeconds?: number }) => delays.push(options?.delaySeconds);
			const one = { body: { kind: "of_tomorrow" } as never, attempts, ack: () => undefined, retry };
			await consumeAndSettle(world.deps, { messages: [one] as never });
		}
		expect(delays).toEqual([2, 4, 64, 3600]);
	});

	test("is stored once when it dies, and counted once when it is resent", async () => {
		const lines: unknown[] = [];
		const deps = { ...world.deps, log: (...line: unknown[]) => lines.push(line) };
		const dead = message(counted());
		const died = [{ id: "m1", timestamp: new Date(NOW_MS), body: dead }];
		await storeDeadLetters(deps, died);
		await storeDeadLetters(deps, died);
		expect(await rowsOf("dead_messages")).toEqual([
			{
				id: "m1",
				kind: "device_events",
				body: JSON.stringify(dead),
				sent_at_ms: NOW_MS,
				died_at_ms: NOW_MS,
				resend: 0,
			},
		]);
		await resendDeadLetters(deps);
		expect(lines).toContainEqual(["error", "dead_messages", { messages: 1 }]);
		expect(world.deps.sent).toEqual([]);
		await testEnv.DB.prepare("UPDATE dead_messages SET resend = 1").run();
		await resendDeadLetters(deps);
		expect(await rowsOf("dead_messages")).toEqual([]);
		expect(world.deps.sent).toEqual([dead]);
		for (let again = 0; again < 2; again++) await consume(world.deps, { messages: [{ body: dead }] });
		expect(await installs()).toBe(1);
	});

	test("is resent or dropped by its id, without effect on others and when repeated", async () => {
		for (const id of ["m1", "m2", "m3"]) {
			world.clock.nowMs += 1;
			await storeDeadLetters(world.deps, [{ id, timestamp: new Date(NOW_MS), body: message() }]);
		}
		const db = openDb(testEnv.DB, "first-primary");
		const idsOf = async (statement: CompiledQuery<{ readonly id: string }>) =>
			(await db.batch([statement]))[0].rows.map(({ id }) => id).sort();
		const state = async () => (await db.batch([deadMessages(10, 4)]))[0].rows.map(({ id, resend }) => [id, resend]);
		for (let again = 0; again < 2; again++) {
			expect(await idsOf(resendDeadMessages(["m2", "absent"]))).toEqual(["m2"]);
			expect(await state()).toEqual([
				["m1", 0],
				["m2", 1],
				["m3", 0],
			]);
		}
		expect(await idsOf(dropDeadMessages(["m1", "absent"]))).toEqual(["m1"]);
		expect(await idsOf(dropDeadMessages(["m1"]))).toEqual([]);
		expect(await state()).toEqual([
			["m2", 1],
			["m3", 0],
		]);
		expect(await idsOf(resendDeadMessages("all"))).toEqual(["m2", "m3"]);
		const [first] = await db.batch([deadMessages(1, 4)]);
		expect(first.rows).toMatchObject([{ id: "m2", body: '{"ki', resend: 1 }]);
		expect(await idsOf(dropDeadMessages("all"))).toEqual(["m2", "m3"]);
	});

	test("is removed with a log entry when it is too old to be counted", async () => {
		const lines: unknown[] = [];
		const deps = { ...world.deps, log: (...line: unknown[]) => lines.push(line) };
		await storeDeadLetters(world.deps, [{ id: "m1", timestamp: new Date(NOW_MS - 60 * 86_400_000), body: message() }]);
		for (let again = 0; again < 2; again++) await resendDeadLetters(deps);
		expect(await rowsOf("dead_messages")).toEqual([]);
		expect(lines).toEqual([["error", "dead_messages_expired", { messages: 1 }]]);
	});

	test("stays if the Queue refuses it again", async () => {
		await storeDeadLetters(world.deps, [{ id: "m1", timestamp: new Date(NOW_MS), body: message() }]);
		await testEnv.DB.prepare("UPDATE dead_messages SET resend = 1").run();
		const refusing = { send: () => Promise.reject(new Error("full")) } as never;
		await expect(resendDeadLetters({ ...world.deps, events: refusing })).rejects.toThrow("full");
		expect(await rowsOf("dead_messages")).toHaveLength(1);
	});
});
