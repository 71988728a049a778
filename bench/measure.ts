/**
 * Measures a case. Counting comes first, in copies. Then every contender runs in each of several
 * short rounds, in rotating order, so that other load on the machine affects all of them. A case
 * that runs out of time gets fewer rounds, never shorter ones.
 */

import type { Case, Contender, Lane } from "./cases";
import { type Child, startChild } from "./child";
import { type Counts, NOTHING } from "./counts";
import type { LoadOrder, LoadResult } from "./load";
import { dollarsPerMillion } from "./prices";
import type { Scenario } from "./scenarios";
import { median, percentile } from "./statistics";

export interface Effort {
	readonly rounds: number;
	readonly roundMs: number;
	/** Long enough for every returning device to check once. */
	readonly warmUpMs: number;
	/** For the case of fresh apps: each app is fresh only once. */
	readonly freshAppsPerRound: number;
	/** Number of apps of the database with many. */
	readonly apps: number;
	/** Number of operations that are counted. */
	readonly counted: number;
	readonly limitMs: number;
}

export const FULL: Effort = {
	rounds: 10,
	roundMs: 500,
	warmUpMs: 3000,
	freshAppsPerRound: 300,
	apps: 10_000,
	counted: 20,
	limitMs: 400_000,
};
export const QUICK: Effort = {
	rounds: 3,
	roundMs: 150,
	warmUpMs: 100,
	freshAppsPerRound: 60,
	apps: 500,
	counted: 5,
	limitMs: 34_000,
};

export const CONNECTIONS = 8;

/** All figures are per operation. */
export interface Measured {
	readonly label: string;
	/** Operations per second, by round; after a restart, extrapolated from one operation. */
	readonly rates: readonly number[];
	readonly operationsPerSecond: number;
	readonly p50Ms: number;
	readonly p99Ms: number;
	/** CPU of the whole runtime process: the Worker, HTTP, local D1 and R2. */
	readonly cpuMs: number | undefined;
	/** By round; empty if the system does not report it. */
	readonly cpuMsOfRounds: readonly number[];
	readonly requests: number;
	readonly counts: Counts;
	readonly dollarsPerMillion: number | undefined;
}

export interface CaseResult {
	readonly name: string;
	readonly title: string;
	readonly way: Case["way"];
	readonly rounds: number;
	readonly contenders: readonly Measured[];
}

/** The load generator. */
export type Load = Child<LoadOrder, Extract<LoadResult, { latenciesMs: readonly number[] }>>;

export const startLoad = (): Load => startChild("load-process.ts");

/**
 * Longer than counting copies buffer events (LONGEST_DELAY_MS of hosts.ts), and longer than their
 * Queue waits for a batch.
 */
const SETTLED_MS = 2_500;
const REFRESHED_MS = 300;

/** Platform operations per operation of a warm Worker. */
export async function count(
	load: Load,
	{ way, name }: Case,
	{ label, host, open }: Contender,
	effort: Effort,
): Promise<Counts> {
	const lane = await open("counting");
	const { worker } = lane;
	const scenario = returning(lane.scenario, effort.counted);
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
	// That case measures exactly the first operation of a new runtime.
	if (way === "restart") {
		await worker.restart();
	} else {
		await run(effort.counted);
		await settle(worker);
		// Snapshots that are older than two seconds are revalidated now, once instead of during the
		// checks.
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

/** Returning devices return during the count. */
function returning(scenario: Scenario, devices: number): Scenario {
	const areMany = (scenario.kind === "check" || scenario.kind === "report") && scenario.devices < MANY_OPERATIONS;
	return areMany ? { ...scenario, devices: Math.min(scenario.devices, devices) } : scenario;
}

/** Waits until background work of the operations is finished and counted. */
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
	/** Per operation, by round. */
	readonly cpuMsOfRounds: number[];
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
		tallies.push({ contender, lane, rates: [], latenciesMs: [], cpuMsOfRounds: [] });
	}
	progress("warming up");
	for (const tally of tallies) {
		await runRound(load, measured, tally, effort.warmUpMs, false);
		if (measured.way === "load") await untilQuiet(tally.lane.worker);
	}
	let rounds = 0;
	for (; rounds < effort.rounds && (rounds === 0 || Date.now() < endMs); rounds += 1) {
		progress(`round ${rounds + 1} of ${effort.rounds}`);
		const first = rounds % tallies.length;
		for (const tally of [...tallies.slice(first), ...tallies.slice(0, first)]) {
			await runRound(load, measured, tally, effort.roundMs, true);
		}
	}
	const contenders = tallies.map((tally) => summary(tally, countsOf(tally.contender)));
	return { name, title, way: measured.way, rounds, contenders };
}

async function runRound(load: Load, measured: Case, tally: Tally, durationMs: number, kept: boolean): Promise<void> {
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
	if (cpuBeforeMs === undefined || cpuAfterMs === undefined) return;
	tally.cpuMsOfRounds.push((cpuAfterMs - cpuBeforeMs) / latenciesMs.length);
}

/** Waits for Queue work of the warm-up, which would otherwise be measured in a round. */
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
/** A Queue delivers a batch after some seconds. */
const QUIET_LOOKS = 8;
const QUIET_SHARE = 0.02;
const LONGEST_SETTLING_MS = 20_000;

/** More operations than any round has. */
const MANY_OPERATIONS = 1_000_000;

function summary({ contender, lane, rates, latenciesMs, cpuMsOfRounds }: Tally, counts: Counts): Measured {
	const cpuMs = cpuMsOfRounds.length === 0 ? undefined : median(cpuMsOfRounds);
	return {
		label: contender.label,
		rates,
		operationsPerSecond: median(rates),
		p50Ms: percentile(latenciesMs, 50),
		p99Ms: percentile(latenciesMs, 99),
		cpuMs,
		cpuMsOfRounds,
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
