/**
 * How long isolates answer with the old state after a change. Devices of many apps ask several
 * isolates, some of them rarely, while the isolates take turns in making changes. An answer is
 * stale if it was requested after the change was answered. Its age is the time from that answer to
 * its own arrival.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { WorkerModules } from "../src/operator/build";
import { type CapstanFacts, capstan } from "./capstan";
import { type Connection, openConnection } from "./connection";
import { type Isolates, startIsolates } from "./isolates";
import { deviceId } from "./scenarios";
import { percentile } from "./statistics";

export interface VisibleEffort {
	readonly durationMs: number;
	/** Number of changes of each kind. */
	readonly busyApps: number;
	/** Apps that are asked so rarely that cached snapshots age. */
	readonly quietApps: number;
}

export const FULL_VISIBLE: VisibleEffort = { durationMs: 60_000, busyApps: 6, quietApps: 4 };
export const QUICK_VISIBLE: VisibleEffort = { durationMs: 20_000, busyApps: 3, quietApps: 2 };

export interface VisibleKind {
	readonly title: string;
	/**
	 * Age of the last stale answer (0: none), for each change and each isolate that did not make it.
	 */
	readonly elsewhereMs: readonly number[];
	/** The same for the isolate that made the change. */
	readonly hereMs: readonly number[];
}

export interface VisibleResult {
	readonly isolates: number;
	readonly changes: number;
	readonly answers: number;
	readonly durationMs: number;
	readonly kinds: readonly VisibleKind[];
}

/** Goal for p99. */
export const VISIBLE_GOAL_MS = 5_000;

const ISOLATES = 3;
const BUSY_PAUSE_MS = 100;
/** Longer than an isolate uses a snapshot without revalidation. */
const QUIET_PAUSE_MS = 4_500;
/** workerd closes connections after five idle seconds, which could lose a request. */
const MOST_IDLE_MS = 1_000;
/** More would not be that. */
const MOST_LOST = 10;
const GIVE_UP_AFTER_MS = 60_000;
const DEVICE = deviceId(1);
const [OLD, NEW] = ["1.0.1", "1.0.2"];

type Ask = readonly [method: "POST" | "DELETE", path: string, fields: Readonly<Record<string, unknown>>];

interface Kind {
	readonly title: string;
	readonly prepare: readonly Ask[];
	/** Makes the device get OLD, then NEW again. */
	readonly there: Ask;
	readonly back: Ask;
	readonly backTitle?: string;
	readonly waits?: true;
	readonly defaultChannel?: string;
}

/** The public channel of the app serves NEW. */
const PRODUCTION = "channel-2";
const production = (fields: Record<string, unknown>): Ask => ["POST", "/channel", { channel: PRODUCTION, ...fields }];
const rollout = production({ rolloutVersion: NEW, rolloutPercentage: 100, rolloutEnabled: true });
const beta: Ask = ["POST", "/channel", { channel: "beta", version: NEW, allow_device_self_set: true }];
const stable: Ask = ["POST", "/channel", { channel: "stable", version: OLD }];
const override: Ask = ["POST", "/device", { device_id: DEVICE, channel: "stable" }];
const noOverride: Ask = ["DELETE", "/device", { device_id: DEVICE }];

const KINDS: readonly Kind[] = [
	{ title: "publish", prepare: [], there: production({ version: OLD }), back: production({ version: NEW }) },
	{
		title: "pause",
		backTitle: "resume",
		prepare: [production({ version: OLD }), rollout],
		there: production({ rolloutPaused: true }),
		back: production({ rolloutPaused: false }),
	},
	{
		title: "roll back",
		backTitle: "roll out",
		prepare: [production({ version: OLD }), rollout],
		there: production({ rollback: true }),
		back: rollout,
	},
	{
		title: "override",
		backTitle: "remove an override",
		prepare: [stable],
		there: override,
		back: noOverride,
	},
	{
		title: "delete a channel",
		backTitle: "create a channel",
		prepare: [production({ version: OLD }), beta],
		there: ["DELETE", "/channel", { channel: "beta" }],
		back: beta,
		defaultChannel: "beta",
	},
	{ title: "override, and wait for all", prepare: [stable], there: override, back: noOverride, waits: true },
];

