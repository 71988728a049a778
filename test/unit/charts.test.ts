/**
 * Charts of the statistics: each case of the gallery and random input must give a chart that is
 * well-formed, harmless, legible and true to its figures; then the rules one by one.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dayAxis, formatDays, valueAxis } from "../../src/charts/axes";
import { type ChartOptions, lineChart, stackedChart } from "../../src/charts/chart";
import { lineModel, stackedModel } from "../../src/charts/model";
import { formatQuantity, unitScale } from "../../src/charts/text";
import { CHART_CASES, daysFrom } from "../proof/charts/cases";
import { cornersOf, expectSound, MARCH, one, parse, pathOf, plotOf, texts, withClass } from "./support/svg";

test("the XML parser of these tests is strict", () => {
	for (const broken of [
		"<svg><g></svg>",
		"<svg>&nbsp;</svg>",
		'<svg a="<"/>',
		"<svg/><svg/>",
		"<svg a=1/>",
		"<svg a='1' a='2'/>",
	]) {
		expect(() => parse(broken), broken).toThrow();
	}
});

describe("every case of the gallery", () => {
	for (const [name, draw] of Object.entries(CHART_CASES)) {
		test(`${name} is sound, and identical each time`, () => {
			const svg = draw();
			expectSound(svg);
			expect(draw()).toBe(svg);
			expect(svg.length).toBeLessThan(120_000);
		});
	}
});

const anyValue = (least: number) =>
	fc.oneof(
		fc.constant(null),
		fc.integer({ min: 0, max: 5000 }),
		fc.constantFrom(0, 1, 5e-324, 1e-9, 1e12, 2 ** 53, Number.MAX_VALUE),
		fc.double({ min: least, noNaN: true, noDefaultInfinity: true }),
	);

/**
 * Values repeat over the days: the length of a chart and the kinds of its values are what matters.
 */
const anyOptions = (least: number): fc.Arbitrary<ChartOptions> =>
	fc
		.record({
			title: fc.string({ unit: "binary", maxLength: 120 }),
			subtitle: fc.string({ unit: "binary", maxLength: 120 }),
			unit: fc.constantFrom("count", "bytes", "percent", "milliseconds"),
			valueLabel: fc.string({ unit: "grapheme", maxLength: 90 }),
			start: fc.integer({ min: 0, max: 40_000 }),
			length: fc.constantFrom(0, 1, 2, 3, 7, 14, 28, 31, 45, 61, 90, 120, 183, 365, 366),
			generatedAtMs: fc.integer({ min: 0, max: 4e12 }),
			patterns: fc.array(
				fc.tuple(
					fc.oneof(fc.string({ unit: "binary", maxLength: 220 }), fc.string({ maxLength: 30 })),
					fc.array(anyValue(least), { minLength: 1, maxLength: 9 }),
				),
				{ maxLength: 12 },
			),
		})
		.map(({ start, length, patterns, ...rest }) => ({
			...rest,
			days: daysFrom(new Date(start * 86_400_000).toISOString().slice(0, 10), length),
			series: patterns.map(([name, pattern]) => ({
				name,
				values: Array.from({ length }, (_, day) => pattern[day % pattern.length] ?? null),
			})),
		}));

