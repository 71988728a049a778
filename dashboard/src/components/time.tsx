/**
 * Times in the user's zone and language: recent ones relative to now, with the exact time on hover.
 * Days of statistics are UTC days and are not converted.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/domain/time";

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dayAndMonth = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

export function timeText(value: string): string {
	return exact.format(new Date(value));
}

function nearText(value: string): string {
	const distanceMs = new Date(value).getTime() - Date.now();
	const size = Math.abs(distanceMs);
	if (size < MINUTE_MS) return relative.format(0, "second");
	if (size < HOUR_MS) return relative.format(Math.round(distanceMs / MINUTE_MS), "minute");
	if (size < DAY_MS) return relative.format(Math.round(distanceMs / HOUR_MS), "hour");
	if (size < 7 * DAY_MS) return relative.format(Math.round(distanceMs / DAY_MS), "day");
	return timeText(value);
}

export function Time({ value }: { readonly value: string }) {
	return (
		<time dateTime={value} title={timeText(value)} className="nowrap">
			{nearText(value)}
		</time>
	);
}

/** A date with the exact time on hover, for deadlines, where a relative time would mislead. */
export function Day({ value }: { readonly value: string }) {
	return (
		<time dateTime={value} title={timeText(value)} className="nowrap">
			{day.format(new Date(value))}
		</time>
	);
}

export function clockText(value: string): string {
	return clock.format(new Date(value));
}

/** The time of day, for rows below the head of their day. */
export function Clock({ value }: { readonly value: string }) {
	return (
		<time dateTime={value} title={timeText(value)} className="nowrap">
			{clockText(value)}
		</time>
	);
}

/**
 * The head of a day in a list: `Today, 22 November`, `Friday, 20 November`, and with its year
 * beyond this one.
 */
export function dayText(value: string): string {
	const date = new Date(value);
	const now = new Date();
	if (date.getFullYear() !== now.getFullYear()) return dayOfYear.format(date);
	if (date.toDateString() === now.toDateString()) return `Today, ${dayAndMonth.format(date)}`;
	now.setDate(now.getDate() - 1);
	return date.toDateString() === now.toDateString() ? `Yesterday, ${dayAndMonth.format(date)}` : weekday.format(date);
}

/** The UTC day this many days from today, e.g. `2026-11-22`. */
export function utcDay(daysFromToday: number): string {
	return new Date(Date.now() + daysFromToday * DAY_MS).toISOString().slice(0, 10);
}
