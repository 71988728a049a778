/**
 * The model of an interactive chart, without a browser: the drawn model of the series that are
 * switched on, scales, cursor, release flags, texts, and the table. It stands on the model of the
 * API's charts, so that both draw the same figures. Pure.
 */
import { valueAxis } from "../../../src/charts/axes";
import { type ChartModel, type ChartSeries, lineModel, type Marker, stackedModel } from "../../../src/charts/model";
import type { Tone } from "../../../src/charts/palette";
import { estimatedWidthPx, formatQuantity, type Unit } from "../../../src/charts/text";
import type { CsvCell } from "../../../src/http/csv";
import { daysBetween, longDay, shortDay } from "./time-axis";

type ChartKind = "line" | "area" | "bars";

export interface Comparison {
	/** "30 days before" */
	readonly label: string;
	/** As many as the chart has. */
	readonly days: readonly string[];
	readonly values: readonly (number | null)[];
}

export interface ChartData {
	/** The figure in words, e.g. "Installs". */
	readonly title: string;
	readonly kind: ChartKind;
	readonly unit: Unit;
	readonly days: readonly string[];
	readonly series: readonly ChartSeries[];
	/** Draws a stack as shares of each day; values in texts have both. */
	readonly shares?: boolean;
	/** The axis of percentages ends at their greatest value, for small rates. */
	readonly fitsValues?: boolean;
	/** Series are versions from old to new. */
	readonly versions?: boolean;
	readonly tones?: ReadonlyMap<string, Tone>;
	readonly markers?: readonly Marker[];
	readonly comparison?: Comparison;
}

export interface ShownSeries {
	readonly name: string;
	readonly tone: Tone;
	/** In the unit of the data. */
	readonly values: readonly (number | null)[];
}

/**
 * The series of the chart after those beyond the limit are added up, each with its tone, in the
 * order of the legend.
 */
export function shownSeries(data: ChartData): ShownSeries[] {
	const { title, unit, days, series, versions = false, tones = new Map() } = data;
	const options = { title, unit, days, series, versions, tones };
	const model = data.kind === "line" ? lineModel(options) : stackedModel(options);
	return model.series.map(({ name, tone, values }) => ({
		name,
		tone,
		values: values.map((value) => (value === null ? null : value * model.factor)),
	}));
}

/**
 * The model that is drawn: without hidden series, with a scale that has room for the comparison.
 */
export function drawnModel(data: ChartData, shown: readonly ShownSeries[], hidden: ReadonlySet<string>): ChartModel {
	const { title, unit, days, shares = false, markers = [], comparison } = data;
	const series = shown.filter(({ name }) => !hidden.has(name));
	const tones = new Map(shown.map(({ name, tone }) => [name, tone]));
	const options = { title, unit, days, series, tones, markers };
	if (data.kind !== "line") return stackedModel({ ...options, shares });
	const before = comparison === undefined ? [] : [{ name: comparison.label, values: comparison.values }];
	const wide = lineModel({ ...options, series: [...series, ...before] });
	return { ...wide, series: wide.series.slice(0, series.length) };
}

interface PlotArea {
	readonly left: number;
	readonly right: number;
	readonly top: number;
	readonly bottom: number;
}

export interface ChartScales extends PlotArea {
	readonly dayPx: number;
	readonly toX: (index: number) => number;
	readonly toY: (value: number) => number;
	readonly ticks: readonly { readonly y: number; readonly text: string }[];
}

const UNIT_SUFFIXES: Readonly<Record<string, string>> = {
	"": "",
	thousand: "k",
	million: "M",
	billion: "B",
	trillion: "T",
};

/** The unit of the axis stands at its ticks, because the chart has no room for a second title. */
function suffixOf({ unit, axisTitle }: ChartModel): string {
	const name = /\(([^)]*)\)$/.exec(axisTitle)?.[1] ?? "";
	if (unit === "count") return UNIT_SUFFIXES[name] ?? ` ${name}`;
	return name === "" ? "" : `\u00a0${name === "bytes" ? "B" : name}`;
}

