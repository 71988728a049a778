/**
 * Consumes events of devices: device rows, counts, and the daily sketches of devices. A batch may
 * be delivered twice, in another order or at the same time, so each write is idempotent: device
 * rows are last-writer-wins, a count is added together with the event's id, and sketches are
 * unions. Events whose ids may be removed already are dropped.
 */

import { sql } from "kysely";
import { type Database, query } from "../../db/client";
import type { Deps } from "../../deps";
import { isTelemetryFull } from "../../domain/quotas";
import { dayOf, firstCountedDay } from "../../domain/statistics/days";
import type { BytesServed, DeviceEvent, EventsLost, RolloutEvent } from "../../messages";
import { countLosses, countStatements } from "./bytes-and-losses";
import { writeDevices } from "./device-rows";
import type { DownloadNews } from "./failures";
import { addToSketches } from "./sketches";

/**
 * @param db the telemetry database of the events' apps
 * @returns what the reports say of downloads of single files, for `noteDownloads`
 */
export async function consumeDeviceEvents(
	deps: Deps,
	db: Database,
	events: readonly Exclude<DeviceEvent, RolloutEvent>[],
): Promise<readonly DownloadNews[]> {
	const nowMs = deps.now();
	const firstDay = firstCountedDay(deps.config, nowMs);
	const inTime = events.filter((event) => dayOf(event.atMs) >= firstDay);
	if (inTime.length < events.length) {
		deps.log("error", "events_too_old", { events: events.length - inTime.length, firstDay });
	}
	const isOfDevice = (event: (typeof inTime)[number]) =>
		event.type === "seen" || event.type === "count" || event.type === "override";
	const news = await writeDevices(deps, db, inTime.filter(isOfDevice), (added) => addToSketches(deps, db, added));
	await writeCounts(
		deps,
		db,
		inTime.filter((event) => event.type === "served" || event.type === "lost"),
	);
	return news;
}

/** Nothing is counted while the database is nearly full. */
async function writeCounts(deps: Deps, db: Database, counted: readonly (BytesServed | EventsLost)[]): Promise<void> {
	if (counted.length === 0) return;
	// Every answer of the database contains its size.
	if (db.sizeBytes === undefined) await db.batch([sql`SELECT 1`.compile(query)]);
	if (isTelemetryFull(deps.config.telemetryMaxBytes, db.sizeBytes)) {
		deps.log("error", "events_not_stored", { events: counted.length, full: true });
		await db.batch([countLosses(counted, dayOf(deps.now()))]);
		return;
	}
	await db.batch(countStatements(counted));
}
