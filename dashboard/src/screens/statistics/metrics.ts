/**
 * The figures of the statistics screen: value, comparison, the sentence with its population, and
 * the chart. Each is computed from answers of the API for the range and for as many days before it.
 * Pure.
 */

import { type Tone, versionTones } from "../../../../src/charts/palette";
import type { ChartData } from "../../charts/chart-model";
import { shortDay } from "../../charts/time-axis";
import { versionText } from "../../charts/version-text";
import { countOf, countText, durationText, shareText, sizeText } from "../../components/size";

export interface DayFigures {
	/** RFC 3339 */
	readonly date: string;
	readonly mau: number | null;
	readonly storage: number | null;
	readonly bandwidth: number | null;
	readonly get: number | null;
	readonly install: number | null;
	readonly fail: number | null;
	readonly lost_events?: number | undefined;
}

export interface Installs {
	readonly total: {
		readonly timed: number;
		readonly p50_ms: number | null;
		readonly p95_ms: number | null;
	};
	readonly byDay: readonly {
		readonly p50_ms: number | null;
		readonly p95_ms: number | null;
	}[];
}

export interface BundleUsage {
	readonly datasets: readonly { readonly label: string; readonly metaCounts: readonly (number | null)[] }[];
}

export interface Period {
	/** YYYY-MM-DD */
	readonly days: readonly string[];
	/** Figures of each day. */
	readonly daily: readonly DayFigures[];
	/** Distinct devices of the whole period; null if there are too many to count at once. */
	readonly devices: number | null;
	readonly installs?: Installs | undefined;
	readonly usage?: BundleUsage | undefined;
	/** Figures of each day by app. */
	readonly byApp?: readonly { readonly name: string; readonly daily: readonly DayFigures[] }[] | undefined;
}

export interface MetricView {
	readonly name: string;
	readonly label: string;
	readonly value: string;
	/** The comparison or the population. */
	readonly note: string;
	readonly isBad?: boolean;
	/** Answers the question of the figure, with its population. */
	readonly sentence: string;
	readonly emptyText: string;
	readonly chart: Omit<ChartData, "markers" | "comparison">;
	/** The series of the period before, if a comparison has a meaning. */
	readonly before?: readonly (number | null)[];
}

/** Neither a line at zero nor "as many as before" tells anything, so the chart is left out. */
export const hasNothing = ({ chart, before = [] }: MetricView): boolean =>
	[...chart.series.flatMap(({ values }) => values), ...before].every((value) => value === null || value === 0);

type Counted = "get" | "install" | "fail" | "bandwidth";

