/**
 * Creates the rows of devices that were only named, for an override, in the telemetry databases: lists of devices read these. POST /device does
 * so first; this part of the clean-up repeats it for databases that failed. The override itself is in the main database alone.
 */
import { sql } from "kysely";
import { openDb, query } from "../../db/client";
import { insertNamedDevices } from "../../db/reported-devices";
import { type TelemetryDeps, telemetryD1 } from "../../db/telemetry-homes";
import type { Deps } from "../../deps";

/** Overrides of one run, from the one after the last run on. */
const MOST_OVERRIDES = 200;
const STEP = "named_devices";

interface NamedDevice {
	readonly appId: string;
	readonly deviceId: string;
	/** Null: the app's reports are in the main database. */
	readonly binding: string | null;
}

export async function nameDevices(deps: TelemetryDeps & Pick<Deps, "now">): Promise<void> {
	if (Object.keys(deps.telemetry).length === 0) return;
	const main = openDb(deps.d1, "first-primary");
	const position = sql`coalesce((SELECT position FROM sweep_positions WHERE step = ${STEP}), '["",""]')`;
	const [{ rows }] = await main.batch([
		sql<NamedDevice>`SELECT o.app_id AS appId, o.device_id AS deviceId, home.binding
			FROM device_overrides o LEFT JOIN telemetry_homes home ON home.app_id = o.app_id AND home.state IN ('moved', 'settled')
			WHERE (o.app_id, o.device_id) > (${position} ->> 0, ${position} ->> 1)
			ORDER BY o.app_id, o.device_id LIMIT ${MOST_OVERRIDES}`.compile(query),
	]);
	for (const [binding, devices] of Map.groupBy(rows, (row) => row.binding)) {
		if (binding === null) continue;
		await openDb(telemetryD1(deps, binding), "first-primary").batch([insertNamedDevices(devices, deps.now())]);
	}
	const last = rows.length < MOST_OVERRIDES ? undefined : rows.at(-1);
	const next = JSON.stringify(last === undefined ? ["", ""] : [last.appId, last.deviceId]);
	await main.batch([
		sql`INSERT INTO sweep_positions (step, position) VALUES (${STEP}, ${next})
			ON CONFLICT (step) DO UPDATE SET position = excluded.position WHERE position <> excluded.position`.compile(query),
	]);
}
