/**
 * Active devices of a day from sketches and counts. Pure.
 */
import type { SketchOfDay, TotalsRow, VersionRow, VersionSketchRow } from "../../db/statistics";
import {
	countDistinct,
	decodeSketch,
	emptySketch,
	mergeSketches,
	type Sketch,
} from "../../domain/statistics/distinct-count";

interface Stored {
	readonly kind: "all" | "version" | "moved";
	readonly version_name: string;
	readonly sketch: string;
}

interface Union extends Pick<Stored, "kind" | "version_name"> {
	readonly sketch: Sketch;
}

const keyOf = ({ kind, version_name }: Pick<Stored, "kind" | "version_name">) => `${kind} ${version_name}`;

/** Merges the slots of each sketch of a day. */
export function unionsOf(rows: readonly Stored[]): Map<string, Union> {
	const unions = new Map<string, Union>();
	for (const { kind, version_name, sketch } of rows) {
		const key = keyOf({ kind, version_name });
		const before = unions.get(key)?.sketch ?? emptySketch();
		unions.set(key, { kind, version_name, sketch: mergeSketches(before, decodeSketch(sketch)) });
	}
	return unions;
}

/**
 * Devices that reported the version and no other. Moved devices are subtracted from a union with
 * them, because not all of them are in the sketch of the version. Late messages may put a device
 * into sketches of several versions; while sketches are exact, it counts once.
 */
export function unmoved(unions: ReadonlyMap<string, Union>, version: string): number {
	const all = unions.get(keyOf({ kind: "version", version_name: version }))?.sketch;
	if (all === undefined) return 0;
	const sketches = [...unions.values()].filter(({ kind }) => kind !== "all");
	const isExact = sketches.every(({ sketch }) => sketch.kind === "exact");
	const counted = sketches
		.filter(({ kind, version_name }) =>
			kind === "moved" ? isExact || version_name === version : isExact && version_name < version,
		)
		.reduce((union, { sketch }) => mergeSketches(union, sketch), emptySketch());
	const countedDevices = countDistinct(counted);
	// Merging may change the first sketch.
	return Math.max(0, countDistinct(mergeSketches(counted, all)) - countedDevices);
}

/**
 * Devices by day and version: those of the sketches, and those whose version changed on the day,
 * which are counted.
 */
export function adoption(counted: readonly VersionRow[], sketches: readonly VersionSketchRow[]): VersionRow[] {
	const sums = new Map<string, VersionRow>();
	const add = (day: number, version_name: string, amount: number) => {
		const key = `${day} ${version_name}`;
		sums.set(key, { day, version_name, amount: amount + (sums.get(key)?.amount ?? 0) });
	};
	for (const { day, version_name, amount } of counted) add(day, version_name, amount);
	for (const [day, rows] of Map.groupBy(sketches, (row) => row.day)) {
		const open = rows.flatMap(({ sketch, ...row }) => (sketch === null ? [] : [{ ...row, sketch }]));
		const unions = unionsOf(open);
		for (const { kind, version_name } of unions.values()) {
			if (kind === "version") add(day, version_name, unmoved(unions, version_name));
		}
		if (unions.size > 0) continue;
		for (const { version_name, devices } of rows) if (devices !== null) add(day, version_name, devices);
	}
	return [...sums.values()]
		.filter(({ amount }) => amount > 0)
		.sort((one, other) => one.day - other.day || (one.version_name < other.version_name ? -1 : 1));
}

const NO_TOTALS = {
	get_count: 0,
	install_count: 0,
	fail_count: 0,
	bandwidth_bytes: 0,
	device_count: 0,
	open_device_count: 0,
	lost_event_count: 0,
	refused_device_count: 0,
};

/** One row for each app and day; the sums of all apps come from several databases. */
export function addTotals(rows: readonly TotalsRow[]): TotalsRow[] {
	const sums = new Map<string, TotalsRow>();
	for (const row of rows) {
		const key = `${row.day} ${row.app}`;
		const sum = sums.get(key);
		if (sum === undefined) {
			sums.set(key, row);
			continue;
		}
		const names = Object.keys(NO_TOTALS) as (keyof typeof NO_TOTALS)[];
		sums.set(key, { ...row, ...Object.fromEntries(names.map((name) => [name, sum[name] + row[name]])) });
	}
	return [...sums.values()];
}

/**
 * The totals with the devices of days whose sketches are not merged yet, of each app or of all of
 * them.
 */
export function withDevicesOfOpenDays(
	totals: readonly TotalsRow[],
	sketches: readonly SketchOfDay[],
	byApp: boolean,
): TotalsRow[] {
	const keyOfRow = (app: string | null, day: number) => `${day} ${byApp ? app : ""}`;
	const open = new Map<string, TotalsRow>();
	for (const slots of Map.groupBy(sketches, ({ app, day }) => `${day} ${app}`).values()) {
		const [first] = slots;
		if (first === undefined) continue;
		const { day } = first;
		const app = byApp ? first.app : null;
		const union = slots.map(({ sketch }) => decodeSketch(sketch)).reduce(mergeSketches, emptySketch());
		const before = open.get(keyOfRow(app, day)) ?? { ...NO_TOTALS, app, day };
		open.set(keyOfRow(app, day), { ...before, device_count: before.device_count + countDistinct(union) });
	}
	const known = totals.map((row) => {
		const key = keyOfRow(row.app, row.day);
		const devices = open.get(key)?.device_count ?? row.open_device_count;
		open.delete(key);
		return { ...row, device_count: row.device_count + devices };
	});
	return [...known, ...open.values()];
}
