/**
 * Stands before a Worker and counts what it asks of the platform: D1 round trips and rows, Queue messages, R2 operations. It runs in a
 * copy of the Worker that nobody times, so that counting costs the measured one nothing.
 */
import { COUNTS_PATH, type Counts, NOTHING } from "../counts";
// Put beside this module when the Worker is started.
// @ts-expect-error
import measured from "./worker.js";

const counts: Counts = { ...NOTHING };

type Method = (...parameters: unknown[]) => unknown;

/** The object with some of its methods replaced; each gets the original one. */
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

function note(result: D1Result): void {
	counts.d1RowsRead += result.meta.rows_read;
	counts.d1RowsWritten += result.meta.rows_written;
}

const originals = new WeakMap<object, D1PreparedStatement>();

function statement(original: D1PreparedStatement): D1PreparedStatement {
	const all = async () => {
		counts.d1Trips += 1;
		const result = await original.all<Record<string, unknown>>();
		note(result);
		return result;
	};
	const counted = replaced(original, {
		bind:
			(bind) =>
			(...values) =>
				statement(bind(...values) as D1PreparedStatement),
		all: () => all,
		run: () => all,
		// `first` and `raw` give no count of rows; the same statement's `all` does.
		first: () => async (column) => {
			const [row] = (await all()).results;
			if (row === undefined) return null;
			return typeof column === "string" ? row[column] : row;
		},
		raw: () => async () => (await all()).results.map((row) => Object.values(row)),
	});
	originals.set(counted, original);
	return counted;
}

function database<Value extends object>(value: Value): Value {
	return replaced(value, {
		prepare: (prepare) => (sql) => statement(prepare(sql) as D1PreparedStatement),
		batch: (batch) => async (statements) => {
			counts.d1Trips += 1;
			const given = statements as D1PreparedStatement[];
			const results = (await batch(given.map((counted) => originals.get(counted) ?? counted))) as D1Result[];
			for (const result of results) note(result);
			return results;
		},
		withSession: (withSession) => (constraint) => database(withSession(constraint) as object),
	});
}

/** Counts the calls, and the classes that R2 bills them in. */
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
	environment ??= {
		...env,
		...(env.DB === undefined ? {} : { DB: database(env.DB as D1Database) }),
		...(env.BUNDLES === undefined ? {} : { BUNDLES: bucket(env.BUNDLES as R2Bucket) }),
		...(env.BUCKET === undefined ? {} : { BUCKET: bucket(env.BUCKET as R2Bucket) }),
		...(env.EVENTS === undefined ? {} : { EVENTS: queue(env.EVENTS as Queue) }),
	};
	return environment;
}

export default {
	fetch(request, env, context) {
		if (new URL(request.url).pathname === COUNTS_PATH) return Response.json(counts);
		return measured.fetch(request, counted(env), context);
	},
	queue: (batch, env, context) => measured.queue?.(batch, counted(env), context),
	scheduled: (controller, env, context) => measured.scheduled?.(controller, counted(env), context),
} satisfies ExportedHandler<Environment>;
