/**
 * The one form of dates, in the user's zone: `21 Nov, 14:05`, and with the year beyond this one. No
 * seconds. The screens are English, so the language of the browser does not change it. Pure.
 */
const formOf = (options: Intl.DateTimeFormatOptions) => {
	const form = new Intl.DateTimeFormat("en-GB", options);
	return (value: string | number | Date) => form.format(new Date(value));
};

const DAY = { day: "numeric", month: "short" } as const;
const CLOCK = { hour: "2-digit", minute: "2-digit" } as const;
const YEAR = { year: "numeric" } as const;

const moment = formOf({ ...DAY, ...CLOCK });
const farMoment = formOf({ ...DAY, ...YEAR, ...CLOCK });
const day = formOf(DAY);
const farDay = formOf({ ...DAY, ...YEAR });
const headDay = formOf({ day: "numeric", month: "long" });
const headWeekday = formOf({ weekday: "long", day: "numeric", month: "long" });
const headFarDay = formOf({ day: "numeric", month: "long", ...YEAR });

const isThisYear = (value: string, nowMs: number) => new Date(value).getFullYear() === new Date(nowMs).getFullYear();

/** `14:05` */
export const clockText = formOf(CLOCK);

/** `21 Nov, 14:05`; `21 Nov 2025, 14:05` in another year. */
export function timeText(value: string, nowMs = Date.now()): string {
	return isThisYear(value, nowMs) ? moment(value) : farMoment(value);
}

/** `21 Nov`; `21 Nov 2025` in another year. */
export function dateText(value: string, nowMs = Date.now()): string {
	return isThisYear(value, nowMs) ? day(value) : farDay(value);
}

/** `21 Nov, 14:05`; `today, 14:05`; `21 Nov 2025` in another year. */
export function momentText(value: string, nowMs: number): string {
	if (new Date(value).toDateString() === new Date(nowMs).toDateString()) return `today, ${clockText(value)}`;
	return isThisYear(value, nowMs) ? moment(value) : farDay(value);
}

/**
 * The head of a day in a list: `Today, 22 November`, `Friday 20 November`, and with its year beyond
 * this one.
 */
export function dayText(value: string): string {
	const date = new Date(value);
	const now = new Date();
	if (date.getFullYear() !== now.getFullYear()) return headFarDay(date);
	if (date.toDateString() === now.toDateString()) return `Today, ${headDay(date)}`;
	now.setDate(now.getDate() - 1);
	return date.toDateString() === now.toDateString() ? `Yesterday, ${headDay(date)}` : headWeekday(date);
}
