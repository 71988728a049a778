/**
 * Deletes the reports of removed apps from telemetry databases, in steps: a run ends after a number
 * of round trips, and the next one goes on. A database that fails is left until the next run, which
 * begins with another of its apps; it delays no removal in the others.
 */
import { type Database, openDb } from "../../db/client";
import { Failures } from "../../db/failures";
import {
	deleteReportedApp,
	deleteSomeReports,
	endReportRemoval,
	MOST_DELETED_ROWS,
	nextReportRemoval,
	postponeReportRemoval,
	type ReportRemoval,
} from "../../db/report-removals";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";

/** Round trips of one run; a Worker has a thousand. */
const MOST_TRIPS = 200;

/** @throws {Error} if the reports of an app could not be deleted; those in other databases were */
export async function removeReports(deps: Deps, mostTrips = MOST_TRIPS): Promise<void> {
	const main = openDb(deps.d1, "first-primary");
	const failures = new Failures();
	let trips = 0;
	while (trips + main.trips < mostTrips) {
		const [next] = await main.batch([nextReportRemoval(deps.now(), failures.bindings)]);
		const [removal] = next.rows;
		if (removal === undefined) break;
		const { app_id: app, telemetry_binding: binding } = removal;
		const remove = () => removeReportsOfApp(deps, main, removal, mostTrips - trips - main.trips);
		trips +=
			(await failures.during(binding, remove, (error) => {
				deps.log("error", "reports_not_removed", { app, cause: causeText(error) });
				return main.batch([postponeReportRemoval(app, deps.now())]);
			})) ?? 0;
	}
	failures.throwFirst();
}

/** @returns the round trips that it took in the telemetry database */
async function removeReportsOfApp(
	deps: Deps,
	main: Database,
	{ app_id: app, telemetry_binding: binding }: ReportRemoval,
	mostTrips: number,
): Promise<number> {
	const telemetry = openTelemetry(deps, binding);
	while (telemetry.trips < mostTrips) {
		const results = await telemetry.batch(deleteSomeReports(app));
		if (results.some(({ changes }) => changes >= MOST_DELETED_ROWS)) continue;
		await telemetry.batch([deleteReportedApp(app)]);
		await main.batch([endReportRemoval(app)]);
		break;
	}
	return telemetry.trips;
}
