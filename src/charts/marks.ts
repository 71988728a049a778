/**
 * Marks of values: lines, bars and bands. Every mark lies inside the plot, a day without a value is
 * a gap, and a single day between gaps is visible. Bands have the width of their days and no
 * slanted edges.
 */
import { area, line } from "d3-shape";
import type { ChartModel, ModelSeries } from "./model";
import { round } from "./text";

export interface Plot {
	readonly left: number;
	readonly right: number;
	readonly top: number;
	readonly bottom: number;
	/** The width of one day. */
	readonly dayPx: number;
	readonly toX: (index: number) => number;
	readonly toY: (value: number) => number;
}

/** Strokes of full width would cover such narrow days. */
const densityClass = ({ dayPx }: Plot) => (dayPx < 4 ? " dense" : "");

const pointSvg = (x: number, y: number, radiusPx: number) =>
	`<circle class="marker" cx="${round(x)}" cy="${round(y)}" r="${radiusPx}"/>`;

export function lineSvg({ values, tone }: ModelSeries, model: ChartModel, plot: Plot): string {
	const { toX, toY } = plot;
	const path = linePath(values, plot);
	const under = model.series.length === 1 ? areaPath(values, plot) : "";
	const last = values.findLastIndex((value) => value !== null);
	const points = values.map((value, index) => {
		if (value === null) return "";
		if (index === last) return pointSvg(toX(index), toY(value), 3);
		const isAlone = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
		return isAlone ? pointSvg(toX(index), toY(value), 2) : "";
	});
	return [
		`<g class="tone-${tone}">`,
		// The area under a single line makes it easier to read as an amount.
		under === "" ? "" : `<path class="under" d="${under}"/>`,
		path === "" ? "" : `<path class="line${densityClass(plot)}" d="${path}"/>`,
		...points,
		"</g>",
	].join("");
}

type Scales = Pick<Plot, "toX" | "toY">;

/** Straight segments: daily values have nothing between them. Empty without a value. */
export function linePath(values: readonly (number | null)[], { toX, toY }: Scales): string {
	return (
		line<number | null>(
			(_, index) => toX(index),
			(value) => toY(value ?? 0),
		)
			.defined((value) => value !== null)
			.digits(1)(values) ?? ""
	);
}

/** From the zero line to the values. */
export function areaPath(values: readonly (number | null)[], scales: Scales): string {
	return spanPath(
		values.map((value) => (value === null ? null : [0, value])),
		scales,
	);
}

/** Between the two edges of each day. */
export function spanPath(spans: ModelSeries["spans"], { toX, toY }: Scales): string {
	return (
		area<ModelSeries["spans"][number]>(
			(_, index) => toX(index),
			(span) => toY(span?.[0] ?? 0),
			(span) => toY(span?.[1] ?? 0),
		)
			.defined((span) => span !== null)
			.digits(1)(spans) ?? ""
	);
}

/** From this width on days are separate bars; narrower days form one stepped band. */
const BAR_FROM_PX = 8;
const BAR_LIMIT_PX = 72;
const barWidthPx = (dayPx: number) => Math.min(BAR_LIMIT_PX, dayPx * 0.8);

export function bandSvg({ spans, tone }: ModelSeries, plot: Plot): string {
	const path = plot.dayPx >= BAR_FROM_PX ? barsPath(spans, plot) : stepsPath(spans, plot);
	return path === "" ? "" : `<path class="band tone-${tone}${densityClass(plot)}" d="${path}"/>`;
}

function hasHeight(span: ModelSeries["spans"][number] | undefined): span is readonly [number, number] {
	return span !== null && span !== undefined && span[1] > span[0];
}

export function barsPath(spans: ModelSeries["spans"], { toX, toY, dayPx }: Scales & Pick<Plot, "dayPx">): string {
	const widthPx = barWidthPx(dayPx);
	return spans
		.map((span, index) => {
			if (!hasHeight(span)) return "";
			const left = round(toX(index) - widthPx / 2);
			const right = round(toX(index) + widthPx / 2);
			return `M${left},${round(toY(span[0]))}H${right}V${round(toY(span[1]))}H${left}Z`;
		})
		.join("");
}

/** Each day covers its full width, so that a single day between gaps is visible. */
function stepsPath(spans: ModelSeries["spans"], { left, toY, dayPx }: Plot): string {
	const edge = (index: number) => round(left + index * dayPx);
	const paths: string[] = [];
	let start = 0;
	while (start < spans.length) {
		let end = start;
		while (hasHeight(spans[end])) end++;
		if (end > start) {
			const run = spans
				.slice(start, end)
				.map((span) => ({ low: round(toY(span?.[0] ?? 0)), high: round(toY(span?.[1] ?? 0)) }));
			const level = (index: number, side: "low" | "high") => run[index]?.[side];
			const there = run.map(({ high }, index) => {
				return (
					(high === level(index - 1, "high") ? "" : `V${high}`) +
					(high === level(index + 1, "high") ? "" : `H${edge(start + index + 1)}`)
				);
			});
			const back = run.map(({ low }, index) => {
				return (
					(low === level(index + 1, "low") ? "" : `V${low}`) +
					(low === level(index - 1, "low") ? "" : `H${edge(start + index)}`)
				);
			});
			paths.push(`M${edge(start)},${level(0, "low")}${there.join("")}${back.reverse().join("")}Z`);
		}
		start = end + 1;
	}
	return paths.join("");
}
