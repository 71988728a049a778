/**
 * Jobs that run every fifteen minutes: retention, rollout steps, storage measurements, and clean-up after crashes and lost connections.
 * Every job is idempotent, and a failed job does not stop the others.
 *
 * Garbage is removed from R2 twice, a day apart: an upload that was given up while its bytes arrived may store them after the first removal,
 * and no upload lasts a day.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { SESSION_IDLE_MS } from "./authz/session";
import { SEALED_KEYS } from "./db/api-keys";
import { auditBundleDeletions, auditDeleteMarks } from "./db/audit/bundles";
import type { Actor } from "./db/audit/entries";
import { removeTombstones } from "./db/bundle-deletion";
import { deletedAppIds, tendFeed } from "./db/change-triggers";
import { deletePreviewNames } from "./db/channel-names";
import { jsonList, openDb, query } from "./db/client";
import { releaseDeltaFiles, removeUnusedDeltaFiles } from "./db/delta-files";
import { SEALED_HOOKS } from "./db/preview-hooks";
import { deleteOldPreviews } from "./db/previews";
import { deleteOldIdentities } from "./db/publishers";
import { resealRows } from "./db/reseal";
import { deleteEarlyOutcomes, deleteEndedRollouts } from "./db/rollouts";
import { installStorageTriggers } from "./db/storage-triggers";
import { storeSweepRun } from "./db/sweep-runs";
import { selectedToGarbage } from "./db/uploads";
import { DELIVERIES_KEPT_MS, deleteOldWebhookEvents } from "./db/webhook-deliveries";
import { tendWebhookTriggers } from "./db/webhook-triggers";
import { SEALED_WEBHOOKS } from "./db/webhooks";
import type { Deps } from "./deps";
import { DAY_MS, HOUR_MS } from "./domain/time";
import { causeText } from "./errors";
import { removeAuditEntries } from "./features/audit/retention";
import { deleteExpiredBundles } from "./features/bundles/retention";
import { CLEAN_UP_NAME, purgeOrganizations } from "./features/organizations/purge";
import { closeExpiredPreviews } from "./features/previews/close";
import { stepRollouts } from "./features/rollouts/steps";
import {
	deleteOldDeviceEvents,
	deleteOldDevices,
	deleteOldEvents,
	deleteOldInstallSteps,
	deleteOldStatistics,
	measureStorage,
} from "./features/statistics/retention";
import { mergeSketchSlots } from "./features/statistics/sketches";
import { moveTelemetry } from "./features/telemetry/move";
import { nameDevices } from "./features/telemetry/named";
import { tendDeadMessages } from "./queue/dead-letters";
import { wakeDueWebhooks } from "./queue/webhook-wake";
import { removeAll } from "./storage/objects";
import { removeSnapshots } from "./storage/snapshot-objects";

/** Longest time between the two calls of the stock CLI's clean-up. */
const DELETE_MARK_LIFETIME_MS = HOUR_MS;
/** Time between the first and the second removal of garbage. */
const SECOND_REMOVAL_MS = DAY_MS;
/** Retention of ended rollouts and their device reports. */
const ENDED_ROLLOUT_LIFETIME_MS = 30 * DAY_MS;
/** The Queue may deliver a device's report before the check that it followed; the report waits this long. */
const EARLY_OUTCOME_LIFETIME_MS = DAY_MS;
/** Rows of `rollout_devices` per statement; one rollout may have 100,000. */
const MOST_ROLLOUT_DEVICES = 5_000;
const MOST_ROLLOUT_STATEMENTS = 10;
/** Closed previews refuse late uploads for this time. */
const CLOSED_PREVIEW_MS = 30 * DAY_MS;
/** Limits on codes count attempts of the last day. */
const ATTEMPT_COUNTS_MS = DAY_MS;
/** An expired key of a CI job is reported as expired for this time, and as invalid afterwards. */
const CI_KEY_ERROR_MS = DAY_MS;
/** Retention of the account log. */
const ACCOUNT_LOG_MS = 90 * DAY_MS;
/** Sign-in rows per statement: strangers create them, so there may be many, and no other row depends on them. */
const MOST_SIGN_IN_ROWS = 5_000;
/** Shares of TELEMETRY_MAX_BYTES at which the log warns. */
const FILLING = 0.7;
const NEARLY_FULL = 0.9;
/** With their deliveries. */
const MOST_WEBHOOK_EVENTS = 1_000;
/** Rows per job and run, to stay within a Worker's limits; the next run continues. */
const MOST_ROWS = 200;

