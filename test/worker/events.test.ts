/**
 * What becomes of messages that cannot be done, of what is old, and what all of it costs: poison keeps nobody from being counted, the
 * dead come back when a person says so, nothing is forgotten that could still be counted twice, and few rows are written.
 */
import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import type { CompiledQuery } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import { openDb } from "../../src/db/client";
import { deadMessages, dropDeadMessages, resendDeadMessages } from "../../src/db/dead-messages";
import { consume, consumeAndSettle } from "../../src/events/consumer";
import { bury, tendDeadMessages } from "../../src/events/dead-letters";
import type { CountedEvent, DeviceEvent, DeviceEvents, DeviceSeen, QueueMessage } from "../../src/events/messages";
import {
	forgetDevices,
	forgetEvents,
	forgetInstallSteps,
	forgetStatistics,
	measureStorage,
} from "../../src/events/retention";
import { storedKeys } from "./support/bytes";
import { beforeEachTrip } from "./support/interleave";
import { notingStatements, plansOf, scansIn } from "./support/plans";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./support/world";
import { bundleOf, testBundle } from "./support/zip";

const DAY_MS = 86_400_000;
const TODAY = Math.floor(NOW_MS / DAY_MS);
let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	world.deps.sent.length = 0;
	await testEnv.DB.batch(
		["counted_events", "dead_messages", "sweep_positions"].map((table) => testEnv.DB.prepare(`DELETE FROM ${table}`)),
	);
});

let events = 0;
const counted = (fields: Partial<CountedEvent> = {}): CountedEvent => ({
	type: "count",
	id: `event-${++events}`,
	appId: app.appId,
	deviceId: `device-${events}`,
	versionName: "1.0.1",
	channelName: "production",
	metric: "install",
	atMs: NOW_MS,
	deviceAtMs: null,
	timed: false,
	...fields,
});
const message = (...list: readonly DeviceEvent[]): DeviceEvents => ({
	kind: "device_events",
	id: crypto.randomUUID(),
	events: list,
});
const installs = async () => {
	const row = await testEnv.DB.prepare("SELECT sum(install_count) AS installs FROM daily_totals WHERE app_id = ?")
		.bind(app.uuid)
		.first<{ installs: number | null }>();
	return row?.installs ?? 0;
};
const rowsOf = async (table: string, where = "true") =>
	(await testEnv.DB.prepare(`SELECT * FROM ${table} WHERE ${where}`).all()).results;
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

