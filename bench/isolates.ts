/**
 * The product as several isolates over one database: Workers of one runtime, each with memory of its own and a socket of its own, as
 * Cloudflare runs one in each of its places. Which of them a request comes to is the caller's choice here.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { Log, LogLevel, Miniflare, type MiniflareOptions } from "miniflare";
import type { WorkerDefinition } from "./runtime";

const HOST = "127.0.0.1";

export interface Isolates<Facts> {
	readonly origins: readonly string[];
	readonly facts: Facts;
	stop(): Promise<void>;
}

export async function startIsolates<Facts>(
	definition: WorkerDefinition<Facts>,
	count: number,
): Promise<Isolates<Facts>> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-bench-"));
	const names = Array.from({ length: count }, (_, index) => `isolate-${index + 1}`);
	const { queueConsumers, ...shared } = definition.options;
	const miniflare = new Miniflare({
		host: HOST,
		port: 0,
		cf: false,
		d1Persist: join(directory, "d1"),
		r2Persist: join(directory, "r2"),
		log: new Log(LogLevel.ERROR),
		workers: names.map((name, index) => ({
			...shared,
			// A queue has one consumer.
			...(index === 0 ? { queueConsumers } : {}),
			name,
			modules: [{ type: "ESModule", path: "/worker.js", contents: definition.script }],
			modulesRoot: "/",
			unsafeDirectSockets: [{ host: HOST, port: 0 }],
		})),
	} as unknown as MiniflareOptions);
	const stop = async () => {
		await miniflare.dispose();
		await rm(directory, { recursive: true, force: true });
	};
	try {
		await miniflare.ready;
		const urls = await Promise.all(names.map((name) => miniflare.unsafeGetDirectURL(name)));
		const origins = urls.map(({ origin }) => origin);
		const [first] = origins;
		if (first === undefined) throw new Error("no isolate was asked for");
		const database = (await miniflare.getD1Database("DB", names[0])) as unknown as D1Database;
		return { origins, facts: await definition.seed(database, first), stop };
	} catch (error) {
		await stop();
		throw error;
	}
}