/** @throws {Error} for an answer that is neither the old nor the new state */
export async function measureVisible(
	script: WorkerModules,
	effort: VisibleEffort,
	signal: AbortSignal,
): Promise<VisibleResult> {
	const appsOfKind = effort.busyApps + effort.quietApps;
	const definition = capstan(script, { bundles: 2, freshApps: KINDS.length * appsOfKind });
	const isolates = await startIsolates(definition, ISOLATES);
	try {
		return await measureOn(isolates, effort, signal);
	} finally {
		await isolates.stop();
	}
}

async function measureOn(
	{ origins, facts }: Isolates<CapstanFacts>,
	effort: VisibleEffort,
	signal: AbortSignal,
): Promise<VisibleResult> {
	const titles = KINDS.flatMap(({ title, backTitle }) => (backTitle === undefined ? [title] : [title, backTitle]));
	const kinds = new Map(titles.map((title) => [title, { elsewhereMs: [] as number[], hereMs: [] as number[] }]));
	const totals = { changes: 0, answers: 0 };
	const endMs = performance.now() + effort.durationMs;
	const appsOfKind = effort.busyApps + effort.quietApps;
	const apps = KINDS.flatMap((kind, kindIndex) =>
		Array.from({ length: appsOfKind }, (_, index) => ({
			kind,
			appId: `${facts.freshApps.prefix}${kindIndex * appsOfKind + index + 1}`,
			pauseMs: () => (index < effort.busyApps ? BUSY_PAUSE_MS : Math.random() * QUIET_PAUSE_MS),
		})),
	);
	const failed = new AbortController();
	const ended = () => signal.aborted || failed.signal.aborted;
	const over = () => performance.now() >= endMs || ended();
	const work = apps.map((app) =>
		playApp({ ...app, origins, key: facts.key, over, ended, totals }, (title, here, elsewhere) => {
			kinds.get(title)?.hereMs.push(here);
			kinds.get(title)?.elsewhereMs.push(...elsewhere);
		}).catch((error: unknown) => {
			failed.abort();
			throw error;
		}),
	);
	for (const end of await Promise.allSettled(work)) if (end.status === "rejected") throw end.reason;
	signal.throwIfAborted();
	return {
		isolates: origins.length,
		...totals,
		durationMs: effort.durationMs,
		kinds: [...kinds].map(([title, found]) => ({ title, ...found })),
	};
}

interface PlayedApp {
	readonly kind: Kind;
	readonly appId: string;
	readonly pauseMs: () => number;
	readonly origins: readonly string[];
	readonly key: string;
	/**
	 * Starts no further change, but waits for the current one: leaving it out would leave out the
	 * slowest.
	 */
	readonly over: () => boolean;
	readonly ended: () => boolean;
	readonly totals: { changes: number; answers: number };
}

/**
 * Makes one change after the other, each in the next isolate, after all isolates have answered with
 * the previous one.
 */
