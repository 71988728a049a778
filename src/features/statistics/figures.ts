/**
 * The figures of each day from sums of the database. Pure. Running totals add up counts, count each
 * device once and leave storage as it is. A day beyond the retention has null instead of zeros.
 */
import type { DayRange, SketchOfDay, StorageRow, TotalsRow } from "../../db/statistics";
import {
	countDistinct,
	decodeSketch,
	emptySketch,
	mergeSketches,
	type Sketch,
} from "../../domain/statistics/distinct-count";
import { daysOf, startOfDay } from "./range";

/** Figures of a day, in the order of the answer. */
export const METRICS = ["mau", "storage", "bandwidth", "get", "install", "fail"] as const;
export type Metric = (typeof METRICS)[number];

/** Losses of a day; zero is left out. */
export const LOSSES = ["lost_events", "refused_devices"] as const;
type Losses = Readonly<Partial<Record<(typeof LOSSES)[number], number>>>;

export type Item = {
	readonly date: string;
	/** A figure of the day is 0 because it is not known. */
	readonly known?: false;
} & Readonly<Record<Metric, number | null>> &
	Losses;

export interface Figures {
	readonly range: DayRange;
	/** Days before it are beyond the retention. */
	readonly firstKeptDay: number;
	/** True: every figure is the total since the first day. */
	readonly accumulate: boolean;
	readonly totals: readonly TotalsRow[];
	readonly storage: readonly StorageRow[];
	/** Distinct devices since the first day, by day; only for running totals. */
	readonly distinct: ReadonlyMap<number, number>;
}

export function itemsOf({ range, firstKeptDay, accumulate, totals, storage, distinct }: Figures): Item[] {
	const totalsByDay = new Map(totals.map((row) => [row.day, row]));
	const storageByDay = new Map(storage.map((row) => [row.day, row.size_bytes]));
	const sums = { bandwidth: 0, get: 0, install: 0, fail: 0 };
	const lostSoFar = { lost_events: 0, refused_devices: 0 };
	return daysOf(range).map((day) => {
		const date = startOfDay(day);
		if (day < firstKeptDay)
			return { date, mau: null, storage: null, bandwidth: null, get: null, install: null, fail: null };
		const of = totalsByDay.get(day);
		const counted = {
			bandwidth: of?.bandwidth_bytes ?? 0,
			get: of?.get_count ?? 0,
			install: of?.install_count ?? 0,
			fail: of?.fail_count ?? 0,
		};
		const lost = { lost_events: of?.lost_event_count ?? 0, refused_devices: of?.refused_device_count ?? 0 };
		for (const loss of LOSSES) lostSoFar[loss] += lost[loss];
		for (const metric of ["bandwidth", "get", "install", "fail"] as const) sums[metric] += counted[metric];
		return {
			date,
			mau: accumulate ? (distinct.get(day) ?? 0) : (of?.device_count ?? 0),
			storage: storageByDay.get(day) ?? null,
			...(accumulate ? sums : counted),
			...lossesOf(accumulate ? lostSoFar : lost),
		};
	});
}

/** Losses above zero. */
export function lossesOf(losses: Losses): Losses {
	return Object.fromEntries(Object.entries(losses).filter(([, amount]) => amount > 0));
}

/**
 * By app and day: distinct devices since the first day. The estimate never falls from one day to
 * the next.
 */
export function distinctByApp(sketches: readonly SketchOfDay[], range: DayRange): Map<string, Map<number, number>> {
	const byApp = Map.groupBy(sketches, ({ app }) => app);
	return new Map([...byApp].map(([app, days]) => [app, distinctSoFar(days, range)]));
}

function distinctSoFar(sketches: readonly SketchOfDay[], range: DayRange): Map<number, number> {
	const byDay = Map.groupBy(sketches, ({ day }) => day);
	let union: Sketch = emptySketch();
	let most = 0;
	return new Map(
		daysOf(range).map((day) => {
			for (const { sketch } of byDay.get(day) ?? []) union = mergeSketches(union, decodeSketch(sketch));
			if (byDay.has(day)) most = Math.max(most, countDistinct(union));
			return [day, most];
		}),
	);
}

/** Adds up the devices of several apps, because a device belongs to one app. */
export function addDistinct(byApp: ReadonlyMap<string, ReadonlyMap<number, number>>): Map<number, number> {
	const sum = new Map<number, number>();
	for (const days of byApp.values()) {
		for (const [day, devices] of days) sum.set(day, (sum.get(day) ?? 0) + devices);
	}
	return sum;
}