describe("any input", () => {
	test("gives a sound line chart", () => {
		fc.assert(
			fc.property(anyOptions(-Number.MAX_VALUE), (options) => expectSound(lineChart(options))),
			{ numRuns: 120, seed: 4 },
		);
	});

	test("gives a sound stacked chart", () => {
		fc.assert(
			fc.property(anyOptions(0), fc.boolean(), (options, shares) => expectSound(stackedChart({ ...options, shares }))),
			{ numRuns: 120, seed: 5 },
		);
	});

	test("places later days further right and greater values higher", () => {
		fc.assert(
			fc.property(
				fc.array(fc.double({ min: 0, max: 1e15, noNaN: true }), { minLength: 2, maxLength: 366 }),
				fc.constantFrom("count", "bytes", "percent", "milliseconds"),
				(values, unit) => {
					const days = daysFrom("2025-03-31", values.length);
					const svg = lineChart({ title: "t", unit, days, series: [{ name: "s", values }] });
					const line = one(withClass(plotOf(parse(svg)).plot, "line"));
					const [points = []] = cornersOf(pathOf(line));
					expect(points).toHaveLength(values.length);
					const order = values.map((value, index) => ({ value, y: points[index]?.y ?? 0 }));
					order.sort((a, b) => a.value - b.value);
					for (let index = 1; index < order.length; index++) {
						expect(points[index]?.x).toBeGreaterThan(points[index - 1]?.x ?? Number.NaN);
						expect(order[index]?.y).toBeLessThanOrEqual(order[index - 1]?.y ?? Number.NaN);
					}
				},
			),
			{ numRuns: 60, seed: 6 },
		);
	});

	test("stacks values to their total, and shares to 100", () => {
		fc.assert(
			fc.property(anyOptions(0), fc.boolean(), (options, shares) => {
				const model = stackedModel({ ...options, shares });
				const numbers = options.series.flatMap(({ values }) => values.map((value) => value ?? 0));
				// Sums that overflow are counted in the greatest value's own measure.
				const isSummable = Number.isFinite(numbers.reduce((sum, value) => sum + value, 0));
				const measure = isSummable ? 1 : Math.max(...numbers);
				options.days.forEach((_, day) => {
					const spans = model.series.map((series) => series.spans[day] ?? null);
					const parts = options.series.flatMap(({ values }) => values[day] ?? []);
					const total = parts.reduce((sum, part) => sum + part / measure, 0);
					if (parts.length === 0 || (shares && total === 0)) {
						if (spans.some((span) => span !== null)) throw new Error(`day ${day}: ${JSON.stringify(spans)} has a part`);
						return;
					}
					let edge = 0;
					for (const span of spans) {
						if (span?.[0] !== edge) throw new Error(`day ${day}: ${JSON.stringify(spans)} has a gap`);
						edge = span[1];
					}
					const expected = shares ? 100 : total * (measure / model.factor);
					const isSum = Math.abs(edge - expected) <= Math.max(1e-300, expected * 1e-9);
					if (!isSum) throw new Error(`day ${day}: ${edge} is not ${expected}`);
				});
			}),
			{ numRuns: 150, seed: 7 },
		);
	});
});

describe("the days", () => {
	const labelsOf = (first: string, count: number) => {
		const dayPx = 650 / count;
		const axis = dayAxis(daysFrom(first, count), (index) => 50 + (index + 0.5) * dayPx, 12, 18, 716);
		return {
			grid: axis.grid,
			labels: axis.labels.map(({ text }) => text),
			context: axis.contextLabels.map(({ text }) => text),
		};
	};

	test("1, 2 and 7 days are labelled each", () => {
		expect(labelsOf("2026-03-01", 1)).toEqual({ grid: "days", labels: ["1"], context: ["Mar 2026"] });
		expect(labelsOf("2026-02-28", 2)).toEqual({ grid: "days", labels: ["28", "1"], context: ["Feb 2026", "Mar"] });
		expect(labelsOf("2025-12-29", 7)).toEqual({
			grid: "days",
			labels: ["29", "30", "31", "1", "2", "3", "4"],
			context: ["Dec 2025", "Jan 2026"],
		});
	});

	test("31 days are labelled on Mondays, 366 days at the beginning of each month", () => {
		expect(labelsOf("2026-03-01", 31)).toEqual({
			grid: "Mondays",
			labels: ["2", "9", "16", "23", "30"],
			context: ["Mar 2026"],
		});
		expect(labelsOf("2023-12-15", 366)).toEqual({
			grid: "months",
			labels: ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
			context: ["2024"],
		});
	});

	test("drops the label of a month that ends within a few days", () => {
		const { context } = labelsOf("2026-01-31", 14);
		expect(context).toEqual(["Feb 2026"]);
	});

	test("ranges repeat no month or year", () => {
		expect(formatDays(["2026-03-01"])).toBe("1 Mar 2026");
		expect(formatDays(MARCH)).toBe("1–31 Mar 2026");
		expect(formatDays(daysFrom("2026-02-27", 4))).toBe("27 Feb – 2 Mar 2026");
		expect(formatDays(daysFrom("2025-12-31", 2))).toBe("31 Dec 2025 – 1 Jan 2026");
	});
});

