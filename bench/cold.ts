/**
 * The first request of a fresh isolate: CPU time of the runtime process for an update check by the
 * built Worker, and for a request to a bare Worker that makes one D1 query and answers JSON. Both
 * kinds of Worker run in one process over one database, several isolates of each, and take turns,
 * so other load on the machine affects both. The local D1 is warm before the first figure, because
 * D1 is a separate service.
 */
import type { WorkerModules } from "../src/operator/build";
import { miniflareModules } from "../src/operator/local-build";
import { capstan } from "./capstan";
import { openConnection } from "./connection";
import {
	bundle,
	cpuMsOf,
	databasesOf,
	runtimePids,
	singleModule,
	startRuntime,
	type WorkerDefinition,
	workerOf,
} from "./runtime";
import { operationOf, type Scenario } from "./scenarios";
import { median, percentile } from "./statistics";

export interface ColdEffort {
	readonly processes: number;
	/** Isolates of each kind in a process. */
	readonly isolates: number;
}

export const FULL_COLD: ColdEffort = { processes: 3, isolates: 8 };
export const QUICK_COLD: ColdEffort = { processes: 1, isolates: 3 };

export interface ColdResult {
	/** CPU milliseconds of each first request. */
	readonly checkMs: readonly number[];
	readonly floorMs: readonly number[];
	/** CPU milliseconds to start an isolate, beyond those of a bare Worker; one figure per process. */
	readonly startMs: readonly number[];
}

/** Goal for the median of the checks, divided by the median of the floor. */
export const COLD_GOAL = 3;
/**
 * Above this spread of the floor (interquartile range by median), a run says that it cannot judge.
 */
const MOST_SPREAD = 0.35;

/**
 * The answer's background work, such as writing to the database's cache, belongs to the request.
 */
const SETTLE_MS = 40;
/**
 * Other work, such as sending the events of an earlier check, must be over before the next figure.
 */
const QUIET_LOOK_MS = 150;
const QUIET_CPU_MS = 1.5;
const MOST_QUIET_LOOKS = 40;
const APP_ID = "com.example.fleet";

/** Undefined if the system does not report CPU time per thread. */
export async function measureCold(
	script: WorkerModules,
	effort: ColdEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<ColdResult | undefined> {
	const product = capstan(script, { bundles: 10 });
	const floor: WorkerDefinition<null> = {
		script: singleModule(await bundle("worker/floor.ts")),
		// The same bindings, so that the start of an isolate differs by the Worker alone.
		options: product.options,
		seed: async () => null,
	};
	const [checkMs, floorMs, startMs]: [number[], number[], number[]] = [[], [], []];
	for (let process = 0; process < effort.processes; process += 1) {
		signal.throwIfAborted();
		say(`process ${process + 1} of ${effort.processes}`);
		const starts: number[] = [];
		for (const definition of [floor, product]) {
			const started = await start(kindsOf([definition], effort.isolates));
			await started.stop();
			if (started.startedMs === undefined) return undefined;
			starts.push(started.startedMs);
		}
		startMs.push(((starts[1] ?? Number.NaN) - (starts[0] ?? Number.NaN)) / effort.isolates);
		const measured = await measureProcess(product, floor, effort.isolates);
		checkMs.push(...measured.checkMs);
		floorMs.push(...measured.floorMs);
	}
	return { checkMs, floorMs, startMs };
}

async function measureProcess(product: WorkerDefinition<unknown>, floor: WorkerDefinition<null>, isolates: number) {
	// The first isolate of each kind warms the database.
	const started = await start(kindsOf([product, floor], isolates + 1));
	const [checkMs, floorMs]: [number[], number[]] = [[], []];
	try {
		const { miniflare, pid } = started;
		const originOf = async (kind: number, index: number) =>
			(await miniflare.unsafeGetDirectURL(nameOf(kind, index))).origin;
		await product.seed(databasesOf(miniflare, nameOf(0, 0)), await originOf(0, 0));
		for (let index = 0; index <= isolates; index += 1) {
			for (const kind of index % 2 === 0 ? [0, 1] : [1, 0]) {
				const operation = operationOf(SCENARIOS[kind] ?? CHECK);
				await untilQuiet(pid);
				const connection = await openConnection(await originOf(kind, index));
				const beforeMs = await cpuMsOf(pid);
				await operation(connection, index);
				await pause(SETTLE_MS);
				const afterMs = await cpuMsOf(pid);
				connection.close();
				if (index > 0) (kind === 0 ? checkMs : floorMs).push(afterMs - beforeMs);
			}
		}
	} finally {
		await started.stop();
	}
	return { checkMs, floorMs };
}

const CHECK: Scenario = {
	kind: "check",
	appId: APP_ID,
	versionName: "builtin",
	firstDevice: 0,
	devices: 1_000,
	contains: ["/files/download/", "&signature="],
};
/** The floor gets the same request. */
const SCENARIOS: readonly Scenario[] = [CHECK, { ...CHECK, contains: [`"app_id":"${APP_ID}"`] }];

const nameOf = (kind: number, index: number) => `kind-${kind}-isolate-${index}`;

function kindsOf(definitions: readonly WorkerDefinition<unknown>[], isolates: number) {
	return definitions.flatMap((definition, kind) =>
		Array.from({ length: isolates }, (_, index) => {
			// Without a consumer, no batch of events is processed during a figure.
			const { queueConsumers: _consumers, ...options } = definition.options;
			return workerOf(nameOf(kind, index), miniflareModules(definition.script), options);
		}),
	);
}

async function start(workers: readonly object[]) {
	const before = new Set(await runtimePids());
	const { miniflare, stop } = await startRuntime(workers);
	try {
		await miniflare.ready;
		const pid = (await runtimePids()).find((candidate) => !before.has(candidate)) ?? "";
		await untilQuiet(pid);
		const startedMs = await cpuMsOf(pid);
		return { miniflare, pid, startedMs: Number.isNaN(startedMs) ? undefined : startedMs, stop };
	} catch (error) {
		await stop();
		throw error;
	}
}

async function untilQuiet(pid: string): Promise<void> {
	for (let look = 0, before = await cpuMsOf(pid); look < MOST_QUIET_LOOKS; look += 1) {
		await pause(QUIET_LOOK_MS);
		const after = await cpuMsOf(pid);
		if (!(after - before > QUIET_CPU_MS)) return;
		before = after;
	}
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** The rows of the report. */
export function coldLines({ checkMs, floorMs, startMs }: ColdResult): string[] {
	const ratio = median(checkMs) / median(floorMs);
	const spread = (percentile(floorMs, 75) - percentile(floorMs, 25)) / median(floorMs);
	const row = (title: string, values: readonly number[]) =>
		`| ${title} | ${values.length} | ${[50, 25, 75].map((percent) => percentile(values, percent).toFixed(1)).join(" | ")} |`;
	const verdict = spread > MOST_SPREAD ? "the machine was too busy to judge" : ratio <= COLD_GOAL ? "met" : "missed";
	return [
		`**First request of a fresh isolate**, CPU of the runtime process. Goal: at most ${COLD_GOAL} times a bare Worker with one D1 query; measured ${ratio.toFixed(2)} (${verdict}).`,
		"",
		"| | isolates | median ms | p25 | p75 |",
		"|---|--:|--:|--:|--:|",
		row("Capstan, update check", checkMs),
		row("bare Worker, one D1 query", floorMs),
		"",
		`Start of an isolate: ${median(startMs).toFixed(1)} ms of CPU more than the bare Worker.`,
	];
}
