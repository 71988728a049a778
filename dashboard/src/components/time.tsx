/**
 * Times in the user's zone: recent ones relative to now, with the exact time on hover.
 * Days of statistics are UTC days and are not converted.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { clockText, dateText, timeText } from "./dates";

const relative = new Intl.RelativeTimeFormat("en-GB", { numeric: "auto" });

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
			{dateText(value)}
		</time>
	);
}

/** The time of day, for rows below the head of their day. */
export function Clock({ value }: { readonly value: string }) {
	return (
		<time dateTime={value} title={timeText(value)} className="nowrap">
			{clockText(value)}
		</time>
	);
}

/** The UTC day this many days from today, e.g. `2026-11-22`. */
export function utcDay(daysFromToday: number): string {
	return new Date(Date.now() + daysFromToday * DAY_MS).toISOString().slice(0, 10);
}