describe("the values", () => {
	const ticksOf = (unit: ChartOptions["unit"], high: number, count = 5) => {
		const { factor, name } = unitScale(unit, high);
		return [...valueAxis(unit, factor, 0, high / factor, count).ticks.map(({ text }) => text), name];
	};

	test("ticks are round in the unit of the axis", () => {
		expect(ticksOf("count", 1200)).toEqual(["0", "200", "400", "600", "800", "1,000", "1,200", ""]);
		expect(ticksOf("count", 61_500)).toEqual(["0", "10", "20", "30", "40", "50", "60", "70", "thousand"]);
		expect(ticksOf("count", 1e12)).toEqual(["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "trillion"]);
		expect(ticksOf("bytes", 1.5 * 1024 ** 3)).toEqual(["0.0", "0.5", "1.0", "1.5", "2.0", "GiB"]);
		expect(ticksOf("bytes", 1000)).toEqual(["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "KiB"]);
		expect(ticksOf("bytes", 999)).toEqual(["0", "200", "400", "600", "800", "1,000", "bytes"]);
		expect(ticksOf("milliseconds", 15_000)).toEqual(["0", "5", "10", "15", "20", "s"]);
	});

	test("percentages run from 0 to 100 for any values", () => {
		for (const high of [0, 0.01, 42, 100, 100.0000001]) {
			expect(ticksOf("percent", high)).toEqual(["0", "20", "40", "60", "80", "100", "%"]);
		}
	});

	test("counts have no fractions", () => {
		expect(ticksOf("count", 1)).toEqual(["0", "1", ""]);
		expect(ticksOf("count", 3)).toEqual(["0", "1", "2", "3", ""]);
		expect(ticksOf("count", 0)).toEqual(["0", "1", ""]);
		expect(ticksOf("bytes", 0.2)).toEqual(["0", "1", "bytes"]);
	});

	test("beyond every unit the axis names its power of ten", () => {
		expect(ticksOf("count", 3e20).at(-1)).toBe("×10²⁰");
		expect(ticksOf("bytes", 2 ** 100).at(-1)).toBe("×10¹² EiB");
	});

	test("figures in sentences do not depend on a locale", () => {
		expect(formatQuantity("count", 1234567)).toBe("1,234,567");
		expect(formatQuantity("count", -3)).toBe("−3");
		expect(formatQuantity("bytes", 1536)).toBe("1.5 KiB");
		expect([97.41, 99.64, 0.43, 5, 100].map((value) => formatQuantity("percent", value))).toEqual([
			"97 %",
			"99.6 %",
			"0.4 %",
			"5 %",
			"100 %",
		]);
		expect(formatQuantity("milliseconds", 940)).toBe("940 ms");
		expect(formatQuantity("milliseconds", 12_340)).toBe("12.3 s");
	});

	test("the axis begins at 0 and reaches below it only for negative values", () => {
		const series = (values: number[]) => [{ name: "s", values }];
		const days = daysFrom("2026-03-01", 2);
		const near = lineModel({ title: "t", unit: "count", days, series: series([990, 1000]) });
		expect(near.low).toBe(0);
		const svg = lineChart({ title: "t", unit: "count", days, series: series([-5, 5]) });
		expect(texts(parse(svg))).toContain("−4");
	});
});