/** The jobs of one run, in order. */
export const JOBS: Readonly<Record<string, (deps: Deps) => Promise<unknown>>> = {
	"storage triggers": installStorageTriggers,
	"snapshots of deleted apps": async (deps) => removeSnapshots(deps.bundles, await deletedAppIds(deps)),
	"change feed": tendFeed,
	"unfinished uploads": expireUploads,
	"clean-up marks": clearDeleteMarks,
	"unused delta files": (deps) => removeUnusedDeltaFiles(openDb(deps.d1, "first-primary"), deps.now()),
	"rows of deleted bundles": (deps) => removeTombstones(deps, deps.now()),
	"old audit entries": removeAuditEntries,
	"expired invitations": deleteExpiredInvitations,
	"old sign-ins": deleteOldSignIns,
	"old identity tokens": deleteOldIdentityTokens,
	"expired previews": (deps) => closeExpiredPreviews(deps, sweepActor(deps)),
	"names of old previews": deleteOldPreviewNames,
	"deleted organizations": purgeOrganizations,
	rollouts: stepRollouts,
	"ended rollouts": deleteOldRollouts,
	"expired bundles": (deps) => deleteExpiredBundles(deps, sweepActor(deps)),
	garbage: collectGarbage,
	storage: measureStorage,
	"database size": (deps) => everywhere(deps, watchDatabaseSize),
	telemetry: moveTelemetry,
	"devices with an override": nameDevices,
	"device sketches": (deps) => everywhere(deps, (own, binding) => mergeSketchSlots(own, binding === undefined)),
	"old events": (deps) => everywhere(deps, deleteOldEvents),
	"old statistics": (deps) => everywhere(deps, (own, binding) => deleteOldStatistics(own, binding === undefined)),
	"old devices": (deps) =>
		everywhere(deps, (own, binding) => deleteOldDevices(own, binding === undefined ? undefined : deps.d1)),
	"old device events": (deps) => everywhere(deps, deleteOldDeviceEvents),
	"old install steps": (deps) => everywhere(deps, deleteOldInstallSteps),
	"keys sealed by an older secret": (deps) => resealRows(deps, SEALED_KEYS),
	"preview webhooks sealed by an older secret": (deps) => resealRows(deps, SEALED_HOOKS),
	"dead messages": tendDeadMessages,
	"triggers of webhooks": tendWebhookTriggers,
	"webhooks sealed by an older secret": (deps) => resealRows(deps, SEALED_WEBHOOKS),
	"old deliveries": (deps) =>
		write(deps, [deleteOldWebhookEvents(deps.now() - DELIVERIES_KEPT_MS, MOST_WEBHOOK_EVENTS)]),
	// After the others, so that it wakes the webhooks of what the others did.
	"due webhooks": wakeDueWebhooks,
	// The last one, so that a run that the platform ends early is not stored.
	"last run": (deps) => write(deps, [storeSweepRun(deps.now())]),
};

/** @throws {Error} when jobs failed; the others ran, and the next run tries again */
export async function sweep(deps: Deps): Promise<void> {
	await runAll(deps, JOBS);
}

/** Runs every job. A failure is logged with the job's name, and fails the run so that the platform reports it. */
async function runAll(deps: Deps, jobs: typeof JOBS): Promise<void> {
	const failed: string[] = [];
	for (const [name, run] of Object.entries(jobs)) {
		try {
			await run(deps);
		} catch (error) {
			failed.push(name);
			deps.log("error", "step_failed", { work: "sweep", step: name, cause: causeText(error) });
		}
	}
	if (failed.length > 0) throw new Error(`sweep failed: ${failed.join(", ")}`);
}

/** One atomic batch. */
async function write(deps: Deps, statements: readonly (CompiledQuery | RawBuilder<unknown>)[]): Promise<void> {
	await openDb(deps.d1, "first-primary").batch(
		statements.map((statement) => ("compile" in statement ? statement.compile(query) : statement)),
	);
}

/** The actor of clean-up in the audit log. */
function sweepActor(deps: Deps): Actor {
	return { type: "system", id: null, name: CLEAN_UP_NAME, requestId: deps.newId(), ipAddress: null };
}

/** Expired uploads become garbage, and pending bundles without an upload are deleted. */
async function expireUploads(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	// A pending bundle is kept while one of its uploads may still complete.
	const abandoned = sql`status = 'pending' AND expires_at_ms <= ${nowMs}
		AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.bundle_id = bundles.id)`;
	const expired = sql`(SELECT id FROM uploads WHERE expires_at_ms <= ${nowMs} ORDER BY expires_at_ms, id LIMIT ${MOST_ROWS})`;
	await write(deps, [
		selectedToGarbage(sql`SELECT object_prefix FROM uploads WHERE id IN ${expired} AND completed_at_ms IS NULL`, nowMs),
		sql`DELETE FROM uploads WHERE id IN ${expired}`,
		auditBundleDeletions(sweepActor(deps), nowMs, abandoned, { reason: "expired" }),
		releaseDeltaFiles(abandoned, nowMs),
		sql`DELETE FROM bundles WHERE ${abandoned}`,
	]);
}

async function clearDeleteMarks(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const unfinished = sql`delete_marked_at_ms <= ${nowMs - DELETE_MARK_LIFETIME_MS} AND deleted_at_ms IS NULL`;
	await write(deps, [
		auditDeleteMarks(sweepActor(deps), nowMs, false, unfinished),
		sql`UPDATE bundles SET delete_marked_at_ms = NULL WHERE ${unfinished}`,
	]);
}

