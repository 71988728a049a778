/**
 * The audit log. An entry is a statement of the same batch as the change it tells of, so there is never one without the other. Names
 * are copied into it, secrets never are. Entries stay until their organization is removed for good.
 *
 * Of what the service does by itself, an entry tells what somebody would look for: that a registration was given up, that a mark for
 * deletion was taken back, which bindings came or went with something else. No entry tells that a time ran out which an earlier entry
 * named (of keys, bindings, invitations), when a key was last used, what becomes of bytes, or that an organization was removed for good:
 * its log goes with it.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { AuditLogTable } from "./schema";

export interface Actor {
	readonly type: "api_key" | "user" | "system";
	readonly id: string | null;
	readonly name: string;
	readonly requestId: string;
	readonly ipAddress: string | null;
}

export interface AuditEntry {
	readonly orgId: string;
	/** E.g. `channel.delete`. */
	readonly action: string;
	readonly target: {
		readonly type: string;
		/** SQL where only the database knows it. */
		readonly id: string | RawBuilder<string>;
		readonly name?: string | RawBuilder<string>;
	};
	/** The app that the change is about: its UUID and its public id. */
	readonly app?: { readonly uuid: string; readonly id: string };
	/**
	 * The fields that changed, as they were; left out for a creation. SQL reads them in the batch of the change, before it, so that they
	 * are what the change replaced and not what an earlier reading saw.
	 */
	readonly before?: Readonly<Record<string, unknown>> | RawBuilder<string | null>;
	/** The same fields, as they are now; left out for a deletion. */
	readonly after?: Readonly<Record<string, unknown>>;
	/** Facts that are neither, e.g. what else a deletion removed. */
	readonly details?: Readonly<Record<string, unknown>>;
}

export function auditStatement(actor: Actor, atMs: number, entry: AuditEntry): CompiledQuery {
	return query
		.insertInto("audit_log")
		.values({
			org_id: entry.orgId,
			at_ms: atMs,
			actor_type: actor.type,
			actor_id: actor.id,
			actor_name: actor.name,
			action: entry.action,
			target_type: entry.target.type,
			target_id: entry.target.id,
			details: JSON.stringify(entry.details ?? {}),
			request_id: actor.requestId,
			ip_address: actor.ipAddress,
			target_name: entry.target.name ?? null,
			before: textOf(entry.before),
			after: textOf(entry.after),
			app_uuid: entry.app?.uuid ?? null,
			app_id: entry.app?.id ?? null,
		})
		.compile();
}

function textOf(fields: AuditEntry["before"]): string | RawBuilder<string | null> | null {
	if (fields === undefined) return null;
	return "toOperationNode" in fields ? (fields as RawBuilder<string | null>) : JSON.stringify(fields);
}

/**
 * An entry for each row of the SELECT, which gives `org_id`, `target_id`, `target_name`, `before` and `after`, the last two JSON or null,
 * and with `ofApps` also `app_uuid` and `app_id`.
 */
export function auditEach(
	actor: Actor,
	atMs: number,
	entry: Pick<AuditEntry, "action" | "details"> & { readonly targetType: string; readonly ofApps?: boolean },
	targets: RawBuilder<unknown>,
): CompiledQuery {
	const app = entry.ofApps === true ? sql`app_uuid, app_id` : sql`NULL, NULL`;
	return sql`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_id, actor_name, action, target_type, target_id, target_name,
			before, after, details, request_id, ip_address, app_uuid, app_id)
		SELECT org_id, ${atMs}, ${actor.type}, ${actor.id}, ${actor.name}, ${entry.action}, ${entry.targetType}, target_id, target_name,
			before, after, ${JSON.stringify(entry.details ?? {})}, ${actor.requestId}, ${actor.ipAddress}, ${app}
		FROM (${targets})`.compile(query);
}

export interface AuditFilter {
	/** Id or name of who did it. */
	readonly actor: string | undefined;
	/** An action such as `channel.delete`, or the kind of thing: `channel` or `channel.*`. */
	readonly action: string | undefined;
	/** Id or name of what it was done to, or `type:id`. */
	readonly target: string | undefined;
	readonly fromMs: number | undefined;
	/** Inclusive. */
	readonly toMs: number | undefined;
}

export type AuditRow = Selectable<AuditLogTable>;

/** Whose entries: a whole organization's, or one app's, which is named by its public id and holds nothing of an earlier app of that name. */
export type AuditOf = { readonly orgId: string } | { readonly publicAppId: string } | { readonly appUuid: string };

/** A page of entries, newest first; for loading beside the decision. */
export function auditPage(of: AuditOf, filter: AuditFilter, limit: number, offset: number): CompiledQuery<AuditRow> {
	return entries(of, filter).limit(limit).offset(offset).compile();
}

/** The entries before one that was read already, newest first. */
export function auditBefore(
	of: AuditOf,
	filter: AuditFilter,
	beforeId: number,
	limit: number,
): CompiledQuery<AuditRow> {
	return entries(of, filter).where("id", "<", beforeId).limit(limit).compile();
}

function entries(of: AuditOf, { actor, action, target, fromMs, toMs }: AuditFilter) {
	const kind = action?.replace(/\.\*$/, "");
	return query
		.selectFrom("audit_log")
		.selectAll()
		.$if("orgId" in of, (rows) => rows.where("org_id", "=", "orgId" in of ? of.orgId : ""))
		.$if("publicAppId" in of, (rows) => rows.where("app_uuid", "=", appIdOf("publicAppId" in of ? of.publicAppId : "")))
		.$if("appUuid" in of, (rows) => rows.where("app_uuid", "=", "appUuid" in of ? of.appUuid : ""))
		.$if(actor !== undefined, (rows) =>
			rows.where((eb) => eb.or([eb("actor_id", "=", actor ?? ""), eb("actor_name", "=", actor ?? "")])),
		)
		.$if(kind !== undefined, (rows) =>
			rows.where((eb) =>
				eb.or([eb("action", "=", kind ?? ""), eb(sql`substr(action, 1, ${(kind ?? "").length + 1})`, "=", `${kind}.`)]),
			),
		)
		.$if(target !== undefined, (rows) =>
			rows.where((eb) =>
				eb.or([
					eb("target_id", "=", target ?? ""),
					eb("target_name", "=", target ?? ""),
					eb(sql`target_type || ':' || target_id`, "=", target ?? ""),
				]),
			),
		)
		.$if(fromMs !== undefined, (rows) => rows.where("at_ms", ">=", fromMs ?? 0))
		.$if(toMs !== undefined, (rows) => rows.where("at_ms", "<=", toMs ?? 0))
		.orderBy("id", "desc");
}