export const TICK_PX = 12;
const PX_PER_TICK = 52;

/** Bars have a band for each day; lines and areas begin and end at the edges of the plot. */
export function scalesOf(
	model: ChartModel,
	{ kind, fitsValues = false }: Pick<ChartData, "kind" | "fitsValues">,
	area: Omit<PlotArea, "left">,
): ChartScales {
	const { right, top, bottom } = area;
	const count = Math.max(2, Math.floor((bottom - top) / PX_PER_TICK));
	const axis = valueAxis(model.unit, model.factor, model.low, model.high, count, fitsValues);
	const suffix = suffixOf(model);
	const toY = (value: number) => bottom - ((value - axis.low) / (axis.high - axis.low)) * (bottom - top);
	const ticks = axis.ticks.map(({ value, text }) => ({ y: toY(value), text: value === 0 ? "0" : `${text}${suffix}` }));
	const widestPx = ticks.reduce((most, { text }) => Math.max(most, estimatedWidthPx(text, TICK_PX)), 0);
	const left = Math.ceil(widestPx) + 8;
	const days = Math.max(1, model.days.length);
	const isBanded = kind === "bars" || days === 1;
	const dayPx = isBanded ? (right - left) / days : (right - left) / (days - 1);
	const toX = (index: number) => left + (isBanded ? index + 0.5 : index) * dayPx;
	return { left, right, top, bottom, dayPx, toX, toY, ticks };
}

/** The day nearest to a place of the pointer. */
export function dayAt({ left, dayPx, toX }: ChartScales, xPx: number, days: number): number {
	const index = Math.round((xPx - left - (toX(0) - left)) / dayPx);
	return Math.min(days - 1, Math.max(0, index));
}

/** A day of the chart, and the series under the pointer. */
export interface OpenTarget {
	readonly index: number;
	/** YYYY-MM-DD */
	readonly day: string;
	readonly series?: string;
}

/** The series of a stack at a height of the plot. */
export function seriesAt(model: ChartModel, { top, bottom, toY }: ChartScales, index: number, yPx: number) {
	if (model.kind === "line" || yPx < top || yPx > bottom) return undefined;
	return model.series.find(({ spans }) => {
		const span = spans[index];
		return span !== null && span !== undefined && yPx <= toY(span[0]) && yPx >= toY(span[1]);
	})?.name;
}

/** Whether there is something to draw; a stack of zeros is nothing. */
export function hasFigures({ kind, series }: ChartData): boolean {
	return series.some(({ values }) => values.some((value) => value !== null && (kind === "line" || value > 0)));
}

export const END_NAME_PX = 120;
export const NAME_GAP_PX = 12;

/** Room for the names at the right; none for a single series, which the legend names. */
export function endNamesPx({ series }: ChartModel): number {
	if (series.length < 2) return 0;
	const widths = series.map(({ name }) => Math.min(END_NAME_PX, estimatedWidthPx(name, TICK_PX)));
	return NAME_GAP_PX + 13 + Math.ceil(Math.max(...widths));
}

/** The day after a key; undefined if the key does not move the cursor. */
export function dayAfterKey(key: string, index: number | undefined, days: number): number | undefined {
	const last = days - 1;
	const from = index ?? last;
	const moves: Readonly<Record<string, number>> = {
		ArrowLeft: index === undefined ? last : from - 1,
		ArrowRight: index === undefined ? last : from + 1,
		PageUp: from - 7,
		PageDown: from + 7,
		Home: 0,
		End: last,
	};
	const next = moves[key];
	return next === undefined || days === 0 ? undefined : Math.min(last, Math.max(0, next));
}

interface TipRow {
	readonly name: string;
	readonly tone: Tone | "before";
	readonly text: string;
}

export interface Tip {
	/** "Sat, 14 Nov 2026" */
	readonly day: string;
	readonly rows: readonly TipRow[];
	/** "1 day after 2.3.1" */
	readonly note: string;
}

