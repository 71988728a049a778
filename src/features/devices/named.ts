/**
 * Creates the rows of devices that were only named, for an override, in the telemetry databases,
 * because lists of devices read these. POST /device does so first; this part of the clean-up
 * repeats it for databases that failed. The override itself is in the main database alone.
 */
import { sql } from "kysely";
import { openDb, query } from "../../db/client";
import { insertNamedDevices } from "../../db/device-overrides";
import type { TelemetryDeps } from "../../db/telemetry-databases";
import { openTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";

/** Overrides of one run, from the one after the last run on. */
const MOST_OVERRIDES = 200;
const STEP = "named_devices";

interface NamedDevice {
	readonly appId: string;
	readonly deviceId: string;
	readonly binding: string;
}

/**
 * @throws {Error} if a database does not answer; the devices of the others were named, and the next
 * round names its own
 */
export async function nameDevices(deps: TelemetryDeps & Pick<Deps, "now">): Promise<void> {
	const main = openDb(deps.d1, "first-primary");
	const position = sql`coalesce((SELECT position FROM job_positions WHERE step = ${STEP}), '["",""]')`;
	const [{ rows }] = await main.batch([
		sql<NamedDevice>`SELECT o.app_id AS appId, o.device_id AS deviceId, a.telemetry_binding AS binding
			FROM device_overrides o CROSS JOIN apps a ON a.id = o.app_id
			WHERE (o.app_id, o.device_id) > (${position} ->> 0, ${position} ->> 1)
			ORDER BY o.app_id, o.device_id LIMIT ${MOST_OVERRIDES}`.compile(query),
	]);
	let failure: unknown;
	for (const [binding, devices] of Map.groupBy(rows, (row) => row.binding)) {
		try {
			await openTelemetry(deps, binding).batch(insertNamedDevices(devices, deps.now()));
		} catch (error) {
			failure = error;
		}
	}
	const last = rows.length < MOST_OVERRIDES ? undefined : rows.at(-1);
	const next = JSON.stringify(last === undefined ? ["", ""] : [last.appId, last.deviceId]);
	await main.batch([
		sql`INSERT INTO job_positions (step, position) VALUES (${STEP}, ${next})
			ON CONFLICT (step) DO UPDATE SET position = excluded.position WHERE position <> excluded.position`.compile(query),
	]);
	if (failure !== undefined) throw failure;
}