describe("a message that cannot be done", () => {
	test("keeps no other from being counted and acknowledged, and is asked for again alone", async () => {
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

	test("is found by halves: of a hundred messages the good ones are counted, in a bounded number of D1 batches", async () => {
		let batches = 0;
		const { d1 } = beforeEachTrip(testEnv.DB, () => {
			batches += 1;
		});
		const poison = { kind: "device_events", id: "x", events: [counted({ atMs: "soon" as never })] };
		const bodies = Array.from({ length: 100 }, (_, index) => (index === 41 ? poison : message(counted())));
		const batch = batchOf(bodies);
		await consumeAndSettle({ ...world.deps, d1 }, batch as never);
		const result = await getQueueResult(batch, createExecutionContext());
		expect(result.retryMessages.map(({ msgId }: { msgId: string }) => msgId)).toEqual(["41"]);
		expect(await installs()).toBe(99);
		expect(batches).toBeLessThan(50);
		batches = 0;
		const all = batchOf(Array.from({ length: 100 }, () => poison));
		await consumeAndSettle({ ...world.deps, d1 }, all as never);
		expect((await getQueueResult(all, createExecutionContext())).retryMessages).toHaveLength(100);
		expect(batches).toBeLessThan(50);
	});

	test("is none because of its length: a batch of devices with the longest texts is stored in one go", async () => {
		const failures: unknown[] = [];
		const deps = { ...world.deps, log: (...line: unknown[]) => failures.push(line) };
		// As a stranger of another version of this Worker may have sent them.
		const text = "\u0416".repeat(500);
		const long = (device: number): DeviceEvent => ({
			...{
				type: "seen",
				appId: app.appId,
				deviceId: `long-${device}`,
				atMs: NOW_MS,
				platform: "ios",
				versionName: text,
			},
			...{ versionBuild: text, osVersion: text, pluginVersion: text, isProd: true, isEmulator: false, customId: text },
			...{ installSource: text, keyId: text, defaultChannel: text, channelId: null },
		});
		const messages = Array.from({ length: 75 }, (_, index) =>
			message(...Array.from({ length: 10 }, (__, device) => long(index * 10 + device))),
		);
		const large = Array.from({ length: 1_500 }, () => counted({ versionName: text, channelName: text }));
		await consume(deps, { messages: [...messages, message(...large)].map((body) => ({ body })) });
		expect(failures).toEqual([]);
		expect(await rowsOf("devices", `app_id = '${app.uuid}'`)).toHaveLength(750);
		expect(await installs()).toBe(1_500);
	});

	test("is asked for later each time, at most an hour", async () => {
		const delays: (number | undefined)[] = [];
		for (const attempts of [1, 2, 6, 20]) {
			const retry = (options?: { delaySeconds?: number }) => delays.push(options?.delaySeconds);
			const one = { body: { kind: "of_tomorrow" } as never, attempts, ack: () => undefined, retry };
			await consumeAndSettle(world.deps, { messages: [one] as never });
		}
		expect(delays).toEqual([2, 4, 64, 3600]);
	});

	test("is kept when it died, once, and comes back when a person says so, and is counted once", async () => {
		const lines: unknown[] = [];
		const deps = { ...world.deps, log: (...line: unknown[]) => lines.push(line) };
		const dead = message(counted());
		const died = [{ id: "m1", timestamp: new Date(NOW_MS), body: dead }];
		await bury(deps, died);
		await bury(deps, died);
		expect(await rowsOf("dead_messages")).toEqual([
			{
				...{ id: "m1", kind: "device_events", body: JSON.stringify(dead) },
				...{ sent_at_ms: NOW_MS, died_at_ms: NOW_MS, resend: 0 },
			},
		]);
		await tendDeadMessages(deps);
		expect(lines).toContainEqual(["error", "dead_messages", { messages: 1 }]);
		expect(world.deps.sent).toEqual([]);
		await testEnv.DB.prepare("UPDATE dead_messages SET resend = 1").run();
		await tendDeadMessages(deps);
		expect(await rowsOf("dead_messages")).toEqual([]);
		expect(world.deps.sent).toEqual([dead]);
		for (let again = 0; again < 2; again++) await consume(world.deps, { messages: [{ body: dead }] });
		expect(await installs()).toBe(1);
	});

	test("is chosen by its id: no other is sent again or dropped, and twice is as good as once", async () => {
		for (const id of ["m1", "m2", "m3"]) {
			world.clock.nowMs += 1;
			await bury(world.deps, [{ id, timestamp: new Date(NOW_MS), body: message() }]);
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

	test("that is too old to be counted is forgotten, and the log says so", async () => {
		const lines: unknown[] = [];
		const deps = { ...world.deps, log: (...line: unknown[]) => lines.push(line) };
		await bury(world.deps, [{ id: "m1", timestamp: new Date(NOW_MS - 60 * 86_400_000), body: message() }]);
		for (let again = 0; again < 2; again++) await tendDeadMessages(deps);
		expect(await rowsOf("dead_messages")).toEqual([]);
		expect(lines).toEqual([["error", "dead_messages_forgotten", { messages: 1 }]]);
	});

	test("that the Queue does not take again stays", async () => {
		await bury(world.deps, [{ id: "m1", timestamp: new Date(NOW_MS), body: message() }]);
		await testEnv.DB.prepare("UPDATE dead_messages SET resend = 1").run();
		const refusing = { send: () => Promise.reject(new Error("full")) } as never;
		await expect(tendDeadMessages({ ...world.deps, events: refusing })).rejects.toThrow("full");
		expect(await rowsOf("dead_messages")).toHaveLength(1);
	});
});

describe("what is old", () => {
	test("an event is never counted again after its id was forgotten, on any day of its life", async () => {
		const once = message(counted(), counted({ metric: "get" }));
		await consume(world.deps, { messages: [{ body: once }] });
		for (let day = 0; day < 40; day++) {
			for (const hour of [0, 15, 15.99]) {
				world.clock.nowMs = NOW_MS + day * DAY_MS + hour * 3_600_000;
				await forgetEvents(world.deps);
				// A run that began before the sweep did.
				world.clock.nowMs -= 15 * 60_000;
				await consume(world.deps, { messages: [{ body: once }] });
				expect(await installs(), `day ${day}`).toBe(1);
			}
		}
		expect(await rowsOf("counted_events")).toEqual([]);
	});

	test("ids are kept for as long as the Queue may bring their events again", async () => {
		await consume(world.deps, { messages: [{ body: message(counted()) }] });
		world.clock.nowMs = (TODAY + 14) * DAY_MS;
		await forgetEvents(world.deps);
		expect(await rowsOf("counted_events")).toHaveLength(1);
		world.clock.nowMs += DAY_MS;
		await forgetEvents(world.deps);
		expect(await rowsOf("counted_events")).toHaveLength(0);
	});

	test("statistics go by day, devices that nobody set anything for go by when they were last seen", async () => {
		const old = TODAY - 400;
		for (const [index, day] of [old, old + 1].entries()) {
			const run = (text: string, ...values: (string | number)[]) =>
				testEnv.DB.prepare(text)
					.bind(app.uuid, ...values)
					.run();
			await run("INSERT INTO daily_counts VALUES (?, ?, '', '', 'get', 1)", day);
			await run("INSERT INTO daily_totals (app_id, day) VALUES (?, ?)", day);
			await run("INSERT INTO daily_install_times VALUES (?, ?, '', 1, 1)", day);
			await run("INSERT INTO daily_devices VALUES (?, ?, '', 1)", day);
			await run("INSERT INTO daily_storage VALUES (?, ?, 1)", day);
			await run(
				"INSERT INTO install_steps VALUES (?, ?, '', 'set', ?, NULL)",
				`d${index}`,
				NOW_MS - (31 - index) * DAY_MS - 1,
			);
			for (const kind of ["plain", "set"]) {
				await run(
					"INSERT INTO devices (app_id, device_id, last_seen_at_ms, created_at_ms, updated_at_ms) VALUES (?, ?, ?, 1, 1)",
					...([`${kind}${index}`, NOW_MS - (400 - index) * DAY_MS - 1] as const),
				);
			}
			await run(
				"INSERT INTO device_overrides (app_id, device_id, channel_id, created_by, created_at_ms, updated_at_ms) SELECT ?, ?, id, '', 1, 1 FROM channels LIMIT 1",
				`set${index}`,
			);
		}
		await forgetStatistics(world.deps);
		await forgetDevices(world.deps);
		await forgetInstallSteps(world.deps);
		const mine = `app_id = '${app.uuid}'`;
		for (const table of ["daily_counts", "daily_totals", "daily_install_times", "daily_devices", "daily_storage"]) {
			expect(
				(await rowsOf(table, mine)).map((row) => row.day),
				table,
			).toEqual([old + 1]);
		}
		expect((await rowsOf("devices", mine)).map((row) => row.device_id)).toEqual(["plain1", "set0", "set1"]);
		expect((await rowsOf("install_steps", mine)).map((row) => row.device_id)).toEqual(["d1"]);
	});

	test("a large table is gone through in parts, from the beginning again after the last", async () => {
		await testEnv.DB.prepare(
			`INSERT INTO devices (app_id, device_id, last_seen_at_ms, created_at_ms, updated_at_ms)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11000)
			SELECT '${app.uuid}', printf('%05d', i), CASE WHEN i % 2 THEN 1 ELSE ${NOW_MS} END, 1, 1 FROM n`,
		).run();
		const left = async () => (await rowsOf("devices", `app_id = '${app.uuid}'`)).length;
		const seen: number[] = [];
		for (let run = 0; run < 12; run++) {
			await forgetDevices(world.deps);
			seen.push(await left());
		}
		expect(seen[0]).toBeGreaterThanOrEqual(11_000 - 5_000);
		expect(seen.at(-1)).toBe(5_500);
		await testEnv.DB.prepare("DELETE FROM devices WHERE app_id = ?").bind(app.uuid).run();
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

	test("is what the bucket holds, to the byte; a day ends with what the first look after midnight finds", async () => {
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

describe("what it costs", () => {
	const seen = (fields: Partial<DeviceSeen>): DeviceSeen => ({
		...{
			type: "seen",
			appId: app.appId,
			deviceId: "",
			atMs: NOW_MS,
			platform: "ios",
			versionName: "1.0.1",
			versionBuild: "1",
		},
		...{ osVersion: "18", pluginVersion: "8.0.0", isProd: true, isEmulator: false, customId: "", installSource: "" },
		...{ keyId: "", defaultChannel: "", channelId: null },
		...fields,
	});

	test("a hundred installs write a row each for the event's id, another for timing, and a handful for all; again, none", async () => {
		let written = 0;
		const d1 = {
			withSession(constraint: D1SessionConstraint) {
				const session = testEnv.DB.withSession(constraint);
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
		const costOf = async (list: readonly DeviceEvent[]) => {
			written = 0;
			await consume({ ...world.deps, d1 }, { messages: [{ body: message(...list) }] });
			return written;
		};
		const hundred = Array.from({ length: 100 }, () => counted());
		const costs = {
			installs: await costOf(hundred),
			again: await costOf(hundred),
			timed: await costOf(hundred.map((event) => ({ ...event, id: `${event.id}t`, timed: true }))),
		};
		expect(costs).toEqual({ installs: 102, again: 0, timed: 202 });
		const fleet = Array.from({ length: 100 }, (_, index) => seen({ deviceId: `fleet-${index}` }));
		const later = (ms: number) => fleet.map((event) => ({ ...event, atMs: NOW_MS + ms }));
		const devices = {
			first: await costOf(fleet),
			sameDay: await costOf(later(1)),
			nextDay: await costOf(later(DAY_MS)),
		};
		// The row and its place in two indexes; the counts, the totals (for newcomers as well) and the sketch of the day.
		expect(devices).toEqual({ first: 304, sameDay: 0, nextDay: 103 });
		const named = Array.from({ length: 100 }, (_, index) =>
			seen({ deviceId: `named-${index}`, customId: `person-${index}` }),
		);
		const withCustomId = {
			first: await costOf(named),
			nextDay: await costOf(named.map((event) => ({ ...event, atMs: NOW_MS + DAY_MS }))),
		};
		// A place in a third index, once, and the newcomers of the day.
		expect(withCustomId).toEqual({ first: 404, nextDay: 103 });
	});

	test("however many devices, events and keys there are: no statement reads a table whole", async () => {
		const { d1, statements } = notingStatements();
		const of = { appId: app.appId, deviceId: "device-1", atMs: NOW_MS };
		const told = { type: "rollout_told", ...of, network: "192.0.2.0/24" } as const;
		await consume(
			{ ...world.deps, d1 },
			{
				messages: [
					{ body: { kind: "key_used", keyId: world.adminKeyId, orgId: world.orgId, atMs: NOW_MS } },
					{
						body: message(
							seen({ moved: true }),
							counted({ timed: true, metric: "start" }),
							counted({ timed: true, atMs: NOW_MS + 1 }),
							{ type: "served", id: "bytes", appUuid: app.uuid, atMs: NOW_MS, bytes: { "bundles/x": 7 } },
							{ type: "rollout_served", ...of, rolloutId: "rollout", fromVersion: "1.0.0", network: "192.0.2.0/24" },
							{ type: "rollout_runs", ...of, versionName: "1.0.1", network: "192.0.2.0/24" },
							...(["installed", "failed", "download_failed"] as const).map((outcome) => ({
								...told,
								outcome,
								versionName: "1.0.1",
							})),
						),
					},
				],
			},
		);
		// The day after as well: what is known already is written by another statement.
		await consume({ ...world.deps, d1 }, { messages: [{ body: message(seen({ atMs: NOW_MS + DAY_MS })) }] });
		expect(statements.filter(({ sql }) => sql.startsWith("UPDATE devices SET"))).toHaveLength(1);
		const written = new Set(statements.map(({ sql }) => /(?:INSERT INTO|UPDATE) (\w+)/.exec(sql)?.[1]));
		expect([...written].filter((table) => table !== undefined).sort()).toEqual([
			...["api_keys", "counted_events", "daily_counts", "daily_install_times", "daily_totals", "devices"],
			...["install_steps", "rollout_devices"],
		]);
		const made = ["added", "known", "sequences", "pairs", "key", "served", "ranked", "placed"];
		// Rollouts that are under way are few, and are looked at once a minute.
		expect(scansIn(await plansOf(statements), made)).toEqual(["SCAN due USING INDEX rollouts_under_way"]);
	});
});
