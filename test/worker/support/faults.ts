/**
 * Faults on demand: D1, R2 and the Queue behind a counter, so that the n-th call of all fails.
 * Either it fails before anything happened, or it happens and only its answer is lost; a caller
 * cannot distinguish them, so both must be survived. Texts of errors are the real ones, each with a
 * mark that must appear in the log and nowhere else.
 */
import { createApp } from "../../../src/app";
import type { Deps } from "../../../src/deps";
import { requestThrough, type World } from "./world";

export type FaultKind =
	| "refused"
	| "answer lost"
	/** R2 answers, and the bytes break off half way; of calls without bytes: refused. */
	| "breaks off"
	/** D1 only: every statement ran, then one fails by SQLite's own word; of other calls: refused. */
	| "statement fails"
	/** D1 only, whatever the number: no session can be had. */
	| "no session";

/** Stands in the text of every error, as an id of the platform's would. */
export const FAULT_MARK = "fault0mark7";

/** Errors of a D1 that cannot serve; none of these is the fault of a statement. */
export const D1_TEXTS = [
	"D1_ERROR: D1 DB is overloaded. Too many requests queued.",
	"D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
	"D1_ERROR: Network connection lost.",
	"D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
	"D1_ERROR: D1 DB reset because its code was updated.",
	"D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
	"D1_ERROR: D1 DB's isolate exceeded its memory limit and was reset.",
	"D1_ERROR: D1 DB exceeded its CPU time limit and was reset.",
	"D1_ERROR: Currently processing a long-running export.",
	"D1_ERROR: Your account has exceeded D1's free tier daily row read limit. Upgrade to a paid plan or wait until tomorrow (midnight UTC).",
	"D1_ERROR: internal error; reference = 7b3d",
	"D1_ERROR: database or disk is full: SQLITE_FULL",
	"D1_ERROR: database is locked: SQLITE_BUSY",
	"D1_ERROR: out of memory: SQLITE_NOMEM",
	"D1_ERROR: disk I/O error: SQLITE_IOERR",
	"D1_ERROR: interrupted: SQLITE_INTERRUPT",
	"Network connection lost.",
	"The client disconnected",
] as const;

/** Errors of R2; `*` stands for the method. */
export const R2_TEXTS = [
	"*: We encountered an internal error. Please try again. (10001)",
	"*: Service Unavailable (10043)",
	"*: Reduce your concurrent request rate for the same object. (10058)",
	"*: The specified bucket does not exist. (10006)",
	"Network connection lost.",
	"internal error; reference = 5c1e",
] as const;

const QUEUE_TEXTS = ["Queue is overloaded. Please back off.", "Network connection lost."] as const;

export interface FaultyService {
	readonly deps: Deps;
	readonly request: World["request"];
	/** Names of the calls so far, e.g. `d1.batch`, `r2.put`, `queue.send`. */
	readonly calls: readonly string[];
	/** The call that failed; undefined when there were fewer calls than `failAt`. */
	readonly failed: string | undefined;
	/** Lines of the log so far. */
	readonly log: readonly string[];
}

const R2_METHODS = ["head", "get", "put", "delete", "list"] as const;

/**
 * The world's service with call number `failAt` (from 1) failing once; everything after it works
 * again.
 * @param text which of the real texts, by number
 */
export function withFault(world: World, failAt: number, kind: FaultKind, text = 0): FaultyService {
	const calls: string[] = [];
	const log: string[] = [];
	let failed: string | undefined;
	async function through<Result>(name: string, call: () => Promise<Result>, last = call): Promise<Result> {
		calls.push(name);
		if (calls.length !== failAt || kind === "no session") return call();
		failed = name;
		if (kind === "answer lost") await call();
		if (kind === "statement fails" || kind === "breaks off") return last();
		throw faultOf(name, text);
	}

	const { d1: main, telemetry, bundles: bucket, events: queue } = world.deps;
	const faultyDatabase = (d1: D1Database) =>
		({
			withSession(constraint: D1SessionConstraint) {
				if (kind === "no session") {
					failed = "d1.withSession";
					throw faultOf(failed, text);
				}
				const session = d1.withSession(constraint);
				const failing = () => session.prepare(`SELECT json_extract('{}', '${FAULT_MARK}')`);
				return {
					prepare: (statement: string) => session.prepare(statement),
					batch: (statements: D1PreparedStatement[]) =>
						through(
							"d1.batch",
							() => session.batch(statements),
							kind === "statement fails" ? () => session.batch([...statements, failing()]) : undefined,
						),
				};
			},
		}) as unknown as D1Database;
	const faultyBucket = Object.fromEntries(
		R2_METHODS.map((method) => {
			const call = bucket[method].bind(bucket) as (...given: unknown[]) => Promise<unknown>;
			const broken = async (...given: unknown[]) => {
				const object = method === "get" ? ((await call(...given)) as R2ObjectBody | null) : null;
				if (object === null) throw faultOf(`r2.${method}`, text);
				return breakingOff(object, faultOf("r2.get", text));
			};
			return [
				method,
				(...given: unknown[]) =>
					through(
						`r2.${method}`,
						() => call(...given),
						() => broken(...given),
					),
			];
		}),
	) as unknown as R2Bucket;
	const events: Deps["events"] = {
		send: (message, options) => through("queue.send", () => queue.send(message, options)),
	};
	const deps: Deps = {
		...world.deps,
		d1: faultyDatabase(main),
		telemetry: Object.fromEntries(Object.entries(telemetry).map(([name, d1]) => [name, faultyDatabase(d1)])),
		bundles: faultyBucket,
		// A binding of its own, by which the service knows that it has stored nothing yet.
		assets: { fetch: (...request) => world.deps.assets.fetch(...request) },
		events,
		log: (level, event, facts) => log.push(JSON.stringify({ level, event, ...facts })),
	};
	return {
		deps,
		request: requestThrough(createApp(deps)),
		calls,
		log,
		get failed() {
			return failed;
		},
	};
}

/** The error of a call, with one of the texts that its service uses. */
function faultOf(call: string, text: number): Error {
	const [service, method = ""] = call.split(".");
	const texts = service === "d1" ? D1_TEXTS : service === "r2" ? R2_TEXTS : QUEUE_TEXTS;
	return new Error(`${texts[text % texts.length]?.replace("*", method)} [${FAULT_MARK}]`);
}

/** The same object, whose bytes come to half of them and then to an error. */
function breakingOff(object: R2ObjectBody, error: Error): R2ObjectBody {
	const source = object.body.getReader();
	let left = Math.floor((object.range as { length?: number } | undefined)?.length ?? object.size) >> 1;
	const body = new ReadableStream<Uint8Array>({
		async pull(controller) {
			const { value, done } = left > 0 ? await source.read() : { value: undefined, done: true };
			if (done || value === undefined) {
				controller.error(error);
				await source.cancel().catch(() => undefined);
				return;
			}
			const part = value.subarray(0, left);
			left -= part.length;
			controller.enqueue(part);
		},
	});
	return new Proxy(object, {
		get(target, name) {
			if (name === "body") return body;
			const value = Reflect.get(target, name, target);
			return typeof value === "function" ? value.bind(target) : value;
		},
	});
}
