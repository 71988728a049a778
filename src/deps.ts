/**
 * Everything that a request needs from the outside world. Only this file touches the clock,
 * randomness and the network; tests pass their own, so they never sleep and are deterministic.
 */
import { type Config, type ConfigVariables, parseConfig } from "./config";
import { boundedDatabase } from "./db/bounded-database";
import type { QueueMessage, WebhookDue } from "./messages";

/** The Worker's bindings, as wrangler.toml declares them. */
export interface Env extends ConfigVariables {
	readonly DB: D1Database;
	/** A deployment may have more, named `TELEMETRY_0`, `TELEMETRY_1` and so on. */
	readonly TELEMETRY: D1Database;
	readonly BUNDLES: R2Bucket;
	readonly EVENTS: Queue<QueueMessage>;
	readonly WEBHOOKS: Queue<WebhookDue>;
	/** Reaches this machine and private networks; only a local run that serves no network has it. */
	readonly LOCAL_NETWORK?: Fetcher;
	readonly ASSETS: Fetcher;
	readonly FAILED_AUTHENTICATIONS: Limiter;
	readonly KEY_REQUESTS: Limiter;
	readonly SIGN_INS: Limiter;
	readonly NEW_DEVICES: Limiter;
	readonly D1_READS: Limiter;
	readonly FETCHES: Limiter;
	/** Reaches loopback; only a local run that serves no network has it. */
	readonly LOCAL_ISSUERS?: Fetcher;
}

/** Cloudflare's Rate Limiting binding. */
export interface Limiter {
	limit(options: { key: string }): Promise<{ success: boolean }>;
}

export interface RequestLimit {
	readonly limiter: Limiter;
	/** `limit` of the limiter in wrangler.toml, for the headers of answers. */
	readonly limit?: number;
	/** `period` of the limiter in wrangler.toml, seconds: how long a refused client waits. */
	readonly periodSeconds: number;
}

/** One log line: an event name and facts. Never a secret. */
export type Log = (level: "info" | "warn" | "error", event: string, facts?: Record<string, unknown>) => void;

/** Whether a binding is a database for reports of devices and statistics. */
export const isTelemetryBinding = (name: string): boolean => /^TELEMETRY(_\d+)?$/.test(name);

/** The cron of the scheduled event that ends a local run (src/queue/local-drain.ts). */
export const DRAIN = "drain";

export interface Deps {
	readonly d1: D1Database;
	/** Databases for reports of devices and statistics, by binding; every deployment has one. */
	readonly telemetry: Readonly<Record<string, D1Database>>;
	readonly bundles: R2Bucket;
	/** Local runtimes have no metrics. */
	readonly events: Pick<Queue<QueueMessage>, "send"> & Partial<Pick<Queue<QueueMessage>, "metrics">>;
	readonly webhooks: { send(message: WebhookDue, options?: QueueSendOptions): Promise<unknown> };
	readonly assets: Pick<Fetcher, "fetch">;
	/**
	 * The cache of this data center; undefined where the runtime has none. It has no effect on
	 * workers.dev.
	 */
	readonly cache: Pick<Cache, "match" | "put"> | undefined;
	/** Epoch milliseconds. */
	readonly now: () => number;
	/** A fresh random UUID. */
	readonly newId: () => string;
	readonly randomBytes: (length: number) => Uint8Array;
	readonly requestLimits: {
		/** By address. */
		readonly failedAuthentications: RequestLimit;
		/** By hash of the key or session token. */
		readonly perKey: RequestLimit;
		/** By address. */
		readonly signIns: RequestLimit;
		/** New device ids, by app and address. */
		readonly newDevices: RequestLimit;
		/** Reads of D1 by requests without a key, by address. */
		readonly d1Reads: RequestLimit;
		/** Requests of this server to an address that a caller chose, by caller or webhook. */
		readonly fetches: RequestLimit;
		/** By hash of the key or session token. */
	};
	readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
	/**
	 * The same for addresses on loopback, from which a local run may fetch the keys of issuers;
	 * undefined in a deployment.
	 */
	readonly localFetch?: Deps["fetch"];
	/**
	 * Also to private addresses, where the runtime has such a network; for webhooks of a local run.
	 */
	readonly fetchLocally: (url: string, init: RequestInit) => Promise<Response>;
	/** Resolves after the given time. */
	readonly delay: (ms: number) => Promise<void>;
	/** A deadline. Separate from `delay`, because tests that skip waits must not cut work short. */
	readonly deadline: (ms: number) => Promise<void>;
	readonly log: Log;
	/** Prints a line to the terminal of a local run. */
	readonly print: (line: string) => void;
	readonly config: Config;
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * The dashboard, which imports types of this file, compiles with the browser's `caches`, which has
 * no default.
 */
const runtime = globalThis as unknown as { readonly caches?: { readonly default: Cache } };

/**
 * The platform's types of requests and those of the standard differ in details that do not matter
 * here.
 */
function localIssuers({ LOCAL_ISSUERS: local }: Env): Pick<Deps, "localFetch"> {
	return local === undefined ? {} : { localFetch: (url, init) => local.fetch(url, init as never) as never };
}

/** The production dependencies. */
export function createDeps(env: Env): Deps {
	const now = () => Date.now();
	return {
		d1: boundedDatabase(env.DB, now),
		telemetry: Object.fromEntries(
			Object.entries(env).flatMap(([binding, database]) =>
				isTelemetryBinding(binding) ? [[binding, boundedDatabase(database as D1Database, now)]] : [],
			),
		),
		bundles: env.BUNDLES,
		events: env.EVENTS,
		webhooks: env.WEBHOOKS,
		assets: env.ASSETS,
		cache: runtime.caches?.default,
		now,
		newId: () => crypto.randomUUID(),
		randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
		requestLimits: {
			failedAuthentications: { limiter: env.FAILED_AUTHENTICATIONS, periodSeconds: 60 },
			perKey: { limiter: env.KEY_REQUESTS, limit: 1_000, periodSeconds: 10 },
			signIns: { limiter: env.SIGN_INS, periodSeconds: 60 },
			newDevices: { limiter: env.NEW_DEVICES, periodSeconds: 60 },
			d1Reads: { limiter: env.D1_READS, periodSeconds: 60 },
			fetches: { limiter: env.FETCHES, periodSeconds: 60 },
		},
		fetch: (url, init) => fetch(url, init),
		...localIssuers(env),
		fetchLocally: (url, init) => (env.LOCAL_NETWORK ?? globalThis).fetch(url, init),
		delay: wait,
		deadline: wait,
		log: (level, event, facts = {}) => console[level](JSON.stringify({ level, event, ...facts })),
		print: (line) => console.log(line),
		config: parseConfig(env),
	};
}
