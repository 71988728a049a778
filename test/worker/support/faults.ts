/**
 * Faults on demand: D1, R2 and the Queue behind a counter, so that the n-th call of all fails. Either it fails before anything happened,
 * or it happens and only its answer is lost; a caller cannot tell which, so both must be survived.
 */
import { createApp } from "../../../src/app";
import type { Deps } from "../../../src/deps";
import { requestThrough, type World } from "./world";

export type FaultKind = "refused" | "answer lost";

export interface FaultyService {
	readonly deps: Deps;
	readonly request: World["request"];
	/** Names of the calls so far, e.g. `d1.batch`, `r2.put`, `queue.send`. */
	readonly calls: readonly string[];
	/** The call that failed; undefined when there were fewer calls than `failAt`. */
	readonly failed: string | undefined;
}

const R2_METHODS = ["head", "get", "put", "delete", "list"] as const;

/** The world's service with call number `failAt` (from 1) failing once; everything after it works again. */
export function withFault(world: World, failAt: number, kind: FaultKind): FaultyService {
	const calls: string[] = [];
	let failed: string | undefined;
	async function through<Result>(name: string, call: () => Promise<Result>): Promise<Result> {
		calls.push(name);
		if (calls.length !== failAt) return call();
		failed = name;
		if (kind === "answer lost") await call();
		throw new Error("Network connection lost.");
	}

	const { d1, bundles: bucket, events: queue } = world.deps;
	const faultyD1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				batch: (statements: D1PreparedStatement[]) => through("d1.batch", () => session.batch(statements)),
			};
		},
	} as unknown as D1Database;
	const faultyBucket = Object.fromEntries(
		R2_METHODS.map((method) => {
			const call = bucket[method].bind(bucket) as (...given: unknown[]) => Promise<unknown>;
			return [method, (...given: unknown[]) => through(`r2.${method}`, () => call(...given))];
		}),
	) as unknown as R2Bucket;
	const events: Deps["events"] = {
		send: (message, options) => through("queue.send", () => queue.send(message, options)),
	};
	const deps: Deps = { ...world.deps, d1: faultyD1, bundles: faultyBucket, events };
	return {
		deps,
		request: requestThrough(createApp(deps)),
		calls,
		get failed() {
			return failed;
		},
	};
}
