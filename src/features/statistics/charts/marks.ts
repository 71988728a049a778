/**
 * Marks of values: lines with markers, bars and bands with numbers. Every mark lies inside the plot, a day without a value is a gap, and a
 * single day between gaps is visible. Bands have the width of their days and no slanted edges.
 */
import { area, line, symbol } from "d3-shape";
import type { ChartModel, ModelSeries } from "./model";
import { estimatedWidthPx, round, text } from "./text";
import { DASHES, MARKERS, TURNED_MARKER } from "./theme";

export interface Plot {
	readonly left: number;
	readonly right: number;
	readonly top: number;
	readonly bottom: number;
	/** The width of one day. */
	readonly dayPx: number;
	readonly toX: (index: number) => number;
	readonly toY: (value: number) => number;
	readonly labelPx: number;
}

/** Strokes of full width would cover such narrow days. */
const densityClass = ({ dayPx }: Plot) => (dayPx < 4 ? " dense" : "");

const MARKER_SIZE_PX2 = 38;
/** From this distance on, every day has its marker. */
const MARKER_SPACE_PX = 10;
const CROWDED_MARKER_SPACE_PX = 18;
/** Below that distance each of several lines has a marker at intervals, and no two lines on the same day. */
const SPARSE_MARKER_SPACE_PX = 80;

function isMarked(index: number, slot: number, lineCount: number, dayPx: number): boolean {
	if (dayPx >= (lineCount > 3 ? CROWDED_MARKER_SPACE_PX : MARKER_SPACE_PX)) return true;
	if (lineCount === 1) return false;
	const stride = Math.ceil(SPARSE_MARKER_SPACE_PX / dayPx);
	return index % stride === Math.floor(((slot - 0.5) * stride) / (lineCount + 1));
}

const markerPaths = new Map<number, string>();

function markerPath(slot: number): string {
	const known = markerPaths.get(slot);
	if (known !== undefined) return known;
	const path = symbol(MARKERS[slot], MARKER_SIZE_PX2).digits(1)() ?? "";
	markerPaths.set(slot, path);
	return path;
}

function dashOf(slot: number): string {
	const dash = DASHES[slot] ?? "";
	return dash === "" ? "" : ` stroke-dasharray="${dash}"`;
}

function markerSvg(slot: number, x: number, y: number, enlargement = 1): string {
	const turned = slot === TURNED_MARKER ? " rotate(180)" : "";
	const scaled = enlargement === 1 ? "" : ` scale(${enlargement})`;
	return `<path class="marker" transform="translate(${round(x)},${round(y)})${turned}${scaled}" d="${markerPath(slot)}"/>`;
}

export function lineSvg({ values, slot }: ModelSeries, model: ChartModel, plot: Plot): string {
	const { toX, toY, dayPx } = plot;
	const path = line<number | null>(
		(_, index) => toX(index),
		(value) => toY(value ?? 0),
	)
		.defined((value) => value !== null)
		.digits(1)(values);
	const under = area<number | null>(
		(_, index) => toX(index),
		toY(0),
		(value) => toY(value ?? 0),
	)
		.defined((value) => value !== null)
		.digits(1)(values);
	const enlargement = values.length === 1 ? 1.5 : dayPx < 4 ? 0.7 : 1;
	const markers = values.map((value, index) => {
		if (value === null) return "";
		const isAlone = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
		const isShown = isAlone || isMarked(index, slot, model.series.length, dayPx);
		return isShown ? markerSvg(slot, toX(index), toY(value), enlargement) : "";
	});
	return [
		`<g class="series-${slot}">`,
		// The area under a single line makes it easier to read as an amount.
		model.series.length === 1 && under ? `<path class="under" d="${under}"/>` : "",
		path ? `<path class="line${densityClass(plot)}" d="${path}"${dashOf(slot)}/>` : "",
		...markers,
		"</g>",
	].join("");
}

