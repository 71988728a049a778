/**
 * Ticks of a chart. The value axis has round steps and always contains zero. The day axis has the
 * finest calendar grid (days, Mondays, months, quarters, years) whose labels do not touch, and a
 * second row for the month or year when it changes.
 */
import { scaleLinear } from "d3-scale";
import { estimatedWidthPx, formatFixed, type Unit } from "./text";

interface ValueAxis {
	readonly low: number;
	readonly high: number;
	readonly ticks: readonly { readonly value: number; readonly text: string }[];
}

/**
 * All values in the unit of the axis. With `factor` 1, counts and bytes have no fractions.
 * @param fits percentages end at their greatest value, for small rates, instead of at 100
 */
export function valueAxis(
	unit: Unit,
	factor: number,
	low: number,
	high: number,
	tickCount: number,
	fits = false,
): ValueAxis {
	const isWhole = factor === 1 && (unit === "count" || unit === "bytes");
	const isOfHundred = unit === "percent" && !fits;
	const smallest = isOfHundred ? 100 : factor === 1 ? 1 : 0;
	// The sum of rounded shares may exceed 100 a little.
	const reached = isOfHundred && high < 100 + 1e-6 ? 100 : Math.max(high, smallest);
	const from = isWhole ? Math.floor(Math.min(0, low)) : Math.min(0, low);
	const to = isWhole ? Math.ceil(reached) : reached || 1;
	const count = isWhole ? Math.min(tickCount, to - from) : tickCount;
	const scale = scaleLinear().domain([from, to]).nice(count);
	const values = scale.ticks(count);
	const [first = 0, second = 1] = values;
	const decimals = Math.min(20, Math.max(0, -Math.floor(Math.log10(second - first) + 1e-9)));
	const [bottom = 0, top = 1] = scale.domain();
	return { low: bottom, high: top, ticks: values.map((value) => ({ value, text: formatFixed(value, decimals) })) };
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] as const;

interface CalendarDay {
	readonly index: number;
	readonly year: number;
	/** 0 to 11. */
	readonly month: number;
	readonly day: number;
	readonly isMonday: boolean;
}

export function parseDay(text: string, index = 0): CalendarDay {
	const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
	const time = new Date(`${text}T00:00:00Z`);
	if (match === null || Number.isNaN(time.getTime())) throw new RangeError(`"${text}" is not a day (YYYY-MM-DD)`);
	return {
		index,
		year: Number(match[1]),
		month: Number(match[2]) - 1,
		day: Number(match[3]),
		isMonday: time.getUTCDay() === 1,
	};
}

export function formatDay(text: string): string {
	const { day, month, year } = parseDay(text);
	return `${day} ${MONTHS[month]} ${year}`;
}

/** "1–31 Mar 2026", without repeated month or year. */
export function formatDays(days: readonly string[]): string {
	const first = days[0];
	const last = days.at(-1);
	if (first === undefined || last === undefined) return "";
	if (first === last) return formatDay(first);
	const from = parseDay(first);
	const to = parseDay(last);
	if (from.year !== to.year) return `${formatDay(first)} – ${formatDay(last)}`;
	if (from.month !== to.month) return `${from.day} ${MONTHS[from.month]} – ${formatDay(last)}`;
	return `${from.day}–${formatDay(last)}`;
}

export interface Label {
	readonly text: string;
	/** The left edge. */
	readonly xPx: number;
	readonly widthPx: number;
}

interface DayAxis {
	readonly tickIndexes: readonly number[];
	readonly labels: readonly Label[];
	readonly contextLabels: readonly Label[];
	/** The days that have labels. */
	readonly grid: "days" | "Mondays" | "months" | "quarters" | "years";
}

interface Grid {
	readonly name: DayAxis["grid"];
	readonly holds: (day: CalendarDay) => boolean;
	readonly text: (day: CalendarDay) => string;
	/** Text of the second row, with and without the year. */
	readonly context: ((day: CalendarDay) => readonly [year: number, withYear: string, alone: string]) | null;
	readonly gapPx: number;
}

