/**
 * The view of the statistics screen in its address: days, figure, split and comparison, so that
 * Back, a reload and a shared link show the same chart. Days are in UTC. Pure.
 */
import { DAY_MS } from "../../../../src/domain/time";
import { dayName, daysBetween, daysFromTo } from "../../charts/time-axis";

export const PRESETS = [
	{ days: 7, label: "7\u00a0d", name: "7 days" },
	{ days: 30, label: "30\u00a0d", name: "30 days" },
	{ days: 90, label: "90\u00a0d", name: "90 days" },
	{ days: 365, label: "1\u00a0y", name: "1 year" },
] as const;

const USUAL_DAYS = 30;
/** The most that the API answers at once. */
export const MOST_DAYS = 366;

export interface Range {
	/** YYYY-MM-DD, both included. */
	readonly from: string;
	readonly to: string;
	/** The preset that was chosen; undefined for days of the reader's own. */
	readonly preset: number | undefined;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const isDay = (text: string | null): text is string =>
	text !== null && DAY.test(text) && !Number.isNaN(Date.parse(text));

const before = (day: string, days: number) => dayName(Date.parse(day) - days * DAY_MS);

/** The range of an address. A range that cannot be is the usual one. */
export function rangeOf(address: URLSearchParams, today: string): Range {
	const from = address.get("from");
	const to = address.get("to");
	if (isDay(from) && isDay(to) && from <= to && to <= today && daysBetween(from, to) < MOST_DAYS) {
		return { from, to, preset: undefined };
	}
	const asked = Number(address.get("days"));
	const { days } = PRESETS.find((preset) => preset.days === asked) ?? { days: USUAL_DAYS };
	return { from: before(today, days - 1), to: today, preset: days };
}

export const daysOf = ({ from, to }: Range) => daysFromTo(from, to);

/** As many days just before the range. */
export function rangeBefore({ from, to }: Range): Range {
	const days = daysBetween(from, to) + 1;
	return { from: before(from, days), to: before(from, 1), preset: undefined };
}

/** "30 days", "1 day" */
export function lengthText(range: Range): string {
	const days = daysBetween(range.from, range.to) + 1;
	return days === 1 ? "1 day" : `${days} days`;
}

/**
 * The address after a change; undefined removes a value. Values of `rangeOf` replace each other.
 */
export function withView(
	address: URLSearchParams,
	change: Readonly<Record<string, string | undefined>>,
): URLSearchParams {
	const after = new URLSearchParams(address);
	if ("days" in change) {
		after.delete("from");
		after.delete("to");
	}
	if ("from" in change) after.delete("days");
	for (const [name, value] of Object.entries(change)) {
		if (value === undefined || value === "") after.delete(name);
		else after.set(name, value);
	}
	return after;
}