async function deleteExpiredInvitations(deps: Deps): Promise<void> {
	await write(deps, [
		sql`DELETE FROM invitations WHERE id IN (
			SELECT id FROM invitations WHERE expires_at_ms <= ${deps.now()} ORDER BY expires_at_ms, id LIMIT ${MOST_ROWS})`,
	]);
}

async function deleteOldRollouts(deps: Deps): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const nowMs = deps.now();
	await db.batch([deleteEarlyOutcomes(nowMs - EARLY_OUTCOME_LIFETIME_MS, MOST_ROLLOUT_DEVICES)]);
	for (let statement = 0; statement < MOST_ROLLOUT_STATEMENTS; statement++) {
		const [devices, rollouts] = await db.batch(
			deleteEndedRollouts(nowMs - ENDED_ROLLOUT_LIFETIME_MS, MOST_ROLLOUT_DEVICES),
		);
		if (Math.max(devices.changes, rollouts.changes) < MOST_ROLLOUT_DEVICES) return;
	}
}

/** Ended sessions, attempts that no limit counts, expired links, and old entries of the account log. */
async function deleteOldSignIns(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const oldest = (table: string, key: string, condition: RawBuilder<unknown>) => {
		const [rows, id] = [sql.table(table), sql.ref(key)];
		return sql`DELETE FROM ${rows} WHERE ${id} IN (SELECT ${id} FROM ${rows} WHERE ${condition} LIMIT ${MOST_SIGN_IN_ROWS})`;
	};
	await write(deps, [
		oldest("sessions", "id", sql`expires_at_ms <= ${nowMs}`),
		oldest("sessions", "id", sql`last_seen_at_ms <= ${nowMs - SESSION_IDLE_MS}`),
		oldest("sign_in_attempts", "token_hash", sql`created_at_ms <= ${nowMs - ATTEMPT_COUNTS_MS}`),
		oldest("sign_in_links", "token_hash", sql`expires_at_ms <= ${nowMs}`),
		oldest("account_log", "id", sql`at_ms <= ${nowMs - ACCOUNT_LOG_MS}`),
	]);
}

async function deleteOldIdentityTokens(deps: Deps): Promise<void> {
	await write(deps, deleteOldIdentities(deps.now(), CI_KEY_ERROR_MS, MOST_SIGN_IN_ROWS));
}

/**
 * Runs the job in the main database, and in each telemetry database with that one in the place of the main one. A database that fails does not
 * stop the others.
 */
async function everywhere(deps: Deps, job: (own: Deps, binding?: string) => Promise<unknown>): Promise<void> {
	const runs = [
		() => job(deps),
		...Object.entries(deps.telemetry).map(
			([name, d1]) =>
				() =>
					job({ ...deps, d1 }, name),
		),
	];
	let failure: unknown;
	for (const run of runs) {
		try {
			await run();
		} catch (error) {
			failure ??= error;
		}
	}
	if (failure !== undefined) throw failure;
}

/** Logs that the database fills up, because it can never be enlarged, and no telemetry is stored above the limit. */
async function watchDatabaseSize(deps: Deps, binding = "DB"): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	await db.batch([sql`SELECT 1`.compile(query)]);
	const { telemetryMaxBytes: limitBytes } = deps.config;
	const sizeBytes = db.sizeBytes ?? 0;
	const level =
		sizeBytes >= NEARLY_FULL * limitBytes ? "error" : sizeBytes >= FILLING * limitBytes ? "warn" : undefined;
	if (level !== undefined) deps.log(level, "database_filling", { database: binding, sizeBytes, limitBytes });
}

async function deleteOldPreviewNames(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	await write(deps, [deletePreviewNames(nowMs, MOST_ROWS), deleteOldPreviews(nowMs - CLOSED_PREVIEW_MS, MOST_ROWS)]);
}

/**
 * Removes garbage from R2: the object first and its row second, so that a crash between the two is repeated.
 * @returns whether more garbage may be waiting
 * @throws {Error} when some objects could not be removed; the others were
 */
export async function collectGarbage(deps: Deps): Promise<boolean> {
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [garbage] = await db.batch([
		query
			.selectFrom("garbage_objects")
			.select("object_prefix")
			.where("due_at_ms", "<=", nowMs)
			.orderBy("due_at_ms")
			.limit(MOST_ROWS)
			.compile(),
	]);
	const removed: string[] = [];
	let failure: unknown;
	for (const { object_prefix } of garbage.rows) {
		try {
			await removeAll(deps.bundles, object_prefix);
			removed.push(object_prefix);
		} catch (error) {
			failure = error;
		}
	}
	if (removed.length > 0) {
		const thoseRemoved = sql`object_prefix IN ${jsonList(JSON.stringify(removed))} AND due_at_ms <= ${nowMs}`;
		await db.batch([
			sql`DELETE FROM garbage_objects WHERE ${thoseRemoved} AND due_at_ms > created_at_ms`.compile(query),
			sql`UPDATE garbage_objects SET due_at_ms = ${nowMs + SECOND_REMOVAL_MS} WHERE ${thoseRemoved}`.compile(query),
		]);
	}
	if (failure !== undefined) throw failure;
	return removed.length === MOST_ROWS;
}
