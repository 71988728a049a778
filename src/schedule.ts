/**
 * The jobs that run every fifteen minutes: retention, rollout steps, storage measurements, and
 * clean-up after crashes and lost connections. The body of a job is in the folder of its feature.
 * Every job is idempotent, a failed job does not stop the others, and an idle run takes at most 20
 * round trips.
 */
import type { CompiledQuery } from "kysely";
import { SEALED_KEYS } from "./db/api-keys";
import { removeTombstones } from "./db/bundle-deletion";
import { deletedAppIds, trimFeed } from "./db/change-triggers";
import { type Database, openDb } from "./db/client";
import { removeUnusedDeltaFiles } from "./db/delta-files";
import { Failures } from "./db/failures";
import { deleteOldIdempotencyKeys } from "./db/idempotency-keys";
import { deleteExpiredInvitations } from "./db/invitations";
import { storeJobRun } from "./db/job-runs";
import { joinTrips } from "./db/joined-trips";
import { SEALED_HOOKS } from "./db/preview-hooks";
import { deleteOldPreviews } from "./db/previews";
import { deleteOldIdentities } from "./db/publishers";
import { resealRows } from "./db/reseal";
import { openTelemetry } from "./db/telemetry-reads";
import { installTriggers } from "./db/triggers";
import { deleteOldWebhookEvents } from "./db/webhook-deliveries";
import { SEALED_WEBHOOKS } from "./db/webhooks";
import { settleZipOnly } from "./db/zip-only-devices";
import type { Deps } from "./deps";
import { causeText } from "./errors";
import { deleteOldSignIns } from "./features/accounts/retention";
import { removeAuditEntries } from "./features/audit/retention";
import { deleteExpiredBundles } from "./features/bundles/retention";
import { clearDeleteMarks, expireUploads } from "./features/bundles/unfinished";
import { nameDevices } from "./features/devices/named";
import { purgeOrganizations } from "./features/organizations/purge";
import { closeExpiredPreviews } from "./features/previews/expiry";
import { stopPreviewsOfFleets } from "./features/previews/fleets";
import { deleteOldRollouts } from "./features/rollouts/retention";
import { stepRollouts } from "./features/rollouts/steps";
import { watchDatabaseSizes } from "./features/service/database-size";
import { removeReports } from "./features/statistics/removed-apps";
import {
	deleteOldDeviceEvents,
	deleteOldDevices,
	deleteOldEvents,
	deleteOldStatistics,
	deleteOldStorage,
	measureStorage,
} from "./features/statistics/retention";
import { mergeSketchSlots } from "./features/statistics/sketches";
import { resendDeadLetters } from "./queue/dead-letters";
import { collectGarbage } from "./queue/garbage";
import { wakeDueWebhooks } from "./queue/webhook-wake";
import { removeSnapshots } from "./snapshots/objects";
import { publishChanged } from "./snapshots/publish";

type Jobs = Readonly<Record<string, (deps: Deps) => Promise<unknown>>>;

/**
 * The jobs of one run in stages, which follow each other. Those of a stage run side by side, and
 * what they ask of a database at the same time is one round trip, with their statements in this
 * order.
 */
