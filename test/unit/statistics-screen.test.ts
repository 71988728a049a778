/**
 * Figures and sentences of the statistics screen, from the figures of two periods, and its range in
 * the address.
 */
import { describe, expect, test } from "vitest";
import { durationText } from "../../dashboard/src/components/size";
import { failedCountText } from "../../dashboard/src/screens/bundles/bundle-texts";
import {
	type BundleUsage,
	bundleRows,
	bundlesMetric,
	changeText,
	countMetric,
	type DayFigures,
	devicesMetric,
	failedMetric,
	hasNothing,
	lostEvents,
	type Period,
	storageMetric,
	timeMetric,
} from "../../dashboard/src/screens/statistics/metrics";
import { rangeBefore, rangeOf, withView } from "../../dashboard/src/screens/statistics/range";
import { daysFrom } from "../proof/charts/cases";

const NOTHING = { mau: 0, storage: null, bandwidth: 0, get: 0, install: 0, fail: 0 };

function period(days: number, figures: Partial<DayFigures> = {}, devices: number | null = 0): Period {
	const names = daysFrom("2026-11-01", days);
	return { days: names, daily: names.map((date) => ({ ...NOTHING, ...figures, date })), devices };
}

const text = (sentence: string) => sentence.replaceAll("\u00a0", " ");

describe("a figure", () => {
	test("answers with its population and the days before", () => {
		const view = countMetric("install", "Installs", period(30, { install: 40 }), period(30, { install: 20 }));
		expect([view.value, text(view.note)]).toEqual(["1,200", "▲ 100 %"]);
		expect(text(view.sentence)).toBe("1,200 installs in these 30 days, 100 % more than in the 30 days before (600).");
		const none = countMetric("get", "Downloads", period(7), period(7));
		expect(none.sentence).toBe("0 downloads in these 7 days, as many as in the 7 days before.");
		// Then the chart is left out, but not if there was something before.
		expect([hasNothing(none), hasNothing(view)]).toEqual([true, false]);
		expect(hasNothing(countMetric("get", "Downloads", period(7), period(7, { get: 1 })))).toBe(false);
		const first = countMetric("get", "Downloads", period(7, { get: 1 }), period(7));
		expect(first.sentence).toBe("7 downloads in these 7 days; there were none in the 7 days before.");
	});

	test("of devices counts each device once, unless there are too many", () => {
		const now = period(30, { mau: 900 }, 1_404);
		expect(text(devicesMetric(now, period(30, {}, 1_350)).sentence)).toBe(
			"1,404 devices checked for an update or sent a report in these 30 days, 4 % more than in the 30 days before (1,350).",
		);
		const many = devicesMetric({ ...now, devices: null }, period(30));
		expect([many.value, many.note]).toEqual(["900", "on the busiest day"]);
	});

	test("of failures is red only if the rate rose, and no rate without installs", () => {
		const worse = failedMetric(period(30, { install: 97, fail: 3 }), period(30, { install: 199, fail: 1 }));
		expect([text(worse.value), text(worse.note), worse.isBad]).toEqual(["3.0 %", "▲ from 0.5 %", true]);
		expect(text(worse.sentence)).toBe(
			"90 of 3,000 installs failed in these 30 days (3.0 %); in the 30 days before it was 30 of 6,000 (0.5 %).",
		);
		const better = failedMetric(period(30, { install: 199, fail: 1 }), period(30, { install: 97, fail: 3 }));
		expect([text(better.note), better.isBad]).toEqual(["▼ from 3.0 %", false]);
		const none = failedMetric(period(7), period(7));
		expect([none.value, none.note, none.chart.series[0]?.values[0]]).toEqual(["—", "no installs", null]);
		// Two installs before say nothing about a trend.
		const few = failedMetric(period(1, { install: 99, fail: 1 }), period(1, { install: 2 }));
		expect([few.note, few.isBad]).toEqual(["1 of 100", false]);
	});

	test("of times has the median and the 95th percentile", () => {
		const total = { timed: 9_102, p50_ms: 2_100, p95_ms: 6_400 };
		const view = timeMetric(period(1), { total, byDay: [{ p50_ms: 2_100, p95_ms: 6_400 }] });
		expect(text(view.sentence)).toBe("Half of 9,102 timed installs took at most 2.1 s, and 95 of 100 at most 6.4 s.");
		expect([940, 64_000, 240_000].map((ms) => text(durationText(ms)))).toEqual(["940 ms", "64 s", "4 min"]);
		const none = timeMetric(period(1), { total: { timed: 0, p50_ms: null, p95_ms: null }, byDay: [] });
		expect(none.sentence).toBe("No install with a known time was reported on this day.");
	});

	test("of storage says where it was not measured", () => {
		expect(storageMetric(period(7)).sentence).toBe("Storage was not measured in these 7 days.");
		expect(storageMetric(period(7, { storage: 2_000_000 })).sentence).toBe(
			"Bundles use 2.0 MB; at the beginning of the range it was 2.0 MB.",
		);
	});

	test("names changes in words and without false precision", () => {
		const changes = [changeText(0, 0), changeText(5, 0), changeText(1_001, 1_000), changeText(1, 2), changeText(99, 1)];
		expect(changes.map(text)).toEqual(["no change", "none before", "no change", "▼ 50 %", "▲ over 1,000 %"]);
	});

	test("adds up lost events", () => {
		expect(lostEvents(period(3, { lost_events: 5 }))).toBe(15);
	});
});

