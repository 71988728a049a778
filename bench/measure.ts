/**
 * How a case is measured. Counting comes first, in copies; then short rounds in which every contender has its turn, so that whatever
 * else the machine does weighs on all of them. The order turns from round to round. A case that runs out of its time has fewer rounds,
 * never shorter ones.
 */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { Case, Contender, Lane } from "./cases";
import { type Counts, NOTHING } from "./counts";
import type { LoadOrder, LoadResult } from "./load";
import { dollarsPerMillion } from "./prices";
import { median, percentile } from "./statistics";

export interface Effort {
	readonly rounds: number;
	readonly roundMs: number;
	/** Long enough for every device that comes back to have come once. */
	readonly warmUpMs: number;
	/** Of the case of apps that nobody has asked about: each is fresh once. */
	readonly freshAppsPerRound: number;
	/** Operations that are counted, one after the other. */
	readonly counted: number;
	readonly limitMs: number;
}

export const FULL: Effort = {
	rounds: 5,
	roundMs: 1000,
	warmUpMs: 3000,
	freshAppsPerRound: 300,
	counted: 20,
	limitMs: 225_000,
};
export const QUICK: Effort = {
	rounds: 3,
	roundMs: 150,
	warmUpMs: 100,
	freshAppsPerRound: 60,
	counted: 5,
	limitMs: 34_000,
};

export const CONNECTIONS = 8;

/** All figures are for one operation. */
export interface Measured {
	readonly label: string;
	/** Operations a second, by round; after a restart, what the one operation would make. */
	readonly rates: readonly number[];
	readonly operationsPerSecond: number;
	readonly p50Ms: number;
	readonly p99Ms: number;
	/** Of the whole runtime process: the Worker, its HTTP, and the local D1 and R2. */
	readonly cpuMs: number | undefined;
	readonly requests: number;
	readonly counts: Counts;
	readonly dollarsPerMillion: number | undefined;
}

export type CaseResult = { readonly name: string; readonly title: string } & (
	| { readonly skipped: string }
	| { readonly way: Case["way"]; readonly rounds: number; readonly contenders: readonly Measured[] }
);

export interface Load {
	run(order: LoadOrder): Promise<Extract<LoadResult, { latenciesMs: readonly number[] }>>;
	stop(): void;
}

export function startLoad(): Load {
	const child: ChildProcess = fork(join(import.meta.dirname, "load-process.ts"), {
		execArgv: ["--import", "tsx"],
		serialization: "advanced",
	});
	return {
		run: (order) =>
			new Promise((resolve, reject) => {
				const ended = () => reject(new Error("the load generator ended"));
				child.once("exit", ended);
				child.once("message", (result: LoadResult) => {
					child.off("exit", ended);
					if ("failure" in result) reject(new Error(result.failure));
					else resolve(result);
				});
				child.send(order);
			}),
		stop: () => {
			if (child.connected) child.disconnect();
		},
	};
}

/** Longer than events gather in the Worker, and longer than the Queue waits for a batch to fill. */
const SETTLED_MS = 2_500;
const REFRESHED_MS = 300;

/** What one operation asks of the platform, once the Worker is warm. Undefined where there is nothing to measure. */
export async function count(
	load: Load,
	{ way, name }: Case,
	{ label, host, open }: Contender,
	effort: Effort,
): Promise<Counts | undefined> {
	const lane = await open("counting");
	if (typeof lane === "string") return undefined;
	const { worker } = lane;
	// Devices that come back do so within the count.
	const scenario =
		lane.scenario.kind === "check" && lane.scenario.devices < MANY_OPERATIONS
			? { ...lane.scenario, devices: Math.min(lane.scenario.devices, effort.counted) }
			: lane.scenario;
	const run = (operations: number) =>
		load
			.run({
				origin: worker.origin,
				scenario,
				connections: 1,
				durationMs: Number.POSITIVE_INFINITY,
				mostOperations: operations,
				firstNumber: host.takeNumbers(operations),
			})
			.catch(withPlace(name, label));
	// The first operation of a new runtime is just what that case is about.
	if (way === "restart") {
		await worker.restart();
	} else {
		await run(effort.counted);
		await settle(worker);
		// What was believed for two seconds is looked up again now, once and not by each check.
		await run(1);
		await pause(REFRESHED_MS);
	}
	const before = await worker.counts();
	const operations = way === "restart" ? 1 : effort.counted;
	await run(operations);
	await settle(worker);
	const after = await worker.counts();
	const each = (kind: keyof Counts) => (after[kind] - before[kind]) / operations;
	return Object.fromEntries(
		Object.keys(NOTHING).map((kind) => [kind, each(kind as keyof Counts)]),
	) as unknown as Counts;
}

