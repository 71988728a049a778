/**
 * A Worker on Miniflare as the bench needs it: straight to its own socket on loopback, its runtime process known by number so that its
 * CPU time can be read, and restartable. Every Worker here is started the same way, Capstan and what it is held against.
 */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { D1Database } from "@cloudflare/workers-types";
import { build } from "esbuild";
import { Log, LogLevel, Miniflare, type MiniflareOptions } from "miniflare";
import { COUNTS_PATH, type Counts } from "./counts";

const HOST = "127.0.0.1";
/** Leaves out what else a Worker exports: some have constants there, which workerd refuses. */
const PLAIN_ENTRY = `export { default } from "./worker.js";`;

/** A Worker and the data it has. `Facts` is what a client must know of the data. */
export interface WorkerDefinition<Facts> {
	readonly script: string;
	/** Compatibility, bindings and limits, as its own deployment has them. */
	readonly options: Record<string, unknown>;
	seed(database: D1Database, origin: string): Promise<Facts>;
}

export interface RunningWorker<Facts> {
	readonly origin: string;
	readonly facts: Facts;
	/** What the Worker has asked of the platform so far; only until it is measured. */
	counts(): Promise<Counts>;
	/** Ends the counting copy and starts the Worker itself over the data as they were when it was seeded. */
	beginMeasuring(): Promise<void>;
	/** A new runtime process over the same data: nothing is in memory any more. */
	restart(): Promise<void>;
	/** CPU time of the runtime's process so far; undefined where the system does not say. */
	cpuMs(): Promise<number | undefined>;
	stop(): Promise<void>;
}

/** Starts a copy that counts, and fills it. */
export async function startWorker<Facts>(definition: WorkerDefinition<Facts>): Promise<RunningWorker<Facts>> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-bench-"));
	const [seeded, counted] = [join(directory, "seeded"), join(directory, "counted")];
	const countingEntry = await bundle("worker/counting.ts", ["./worker.js"]);
	let counting = true;
	const options = () => {
		const state = counting ? counted : seeded;
		return {
			...definition.options,
			name: "measured",
			modules: [
				{ type: "ESModule", path: "/entry.js", contents: counting ? countingEntry : PLAIN_ENTRY },
				{ type: "ESModule", path: "/worker.js", contents: definition.script },
			],
			modulesRoot: "/",
			host: HOST,
			port: 0,
			unsafeDirectSockets: [{ host: HOST, port: 0 }],
			cf: false,
			d1Persist: join(state, "d1"),
			r2Persist: join(state, "r2"),
			log: new Log(LogLevel.ERROR),
		} as unknown as MiniflareOptions;
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
		const database = (await miniflare.getD1Database("DB")) as unknown as D1Database;
		const facts = await definition.seed(database, origin);
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
			cpuMs: () => cpuMsOf(pid),
			stop,
		};
	} catch (error) {
		await stop();
		throw error;
	}
}

/** Two starts at once could not tell whose process is whose. */
function oneAtATime<Result>(work: () => Promise<Result>): Promise<Result> {
	const result = lastStart.then(work);
	lastStart = result.catch(() => undefined);
	return result;
}
let lastStart: Promise<unknown> = Promise.resolve();

/** A Worker's file in this directory as one minified module. */
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
	if (file === undefined) throw new Error("esbuild made no output");
	return file.text;
}

/** This process's runtimes; none where there is no /proc. */
export async function runtimePids(): Promise<string[]> {
	const threads = await readdir("/proc/self/task").catch(() => []);
	const lists = await Promise.all(
		threads.map((thread) => readFile(`/proc/self/task/${thread}/children`, "utf8").catch(() => "")),
	);
	const pids = lists.flatMap((list) => list.split(" ")).filter((pid) => pid !== "");
	const names = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")));
	return pids.filter((_, index) => names[index]?.trim() === "workerd");
}

let ticksPerSecond: Promise<number> | undefined;

async function cpuMsOf(pid: string | undefined): Promise<number | undefined> {
	if (pid === undefined) return undefined;
	ticksPerSecond ??= promisify(execFile)("getconf", ["CLK_TCK"]).then(
		({ stdout }) => Number(stdout),
		() => 100,
	);
	const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
	// The name, in parentheses, may hold spaces; utime and stime are the 14th and 15th field.
	const fields = line?.slice(line.lastIndexOf(")") + 2).split(" ");
	const ticks = Number(fields?.[11]) + Number(fields?.[12]);
	return Number.isNaN(ticks) ? undefined : (ticks * 1000) / (await ticksPerSecond);
}
