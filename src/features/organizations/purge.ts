/**
 * Purges deleted organizations after the time in which they can be restored, and deleted apps, each
 * of which is in a dedicated deleted organization. A purge runs in steps. Each step is one atomic
 * batch with a bounded number of rows of each table, and a run has a bounded number of steps. A run
 * continues where the last one stopped or crashed, because the remaining rows determine the next
 * step: a row that names an object is deleted no earlier than the batch that marks the app's
 * objects as garbage, the row of an app after all rows of the app, and the row of the organization
 * last.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { ADMINISTERING_ROLES } from "../../authz/member-roles";
import { auditBindingsElsewhere, auditBindingsOfDeletedApp, auditForeignBindings } from "../../db/audit/bindings";
import { type Actor, systemActor } from "../../db/audit/entries";
import { type Database, guard, lastResult, openDb, query } from "../../db/client";
import { takeGlobalPermissionsWith } from "../../db/foreign-bindings";
import { Conflict, conflict } from "../../db/optimistic";
import { RESTORABLE_MS } from "../../db/organizations";
import { removeReportsOf } from "../../db/report-removals";
import { selectedToGarbage } from "../../db/uploads";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";

/** Limits of one run. */
const MOST_ORGANIZATIONS = 20;
const MOST_STEPS = 20;
/** Rows that one statement deletes. */
const MOST_ROWS = 1000;
/** Keys per step; each may have many bindings. */
const MOST_KEYS = 100;
/** Groups per step; each has up to 500 members. */
const MOST_GROUPS = 10;

/**
 * The tables of an app in the order in which they are emptied, with the columns that identify a row
 * within an app. Every table with a foreign key to apps must be listed; role_bindings are deleted
 * before all of them. Rows of a table without an app_id belong to the app `through` another table.
 */
export const TABLES_OF_APP = [
	{ name: "device_overrides", key: ["device_id"] },
	{ name: "zip_only_devices", key: ["device_id"] },
	{ name: "group_bindings", key: ["id"] },
	{ name: "daily_storage", key: ["day"] },
	{ name: "bundle_files", key: ["bundle_id", "file_name"] },
	{ name: "ci_keys", key: ["key_hash"], through: { column: "publisher_id", table: "publishers" } },
	{ name: "publishers", key: ["id"] },
	{ name: "rollout_devices", key: ["rollout_id", "device_id"], through: { column: "rollout_id", table: "rollouts" } },
	{ name: "rollouts", key: ["id"] },
	{ name: "channel_history", key: ["id"] },
	{ name: "proposals", key: ["id"] },
	{ name: "previews", key: ["id"] },
	{ name: "preview_hooks", key: ["id"] },
	{ name: "preview_repositories", key: ["repository"] },
	{ name: "channels", key: ["id"] },
	{ name: "channel_names", key: ["name"] },
	{ name: "uploads", key: ["id"] },
	{ name: "bundles", key: ["id"] },
	{ name: "delta_objects", key: ["path"] },
	{ name: "app_transfers", key: ["app_id"] },
	{ name: "deleted_apps", key: ["app_id"] },
	// The deletion of channels and bundles adds to it.
	{ name: "changed_items", key: ["revision", "kind", "item"] },
] as const;
type TableOfApp = (typeof TABLES_OF_APP)[number]["name"];

interface PurgedTable {
	readonly name: TableOfApp;
	readonly key: readonly string[];
	readonly through?: { readonly column: string; readonly table: TableOfApp };
}
/** The first table whose rows name objects. */
const FIRST_OF_OBJECTS: TableOfApp = "uploads";

