/**
 * Retention of ended rollouts and the reports of their devices, one run a bounded number of rows.
 * Reports that no offer followed are deleted too, because a device may report before the message of
 * its check arrives.
 */
import { openDb } from "../../db/client";
import { deleteEarlyOutcomes, deleteEndedRollouts } from "../../db/rollouts";
import type { Deps } from "../../deps";
import { DAY_MS } from "../../domain/time";

/** Retention of ended rollouts and their device reports. */
const ENDED_ROLLOUT_LIFETIME_MS = 30 * DAY_MS;
/**
 * The Queue may deliver a device's report before the check that it followed; the report waits this
 * long.
 */
const EARLY_OUTCOME_LIFETIME_MS = DAY_MS;
/** Rows of `rollout_devices` per statement; one rollout may have 100,000. */
const MOST_ROLLOUT_DEVICES = 5_000;
const MOST_ROLLOUT_STATEMENTS = 10;

export async function deleteOldRollouts(deps: Deps): Promise<void> {
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
