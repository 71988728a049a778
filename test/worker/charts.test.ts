/**
 * The charts of the statistics: what every one of them must be (well-formed, harmless, legible, true to its figures), held against each
 * case of the gallery and against whatever fast-check thinks of, then the rules one by one.
 */
import { DOMParser, type Element } from "@xmldom/xmldom";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ChartOptions, lineChart, type StackedChartOptions, stackedChart } from "../../src/statistics/chart";
import { dayAxis, formatDays, valueAxis } from "../../src/statistics/chart-axes";
import { lineModel, stackedModel } from "../../src/statistics/chart-model";
import { escapeXml, estimatedWidthPx, fitText, formatQuantity, unitScale } from "../../src/statistics/chart-text";
import { contrastRatio, DARK, DASHES, inkOn, LIGHT, MARKERS, SERIES_LIMIT } from "../../src/statistics/chart-theme";
import { CHART_CASES, daysFrom } from "../charts/cases";

const MARCH = daysFrom("2026-03-01", 31);

function parse(svg: string): Element {
	const parser = new DOMParser({
		onError: (level, message) => {
			// U+FFFD stands for what XML cannot write; the parser only wonders about it.
			if (!message.startsWith("Unicode replacement character")) throw new Error(`${level}: ${message}`);
		},
	});
	const root = parser.parseFromString(svg, "image/svg+xml").documentElement;
	if (root === null) throw new Error("no root element");
	return root;
}

const elements = (root: Element, name = "*"): Element[] => Array.from(root.getElementsByTagName(name));
const withClass = (root: Element, name: string) =>
	elements(root).filter((element) => (element.getAttribute("class") ?? "").split(" ").includes(name));
const numeric = (element: Element, name: string) => Number(element.getAttribute(name));

function one(found: readonly Element[]): Element {
	const [element] = found;
	if (element === undefined || found.length !== 1) throw new Error(`${found.length} elements instead of one`);
	return element;
}
const panelOf = (svg: string, name: "wide" | "narrow") => one(withClass(parse(svg), name));

/** The text itself, without its <title>. */
const shown = (element: Element) =>
	Array.from(element.childNodes)
		.filter((node) => node.nodeType === 3)
		.map((node) => node.nodeValue)
		.join("");
const texts = (root: Element) => elements(root, "text").map(shown);

interface Box {
	readonly content: string;
	readonly left: number;
	readonly right: number;
	readonly top: number;
	readonly bottom: number;
}

function boxOf(element: Element): Box {
	const content = shown(element);
	const sizePx = numeric(element, "font-size");
	const widthPx = estimatedWidthPx(content, sizePx);
	const anchor = element.getAttribute("text-anchor");
	const x = numeric(element, "x");
	const left = x - (anchor === "end" ? widthPx : anchor === "middle" ? widthPx / 2 : 0);
	const y = numeric(element, "y");
	return { content, left, right: left + widthPx, top: y - sizePx * 0.76, bottom: y + sizePx * 0.22 };
}

/** Half a pixel for the rounding of coordinates. */
const touches = (a: Box, b: Box) =>
	a.left + 0.5 < b.right && b.left + 0.5 < a.right && a.top + 0.5 < b.bottom && b.top + 0.5 < a.bottom;

interface Point {
	readonly x: number;
	readonly y: number;
}

/** The corners of a path of absolute M, L, H, V and Z, one list a subpath. */
function cornersOf(path: string): Point[][] {
	const subpaths: Point[][] = [];
	let x = 0;
	let y = 0;
	for (const [, command, body = ""] of path.matchAll(/([A-Za-z])([^A-Za-z]*)/g)) {
		const numbers = body.split(/[ ,]+/).filter(Boolean).map(Number);
		if (command === "Z") continue;
		if (command === "H") x = numbers[0] ?? Number.NaN;
		else if (command === "V") y = numbers[0] ?? Number.NaN;
		else if (command === "M" || command === "L") [x = Number.NaN, y = Number.NaN] = numbers;
		else throw new Error(`command ${command}`);
		if (command === "M") subpaths.push([]);
		subpaths.at(-1)?.push({ x, y });
	}
	return subpaths;
}

