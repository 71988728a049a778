/**
 * Wraps a Worker and counts its platform operations: D1 round trips and rows, Queue messages, R2
 * operations. It runs in a copy that is not timed, so counting does not affect measurements.
 */
import { isTelemetryBinding } from "../../src/deps";
import { COUNTS_PATH, type Counts, LONGEST_DELAY, NOTHING } from "../counts";
// Added beside this module when the Worker starts.
// @ts-expect-error
import measured from "./worker.js";

const counts: Counts = { ...NOTHING };

for (const level of ["log", "info", "warn", "error"] as const) {
	const write = console[level].bind(console);
	console[level] = (...parts: unknown[]) => {
		counts.logLines += 1;
		write(...parts);
	};
}

/** How far the Worker's clock is ahead, ms. */
let clockMs = 0;
const realNow = Date.now.bind(Date);
Date.now = () => realNow() + clockMs;

let longestDelayMs = Number.POSITIVE_INFINITY;
const realSetTimeout = setTimeout;
globalThis.setTimeout = ((work: () => void, ms?: number) =>
	realSetTimeout(work, Math.min(ms ?? 0, longestDelayMs))) as typeof setTimeout;

type Method = (...parameters: unknown[]) => unknown;

/** The object with some methods replaced; each replacement receives the original. */
function replaced<Value extends object>(value: Value, methods: Record<string, (original: Method) => Method>): Value {
	return new Proxy(value, {
		get(target, name) {
			const member: unknown = Reflect.get(target, name);
			if (typeof member !== "function") return member;
			const original: Method = member.bind(target);
			const replacement = typeof name === "string" ? methods[name] : undefined;
			return replacement === undefined ? original : replacement(original);
		},
	});
}

const sizes = new Map<string, number>();

function note(result: D1Result, binding: string): void {
	counts.d1RowsRead += result.meta.rows_read;
	counts.d1RowsWritten += result.meta.rows_written;
	sizes.set(binding, result.meta.size_after);
	counts.d1Bytes = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
}

const originals = new WeakMap<object, D1PreparedStatement>();

/** Those that read the channels of an app for its snapshot. */
const loading = new WeakSet<object>();

function statement(original: D1PreparedStatement, text: string, binding: string): D1PreparedStatement {
	const all = async () => {
		counts.d1Trips += 1;
		const result = await original.all<Record<string, unknown>>();
		note(result, binding);
		return result;
	};
	const counted = replaced(original, {
		bind:
			(bind) =>
			(...values) =>
				statement(bind(...values) as D1PreparedStatement, text, binding),
		all: () => all,
		run: () => all,
		// `first` and `raw` report no row counts, but `all` of the same statement does.
		first: () => async (column) => {
			const [row] = (await all()).results;
			if (row === undefined) return null;
			return typeof column === "string" ? row[column] : row;
		},
		raw: () => async () => (await all()).results.map((row) => Object.values(row)),
	});
	originals.set(counted, original);
	if (/^SELECT [^?]* is_preview,[^?]* FROM channels WHERE/.test(text)) loading.add(counted);
	return counted;
}

function database<Value extends object>(value: Value, binding: string): Value {
	return replaced(value, {
		prepare: (prepare) => (sql) => statement(prepare(sql) as D1PreparedStatement, String(sql), binding),
		batch: (batch) => async (statements) => {
			counts.d1Trips += 1;
			const given = statements as D1PreparedStatement[];
			if (given.some((one) => loading.has(one))) counts.appLoads += 1;
			const results = (await batch(given.map((counted) => originals.get(counted) ?? counted))) as D1Result[];
			for (const result of results) note(result, binding);
			return results;
		},
		withSession: (withSession) => (constraint) => database(withSession(constraint) as object, binding),
	});
}

/** Counts calls by the billing class of R2. */
function bucket(value: R2Bucket): R2Bucket {
	const inClass =
		(kind: "r2ClassA" | "r2ClassB") =>
		(original: Method) =>
		(...parameters: unknown[]) => {
			counts[kind] += 1;
			return original(...parameters);
		};
	return replaced(value, {
		put: inClass("r2ClassA"),
		list: inClass("r2ClassA"),
		createMultipartUpload: inClass("r2ClassA"),
		get: inClass("r2ClassB"),
		head: inClass("r2ClassB"),
	});
}

function queue(value: Queue): Queue {
	return replaced(value, {
		send:
			(send) =>
			(...parameters) => {
				counts.queueMessages += 1;
				return send(...parameters);
			},
		sendBatch: (sendBatch) => (messages, options) => {
			const list = [...(messages as Iterable<unknown>)];
			counts.queueMessages += list.length;
			return sendBatch(list, options);
		},
	});
}

type Environment = Record<string, unknown>;
let environment: Environment | undefined;

function counted(env: Environment): Environment {
	longestDelayMs = Number(env[LONGEST_DELAY] ?? Number.POSITIVE_INFINITY);
	environment ??= {
		...env,
		...Object.fromEntries(
			Object.entries(env)
				.filter(([name]) => name === "DB" || isTelemetryBinding(name))
				.map(([name, value]) => [name, database(value as D1Database, name)]),
		),
		...(env.BUNDLES === undefined ? {} : { BUNDLES: bucket(env.BUNDLES as R2Bucket) }),
		...(env.BUCKET === undefined ? {} : { BUCKET: bucket(env.BUCKET as R2Bucket) }),
		...(env.EVENTS === undefined ? {} : { EVENTS: queue(env.EVENTS as Queue) }),
	};
	return environment;
}

export default {
	fetch(request, env, context) {
		const { pathname, searchParams } = new URL(request.url);
		if (pathname === COUNTS_PATH) {
			clockMs = Number(searchParams.get("clock") ?? clockMs);
			return Response.json(counts);
		}
		return measured.fetch(request, counted(env), context);
	},
	queue: (batch, env, context) => measured.queue?.(batch, counted(env), context),
	scheduled: (controller, env, context) => measured.scheduled?.(controller, counted(env), context),
} satisfies ExportedHandler<Environment>;
