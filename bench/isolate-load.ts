/**
 * Fifty isolates over one database with a thousand apps: how often D1 is asked while checks arrive,
 * and what a publish costs. Each isolate is asked for its own share of the apps and for one app
 * that all of them serve, which is published again and again.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { WorkerModules } from "../src/operator/build";
import { type CapstanFacts, capstan } from "./capstan";
import { COUNTS_PATH, type Counts } from "./counts";
import { type Isolates, startIsolates } from "./isolates";
import { deviceId } from "./scenarios";
import { percentile } from "./statistics";

export interface IsolateLoadEffort {
	readonly isolates: number;
	readonly apps: number;
	/** Apps of each isolate. Each app is asked for in about two isolates. */
	readonly appsOfIsolate: number;
	readonly steadyMs: number;
	readonly publishes: number;
}

export const FULL_ISOLATE_LOAD: IsolateLoadEffort = {
	isolates: 50,
	apps: 1_000,
	appsOfIsolate: 40,
	steadyMs: 20_000,
	publishes: 10,
};
export const QUICK_ISOLATE_LOAD: IsolateLoadEffort = { ...FULL_ISOLATE_LOAD, steadyMs: 8_000, publishes: 4 };

export interface IsolateLoadResult extends IsolateLoadEffort {
	/**
	 * While every app is in memory. The first isolate is left out, because it also consumes the Queue.
	 */
	readonly steady: { readonly seconds: number; readonly checks: number; readonly d1Trips: number };
	/** From the answer of the publish to the first answer with it, for each publish and isolate. */
	readonly visibleMs: readonly number[];
	/** Reads of the whole app, for each publish. */
	readonly loads: readonly number[];
	readonly checks: number;
	/** Answers other than 200. */
	readonly failed: number;
}

const STEADY_PAUSE_MS = 100;
const HOT_PAUSE_MS = 100;
const WARM_AT_ONCE = 8;
/** The snapshots of apps that were asked for are stored by then. */
const STORED_AFTER_MS = 4_000;
const GIVE_UP_AFTER_MS = 30_000;

export async function measureIsolateLoad(
	script: WorkerModules,
	effort: IsolateLoadEffort,
	signal: AbortSignal,
): Promise<IsolateLoadResult> {
	const definition = capstan(script, { bundles: 2, freshApps: effort.apps });
	const isolates = await startIsolates(definition, effort.isolates, { isCounting: true });
	try {
		return await measureOn(isolates, effort, signal);
	} finally {
		await isolates.stop();
	}
}

