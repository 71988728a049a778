/**
 * Watches how many devices each preview channel serves by its name. A name that was free when the
 * preview was opened may become that of a fleet, so the devices are counted for as long as the
 * channel lives. A check for an update counts nothing: it reads the result in the snapshot.
 */
import { systemActor } from "../../db/audit/entries";
import { openDb } from "../../db/client";
import { Failures } from "../../db/failures";
import { namedByFleet, previewsServingByName, stopByName } from "../../db/preview-fleets";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";

/** Channels of one statement. */
const PAGE = 200;

/** @throws {Error} if the devices of some channels could not be counted; the others were */
export async function stopPreviewsOfFleets(deps: Deps): Promise<void> {
	const nowMs = deps.now();
	const actor = systemActor(deps.newId());
	const db = openDb(deps.d1, "first-primary");
	const failures = new Failures();
	for (let afterId = 0; ; ) {
		const [{ rows }] = await db.batch([previewsServingByName(afterId, PAGE)]);
		for (const [binding, previews] of Map.groupBy(rows, (row) => row.telemetry_binding)) {
			const stop = async () => {
				const [named] = await openTelemetry(deps, binding).batch([namedByFleet(previews)]);
				const ids = new Set(named.rows.map(({ id }) => id));
				for (const preview of previews.filter(({ id }) => ids.has(id))) {
					await db.batch(stopByName(actor, nowMs, preview));
				}
			};
			await failures.during(binding, stop, (error) =>
				deps.log("error", "preview_devices_not_counted", { binding, cause: causeText(error) }),
			);
		}
		const last = rows.at(-1);
		if (last === undefined || rows.length < PAGE) break;
		afterId = last.id;
	}
	failures.throwFirst();
}
