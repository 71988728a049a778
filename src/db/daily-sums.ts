/**
 * Additions to the daily figures of apps. They are summed up first, so that a batch writes each row
 * of the figures once. Apps are named by UUID; additions to an app that was deleted in between are
 * dropped.
 */
import { type CompiledQuery, sql } from "kysely";
import type { StoredCause } from "../domain/statistics/failure-causes";
import type { Signal } from "../domain/statistics/health-signals";
import { query } from "./client";

type Metric = "get" | "install" | "fail" | "devices";
const TOTALS = [
	"get_count",
	"install_count",
	"fail_count",
	"new_device_count",
	"refused_device_count",
	"lost_event_count",
] as const;
type Total = (typeof TOTALS)[number];

/** Sums by a key of texts and numbers. */
class Sums {
	readonly #amounts = new Map<string, number>();

	add(key: readonly (string | number)[], amount: number): void {
		const text = JSON.stringify(key);
		this.#amounts.set(text, (this.#amounts.get(text) ?? 0) + amount);
	}

	/** JSON array of pairs of a key and its amount; undefined without any. */
	get json(): string | undefined {
		const pairs = [...this.#amounts].filter(([, amount]) => amount !== 0).map(([key, amount]) => `[${key},${amount}]`);
		return pairs.length === 0 ? undefined : `[${pairs}]`;
	}
}

export class DailySums {
	readonly #counts = new Sums();
	readonly #installTimes = new Sums();
	readonly #health = new Sums();
	readonly #totals = new Map<string, { readonly app: string; readonly day: number; amounts: Record<Total, number> }>();

	addCount(app: string, day: number, version: string, channel: string, metric: Metric, amount: number): void {
		this.#counts.add([app, day, version, channel, metric], amount);
	}

	addInstallTime(app: string, day: number, version: string, bucket: number, amount: number): void {
		this.#installTimes.add([app, day, version, bucket], amount);
	}

	/** Health signals, and causes of failures. */
	addHealth(
		app: string,
		day: number,
		version: string,
		signal: Signal | StoredCause,
		bucket: number,
		amount: number,
	): void {
		this.#health.add([app, day, version, signal, bucket], amount);
	}

	addTotal(app: string, day: number, total: Total, amount: number): void {
		const key = `${app} ${day}`;
		const none = Object.fromEntries(TOTALS.map((name) => [name, 0])) as Record<Total, number>;
		const row = this.#totals.get(key) ?? { app, day, amounts: none };
		row.amounts[total] += amount;
		this.#totals.set(key, row);
	}

	statements(): CompiledQuery[] {
		const [counts, times, health] = [this.#counts.json, this.#installTimes.json, this.#health.json];
		return [
			...(counts === undefined ? [] : [addToCounts(counts)]),
			...(times === undefined ? [] : [addToInstallTimes(times)]),
			...(health === undefined ? [] : [addToHealth(health)]),
			...(this.#totals.size === 0 ? [] : [addToTotals(this.#totals.values())]),
		];
	}
}

function addToCounts(sums: string): CompiledQuery {
	return sql`INSERT INTO daily_counts (app_id, day, version_name, channel_name, metric, amount)
		SELECT apps.id, value ->> '$[0][1]', value ->> '$[0][2]', value ->> '$[0][3]', value ->> '$[0][4]', value ->> 1
		FROM json_each(${sums}) CROSS JOIN apps ON apps.id = value ->> '$[0][0]' WHERE true
		ON CONFLICT (app_id, day, version_name, channel_name, metric) DO UPDATE SET amount = amount + excluded.amount`.compile(
		query,
	);
}

function addToInstallTimes(sums: string): CompiledQuery {
	return sql`INSERT INTO daily_install_times (app_id, day, version_name, bucket, amount)
		SELECT apps.id, value ->> '$[0][1]', value ->> '$[0][2]', value ->> '$[0][3]', value ->> 1
		FROM json_each(${sums}) CROSS JOIN apps ON apps.id = value ->> '$[0][0]' WHERE true
		ON CONFLICT (app_id, day, version_name, bucket) DO UPDATE SET amount = amount + excluded.amount`.compile(query);
}

function addToHealth(sums: string): CompiledQuery {
	return sql`INSERT INTO daily_health (app_id, day, version_name, signal, bucket, amount)
		SELECT apps.id, value ->> '$[0][1]', value ->> '$[0][2]', value ->> '$[0][3]', value ->> '$[0][4]', value ->> 1
		FROM json_each(${sums}) CROSS JOIN apps ON apps.id = value ->> '$[0][0]' WHERE true
		ON CONFLICT (app_id, day, version_name, signal, bucket) DO UPDATE SET amount = amount + excluded.amount`.compile(
		query,
	);
}

function addToTotals(
	rows: Iterable<{ readonly app: string; readonly day: number; readonly amounts: Record<Total, number> }>,
): CompiledQuery {
	const values = [...rows].map(({ app, day, amounts }) => [app, day, ...TOTALS.map((name) => amounts[name])]);
	const columns = TOTALS.map((name) => sql.ref(name));
	return sql`INSERT INTO daily_totals (app_id, day, ${sql.join(columns)})
		SELECT apps.id, value ->> 1, ${sql.join(columns.map((_, index) => sql`value ->> ${sql.lit(index + 2)}`))}
		FROM json_each(${JSON.stringify(values)}) CROSS JOIN apps ON apps.id = value ->> 0 WHERE true
		ON CONFLICT (app_id, day) DO UPDATE SET ${sql.join(columns.map((name) => sql`${name} = ${name} + excluded.${name}`))}`.compile(
		query,
	);
}