/** @throws {Error} when an organization could not be purged; the others were */
export async function purgeOrganizations(deps: Deps): Promise<void> {
	const deletedBeforeMs = deps.now() - RESTORABLE_MS;
	const db = openDb(deps.d1, "first-primary");
	const [due] = await db.batch([
		query
			.selectFrom("organizations")
			.select("id")
			.where("deleted_at_ms", "<=", deletedBeforeMs)
			.orderBy("deleted_at_ms")
			.limit(MOST_ORGANIZATIONS)
			.compile(),
	]);
	let failure: unknown;
	// Round-robin, so that a large organization does not delay the others.
	const waiting = due.rows.map(({ id }) => id);
	for (let step = 0; step < MOST_STEPS; step++) {
		const id = waiting.shift();
		if (id === undefined) break;
		try {
			if (await removePart(db, deps, id, deletedBeforeMs)) waiting.push(id);
		} catch (error) {
			// The organization was restored after the query for due ones.
			if (error instanceof Conflict) continue;
			// A failing organization must not block the others.
			deps.log("error", "organization_purge_failed", { organization: id, cause: causeText(error) });
			failure = error;
		}
	}
	if (failure !== undefined) throw failure;
}

/** @returns true if rows of the organization remain */
async function removePart(db: Database, deps: Deps, orgId: string, deletedBeforeMs: number): Promise<boolean> {
	const results = await db.batch([
		guard(
			sql<boolean>`EXISTS (SELECT 1 FROM organizations WHERE id = ${orgId} AND deleted_at_ms <= ${deletedBeforeMs})`,
			conflict,
		),
		...purgeStatements(orgId, deps.newId(), deps.now()),
		sql<{ left: number }>`SELECT EXISTS (SELECT 1 FROM organizations WHERE id = ${orgId}) AS left`.compile(query),
	]);
	return lastResult(results).rows[0]?.left === 1;
}

/** One step of a purge, as one batch. */
export function purgeStatements(orgId: string, requestId: string, nowMs: number): CompiledQuery[] {
	const actor = systemActor(requestId);
	const reason = { reason: "organization_removed" };
	const chunk = (table: string, most: number, order = sql`id`) =>
		sql`(SELECT id FROM ${sql.table(table)} WHERE org_id = ${orgId} ORDER BY ${order} LIMIT ${most})`;
	const keys = chunk("api_keys", MOST_KEYS);
	// Child bindings first; the cascade from their parents would delete them without audit entries.
	const bindings = chunk("role_bindings", MOST_ROWS, sql`parent_binding_id IS NULL, id`);
	// A deleted app is in a dedicated organization; its entries move to the organization that can
	// restore it.
	const newOwner = sql`(SELECT o.id FROM apps a LEFT JOIN deleted_apps d ON d.app_id = a.id
		INNER JOIN organizations o ON o.id = coalesce(d.org_id, a.owner_org)
		WHERE a.id = audit_log.app_uuid AND (d.app_id IS NOT NULL OR a.app_id <> a.id))`;
	const isOfTransferredApp = sql`coalesce(${newOwner} <> ${orgId}, 0)`;
	const none = (table: string) => sql`NOT EXISTS (SELECT 1 FROM ${sql.table(table)} WHERE org_id = ${orgId})`;
	return [
		// The keys lose their bindings in other organizations, and foreign keys their bindings in this
		// one.
		auditBindingsElsewhere(actor, nowMs, orgId, sql`k.id IN ${keys}`, reason),
		sql`DELETE FROM api_keys WHERE id IN ${keys}`.compile(query),
		auditForeignBindings(actor, nowMs, orgId, sql`b.id IN ${bindings}`, reason),
		...takeGlobalPermissionsWith(orgId, bindings, ADMINISTERING_ROLES, actor, nowMs),
		sql`DELETE FROM role_bindings WHERE id IN ${bindings}`.compile(query),
		sql`DELETE FROM groups WHERE id IN ${chunk("groups", MOST_GROUPS)}`.compile(query),
		sql`DELETE FROM invitations WHERE id IN ${chunk("invitations", MOST_ROWS)}`.compile(query),
		// Entries about an app that now belongs to another organization move there, without IP addresses.
		sql`UPDATE audit_log SET org_id = ${newOwner}, ip_address = NULL
			WHERE id IN ${chunk("audit_log", MOST_ROWS)} AND ${isOfTransferredApp}`.compile(query),
		sql`DELETE FROM audit_log WHERE id IN ${chunk("audit_log", MOST_ROWS)} AND NOT ${isOfTransferredApp}`.compile(
			query,
		),
		...appBindingStatements(actor, orgId, nowMs),
		...appStatements(
			orgId,
			sql`${none("role_bindings")} AND NOT EXISTS (SELECT 1 FROM role_bindings WHERE app_id = ${firstApp(orgId)})`,
			nowMs,
		),
		sql`DELETE FROM organizations WHERE id = ${orgId} AND NOT EXISTS (SELECT 1 FROM apps WHERE owner_org = ${orgId})
			AND ${none("api_keys")} AND ${none("role_bindings")} AND ${none("groups")} AND ${none("invitations")} AND ${none("audit_log")}`.compile(
			query,
		),
	];
}

