/**
 * The model of a chart before it is drawn: the series that are kept, their unit and stack, and a
 * description in words. Values are in the unit of the axis, so that even the greatest finite
 * numbers add up without overflow.
 */

import { stack } from "d3-shape";
import { DAY_MS } from "../domain/time";
import { formatDay, formatDays, parseDay } from "./axes";
import { CATEGORIES, OTHER_TONE, type Tone, versionTones } from "./palette";
import { cleanName, formatQuantity, quotedName, type Unit, unitScale } from "./text";

/** As many series as a reader can distinguish. */
export const SERIES_LIMIT = CATEGORIES.length;

export interface ChartSeries {
	readonly name: string;
	/** One per day; null is a day without a value, which is not zero. */
	readonly values: readonly (number | null)[];
}

export interface ChartOptions {
	readonly title: string;
	readonly subtitle?: string;
	readonly unit: Unit;
	/** Label of the axis: "Devices", "Downloads". */
	readonly valueLabel?: string;
	/** Consecutive days in UTC, YYYY-MM-DD. */
	readonly days: readonly string[];
	readonly series: readonly ChartSeries[];
	readonly generatedAtMs?: number;
	/** Series are versions from old to new; their tones are those of `versionTones`. */
	readonly versions?: boolean;
	/** Tones by name, where the caller knows more than the figures. */
	readonly tones?: ReadonlyMap<string, Tone>;
	/** Releases and other moments. */
	readonly markers?: readonly Marker[];
}

/** A moment on the time axis. */
export interface Marker {
	/** YYYY-MM-DD. */
	readonly day: string;
	readonly label: string;
}

export interface StackedChartOptions extends ChartOptions {
	/** Draws each day's values as percentages of that day's sum. */
	readonly shares?: boolean;
}

export interface ModelSeries {
	readonly name: string;
	readonly tone: Tone;
	/** In the unit of the axis. */
	readonly values: readonly (number | null)[];
	/** Lower and upper edge of each day in the stack; for a line zero and the value. */
	readonly spans: readonly (readonly [number, number] | null)[];
}

export interface ChartModel {
	readonly kind: "line" | "stacked";
	readonly title: string;
	readonly subtitle: string;
	/** The days in words. */
	readonly range: string;
	readonly description: string;
	readonly axisTitle: string;
	readonly unit: Unit;
	readonly factor: number;
	readonly low: number;
	readonly high: number;
	readonly days: readonly string[];
	readonly series: readonly ModelSeries[];
	/** Those of a day of the chart, in order. */
	readonly markers: readonly { readonly index: number; readonly label: string }[];
	/** Note in the legend about series that are not drawn. */
	readonly omission: string | null;
	/** Note in the plot if there are no values, or only zeros. */
	readonly emptyText: string | null;
	readonly hasValues: boolean;
	readonly footer: string;
}

export const fullSubtitle = ({ subtitle, range }: ChartModel) => [subtitle, range].filter(Boolean).join(" · ");

const DEFAULT_LABELS: Readonly<Record<Unit, string>> = {
	count: "Count",
	bytes: "Size",
	percent: "Share",
	milliseconds: "Time",
};

function validate({ days, series }: ChartOptions): void {
	days.forEach((day, index) => {
		parseDay(day);
		const before = days[index - 1];
		if (before !== undefined && Date.parse(day) - Date.parse(before) !== DAY_MS) {
			throw new RangeError(`the days of a chart are consecutive, but ${day} follows ${before}`);
		}
	});
	for (const { name, values } of series) {
		if (values.length !== days.length) {
			throw new RangeError(`series "${name}" has ${values.length} values for ${days.length} days`);
		}
		if (!values.every((value) => value === null || Number.isFinite(value))) {
			throw new RangeError(`series "${name}" has a value that is not a finite number`);
		}
	}
}

const present = (values: readonly (number | null)[]) => values.filter((value) => value !== null);
function numbersOf(series: readonly ChartSeries[]): number[] {
	const numbers: number[] = [];
	for (const { values } of series) for (const value of values) if (value !== null) numbers.push(value);
	return numbers;
}
/** Math.max(...values) would overflow the stack. */
const greatest = (values: readonly number[]) => values.reduce((most, value) => Math.max(most, value), 0);
const least = (values: readonly number[]) => values.reduce((most, value) => Math.min(most, value), 0);
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** Sizes are fractions of the greatest value, so that they do not overflow. */
function positionsBySize(series: readonly ChartSeries[]): number[] {
	const unit = greatest(numbersOf(series).map(Math.abs)) || 1;
	const sizes = series.map(({ values }, position) => ({
		position,
		size: sum(present(values).map((value) => Math.abs(value / unit))),
	}));
	return sizes.sort((a, b) => b.size - a.size || a.position - b.position).map(({ position }) => position);
}

