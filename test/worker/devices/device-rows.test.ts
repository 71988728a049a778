import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import type { VersionSketchRow } from "../../../src/db/statistics";
import { DeviceRecord, type RecordRow } from "../../../src/domain/statistics/device-record";
import { addDevice, emptySketch, encodeSketch } from "../../../src/domain/statistics/distinct-count";
import { DAY_MS, MINUTE_MS } from "../../../src/domain/time";
import { adoption } from "../../../src/features/statistics/active-devices";
import type { DeviceEvents, DeviceSeen } from "../../../src/messages";
import { beforeSecondTrip } from "../support/interleave";
import { REPORTS } from "../support/reports";
import { createTestApp, createWorld, NOW_MS, type TestApp, uploadTestBundle, type World } from "../support/world";
import {
	BUNDLES,
	countedAs,
	delivered,
	expectAtMost,
	FACTS,
	fate,
	hasClearVersions,
	history,
	messagesOf,
	PLAIN,
	type Report,
	reportsIn,
	type Said,
	truthOf,
} from "./device-histories";

/** Times that each history is delivered badly. */
const DELIVERIES = 3;
const RUNS = 12;
/** A loaded machine is no defect. */
const LIMIT_MS = 300_000;

let world: World;
let inOrder: TestApp;
let badly: TestApp[];
beforeAll(async () => {
	world = await createWorld();
	const apps: TestApp[] = [];
	for (let index = 0; index <= DELIVERIES; index++) {
		const app = await createTestApp(world);
		for (const version of BUNDLES) await uploadTestBundle(world, app, version);
		apps.push(app);
	}
	[inOrder, ...badly] = apps as [TestApp, ...TestApp[]];
	world.clock.nowMs = NOW_MS + 5 * DAY_MS;
});

async function consumeFor(app: TestApp, batch: readonly DeviceEvents[], deps = world.deps): Promise<void> {
	const messages = batch.map(({ events, ...message }) => ({
		body: { ...message, events: events.map((event) => ({ ...event, appId: app.appId })) as DeviceSeen[] },
	}));
	await consume(deps, { messages });
}

async function deleteAll(): Promise<void> {
	const apps = [inOrder, ...badly].map(({ uuid }) => `'${uuid}'`).join();
	await REPORTS.batch(
		["devices", "daily_counts", "daily_totals", "device_sketches"].map((table) =>
			REPORTS.prepare(`DELETE FROM ${table} WHERE app_id IN (${apps})`),
		),
	);
}

async function keptOf(app: TestApp) {
	const rows = async (text: string) => (await REPORTS.prepare(text).bind(app.uuid).all()).results;
	const columns = [...Object.keys(FACTS), "is_prod", "default_channel"].join();
	const devices = await rows(
		`SELECT device_id, ${columns}, last_seen_at_ms FROM devices WHERE app_id = ? ORDER BY device_id`,
	);
	return {
		devices: devices.map(({ last_seen_at_ms, ...row }) => row),
		lastSeenMs: devices.map(({ last_seen_at_ms }) => Number(last_seen_at_ms)),
		...(await figuresOf(app)),
	};
}

/** Devices by day and version, and by day, as people see them. */
async function figuresOf(app: TestApp) {
	const dateOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
	const query = { from: dateOf(NOW_MS - 5 * DAY_MS), to: dateOf(NOW_MS + 6 * DAY_MS) };
	const ask = async (path: string, more = {}) =>
		(
			await world.request("GET", `/statistics/app/${app.appId}${path}`, {
				key: world.adminKey,
				query: { ...query, ...more },
			})
		).body;
	const { labels, datasets } = (await ask("/bundle_usage")) as {
		labels: string[];
		datasets: { label: string; metaCounts: (number | null)[] }[];
	};
	const dayOf = (date: string) => Math.floor(Date.parse(date) / DAY_MS);
	const versions = labels.flatMap((date, index) =>
		datasets
			.map(({ label, metaCounts }) => ({
				day: dayOf(date),
				version_name: label === "unknown" ? "" : label,
				amount: metaCounts[index] ?? 0,
			}))
			.filter(({ amount }) => amount > 0)
			.sort((one, other) => (one.version_name < other.version_name ? -1 : 1)),
	);
	const items = (await ask("", { noAccumulate: "true" })) as { date: string; mau: number }[];
	const totals = items.filter(({ mau }) => mau > 0).map(({ date, mau }) => ({ day: dayOf(date), device_count: mau }));
	return { versions, totals };
}