describe("bundles", () => {
	const usage: BundleUsage = {
		datasets: [
			{ label: "builtin", metaCounts: [10, 10, 0] },
			{ label: "2.3.1", metaCounts: [0, 70, 0] },
			{ label: "2.4.0", metaCounts: [0, 20, 0] },
		],
	};

	test("are those of the last day with reports, the most devices first", () => {
		const view = bundlesMetric(period(3), usage, { isShares: true, live: ["2.3.1"], rollingOut: ["2.4.0"] });
		expect([view.label, text(view.value), view.note]).toEqual(["On 2.3.1", "70 %", "70 of 100"]);
		expect(text(view.sentence)).toBe("70 of 100 devices that reported on 2 Nov ran 2.3.1 (70 %).");
		expect([...(view.chart.tones ?? [])]).toEqual(
			expect.arrayContaining([
				["Store build", "store"],
				["2.3.1", "s4"],
				["2.4.0", "ro"],
			]),
		);
		const none = bundlesMetric(period(3), { datasets: [] }, { isShares: true, live: [], rollingOut: [] });
		expect([none.value, none.sentence]).toEqual(["—", "No device reported its bundle in these 3 days."]);
	});

	test("are listed with their installs, and those without devices at the end", () => {
		const outcomes = [
			{ version: "2.4.0", install: 20, fail: 1, p95_ms: 4_900 },
			{ version: "2.2.0", install: 3, fail: 2, p95_ms: null },
		];
		expect(bundleRows(usage, outcomes).map(({ version, devices, install }) => [version, devices, install])).toEqual([
			["2.3.1", 70, null],
			["2.4.0", 20, 20],
			["builtin", 10, null],
			["2.2.0", 0, 3],
		]);
	});
});

describe("the range in the address", () => {
	const of = (query: string) => rangeOf(new URLSearchParams(query), "2026-11-22");

	test("is a preset, days of the reader's own, or the usual 30 days", () => {
		expect(of("")).toEqual({ from: "2026-10-24", to: "2026-11-22", preset: 30 });
		expect(of("days=7")).toEqual({ from: "2026-11-16", to: "2026-11-22", preset: 7 });
		expect(of("from=2026-11-01&to=2026-11-03")).toEqual({ from: "2026-11-01", to: "2026-11-03", preset: undefined });
		for (const impossible of [
			"days=12",
			"from=2026-11-03&to=2026-11-01",
			"from=2026-11-01&to=2027-01-01",
			"from=2020-01-01&to=2026-01-01",
			"from=x&to=y",
		]) {
			expect(of(impossible).preset, impossible).toBe(30);
		}
	});

	test("is compared with as many days before it", () => {
		expect(rangeBefore(of("days=7"))).toEqual({ from: "2026-11-09", to: "2026-11-15", preset: undefined });
	});

	test("keeps the rest of the address", () => {
		const address = new URLSearchParams("figure=failed&from=2026-11-01&to=2026-11-03");
		expect(String(withView(address, { days: "7" }))).toBe("figure=failed&days=7");
		expect(String(withView(address, { figure: undefined }))).toBe("from=2026-11-01&to=2026-11-03");
	});
});

test("the failures of a bundle have their interval, unless there are too few installs", () => {
	expect(text(failedCountText(7_002, 28))).toBe("28 of 7,030; between 0.3 % and 0.6 %");
	expect(text(failedCountText(0, 2))).toBe("2 of 2; too few to tell");
	expect(text(failedCountText(5, 5))).toBe("5 of 10; between 24 % and 76 %");
	expect(failedCountText(0, 0)).toBe("No installs");
});
