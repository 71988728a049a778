/**
 * The input of the checks of `npm run doctor` and their results. `Status` follows
 * src/features/service/status.ts; a field that an earlier release does not answer may be undefined.
 */
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

/** The answer of GET /service/status. */
export interface Status {
	readonly version: string;
	readonly schema: string | null;
	readonly now: string;
	readonly database: { readonly size_bytes: number | null; readonly telemetry_max_bytes: number };
	/** Undefined: an earlier release. */
	readonly telemetry?: readonly {
		readonly binding: string;
		readonly schema: string | null;
		readonly size_bytes: number | null;
	}[];
	readonly queue: { readonly backlog: number; readonly oldest_at: string | null } | null;
	readonly dead_messages: number;
	/** Deliveries whose time has come. Undefined: an earlier release. */
	readonly webhooks?: { readonly due: number; readonly oldest_at: string | null };
	/** Undefined: an earlier release. */
	readonly last_clean_up_at?: string | null;
	readonly bucket: "works" | "fails" | "lacks_bundles";
	/** Triggers of this release that the database lacks. Undefined: an earlier release. */
	readonly missing_triggers?: number;
	/** Undefined: an earlier release. */
	readonly live_bundles?: { readonly checked: number; readonly lost: readonly string[] };
	readonly edge_cache: "works" | "no_effect";
	readonly missing_bindings: readonly string[];
	readonly settings: {
		readonly public_url: string | null;
		readonly bundles_url: string | null;
		readonly cors_allowed_origins: readonly string[];
		readonly mail: string | null;
		readonly secrets: number;
	};
}
