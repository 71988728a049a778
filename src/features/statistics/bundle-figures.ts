/**
 * Figures of bundles: share of devices by day, success rate of installs, and install times. Pure.
 */

import compareVersions from "semver/functions/compare";
import type {
	DayRange,
	InstallTimeOfDayRow,
	InstallTimeRow,
	OutcomeRow,
	TotalsRow,
	VersionRow,
} from "../../db/statistics";
import { type Bucket, percentileMs } from "../../domain/statistics/duration-histogram";
import { BUILTIN } from "../../domain/updates/model";
import { daysOf, startOfDay } from "./range";

/** Label of versions that the app never had. */
export const UNKNOWN = "unknown";
export const labelOf = (name: string) => (name === "" ? UNKNOWN : name);

export interface Dataset {
	readonly label: string;
	/**
	 * In %, with one decimal; the shares of a day add up to exactly 100. Null on days without devices.
	 */
	readonly data: (number | null)[];
	/** Devices. */
	readonly metaCounts: (number | null)[];
}

/**
 * Order of a stack from the bottom: the store build, bundles from old to new, then unknown
 * versions.
 */
function inOrder(one: string, other: string): number {
	const rank = (name: string) => (name === BUILTIN ? 0 : name === "" ? 2 : 1);
	return rank(one) - rank(other) || (rank(one) === 1 ? compareVersions(one, other) : 0);
}

export function adoptionOf(
	rows: readonly VersionRow[],
	range: DayRange,
	firstKeptDay: number,
	order: (one: string, other: string) => number = inOrder,
): Dataset[] {
	const days = daysOf(range);
	const labels = [...new Set(rows.map((row) => row.version_name))].sort(order);
	const byDay = Map.groupBy(rows, ({ day }) => day);
	const shares = new Map([...byDay].map(([day, ofDay]) => [day, sharesOf(ofDay)]));
	return labels.map((name) => ({
		label: labelOf(name),
		data: days.map((day) => (byDay.has(day) ? (shares.get(day)?.get(name) ?? 0) : null)),
		metaCounts: days.map((day) =>
			day < firstKeptDay ? null : (byDay.get(day)?.find((row) => row.version_name === name)?.amount ?? 0),
		),
	}));
}

/** Rounded to 0.1 % by the largest remainder. */
function sharesOf(rows: readonly VersionRow[]): Map<string, number> {
	const WHOLE = 1000;
	const total = rows.reduce((sum, { amount }) => sum + amount, 0);
	const shares = rows.map(({ version_name, amount }) => {
		const exact = (amount / total) * WHOLE;
		return { name: version_name, tenths: Math.floor(exact), remainder: exact - Math.floor(exact) };
	});
	const missing = WHOLE - shares.reduce((sum, { tenths }) => sum + tenths, 0);
	const first = new Set([...shares].sort((a, b) => b.remainder - a.remainder).slice(0, missing));
	return new Map(shares.map((share) => [share.name, (share.tenths + (first.has(share) ? 1 : 0)) / 10]));
}

export interface Outcome {
	readonly install: number;
	readonly fail: number;
	/** In %, with two decimals. */
	readonly success_rate: number | null;
}

export interface Times {
	/** Installs with a known time. */
	readonly timed: number;
	readonly p50_ms: number | null;
	readonly p95_ms: number | null;
}

export function outcomeOf(install: number, fail: number): Outcome {
	const rate = install + fail === 0 ? null : Math.round((install / (install + fail)) * 10_000) / 100;
	return { install, fail, success_rate: rate };
}

export function timesOf(buckets: readonly Bucket[]): Times {
	const timed = buckets.reduce((sum, { amount }) => sum + amount, 0);
	return { timed, p50_ms: percentileMs(buckets, 50), p95_ms: percentileMs(buckets, 95) };
}

export function byBundle(outcomes: readonly OutcomeRow[], times: readonly InstallTimeRow[]) {
	return [...new Set(outcomes.map((row) => row.version_name))].map((name) => ({
		version: labelOf(name),
		...sumOutcomes(outcomes.filter((row) => row.version_name === name)),
		...timesOf(times.filter((row) => row.version_name === name)),
	}));
}

/** By channel; null: no channel served the device. */
export function byChannel(outcomes: readonly OutcomeRow[]) {
	return [...Map.groupBy(outcomes, ({ channel_name }) => channel_name)]
		.sort(([left], [right]) => (left < right ? -1 : 1))
		.map(([name, rows]) => ({ channel: name === "" ? null : name, ...sumOutcomes(rows) }));
}

export function byBundleAndChannel(outcomes: readonly OutcomeRow[]) {
	return outcomes.map(({ version_name, channel_name, install, fail }) => ({
		version: labelOf(version_name),
		channel: channel_name === "" ? null : channel_name,
		...outcomeOf(install, fail),
	}));
}

export function sumOutcomes(rows: readonly Pick<OutcomeRow, "install" | "fail">[]): Outcome {
	const sum = (of: "install" | "fail") => rows.reduce((total, row) => total + row[of], 0);
	return outcomeOf(sum("install"), sum("fail"));
}

export function byDay(
	totals: readonly TotalsRow[],
	times: readonly InstallTimeOfDayRow[],
	range: DayRange,
	firstKeptDay: number,
) {
	const totalsByDay = new Map(totals.map((row) => [row.day, row]));
	const timesByDay = Map.groupBy(times, ({ day }) => day);
	return daysOf(range).map((day) => {
		const date = startOfDay(day);
		if (day < firstKeptDay) {
			return { date, install: null, fail: null, success_rate: null, timed: null, p50_ms: null, p95_ms: null };
		}
		const of = totalsByDay.get(day);
		return { date, ...outcomeOf(of?.install_count ?? 0, of?.fail_count ?? 0), ...timesOf(timesByDay.get(day) ?? []) };
	});
}