describe("the messages of a history", () => {
	test(
		"write the same rows and days in any order, repetition and batching, and the same versions in order",
		async () => {
			await fc.assert(
				fc.asyncProperty(history, fc.tuple(...badly.map(() => fate)), async (acts, fates) => {
					await deleteAll();
					const reports = reportsIn(acts);
					fc.pre(hasClearVersions(reports.flat()));
					const messages = await messagesOf(reports);
					for (const message of messages) await consumeFor(inOrder, [message]);
					const { lastSeenMs, ...kept } = await keptOf(inOrder);
					expect(kept).toEqual(truthOf(reports.flat()));
					for (const [device, ms] of lastSeenMs.entries()) {
						const times = reports.flat().filter(({ device: id }) => id === kept.devices[device]?.device_id);
						const lastMs = Math.max(...times.map(({ atMs }) => atMs));
						// Reports of one moment are a millisecond apart.
						expect(ms).toBeLessThan(lastMs + 100);
						expect(Math.floor(lastMs / DAY_MS) - Math.floor(ms / DAY_MS)).toBeLessThan(7);
					}
					for (const [index, app] of badly.entries()) {
						for (const batch of delivered(messages, fates[index] ?? [])) await consumeFor(app, batch);
						const { devices, versions, totals } = await keptOf(app);
						expect(devices).toEqual(kept.devices);
						expect(totals).toEqual(kept.totals);
						// Late reports of a day may count under another version of it, but no device counts twice.
						expectAtMost(versions, totals);
					}
				}),
				// A failure prints the seed. The smallest history that fails is soon found without a database,
				// below.
				{ numRuns: RUNS, endOnFailure: true },
			);
		},
		LIMIT_MS,
	);
});

const said = (minute: number, fields: Partial<Said> = {}): Report => ({
	...PLAIN,
	...fields,
	device: "device",
	atMs: NOW_MS + minute * MINUTE_MS,
});
const REPORT: Partial<Said> = { versionName: "", channelId: null };
const onlyDevice = async (app: TestApp) => (await keptOf(app)).devices[0];

describe("the record of a device", () => {
	/** As the consumer does, without its database. */
	function kept(batches: readonly (readonly DeviceEvents[])[]) {
		let row: RecordRow | null = null;
		const counts = new Map<string, number>();
		const sketches: VersionSketchRow[] = [];
		const sketch = encodeSketch(addDevice(emptySketch(), "device"));
		const add = (key: string, amount: number) => counts.set(key, (counts.get(key) ?? 0) + amount);
		for (const batch of batches) {
			const known: RecordRow | null = row;
			const record: DeviceRecord = new DeviceRecord(known, countedRow(known), 0);
			const events = batch.flatMap(({ events }) => events as DeviceSeen[]);
			for (const event of events.sort((one, other) => one.atMs - other.atMs)) record.add(event, countedAs(event));
			for (const { day, kind, version } of record.sketches) {
				sketches.push({ day, kind, version_name: version, devices: null, sketch });
			}
			if (!record.needsWrite) continue;
			for (const { day, before, after } of record.countChanges) {
				add(`${day} ${after}`, 1);
				if (before !== undefined) add(`${day} ${before}`, -1);
			}
			row = record.row;
		}
		// When a custom id changed is known as far as the messages came in order.
		const {
			reported_at,
			counted_days,
			created_at_ms,
			updated_at_ms,
			last_seen_at_ms,
			custom_id_changed_at_ms,
			...facts
		} = row as unknown as RecordRow;
		const counted = [...counts].map(([key, amount]) => {
			const [day, version_name = ""] = key.split(" ");
			return { day: Number(day), version_name, amount };
		});
		return { facts, created: Math.floor(created_at_ms / DAY_MS), versions: adoption(counted, sketches) };
	}
	const countedRow = (row: RecordRow | null) =>
		row === null || row.version_name === null
			? undefined
			: countedAs({ ...PLAIN, versionName: String(row.version_name), versionBuild: String(row.version_build ?? "") });

	test("is the same for any order, repetition and batching of its events, in a thousand histories", async () => {
		await fc.assert(
			fc.asyncProperty(history, fate, async (acts, numbers) => {
				const ofOne = acts.map((act) => ({ ...act, device: 0 }));
				fc.pre(hasClearVersions(reportsIn(ofOne).flat()));
				const messages = await messagesOf(reportsIn(ofOne));
				const inOrder = kept(messages.map((message) => [message]));
				const { versions: late, ...badly } = kept(delivered(messages, numbers));
				const { devices, versions, totals } = truthOf(reportsIn(ofOne).flat());
				expect({ ...badly, versions: inOrder.versions }).toEqual(inOrder);
				expect({ ...devices[0], ...inOrder.facts }, "as the history says").toEqual({
					...inOrder.facts,
					...devices[0],
				});
				expect(inOrder.versions).toEqual(versions);
				expectAtMost(late, totals);
			}),
			{ numRuns: 1_000 },
		);
	});
});

