/**
 * Results of a run, as data and as Markdown for bench/README.md. They describe the machine for
 * comparison, without its host name.
 */

import { GOALS } from "./cases";
import { type ColdResult, coldLines } from "./cold";
import { type ConsumersResult, consumersLines } from "./consumers";
import { type CostCounts, costLines } from "./cost-model";
import { type DeliveryResult, deliveryLines } from "./delivery";
import { type GrowthResult, growthLines } from "./growth";
import { type IsolateLoadResult, isolateLoadLines } from "./isolate-load";
import { type CaseResult, CONNECTIONS, type Effort, type Measured } from "./measure";
import { type MemoryResult, memoryLines } from "./memory";
import { type NeighboursResult, neighboursLines } from "./neighbours";
import { type OverloadResult, overloadLines } from "./overload";
import { PRICES } from "./prices";
import { ratioOfRounds, spreadOfRounds } from "./statistics";
import { type VisibleResult, visibleLines } from "./visible";

export interface Report {
	readonly command: string;
	readonly machine: {
		readonly cores: number;
		/** Runnable processes over the last minute, before the run and after it. */
		readonly load: readonly [number, number];
		readonly platform: string;
		readonly node: string;
		readonly workerd: string;
	};
	readonly effort: Effort;
	readonly prices: typeof PRICES;
	readonly workers: readonly { readonly name: string; readonly bytes: number; readonly gzipBytes: number }[];
	readonly cases: readonly CaseResult[];
	readonly goals: readonly GoalResult[];
	/** Undefined if it was not requested. */
	readonly visible: VisibleResult | undefined;
	readonly isolates: IsolateLoadResult | undefined;
	readonly memory: MemoryResult | undefined;
	readonly neighbours: NeighboursResult | undefined;
	readonly consumers: ConsumersResult | undefined;
	readonly cost: CostCounts | undefined;
	/** Isolates of each fleet in `cost`; undefined: a number for each. */
	readonly costIsolates: number | undefined;
	readonly cold: ColdResult | undefined;
	readonly delivery: DeliveryResult | undefined;
	readonly growth: GrowthResult | undefined;
	readonly overload: OverloadResult | undefined;
	readonly leftOut: string | undefined;
}

export interface GoalResult {
	readonly title: string;
	readonly atLeast: number;
	/** Ratio of the rates. */
	readonly measured: number;
	/**
	 * Ratio of CPU times, which a busy machine distorts less; undefined if the system does not report
	 * it.
	 */
	readonly measuredByCpu: number | undefined;
	readonly verdict: Verdict;
}

type Verdict = "met" | "missed" | "too noisy to judge";

/** A goal is not judged above this spread of the ratios of the rounds. */
const MOST_SPREAD = 0.25;

function verdictOf(our: Measured, their: Measured, atLeast: number): Verdict {
	if (!(spreadOfRounds(our.rates, their.rates) <= MOST_SPREAD)) return "too noisy to judge";
	return ratioOfRounds(our.rates, their.rates) >= atLeast ? "met" : "missed";
}

/** Goals that this run measured. */
export function goalsOf(cases: readonly CaseResult[]): GoalResult[] {
	return GOALS.flatMap(({ title, caseName, ours, theirs, atLeast }) => {
		const found = cases.find(({ name }) => name === caseName);
		const our = found?.contenders.find(({ label }) => label === ours);
		const their = found?.contenders.find(({ label }) => label === theirs);
		if (our === undefined || their === undefined) return [];
		const measured = ratioOfRounds(our.rates, their.rates);
		const [cpuMs, theirCpuMs] = [our.cpuMsOfRounds, their.cpuMsOfRounds];
		const measuredByCpu = cpuMs.length === 0 || theirCpuMs.length === 0 ? undefined : ratioOfRounds(theirCpuMs, cpuMs);
		return [{ title, atLeast, measured, measuredByCpu, verdict: verdictOf(our, their, atLeast) }];
	});
}

