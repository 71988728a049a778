/**
 * Interactive charts of the dashboard without a browser: which day a pointer or key chooses, what
 * the tooltip and the table say, which flags fit.
 */
import { describe, expect, test } from "vitest";
import {
	type ChartData,
	csvOf,
	dayAfterKey,
	dayAt,
	drawnModel,
	endNamesPx,
	hasFigures,
	lastMarker,
	scalesOf,
	seriesAt,
	shownSeries,
	spokenTip,
	tableOf,
	tipOf,
} from "../../dashboard/src/charts/chart-model";
import { flagsOf } from "../../src/charts/flags";
import { daysFrom } from "../proof/charts/cases";

const NOTHING: ReadonlySet<string> = new Set();
const AREA = { right: 700, top: 30, bottom: 230 };
const DAYS = daysFrom("2026-11-08", 15);

const installs: ChartData = {
	title: "Installs",
	kind: "line",
	unit: "count",
	days: DAYS,
	series: [{ name: "Installs", values: DAYS.map((_, day) => (day === 3 ? null : day * 100)) }],
	markers: [{ day: "2026-11-13", label: "2.3.1" }],
	comparison: { label: "15 days before", days: daysFrom("2026-10-24", 15), values: DAYS.map(() => 4000) },
};

const adoption: ChartData = {
	title: "Devices by bundle",
	kind: "area",
	unit: "count",
	shares: true,
	versions: true,
	days: DAYS,
	series: [
		{ name: "2.2.1", values: DAYS.map((_, day) => (day < 10 ? 300 : 0)) },
		{ name: "2.3.1", values: DAYS.map(() => 600) },
		{ name: "2.4.0", values: DAYS.map((_, day) => (day < 10 ? 0 : 200)) },
	],
};

const draw = (data: ChartData, hidden = NOTHING) => {
	const shown = shownSeries(data);
	const model = drawnModel(data, shown, hidden);
	return { shown, model, scales: scalesOf(model, data, AREA) };
};

describe("the cursor", () => {
	test("chooses the nearest day, also outside of the plot", () => {
		const { scales } = draw(installs);
		expect(dayAt(scales, scales.toX(7) + scales.dayPx * 0.4, 15)).toBe(7);
		expect([dayAt(scales, -50, 15), dayAt(scales, 5000, 15)]).toEqual([0, 14]);
	});

	test("lies in the band of its day in a bar chart", () => {
		const { scales } = draw({ ...adoption, kind: "bars" });
		for (const day of [0, 7, 14]) {
			expect(dayAt(scales, scales.left + (day + 0.05) * scales.dayPx, 15)).toBe(day);
			expect(dayAt(scales, scales.left + (day + 0.95) * scales.dayPx, 15)).toBe(day);
		}
	});

	test("moves by keys and stops at both ends", () => {
		expect(dayAfterKey("ArrowLeft", undefined, 15)).toBe(14);
		expect(dayAfterKey("ArrowLeft", 0, 15)).toBe(0);
		expect(dayAfterKey("ArrowRight", 3, 15)).toBe(4);
		expect(dayAfterKey("PageUp", 10, 15)).toBe(3);
		expect(dayAfterKey("PageDown", 10, 15)).toBe(14);
		expect([dayAfterKey("Home", 9, 15), dayAfterKey("End", 9, 15)]).toEqual([0, 14]);
		expect(dayAfterKey("a", 9, 15)).toBeUndefined();
		expect(dayAfterKey("End", undefined, 0)).toBeUndefined();
	});

	test("chooses the only day of a chart at every position", () => {
		const { comparison: _, ...alone } = installs;
		const { scales } = draw({ ...alone, days: ["2026-11-08"], series: [{ name: "Installs", values: [3] }] });
		expect(dayAt(scales, 9999, 1)).toBe(0);
		expect(scales.toX(0)).toBeCloseTo((scales.left + scales.right) / 2, 0);
	});
});

describe("the scale", () => {
	test("includes the previous period and names its unit at the ticks", () => {
		const { scales, model } = draw(installs);
		expect(model.series.map(({ name }) => name)).toEqual(["Installs"]);
		expect(scales.toY(4000 / model.factor)).toBeGreaterThanOrEqual(AREA.top - 0.1);
		expect(scales.ticks.map(({ text }) => text)).toEqual(["0", "1,000", "2,000", "3,000", "4,000"]);
		const bytes = {
			...installs,
			unit: "bytes",
			series: [{ name: "Bytes", values: DAYS.map(() => 3 * 2 ** 30) }],
		} as const;
		const { comparison: _, ...alone } = bytes;
		expect(draw(alone).scales.ticks.at(-1)?.text).toBe("3\u00a0GiB");
		const many = { ...alone, unit: "count", series: [{ name: "Checks", values: DAYS.map(() => 40_000) }] } as const;
		expect(draw(many).scales.ticks.at(-1)?.text).toBe("40k");
	});

	test("keeps the colours of other series when one is hidden", () => {
		const { shown } = draw(adoption);
		expect(shown.map(({ tone }) => tone)).toEqual(["s2", "s4", "ro"]);
		const { model } = draw(adoption, new Set(["2.2.1"]));
		expect(model.series.map(({ name, tone }) => [name, tone])).toEqual([
			["2.3.1", "s4"],
			["2.4.0", "ro"],
		]);
		expect(model.series.at(-1)?.spans[14]?.[1]).toBeCloseTo(100, 6);
	});
});

