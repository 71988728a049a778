/**
 * The drawing of a chart: marks, gaps, labels, names from strangers, and colours for every kind of
 * colour vision.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type ChartOptions, lineChart, type StackedChartOptions, stackedChart } from "../../src/charts/chart";
import { lineModel, SERIES_LIMIT, stackedModel } from "../../src/charts/model";
import { CATEGORIES, DARK_PALETTE, LIGHT_PALETTE, TONES, versionTones } from "../../src/charts/palette";
import { fitText } from "../../src/charts/text";
import { DARK, LIGHT } from "../../src/charts/theme";
import { escapeXml } from "../../src/domain/words/plain-text";
import { CHART_CASES, daysFrom } from "../proof/charts/cases";
import {
	cornersOf,
	elements,
	expectSound,
	MARCH,
	one,
	type Point,
	parse,
	pathOf,
	plotOf,
	shown,
	texts,
	withClass,
} from "./support/svg";

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
		expect(withClass(plotOf(parse(chart([7]))).plot, "marker")).toHaveLength(1);
		const stacked = stackedChart({
			title: "t",
			unit: "count",
			days: ["2026-03-01"],
			series: [{ name: "s", values: [7] }],
		});
		const [bar = []] = cornersOf(pathOf(one(withClass(plotOf(parse(stacked)).plot, "band"))));
		expect(Math.max(...bar.map(({ x }) => x)) - Math.min(...bar.map(({ x }) => x))).toBeCloseTo(72, 0);
		expect(Math.max(...bar.map(({ y }) => y)) - Math.min(...bar.map(({ y }) => y))).toBeGreaterThan(100);
	});

	test("a day without a value is a gap, and a day alone between gaps is marked", () => {
		const values = Array.from({ length: 366 }, (_, day) => (day % 50 > 40 && day % 50 !== 45 ? null : 10 + (day % 7)));
		const { plot } = plotOf(parse(chart(values)));
		const runs = values.filter((value, day) => value !== null && (values[day - 1] ?? null) === null).length;
		const alone = values.filter(
			(value, day) => value !== null && (values[day - 1] ?? null) === null && (values[day + 1] ?? null) === null,
		).length;
		expect(alone).toBe(7);
		expect(cornersOf(pathOf(one(withClass(plot, "line"))))).toHaveLength(runs);
		// The last value has a point too.
		expect(withClass(plot, "marker")).toHaveLength(alone + 1);
	});

	test("a null in a stack is a gap only if every value of the day is null", () => {
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

	test("bands of narrow days have the height of their values and touch", () => {
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
		const { plot, top, bottom } = plotOf(parse(svg));
		const [lower, upper] = withClass(plot, "band").map((band) => cornersOf(pathOf(band)).flat());
		const highest = (points: readonly Point[] | undefined) => Math.min(...(points ?? []).map(({ y }) => y));
		const pixels = (value: number) => bottom - ((bottom - top) * value) / 400;
		expect(highest(lower)).toBeCloseTo(pixels(300), 0);
		expect(highest(upper)).toBeCloseTo(pixels(400), 0);
		const edges = new Set(lower?.map(({ x, y }) => `${x} ${y}`));
		expect(upper?.filter(({ y }) => y > pixels(399)).every(({ x, y }) => edges.has(`${x} ${y}`))).toBe(true);
	});

	test("a chart without values says so", () => {
		expect(texts(parse(lineChart({ title: "t", unit: "count", days: [], series: [] })))).toContain("No data");
		expect(texts(parse(chart([null, null])))).toContain("No data (31 Mar – 1 Apr 2025)");
		expect(texts(parse(chart([0, 0])))).toContain("All values are 0 (31 Mar – 1 Apr 2025)");
		expect(texts(parse(chart([0, 1]))).join()).not.toMatch(/No data|All values/);
	});

	test("title, days, axis with unit, legend and time of creation are legible", () => {
		const svg = lineChart({
			title: "Storage",
			subtitle: "com.example.shop",
			unit: "bytes",
			valueLabel: "Stored",
			days: MARCH,
			series: [{ name: "com.example.shop", values: MARCH.map((_, day) => day * 1e8) }],
			generatedAtMs: Date.UTC(2026, 3, 1, 6, 30),
		});
		const shownTexts = texts(parse(svg));
		expect(shownTexts).toEqual(
			expect.arrayContaining([
				"Storage",
				"com.example.shop · 1–31 Mar 2026",
				"com.example.shop",
				"Stored (GiB)",
				"Day (UTC), Mondays labelled",
				"Generated 2026-04-01 06:30 UTC",
			]),
		);
		expect(shownTexts.filter((shownText) => shownText === "Storage")).toHaveLength(1);
	});

	test("the description has the figures in words", () => {
		const description = one(elements(parse(chart([3, null, 9, 1])), "desc")).textContent;
		expect(description).toBe(
			"Line chart of count, 31 Mar – 3 Apr 2025, 4 days in UTC. Installs: 3 on 31 Mar 2025, 1 on 3 Apr 2025; " +
				"lowest 1 on 3 Apr 2025, highest 9 on 2 Apr 2025; 1 day without a value.",
		);
	});

	test("the largest of many series are drawn, with the leaders of the last day, and the others are added up", () => {
		const days = daysFrom("2026-03-01", 10);
		const series = Array.from({ length: 20 }, (_, index) => ({
			name: `1.0.${index}`,
			values: days.map((_, day) => (index >= 17 ? (day === 9 ? index : 0) : 100 - index)),
		}));
		const names = (options: StackedChartOptions) => stackedModel(options).series.map(({ name }) => name);
		const options = { title: "t", unit: "count", days, series } as const;
		// 1.0.0 to 1.0.2 lead on the last day and overall; the new ones do not.
		expect(names(options)).toEqual([...Array.from({ length: 7 }, (_, index) => `1.0.${index}`), "Other (13)"]);
		const leading = series.map(({ name, values }, index) => ({
			name,
			values: values.map((value, day) => (index >= 17 && day === 9 ? 500 : value)),
		}));
		const model = stackedModel({ ...options, series: leading });
		expect(model.series.map(({ name }) => name)).toEqual([
			"1.0.0",
			"1.0.1",
			"1.0.2",
			"1.0.3",
			"1.0.17",
			"1.0.18",
			"1.0.19",
			"Other (13)",
		]);
		const rest = Array.from({ length: 13 }, (_, index) => 100 - (index + 4)).reduce((sum, value) => sum + value);
		expect(model.series.at(-1)?.values).toEqual(days.map(() => rest));
		expect(lineModel(options).series).toHaveLength(SERIES_LIMIT);
		expect(texts(parse(lineChart(options)))).toContain("12 not drawn");
	});

	test("refuses input that cannot be drawn truly", () => {
		const days = daysFrom("2026-03-01", 2);
		const options = (values: number[]) =>
			({ title: "t", unit: "count", days, series: [{ name: "s", values }] }) as const;
		expect(() => lineChart(options([1, Number.NaN]))).toThrow(RangeError);
		expect(() => lineChart(options([1, Number.POSITIVE_INFINITY]))).toThrow(RangeError);
		expect(() => lineChart(options([1]))).toThrow('series "s" has 1 values for 2 days');
		expect(() => stackedChart(options([1, -1]))).toThrow("values of a stack must not be negative");
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

	test("a long name is shortened in the middle, and complete in its title", () => {
		const names = ["a", "b", "c", "d", "e"].map((end) => `com.example.${"long.".repeat(36)}${end}`);
		const svg = lineChart({
			title: "t",
			unit: "count",
			days: MARCH,
			series: names.map((name) => ({ name, values: MARCH.map(() => 1) })),
		});
		const entries = elements(one(withClass(parse(svg), "legend")), "text");
		expect(entries.map((entry) => entry.textContent?.slice(0, names[0]?.length))).toEqual(names);
		const labels = entries.map(shown);
		for (const label of labels) expect(label).toMatch(/^com.*….*g\.[a-e]$/);
		expect(new Set(labels).size).toBe(5);
	});

	test("shortening never splits a visible character", () => {
		const family = "👩‍👩‍👧‍👦";
		for (let widthPx = 0; widthPx < 120; widthPx += 3) {
			expect(fitText(family.repeat(8), 12, widthPx)).toMatch(new RegExp(`^(${family})*…?$`, "u"));
		}
		expect(fitText(`e${"\u0301".repeat(99)}`, 12, 100)).toBe("e");
	});

	test("removes characters that XML forbids or that reorder text", () => {
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

function luminance(colour: string): number {
	const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
		const channel = Number.parseInt(colour.slice(start, start + 2), 16) / 255;
		return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The contrast ratio of WCAG 2, 1 to 21. */
