/**
 * Events of records: each creation, change and deletion of a record, by the names of Capgo's
 * webhooks. A webhook that chooses a table gets `<table>.INSERT`, `.UPDATE` and `.DELETE`;
 * src/db/webhook-triggers.ts says which audit entry is which.
 */
import type { EventData, WebhookEvent } from "./events";

export const RECORD_TABLES = ["apps", "app_versions", "channels", "org_users", "orgs"] as const;
export type RecordTable = (typeof RECORD_TABLES)[number];

/** The same limit as for other bodies; larger records are left out. */
const MOST_BODY_BYTES = 20_000;

/** Whether a webhook with these events gets events of records. */
export const choosesRecords = (events: readonly string[]): boolean =>
	events.some((event) => RECORD_TABLES.some((table) => table === event));

interface Record_ {
	readonly [field: string]: unknown;
}

const changedFields = (before: Record_ | null, after: Record_ | null) =>
	[...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter(
		(field) => JSON.stringify(before?.[field]) !== JSON.stringify(after?.[field]),
	);

/** The body of every attempt: equal text for equal events. */
export function recordBody({ id, type, atMs, data }: WebhookEvent & { readonly id: string }): string {
	const { organization_id, app_id = null, actor, target, before = null, after = null }: EventData = JSON.parse(data);
	const [table = type, operation = "TEST"] = type.split(".");
	const actorIsKey = actor?.type === "api_key";
	const record = {
		table,
		operation,
		record_id: target?.id ?? null,
		record_name: target?.name ?? null,
		app_id,
		actor_type: actor === undefined ? "unknown" : actorIsKey ? "apikey" : actor.type,
		actor_user_id: actor?.type === "user" ? actor.id : null,
		actor_apikey_id: actorIsKey ? (actor?.id ?? null) : null,
		actor_apikey_name: actorIsKey ? (actor?.name ?? null) : null,
	};
	const bodyOf = (fields: object) =>
		JSON.stringify({
			type,
			event: type,
			event_id: id,
			timestamp: new Date(atMs).toISOString(),
			org_id: organization_id ?? null,
			data: { ...record, ...fields },
		});
	const whole = bodyOf({ old_record: before, new_record: after, changed_fields: changedFields(before, after) });
	if (new TextEncoder().encode(whole).length <= MOST_BODY_BYTES) return whole;
	return bodyOf({ old_record: null, new_record: null, changed_fields: changedFields(before, after), truncated: true });
}