const monthContext = ({ month, year }: CalendarDay) => [year, `${MONTHS[month]} ${year}`, MONTHS[month] ?? ""] as const;
const yearContext = ({ year }: CalendarDay) => [year, String(year), String(year)] as const;

const everyYears = (count: number): Grid => ({
	name: "years",
	holds: ({ day, month, year }) => day === 1 && month === 0 && year % count === 0,
	text: ({ year }) => String(year),
	context: null,
	gapPx: 12,
});

const GRIDS: readonly Grid[] = [
	{ name: "days", holds: () => true, text: ({ day }) => String(day), context: monthContext, gapPx: 9 },
	{ name: "Mondays", holds: (day) => day.isMonday, text: ({ day }) => String(day), context: monthContext, gapPx: 14 },
	{
		name: "months",
		holds: ({ day }) => day === 1,
		text: ({ month }) => MONTHS[month] ?? "",
		context: yearContext,
		gapPx: 6,
	},
	{
		name: "quarters",
		holds: ({ day, month }) => day === 1 && month % 3 === 0,
		text: ({ month }) => MONTHS[month] ?? "",
		context: yearContext,
		gapPx: 6,
	},
	...[1, 2, 5, 10, 20, 50, 100, 1000].map(everyYears),
];

const isApart = (left: Label, right: Label, gapPx: number) => left.xPx + left.widthPx + gapPx <= right.xPx;

/** @param toX middle of a day; labels stay between the two edges */
export function dayAxis(
	days: readonly string[],
	toX: (index: number) => number,
	fontSizePx: number,
	leftPx: number,
	rightPx: number,
): DayAxis {
	const calendar = days.map(parseDay);
	const place = (text: string, middlePx: number): Label => {
		const widthPx = estimatedWidthPx(text, fontSizePx);
		return { text, widthPx, xPx: Math.max(leftPx, Math.min(middlePx - widthPx / 2, rightPx - widthPx)) };
	};
	for (const grid of GRIDS) {
		const held = calendar.filter(grid.holds);
		const labels = held.map((day) => place(grid.text(day), toX(day.index)));
		const fits = labels.every((label, position) => {
			const before = labels[position - 1];
			return before === undefined || isApart(before, label, grid.gapPx);
		});
		if (!fits || (held.length === 0 && days.length > 0)) continue;
		return {
			grid: grid.name,
			tickIndexes: held.map(({ index }) => index),
			labels,
			contextLabels: contextLabels(grid, held, labels, place),
		};
	}
	return { grid: "years", tickIndexes: [], labels: [], contextLabels: [] };
}

function contextLabels(
	grid: Grid,
	held: readonly CalendarDay[],
	labels: readonly Label[],
	place: (text: string, middlePx: number) => Label,
): Label[] {
	const { context } = grid;
	if (context === null) return [];
	const changes = held.flatMap((day, position) => {
		const before = held[position - 1];
		const [year, withYear, alone] = context(day);
		const isNew = before === undefined || context(before)[1] !== withYear;
		const label = labels[position];
		return isNew && label ? [{ year, withYear, alone, middlePx: label.xPx + label.widthPx / 2 }] : [];
	});
	const [first, second] = changes;
	// A few days at the end of a month have no room for its name; the next month's name suffices.
	if (first && second && !isApart(place(first.withYear, first.middlePx), place(second.withYear, second.middlePx), 8)) {
		changes.shift();
	}
	const result: Label[] = [];
	let lastYear: number | undefined;
	for (const { year, withYear, alone, middlePx } of changes) {
		const label = place(year === lastYear ? alone : withYear, middlePx);
		const before = result.at(-1);
		if (before !== undefined && !isApart(before, label, 8)) continue;
		result.push(label);
		lastYear = year;
	}
	return result;
}
