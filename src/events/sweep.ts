/**
 * The scheduled sweep: what crashes and lost connections left behind is put right here. It gives up uploads that were not finished in
 * time, takes back clean-up marks whose second half never came, lets go of delta files that nothing uses, forgets invitations that ran
 * out and sign-ins that are over, removes organizations whose deletion was not undone, steps rollouts, deletes bundles that apps keep no
 * longer, removes garbage from R2, measures what apps store, forgets what is older than the configuration keeps, and sends dead messages
 * again that a person marked. Every step is safe to repeat, and what one cannot do keeps none of the others from theirs.
 *
 * Garbage is removed twice, a day apart: a request whose upload was given up under it may store its bytes after the first removal, and
 * no request sends for a day.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { SESSION_IDLE_MS } from "../authz/session";
import type { Actor } from "../db/audit";
import { auditBundlesGoing, auditDeleteMarks } from "../db/bundle-audit";
import { forgetPreviewNames } from "../db/channel-names";
import { jsonList, openDb, query } from "../db/client";
import { forgetEarlyOutcomes, forgetEndedRollouts } from "../db/rollouts";
import { installStorageTriggers } from "../db/storage-triggers";
import { selectedToGarbage } from "../db/uploads";
import type { Deps } from "../deps";
import { DAY_MS } from "../domain/time";
import { removeAll } from "../storage/objects";
import { tendDeadMessages } from "./dead-letters";
import { CLEAN_UP_NAME, purgeOrganizations } from "./organization-purge";
import { deleteOutlivedBundles } from "./outlived-bundles";
import { resealKeys } from "./reseal-keys";
import { forgetDevices, forgetEvents, forgetInstallSteps, forgetStatistics, measureStorage } from "./retention";
import { stepRollouts } from "./rollout-steps";
import { runSteps } from "./steps";

const HOUR_MS = 60 * 60 * 1000;
/** How long the stock CLI may take between the two calls of its clean-up. */
const DELETE_MARK_LIFETIME_MS = HOUR_MS;
/** An uploader that found a file in the delta store refers to it within this time. */
const DELTA_GRACE_MS = DAY_MS;
/** Between the first and the second removal of garbage. */
const SECOND_LOOK_MS = DAY_MS;
/** How long it is known how a rollout ended, and by what its devices told. */
const ENDED_ROLLOUT_LIFETIME_MS = 30 * DAY_MS;
/** Between what a device told and the check it followed, where the Queue delivers the two in another order. */
const EARLY_OUTCOME_LIFETIME_MS = DAY_MS;
/** Devices of rollouts. One rollout may have a hundred thousand of them. */
const MOST_ROLLOUT_DEVICES = 5_000;
const MOST_ROLLOUT_STATEMENTS = 10;
/** The limits on codes count a day back. */
const ATTEMPT_COUNTS_MS = DAY_MS;
/** How long what happened to an account is told. */
const ACCOUNT_LOG_MS = 90 * DAY_MS;
/** Anybody may begin a sign-in, so many more of these may wait; nothing else goes with a row. */
const MOST_SIGN_IN_ROWS = 5_000;
/** Rows that one run looks at, so that it stays within a Worker's limits; the rest waits for the next run. */
const MOST_ROWS = 200;

/** What one run does, in this order. */
export const SWEEP_STEPS: Readonly<Record<string, (deps: Deps) => Promise<unknown>>> = {
	"storage triggers": installStorageTriggers,
	"unfinished uploads": giveUpUnfinished,
	"clean-up marks": takeBackMarks,
	"unused delta files": letGoOfDeltaFiles,
	"expired invitations": forgetInvitations,
	"old sign-ins": forgetSignIns,
	"names of old previews": forgetClosedPreviews,
	"deleted organizations": purgeOrganizations,
	rollouts: stepRollouts,
	"ended rollouts": forgetRollouts,
	"outlived bundles": (deps) => deleteOutlivedBundles(deps, sweepActor(deps)),
	garbage: collectGarbage,
	storage: measureStorage,
	"old events": forgetEvents,
	"old statistics": forgetStatistics,
	"old devices": forgetDevices,
	"old install steps": forgetInstallSteps,
	"keys sealed by an older secret": resealKeys,
	"dead messages": tendDeadMessages,
};

/** @throws {Error} when a step failed; the others were done, and the next run tries again */
export async function sweep(deps: Deps): Promise<void> {
	const steps = Object.entries(SWEEP_STEPS).map(([name, step]) => [name, () => step(deps)] as const);
	await runSteps(deps, "sweep", Object.fromEntries(steps));
}