/** The app that this step removes. */
const firstApp = (orgId: string) => sql`(SELECT id FROM apps WHERE owner_org = ${orgId} ORDER BY name, id LIMIT 1)`;

/**
 * Removes the bindings on a deleted app, which belong to the organization that it was deleted from.
 */
function appBindingStatements(actor: Actor, orgId: string, nowMs: number): CompiledQuery[] {
	const bindings = sql`(SELECT id FROM role_bindings WHERE app_id = ${firstApp(orgId)} AND org_id <> ${orgId}
		ORDER BY parent_binding_id IS NULL, id LIMIT ${MOST_ROWS})`;
	return [
		auditBindingsOfDeletedApp(actor, nowMs, sql`b.id IN ${bindings}`),
		sql`DELETE FROM role_bindings WHERE id IN ${bindings}`.compile(query),
	];
}

/** Removes rows of one app of the organization. */
function appStatements(orgId: string, begins: RawBuilder<unknown>, nowMs: number): CompiledQuery[] {
	const app = firstApp(orgId);
	const ofApp = ({ through }: PurgedTable) =>
		through === undefined
			? sql`app_id = ${app}`
			: sql`${sql.ref(through.column)} IN (SELECT id FROM ${sql.table(through.table)} WHERE app_id = ${app})`;
	const empty = (tables: readonly PurgedTable[]) =>
		sql.join(
			[
				begins,
				...tables.map((table) => sql`NOT EXISTS (SELECT 1 FROM ${sql.table(table.name)} WHERE ${ofApp(table)})`),
			],
			sql` AND `,
		);
	const removals = TABLES_OF_APP.map((table: PurgedTable, index) => {
		const { name, key } = table;
		const columns = sql.join(key.map((column) => sql.ref(column)));
		return sql`DELETE FROM ${sql.table(name)} WHERE ${ofApp(table)} AND (${columns}) IN (
			SELECT ${columns} FROM ${sql.table(name)} WHERE ${ofApp(table)} LIMIT ${MOST_ROWS})
			AND ${empty(TABLES_OF_APP.slice(0, index))}`.compile(query);
	});
	const first = TABLES_OF_APP.findIndex(({ name }) => name === FIRST_OF_OBJECTS);
	return [
		// The keys of its publishers, which belong to another organization if the app was deleted alone.
		sql`DELETE FROM api_keys WHERE id IN (SELECT api_key_id FROM publishers WHERE app_id = ${app} LIMIT ${MOST_KEYS})
			AND ${begins}`.compile(query),
		sql`DELETE FROM webhooks WHERE app_id = ${app} AND ${begins}`.compile(query),
		...removals.slice(0, first),
		// Keys of objects begin with the app's UUID.
		selectedToGarbage(
			sql`SELECT id || '/' AS object_prefix FROM apps WHERE id = ${app} AND ${empty(TABLES_OF_APP.slice(0, first))}`,
			nowMs,
		),
		...removals.slice(first),
		// Reserves the id of an app that is removed with its organization, because devices still use it.
		// The id of a deleted app is reserved already.
		sql`INSERT OR IGNORE INTO app_reservations (app_id, org_id, reserved_at_ms)
			SELECT app_id, owner_org, ${nowMs} FROM apps WHERE id = ${app} AND app_id <> id AND ${empty(TABLES_OF_APP)}`.compile(
			query,
		),
		// Its reports are deleted after the app, in steps (src/features/statistics/removed-apps.ts).
		removeReportsOf(sql`id = ${app} AND ${empty(TABLES_OF_APP)}`, nowMs),
		sql`DELETE FROM apps WHERE id = ${app} AND ${empty(TABLES_OF_APP)}`.compile(query),
	];
}