async function measureOn(
	{ origins, facts }: Isolates<CapstanFacts>,
	effort: IsolateLoadEffort,
	signal: AbortSignal,
): Promise<IsolateLoadResult> {
	const totals = { checks: 0, failed: 0 };
	const appsOf = origins.map((_, isolate) =>
		Array.from(
			{ length: effort.appsOfIsolate },
			(__, index) =>
				`${facts.freshApps.prefix}${((Math.floor((isolate * effort.apps) / origins.length) + index) % effort.apps) + 1}`,
		),
	);
	const check = async (origin: string, appId: string) => {
		const response = await fetch(`${origin}/updates`, {
			method: "POST",
			headers: { "content-type": "application/json" },
			body: JSON.stringify({
				app_id: appId,
				device_id: deviceId(1),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "ios",
				plugin_version: "8.51.23",
			}),
		});
		const { version } = (await response.json()) as { version?: string };
		totals.checks += 1;
		if (response.status !== 200) totals.failed += 1;
		return version;
	};
	await inGroups(origins, WARM_AT_ONCE, async (origin, isolate) => {
		for (const appId of [facts.appId, ...(appsOf[isolate] ?? [])]) {
			signal.throwIfAborted();
			await check(origin, appId);
		}
	});
	await sleep(STORED_AFTER_MS);

	const before = await countsOf(origins.slice(1));
	const [startMs, checksBefore] = [performance.now(), totals.checks];
	await Promise.all(
		origins.map(async (origin, isolate) => {
			while (performance.now() - startMs < effort.steadyMs && !signal.aborted) {
				const apps = appsOf[isolate] ?? [];
				await check(origin, apps[Math.floor(Math.random() * apps.length)] ?? facts.appId);
				await sleep(STEADY_PAUSE_MS * 2 * Math.random());
			}
		}),
	);
	const seconds = (performance.now() - startMs) / 1_000;
	const after = await countsOf(origins.slice(1));
	const steady = { seconds, checks: totals.checks - checksBefore, d1Trips: after.d1Trips - before.d1Trips };

	const visibleMs: number[] = [];
	const loads: number[] = [];
	for (let turn = 0; turn < effort.publishes && !signal.aborted; turn++) {
		const version = turn % 2 === 0 ? "1.0.1" : "1.0.2";
		const loadsBefore = (await countsOf(origins)).appLoads;
		let publishedAtMs = Number.POSITIVE_INFINITY;
		const watching = origins.map(async (origin) => {
			const sinceMs = performance.now();
			while (performance.now() - sinceMs < GIVE_UP_AFTER_MS) {
				const askedAtMs = performance.now();
				const isNew = (await check(origin, facts.appId)) === version;
				if (isNew) return visibleMs.push(Math.max(0, askedAtMs - publishedAtMs));
				await sleep(HOT_PAUSE_MS * 2 * Math.random());
			}
			throw new Error("a publish never became visible");
		});
		const settled = Promise.allSettled(watching);
		await sleep(500);
		const answer = await fetch(`${origins[turn % origins.length]}/channel`, {
			method: "POST",
			headers: { "content-type": "application/json", authorization: facts.key },
			body: JSON.stringify({ app_id: facts.appId, channel: "channel-2", version }),
		});
		if (answer.status > 201) throw new Error(`publish: ${answer.status} ${await answer.text()}`);
		publishedAtMs = performance.now();
		for (const end of await settled) if (end.status === "rejected") throw end.reason;
		loads.push((await countsOf(origins)).appLoads - loadsBefore);
	}
	signal.throwIfAborted();
	return { ...effort, steady, visibleMs, loads, ...totals };
}

async function inGroups<Item>(
	items: readonly Item[],
	atOnce: number,
	work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
	const queue = [...items.entries()];
	const run = async () => {
		for (let next = queue.shift(); next !== undefined; next = queue.shift()) await work(next[1], next[0]);
	};
	await Promise.all(Array.from({ length: atOnce }, run));
}

async function countsOf(origins: readonly string[]): Promise<Pick<Counts, "d1Trips" | "appLoads">> {
	const all = await Promise.all(
		origins.map(async (origin) => (await (await fetch(origin + COUNTS_PATH)).json()) as Counts),
	);
	return {
		d1Trips: all.reduce((sum, { d1Trips }) => sum + d1Trips, 0),
		appLoads: all.reduce((sum, { appLoads }) => sum + appLoads, 0),
	};
}

/** The rows of the report. */
export function isolateLoadLines(result: IsolateLoadResult): string[] {
	const { steady } = result;
	const rate = steady.d1Trips / steady.seconds;
	const bound = result.isolates / 2;
	const p99 = percentile(result.visibleMs, 99) / 1_000;
	const met = (goal: boolean) => (goal ? "met" : "missed");
	return [
		`**Many isolates**: ${result.isolates} isolates over one database with ${result.apps.toLocaleString("en-US")} apps, ${result.appsOfIsolate} of them in each isolate.`,
		"",
		"| | measured | goal | |",
		"|---|--:|--:|---|",
		`| D1 questions per second, at ${Math.round(steady.checks / steady.seconds)} checks per second | ${rate.toFixed(1)} | ${bound} | ${met(rate <= bound)} |`,
		`| from a publish to the last isolate, p99 of ${result.visibleMs.length} | ${p99.toFixed(2)} s | 5 s | ${met(p99 <= 5)} |`,
		`| loads of the app from D1 for each of ${result.loads.length} publishes, most | ${Math.max(0, ...result.loads)} | 1 | ${met(Math.max(0, ...result.loads) <= 1)} |`,
		`| answers other than 200, of ${result.checks.toLocaleString("en-US")} | ${result.failed} | 0 | ${met(result.failed === 0)} |`,
	];
}