export function markdown(report: Report): string {
	const lines = report.cases.length === 0 ? [headOf(report)] : comparedLines(report);
	if (report.visible !== undefined) lines.push("", ...visibleLines(report.visible));
	if (report.isolates !== undefined) lines.push("", ...isolateLoadLines(report.isolates));
	if (report.memory !== undefined) lines.push("", ...memoryLines(report.memory));
	if (report.neighbours !== undefined) lines.push("", ...neighboursLines(report.neighbours));
	if (report.consumers !== undefined) lines.push("", ...consumersLines(report.consumers));
	if (report.cost !== undefined) lines.push("", ...costLines(report.cost, report.costIsolates));
	if (report.cold !== undefined) lines.push("", ...coldLines(report.cold));
	if (report.delivery !== undefined) lines.push("", ...deliveryLines(report.delivery));
	if (report.growth !== undefined) lines.push("", ...growthLines(report.growth));
	if (report.overload !== undefined) lines.push("", ...overloadLines(report.overload));
	return lines.join("\n");
}

function headOf({ command, machine }: Report): string {
	return `\`${command}\`: ${machineText(machine)}`;
}

const machineText = (machine: Report["machine"]) =>
	`${machine.cores} cores (load ${machine.load.map((load) => load.toFixed(1)).join(" to ")}), ${machine.platform}, Node ${machine.node}, workerd ${machine.workerd}.`;

function comparedLines(report: Report): string[] {
	const { machine, effort, cases } = report;
	const lines = [
		`\`${report.command}\`: Workers as they are deployed, on loopback straight to workerd's socket, ${CONNECTIONS} connections, medians of up to ${effort.rounds} interleaved rounds of ${effort.roundMs / 1000} s. ${machineText(machine)}`,
		"",
		"| | per s | p50 ms | p99 ms | CPU ms | D1 calls | rows read / written | $ a million | Capstan is |",
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|",
	];
	for (const result of cases) {
		lines.push(`| **${result.title}** | | | | | | | | |`);
		for (const measured of result.contenders) lines.push(rowOf(measured, result));
	}
	lines.push(
		"",
		`CPU is the whole workerd process with its local D1 and R2, so more than Cloudflare would bill. Dollars are list prices of ${PRICES.asOf} for requests, that CPU, D1 rows, Queue messages and R2 operations, beyond the allowances. Events of ${effort.counted} operations share a message and a batch; \`--only cost\` has the share in fleets. POST /stats is without the consumer of its messages. "Capstan is" compares the rates of Capstan's first row and this one, round by round. Every answer was checked.`,
	);
	if (report.leftOut !== undefined) lines.push("", `Left out: ${report.leftOut}.`);
	lines.push("", "| Worker | bytes | gzip |", "|---|--:|--:|");
	for (const { name, bytes, gzipBytes } of report.workers) {
		lines.push(`| ${name} | ${kilobytes(bytes)} | ${kilobytes(gzipBytes)} |`);
	}
	if (report.goals.length > 0) {
		lines.push("", "| Goal | at least | measured | by CPU time | |", "|---|--:|--:|--:|---|");
		for (const { title, atLeast, measured, measuredByCpu, verdict } of report.goals) {
			const byCpu = measuredByCpu === undefined ? "–" : times(measuredByCpu);
			lines.push(`| ${title} | ${atLeast} | ${times(measured)} | ${byCpu} | ${verdict} |`);
		}
	}
	return lines;
}

function rowOf(measured: Measured, { way, contenders }: CaseResult): string {
	const [first] = contenders;
	const { label, operationsPerSecond, p50Ms, p99Ms, cpuMs, counts, dollarsPerMillion } = measured;
	const cells = [
		label,
		way === "restart" ? "" : significant(operationsPerSecond),
		p50Ms.toFixed(2),
		p99Ms.toFixed(2),
		cpuMs === undefined ? "–" : cpuMs.toFixed(3),
		plain(counts.d1Trips),
		`${plain(counts.d1RowsRead)} / ${plain(counts.d1RowsWritten)}`,
		way === "restart" || dollarsPerMillion === undefined ? "" : dollarsPerMillion.toFixed(2),
		first === undefined || first === measured ? "" : `${times(ratioOfRounds(first.rates, measured.rates))} ×`,
	];
	return `| ${cells.join(" | ")} |`;
}

/** Three digits, because more would be noise. */
function significant(value: number): string {
	return Number(value.toPrecision(3)).toLocaleString("en-US");
}
const times = (ratio: number) => (ratio >= 10 ? significant(ratio) : ratio.toFixed(2));
const plain = (value: number) => Number(value.toFixed(2)).toLocaleString("en-US");
const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`;
