/**
 * Runs the product as several isolates over one database: Workers of one runtime, each with its own
 * memory and socket, as Cloudflare runs one per location. The caller chooses the isolate of each
 * request.
 */
import { miniflareModules } from "../src/operator/local-build";
import { bundle, databasesOf, startRuntime, type WorkerDefinition, workerOf } from "./runtime";

export interface Isolates<Facts> {
	readonly origins: readonly string[];
	readonly facts: Facts;
	stop(): Promise<void>;
}

export async function startIsolates<Facts>(
	definition: WorkerDefinition<Facts>,
	count: number,
	{ isCounting = false }: { readonly isCounting?: boolean } = {},
): Promise<Isolates<Facts>> {
	const names = Array.from({ length: count }, (_, index) => `isolate-${index + 1}`);
	const { queueConsumers, ...shared } = definition.options;
	const modules = [
		...(isCounting
			? [{ type: "ESModule", path: "/entry.js", contents: await bundle("worker/counting.ts", ["./worker.js"]) }]
			: []),
		...miniflareModules(definition.script),
	];
	const { miniflare, stop } = await startRuntime(
		names.map((name, index) =>
			// A Queue has only one consumer.
			workerOf(name, modules, { ...shared, ...(index === 0 ? { queueConsumers } : {}) }),
		),
	);
	try {
		await miniflare.ready;
		const urls = await Promise.all(names.map((name) => miniflare.unsafeGetDirectURL(name)));
		const origins = urls.map(({ origin }) => origin);
		const [first] = origins;
		if (first === undefined) throw new Error("no isolates requested");
		return { origins, facts: await definition.seed(databasesOf(miniflare, names[0]), first), stop };
	} catch (error) {
		await stop();
		throw error;
	}
}
