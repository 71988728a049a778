/**
 * The audit log's write side. An entry is a statement of the same batch as the change it tells of, so there is never one without the
 * other. Names are copied into it, secrets never are.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "./client";

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
	readonly target: { readonly type: string; readonly id: string; readonly name?: string };
	/** The fields that changed, as they were; left out for a creation. */
	readonly before?: Readonly<Record<string, unknown>>;
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
			before: entry.before === undefined ? null : JSON.stringify(entry.before),
			after: entry.after === undefined ? null : JSON.stringify(entry.after),
		})
		.compile();
}

/** An entry for each row of the SELECT, which gives `org_id`, `target_id`, `target_name`, `before` and `after`, the last two JSON or null. */
export function auditEach(
	actor: Actor,
	atMs: number,
	entry: Pick<AuditEntry, "action" | "details"> & { readonly targetType: string },
	targets: RawBuilder<unknown>,
): CompiledQuery {
	return sql`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_id, actor_name, action, target_type, target_id, target_name,
			before, after, details, request_id, ip_address)
		SELECT org_id, ${atMs}, ${actor.type}, ${actor.id}, ${actor.name}, ${entry.action}, ${entry.targetType}, target_id, target_name,
			before, after, ${JSON.stringify(entry.details ?? {})}, ${actor.requestId}, ${actor.ipAddress}
		FROM (${targets})`.compile(query);
}
