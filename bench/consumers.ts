/**
 * How fast a backlog of Queue messages drains with one, two, four and eight concurrent consumers
 * over one database. The consumer and the schema are the real ones; each round trip waits as long
 * as one to a database in the same region, because only then do consumers overlap.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { D1Database, D1PreparedStatement, D1SessionConstraint } from "@cloudflare/workers-types";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { parseConfig } from "../src/config";
import { BatchFailed, consume } from "../src/consumer";
import type { Deps } from "../src/deps";
import { DAY_MS } from "../src/domain/time";
import type { DeviceEvents, DeviceSeen } from "../src/messages";
import { migrate } from "../src/operator/migrate";

// Workers have it, and Node from version 21.
Map.groupBy ??= <Key, Item>(items: Iterable<Item>, keyOf: (item: Item, index: number) => Key) => {
	const groups = new Map<Key, Item[]>();
	let index = 0;
	for (const item of items) {
		const key = keyOf(item, index++);
		groups.set(key, [...(groups.get(key) ?? []), item]);
	}
	return groups;
};

export interface ConsumersEffort {
	readonly batches: number;
	readonly messagesPerBatch: number;
	readonly roundTripMs: number;
}

export const FULL_CONSUMERS: ConsumersEffort = { batches: 48, messagesPerBatch: 20, roundTripMs: 40 };
export const QUICK_CONSUMERS: ConsumersEffort = { ...FULL_CONSUMERS, batches: 16 };

export interface ConsumersResult extends ConsumersEffort {
	readonly runs: readonly {
		readonly consumers: number;
		readonly ms: number;
		readonly tripsPerBatch: number;
		/** Batches whose messages a Queue would deliver again; the run does not. */
		readonly failedBatches: number;
	}[];
}

const CONSUMERS = [1, 2, 4, 8];
const APP = "com.example.bench";
const START_MS = Date.UTC(2026, 0, 1);

export async function measureConsumers(effort: ConsumersEffort, say: (text: string) => void): Promise<ConsumersResult> {
	const miniflare = new Miniflare(
		convertV4MiniflareOptions({
			modules: true,
			script: "export default { fetch: () => new Response() }",
			d1Databases: ["DB", "TELEMETRY"],
			compatibilityDate: "2026-11-17",
		}),
	);
	try {
		const d1 = (await miniflare.getD1Database("DB")) as unknown as D1Database;
		const telemetry = (await miniflare.getD1Database("TELEMETRY")) as unknown as D1Database;
		await migrate(d1);
		await migrate(telemetry, "telemetry");
		await seed(d1);
		const runs = [];
		for (const [day, consumers] of CONSUMERS.entries()) {
			say(`${consumers} consumers`);
			// Each run is a day of new devices.
			runs.push(await drain({ d1, telemetry: { TELEMETRY: telemetry } }, consumers, day, effort));
		}
		return { ...effort, runs };
	} finally {
		await miniflare.dispose();
	}
}

async function seed(d1: D1Database): Promise<void> {
	await d1.batch(
		[
			"INSERT INTO users (id, email, created_at_ms) VALUES ('user', 'bench@example.com', 1)",
			"INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms) VALUES ('org', 'org', 'user', 1, 1)",
			`INSERT INTO apps (id, app_id, owner_org, name, created_at_ms, updated_at_ms, telemetry_binding)
				VALUES ('app', '${APP}', 'org', '', 1, 1, 'TELEMETRY')`,
		].map((statement) => d1.prepare(statement)),
	);
}

interface Databases {
	readonly d1: D1Database;
	readonly telemetry: Readonly<Record<string, D1Database>>;
}

async function drain(databases: Databases, consumers: number, day: number, effort: ConsumersEffort) {
	const nowMs = START_MS + day * DAY_MS;
	const waiting = Array.from({ length: effort.batches }, (_, batch) => ({
		messages: Array.from({ length: effort.messagesPerBatch }, (__, message) => ({
			body: messageOf(`${day}-${batch}-${message}`, nowMs),
		})),
	}));
	let [trips, failedBatches] = [0, 0];
	const slow = (d1: D1Database) =>
		withRoundTrips(d1, effort.roundTripMs, () => {
			trips += 1;
		});
	const d1 = slow(databases.d1);
	const telemetry = Object.fromEntries(Object.entries(databases.telemetry).map(([name, one]) => [name, slow(one)]));
	const startMs = performance.now();
	await Promise.all(
		Array.from({ length: consumers }, async () => {
			const deps = depsOf({ d1, telemetry: { ...telemetry } }, nowMs);
			for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
				try {
					await consume(deps, batch);
				} catch (error) {
					if (!(error instanceof BatchFailed)) throw error;
					failedBatches += 1;
				}
			}
		}),
	);
	const ms = Math.round(performance.now() - startMs);
	return { consumers, ms, tripsPerBatch: Math.round((trips / effort.batches) * 10) / 10, failedBatches };
}

function messageOf(device: string, atMs: number): DeviceEvents {
	const seen: DeviceSeen = {
		type: "seen",
		appId: APP,
		deviceId: device,
		atMs,
		platform: "ios",
		versionName: "builtin",
		versionBuild: "1",
		osVersion: "18",
		pluginVersion: "8.0.0",
		isProd: true,
		isEmulator: false,
		customId: "",
		installSource: "",
		keyId: "",
		defaultChannel: "",
		channelId: null,
	};
	return { kind: "device_events", id: device, events: [seen] };
}

function withRoundTrips(d1: D1Database, ms: number, count: () => void): D1Database {
	return {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				async batch(statements: D1PreparedStatement[]) {
					count();
					await sleep(ms);
					return session.batch(statements);
				},
			};
		},
	} as unknown as D1Database;
}

/** The consumer's dependencies. */
function depsOf({ d1, telemetry }: Databases, nowMs: number): Deps {
	return {
		d1,
		telemetry,
		log: () => undefined,
		now: () => nowMs,
		newId: () => crypto.randomUUID(),
		randomBytes: (length: number) => crypto.getRandomValues(new Uint8Array(length)),
		config: parseConfig({ CAPSTAN_SECRET: "0".repeat(64) }),
	} as unknown as Deps;
}

export function consumersLines({ batches, messagesPerBatch, roundTripMs, runs }: ConsumersResult): string[] {
	return [
		`Concurrent consumers of one app's messages: ${batches} batches of ${messagesPerBatch}, ${roundTripMs} ms for a round trip to D1.`,
		"",
		"| consumers | time, ms | round trips per batch | failed batches |",
		"|--:|--:|--:|--:|",
		...runs.map(
			({ consumers, ms, tripsPerBatch, failedBatches }) =>
				`| ${consumers} | ${ms} | ${tripsPerBatch} | ${failedBatches} |`,
		),
	];
}