/**
 * Places for the largest series of the last day, because a new series is never among the largest of
 * a long range.
 */
const LEADERS_OF_THE_LAST_DAY = 3;

function keptPositions(series: readonly ChartSeries[], limit: number): ReadonlySet<number> {
	const lastDay = series.map(({ name, values }) => ({ name, values: values.slice(-1) }));
	const leaders = positionsBySize(lastDay)
		.filter((position) => (lastDay[position]?.values[0] ?? 0) !== 0)
		.slice(0, LEADERS_OF_THE_LAST_DAY);
	return new Set([...new Set([...leaders, ...positionsBySize(series)])].slice(0, limit));
}

type Draft = Pick<ModelSeries, "name" | "tone" | "values">;

function keptSeries(options: ChartOptions, limit: number): { kept: Draft[]; rest: ChartSeries[] } {
	const { series } = options;
	const positions = keptPositions(series, limit);
	const chosen = series.filter((_, position) => positions.has(position));
	const tones = options.versions === true ? tonesOfVersions(chosen) : undefined;
	const kept = chosen.map(({ name, values }, index) => ({
		name: cleanName(name),
		tone: options.tones?.get(name) ?? tones?.get(name) ?? CATEGORIES[index] ?? OTHER_TONE,
		values,
	}));
	return { kept, rest: series.filter((_, position) => !positions.has(position)) };
}

/** The version with the most devices of the last day counts as the live one. */
function tonesOfVersions(series: readonly ChartSeries[]) {
	const ofLastDay = series.map(({ name, values }) => ({ name, values: values.slice(-1) }));
	const leader = positionsBySize(ofLastDay)[0];
	return versionTones(
		series.map(({ name }) => name),
		leader === undefined ? undefined : series[leader]?.name,
	);
}

function describe(kind: string, label: string, unit: Unit, days: readonly string[], series: readonly Draft[]): string {
	const on = (index: number) => `on ${formatDay(days[index] ?? "")}`;
	const lines = series.map(({ name, values }) => {
		const known = values.flatMap((value, index) => (value === null ? [] : [{ value, index }]));
		const first = known[0];
		const last = known.at(-1);
		if (first === undefined || last === undefined) return `${quotedName(name)}: no values.`;
		const quantity = ({ value, index }: { value: number; index: number }) =>
			`${formatQuantity(unit, value)} ${on(index)}`;
		if (known.length === 1) return `${quotedName(name)}: ${quantity(first)}.`;
		const lowest = known.reduce((most, item) => (item.value < most.value ? item : most));
		const highest = known.reduce((most, item) => (item.value > most.value ? item : most));
		const missing = days.length - known.length;
		const gaps = missing === 0 ? "" : `; ${missing} ${missing === 1 ? "day" : "days"} without a value`;
		return `${quotedName(name)}: ${quantity(first)}, ${quantity(last)}; lowest ${quantity(lowest)}, highest ${quantity(highest)}${gaps}.`;
	});
	const length = `${days.length} ${days.length === 1 ? "day" : "days"}`;
	const range = days.length === 0 ? "no days" : `${formatDays(days)}, ${length} in UTC`;
	return [`${kind} chart of ${label.toLowerCase()}, ${range}.`, ...lines].join(" ");
}

function emptyText(days: readonly string[], numbers: readonly number[]): string | null {
	const range = days.length === 0 ? "" : ` (${formatDays(days)})`;
	if (numbers.length === 0) return `No data${range}`;
	return numbers.every((value) => value === 0) ? `All values are 0${range}` : null;
}

function common(options: ChartOptions, unit: Unit, label: string, unitName: string) {
	const { title, subtitle, days, generatedAtMs, markers = [] } = options;
	return {
		markers: markers
			.map(({ day, label }) => ({ index: days.indexOf(day), label: cleanName(label) }))
			.filter(({ index }) => index >= 0)
			.sort((one, other) => one.index - other.index),
		title: cleanName(title),
		subtitle: subtitle === undefined ? "" : cleanName(subtitle),
		range: formatDays(days),
		axisTitle: unitName === "" ? label : `${label} (${unitName})`,
		unit,
		days,
		footer:
			generatedAtMs === undefined
				? ""
				: `Generated ${new Date(generatedAtMs).toISOString().slice(0, 16).replace("T", " ")} UTC`,
	};
}