const NO_VALUE = "no data";

/** A day in words and figures; a stack from its top, lines from the greatest value. */
export function tipOf(data: ChartData, shown: readonly ShownSeries[], hidden: ReadonlySet<string>, index: number): Tip {
	const { unit, days, comparison, shares = false } = data;
	const visible = shown.filter(({ name }) => !hidden.has(name));
	const total = visible.reduce((sum, { values }) => sum + (values[index] ?? 0), 0);
	const textOfValue = (value: number | null) => {
		if (value === null) return NO_VALUE;
		const quantity = formatQuantity(unit, value);
		return shares && total > 0 ? `${quantity} (${formatQuantity("percent", (value / total) * 100)})` : quantity;
	};
	const rows = visible.map(({ name, tone, values }) => ({ name, tone, value: values[index] ?? null }));
	const isStack = data.kind !== "line";
	if (isStack) rows.reverse();
	else rows.sort((one, other) => (other.value ?? -1) - (one.value ?? -1));
	// Versions that no device ran on this day say nothing.
	const telling = isStack && rows.length > 2 ? rows.filter(({ value }) => value !== null && value > 0) : rows;
	const before =
		comparison === undefined
			? []
			: [
					{
						name: shortDay(comparison.days[index] ?? ""),
						tone: "before" as const,
						text: textOfValue(comparison.values[index] ?? null),
					},
				];
	return {
		day: longDay(days[index] ?? ""),
		rows: [...telling.map(({ name, tone, value }) => ({ name, tone, text: textOfValue(value) })), ...before],
		note: noteOf(data.markers ?? [], days[index] ?? ""),
	};
}

/** Beyond this distance a release explains nothing. */
const TELLING_DAYS = 14;

function noteOf(markers: readonly Marker[], day: string): string {
	const last = lastMarker(markers, day);
	if (last === undefined) return "";
	const days = daysBetween(last.day, day);
	if (days > TELLING_DAYS) return "";
	if (days === 0) return `Day of ${last.label}`;
	return `${days} ${days === 1 ? "day" : "days"} after ${last.label}`;
}

/** The last release on the day or before it. */
export function lastMarker<Each extends Marker>(markers: readonly Each[], day: string): Each | undefined {
	return markers
		.filter((marker) => marker.day <= day)
		.sort((one, other) => (one.day < other.day ? -1 : 1))
		.at(-1);
}

/** The day in one sentence, for the live region. */
export function spokenTip({ day, rows, note }: Tip): string {
	const values = rows.map(({ name, text }) => `${name} ${text}`).join(", ");
	return `${day}: ${values === "" ? NO_VALUE : values}.${note === "" ? "" : ` ${note}.`}`;
}

/** The table behind the chart: a row for each day, the newest first. */
export function tableOf(data: ChartData, shown: readonly ShownSeries[]) {
	const { comparison, days } = data;
	const columns = ["Day", ...shown.map(({ name }) => name), ...(comparison === undefined ? [] : [comparison.label])];
	const rows: (readonly [day: string, ...values: (number | null)[]])[] = days.map((day, index) => [
		day,
		...shown.map(({ values }) => values[index] ?? null),
		...(comparison === undefined ? [] : [comparison.values[index] ?? null]),
	]);
	return { columns, rows: rows.reverse() };
}

const CSV_UNITS: Readonly<Record<Unit, string>> = {
	count: "",
	bytes: " (bytes)",
	percent: " (%)",
	milliseconds: " (ms)",
};

/** The same table for a file, in the unit of the data and from old to new. */
export function csvOf(data: ChartData, shown: readonly ShownSeries[]) {
	const { columns, rows } = tableOf(data, shown);
	const [, ...names] = columns;
	const header = ["date", ...names.map((name) => `${name}${CSV_UNITS[data.unit]}`)];
	const cells: (readonly CsvCell[])[] = rows.map((row) => [...row]).reverse();
	return { columns: header, rows: cells };
}
