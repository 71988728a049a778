/**
 * `npm run bench`: measures the built Worker against a bare Hono route, a Hono route with one D1
 * query, and the published Worker of hot-updater with as much data. Only ratios compare across
 * machines. Progress goes to stderr; stdout is a Markdown report, or JSON with `--json`.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, availableParallelism, loadavg, platform } from "node:os";
import { gzipSync } from "node:zlib";
import type { WorkerModules } from "../src/operator/build";
import { Failure } from "../src/operator/failure";
import { type Case, type Contender, casesOf } from "./cases";
import { type ColdResult, FULL_COLD, measureCold, QUICK_COLD } from "./cold";
import { type ConsumersResult, FULL_CONSUMERS, measureConsumers, QUICK_CONSUMERS } from "./consumers";
import { measureCost } from "./cost";
import type { CostCounts } from "./cost-model";
import { type Counts, NOTHING } from "./counts";
import { type DeliveryResult, FULL_DELIVERY, measureDelivery, QUICK_DELIVERY } from "./delivery";
import { FULL_GROWTH, type GrowthResult, measureGrowth, QUICK_GROWTH } from "./growth";
import { type Host, prepareHosts, type Sources } from "./hosts";
import { FULL_ISOLATE_LOAD, type IsolateLoadResult, measureIsolateLoad, QUICK_ISOLATE_LOAD } from "./isolate-load";
import { type CaseResult, count, type Effort, FULL, type Load, measure, QUICK, startLoad } from "./measure";
import { FULL_MEMORY, type MemoryResult, measureMemory, QUICK_MEMORY } from "./memory";
import { FULL_NEIGHBOURS, measureNeighbours, type NeighboursResult, QUICK_NEIGHBOURS } from "./neighbours";
import { type BenchOptions, parseOptions } from "./options";
import { FULL_OVERLOAD, measureOverload, type OverloadResult, QUICK_OVERLOAD } from "./overload";
import { PRICES } from "./prices";
import { goalsOf, markdown, type Report } from "./report";
import { FULL_VISIBLE, measureVisible, QUICK_VISIBLE, type VisibleResult } from "./visible";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort());

try {
	const options = parseOptions(process.argv.slice(2));
	const report = await run(options);
	console.log(options.json ? JSON.stringify(report, undefined, "\t") : markdown(report));
} catch (error) {
	if (!stopping.signal.aborted) console.error(error instanceof Failure ? error.message : error);
	process.exitCode = stopping.signal.aborted ? 130 : 1;
}

async function run(options: BenchOptions): Promise<Report> {
	const effort = options.quick ? QUICK : FULL;
	const startMs = Date.now();
	const loadBefore = loadavg()[0] ?? 0;
	say("building");
	const { hosts, scripts, missing } = await prepareHosts(effort.apps);
	const product = productOf(scripts);
	if (missing !== undefined) note(`hot-updater is left out: ${missing}`);
	const cases = casesOf(hosts, effort.freshAppsPerRound).filter(({ name }) => options.only.includes(name));
	const load = startLoad();
	try {
		const counts = await countAll(load, cases, effort);
		const results = await measureAll(load, cases, counts, effort, startMs + effort.limitMs);
		const visible = options.only.includes("visible") ? await runVisible(product, options) : undefined;
		const isolates = options.only.includes("isolates") ? await runIsolates(product, options) : undefined;
		const memory = options.only.includes("memory") ? await runMemory(product, options) : undefined;
		const neighbours = options.only.includes("neighbours") ? await runNeighbours(product, options) : undefined;
		const consumers = options.only.includes("consumers") ? await runConsumers(options) : undefined;
		const cost = options.only.includes("cost") ? await runCost(product) : undefined;
		const cold = options.only.includes("cold") ? await runCold(product, options) : undefined;
		const delivery = options.only.includes("delivery") ? await runDelivery(options) : undefined;
		const growth = options.only.includes("growth") ? await runGrowth(product, options) : undefined;
		const overload = options.only.includes("overload") ? await runOverload(product, options) : undefined;
		const chosen = ["bench", ...(options.quick ? ["--quick"] : []), ...onlyOf(options)];
		return {
			command: `npm run ${chosen.length > 1 ? [chosen[0], "--", ...chosen.slice(1)].join(" ") : "bench"}`,
			machine: {
				cores: availableParallelism(),
				load: [loadBefore, loadavg()[0] ?? 0],
				platform: `${platform()} ${arch()}`,
				node: process.versions.node,
				workerd: await versionOf("workerd"),
			},
			effort,
			prices: PRICES,
			workers: scripts.map(({ name, script }) => ({
				name,
				bytes: Buffer.byteLength(textOf(script)),
				gzipBytes: gzipSync(textOf(script), { level: 9 }).length,
			})),
			cases: results,
			goals: goalsOf(results),
			visible,
			isolates,
			memory,
			neighbours,
			consumers,
			cost,
			costIsolates: options.isolates,
			cold,
			delivery,
			growth,
			overload,
			leftOut: missing === undefined ? undefined : `hot-updater (${missing})`,
		};
	} finally {
		load.stop();
		for (const host of Object.values(hosts) as (Host<unknown> | undefined)[]) await host?.stop();
		say("");
	}
}

/** Counts platform operations of all cases, before anything is timed. */
async function countAll(load: Load, cases: readonly Case[], effort: Effort): Promise<Map<Contender, Counts>> {
	const pairs = cases.flatMap((measured) => measured.contenders.map((contender) => ({ measured, contender })));
	const hosts = new Set(pairs.map(({ contender }) => contender.host));
	say(`starting ${hosts.size} Workers with their data`);
	// One after another: a runtime whose event loop is starved closes connections that are in use.
	for (const host of hosts) await host.counting();
	const counts = new Map<Contender, Counts>();
	for (const { measured, contender } of pairs) {
		if (counts.has(contender)) continue;
		stopping.signal.throwIfAborted();
		say(`counting ${measured.name}: ${contender.label}`);
		counts.set(contender, await count(load, measured, contender, effort));
	}
	return counts;
}

