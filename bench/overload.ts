/**
 * The Worker beyond what it can serve: hundreds of connections that send checks, reports and
 * changes without a pause, beside a calm phase with few of them. Every answer is one of the
 * service, with a time to try again where it refuses; the runtime's log holds no uncaught
 * exception; and the heap after a collection does not grow.
 */
import type { WorkerModules } from "../src/operator/build";
import { type CapstanFacts, capstan } from "./capstan";
import { type Answer, type Connection, openConnection, type Question } from "./connection";
import { startMeasured } from "./measured";
import { deviceId } from "./scenarios";
import { percentile } from "./statistics";

export interface OverloadEffort {
	readonly calmConnections: number;
	readonly calmMs: number;
	readonly connections: number;
	readonly overloadMs: number;
	/** The heap is read between parts of the overload. */
	readonly parts: number;
}

export const FULL_OVERLOAD: OverloadEffort = {
	calmConnections: 8,
	calmMs: 30_000,
	connections: 400,
	overloadMs: 600_000,
	parts: 10,
};
export const QUICK_OVERLOAD: OverloadEffort = { ...FULL_OVERLOAD, calmMs: 5_000, overloadMs: 30_000, parts: 3 };

interface Phase {
	readonly connections: number;
	readonly perSecond: number;
	readonly statuses: Readonly<Record<string, number>>;
	readonly p50Ms: number;
	readonly p99Ms: number;
	/** Heap of the isolate after the phase and a collection. */
	readonly heapMegabytes: number;
	/** Undefined if the system does not report it. */
	readonly processMegabytes: number | undefined;
}

export interface OverloadResult {
	readonly calm: Phase;
	readonly overload: readonly Phase[];
	/** Answers that the service did not write, or that refuse without a time to try again. */
	readonly bare: readonly string[];
	/** Lines of the runtime's log that name an uncaught exception. */
	readonly uncaught: readonly string[];
}

const JSON_TYPE = { "content-type": "application/json" };
const DEVICES = 20_000;
/** Numbers among a hundred requests; the rest are checks. */
const [CHANGES, READS, REPORTS] = [1, 4, 15];
const MOST_KEPT = 20;

export async function measureOverload(
	script: WorkerModules,
	effort: OverloadEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<OverloadResult> {
	const [bare, uncaught]: [string[], string[]] = [[], []];
	const worker = await startMeasured(capstan(script, { bundles: 10 }), {
		inspectorPort: 0,
		handleStructuredLogs: ({ message }: { readonly message: string }) => {
			if (message.includes("ncaught exception")) keep(uncaught, message);
		},
	});
	try {
		const phase = async (connections: number, durationMs: number): Promise<Phase> => {
			const sent = await load(worker, connections, durationMs, signal, (answer) => note(bare, answer));
			return {
				...sent,
				heapMegabytes: await worker.heapMegabytes(),
				processMegabytes: await worker.processMegabytes(),
			};
		};
		say("calm");
		const calm = await phase(effort.calmConnections, effort.calmMs);
		const overload: Phase[] = [];
		for (let part = 1; part <= effort.parts; part++) {
			signal.throwIfAborted();
			say(`part ${part} of ${effort.parts}`);
			overload.push(await phase(effort.connections, effort.overloadMs / effort.parts));
		}
		return { calm, overload, bare, uncaught };
	} finally {
		await worker.stop();
	}
}

function keep(kept: string[], text: string): void {
	if (kept.length < MOST_KEPT) kept.push(text.slice(0, 300));
}

function note(bare: string[], { status, body }: Answer): void {
	if (status < 429) return;
	const isTemporary = status === 429 || status === 503;
	try {
		const { error, moreInfo } = JSON.parse(body) as { error?: string; moreInfo?: { retryAfterSeconds?: number } };
		if (error !== undefined && isTemporary && typeof moreInfo?.retryAfterSeconds === "number") return;
	} catch {
		// No JSON, so it is not of the service.
	}
	keep(bare, `${status} ${body}`);
}

async function load(
	{ origin, facts }: { readonly origin: string; readonly facts: CapstanFacts },
	count: number,
	durationMs: number,
	signal: AbortSignal,
	seen: (answer: Answer) => void,
): Promise<Omit<Phase, "heapMegabytes" | "processMegabytes">> {
	const connections: Connection[] = [];
	for (let index = 0; index < count; index++) connections.push(await openConnection(origin));
	const statuses: Record<string, number> = {};
	const tookMs: number[] = [];
	const startMs = performance.now();
	let number = 0;
	await Promise.all(
		connections.map(async (connection) => {
			while (performance.now() - startMs < durationMs && !signal.aborted) {
				const askedAtMs = performance.now();
				const answer = await connection.ask(questionOf(number++, facts));
				tookMs.push(performance.now() - askedAtMs);
				statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
				seen(answer);
			}
		}),
	);
	const seconds = (performance.now() - startMs) / 1_000;
	for (const connection of connections) connection.close();
	return {
		connections: count,
		perSecond: Math.round(tookMs.length / seconds),
		statuses,
		p50Ms: percentile(tookMs, 50),
		p99Ms: percentile(tookMs, 99),
	};
}

function questionOf(number: number, { appId, key, newestVersion }: CapstanFacts): Question {
	const kind = number % 100;
	const managed = { ...JSON_TYPE, authorization: key };
	if (kind < CHANGES) {
		const body = JSON.stringify({ app_id: appId, channel: "channel-2", version: newestVersion });
		return { method: "POST", path: "/channel", headers: managed, body };
	}
	if (kind < CHANGES + READS) return { method: "GET", path: `/channel?app_id=${appId}`, headers: managed };
	const device = {
		app_id: appId,
		device_id: deviceId(number % DEVICES),
		version_name: "builtin",
		version_build: "1.0.0",
		platform: "ios",
		plugin_version: "8.51.23",
		is_emulator: false,
		is_prod: true,
		defaultChannel: "",
	};
	if (kind < CHANGES + READS + REPORTS) {
		const body = JSON.stringify({ ...device, action: "get", timestamp: Date.now() });
		return { method: "POST", path: "/stats", headers: JSON_TYPE, body };
	}
	return { method: "POST", path: "/updates", headers: JSON_TYPE, body: JSON.stringify(device) };
}

export function overloadLines({ calm, overload, bare, uncaught }: OverloadResult): string[] {
	const listed = (title: string, lines: readonly string[]) =>
		lines.length === 0 ? [`${title}: none.`] : [`**${title}**: ${lines.length}`, ...lines.map((line) => `- ${line}`)];
	return [
		`Checks, reports, reads and changes (${100 - CHANGES - READS - REPORTS} : ${REPORTS} : ${READS} : ${CHANGES}) from connections that never pause.`,
		"",
		"| connections | answers per s | statuses | p50 ms | p99 ms | heap, MB | process, MB |",
		"|--:|--:|---|--:|--:|--:|--:|",
		...[calm, ...overload].map(
			({ connections, perSecond, statuses, p50Ms, p99Ms, heapMegabytes: heap, processMegabytes }) =>
				`| ${connections} | ${perSecond} | ${Object.entries(statuses)
					.map(([status, count]) => `${status}: ${count}`)
					.join(", ")} | ${p50Ms.toFixed(1)} | ${p99Ms.toFixed(1)} | ${heap} | ${processMegabytes ?? "-"} |`,
		),
		"",
		...listed("Answers that the service did not write, or without a time to try again", bare),
		...listed("Uncaught exceptions in the log of the runtime", uncaught),
	];
}