describe("an isolate", () => {
	test("marks changed fields as moved, but not fields that a report leaves out", async () => {
		const reports = [said(0), said(1, REPORT), said(2), said(3, { channelId: 2 }), said(4, REPORT), said(5)];
		const messages = await messagesOf([...reports, said(6, { ...REPORT, versionBuild: "" })].map((one) => [one]));
		const marks = messages.flatMap(({ events }) => events.map((event) => "moved" in event));
		expect(marks).toEqual([false, false, false, true, false, true, false]);
	});

	test("gives each report of one request a distinct time within the day", async () => {
		const last = DAY_MS - 1 - (NOW_MS % DAY_MS);
		const list = ["1.0.1", "1.0.2", "builtin"].map((versionName) => said(0, { versionName }));
		const messages = await messagesOf([list, list.map((one) => ({ ...one, atMs: NOW_MS + last }))]);
		const times = messages.flatMap(({ events }) => events.map(({ atMs }) => atMs - NOW_MS));
		expect(times).toEqual([0, 1, 2, last, last, last]);
	});
});

describe("two consumers that write the same device at once", () => {
	test("both take effect: the one with the conflict retries", async () => {
		await deleteAll();
		const [early, late] = await messagesOf([
			[said(0, { channelId: 2 })],
			[said(1, { ...REPORT, versionName: "1.0.2" })],
		]);
		if (early === undefined || late === undefined) throw new Error("two messages were expected");
		// Between what the first reads of the device and what it writes.
		const { d1 } = beforeSecondTrip(REPORTS, () => consumeFor(inOrder, [late]));
		await consumeFor(inOrder, [early], { ...world.deps, telemetry: { TELEMETRY: d1 } });
		expect(await keptOf(inOrder)).toMatchObject({
			devices: [{ version_name: "1.0.2", channel_id: 2, platform: "android" }],
			versions: [{ version_name: "1.0.2", amount: 1 }],
			totals: [{ device_count: 1 }],
		});
	});
});

describe("a change of version that a consumer began to count, and another one brings forward to the day before", () => {
	test("leaves the device counted once on both days", async () => {
		await deleteAll();
		const [before, yesterday, today] = await messagesOf([
			[said(0)],
			[said(60, { versionName: "1.0.2" })],
			[said(24 * 60, { versionName: "1.0.2" })],
		]);
		if (before === undefined || yesterday === undefined || today === undefined) throw new Error("three were expected");
		await consumeFor(inOrder, [before]);
		// Between what the first reads of the device and what it writes.
		const { d1 } = beforeSecondTrip(REPORTS, () => consumeFor(inOrder, [yesterday]));
		await consumeFor(inOrder, [today], { ...world.deps, telemetry: { TELEMETRY: d1 } });
		const { versions } = await keptOf(inOrder);
		expect(versions.map(({ version_name, amount }) => ({ version_name, amount }))).toEqual([
			{ version_name: "1.0.2", amount: 1 },
			{ version_name: "1.0.2", amount: 1 },
		]);
	});
});

describe("a report that changes nothing", () => {
	test("is not written, so an older report of another isolate may replace it until the next day", async () => {
		await deleteAll();
		const [first] = await messagesOf([[said(0)]]);
		const [between] = await messagesOf([[said(1, { channelId: 2 })]]);
		const [again, tomorrow] = await messagesOf([[said(2)], [said(24 * 60)]]);
		const [one, two, three, four] = [first, between, again, tomorrow] as [
			DeviceEvents,
			DeviceEvents,
			DeviceEvents,
			DeviceEvents,
		];
		for (const message of [one, three, two]) await consumeFor(inOrder, [message]);
		expect(await onlyDevice(inOrder), "the bound that docs/statistics.md states").toMatchObject({ channel_id: 2 });
		await consumeFor(inOrder, [four]);
		await consumeFor(inOrder, [two]);
		expect(await onlyDevice(inOrder)).toMatchObject({ channel_id: 1 });
	});
});