/**
 * Each case gets its share of the remaining time. A Worker ends with the last case that needs it.
 */
async function measureAll(
	load: Load,
	cases: readonly Case[],
	counts: ReadonlyMap<Contender, Counts>,
	effort: Effort,
	endMs: number,
): Promise<CaseResult[]> {
	const results: CaseResult[] = [];
	for (const [index, measured] of cases.entries()) {
		const after = cases.slice(index + 1);
		const contendersLeft = cases.slice(index).reduce((sum, { contenders }) => sum + contenders.length, 0);
		const shareMs = (Math.max(0, endMs - Date.now()) * measured.contenders.length) / contendersLeft;
		const result = await measure(
			load,
			measured,
			(contender) => counts.get(contender) ?? NOTHING,
			effort,
			Date.now() + shareMs,
			(text) => {
				stopping.signal.throwIfAborted();
				say(`${index + 1}/${cases.length} ${measured.name}: ${text}`);
			},
		);
		results.push(result);
		const needed = new Set(after.flatMap(({ contenders }) => contenders.map(({ host }) => host)));
		for (const { host } of measured.contenders) if (!needed.has(host)) await host.stop();
	}
	return results;
}

/** The built Worker, for measurements that start dedicated isolates of it. */
function productOf(scripts: Sources["scripts"]): WorkerModules {
	const product = scripts.find(({ name }) => name === "Capstan");
	if (product === undefined) throw new Error("the product was not built");
	return product.script;
}

/** Runs alone, because it measures time. */
async function runVisible(product: WorkerModules, { quick }: BenchOptions): Promise<VisibleResult> {
	say("visible: changes under load");
	return measureVisible(product, quick ? QUICK_VISIBLE : FULL_VISIBLE, stopping.signal);
}

async function runIsolates(product: WorkerModules, { quick }: BenchOptions): Promise<IsolateLoadResult> {
	say("isolates: many isolates over one database");
	const effort = quick ? QUICK_ISOLATE_LOAD : FULL_ISOLATE_LOAD;
	return measureIsolateLoad(product, effort, stopping.signal);
}

async function runMemory(product: WorkerModules, { quick }: BenchOptions): Promise<MemoryResult | undefined> {
	return measureMemory(product, quick ? QUICK_MEMORY : FULL_MEMORY, stopping.signal, (text) => say(`memory: ${text}`));
}

async function runNeighbours(product: WorkerModules, { quick }: BenchOptions): Promise<NeighboursResult | undefined> {
	const effort = quick ? QUICK_NEIGHBOURS : FULL_NEIGHBOURS;
	return measureNeighbours(product, effort, stopping.signal, (text) => say(`neighbours: ${text}`));
}

async function runConsumers({ quick }: BenchOptions): Promise<ConsumersResult> {
	return measureConsumers(quick ? QUICK_CONSUMERS : FULL_CONSUMERS, (text) => say(`consumers: ${text}`));
}

async function runCost(product: WorkerModules): Promise<CostCounts> {
	return measureCost(product, stopping.signal, (text) => say(`cost: ${text}`));
}

async function runCold(product: WorkerModules, { quick }: BenchOptions): Promise<ColdResult | undefined> {
	return measureCold(product, quick ? QUICK_COLD : FULL_COLD, stopping.signal, (text) => say(`cold: ${text}`));
}

async function runGrowth(product: WorkerModules, { quick }: BenchOptions): Promise<GrowthResult> {
	const effort = quick ? QUICK_GROWTH : FULL_GROWTH;
	return measureGrowth(product, effort, stopping.signal, (text) => say(`growth: ${text}`));
}

async function runOverload(product: WorkerModules, { quick }: BenchOptions): Promise<OverloadResult> {
	const effort = quick ? QUICK_OVERLOAD : FULL_OVERLOAD;
	const result = await measureOverload(product, effort, stopping.signal, (text) => say(`overload: ${text}`));
	// A fault of the product, so that a script notices it.
	if (result.bare.length + result.uncaught.length > 0) process.exitCode = 1;
	return result;
}

async function runDelivery({ quick }: BenchOptions): Promise<DeliveryResult | undefined> {
	const effort = quick ? QUICK_DELIVERY : FULL_DELIVERY;
	const result = await measureDelivery(effort, stopping.signal, (text) => say(`delivery: ${text}`));
	if (result === undefined) note("delivery is left out: it needs javac 17 or newer, in JAVA_HOME or on the PATH");
	return result;
}

function textOf(script: WorkerModules): string {
	return script.map(({ contents }) => contents).join("\n");
}

function onlyOf({ only }: BenchOptions): string[] {
	return process.argv.some((argument) => argument.startsWith("--only")) ? ["--only", only.join(",")] : [];
}

async function versionOf(name: string): Promise<string> {
	const path = createRequire(import.meta.url).resolve(`${name}/package.json`);
	return (JSON.parse(await readFile(path, "utf8")) as { version: string }).version;
}

/** Progress: one changing line on a terminal, otherwise milestones only. */
function say(text: string): void {
	if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** Important messages. */
function note(text: string): void {
	process.stderr.write(`${process.stderr.isTTY ? "\r\x1b[K" : ""}${text}\n`);
}