describe("the tooltip", () => {
	test("shows the day, its value, the day before and the release that explains it", () => {
		const tip = tipOf(installs, shownSeries(installs), NOTHING, 6);
		expect(tip).toEqual({
			day: "Sat, 14 Nov 2026",
			rows: [
				{ name: "Installs", tone: "c1", text: "600" },
				{ name: "30 Oct", tone: "before", text: "4,000" },
			],
			note: "1 day after 2.3.1",
		});
		expect(spokenTip(tip)).toBe("Sat, 14 Nov 2026: Installs 600, 30 Oct 4,000. 1 day after 2.3.1.");
		expect(tipOf(installs, shownSeries(installs), NOTHING, 5).note).toBe("Day of 2.3.1");
		expect(tipOf(installs, shownSeries(installs), NOTHING, 0).note).toBe("");
	});

	test("shows no data instead of 0 for a day without data", () => {
		expect(tipOf(installs, shownSeries(installs), NOTHING, 3).rows[0]?.text).toBe("no data");
	});

	test("lists a stack from its top with shares, without versions that no device ran", () => {
		const shown = shownSeries(adoption);
		expect(tipOf(adoption, shown, NOTHING, 14).rows.map(({ name, text }) => `${name}: ${text}`)).toEqual([
			"2.4.0: 200 (25 %)",
			"2.3.1: 600 (75 %)",
		]);
	});
});

describe("a click", () => {
	test("in a stack selects the band under the pointer", () => {
		const { model, scales } = draw(adoption);
		expect(seriesAt(model, scales, 14, scales.bottom - 5)).toBe("2.3.1");
		expect(seriesAt(model, scales, 14, scales.top + 5)).toBe("2.4.0");
		expect(seriesAt(model, scales, 0, scales.bottom - 5)).toBe("2.2.1");
		expect(seriesAt(model, scales, 0, 3)).toBeUndefined();
	});

	test("on a day selects the last release up to that day", () => {
		const markers = [
			{ day: "2026-11-13", label: "2.3.1" },
			{ day: "2026-11-10", label: "2.3.0" },
		];
		expect(lastMarker(markers, "2026-11-12")?.label).toBe("2.3.0");
		expect(lastMarker(markers, "2026-11-20")?.label).toBe("2.3.1");
		expect(lastMarker(markers, "2026-11-01")).toBeUndefined();
	});
});

test("flags of releases that would overlap merge into the newest, with the number of the others", () => {
	const markers = [
		{ day: "2026-11-08", label: "2.2.0" },
		{ day: "2026-11-15", label: "2.3.0" },
		{ day: "2026-11-15", label: "2.3.1" },
		{ day: "2027-01-01", label: "outside" },
	];
	const { model, scales } = draw({ ...installs, markers });
	const flags = flagsOf(model, scales);
	expect(flags.map(({ text, index }) => [text, index])).toEqual([
		["2.2.0", 0],
		["2.3.1 +1", 7],
	]);
	const narrow = scalesOf(model, installs, { ...AREA, right: 90 });
	expect(flagsOf(model, narrow).map(({ text }) => text)).toEqual(["2.3.1 +2"]);
});

describe("table and CSV file", () => {
	test("have a row for each day, newest first on the screen and oldest first in the file", () => {
		const shown = shownSeries(installs);
		const table = tableOf(installs, shown);
		expect(table.columns).toEqual(["Day", "Installs", "15 days before"]);
		expect(table.rows[0]).toEqual(["2026-11-22", 1400, 4000]);
		expect(csvOf(installs, shown).rows[3]).toEqual(["2026-11-11", null, 4000]);
		expect(csvOf({ ...installs, unit: "milliseconds" }, shown).columns[1]).toBe("Installs (ms)");
	});
});

describe("charts with little data", () => {
	test("have finite coordinates without days, with nulls and with zeros", () => {
		const values: (number | null)[][] = [
			[],
			DAYS.map(() => null),
			DAYS.map(() => 0),
			DAYS.map((_, day) => (day ? 0 : 1)),
		];
		for (const kind of ["line", "area", "bars"] as const) {
			for (const list of values) {
				const days = DAYS.slice(0, list.length);
				const { scales, model, shown } = draw({
					title: "t",
					kind,
					unit: "count",
					days,
					series: [{ name: "s", values: list }],
				});
				const numbers = [scales.left, scales.dayPx, ...scales.ticks.map(({ y }) => y), scales.toX(0), scales.toY(0)];
				expect(numbers.every(Number.isFinite), `${kind} ${list.length}`).toBe(true);
				expect(endNamesPx(model)).toBe(0);
				expect(shown).toHaveLength(1);
			}
		}
	});

	test("have figures if a value is set; zeros count only in a line chart", () => {
		const of = (kind: ChartData["kind"], values: (number | null)[]) =>
			hasFigures({
				title: "t",
				kind,
				unit: "count",
				days: DAYS.slice(0, values.length),
				series: [{ name: "s", values }],
			});
		expect([of("line", [null]), of("line", [0]), of("area", [0]), of("area", [1]), of("line", [])]).toEqual([
			false,
			true,
			false,
			true,
			false,
		]);
	});
});
