/**
 * `npm run bench`: builds the Worker and measures it on this machine beside a bare Hono route, a Hono route with one D1 query, and the
 * published Worker of hot-updater with as much data. Ratios are what it is for; the figures themselves are this machine's. Progress
 * goes to stderr, so stdout is a Markdown report, or JSON with `--json`.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, availableParallelism, loadavg, platform } from "node:os";
import { gzipSync } from "node:zlib";
import { Failure } from "../src/cli/failure";
import { type Case, type Contender, casesOf } from "./cases";
import { type Counts, NOTHING } from "./counts";
import { type Host, prepareHosts } from "./hosts";
import { type CaseResult, count, type Effort, FULL, type Load, measure, QUICK, startLoad } from "./measure";
import { FULL_MEMORY, type MemoryResult, measureMemory, QUICK_MEMORY } from "./memory";
import { type BenchOptions, parseOptions } from "./options";
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
	const { hosts, scripts, missing } = await prepareHosts(effort.freshAppsPerRound * (effort.rounds + 1));
	if (missing !== undefined) note(`hot-updater is left out: ${missing}`);
	const cases = casesOf(hosts, effort.freshAppsPerRound).filter(({ name }) => options.only.includes(name));
	const load = startLoad();
	try {
		const counts = await countAll(load, cases, effort);
		const results = await measureAll(load, cases, counts, effort, startMs + effort.limitMs);
		const visible = options.only.includes("visible") ? await visibleAfter(scripts, options) : undefined;
		const memory = options.only.includes("memory") ? await memoryAfter(scripts, options) : undefined;
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
				bytes: Buffer.byteLength(script),
				gzipBytes: gzipSync(script, { level: 9 }).length,
			})),
			cases: results,
			goals: goalsOf(results),
			visible,
			memory,
			leftOut: missing === undefined ? undefined : `hot-updater (${missing})`,
		};
	} finally {
		load.stop();
		for (const host of Object.values(hosts) as (Host<unknown> | undefined)[]) await host?.stop();
		say("");
	}
}

/** What everything asks of the platform, before anything is timed. */
async function countAll(load: Load, cases: readonly Case[], effort: Effort): Promise<Map<Contender, Counts>> {
	const pairs = cases.flatMap((measured) => measured.contenders.map((contender) => ({ measured, contender })));
	const hosts = new Set(pairs.map(({ contender }) => contender.host));
	say(`starting ${hosts.size} Workers with their data`);
	const started = await Promise.allSettled([...hosts].map((host) => host.counting()));
	for (const start of started) if (start.status === "rejected") throw start.reason;
	const counts = new Map<Contender, Counts>();
	for (const { measured, contender } of pairs) {
		if (counts.has(contender)) continue;
		stopping.signal.throwIfAborted();
		say(`counting ${measured.name}: ${contender.label}`);
		const counted = await count(load, measured, contender, effort);
		if (counted !== undefined) counts.set(contender, counted);
	}
	return counts;
}

/** Each case has its share of the time that is left; a Worker ends with the last case that needs it. */
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
		if ("skipped" in result) note(`skipped: ${measured.name}: ${result.skipped}`);
		results.push(result);
		const needed = new Set(after.flatMap(({ contenders }) => contenders.map(({ host }) => host)));
		for (const { host } of measured.contenders) if (!needed.has(host)) await host.stop();
	}
	return results;
}

/** With nothing else running: what is measured is time. */
async function visibleAfter(
	scripts: readonly { readonly name: string; readonly script: string }[],
	{ quick }: BenchOptions,
): Promise<VisibleResult> {
	const product = scripts.find(({ name }) => name === "Capstan");
	if (product === undefined) throw new Error("the product was not built");
	say("visible: changes under load");
	return measureVisible(product.script, quick ? QUICK_VISIBLE : FULL_VISIBLE, stopping.signal);
}

async function memoryAfter(
	scripts: readonly { readonly name: string; readonly script: string }[],
	{ quick }: BenchOptions,
): Promise<MemoryResult | undefined> {
	const product = scripts.find(({ name }) => name === "Capstan");
	if (product === undefined) throw new Error("the product was not built");
	return measureMemory(product.script, quick ? QUICK_MEMORY : FULL_MEMORY, stopping.signal, (text) =>
		say(`memory: ${text}`),
	);
}

function onlyOf({ only }: BenchOptions): string[] {
	return process.argv.some((argument) => argument.startsWith("--only")) ? ["--only", only.join(",")] : [];
}

async function versionOf(name: string): Promise<string> {
	const path = createRequire(import.meta.url).resolve(`${name}/package.json`);
	return (JSON.parse(await readFile(path, "utf8")) as { version: string }).version;
}

/** What is going on: one line that changes on a terminal, else nothing but the milestones. */
function say(text: string): void {
	if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** What the reader must not miss. */
function note(text: string): void {
	process.stderr.write(`${process.stderr.isTTY ? "\r\x1b[K" : ""}${text}\n`);
}
