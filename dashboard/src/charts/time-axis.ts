/**
 * Labels of a time axis: as many dates as fit, counted back from the last day, so that the newest
 * one is always labelled. Pure.
 */
import { DAY_MS } from "../../../src/domain/time";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] as const;
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"] as const;
const STEPS = [1, 2, 7, 14, 28, 56, 91, 182, 364];
const LABEL_PX = 72;

/** "14 Nov" */
export function shortDay(day: string): string {
	const date = new Date(day);
	return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

/** "Sat, 14 Nov 2026" */
export function longDay(day: string): string {
	const date = new Date(day);
	return `${WEEKDAYS[date.getUTCDay()]}, ${shortDay(day)} ${date.getUTCFullYear()}`;
}

/** "24 Oct – 22 Nov" */
export function daysText(days: readonly string[]): string {
	const first = days[0];
	const last = days.at(-1);
	if (first === undefined || last === undefined) return "";
	return first === last ? shortDay(first) : `${shortDay(first)} – ${shortDay(last)}`;
}

/** YYYY-MM-DD in UTC. */
export const dayName = (atMs: number) => new Date(atMs).toISOString().slice(0, 10);

/** Whole days from one day to another. */
export const daysBetween = (from: string, to: string) => Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS);

/** Every day of a range, both ends included. */
export function daysFromTo(from: string, to: string): string[] {
	return Array.from({ length: Math.max(0, daysBetween(from, to) + 1) }, (_, index) =>
		dayName(Date.parse(from) + index * DAY_MS),
	);
}

interface DayLabel {
	readonly index: number;
	readonly text: string;
}

/** Every n-th day, counted back from the last one. */
export function dayLabels(days: readonly string[], widthPx: number): DayLabel[] {
	const most = Math.max(1, Math.floor(widthPx / LABEL_PX));
	const step = STEPS.find((each) => days.length / each <= most) ?? Math.ceil(days.length / most);
	const labels: DayLabel[] = [];
	for (let index = days.length - 1; index >= 0; index -= step) {
		const day = days[index] ?? "";
		labels.unshift({ index, text: shortDay(day) });
	}
	return labels;
}
