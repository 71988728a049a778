/** The recent reports of a device: the ids that it may repeat, and the steps of its installs. */
import { describe, expect, test } from "vitest";
import { bucketOf } from "../../src/domain/statistics/duration-histogram";
import { type InstallTimeChange, RecentReports } from "../../src/domain/statistics/recent-reports";
import { DAY_MS } from "../../src/domain/time";
import type { CountedEvent } from "../../src/messages";

const TODAY = 20_000;
const event = (metric: CountedEvent["metric"], secondsLater: number, fields: Partial<CountedEvent> = {}) => {
	const atMs = TODAY * DAY_MS + secondsLater * 1_000;
	const own = { id: `${metric}-${secondsLater}`, metric, atMs, deviceAtMs: null, timed: true };
	return {
		type: "count",
		appId: "app",
		deviceId: "device",
		versionName: "1.0.0",
		channelName: "",
		...own,
		...fields,
	} as CountedEvent;
};

/** Each batch reads the row that the one before it wrote. */
function merged(batches: readonly (readonly CountedEvent[])[], firstDay = TODAY) {
	let text: string | null = null;
	const times = new Map<string, number>();
	let counted = 0;
	for (const batch of batches) {
		const reports: RecentReports = new RecentReports(text, firstDay);
		counted += batch.filter((one) => reports.add(one, true)).length;
		for (const { day, versionName, bucket, amount } of reports.installTimeChanges as InstallTimeChange[]) {
			const key = `${day - TODAY} ${versionName} ${bucket}`;
			times.set(key, (times.get(key) ?? 0) + amount);
		}
		text = reports.text;
	}
	return { counted, times: [...times].filter(([, amount]) => amount !== 0).sort(), text };
}

function* ordersOf<Item>(items: readonly Item[]): Generator<Item[]> {
	if (items.length === 0) yield [];
	for (const [index, item] of items.entries()) {
		for (const rest of ordersOf(items.toSpliced(index, 1))) yield [item, ...rest];
	}
}

describe("steps of installs", () => {
	test("give the same times in every order and in every batch", () => {
		const events = [
			event("start", 10),
			event("start", 20),
			event("install", 50),
			event("install", 70),
			event("start", 90, { versionName: "1.0.1" }),
			event("install", 100, { versionName: "1.0.1" }),
		];
		const expected = [
			[`0 1.0.0 ${bucketOf(30_000)}`, 1],
			[`0 1.0.1 ${bucketOf(10_000)}`, 1],
		];
		let orders = 0;
		for (const order of ordersOf(events)) {
			const { counted, times } = merged(order.map((one) => [one]));
			expect([counted, times]).toEqual([6, expected]);
			orders += 1;
		}
		expect(orders).toBe(720);
		expect(merged([events]).times).toEqual(expected);
		expect(merged([...events, ...events].map((one) => [one]))).toMatchObject({ counted: 6, times: expected });
	});

	test("use the device's clock if it reported both times and ran forwards", () => {
		const byDevice = (start: number | null, set: number | null) =>
			merged([[event("start", 0, { deviceAtMs: start }), event("install", 60, { deviceAtMs: set })]]).times;
		expect(byDevice(1_000, 3_000)).toEqual([[`0 1.0.0 ${bucketOf(2_000)}`, 1]]);
		expect(byDevice(null, 3_000)).toEqual([[`0 1.0.0 ${bucketOf(60_000)}`, 1]]);
		expect(byDevice(3_000, 1_000)).toEqual([]);
	});

	test("give no time if the app lacks the version or the device reports no start", () => {
		const reports = new RecentReports(null, TODAY);
		expect(reports.add(event("start", 0), false)).toBe(true);
		expect(reports.add(event("install", 5), false)).toBe(true);
		expect(reports.add(event("install", 6, { timed: false }), true)).toBe(true);
		expect(reports.installTimeChanges).toEqual([]);
		expect(JSON.parse(reports.text ?? "")).toMatchObject({ steps: {} });
	});
});

describe("ids", () => {
	test("expire with their day, or later if the device's clock is ahead", () => {
		const { text } = merged([[event("get", 0), event("fail", 1, { deviceAtMs: (TODAY + 3) * DAY_MS })]]);
		const ids = (firstDay: number) => {
			const reports = new RecentReports(text, firstDay);
			return Object.values(JSON.parse(reports.text ?? '{"ids":{}}').ids).flat();
		};
		expect(ids(TODAY)).toEqual(["get-0", "fail-1"]);
		expect(ids(TODAY + 1)).toEqual(["fail-1"]);
		expect(ids(TODAY + 4)).toEqual([]);
	});

	test("are at most 1,000 for each device, with at most 64 steps, so that the row stays small", () => {
		const many = Array.from({ length: 3_000 }, (_, index) => event(index % 2 === 0 ? "start" : "install", index));
		const { text } = merged([many]);
		const { ids, steps } = JSON.parse(text ?? "");
		expect([ids[TODAY].length, steps["1.0.0"].length]).toEqual([1_000, 64]);
		expect(ids[TODAY]).toContain("install-2999");
		expect(ids[TODAY]).not.toContain("start-0");
	});
});

test.each([
	[0, 0],
	[1, 0],
	[1.05, 1],
	[1.06, 2],
	[1_000, 142],
])("bucketOf puts %d ms into bucket %i", (durationMs, bucket) => {
	expect(bucketOf(durationMs)).toBe(bucket);
});
