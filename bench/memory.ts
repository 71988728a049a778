/**
 * How much memory requests without a key can make an isolate hold. Each attack runs against a
 * separate Worker process. The Queue refuses every message, so events pile up, and client addresses
 * vary as if a thousand machines sent. Cloudflare ends an isolate at 128 MB, before which V8
 * collects what is not needed; so the heap counts after a collection. The process is more than the
 * isolate.
 */
import type { WorkerModules } from "../src/operator/build";
import { type CapstanFacts, capstan, withoutConsumer } from "./capstan";
import { openConnection, type Question } from "./connection";
import { startMeasured } from "./measured";
import { deviceId } from "./scenarios";

export interface MemoryEffort {
	/** Invented devices, texts and apps per attack, and fifty times fewer bodies. */
	readonly made: number;
}

export const FULL_MEMORY: MemoryEffort = { made: 60_000 };
export const QUICK_MEMORY: MemoryEffort = { made: 15_000 };

export interface MemoryAttack {
	readonly title: string;
	readonly requests: number;
	/** Answers by status; `closed`: the connection ended without an answer. */
	readonly statuses: Readonly<Record<string, number>>;
	/** Heap of the isolate at the end, after a collection. */
	readonly heapMegabytes: number;
	/** Memory of the process above its level after 200 checks. */
	readonly peakMegabytes: number;
}

export interface MemoryResult {
	/** Memory of the process. */
	readonly idleMegabytes: number;
	readonly attacks: readonly MemoryAttack[];
}

/** Goal for the heap of the isolate. */
export const HEAP_GOAL_MEGABYTES = 100;

const CONNECTIONS = 8;
const SAMPLE_MS = 50;
const REQUESTS_AN_ADDRESS = 500;
const BODIES_SHARE = 50;
const REPORTS_A_REQUEST = 250;
const JSON_TYPE = { "content-type": "application/json" };

/** Refuses events and takes the client address from a header. */
const ENTRY = `import measured from "./worker.js";
const EVENTS = { send: async () => { throw new Error("the Queue is down"); } };
for (const level of ["info", "warn", "error"]) console[level] = () => undefined;
let env;
export default {
	fetch(request, given, ctx) {
		env ??= { ...given, EVENTS, CAPSTAN_CLIENT_ADDRESS: "", ADDRESS_LIMIT_SCALE: "1" };
		return measured.fetch(request, env, ctx);
	},
	queue: () => undefined,
};`;

interface Attack {
	readonly title: string;
	readonly count: (effort: MemoryEffort) => number;
	readonly path: string;
	readonly body: (number: number, facts: CapstanFacts) => string;
}

const about = (facts: CapstanFacts, number: number, fields: object = {}) => ({
	app_id: facts.appId,
	device_id: deviceId(number),
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "ios",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	defaultChannel: "",
	...fields,
});
/** A different text each time, with two bytes per character. */
const long = (number: number, length: number) => `${number}-`.padEnd(length, "\u0416");
const all = ({ made }: MemoryEffort) => made;
const bodies = ({ made }: MemoryEffort) => Math.ceil(made / BODIES_SHARE);

const ATTACKS: readonly Attack[] = [
	{
		title: "checks of invented devices with the longest texts",
		count: all,
		path: "/updates",
		body: (number, facts) =>
			JSON.stringify(
				about(facts, number, {
					version_build: `1.0.0-${number}`,
					defaultChannel: long(number, 512),
					custom_id: long(number, 512),
					version_os: long(number, 512),
					version_code: long(number, 512),
					install_source: long(number, 64),
				}),
			),
	},
	{
		title: "checks of one device, each with a different field of 15 kB",
		count: all,
		path: "/updates",
		body: (number, facts) => JSON.stringify(about(facts, number % 100, { unknown: long(number, 7_000) })),
	},
	{
		title: "checks with a different version each time",
		count: all,
		path: "/updates",
		body: (number, facts) =>
			JSON.stringify(about(facts, number % 100, { version_name: `9.0.0-${number}`, defaultChannel: "nowhere" })),
	},
	{
		title: "checks of invented apps",
		count: all,
		path: "/updates",
		body: (number, facts) => JSON.stringify(about(facts, number, { app_id: `com.${"a".repeat(100)}.n${number}` })),
	},
	{
		title: "reports of invented devices, 250 per request",
		count: bodies,
		path: "/stats",
		body: (number, facts) =>
			JSON.stringify(
				Array.from({ length: REPORTS_A_REQUEST }, (_, index) => ({
					...about(facts, number * REPORTS_A_REQUEST + index, { action: "set", timestamp: number + 1 }),
					custom_id: long(number, 64),
				})),
			),
	},
	{
		title: "reports that are 85,000 empty objects",
		count: bodies,
		path: "/stats",
		body: () => `[${Array.from({ length: 85_000 }, () => "{}").join()}]`,
	},
	{
		title: "sizes of manifests, 16 MB of nested arrays per request",
		count: () => 20,
		path: "/updates/manifest_size",
		body: (_, { appId }) => `{"app_id":"${appId}","x":[${"[],".repeat(5_300_000)}[]]}`,
	},
	{
		title: "sizes of manifests, 64 kB of files per request",
		count: bodies,
		path: "/updates/manifest_size",
		body: (number, { appId, newestVersion }) =>
			JSON.stringify({
				app_id: appId,
				version: newestVersion,
				manifest: Array.from({ length: 2_000 }, (_, index) => ({ file_name: `${number}-${index}` })),
			}),
	},
];