/** Waits until what operations set off behind their answers is done and counted. */
async function settle(worker: Lane["worker"]): Promise<void> {
	let [known, quietSinceMs] = [JSON.stringify(await worker.counts()), Date.now()];
	while (Date.now() - quietSinceMs < SETTLED_MS) {
		await pause(SETTLED_MS / 10);
		const now = JSON.stringify(await worker.counts());
		if (now !== known) [known, quietSinceMs] = [now, Date.now()];
	}
}

interface Tally {
	readonly contender: Contender;
	readonly lane: Lane;
	readonly rates: number[];
	readonly latenciesMs: number[];
	cpuMs: number | undefined;
}

export async function measure(
	load: Load,
	measured: Case,
	countsOf: (contender: Contender) => Counts,
	effort: Effort,
	endMs: number,
	progress: (text: string) => void,
): Promise<CaseResult> {
	const { name, title } = measured;
	const tallies: Tally[] = [];
	for (const contender of measured.contenders) {
		progress(`starting ${contender.host.name}`);
		const lane = await contender.open("timed");
		if (typeof lane === "string") return { name, title, skipped: lane };
		tallies.push({ contender, lane, rates: [], latenciesMs: [], cpuMs: 0 });
	}
	progress("warming up");
	for (const tally of tallies) {
		await turn(load, measured, tally, effort.warmUpMs, false);
		if (measured.way === "load") await untilQuiet(tally.lane.worker);
	}
	let rounds = 0;
	for (; rounds < effort.rounds && (rounds === 0 || Date.now() < endMs); rounds += 1) {
		progress(`round ${rounds + 1} of ${effort.rounds}`);
		const first = rounds % tallies.length;
		for (const tally of [...tallies.slice(first), ...tallies.slice(0, first)]) {
			await turn(load, measured, tally, effort.roundMs, true);
		}
	}
	const contenders = tallies.map((tally) => summary(tally, countsOf(tally.contender)));
	return { name, title, way: measured.way, rounds, contenders };
}

async function turn(load: Load, measured: Case, tally: Tally, durationMs: number, kept: boolean): Promise<void> {
	const { way, operationsPerRound } = measured;
	const { host, label } = tally.contender;
	const { worker, scenario } = tally.lane;
	if (way === "restart") {
		if (!kept) return;
		await worker.restart();
	}
	const mostOperations = way === "restart" ? 1 : (operationsPerRound ?? MANY_OPERATIONS);
	const cpuBeforeMs = await worker.cpuMs();
	const { elapsedMs, latenciesMs } = await load
		.run({
			origin: worker.origin,
			scenario,
			connections: way === "restart" ? 1 : CONNECTIONS,
			durationMs,
			mostOperations,
			firstNumber: host.takeNumbers(mostOperations),
		})
		.catch(withPlace(measured.name, label));
	const cpuAfterMs = await worker.cpuMs();
	if (!kept) return;
	tally.rates.push((latenciesMs.length * 1000) / elapsedMs);
	for (const latencyMs of latenciesMs) tally.latenciesMs.push(latencyMs);
	tally.cpuMs =
		cpuBeforeMs === undefined || cpuAfterMs === undefined || tally.cpuMs === undefined
			? undefined
			: tally.cpuMs + cpuAfterMs - cpuBeforeMs;
}

/** Waits for what the warm-up left to be done, which is a queue's: in a round it would be measured as the requests' own. */
async function untilQuiet(worker: Lane["worker"]): Promise<void> {
	const endMs = Date.now() + LONGEST_SETTLING_MS;
	for (let quietLooks = 0, before = await worker.cpuMs(); quietLooks < QUIET_LOOKS && Date.now() < endMs; ) {
		await pause(LOOK_EVERY_MS);
		const after = await worker.cpuMs();
		if (before === undefined || after === undefined) return;
		quietLooks = after - before <= QUIET_SHARE * LOOK_EVERY_MS ? quietLooks + 1 : 0;
		before = after;
	}
}

const LOOK_EVERY_MS = 500;
/** A batch of a queue waits for some seconds before it is handed over. */
const QUIET_LOOKS = 8;
const QUIET_SHARE = 0.02;
const LONGEST_SETTLING_MS = 20_000;

/** More than a round can have. */
const MANY_OPERATIONS = 1_000_000;

function summary({ contender, lane, rates, latenciesMs, cpuMs: totalCpuMs }: Tally, counts: Counts): Measured {
	const cpuMs = totalCpuMs === undefined ? undefined : totalCpuMs / latenciesMs.length;
	return {
		label: contender.label,
		rates,
		operationsPerSecond: median(rates),
		p50Ms: percentile(latenciesMs, 50),
		p99Ms: percentile(latenciesMs, 99),
		cpuMs,
		requests: lane.requests,
		counts,
		dollarsPerMillion:
			cpuMs === undefined ? undefined : dollarsPerMillion({ ...counts, cpuMs, requests: lane.requests }),
	};
}

function withPlace(caseName: string, label: string) {
	return (error: unknown) => {
		throw new Error(`${caseName}, ${label}: ${error instanceof Error ? error.message : String(error)}`);
	};
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