async function playApp(
	{ kind, appId, pauseMs, origins, key, over, ended, totals }: PlayedApp,
	report: (title: string, hereMs: number, elsewhereMs: readonly number[]) => void,
): Promise<void> {
	const watchers = origins.map((origin) => watch(origin, appId, kind, pauseMs, totals));
	const send = async ([method, path, fields]: Ask, isolate: number, waits = false) => {
		const connection = await openConnection(origins[isolate] ?? "");
		const answer = await connection
			.ask({
				method,
				path,
				headers: {
					"content-type": "application/json",
					authorization: key,
					...(waits ? { "x-capstan-wait": "visible" } : {}),
				},
				body: JSON.stringify({ app_id: appId, ...fields }),
			})
			.finally(connection.close);
		if (answer.status > 201) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`);
	};
	try {
		for (const ask of kind.prepare) await send(ask, 0);
		for (const watcher of watchers) watcher.expect(NEW, performance.now());
		const seen = () => Promise.race([settled(watchers, ended), ...watchers.map(({ failure }) => failure)]);
		if (!(await seen())) return;
		for (let turn = 0; !over(); turn += 1) {
			// At any age of the cached snapshot.
			await Promise.race([sleep(Math.random() * 2_000), ...watchers.map(({ failure }) => failure)]);
			const isolate = turn % origins.length;
			const forth = turn % 2 === 0;
			for (const watcher of watchers) watcher.changing();
			await send(forth ? kind.there : kind.back, isolate, kind.waits);
			const atMs = performance.now();
			for (const watcher of watchers) watcher.expect(forth ? OLD : NEW, atMs);
			if (!(await seen())) return;
			totals.changes += 1;
			const stale = watchers.map(({ staleMs }) => staleMs());
			report(
				forth ? kind.title : (kind.backTitle ?? kind.title),
				stale[isolate] ?? 0,
				stale.filter((_, index) => index !== isolate),
			);
		}
	} finally {
		for (const watcher of watchers) watcher.stop();
	}
}

/** True once every isolate answers with the change; false if the run was ended first. */
async function settled(watchers: readonly ReturnType<typeof watch>[], ended: () => boolean): Promise<boolean> {
	const giveUpAtMs = performance.now() + GIVE_UP_AFTER_MS;
	while (!watchers.every((watcher) => watcher.settled())) {
		if (ended()) return false;
		if (performance.now() > giveUpAtMs) throw new Error("a change never became visible");
		await sleep(20);
	}
	return true;
}

/** A device that asks one isolate repeatedly. */
function watch(
	origin: string,
	appId: string,
	{ defaultChannel = "" }: Kind,
	pauseMs: () => number,
	totals: { answers: number },
) {
	const question = {
		method: "POST",
		path: "/updates",
		headers: { "content-type": "application/json" },
		body: JSON.stringify({
			app_id: appId,
			device_id: DEVICE,
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "ios",
			plugin_version: "8.51.23",
			defaultChannel,
		}),
	};
	let stopped = false;
	let lost = 0;
	let connection: Connection | undefined;
	let expected: { readonly version: string; readonly fromMs: number } | undefined;
	let current = false;
	let stale = 0;
	const loop = async () => {
		while (!stopped) {
			connection ??= await openConnection(origin);
			const askedAtMs = performance.now();
			const answer = await connection.ask(question).catch((error: unknown) => {
				if (stopped || ++lost > MOST_LOST) throw error;
			});
			if (answer === undefined) {
				// The server closed the idle connection. The device asks again.
				connection.close();
				connection = undefined;
				continue;
			}
			const { body } = answer;
			const answeredAtMs = performance.now();
			totals.answers += 1;
			const { version } = JSON.parse(body) as { version?: string };
			if (version !== OLD && version !== NEW) throw new Error(`wrong answer: ${body.slice(0, 300)}`);
			if (expected !== undefined && askedAtMs >= expected.fromMs) {
				current = version === expected.version;
				if (!current) stale = Math.max(stale, answeredAtMs - expected.fromMs);
			}
			const idleMs = pauseMs();
			if (idleMs > MOST_IDLE_MS) {
				connection.close();
				connection = undefined;
			}
			await sleep(idleMs);
		}
	};
	const failure = loop().then(
		() => new Promise<never>(() => undefined),
		(error: unknown) => {
			if (stopped) return new Promise<never>(() => undefined);
			throw error;
		},
	);
	failure.catch(() => undefined);
	return {
		failure,
		/** During a change, both answers are right. */
		changing() {
			expected = undefined;
		},
		expect(version: string, fromMs: number) {
			expected = { version, fromMs };
			current = false;
			stale = 0;
		},
		settled: () => current,
		staleMs: () => stale,
		stop() {
			stopped = true;
			connection?.close();
		},
	};
}

/** The rows of the report. */
export function visibleLines(result: VisibleResult): string[] {
	const ms = (value: number) => (value === 0 ? "0" : `${(value / 1000).toFixed(2)} s`);
	const all = result.kinds.flatMap(({ elsewhereMs }) => elsewhereMs);
	const row = (title: string, elsewhere: readonly number[], here: readonly number[]) =>
		`| ${title} | ${here.length} | ${ms(percentile(elsewhere, 50))} | ${ms(percentile(elsewhere, 99))} | ${ms(Math.max(0, ...elsewhere))} | ${ms(Math.max(0, ...here))} |`;
	const met = percentile(all, 99) <= VISIBLE_GOAL_MS ? "met" : "missed";
	return [
		`**From a change to the last stale answer**: ${result.isolates} isolates over one database, ${result.changes} changes among ${result.answers.toLocaleString("en-US")} checks in ${result.durationMs / 1000} s. Goal: p99 within ${VISIBLE_GOAL_MS / 1000} s (${met}).`,
		"",
		"| | changes | p50 elsewhere | p99 elsewhere | longest elsewhere | longest in the isolate that took it |",
		"|---|--:|--:|--:|--:|--:|",
		...result.kinds.map(({ title, elsewhereMs, hereMs }) => row(title, elsewhereMs, hereMs)),
		row(
			"all",
			all,
			result.kinds.flatMap(({ hereMs }) => hereMs),
		),
	];
}
