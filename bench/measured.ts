/**
 * A Worker on Miniflare whose memory is measured: it has a process of its own, whose id is known,
 * and data as seeded. The caller says by which entry it is called.
 */
import { readFile } from "node:fs/promises";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type V4MiniflareOptions } from "miniflare";
import { miniflareModules } from "../src/operator/local-build";
import { heapMegabytes } from "./heap";
import { databasesOf, HOST, PLAIN_ENTRY, runtimePids, type WorkerDefinition } from "./runtime";

const NAME = "measured";

export interface MeasuredWorker<Facts> {
	readonly origin: string;
	readonly facts: Facts;
	/** The heap after a collection. Requires `inspectorPort` among the options. */
	heapMegabytes(): Promise<number>;
	/** The whole process; undefined if the system does not report it. */
	processMegabytes(): Promise<number | undefined>;
	stop(): Promise<void>;
}

/** @param options of Miniflare, beside those of the deployment */
export async function startMeasured<Facts>(
	definition: WorkerDefinition<Facts>,
	options: object,
	entry = PLAIN_ENTRY,
): Promise<MeasuredWorker<Facts>> {
	const before = new Set(await runtimePids());
	const miniflare = new Miniflare(
		convertV4MiniflareOptions({
			...definition.options,
			name: NAME,
			modules: [{ type: "ESModule", path: "/entry.js", contents: entry }, ...miniflareModules(definition.script)],
			modulesRoot: "/",
			host: HOST,
			port: 0,
			unsafeDirectSockets: [{ host: HOST, port: 0 }],
			cf: false,
			log: new Log(LogLevel.ERROR),
			...options,
		} as unknown as V4MiniflareOptions),
	);
	try {
		await miniflare.ready;
		const pid = (await runtimePids()).find((candidate) => !before.has(candidate));
		const { origin } = await miniflare.unsafeGetDirectURL();
		return {
			origin,
			facts: await definition.seed(databasesOf(miniflare), origin),
			heapMegabytes: () => heapMegabytes(miniflare, NAME),
			processMegabytes: () => megabytesOf(pid),
			stop: () => miniflare.dispose(),
		};
	} catch (error) {
		await miniflare.dispose();
		throw error;
	}
}

async function megabytesOf(pid: string | undefined): Promise<number | undefined> {
	const text = pid === undefined ? "" : await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
	const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1];
	return kilobytes === undefined ? undefined : Math.round(Number(kilobytes) / 1024);
}