export async function measureMemory(
	script: WorkerModules,
	effort: MemoryEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<MemoryResult | undefined> {
	const attacks: MemoryAttack[] = [];
	let idleMegabytes = 0;
	for (const attack of ATTACKS) {
		signal.throwIfAborted();
		say(attack.title);
		const measured = await measureAttack(script, attack, effort, signal);
		if (measured === undefined) return undefined;
		idleMegabytes = Math.max(idleMegabytes, measured.idleMegabytes);
		attacks.push(measured.attack);
	}
	return { idleMegabytes, attacks };
}

/** Undefined if the system does not report memory per process. */
async function measureAttack(script: WorkerModules, attack: Attack, effort: MemoryEffort, signal: AbortSignal) {
	const worker = await startMeasured(withoutConsumer(capstan(script, { bundles: 10 })), { inspectorPort: 0 }, ENTRY);
	try {
		const { origin, facts } = worker;
		const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => reopening(origin)));
		const statuses: Record<string, number> = {};
		const send = async (connection: Reopening, number: number) => {
			const address = `198.18.${(number / REQUESTS_AN_ADDRESS / 250) | 0}.${((number / REQUESTS_AN_ADDRESS) | 0) % 250}`;
			const headers = { ...JSON_TYPE, "cf-connecting-ip": address };
			const body = Buffer.from(attack.body(number, facts));
			const status = (await connection.ask({ method: "POST", path: attack.path, headers, body })) ?? "closed";
			statuses[status] = (statuses[status] ?? 0) + 1;
		};
		const [first] = connections;
		const warm = JSON.stringify(about(facts, 0));
		for (let check = 0; check < 200; check += 1) {
			await first?.ask({ method: "POST", path: "/updates", headers: JSON_TYPE, body: warm });
		}
		const idle = await worker.processMegabytes();
		if (idle === undefined) return undefined;
		let peak = idle;
		const sampling = setInterval(async () => {
			peak = Math.max(peak, (await worker.processMegabytes()) ?? 0);
		}, SAMPLE_MS);
		const requests = attack.count(effort);
		let next = 0;
		await Promise.all(
			connections.map(async (connection) => {
				for (let number = next++; number < requests; number = next++) {
					signal.throwIfAborted();
					await send(connection, number);
				}
			}),
		);
		clearInterval(sampling);
		peak = Math.max(peak, (await worker.processMegabytes()) ?? 0);
		for (const connection of connections) connection.close();
		return {
			idleMegabytes: idle,
			attack: {
				title: attack.title,
				requests,
				statuses,
				heapMegabytes: await worker.heapMegabytes(),
				peakMegabytes: peak - idle,
			},
		};
	} finally {
		await worker.stop();
	}
}

export interface Reopening {
	/**
	 * The status; undefined if the Worker closed the connection, as it does for a body that is too
	 * long.
	 */
	ask(question: Question): Promise<number | undefined>;
	close(): void;
}

export async function reopening(origin: string): Promise<Reopening> {
	let connection = await openConnection(origin);
	return {
		async ask(question) {
			try {
				return (await connection.ask(question)).status;
			} catch {
				connection.close();
				connection = await openConnection(origin);
				return undefined;
			}
		},
		close: () => connection.close(),
	};
}

export function memoryLines({ idleMegabytes, attacks }: MemoryResult): string[] {
	const worst = Math.max(...attacks.map((attack) => attack.heapMegabytes));
	return [
		`Heap of the isolate after a collection, while the Queue refuses everything. Goal: below ${HEAP_GOAL_MEGABYTES} MB; worst: ${worst} MB, ${worst < HEAP_GOAL_MEGABYTES ? "met" : "**missed**"}. The process has ${idleMegabytes} MB at its start, and collects late.`,
		"",
		"| attack | requests | answers | heap, MB | growth of the process at most, MB |",
		"|---|--:|---|--:|--:|",
		...attacks.map(
			({ title, requests, statuses, heapMegabytes, peakMegabytes }) =>
				`| ${title} | ${requests} | ${Object.entries(statuses)
					.map(([status, count]) => `${status}: ${count}`)
					.join(", ")} | ${heapMegabytes} | ${peakMegabytes} |`,
		),
	];
}