const pathOf = (element: Element) => element.getAttribute("d") ?? "";

function plotOf(panel: Element) {
	const plot = one(withClass(panel, "plot"));
	const [left = 0, top = 0, right = 0, bottom = 0] = (plot.getAttribute("data-plot") ?? "").split(" ").map(Number);
	const marks = [
		...["line", "under", "band"]
			.flatMap((name) => withClass(plot, name))
			.flatMap((path) => cornersOf(pathOf(path)).flat()),
		...withClass(plot, "marker").map((marker): Point => {
			const [, x, y] = /^translate\(([^,]+),([^)]+)\)/.exec(marker.getAttribute("transform") ?? "") ?? [];
			return { x: Number(x), y: Number(y) };
		}),
	];
	return { plot, left, top, right, bottom, marks };
}

const ELEMENTS = ["svg", "title", "desc", "style", "rect", "g", "path", "text"];
const ATTRIBUTES = [
	...["xmlns", "class", "lang", "role", "width", "height", "viewBox", "x", "y", "rx", "d", "font-size", "text-anchor"],
	...["transform", "display", "stroke-dasharray", "data-plot"],
];

/** What holds for every chart. */
function expectSound(svg: string): void {
	const root = parse(svg);
	for (const element of elements(root)) {
		expect(ELEMENTS).toContain(element.tagName);
		for (const attribute of Array.from(element.attributes)) {
			expect(ATTRIBUTES).toContain(attribute.name);
			expect(attribute.value).not.toMatch(/NaN|undefined|Infinity|null|[<>]|url\(|e[+-]?\d/);
		}
	}
	expect(root.getAttribute("role")).toBe("img");
	expect(root.getAttribute("viewBox")).toBe(`0 0 ${root.getAttribute("width")} ${root.getAttribute("height")}`);
	const [title, description, style] = Array.from(root.childNodes).filter((node) => node.nodeType === 1);
	expect([title?.nodeName, description?.nodeName, style?.nodeName]).toEqual(["title", "desc", "style"]);
	expect(title?.textContent).not.toBe("");
	expect(description?.textContent).toMatch(/^(Line|Stacked) chart of /);
	expect(style?.textContent).not.toMatch(/url|@import|expression|[<&]/);
	expect(svg.replace("http://www.w3.org/2000/svg", "")).not.toMatch(/(href|src)="?(https?:|\/\/)/);

	const width = numeric(root, "width");
	const height = numeric(root, "height");
	for (const [name, scale] of [
		["wide", 1],
		["narrow", 1.8],
	] as const) {
		const panel = one(withClass(root, name));
		const boxes = elements(panel, "text").map(boxOf);
		for (const [position, box] of boxes.entries()) {
			expect(box.left, box.content).toBeGreaterThanOrEqual(0);
			expect(box.right, box.content).toBeLessThanOrEqual(width / scale);
			expect(box.top, box.content).toBeGreaterThanOrEqual(0);
			expect(box.bottom, box.content).toBeLessThanOrEqual(height / scale);
			for (const other of boxes.slice(position + 1)) {
				if (touches(box, other)) throw new Error(`${name}: "${box.content}" touches "${other.content}"`);
			}
		}
		const { left, top, right, bottom, marks } = plotOf(panel);
		expect(bottom - top).toBeGreaterThan(100);
		for (const { x, y } of marks) {
			// Compared by hand: there are thousands.
			const isInside = x >= left - 0.1 && x <= right + 0.1 && y >= top - 0.1 && y <= bottom + 0.1;
			if (!isInside) throw new Error(`${name}: ${x},${y} is outside of ${[left, top, right, bottom]}`);
		}
	}
}

test("the parser that judges the charts is strict", () => {
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
		test(`${name} is sound, and the same each time`, () => {
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

/** Values repeat over the days: the length of a chart and the kinds of its values are what matters. */
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

describe("whatever the input", () => {
	test("a line chart is sound", () => {
		fc.assert(
			fc.property(anyOptions(-Number.MAX_VALUE), (options) => expectSound(lineChart(options))),
			{ numRuns: 120, seed: 4 },
		);
	});

	test("a stacked chart is sound", () => {
		fc.assert(
			fc.property(anyOptions(0), fc.boolean(), (options, shares) => expectSound(stackedChart({ ...options, shares }))),
			{ numRuns: 120, seed: 5 },
		);
	});

	test("later days stand further right and greater values higher", () => {
		fc.assert(
			fc.property(
				fc.array(fc.double({ min: 0, max: 1e15, noNaN: true }), { minLength: 2, maxLength: 366 }),
				fc.constantFrom("count", "bytes", "percent", "milliseconds"),
				(values, unit) => {
					const days = daysFrom("2025-03-31", values.length);
					const svg = lineChart({ title: "t", unit, days, series: [{ name: "s", values }] });
					const line = one(withClass(plotOf(panelOf(svg, "wide")).plot, "line"));
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

	test("the parts of a stack add up to its total, and shares to a hundred", () => {
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
						expect(spans.every((span) => span === null)).toBe(true);
						return;
					}
					let edge = 0;
					for (const span of spans) {
						expect(span?.[0]).toBe(edge);
						edge = span?.[1] ?? Number.NaN;
					}
					const expected = shares ? 100 : total * (measure / model.factor);
					expect(Math.abs(edge - expected)).toBeLessThanOrEqual(Math.max(1e-300, expected * 1e-9));
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

	test("a month that ends within a few days gives its room to the next one", () => {
		const { context } = labelsOf("2026-01-31", 14);
		expect(context).toEqual(["Feb 2026"]);
	});

	test("ranges are written as short as they are clear", () => {
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

	test("percent runs from 0 to 100 whatever the values are", () => {
		for (const high of [0, 0.01, 42, 100, 100.0000001]) {
			expect(ticksOf("percent", high)).toEqual(["0", "20", "40", "60", "80", "100", "%"]);
		}
	});

	test("single things are not cut into fractions", () => {
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
		expect(texts(panelOf(svg, "wide"))).toContain("−4");
	});
});

describe("what is drawn", () => {
	const chart = (values: readonly (number | null)[], more: Partial<ChartOptions> = {}) =>
		lineChart({
			title: "Installs",
			unit: "count",
			days: daysFrom("2025-03-31", values.length),
			series: [{ name: "Installs", values }],
			...more,
		});

	test("a single day is a marker in a line chart and a bar in a stacked one", () => {
		expect(withClass(plotOf(panelOf(chart([7]), "wide")).plot, "marker")).toHaveLength(1);
		const stacked = stackedChart({
			title: "t",
			unit: "count",
			days: ["2026-03-01"],
			series: [{ name: "s", values: [7] }],
		});
		const [bar = []] = cornersOf(pathOf(one(withClass(plotOf(panelOf(stacked, "wide")).plot, "band"))));
		expect(Math.max(...bar.map(({ x }) => x)) - Math.min(...bar.map(({ x }) => x))).toBeCloseTo(72, 0);
		expect(Math.max(...bar.map(({ y }) => y)) - Math.min(...bar.map(({ y }) => y))).toBeGreaterThan(100);
	});

	test("a day without a value is a gap, and a day alone between gaps is marked", () => {
		const values = Array.from({ length: 366 }, (_, day) => (day % 50 > 40 && day % 50 !== 45 ? null : 10 + (day % 7)));
		const { plot } = plotOf(panelOf(chart(values), "wide"));
		const runs = values.filter((value, day) => value !== null && (values[day - 1] ?? null) === null).length;
		const alone = values.filter(
			(value, day) => value !== null && (values[day - 1] ?? null) === null && (values[day + 1] ?? null) === null,
		).length;
		expect(alone).toBe(7);
		expect(cornersOf(pathOf(one(withClass(plot, "line"))))).toHaveLength(runs);
		expect(withClass(plot, "marker")).toHaveLength(alone);
	});

	test("a null in a stack is a gap only where every part is missing", () => {
		const days = daysFrom("2026-03-01", 3);
		const { series } = stackedModel({
			title: "t",
			unit: "count",
			days,
			series: [
				{ name: "a", values: [1, null, null] },
				{ name: "b", values: [2, 2, null] },
			],
		});
		expect(series.map(({ spans }) => spans)).toEqual([
			[[0, 1], [0, 0], null],
			[[1, 3], [0, 2], null],
		]);
	});

	test("bands of narrow days are as high as their parts and lie on one another", () => {
		const days = daysFrom("2025-03-31", 366);
		const values = days.map((_, day) => 100 + (day % 9) * 25);
		const svg = stackedChart({
			title: "t",
			unit: "count",
			days,
			series: [
				{ name: "a", values },
				{ name: "b", values: values.map((value) => 400 - value) },
			],
		});
		const { plot, top, bottom } = plotOf(panelOf(svg, "wide"));
		const [lower, upper] = withClass(plot, "band").map((band) => cornersOf(pathOf(band)).flat());
		const highest = (points: readonly Point[] | undefined) => Math.min(...(points ?? []).map(({ y }) => y));
		const pixels = (value: number) => bottom - ((bottom - top) * value) / 400;
		expect(highest(lower)).toBeCloseTo(pixels(300), 0);
		expect(highest(upper)).toBeCloseTo(pixels(400), 0);
		const edges = new Set(lower?.map(({ x, y }) => `${x} ${y}`));
		expect(upper?.filter(({ y }) => y > pixels(399)).every(({ x, y }) => edges.has(`${x} ${y}`))).toBe(true);
	});

	test("without values the chart says so", () => {
		expect(texts(panelOf(lineChart({ title: "t", unit: "count", days: [], series: [] }), "wide"))).toContain("No data");
		expect(texts(panelOf(chart([null, null]), "narrow"))).toContain("No data (31 Mar – 1 Apr 2025)");
		expect(texts(panelOf(chart([0, 0]), "wide"))).toContain("All values are 0 (31 Mar – 1 Apr 2025)");
		expect(texts(panelOf(chart([0, 1]), "wide")).join()).not.toMatch(/No data|All values/);
	});

	test("title, days, axis with its unit, legend and time of making can be read", () => {
		const svg = lineChart({
			title: "Storage",
			subtitle: "com.example.shop",
			unit: "bytes",
			valueLabel: "Stored",
			days: MARCH,
			series: [{ name: "com.example.shop", values: MARCH.map((_, day) => day * 1e8) }],
			generatedAtMs: Date.UTC(2026, 3, 1, 6, 30),
		});
		for (const name of ["wide", "narrow"] as const) {
			expect(texts(panelOf(svg, name))).toEqual(
				expect.arrayContaining([
					"Storage",
					"com.example.shop · 1–31 Mar 2026",
					"com.example.shop",
					"Stored (GiB)",
					"Day (UTC), Mondays labelled",
					"Generated 2026-04-01 06:30 UTC",
				]),
			);
		}
	});

	test("the description says the figures in words", () => {
		const description = one(elements(parse(chart([3, null, 9, 1])), "desc")).textContent;
		expect(description).toBe(
			"Line chart of count, 31 Mar – 3 Apr 2025, 4 days in UTC. Installs: 3 on 31 Mar 2025, 1 on 3 Apr 2025; " +
				"lowest 1 on 3 Apr 2025, highest 9 on 2 Apr 2025; 1 day without a value.",
		);
	});

	test("of many series the biggest are drawn, with the leaders of the last day, and the rest is summed up", () => {
		const days = daysFrom("2026-03-01", 10);
		const series = Array.from({ length: 20 }, (_, index) => ({
			name: `1.0.${index}`,
			values: days.map((_, day) => (index >= 17 ? (day === 9 ? index : 0) : 100 - index)),
		}));
		const names = (options: StackedChartOptions) => stackedModel(options).series.map(({ name }) => name);
		const options = { title: "t", unit: "count", days, series } as const;
		// 1.0.0 to 1.0.2 lead on the last day and overall; the new ones do not.
		expect(names(options)).toEqual([...Array.from({ length: 8 }, (_, index) => `1.0.${index}`), "Other (12)"]);
		const leading = series.map(({ name, values }, index) => ({
			name,
			values: values.map((value, day) => (index >= 17 && day === 9 ? 500 : value)),
		}));
		const model = stackedModel({ ...options, series: leading });
		expect(model.series.map(({ name }) => name)).toEqual([
			...["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4"],
			...["1.0.17", "1.0.18", "1.0.19", "Other (12)"],
		]);
		const rest = Array.from({ length: 12 }, (_, index) => 100 - (index + 5)).reduce((sum, value) => sum + value);
		expect(model.series.at(-1)?.values).toEqual(days.map(() => rest));
		expect(lineModel(options).series).toHaveLength(SERIES_LIMIT);
		expect(texts(panelOf(lineChart(options), "wide"))).toContain("12 not drawn");
	});

	test("what cannot be drawn truly is refused", () => {
		const days = daysFrom("2026-03-01", 2);
		const options = (values: number[]) =>
			({ title: "t", unit: "count", days, series: [{ name: "s", values }] }) as const;
		expect(() => lineChart(options([1, Number.NaN]))).toThrow(RangeError);
		expect(() => lineChart(options([1, Number.POSITIVE_INFINITY]))).toThrow(RangeError);
		expect(() => lineChart(options([1]))).toThrow('series "s" has 1 values for 2 days');
		expect(() => stackedChart(options([1, -1]))).toThrow("parts of a stack are not negative");
		expect(() => lineChart({ ...options([1, 2]), days: ["2026-03-01", "2026-03-03"] })).toThrow(
			"2026-03-03 follows 2026-03-01",
		);
		expect(() => lineChart({ ...options([1, 2]), days: ["2026-02-29", "2026-03-01"] })).toThrow(RangeError);
	});
});

describe("names from strangers", () => {
	test("markup stays text", () => {
		const name = `<img src=x onerror="alert(1)"></text></svg><script>alert('2')</script>`;
		const svg = stackedChart({
			title: name,
			subtitle: name,
			unit: "count",
			valueLabel: name,
			days: ["2026-03-01"],
			series: [{ name, values: [1] }],
		});
		expectSound(svg);
		expect(svg).not.toContain("<img");
		expect(svg).not.toContain("<script");
		expect(svg).not.toContain('="alert');
	});

	test("a long name is shortened in its middle, and whole in its title", () => {
		const names = ["a", "b", "c", "d", "e"].map((end) => `com.example.${"long.".repeat(36)}${end}`);
		const svg = lineChart({
			title: "t",
			unit: "count",
			days: MARCH,
			series: names.map((name) => ({ name, values: MARCH.map(() => 1) })),
		});
		const entries = elements(one(withClass(panelOf(svg, "narrow"), "legend")), "text");
		expect(entries.map((entry) => entry.textContent?.slice(0, names[0]?.length))).toEqual(names);
		const labels = entries.map(shown);
		for (const label of labels) expect(label).toMatch(/^com.*….*g\.[a-e]$/);
		expect(new Set(labels).size).toBe(5);
	});

	test("shortening never cuts a visible character", () => {
		const family = "👩‍👩‍👧‍👦";
		for (let widthPx = 0; widthPx < 120; widthPx += 3) {
			expect(fitText(family.repeat(8), 12, widthPx)).toMatch(new RegExp(`^(${family})*…?$`, "u"));
		}
		expect(fitText(`e${"\u0301".repeat(99)}`, 12, 100)).toBe("e");
	});

	test("characters that XML forbids or that reorder text do not get through", () => {
		const svg = lineChart({
			title: "a\u0000b\ud800c\ufffe",
			unit: "count",
			days: ["2026-03-01"],
			series: [{ name: "\u202egpj.exe\u2066", values: [1] }],
		});
		expectSound(svg);
		expect(svg).not.toMatch(/[\u202a-\u202e\u2066-\u2069]|\0/);
		expect(svg).toContain("a\ufffdb\ufffdc\ufffd");
		expect(svg).toContain(">gpj.exe<");
		expect(escapeXml(`<>&"'`)).toBe("&lt;&gt;&amp;&quot;&#39;");
	});
});

/** Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB. */
const VISION = {
	usual: [1, 0, 0, 0, 1, 0, 0, 0, 1],
	protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
	deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
	tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
} as const;

function seen(colour: string, matrix: readonly number[]): [number, number, number] {
	const linear = [1, 3, 5].map((start) => {
		const channel = Number.parseInt(colour.slice(start, start + 2), 16) / 255;
		return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
	});
	const times = (weights: readonly number[], vector: readonly number[]) =>
		[0, 3, 6].map((row) => vector.reduce((sum, value, column) => sum + value * (weights[row + column] ?? 0), 0));
	const viewed = times(matrix, linear).map((value) => Math.min(1, Math.max(0, value)));
	const cones = times(
		[
			0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566, 0.0883024619, 0.2817188376,
			0.6299787005,
		],
		viewed,
	).map(Math.cbrt);
	const [light = 0, a = 0, b = 0] = times(
		[
			0.2104542553, 0.793617785, -0.0040720468, 1.9779984951, -2.428592205, 0.4505937099, 0.0259040371, 0.7827717662,
			-0.808675766,
		],
		cones,
	);
	return [light, a, b];
}

describe("the colours", () => {
	for (const [name, theme] of Object.entries({ light: LIGHT, dark: DARK })) {
		test(`${name}: series 3.2 : 1 on the background, text 4.5 : 1, numbers 4.5 : 1 on their bands`, () => {
			for (const colour of theme.series) {
				expect(contrastRatio(colour, theme.background)).toBeGreaterThanOrEqual(3.2);
				expect(contrastRatio(inkOn(colour), colour)).toBeGreaterThanOrEqual(4.5);
			}
			expect(contrastRatio(theme.text, theme.background)).toBeGreaterThanOrEqual(7);
			expect(contrastRatio(theme.mutedText, theme.background)).toBeGreaterThanOrEqual(4.5);
			expect(contrastRatio(theme.axis, theme.background)).toBeGreaterThanOrEqual(3);
		});

		test(`${name}: any two series differ for every kind of colour vision`, () => {
			for (const [vision, matrix] of Object.entries(VISION)) {
				const colours = theme.series.map((colour) => seen(colour, matrix));
				for (const [index, one] of colours.entries()) {
					for (const other of colours.slice(0, index)) {
						// Distance in OKLab; 0.02 can just be noticed side by side.
						expect(Math.hypot(...one.map((part, axis) => part - (other[axis] ?? 0))), vision).toBeGreaterThan(0.075);
					}
				}
			}
		});
	}

	test("series differ in dash and marker too, and bands carry numbers", () => {
		expect(LIGHT.series).toHaveLength(SERIES_LIMIT + 1);
		expect(new Set(DASHES).size).toBe(SERIES_LIMIT + 1);
		expect(MARKERS).toHaveLength(SERIES_LIMIT + 1);
		const draw = CHART_CASES["adoption-shares-366-days"];
		const { plot } = plotOf(panelOf(draw?.() ?? "", "wide"));
		expect(texts(plot).sort()).toEqual(["+", "1", "2", "3", "4", "5", "6", "7", "8"]);
	});

	test("the style sheet knows light and dark, stays inside the chart, and shows the narrow drawing on small screens", () => {
		const style = one(elements(parse(CHART_CASES["mau-31-days"]?.() ?? ""), "style")).textContent ?? "";
		const dark = /@media \(prefers-color-scheme:dark\)\{((?:[^{}]*\{[^{}]*\})*)\}/.exec(style)?.[1] ?? "";
		for (const [theme, rules] of [
			[LIGHT, style.replace(dark, "")],
			[DARK, dark],
		] as const) {
			expect(rules).toContain(`.background{fill:${theme.background}}`);
			for (const [slot, colour] of theme.series.entries()) expect(rules).toContain(`.series-${slot}{color:${colour}}`);
		}
		expect(style).toMatch(/@media \(max-width:\d+px\)\{[^@]*\.wide\{display:none\}[^@]*\.narrow\{display:inline\}/);
		const selectors = [...style.replace(/@media [^{]*\{/g, "").matchAll(/([^{}]+)\{[^{}]+\}/g)].map(
			([, selector]) => selector,
		);
		expect(selectors.length).toBeGreaterThan(40);
		for (const selector of selectors) {
			for (const part of selector?.split(",") ?? []) expect(part.trim()).toMatch(/^\.capstan-chart/);
		}
	});
});
