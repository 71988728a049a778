/**
 * Lanes of channels in the dashboard: where a version was live, in pixels and in words, and the
 * dates of the axis.
 */
import { describe, expect, test } from "vitest";
import { barsOf, type Lane, lanesSummary, xOf } from "../../dashboard/src/charts/lanes-model";
import { dayLabels, daysFromTo, daysText, longDay } from "../../dashboard/src/charts/time-axis";
import { spread } from "../../src/charts/labels";

const at = (text: string) => Date.parse(text);
const scale = { fromMs: at("2026-11-08"), toMs: at("2026-11-18"), left: 100, right: 600 };

describe("the bars of a lane", () => {
	test("lie inside of the axis, and one after the other", () => {
		const bars = barsOf(
			[
				{ version: "2.2.1", fromMs: at("2026-10-01"), toMs: at("2026-11-10") },
				{ version: "2.3.1", fromMs: at("2026-11-10"), toMs: at("2026-12-24") },
			],
			scale,
			12,
		);
		expect(bars.map(({ version, x, label }) => [version, x, label])).toEqual([
			["2.2.1", 100, "2.2.1"],
			["2.3.1", 200, "2.3.1"],
		]);
		expect(bars[0]?.widthPx).toBeLessThan(100);
		expect((bars[1]?.x ?? 0) + (bars[1]?.widthPx ?? 0)).toBeLessThanOrEqual(600);
	});

	test("leave out what ended before the axis begins, and what lasted no time", () => {
		const gone = { version: "1.0.0", fromMs: at("2026-09-01"), toMs: at("2026-09-02") };
		const never = { version: "1.0.1", fromMs: at("2026-11-10"), toMs: at("2026-11-10") };
		expect(barsOf([gone, never], scale, 12)).toEqual([]);
	});

	test("have a name only where it fits", () => {
		const hour = { version: "2.3.0", fromMs: at("2026-11-10T00:00:00Z"), toMs: at("2026-11-10T01:00:00Z") };
		expect(barsOf([hour], scale, 12)).toEqual([expect.objectContaining({ label: "" })]);
		const long = { version: "2.5.0-dev.3+build.20261110.7f3a", fromMs: at("2026-11-10"), toMs: at("2026-11-12") };
		expect(barsOf([long], scale, 12)[0]?.label).toMatch(/^2\.5.*….*a$/);
	});

	test("times outside of the axis are at its edges", () => {
		expect([xOf(scale, 0), xOf(scale, at("2030-01-01")), xOf(scale, at("2026-11-13"))]).toEqual([100, 600, 350]);
	});
});

test("the lanes read as one sentence each", () => {
	const lane: Lane = {
		name: "production",
		note: "8,064 devices",
		segments: [],
		now: "2.3.1",
		nowNote: "2.4.0 at 25 %",
	};
	expect(lanesSummary([lane, { name: "beta", note: "", segments: [], now: "2.4.0" }])).toBe(
		"production: 2.3.1, 2.4.0 at 25 %, 8,064 devices. beta: 2.4.0.",
	);
	expect(lanesSummary([])).toBe("No channel has a bundle.");
});

describe("the dates of the axis", () => {
	test("are as many as fit, and the last day is one of them", () => {
		const days = daysFromTo("2026-10-24", "2026-11-22");
		expect(days).toHaveLength(30);

		for (const widthPx of [50, 300, 800]) {
			const labels = dayLabels(days, widthPx);
			expect(labels.at(-1)?.text).toBe("22 Nov");
			expect(labels.length * 72).toBeLessThanOrEqual(Math.max(72, widthPx));
		}
		expect(dayLabels(["2026-11-22"], 300)).toEqual([{ index: 0, text: "22 Nov" }]);
		expect(dayLabels([], 300)).toEqual([]);
	});

	test("are days in UTC", () => {
		expect(longDay("2026-11-14")).toBe("Sat, 14 Nov 2026");
		expect(daysText(["2026-10-24", "2026-11-22"])).toBe("24 Oct – 22 Nov");
	});
});

test("names keep their order and do not touch", () => {
	expect(spread([50, 52, 54], 16, 0, 200)).toEqual([50, 66, 82]);
	expect(spread([190, 195, 199], 16, 0, 200)).toEqual([168, 184, 200]);
	expect(spread([], 16, 0, 200)).toEqual([]);
});
