/** What the database holds of the apps' days against the truth, before any endpoint adds it up. */
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

/** Counts of every day, version and metric; one that is stored and is not true is a difference as well. */
export async function compareStored(product: SimulatedProduct, apps: readonly AppWorld[]): Promise<Line[]> {
	const pairs = new Map<string, Pair[]>(METRICS.map((metric) => [metric, []]));
	for (const { truth, appId } of apps) {
		const { results } = await product.database
			.prepare("SELECT day, version_name, metric, amount FROM daily_counts WHERE app_id = ?")
			.bind(truth.uuid)
			.all<CountRow>();
		const stored = new Map(results.map((row) => [`${row.day} ${row.version_name} ${row.metric}`, row.amount]));
		for (const key of new Set([...truth.counts.keys(), ...stored.keys()])) {
			const ofMetric = pairs.get(key.slice(key.lastIndexOf(" ") + 1));
			ofMetric?.push({ of: `${appId} ${key}`, truth: truth.counts.get(key) ?? 0, answer: stored.get(key) });
		}
	}
	return [...pairs].map(([metric, ofMetric]) => exactly(`stored ${metric}, by day and version`, ofMetric));
}