/** From this width on days are separate bars; narrower days form one stepped band. */
const BAR_FROM_PX = 8;
const BAR_LIMIT_PX = 72;
const barWidthPx = (dayPx: number) => Math.min(BAR_LIMIT_PX, dayPx * 0.8);

export function bandSvg({ spans, slot }: ModelSeries, plot: Plot): string {
	const path = plot.dayPx >= BAR_FROM_PX ? barsPath(spans, plot) : stepsPath(spans, plot);
	return path === "" ? "" : `<path class="band series-${slot}${densityClass(plot)}" d="${path}"/>`;
}

function hasHeight(span: ModelSeries["spans"][number] | undefined): span is readonly [number, number] {
	return span !== null && span !== undefined && span[1] > span[0];
}

function barsPath(spans: ModelSeries["spans"], { toX, toY, dayPx }: Plot): string {
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

/** The number of the legend in the widest place of the band; none if it does not fit. */
export function bandNumber({ spans, slot }: ModelSeries, { toX, toY, dayPx, labelPx }: Plot): string {
	const sizePx = labelPx - 1;
	const content = numberOf(slot);
	const neededPx = estimatedWidthPx(content, sizePx) + 2;
	const isBars = dayPx >= BAR_FROM_PX;
	if (isBars && barWidthPx(dayPx) < neededPx) return "";
	const daysNeeded = isBars ? 1 : Math.ceil(neededPx / dayPx);
	// Inverted edges mark a day without a value as having no room.
	const edges = spans.map((span) => {
		return span === null ? { topPx: Infinity, bottomPx: 0 } : { topPx: toY(span[1]), bottomPx: toY(span[0]) };
	});
	const places: { roomPx: number; x: number; y: number }[] = [];
	for (let start = 0; start + daysNeeded <= edges.length; start++) {
		let topPx = 0;
		let bottomPx = Infinity;
		for (let day = start; day < start + daysNeeded; day++) {
			topPx = Math.max(topPx, edges[day]?.topPx ?? 0);
			bottomPx = Math.min(bottomPx, edges[day]?.bottomPx ?? 0);
		}
		if (bottomPx - topPx < sizePx + 2) continue;
		const x = toX(start + (daysNeeded - 1) / 2);
		places.push({ roomPx: bottomPx - topPx, x, y: (topPx + bottomPx) / 2 });
	}
	const mostPx = places.reduce((most, { roomPx }) => Math.max(most, roomPx), 0);
	// The middle one of the good places, so that a broad band has its number in the middle.
	const good = places.filter(({ roomPx }) => roomPx >= mostPx * 0.85);
	const best = good[Math.floor((good.length - 1) / 2)];
	if (best === undefined) return "";
	return text(content, {
		x: best.x,
		y: best.y + sizePx * 0.36,
		sizePx,
		className: `number ink-${slot}`,
		anchor: "middle",
	});
}

const numberOf = (slot: number) => (slot === 0 ? "+" : String(slot));

/** The sample of a series in the legend, as in the plot. */
export function sample(
	kind: ChartModel["kind"],
	slot: number,
	x: number,
	middle: number,
	labelPx: number,
	widthPx: number,
): string {
	if (kind === "line") {
		const stroke = `<path class="line" d="M${round(x)},${round(middle)}h${widthPx}"${dashOf(slot)}/>`;
		return `<g class="series-${slot}">${stroke}${markerSvg(slot, x + widthPx / 2, middle)}</g>`;
	}
	const heightPx = labelPx + 2;
	const swatch = `<rect class="band series-${slot}" x="${round(x)}" y="${round(middle - heightPx / 2)}" width="${widthPx}" height="${heightPx}" rx="2"/>`;
	const sizePx = labelPx - 1;
	const number = text(numberOf(slot), {
		x: x + widthPx / 2,
		y: middle + sizePx * 0.36,
		sizePx,
		className: `number ink-${slot}`,
		anchor: "middle",
	});
	return swatch + number;
}
