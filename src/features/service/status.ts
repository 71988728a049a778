/**
 * Facts that only the Worker has about its installation, for `npm run doctor`
 * (src/operator/doctor.ts), which judges it: sizes, backlogs and settings without secrets. A part
 * that fails is reported and does not fail the others.
 */
import * as v from "valibot";
import { VERSION } from "../../config";
import { newestObjects } from "../../db/bundle-list";
import { type LiveBundle, newestLiveBundles } from "../../db/bundles";
import { openDb } from "../../db/client";
import { countDeadMessages } from "../../db/dead-messages";
import { lastJobRun } from "../../db/job-runs";
import { newestMigration } from "../../db/schema-version";
import { usedBindings } from "../../db/telemetry-databases";
import { missingTriggers, triggerNames } from "../../db/triggers";
import { dueDeliveries } from "../../db/webhook-deliveries";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { nullableRfc3339, nullableTime, rfc3339 } from "../../http/schemas";
import { operatorScope } from "../../http/scope";
import { readBacklog } from "../../queue/backlog";
import { headObject } from "../../storage/objects";

/** A database that does not answer must not hold back the other findings. */
const TELEMETRY_DEADLINE_MS = 2_000;

const MOST_COUNTED = 1_000;
/** A request may do 50 on the free plan. */
const MOST_HEADS = 20;

const LIMITERS = {
	FAILED_AUTHENTICATIONS: "failedAuthentications",
	KEY_REQUESTS: "perKey",
	SIGN_INS: "signIns",
	NEW_DEVICES: "newDevices",
	D1_READS: "d1Reads",
	FETCHES: "fetches",
} as const satisfies Record<string, keyof Deps["requestLimits"]>;

const status = v.strictObject({
	version: v.string(),
	schema: v.nullable(v.string()),
	now: v.string(),
	database: v.strictObject({ size_bytes: v.nullable(v.number()), telemetry_max_bytes: v.number() }),
	telemetry: v.array(
		v.strictObject({ binding: v.string(), schema: v.nullable(v.string()), size_bytes: v.nullable(v.number()) }),
	),
	queue: v.nullable(v.strictObject({ backlog: v.number(), oldest_at: v.nullable(v.string()) })),
	dead_messages: v.number(),
	webhooks: v.strictObject({ due: v.number(), oldest_at: nullableTime }),
	last_clean_up_at: nullableTime,
	missing_triggers: v.number(),
	bucket: v.picklist(["works", "fails", "lacks_bundles"]),
	live_bundles: v.strictObject({ checked: v.number(), lost: v.array(v.string()) }),
	edge_cache: v.picklist(["works", "no_effect"]),
	missing_bindings: v.array(v.string()),
	settings: v.strictObject({
		public_url: v.nullable(v.string()),
		bundles_url: v.nullable(v.string()),
		cors_allowed_origins: v.array(v.string()),
		mail: v.nullable(v.string()),
		secrets: v.number(),
	}),
});