/** One atomic batch. */
async function write(deps: Deps, statements: readonly (CompiledQuery | RawBuilder<unknown>)[]): Promise<void> {
	await openDb(deps.d1, "first-primary").batch(
		statements.map((statement) => ("compile" in statement ? statement.compile(query) : statement)),
	);
}

/** The actor of the sweep's changes in the audit log. */
function sweepActor(deps: Deps): Actor {
	return { type: "system", id: null, name: CLEAN_UP_NAME, requestId: deps.newId(), ipAddress: null };
}

/** Uploads that expired become garbage, and so do registrations that wait for none any more. */
async function giveUpUnfinished(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	// A registration lives as long as its latest upload may still come.
	const abandoned = sql`status = 'pending' AND expires_at_ms <= ${nowMs}
		AND NOT EXISTS (SELECT 1 FROM uploads WHERE uploads.bundle_id = bundles.id)`;
	const expired = sql`(SELECT id FROM uploads WHERE expires_at_ms <= ${nowMs} ORDER BY expires_at_ms, id LIMIT ${MOST_ROWS})`;
	await write(deps, [
		selectedToGarbage(sql`SELECT object_prefix FROM uploads WHERE id IN ${expired} AND completed_at_ms IS NULL`, nowMs),
		sql`DELETE FROM uploads WHERE id IN ${expired}`,
		auditBundlesGoing(sweepActor(deps), nowMs, abandoned, { reason: "expired" }),
		sql`DELETE FROM bundles WHERE ${abandoned}`,
	]);
}

async function takeBackMarks(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const forgotten = sql`delete_marked_at_ms <= ${nowMs - DELETE_MARK_LIFETIME_MS} AND deleted_at_ms IS NULL`;
	await write(deps, [
		auditDeleteMarks(sweepActor(deps), nowMs, false, forgotten),
		sql`UPDATE bundles SET delete_marked_at_ms = NULL WHERE ${forgotten}`,
	]);
}

async function forgetInvitations(deps: Deps): Promise<void> {
	await write(deps, [
		sql`DELETE FROM invitations WHERE id IN (
			SELECT id FROM invitations WHERE expires_at_ms <= ${deps.now()} ORDER BY expires_at_ms, id LIMIT ${MOST_ROWS})`,
	]);
}

async function forgetRollouts(deps: Deps): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const nowMs = deps.now();
	await db.batch([forgetEarlyOutcomes(nowMs - EARLY_OUTCOME_LIFETIME_MS, MOST_ROLLOUT_DEVICES)]);
	for (let statement = 0; statement < MOST_ROLLOUT_STATEMENTS; statement++) {
		const [devices, rollouts] = await db.batch(
			forgetEndedRollouts(nowMs - ENDED_ROLLOUT_LIFETIME_MS, MOST_ROLLOUT_DEVICES),
		);
		if (Math.max(devices.changes, rollouts.changes) < MOST_ROLLOUT_DEVICES) return;
	}
}

/** Sessions that ended, attempts that count in no limit any more, links that ran out, and what happened to accounts long ago. */
async function forgetSignIns(deps: Deps): Promise<void> {
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

async function forgetClosedPreviews(deps: Deps): Promise<void> {
	await write(deps, [forgetPreviewNames(deps.now(), MOST_ROWS)]);
}

async function letGoOfDeltaFiles(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const unusedDelta = sql`last_claimed_at_ms <= ${nowMs - DELTA_GRACE_MS} AND NOT EXISTS (
		SELECT 1 FROM bundle_files WHERE bundle_files.app_id = delta_objects.app_id AND bundle_files.path = delta_objects.path)`;
	await write(deps, [
		// Files of no bytes share an object that stays.
		selectedToGarbage(
			sql`SELECT object_key AS object_prefix FROM delta_objects WHERE ${unusedDelta} AND size_bytes > 0`,
			nowMs,
		),
		sql`DELETE FROM delta_objects WHERE ${unusedDelta}`,
	]);
}

/**
 * Removes garbage from R2, object first and row after it, so that a crash between the two is repeated and not forgotten.
 * @returns whether more of it may be waiting
 * @throws {Error} when some of it could not be removed; the rest was
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
			sql`UPDATE garbage_objects SET due_at_ms = ${nowMs + SECOND_LOOK_MS} WHERE ${thoseRemoved}`.compile(query),
		]);
	}
	if (failure !== undefined) throw failure;
	return removed.length === MOST_ROWS;
}