export function lineModel(options: ChartOptions): ChartModel {
	validate(options);
	const { unit, days } = options;
	const { kept, rest } = keptSeries(options, SERIES_LIMIT);
	const numbers = numbersOf(kept);
	const scale = unitScale(unit, greatest(numbers.map(Math.abs)));
	const series = kept.map((draft) => {
		const values = draft.values.map((value) => (value === null ? null : value / scale.factor));
		return { ...draft, values, spans: values.map((value) => (value === null ? null : ([0, value] as const))) };
	});
	const label = cleanName(options.valueLabel ?? DEFAULT_LABELS[unit]);
	const drawn = numbersOf(series);
	const omission = rest.length === 0 ? null : `${rest.length} not drawn`;
	return {
		...common(options, unit, label, scale.name),
		kind: "line",
		description:
			describe("Line", label, unit, days, kept) +
			(omission === null ? "" : ` ${rest.length} smaller series are not drawn.`),
		factor: scale.factor,
		low: least(drawn),
		high: greatest(drawn),
		series,
		omission,
		emptyText: emptyText(days, numbers),
		hasValues: drawn.length > 0,
	};
}

/** Divides by `unit` first, so that sums stay finite. Null on a day without any value. */
function sumOf(series: readonly ChartSeries[], days: readonly string[], unit: number): (number | null)[] {
	return days.map((_, day) => {
		const values = present(series.map(({ values }) => values[day] ?? null));
		return values.length === 0 ? null : sum(values.map((value) => value / unit));
	});
}

export function stackedModel(options: StackedChartOptions): ChartModel {
	validate(options);
	const { days, shares = false } = options;
	if (numbersOf(options.series).some((value) => value < 0))
		throw new RangeError("values of a stack must not be negative");
	// A sum of one series would hide its name, so the limit has no ninth layer.
	const isMany = options.series.length > SERIES_LIMIT;
	const { kept, rest } = keptSeries(options, isMany ? SERIES_LIMIT - 1 : SERIES_LIMIT);
	// If plain sums overflow, values are counted in multiples of the greatest one.
	const numbers = numbersOf(options.series);
	const guard = Number.isFinite(sum(numbers)) ? 1 : greatest(numbers);
	const drafts: Draft[] = kept.map((draft) => ({
		...draft,
		values: draft.values.map((value) => (value === null ? null : value / guard)),
	}));
	if (rest.length > 0) {
		drafts.push({ name: `Other (${rest.length})`, tone: OTHER_TONE, values: sumOf(rest, days, guard) });
	}
	const totals = sumOf(drafts, days, 1);
	const unit = shares ? "percent" : options.unit;
	const magnitude = Math.min(greatest(present(totals)) * guard, Number.MAX_VALUE);
	const scale = shares ? { factor: 1, name: "%" } : unitScale(unit, magnitude);
	const hasDay = totals.map((total) => total !== null && (!shares || total > 0));
	const inWords = drafts.map((draft) => ({
		...draft,
		values: draft.values.map((value, day) => {
			if (value === null || !hasDay[day]) return null;
			return shares ? (value / (totals[day] ?? 1)) * 100 : Math.min(value * guard, Number.MAX_VALUE);
		}),
	}));
	const onAxis = inWords.map((draft, position) => ({
		...draft,
		values: draft.values.map((value, day) => {
			if (value === null || shares) return value;
			return (drafts[position]?.values[day] ?? 0) * (guard / scale.factor);
		}),
	}));
	const layers = stack<unknown, string, number>()
		.keys(onAxis.keys())
		.value((_, position, day) => onAxis[position]?.values[day] ?? 0)(days);
	const series = onAxis.map((draft, position) => ({
		...draft,
		spans: days.map((_, day) => {
			const span = layers[position]?.[day];
			return !hasDay[day] || span === undefined ? null : ([span[0], span[1]] as const);
		}),
	}));
	const tops = series.flatMap(({ spans }) => spans.flatMap((span) => (span === null ? [] : [span[1]])));
	const valueLabel = cleanName(options.valueLabel ?? DEFAULT_LABELS[unit]);
	const label = shares && options.valueLabel !== undefined ? `Share of ${valueLabel.toLowerCase()}` : valueLabel;
	return {
		...common(options, unit, label, scale.name),
		kind: "stacked",
		description: describe("Stacked", label, unit, days, inWords),
		factor: scale.factor,
		low: 0,
		high: greatest(tops),
		series,
		omission: null,
		emptyText: emptyText(days, numbers),
		hasValues: tops.length > 0,
	};
}
