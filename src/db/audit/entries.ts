/**
 * The audit log. An entry is a statement in the batch of its change, so neither exists without the
 * other. Names are copied into it, secrets never. Entries are kept until their organization is
 * purged.
 *
 * Changes by the service itself are logged where a person would look for them: expired
 * registrations, cleared deletion marks, bindings that are created or removed with something else.
 * Not logged: expiries that an earlier entry names, last uses of keys, storage of bytes, and the
 * purge of an organization, whose log is deleted with it.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql } from "kysely";
import type { CiContext } from "../../domain/ci/context";
import { insertEach, query } from "../client";
import { appIdOf } from "../public-app-id";
import type { AuditLogTable, Flag } from "../schema";

export interface Actor {
	readonly type: "api_key" | "user" | "system";
	readonly id: string | null;
	readonly name: string;
	readonly requestId: string;
	readonly ipAddress: string | null;
	/** The CI job that acts; part of the details of each entry. */
	readonly ci?: CiContext;
}

/** The service itself as the actor: clean-up unless it acts under another name. */
export function systemActor(requestId: string, name = "Automatic clean-up"): Actor {
	return { type: "system", id: null, name, requestId, ipAddress: null };
}

export interface AuditEntry {
	readonly orgId: string;
	/** Such as `channel.delete`. */
	readonly action: string;
	readonly target: {
		readonly type: string;
		/** SQL where only the database knows the id. */
		readonly id: string | RawBuilder<string>;
		readonly name?: string | RawBuilder<string>;
	};
	/** UUID and public id of the app of the change. */
	readonly app?: { readonly uuid: string; readonly id: string };
	/**
	 * The old values of changed fields; absent for a creation. SQL reads them in the batch before the
	 * change, so that they are the replaced values.
	 */
	readonly before?: Readonly<Record<string, unknown>> | RawBuilder<string | null>;
	/** The new values; absent for a deletion. */
	readonly after?: Readonly<Record<string, unknown>>;
	/** Other facts, such as what else a deletion removed. */
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
			details: detailsOf(actor, entry),
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

const detailsOf = ({ ci }: Actor, { details }: Pick<AuditEntry, "details">) =>
	JSON.stringify({ ...details, ...(ci === undefined ? {} : { ci }) });

function textOf(fields: AuditEntry["before"]): string | RawBuilder<string | null> | null {
	if (fields === undefined) return null;
	return "toOperationNode" in fields ? (fields as RawBuilder<string | null>) : JSON.stringify(fields);
}

type AuditTarget = Pick<
	Selectable<AuditLogTable>,
	"org_id" | "target_id" | "target_name" | "before" | "after" | "app_uuid" | "app_id"
>;

/**
 * An entry per row of the SELECT, which returns `org_id`, `target_id`, `target_name`, `before` and
 * `after` (JSON or null), and with `ofApps` also `app_uuid` and `app_id`.
 */
export function auditEach(
	actor: Actor,
	atMs: number,
	entry: Pick<AuditEntry, "action" | "details"> & { readonly targetType: string; readonly ofApps?: boolean },
	targets: RawBuilder<unknown>,
): CompiledQuery {
	const target = query.selectFrom(sql<AuditTarget>`(${targets})`.as("target"));
	return insertEach("audit_log", target, (eb) => ({
		org_id: eb.ref("target.org_id"),
		at_ms: atMs,
		actor_type: actor.type,
		actor_id: actor.id,
		actor_name: actor.name,
		action: entry.action,
		target_type: entry.targetType,
		target_id: eb.ref("target.target_id"),
		target_name: eb.ref("target.target_name"),
		before: eb.ref("target.before"),
		after: eb.ref("target.after"),
		details: detailsOf(actor, entry),
		request_id: actor.requestId,
		ip_address: actor.ipAddress,
		app_uuid: entry.ofApps === true ? eb.ref("target.app_uuid") : null,
		app_id: entry.ofApps === true ? eb.ref("target.app_id") : null,
	})).compile();
}

export interface AuditFilter {
	/** Id or name of the actor. */
	readonly actor: string | undefined;
	/** An action such as `channel.delete`, or a kind of target: `channel` or `channel.*`. */
	readonly action: string | undefined;
	/** Id or name of the target, or `type:id`. */
	readonly target: string | undefined;
	/** A part of the actor's, the action's or the target's name, in lower case. */
	readonly search: string | undefined;
	readonly fromMs: number | undefined;
	/** Inclusive. */
	readonly toMs: number | undefined;
}

export type AuditRow = Selectable<AuditLogTable>;

/**
 * The entries of an organization, or of one app by its public id, without those of an earlier app
 * of that id.
 */
export type AuditOf = { readonly orgId: string } | { readonly publicAppId: string } | { readonly appUuid: string };

/** Whether entries have to be read to know whether they match. */
export const isSearch = ({ actor, action, target, search }: AuditFilter) =>
	[actor, action, target, search].some((filter) => filter !== undefined);

/** A page of entries, newest first, of a filter that is no search; for `load`. */
export function auditPage(
	of: AuditOf,
	filter: Pick<AuditFilter, "fromMs" | "toMs">,
	limit: number,
	offset: number,
): CompiledQuery<AuditRow> {
	return entries(of, filter).limit(limit).offset(offset).compile();
}

/**
 * The matching ones among `limit` entries, and the last of these in any case, which says that more
 * follow; for `load`.
 */
export function auditSearch(
	of: AuditOf,
	filter: AuditFilter,
	limit: number,
	offset: number,
): CompiledQuery<AuditRow & { readonly is_last: Flag }> {
	const { fromMs, toMs } = filter;
	const read = entries(of, { fromMs, toMs }).limit(limit).offset(offset);
	const last = entries(of, { fromMs, toMs })
		.clearSelect()
		.select("id")
		.limit(1)
		.offset(offset + limit - 1);
	const matches = matching(filter);
	return query
		.selectFrom(read.as("audit_log"))
		.selectAll()
		.select(sql<Flag>`id = (${last})`.as("is_last"))
		.where((eb) => eb.or([matches, eb("id", "=", last)]))
		.orderBy("at_ms", "desc")
		.orderBy("id", "desc")
		.compile();
}

/** All entries that match, newest first, as far as the limit, from the one after the given one. */
export function auditExport(
	of: AuditOf,
	filter: AuditFilter,
	limit: number,
	last?: Pick<AuditRow, "at_ms" | "id">,
): CompiledQuery<AuditRow> {
	return entries(of, filter)
		.where(matching(filter))
		.$if(last !== undefined, (rows) => rows.where(sql<boolean>`(at_ms, id) < (${last?.at_ms}, ${last?.id})`))
		.limit(limit)
		.compile();
}

function matching({ actor, action, target, search }: AuditFilter): RawBuilder<boolean> {
	const kind = action?.replace(/\.\*$/, "");
	const conditions = [
		...(actor === undefined ? [] : [sql`(actor_id IS ${actor} OR actor_name = ${actor})`]),
		...(kind === undefined ? [] : [sql`(action = ${kind} OR substr(action, 1, ${kind.length + 1}) = ${`${kind}.`})`]),
		...(target === undefined
			? []
			: [sql`(target_id = ${target} OR target_name IS ${target} OR target_type || ':' || target_id = ${target})`]),
		...(search === undefined
			? []
			: [
					sql`instr(lower(actor_name || ' ' || action || ' ' || coalesce(target_name, target_id) || ' ' || coalesce(app_id, '')), ${search}) > 0`,
				]),
	];
	return sql<boolean>`(${conditions.length === 0 ? sql`true` : sql.join(conditions, sql` AND `)})`;
}

function entries(of: AuditOf, { fromMs, toMs }: Pick<AuditFilter, "fromMs" | "toMs">) {
	return query
		.selectFrom("audit_log")
		.selectAll()
		.$if("orgId" in of, (rows) => rows.where("org_id", "=", "orgId" in of ? of.orgId : ""))
		.$if("publicAppId" in of, (rows) => rows.where("app_uuid", "=", appIdOf("publicAppId" in of ? of.publicAppId : "")))
		.$if("appUuid" in of, (rows) => rows.where("app_uuid", "=", "appUuid" in of ? of.appUuid : ""))
		.$if(fromMs !== undefined, (rows) => rows.where("at_ms", ">=", fromMs ?? 0))
		.$if(toMs !== undefined, (rows) => rows.where("at_ms", "<=", toMs ?? 0))
		.orderBy("at_ms", "desc")
		.orderBy("id", "desc");
}
