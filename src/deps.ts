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
	readonly FAILED_AUTHENTICATIONS: Limiter;
	readonly KEY_REQUESTS: Limiter;
	readonly SIGN_INS: Limiter;
	readonly NEW_DEVICES: Limiter;
	readonly QUESTIONS: Limiter;
}

/** Cloudflare's Rate Limiting binding. */
export interface Limiter {
	limit(options: { key: string }): Promise<{ success: boolean }>;
}

export interface RequestLimit {
	readonly limiter: Limiter;
	/** The `period` that wrangler.toml gives the limiter, seconds: how long a refused client waits. */
	readonly periodSeconds: number;
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
	readonly requestLimits: {
		/** By address. */
		readonly failedAuthentications: RequestLimit;
		/** By the hash of the key or of the session's token. */
		readonly perKey: RequestLimit;
		/** By address. */
		readonly signIns: RequestLimit;
		/** Device ids that an isolate has not seen, by app and address. */
		readonly newDevices: RequestLimit;
		/** Questions to D1 that requests without a key cause, by address. */
		readonly questions: RequestLimit;
	};
	readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
	/** Resolves after that long. */
	readonly delay: (ms: number) => Promise<void>;
	/** Resolves when something else has taken too long. Apart from `delay`, because tests that skip waits must not cut work short. */
	readonly deadline: (ms: number) => Promise<void>;
	readonly log: Log;
	/** A line for the person at the terminal of a local run. */
	readonly print: (line: string) => void;
	readonly config: Config;
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

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
		requestLimits: {
			failedAuthentications: { limiter: env.FAILED_AUTHENTICATIONS, periodSeconds: 60 },
			perKey: { limiter: env.KEY_REQUESTS, periodSeconds: 10 },
			signIns: { limiter: env.SIGN_INS, periodSeconds: 60 },
			newDevices: { limiter: env.NEW_DEVICES, periodSeconds: 60 },
			questions: { limiter: env.QUESTIONS, periodSeconds: 60 },
		},
		fetch: (url, init) => fetch(url, init),
		delay: wait,
		deadline: wait,
		log: (level, event, facts = {}) => console[level](JSON.stringify({ level, event, ...facts })),
		print: (line) => console.log(line),
		config: parseConfig(env),
	};
}
