/**
 * The days of a request for statistics: UTC, both ends inclusive, at most 366, by default the last
 * 30. Future days are left out; days beyond the retention are answered without values.
 */
import * as v from "valibot";
import type { DayRange } from "../../db/statistics";
import { dayOf } from "../../domain/statistics/days";
import { DAY_MS } from "../../domain/time";
import { invalidRequest } from "../../errors";
import { day, optional, timestamp } from "../../http/schemas";

export const MOST_DAYS = 366;
const USUAL_DAYS = 30;

/** A day of UTC, or any time of it. */
const dayOfRange = optional(
	v.pipe(
		v.union(
			[v.pipe(day, v.transform(dayOf)), v.pipe(timestamp, v.transform(dayOf))],
			'must be a day that exists, such as "2026-11-21", or an RFC 3339 time of it',
		),
		v.check((since1970) => since1970 >= 0, "must not be before 1970-01-01"),
	),
);

export const rangeFields = { from: dayOfRange, to: dayOfRange };

interface RangeQuery {
	readonly from?: number | undefined;
	readonly to?: number | undefined;
}

/**
 * The days of the answer; none if all of them are in the future.
 * @throws {ApiError} `invalid_request`
 */
export function rangeOf({ from, to }: RangeQuery, nowMs: number): DayRange {
	const today = dayOf(nowMs);
	// A range that begins in the future and has no end is empty.
	const lastDay = to ?? Math.max(today, from ?? today);
	const firstDay = from ?? lastDay - USUAL_DAYS + 1;
	if (firstDay > lastDay) throw invalidRequest([{ path: "from", message: "must not be later than to" }]);
	const days = lastDay - firstDay + 1;
	if (days > MOST_DAYS) {
		const message = `makes a range of ${days} days, but at most ${MOST_DAYS} are allowed; ask for one year at a time`;
		throw invalidRequest([{ path: "from", message }]);
	}
	return { firstDay, lastDay: Math.min(lastDay, today) };
}

export function daysOf({ firstDay, lastDay }: DayRange): number[] {
	return Array.from({ length: Math.max(0, lastDay - firstDay + 1) }, (_, index) => firstDay + index);
}

/** Start of the day, RFC 3339. */
export function startOfDay(day: number): string {
	return new Date(day * DAY_MS).toISOString();
}

/** YYYY-MM-DD. */
export function nameOfDay(day: number): string {
	return startOfDay(day).slice(0, 10);
}