function contrastRatio(one: string, other: string): number {
	const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
	return (lighter + 0.05) / (darker + 0.05);
}

describe("the colours", () => {
	for (const [name, theme] of Object.entries({ light: LIGHT, dark: DARK })) {
		const categories = CATEGORIES.map((tone) => theme.palette[tone]);

		test(`${name}: categories 3 : 1 on the background, text 4.5 : 1`, () => {
			for (const colour of categories) expect(contrastRatio(colour, theme.background)).toBeGreaterThanOrEqual(3);
			expect(contrastRatio(theme.text, theme.background)).toBeGreaterThanOrEqual(7);
			expect(contrastRatio(theme.mutedText, theme.background)).toBeGreaterThanOrEqual(4.5);
			expect(contrastRatio(theme.axis, theme.background)).toBeGreaterThanOrEqual(3);
		});

		test(`${name}: any two categories differ for every kind of colour vision`, () => {
			for (const [vision, matrix] of Object.entries(VISION)) {
				const colours = categories.map((colour) => seen(colour, matrix));
				for (const [index, one] of colours.entries()) {
					for (const other of colours.slice(0, index)) {
						// Distance in OKLab; 0.02 can just be noticed side by side.
						expect(Math.hypot(...one.map((part, axis) => part - (other[axis] ?? 0))), vision).toBeGreaterThan(0.075);
					}
				}
			}
		});
	}

	test("are those of the dashboard's theme", () => {
		const css = readFileSync(new URL("../../dashboard/src/theme.css", import.meta.url), "utf8");
		for (const tone of TONES) {
			const values = [...css.matchAll(new RegExp(`--${tone}: (#[0-9a-f]{6})`, "g"))].map(([, value]) => value);
			expect(values, tone).toEqual([LIGHT_PALETTE[tone], DARK_PALETTE[tone]]);
		}
	});

	test("the live version is s4, older versions are paler, and one that rolls out is ro", () => {
		const tones = versionTones(["builtin", "1.0.0", "1.1.0", "1.2.0", "unknown"], "1.1.0");
		expect([...tones]).toEqual(
			expect.arrayContaining([
				["builtin", "store"],
				["1.0.0", "s2"],
				["1.1.0", "s4"],
				["1.2.0", "ro"],
				["unknown", "c8"],
			]),
		);
		expect(versionTones(["1.0.0", "1.1.0"]).get("1.1.0")).toBe("s4");
		expect(versionTones(["builtin"]).get("builtin")).toBe("store");
	});

	test("every series has its name beside its last value, in the order of the marks", () => {
		const days = daysFrom("2026-03-01", 2);
		const series = ["one", "two", "three"].map((name, index) => ({ name, values: [5, 9 - index * 4] }));
		const namesOf = (svg: string) => elements(one(withClass(parse(svg), "legend")), "text").map(shown);
		expect(namesOf(lineChart({ title: "t", unit: "count", days, series }))).toEqual(["one", "two", "three"]);
		expect(namesOf(stackedChart({ title: "t", unit: "count", days, series }))).toEqual(["three", "two", "one"]);
	});

	test("the style sheet has light and dark, and is scoped to the chart", () => {
		const style = one(elements(parse(CHART_CASES["mau-31-days"]?.() ?? ""), "style")).textContent ?? "";
		const dark = /@media \(prefers-color-scheme:dark\)\{((?:[^{}]*\{[^{}]*\})*)\}/.exec(style)?.[1] ?? "";
		for (const [theme, rules] of [
			[LIGHT, style.replace(dark, "")],
			[DARK, dark],
		] as const) {
			expect(rules).toContain(`.background{fill:${theme.background}}`);
			for (const tone of TONES) expect(rules).toContain(`.tone-${tone}{color:${theme.palette[tone]}}`);
		}
		const selectors = [...style.replace(/@media [^{]*\{/g, "").matchAll(/([^{}]+)\{[^{}]+\}/g)].map(
			([, selector]) => selector,
		);
		expect(selectors.length).toBeGreaterThan(40);
		for (const selector of selectors) {
			for (const part of selector?.split(",") ?? []) expect(part.trim()).toMatch(/^\.capstan-chart/);
		}
	});
});
