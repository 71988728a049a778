/**
 * A Worker on Miniflare for the bench: direct socket on loopback, known process id (to read its CPU
 * time), restartable. Capstan and the Workers that it is compared with start the same way.
 */
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type V4MiniflareOptions } from "miniflare";
import type { WorkerModules } from "../src/operator/build";
import { miniflareModules } from "../src/operator/local-build";
import { COUNTS_PATH, type Counts, LONGEST_DELAY } from "./counts";

export const HOST = "127.0.0.1";
/** Exports only the handlers, because workerd refuses other exports such as constants. */
export const PLAIN_ENTRY = `export { default } from "./worker.js";`;

/** A database of the Worker by its binding. */
export type OpenDatabase = (binding: string) => Promise<D1Database>;

/** @param worker its name, if the runtime has several */
export function databasesOf(miniflare: Miniflare, worker?: string): OpenDatabase {
	return async (binding) => (await miniflare.getD1Database(binding, worker)) as unknown as D1Database;
}

/** A Worker and its data. `Facts` is what a client needs to know about the data. */
export interface WorkerDefinition<Facts> {
	readonly script: WorkerModules;
	/** Compatibility, bindings and limits of its deployment. */
	readonly options: Record<string, unknown>;
	seed(open: OpenDatabase, origin: string): Promise<Facts>;
}

export interface RunningWorker<Facts> {
	readonly origin: string;
	readonly facts: Facts;
	/** Platform operations so far; only before it is timed. */
	counts(): Promise<Counts>;
	/** Replaces the counting copy by the Worker itself, with the data as seeded. */
	beginMeasuring(): Promise<void>;
	/** Starts a new runtime process over the same data, so that memory is empty. */
	restart(): Promise<void>;
	/** Runs the scheduled handler once. */
	runScheduled(): Promise<void>;
	/** CPU time of the runtime process so far; undefined if the system does not report it. */
	cpuMs(): Promise<number | undefined>;
	stop(): Promise<void>;
}

/** Starts Workers of one runtime over the same data. */
export async function startRuntime(
	workers: readonly object[],
): Promise<{ miniflare: Miniflare; stop(): Promise<void> }> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-bench-"));
	const miniflare = new Miniflare(
		convertV4MiniflareOptions({
			host: HOST,
			port: 0,
			cf: false,
			log: new Log(LogLevel.ERROR),
			workers,
			resourcePersistencePath: directory,
		} as unknown as V4MiniflareOptions),
	);
	const stop = async () => {
		await miniflare.dispose();
		await rm(directory, { recursive: true, force: true });
	};
	return { miniflare, stop };
}

/** A Worker of such a runtime, with its own socket. */
export function workerOf(name: string, modules: readonly object[], options: object): object {
	return { ...options, name, modules, modulesRoot: "/", unsafeDirectSockets: [{ host: HOST, port: 0 }] };
}

/**
 * Starts a counting copy and seeds it.
 *
 * @param longestDelayMs limits the timers of the counting copy, so that buffered events are sent
 * and counted soon
 */
export async function startWorker<Facts>(
	definition: WorkerDefinition<Facts>,
	longestDelayMs?: number,
): Promise<RunningWorker<Facts>> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-bench-"));
	const [seeded, counted] = [join(directory, "seeded"), join(directory, "counted")];
	const countingEntry = await bundle("worker/counting.ts", ["./worker.js"]);
	let counting = true;
	const options = () => {
		const state = counting ? counted : seeded;
		return convertV4MiniflareOptions({
			...definition.options,
			...(counting && longestDelayMs !== undefined
				? { bindings: { ...(definition.options.bindings as object), [LONGEST_DELAY]: longestDelayMs } }
				: {}),
			name: "measured",
			modules: [
				{ type: "ESModule", path: "/entry.js", contents: counting ? countingEntry : PLAIN_ENTRY },
				...miniflareModules(definition.script),
			],
			modulesRoot: "/",
			host: HOST,
			port: 0,
			unsafeDirectSockets: [{ host: HOST, port: 0 }],
			cf: false,
			resourcePersistencePath: state,
			log: new Log(LogLevel.ERROR),
		} as unknown as V4MiniflareOptions);
	};
	let pid: string | undefined;
	let origin = "";
	const start = (begin: () => Promise<unknown>) =>
		oneAtATime(async () => {
			const before = new Set(await runtimePids());
			await begin();
			pid = (await runtimePids()).find((candidate) => !before.has(candidate));
			origin = (await miniflare.unsafeGetDirectURL()).origin;
		});
	const restart = () => start(() => miniflare.setOptions(options()));
	const stop = async () => {
		await miniflare.dispose();
		await rm(directory, { recursive: true, force: true });
	};
	const miniflare = new Miniflare(options());
	try {
		await start(() => miniflare.ready);
		const facts = await definition.seed(databasesOf(miniflare), origin);
		await cp(counted, seeded, { recursive: true });
		return {
			get origin() {
				return origin;
			},
			facts,
			async counts() {
				const response = await fetch(origin + COUNTS_PATH);
				return (await response.json()) as Counts;
			},
			async beginMeasuring() {
				counting = false;
				await restart();
			},
			restart,
			async runScheduled() {
				const { outcome } = await (await miniflare.getWorker()).scheduled({ cron: "*/15 * * * *" });
				if (outcome !== "ok") throw new Error(`the scheduled handler ended with ${outcome}`);
			},
			async cpuMs() {
				const usedMs = await cpuMsOf(pid ?? "");
				return Number.isNaN(usedMs) ? undefined : usedMs;
			},
			stop,
		};
	} catch (error) {
		await stop();
		throw error;
	}
}

/** Serializes starts, because concurrent ones could not distinguish their processes. */
function oneAtATime<Result>(work: () => Promise<Result>): Promise<Result> {
	const result = lastStart.then(work);
	lastStart = result.catch(() => undefined);
	return result;
}
let lastStart: Promise<unknown> = Promise.resolve();

/** A Worker of one file. */
export const singleModule = (contents: string): WorkerModules => [{ name: "worker.js", contents }];

/** Bundles a Worker's file of this directory into one minified module. */
export async function bundle(path: string, external: readonly string[] = []): Promise<string> {
	const result = await build({
		entryPoints: [join(import.meta.dirname, path)],
		bundle: true,
		write: false,
		format: "esm",
		target: "es2024",
		conditions: ["workerd", "worker", "browser"],
		external: [...external],
		minify: true,
		logLevel: "silent",
		outfile: "worker.js",
	});
	const [file] = result.outputFiles;
	if (file === undefined) throw new Error("esbuild wrote no output");
	return file.text;
}

/** Process ids of this process's runtimes; empty without /proc. */
export async function runtimePids(): Promise<string[]> {
	const threads = await readdir("/proc/self/task").catch(() => []);
	const lists = await Promise.all(
		threads.map((thread) => readFile(`/proc/self/task/${thread}/children`, "utf8").catch(() => "")),
	);
	const pids = lists.flatMap((list) => list.split(" ")).filter((pid) => pid !== "");
	const names = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")));
	return pids.filter((_, index) => names[index]?.trim() === "workerd");
}

/**
 * CPU time of the process so far, to the microsecond: the ticks of /proc/<pid>/stat are as long as
 * a hundred checks. NaN without /proc.
 */
export async function cpuMsOf(pid: string): Promise<number> {
	const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
	const texts = await Promise.all(
		threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8").catch(() => "")),
	);
	if (texts.length === 0) return Number.NaN;
	return texts.reduce((sum, text) => sum + Number(text.split(" ")[0] || Number.NaN) / 1e6, 0);
}
