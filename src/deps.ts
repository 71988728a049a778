/**
 * Everything that a request needs from the outside world, in one value. This is the only file that touches the clock, randomness and
 * the network; tests hand in their own, so they never sleep and never depend on chance.
 */
import { type Config, type ConfigVariables, parseConfig } from "./config";
import type { QueueMessage } from "./events/messages";

/** The Worker's bindings, as wrangler.toml declares them. */
export interface Env extends ConfigVariables {
	readonly DB: D1Database;
	readonly BUNDLES: R2Bucket;
	readonly EVENTS: Queue<QueueMessage>;
	readonly ASSETS: Fetcher;
}

/** One line of the log: a name for the event and facts about it. Never a secret. */
export type Log = (level: "info" | "warn" | "error", event: string, facts?: Record<string, unknown>) => void;

export interface Deps {
	readonly d1: D1Database;
	readonly bundles: R2Bucket;
	readonly events: Pick<Queue<QueueMessage>, "send">;
	readonly assets: Pick<Fetcher, "fetch">;
	/** Epoch milliseconds. */
	readonly now: () => number;
	/** A fresh random UUID. */
	readonly newId: () => string;
	readonly randomBytes: (length: number) => Uint8Array;
	readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
	readonly log: Log;
	readonly config: Config;
}

/** The real world. */
export function createDeps(env: Env): Deps {
	return {
		d1: env.DB,
		bundles: env.BUNDLES,
		events: env.EVENTS,
		assets: env.ASSETS,
		now: () => Date.now(),
		newId: () => crypto.randomUUID(),
		randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
		fetch: (url, init) => fetch(url, init),
		log: (level, event, facts = {}) => console[level](JSON.stringify({ level, event, ...facts })),
		config: parseConfig(env),
	};
}
