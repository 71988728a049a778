/**
 * Statements about preview channels whose name a fleet sends. The name of a preview serves its
 * testers; once more devices send it, the channel serves none by its name for the rest of its life.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { MOST_DEVICES_BY_NAME } from "../domain/ci/preview-names";
import { type Actor, auditStatement } from "./audit/entries";
import { devicesNaming } from "./channel-names";
import type { Statement } from "./client";
import { query } from "./client";
import { bumpRevision } from "./snapshot";

interface NamedPreview {
	readonly id: number;
	readonly app_id: string;
	readonly name: string;
	readonly public_app_id: string;
	readonly org_id: string;
	/** The telemetry database of its devices. */
	readonly telemetry_binding: string;
}

/** Preview channels that serve devices by their name, by id. */
export function previewsServingByName(afterId: number, limit: number): CompiledQuery<NamedPreview> {
	return sql<NamedPreview>`SELECT c.id, c.app_id, c.name, a.app_id AS public_app_id, a.owner_org AS org_id,
			a.telemetry_binding
		FROM channels c INDEXED BY channels_of_previews JOIN apps a ON a.id = c.app_id
		WHERE c.is_preview = 1 AND c.id > ${afterId} AND c.named_by_fleet_at_ms IS NULL ORDER BY c.id LIMIT ${limit}`.compile(
		query,
	);
}

/** In the telemetry database: ids of the channels whose name a fleet sends. */
export function namedByFleet(previews: readonly NamedPreview[]): CompiledQuery<{ id: number }> {
	const named = JSON.stringify(previews.map(({ id, app_id, name }) => [id, app_id, name]));
	const count = devicesNaming(sql`(named.value ->> 1)`, sql`(named.value ->> 2)`);
	return sql<{ id: number }>`SELECT named.value ->> 0 AS id FROM json_each(${named}) AS named
		WHERE ${count} > ${sql.lit(MOST_DEVICES_BY_NAME)}`.compile(query);
}

/** For one batch: the channel serves no device by its name any more. */
export function stopByName(actor: Actor, nowMs: number, preview: NamedPreview): Statement[] {
	const appId = preview.app_id as AppId;
	return [
		auditStatement(actor, nowMs, {
			orgId: preview.org_id as OrgId,
			action: "channel.stop_by_name",
			target: { type: "channel", id: String(preview.id), name: preview.name },
			app: { uuid: appId, id: preview.public_app_id },
			details: { more_devices_than: MOST_DEVICES_BY_NAME },
		}),
		query
			.updateTable("channels")
			.set({ named_by_fleet_at_ms: nowMs })
			.where("app_id", "=", appId)
			.where("id", "=", preview.id)
			.where("is_preview", "=", 1)
			.compile(),
		bumpRevision(appId),
	];
}
