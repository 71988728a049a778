/**
 * Retention: the scheduled clean-up deletes bundles that an app no longer keeps (`apps.retention`).
 * It reads a bounded number of ids for each app first. Every statement of the deletion repeats the
 * condition on channels and overrides, so a bundle that came into use since then stays, and a
 * promotion of a deleted bundle is refused with `bundle_not_found`. A failure of one app does not
 * stop the others.
 */
import type { AppId } from "../../authz/decide";
import { systemActor } from "../../db/audit/entries";
import { deleteBundles } from "../../db/bundle-deletion";
import { type ExpiredBundle, expiredBundles, expiredBundlesOfApps } from "../../db/bundles";
import { openDb } from "../../db/client";
import { bumpRevision } from "../../db/snapshot";
import { openTelemetry, versionsSeenSince } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { REFRESHED_AFTER_DAYS } from "../../domain/statistics/device-record";
import { DAY_MS } from "../../domain/time";
import { causeText } from "../../errors";

/** Per run; the rest waits for the next one. */
const MOST_BUNDLES = 200;
const MOST_BUNDLES_OF_APP = 50;
/** Read, because devices may keep the oldest ones of an app. */
const MOST_CANDIDATES_OF_APP = 1_000;
const MOST_CANDIDATES = 4_000;

/** @throws {Error} when the deletion of one app failed; those of the others were still done */
export async function deleteExpiredBundles(deps: Deps): Promise<void> {
	const actor = systemActor(deps.newId());
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [found] = await db.batch([expiredBundlesOfApps(nowMs, MOST_CANDIDATES_OF_APP, MOST_CANDIDATES)]);
	let failure: unknown;
	let left = MOST_BUNDLES;
	const ofApps = [...Map.groupBy(found.rows, ({ app_id }) => app_id)];
	// At the same time, because the clean-up joins them into one round trip.
	const unused = await Promise.allSettled(ofApps.map(([appId, ofApp]) => withoutDevices(deps, appId, ofApp, nowMs)));
	for (const [index, [appId]] of ofApps.entries()) {
		const read = unused[index];
		if (read?.status !== "fulfilled") {
			deps.log("error", "expired_bundles_failed", { app: appId, cause: causeText(read?.reason) });
			failure = read?.reason;
			continue;
		}
		const bundles = read.value.slice(0, Math.min(left, MOST_BUNDLES_OF_APP));
		left -= bundles.length;
		if (bundles.length === 0) continue;
		const which = expiredBundles(
			appId,
			bundles.map(({ id }) => id),
			nowMs,
		);
		const deletion = { actor, nowMs, appId, details: { reason: "retention" } };
		try {
			await db.batch([...deleteBundles(deletion, which), bumpRevision(appId)]);
		} catch (error) {
			deps.log("error", "expired_bundles_failed", { app: appId, cause: causeText(error) });
			failure = error;
		}
	}
	if (failure !== undefined) throw failure;
}

/** Those that no device was seen running in the time that the app keeps bundles. */
async function withoutDevices(
	deps: Deps,
	appId: AppId,
	bundles: readonly ExpiredBundle[],
	nowMs: number,
): Promise<readonly ExpiredBundle[]> {
	const [first] = bundles;
	if (first === undefined) return [];
	const names = bundles.map(({ name }) => name);
	const sinceMs = nowMs - first.retention_ms - REFRESHED_AFTER_DAYS * DAY_MS;
	const [seen] = await openTelemetry(deps, first.telemetry_binding).batch([versionsSeenSince(appId, names, sinceMs)]);
	const kept = new Set(seen.rows.map(({ name }) => name));
	return bundles.filter(({ name }) => !kept.has(name));
}
