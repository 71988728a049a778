/**
 * The input of the checks of `npm run doctor` and their results. `Status` follows
 * src/features/service/status.ts; a field that an earlier release does not answer may be undefined.
 */
import * as v from "valibot";

export interface Finding {
	readonly check: string;
	readonly state: "ok" | "warning" | "failed" | "skipped";
	readonly detail: string;
	readonly remedy?: string;
}

export interface DoctorOptions {
	readonly url: string;
	/** The admin key; undefined if this machine has none. */
	readonly key: string | undefined;
	readonly isLocal: boolean;
	/**
	 * The option that names the deployment to other commands, after a space; empty for the default
	 * one.
	 */
	readonly option: string;
	/** Release and newest migration of this checkout. */
	readonly version: string;
	readonly schema: string;
	/** Newest migration of the telemetry databases. */
	readonly telemetrySchema: string;
	readonly nowMs: () => number;
	/** Facts that only wrangler has; undefined without a login. */
	readonly account: () => Promise<AccountFacts | undefined>;
	/** Tests use another network. */
	readonly fetch?: typeof fetch;
}

export interface AccountFacts {
	/** Names of the deployment's secrets. */
	readonly secrets: readonly string[];
	readonly worker: string;
	/**
	 * The Workers that consume each queue that this one consumes; undefined for a queue that does not
	 * exist.
	 */
	readonly consumers: Readonly<Record<string, readonly string[] | undefined>>;
}

const time = v.pipe(
	v.string(),
	v.check((text) => !Number.isNaN(Date.parse(text))),
);

/** The answer of GET /service/status. Earlier releases lack what is optional. */
export const statusSchema = v.object({
	version: v.string(),
	schema: v.nullable(v.string()),
	now: time,
	database: v.object({ size_bytes: v.nullable(v.number()), telemetry_max_bytes: v.number() }),
	telemetry: v.optional(
		v.array(v.object({ binding: v.string(), schema: v.nullable(v.string()), size_bytes: v.nullable(v.number()) })),
	),
	queue: v.nullable(v.object({ backlog: v.number(), oldest_at: v.nullable(time) })),
	dead_messages: v.number(),
	/** Deliveries whose time has come. */
	webhooks: v.optional(v.object({ due: v.number(), oldest_at: v.nullable(time) })),
	last_clean_up_at: v.optional(v.nullable(time)),
	bucket: v.picklist(["works", "fails", "lacks_bundles"]),
	/** Triggers of this release that the database lacks. */
	missing_triggers: v.optional(v.number()),
	live_bundles: v.optional(v.object({ checked: v.number(), lost: v.array(v.string()) })),
	edge_cache: v.picklist(["works", "no_effect"]),
	missing_bindings: v.array(v.string()),
	settings: v.object({
		public_url: v.nullable(v.string()),
		bundles_url: v.nullable(v.string()),
		cors_allowed_origins: v.array(v.string()),
		mail: v.nullable(v.string()),
		secrets: v.number(),
	}),
});

export type Status = v.InferOutput<typeof statusSchema>;
