/**
 * Measures how the worst traffic of one preview key, or of a stranger, affects another caller of
 * the same isolate: the time of its requests during the traffic and before it, and the growth of
 * the process. The limits by key and address are those of wrangler.toml. Each kind of traffic runs
 * against a separate process that has served ordinary uploads before. The load comes from the same
 * machine, so its own work is in the ratios.
 */
import { Log, LogLevel } from "miniflare";
import type { WorkerModules } from "../src/operator/build";
import { capstan, withoutConsumer } from "./capstan";
import { startChild } from "./child";
import { startMeasured } from "./measured";
import { type Reopening, reopening } from "./memory";
import { COMPARISON, KINDS, type Kind, ordinaryFiles, withPreviewKey } from "./neighbour-traffic";
import { percentile } from "./statistics";

export interface NeighboursEffort {
	/** Duration of each measurement: without the traffic, and during it. */
	readonly durationMs: number;
}

export const FULL_NEIGHBOURS: NeighboursEffort = { durationMs: 10_000 };
export const QUICK_NEIGHBOURS: NeighboursEffort = { durationMs: 4_000 };

interface Traffic {
	readonly title: string;
	readonly requests: number;
	/** Answers by status; `closed`: the connection ended without an answer. */
	readonly statuses: Readonly<Record<string, number>>;
	/** Times of the neighbour's requests. */
	readonly before: { readonly p50Ms: number; readonly p99Ms: number };
	readonly during: { readonly p50Ms: number; readonly p99Ms: number };
	readonly grownMegabytes: number;
}

export interface NeighboursResult {
	readonly traffic: readonly Traffic[];
}

/** Requests of the neighbour, one after the other. */
export interface NeighbourOrder {
	readonly origin: string;
	readonly key: string;
	readonly durationMs: number;
	readonly pauseMs: number;
}

export interface NeighbourTimes {
	readonly timesMs: readonly number[];
}

/** Goals: the ratio of the neighbour's p99, and the growth of the process. */
export const NEIGHBOUR_GOALS = { ratio: 5, megabytes: 100 };

const PAUSE_MS = 25;
const SAMPLE_MS = 50;
const WARM_MS = 2_000;
const WARM_PAUSE_MS = 1;
const WARM_UPLOADS = 150;
export async function measureNeighbours(
	script: WorkerModules,
	effort: NeighboursEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<NeighboursResult | undefined> {
	const traffic: Traffic[] = [];
	for (const kind of KINDS) {
		signal.throwIfAborted();
		say(kind.title);
		const measured = await measureKind(script, kind, effort, signal);
		if (measured === undefined) return undefined;
		traffic.push(measured);
	}
	return { traffic };
}

/** Undefined if the system does not report memory per process. */
async function measureKind(
	script: WorkerModules,
	kind: Kind,
	effort: NeighboursEffort,
	signal: AbortSignal,
): Promise<Traffic | undefined> {
	const worker = await startMeasured(withoutConsumer(capstan(script, { bundles: 10, isLimited: true })), {
		log: new Log(LogLevel.NONE),
	});
	const connections: Reopening[] = [];
	const neighbour = startChild<NeighbourOrder, NeighbourTimes>("neighbour-process.ts");
	try {
		const { origin, facts } = worker;
		const { appId, key: adminKey } = facts;
		const scene = await withPreviewKey({ origin, appId, adminKey });
		const watch = async (durationMs: number, pauseMs: number) => {
			const { timesMs: times } = await neighbour.run({ origin, key: adminKey, durationMs, pauseMs });
			return { p50Ms: percentile(times, 50), p99Ms: percentile(times, 99) };
		};
		await watch(WARM_MS, WARM_PAUSE_MS);
		const uploader = await reopening(origin);
		connections.push(uploader);
		const upload = ordinaryFiles(scene, adminKey);
		for (let file = 0; file < WARM_UPLOADS; file += 1) await upload(uploader, file);
		const step = await kind.prepare(scene);
		const before = await watch(effort.durationMs, PAUSE_MS);
		const idle = await worker.processMegabytes();
		if (idle === undefined) return undefined;
		let peak = idle;
		const sampling = setInterval(async () => {
			peak = Math.max(peak, (await worker.processMegabytes()) ?? 0);
		}, SAMPLE_MS);
		const statuses: Record<string, number> = {};
		let requests = 0;
		const endMs = performance.now() + effort.durationMs;
		const isOver = () => performance.now() >= endMs || signal.aborted;
		const attacking = Promise.all(
			Array.from({ length: kind.connections }, async () => {
				const connection = await reopening(origin);
				connections.push(connection);
				while (!isOver()) {
					const status = (await step(connection, requests++)) ?? "closed";
					statuses[status] = (statuses[status] ?? 0) + 1;
				}
			}),
		);
		const during = await watch(effort.durationMs, PAUSE_MS);
		await attacking;
		clearInterval(sampling);
		return { title: kind.title, requests, statuses, before, during, grownMegabytes: peak - idle };
	} finally {
		for (const connection of connections) connection.close();
		neighbour.stop();
		await worker.stop();
	}
}

export function neighboursLines({ traffic }: NeighboursResult): string[] {
	const attacks = traffic.filter(({ title }) => !title.startsWith(COMPARISON));
	const ratioOf = ({ before, during }: Traffic) => during.p99Ms / before.p99Ms;
	const worst = {
		ratio: Math.max(...attacks.map(ratioOf)),
		megabytes: Math.max(...attacks.map((one) => one.grownMegabytes)),
	};
	const met = (isMet: boolean) => (isMet ? "met" : "**missed**");
	return [
		`Another caller's requests during the worst traffic of one preview key or a stranger. Goals: p99 below ${NEIGHBOUR_GOALS.ratio} times, worst ${worst.ratio.toFixed(1)}, ${met(worst.ratio < NEIGHBOUR_GOALS.ratio)}; growth of the process below ${NEIGHBOUR_GOALS.megabytes} MB, worst ${worst.megabytes} MB, ${met(worst.megabytes < NEIGHBOUR_GOALS.megabytes)}.`,
		"",
		"| traffic | requests | answers | p50 before / during, ms | p99 before / during, ms | ratio of p99 | growth, MB |",
		"|---|--:|---|--:|--:|--:|--:|",
		...traffic.map((one) => {
			const answers = Object.entries(one.statuses).map(([status, count]) => `${status}: ${count}`);
			const pair = (percent: "p50Ms" | "p99Ms") =>
				`${one.before[percent].toFixed(1)} / ${one.during[percent].toFixed(1)}`;
			return `| ${one.title} | ${one.requests} | ${answers.join(", ")} | ${pair("p50Ms")} | ${pair("p99Ms")} | ${ratioOf(one).toFixed(1)} | ${one.grownMegabytes} |`;
		}),
	];
}