export const serviceStatus = endpoint({
	method: "GET",
	path: "/service/status",
	tag: "Service",
	summary: "Read the state of the installation (operator)",
	description: [
		"For `npm run doctor`.",
		"Only for the operator: an owner of the first organization.",
		"`queue` is null where the runtime does not report the backlog; `dead_messages` and `webhooks.due`,",
		"the deliveries whose time has come, are counted up to 1,000.",
		"`last_clean_up_at` is the last run of the automatic clean-up, null before the first one.",
		"`missing_triggers` is the number of triggers that the",
		"main database lacks; the next clean-up installs them.",
		"`bucket` is `lacks_bundles` if it has none of the newest bundles.",
		"`telemetry` lists the databases for reports of",
		"devices, with `schema` null for one that does not answer.",
		"`live_bundles` has the newest bundles that channels serve, at most 20, and as `<app_id> <version>`",
		"those whose bytes the bucket lost.",
		"`edge_cache` is `no_effect` on workers.dev.",
		"`settings.secrets` is the number of configured secrets.",
	],
	access: { permission: "org.delete", scope: operatorScope },
	response: status,
	errors: [],
	example: {
		response: {
			version: "1.0.0",
			schema: "0001_schema",
			now: "2026-11-21T08:00:00.000Z",
			database: { size_bytes: 4_096_000, telemetry_max_bytes: 9_000_000_000 },
			telemetry: [{ binding: "TELEMETRY", schema: "0001_schema", size_bytes: 8_192_000 }],
			queue: { backlog: 3, oldest_at: "2026-11-21T07:59:59.000Z" },
			dead_messages: 0,
			webhooks: { due: 0, oldest_at: null },
			last_clean_up_at: "2026-11-21T07:45:02.000Z",
			missing_triggers: 0,
			bucket: "works",
			live_bundles: { checked: 2, lost: [] },
			edge_cache: "works",
			missing_bindings: [],
			settings: {
				public_url: "https://updates.example.com",
				bundles_url: null,
				cors_allowed_origins: [],
				mail: "resend",
				secrets: 1,
			},
		},
	},
	load: (_input, nowMs) => ({
		dead: countDeadMessages(),
		lastRun: lastJobRun(),
		bindings: usedBindings(),
		deliveries: dueDeliveries(nowMs, MOST_COUNTED),
		triggers: triggerNames(),
		newest: newestObjects(),
		live: newestLiveBundles(MOST_HEADS),
	}),
	async handle({ deps, db, request, nowMs, loaded, edgeCache, schemaVersion, waitUntil }) {
		const { config } = deps;
		const sizeBytes = db.sizeBytes;
		const { dead, lastRun, bindings, deliveries, triggers, newest, live } = loaded;
		const [schema, telemetry, backlog, bucket, lost, cache] = await Promise.all([
			schemaVersion.read(db, waitUntil),
			Promise.all(Object.keys(deps.telemetry).map((binding) => telemetryState(deps, binding))),
			readBacklog(deps),
			bucketState(
				deps,
				newest.map(({ object_key }) => object_key),
			),
			lostOf(deps, live),
			edgeCache.probe(new URL(request.url).host),
		]);
		return {
			version: VERSION,
			schema,
			now: rfc3339(nowMs),
			database: { size_bytes: sizeBytes ?? null, telemetry_max_bytes: config.telemetryMaxBytes },
			telemetry,
			queue: backlog === null ? null : { backlog: backlog.messages, oldest_at: nullableRfc3339(backlog.oldestAtMs) },
			dead_messages: dead[0]?.dead ?? 0,
			webhooks: {
				due: deliveries[0]?.due ?? 0,
				oldest_at: nullableRfc3339(deliveries[0]?.oldest_ms ?? null),
			},
			last_clean_up_at: nullableRfc3339(lastRun[0]?.at_ms ?? null),
			missing_triggers: missingTriggers(triggers.map(({ name }) => name)),
			bucket,
			live_bundles: { checked: live.length, lost },
			edge_cache: cache,
			missing_bindings: missingBindings(
				deps,
				bindings.map(({ binding }) => binding),
			),
			settings: {
				public_url: config.publicUrl ?? null,
				bundles_url: config.bundlesUrl ?? null,
				cors_allowed_origins: [...config.corsAllowedOrigins],
				mail: config.mail?.provider ?? null,
				secrets: config.secrets.length,
			},
		};
	},
});

async function telemetryState({ telemetry, deadline, log }: Deps, binding: string) {
	const nothing = { binding, schema: null, size_bytes: null };
	const read = async () => {
		const d1 = telemetry[binding];
		if (d1 === undefined) return nothing;
		const db = openDb(d1, "first-unconstrained");
		const [newest] = await db.batch([newestMigration]);
		const schema = newest.rows[0]?.name.replace(/\.sql$/, "") ?? null;
		return { binding, schema, size_bytes: db.sizeBytes ?? null };
	};
	try {
		return await Promise.race([read(), deadline(TELEMETRY_DEADLINE_MS).then(() => nothing)]);
	} catch (error) {
		log("warn", "telemetry_not_read", { binding, cause: causeText(error) });
		return nothing;
	}
}

/** Lost bytes of a single bundle are no sign of another bucket. */
async function bucketState({ bundles, log }: Deps, newest: readonly string[]) {
	try {
		const found = await Promise.all(["doctor", ...newest].map((key) => headObject(bundles, key)));
		const lacksAll = newest.length > 0 && found.every((object) => object === null);
		return lacksAll ? ("lacks_bundles" as const) : ("works" as const);
	} catch (error) {
		log("warn", "bucket_fails", { cause: causeText(error) });
		return "fails" as const;
	}
}

/** A bucket that does not answer is reported as such, and as no lost bundle. */
async function lostOf({ bundles }: Deps, live: readonly LiveBundle[]): Promise<string[]> {
	const lost = await Promise.all(
		live.map(async ({ app_id, name, object_key }) => {
			const isLost = await headObject(bundles, object_key).then(
				(object) => object === null,
				() => false,
			);
			return isLost ? [`${app_id} ${name}`] : [];
		}),
	);
	return lost.flat();
}

/**
 * Bindings that wrangler.toml declares and this deployment lacks. Without DB there is no answer at
 * all.
 * @param databases telemetry databases of apps
 */
function missingBindings(
	{ bundles, events, webhooks, assets, requestLimits, telemetry }: Deps,
	databases: readonly string[],
): string[] {
	const hasNone = Object.keys(telemetry).length === 0 && databases.length === 0;
	const found: readonly (readonly [string, unknown])[] = [
		["BUNDLES", bundles],
		["EVENTS", events],
		["WEBHOOKS", webhooks],
		["ASSETS", assets],
		...(hasNone ? [["TELEMETRY", undefined] as const] : []),
		...databases.map((name) => [name, telemetry[name]] as const),
		...Object.entries(LIMITERS).map(([name, limit]) => [name, requestLimits[limit].limiter] as const),
	];
	return found.filter(([, binding]) => binding === undefined).map(([name]) => name);
}
