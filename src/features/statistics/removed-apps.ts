/**
 * Deletes the reports of removed apps from telemetry databases, in steps: a run ends after a number of round trips, and the next one goes on.
 */
import { type Database, openDb } from "../../db/client";
import {
	deleteReportedApp,
	deleteSomeReports,
	dueReportRemovals,
	endReportRemoval,
	MOST_DELETED_ROWS,
	type ReportRemoval,
} from "../../db/report-removals";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";

const MOST_APPS = 50;
/** Round trips of one run; a Worker has a thousand. */
const MOST_TRIPS = 200;

/** @throws {Error} if the reports of an app could not be deleted; those of the others were */
export async function removeReports(deps: Deps, mostTrips = MOST_TRIPS): Promise<void> {
	const main = openDb(deps.d1, "first-primary");
	const [due] = await main.batch([dueReportRemovals(deps.now(), MOST_APPS)]);
	let left = mostTrips;
	let failure: unknown;
	for (const removal of due.rows) {
		if (left <= 0) break;
		try {
			left -= await removeReportsOfApp(main, openTelemetry(deps, removal.telemetry_binding), removal, left);
		} catch (error) {
			deps.log("error", "reports_not_removed", { app: removal.app_id, cause: causeText(error) });
			failure = error;
		}
	}
	if (failure !== undefined) throw failure;
}

/** @returns the round trips that it took */
async function removeReportsOfApp(
	main: Database,
	telemetry: Database,
	{ app_id: app }: ReportRemoval,
	mostTrips: number,
): Promise<number> {
	while (telemetry.trips < mostTrips) {
		const results = await telemetry.batch(deleteSomeReports(app));
		if (results.some(({ changes }) => changes >= MOST_DELETED_ROWS)) continue;
		await telemetry.batch([deleteReportedApp(app)]);
		await main.batch([endReportRemoval(app)]);
		break;
	}
	return telemetry.trips + 1;
}