const STAGES: readonly Jobs[] = [
	{
		// First, because the jobs below rely on these triggers, which a new or restored database lacks.
		triggers: installTriggers,
	},
	{
		// Before the change feed, which may delete the rows that name those apps.
		"snapshots of deleted apps": async (deps) => removeSnapshots(deps.bundles, await deletedAppIds(deps)),
		"change feed": trimFeed,

		"unfinished uploads": expireUploads,
		"clean-up marks": clearDeleteMarks,
		"unused delta files": (deps) => removeUnusedDeltaFiles(openDb(deps.d1, "first-primary"), deps.now()),
		"old audit entries": removeAuditEntries,
		"expired invitations": batchOf((nowMs) => [deleteExpiredInvitations(nowMs)]),
		"old sign-ins": deleteOldSignIns,
		"old identity tokens": batchOf(deleteOldIdentities),
		"old idempotency keys": batchOf((nowMs) => [deleteOldIdempotencyKeys(nowMs)]),
		"expired previews": closeExpiredPreviews,
		"rows of old previews": batchOf((nowMs) => [deleteOldPreviews(nowMs)]),
		"deleted organizations": purgeOrganizations,
		rollouts: stepRollouts,
		"ended rollouts": deleteOldRollouts,
		"devices that get the zip": batchOf(settleZipOnly),
		"rows of deleted bundles": (deps) => removeTombstones(deps, deps.now()),
		"previews that fleets name": stopPreviewsOfFleets,
		"expired bundles": deleteExpiredBundles,

		"database size": watchDatabaseSizes,
		"reports of removed apps": removeReports,
		"devices with an override": nameDevices,
		"device sketches": inEachTelemetryDatabase(mergeSketchSlots),
		"old events": inEachTelemetryDatabase(deleteOldEvents),
		"old statistics": inEachTelemetryDatabase(deleteOldStatistics),
		"old devices": inEachTelemetryDatabase(deleteOldDevices),
		"old device events": inEachTelemetryDatabase(deleteOldDeviceEvents),

		"keys sealed by an older secret": (deps) => resealRows(deps, SEALED_KEYS),
		"preview webhooks sealed by an older secret": (deps) => resealRows(deps, SEALED_HOOKS),
		"dead messages": resendDeadLetters,
		"webhooks sealed by an older secret": (deps) => resealRows(deps, SEALED_WEBHOOKS),
		"old deliveries": batchOf((nowMs) => [deleteOldWebhookEvents(nowMs)]),
	},
	{
		// After the jobs whose deletions leave objects in R2.
		garbage: collectGarbage,
		storage: measureStorage,
		"old storage figures": deleteOldStorage,
		// After the jobs that change what devices are offered.
		"published snapshots": (deps) => publishChanged(deps, 20),
		// After the others, so that it wakes the webhooks of what the others did.
		"due webhooks": wakeDueWebhooks,
	},
	{
		// The last one, so that a run that the platform ends early is not stored.
		"last run": batchOf((nowMs) => [storeJobRun(nowMs)]),
	},
];

/** The jobs of one run, in order. */
export const JOBS: Jobs = Object.assign({}, ...STAGES);

/**
 * Runs every job. A failure is logged with the job's name, and fails the run so that the platform
 * reports it.
 * @param replaced jobs that run in place of those of the same names, for tests
 * @throws {Error} when jobs failed; the others ran, and the next run tries again
 */
export async function runJobs(deps: Deps, replaced: Jobs = {}): Promise<void> {
	const failed = new Set<string>();
	const telemetry = Object.entries(deps.telemetry).map(([binding, d1]) => [binding, joinTrips(d1)]);
	const joined: Deps = { ...deps, d1: joinTrips(deps.d1), telemetry: Object.fromEntries(telemetry) };
	for (const stage of STAGES) {
		const runs = Object.entries(stage).map(async ([name, job]) => {
			try {
				await (replaced[name] ?? job)(joined);
			} catch (error) {
				failed.add(name);
				deps.log("error", "step_failed", { work: "jobs", step: name, cause: causeText(error) });
			}
		});
		await Promise.all(runs);
	}
	if (failed.size > 0) {
		const names = Object.keys(JOBS).filter((name) => failed.has(name));
		throw new Error(`jobs failed: ${names.join(", ")}`);
	}
}

/** A job that is one atomic batch. */
function batchOf(statements: (nowMs: number) => readonly CompiledQuery[]) {
	return (deps: Deps) => openDb(deps.d1, "first-primary").batch(statements(deps.now()));
}

/** A job that runs in each telemetry database. One that fails does not stop the others. */
function inEachTelemetryDatabase(job: (deps: Deps, db: Database) => Promise<unknown>) {
	return async (deps: Deps): Promise<void> => {
		const failures = new Failures();
		const bindings = Object.keys(deps.telemetry);
		await Promise.all(
			bindings.map((binding) => failures.during(binding, () => job(deps, openTelemetry(deps, binding)))),
		);
		failures.throwFirst();
	};
}
