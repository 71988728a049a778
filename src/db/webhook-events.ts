/**
 * Statements about events of webhooks that no audit entry causes (src/db/webhook-triggers.ts has
 * the others).
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { EventType } from "../domain/webhooks/event-types";
import { query } from "./client";
import { appIdOf } from "./public-app-id";

const FIRST_DEVICE: EventType = "bundle.first_device";

/** Condition on webhook `w`: it takes the event. */
const wants = (type: EventType): RawBuilder<unknown> =>
	sql`w.disabled_at_ms IS NULL AND (w.events = '[]' OR EXISTS (SELECT 1 FROM json_each(w.events) WHERE value = ${type}))`;

/**
 * Reports that a device runs each of the bundles, once for each bundle, if any webhook that takes
 * the event is older than the bundle. The second statement says whether any webhook wants this
 * event.
 * @param bundles public ids of apps and versions, as devices report them
 * @param createdAfterMs older bundles are not reported
 */
export function reportFirstDevices(
	bundles: readonly { readonly app: string; readonly version: string }[],
	nowMs: number,
	createdAfterMs: number,
) {
	const insert = sql`INSERT OR IGNORE INTO webhook_events (id, org_id, app_id, type, at_ms, data)
		SELECT 'msg_first_device_' || b.id, a.owner_org, a.id, ${FIRST_DEVICE}, ${nowMs}, json_object('organization_id', a.owner_org,
			'app_id', a.app_id, 'target', json_object('type', 'bundle', 'id', CAST(b.id AS TEXT), 'name', b.name))
		FROM json_each(${JSON.stringify(bundles)}) AS reported
			INNER JOIN apps a ON a.id = ${appIdOf(sql`(reported.value ->> 'app')`)}
			INNER JOIN bundles b ON b.app_id = a.id AND b.name = reported.value ->> 'version' AND b.status = 'ready'
		WHERE b.created_at_ms > ${createdAfterMs} AND EXISTS (SELECT 1 FROM webhooks w WHERE w.org_id = a.owner_org
			AND (w.app_id IS NULL OR w.app_id = a.id) AND w.created_at_ms <= b.created_at_ms AND ${wants(FIRST_DEVICE)})`;
	const wanted = sql<{
		wanted: 0 | 1;
	}>`SELECT EXISTS (SELECT 1 FROM webhooks w WHERE ${wants(FIRST_DEVICE)}) AS wanted`;
	return [insert.compile(query) as CompiledQuery, wanted.compile(query)] as const;
}