const sum = (values: readonly (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
const sumOf = ({ daily }: Period, name: Counted) => sum(daily.map((day) => day[name]));
const lengthOf = ({ days }: Period) => (days.length === 1 ? "on this day" : `in these ${days.length} days`);
const beforeText = ({ days }: Period) => (days.length === 1 ? "the day before" : `the ${days.length} days before`);

/** "▲ 4 %"; a change of under half a percent is none. */
export function changeText(now: number, before: number): string {
	if (before === 0) return now === 0 ? "no change" : "none before";
	const percent = ((now - before) / before) * 100;
	if (Math.abs(percent) < 0.5) return "no change";
	const size = Math.abs(percent) >= 1000 ? "over 1,000" : String(Math.round(Math.abs(percent)));
	return `${percent > 0 ? "▲" : "▼"} ${size}\u00a0%`;
}

function comparedText(now: number, before: number, period: Period, text: (value: number) => string): string {
	const change = changeText(now, before);
	if (change === "no change") return `, as many as in ${beforeText(period)}.`;
	if (change === "none before") return `; there were none in ${beforeText(period)}.`;
	const word = now > before ? "more" : "less";
	return `, ${change.slice(2)} ${word} than in ${beforeText(period)} (${text(before)}).`;
}

export function devicesMetric(now: Period, before: Period): MetricView {
	const { devices } = now;
	const most = Math.max(0, ...now.daily.map(({ mau }) => mau ?? 0));
	const isKnown = devices !== null && before.devices !== null;
	return {
		name: "devices",
		label: "Active devices",
		value: countText(devices ?? most),
		note: isKnown ? changeText(devices, before.devices) : devices === null ? "on the busiest day" : "",
		sentence:
			devices === null
				? `${countOf(most, "device")} on the busiest day. There are too many to count them once over all days.`
				: `${countOf(devices, "device")} checked for an update or sent a report ${lengthOf(now)}${isKnown ? comparedText(devices, before.devices, now, countText) : "."}`,
		emptyText: `No device checked for an update ${lengthOf(now)}.`,
		chart: lines("Active devices each day", "count", now, ({ mau }) => mau),
		before: before.daily.map(({ mau }) => mau),
	};
}

export function countMetric(
	name: Exclude<Counted, "fail" | "bandwidth">,
	label: string,
	now: Period,
	before: Period,
): MetricView {
	const total = sumOf(now, name);
	const earlier = sumOf(before, name);
	return {
		name: name === "get" ? "downloads" : "installs",
		label,
		value: countText(total),
		note: changeText(total, earlier),
		sentence: `${countOf(total, label.toLowerCase().replace(/s$/, ""))} ${lengthOf(now)}${comparedText(total, earlier, now, countText)}`,
		emptyText: `No ${label.toLowerCase()} were reported ${lengthOf(now)}.`,
		chart: lines(`${label} each day`, "count", now, (day) => day[name]),
		before: before.daily.map((day) => day[name]),
	};
}

const failedShare = ({ install, fail }: DayFigures): number | null =>
	install === null || fail === null || install + fail === 0 ? null : (fail / (install + fail)) * 100;

/** A rate says nothing about fewer attempts. */
const TELLING_ATTEMPTS = 20;

export function failedMetric(now: Period, before: Period): MetricView {
	const failed = sumOf(now, "fail");
	const attempts = failed + sumOf(now, "install");
	const failedBefore = sumOf(before, "fail");
	const attemptsBefore = failedBefore + sumOf(before, "install");
	const share = shareText(failed, attempts).replaceAll(" %", "\u00a0%");
	const shareBefore = shareText(failedBefore, attemptsBefore).replaceAll(" %", "\u00a0%");
	const isKnown = attemptsBefore >= TELLING_ATTEMPTS && attempts >= TELLING_ATTEMPTS;
	const isMore = isKnown && failed / attempts > failedBefore / attemptsBefore;
	const isSame = share === shareBefore;
	return {
		name: "failed",
		label: "Failed installs",
		value: share,
		note:
			isKnown && !isSame
				? `${isMore ? "▲" : "▼"} from ${shareBefore}`
				: attempts === 0
					? "no installs"
					: `${countText(failed)} of ${countText(attempts)}`,
		isBad: isMore && !isSame,
		sentence:
			attempts === 0
				? `No install was reported ${lengthOf(now)}, so there is no failure rate.`
				: `${countText(failed)} of ${countText(attempts)} installs failed ${lengthOf(now)} (${share})${attemptsBefore === 0 ? "." : `; in ${beforeText(now)} it was ${countText(failedBefore)} of ${countText(attemptsBefore)} (${shareBefore}).`}`,
		emptyText: `No install was reported ${lengthOf(now)}.`,
		chart: { ...lines("Failed installs each day", "percent", now, failedShare), fitsValues: true },
		before: before.daily.map(failedShare),
	};
}

export function timeMetric(now: Period, installs: Installs): MetricView {
	const { timed, p50_ms, p95_ms } = installs.total;
	return {
		name: "time",
		label: "Time to install",
		value: p50_ms === null ? "—" : durationText(p50_ms),
		note: p95_ms === null ? "no timed installs" : `median · p95 ${durationText(p95_ms)}`,
		sentence:
			p50_ms === null || p95_ms === null
				? `No install with a known time was reported ${lengthOf(now)}.`
				: `Half of ${countOf(timed, "timed install")} took at most ${durationText(p50_ms)}, and 95 of 100 at most ${durationText(p95_ms)}.`,
		emptyText: `No install with a known time was reported ${lengthOf(now)}.`,
		chart: {
			title: "Time to install each day",
			kind: "line",
			unit: "milliseconds",
			days: now.days,
			series: [
				{ name: "Median", values: installs.byDay.map((day) => day.p50_ms) },
				{ name: "95 of 100 (p95)", values: installs.byDay.map((day) => day.p95_ms) },
			],
		},
	};
}

export interface Usage {
	readonly version: string;
	/** Value of the last day with reports. */
	readonly devices: number;
	readonly values: readonly (number | null)[];
}

/** Devices by version on the last day that has any, the most first. */
function usageOfLastDay({ datasets }: BundleUsage): { readonly index: number; readonly versions: Usage[] } {
	const days = datasets[0]?.metaCounts.length ?? 0;
	let index = days - 1;
	while (index > 0 && datasets.every(({ metaCounts }) => (metaCounts[index] ?? 0) === 0)) index--;
	const versions = datasets.map(({ label, metaCounts }) => ({
		version: label,
		devices: metaCounts[index] ?? 0,
		values: metaCounts,
	}));
	return { index, versions: versions.sort((one, other) => other.devices - one.devices) };
}

/** @param live versions of channels, so that the colours follow what is released */
export function bundlesMetric(
	now: Period,
	usage: BundleUsage,
	{ isShares, live, rollingOut }: { isShares: boolean; live: readonly string[]; rollingOut: readonly string[] },
): MetricView {
	const { index, versions } = usageOfLastDay(usage);
	const [first] = versions;
	const total = sum(versions.map(({ devices }) => devices));
	const names = usage.datasets.map(({ label }) => label);
	const seen = (versions: readonly string[]) => versions.find((version) => names.includes(version));
	const tones = versionTones(names, seen(live) ?? first?.version, seen(rollingOut));
	const named = new Map<string, Tone>([...tones].map(([version, tone]) => [versionText(version), tone]));
	const has = first !== undefined && total > 0;
	const share = has ? shareText(first.devices, total).replaceAll(" %", "\u00a0%") : "—";
	return {
		name: "bundles",
		label: has ? `On ${versionText(first.version)}` : "Bundles",
		value: share,
		note: has ? `${countText(first.devices)} of ${countText(total)}` : "no reports",
		sentence: has
			? `${countText(first.devices)} of ${countOf(total, "device")} that reported on ${shortDay(now.days[index] ?? "")} ran ${versionText(first.version)} (${share}).`
			: `No device reported its bundle ${lengthOf(now)}.`,
		emptyText: `No device reported its bundle ${lengthOf(now)}.`,
		chart: {
			title: isShares ? "Share of devices on each bundle" : "Devices on each bundle",
			kind: "area",
			unit: "count",
			shares: isShares,
			days: now.days,
			series: usage.datasets.map(({ label, metaCounts }) => ({ name: versionText(label), values: metaCounts })),
			tones: named,
		},
	};
}

export function bandwidthMetric(now: Period, before: Period): MetricView {
	const total = sumOf(now, "bandwidth");
	const earlier = sumOf(before, "bandwidth");
	return {
		name: "bandwidth",
		label: "Bandwidth",
		value: sizeText(total).replace(" ", "\u00a0"),
		note: changeText(total, earlier),
		sentence: `Devices downloaded ${sizeText(total)} ${lengthOf(now)}${comparedText(total, earlier, now, sizeText)}`,
		emptyText: `Nothing was downloaded ${lengthOf(now)}.`,
		chart: lines("Bandwidth each day", "bytes", now, (day) => day.bandwidth),
		before: before.daily.map((day) => day.bandwidth),
	};
}

export function storageMetric(now: Period): MetricView {
	const known = now.daily.map(({ storage }) => storage).filter((value) => value !== null);
	const first = known[0];
	const last = known.at(-1);
	return {
		name: "storage",
		label: "Storage",
		value: last === undefined ? "—" : sizeText(last).replace(" ", "\u00a0"),
		note: first === undefined || last === undefined ? "not measured" : changeText(last, first),
		sentence:
			first === undefined || last === undefined
				? `Storage was not measured ${lengthOf(now)}.`
				: `Bundles use ${sizeText(last)}; at the beginning of the range it was ${sizeText(first)}.`,
		emptyText: `Storage was not measured ${lengthOf(now)}.`,
		chart: lines("Storage at the end of each day", "bytes", now, ({ storage }) => storage),
	};
}

/** One line, or a layer for each app. */
function lines(
	title: string,
	unit: ChartData["unit"],
	{ days, daily, byApp }: Period,
	figureOf: (day: DayFigures) => number | null,
): MetricView["chart"] {
	if (byApp === undefined) {
		return { title, kind: "line", unit, days, series: [{ name: title, values: daily.map(figureOf) }] };
	}
	const series = byApp
		.map(({ name, daily: ofApp }) => ({ name, values: ofApp.map(figureOf) }))
		.filter(({ values }) => values.some((value) => value !== null && value !== 0));
	// Shares of different apps do not add up.
	const kind = unit === "percent" ? "line" : "bars";
	return { title: `${title}, by app`, kind, unit, days, series };
}

/** Events that arrived while the buffer or the database was full; 0 as a rule. */
export const lostEvents = ({ daily }: Period) => sum(daily.map(({ lost_events }) => lost_events ?? 0));

interface BundleOutcome {
	readonly version: string;
	readonly install: number;
	readonly fail: number;
	readonly p95_ms: number | null;
}

export interface BundleRow extends Usage {
	readonly install: number | null;
	readonly fail: number | null;
	readonly p95_ms: number | null;
}

/** Bundles with devices or installs, those with the most devices first. */
export function bundleRows(usage: BundleUsage, outcomes: readonly BundleOutcome[]): BundleRow[] {
	const { versions } = usageOfLastDay(usage);
	const outcomeOf = new Map(outcomes.map((outcome) => [outcome.version, outcome]));
	const onlyInstalled = outcomes
		.filter(({ version }) => !versions.some((known) => known.version === version))
		.map(({ version }) => ({ version, devices: 0, values: [] }));
	return [...versions, ...onlyInstalled].map((known) => {
		const outcome = outcomeOf.get(known.version);
		return {
			...known,
			install: outcome?.install ?? null,
			fail: outcome?.fail ?? null,
			p95_ms: outcome?.p95_ms ?? null,
		};
	});
}
