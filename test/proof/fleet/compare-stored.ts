/**
 * Compares the stored counts of each app and day with the truth, before an endpoint adds them up.
 */
import type { AppWorld } from "./app-world";
import { exactly, type Line, type Pair } from "./comparison";
import type { SimulatedProduct } from "./product";
import { METRICS } from "./truth";

interface CountRow {
	readonly day: number;
	readonly version_name: string;
	readonly metric: string;
	readonly amount: number;
}

/**
 * Counts of every day, version and metric; a stored count that is not in the truth is a difference.
 */
export async function compareStored(product: SimulatedProduct, apps: readonly AppWorld[]): Promise<Line[]> {
	const pairs = new Map<string, Pair[]>(METRICS.map((metric) => [metric, []]));
	for (const { truth, appId } of apps) {
		const text =
			"SELECT day, version_name, metric, sum(amount) AS amount FROM daily_counts WHERE app_id = ? GROUP BY day, version_name, metric";
		const { results } = await product.telemetry.prepare(text).bind(truth.uuid).all<CountRow>();
		const keyOf = (day: number, version: string, metric: string) => `${appId} ${day} ${version} ${metric}`;
		const stored = new Map(results.map((row) => [keyOf(row.day, row.version_name, row.metric), row] as const));
		const known = new Map<string, { metric: string; amount: number }>();
		for (const { day, version, metric, amount } of truth.counts.entries) {
			const key = keyOf(day, version, metric);
			known.set(key, { metric, amount: amount + (known.get(key)?.amount ?? 0) });
		}
		for (const key of new Set([...known.keys(), ...stored.keys()])) {
			const metric = known.get(key)?.metric ?? stored.get(key)?.metric ?? "";
			pairs.get(metric)?.push({ of: key, truth: known.get(key)?.amount ?? 0, answer: stored.get(key)?.amount });
		}
	}
	return [...pairs].map(([metric, ofMetric]) => exactly(`stored ${metric}, by day and version`, ofMetric));
}
