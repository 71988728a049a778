/**
 * Statements about deleted apps and reserved ids. A deleted app moves into a dedicated, deleted
 * organization, so every statement that excludes deleted organizations excludes the app, and the
 * clean-up after 30 days is the same. The public id stays reserved for the app's organization. Role
 * bindings stay unchanged: they name the app's UUID and grant nothing while the app is in another
 * organization.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import type { AppRow } from "./apps";
import { insertEach, jsonList, query } from "./client";
import { RESTORABLE_MS } from "./organizations";

/**
 * Deletes an app in constant time and reserves its id for its organization.
 * @param graveId the id of the new organization without members that the app moves to
 */
export function deleteApp(
	orgId: OrgId,
	appId: AppId,
	graveId: string,
	deletedBy: string,
	nowMs: number,
): CompiledQuery[] {
	const app = query.selectFrom("apps").where("id", "=", appId).where("owner_org", "=", orgId);
	return [
		insertEach(
			"organizations",
			query
				.selectFrom("organizations as o")
				.innerJoin("apps", "apps.owner_org", "o.id")
				.where("o.id", "=", orgId)
				.where("apps.id", "=", appId),
			(eb) => ({
				id: graveId,
				name: "Deleted app",
				created_by: eb.ref("o.created_by"),
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
				deleted_at_ms: nowMs,
			}),
		),
		insertEach("deleted_apps", app, (eb) => ({
			app_id: eb.ref("id"),
			public_app_id: eb.ref("app_id"),
			org_id: eb.ref("owner_org"),
			deleted_at_ms: nowMs,
			deleted_by: deletedBy,
		})),
		insertEach("app_reservations", app, (eb) => ({
			app_id: eb.ref("app_id"),
			org_id: eb.ref("owner_org"),
			reserved_at_ms: nowMs,
		})).onConflict((conflict) =>
			conflict.column("app_id").doUpdateSet((eb) => ({
				app_id: eb.ref("excluded.app_id"),
				org_id: eb.ref("excluded.org_id"),
				reserved_at_ms: eb.ref("excluded.reserved_at_ms"),
			})),
		),
		query.deleteFrom("app_transfers").where("app_id", "=", appId).where("from_org", "=", orgId),
		// The UUID replaces the public id; no public id looks like a UUID.
		query
			.updateTable("apps")
			.set((eb) => ({ owner_org: graveId, app_id: eb.ref("id") }))
			.where("id", "=", appId)
			.where("owner_org", "=", orgId),
	].map((statement) => statement.compile());
}

/** For guards: no app has the id, in any case, and no other organization has reserved it. */
export function appIdIsFree(publicAppId: string, orgId: OrgId) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM apps WHERE app_id = ${publicAppId})
		AND NOT EXISTS (SELECT 1 FROM app_reservations WHERE app_id = ${publicAppId} AND org_id <> ${orgId})`;
}

/** For guards: the organization has not reserved the id, in any case, for a deleted app. */
export function appIdIsUnused(publicAppId: string, orgId: OrgId) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM app_reservations WHERE app_id = ${publicAppId} AND org_id = ${orgId})`;
}

/** For guards: the app was deleted from the organization after the given time. */
export function appIsRestorable(orgId: OrgId, appId: AppId, deletedAfterMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM deleted_apps
		WHERE app_id = ${appId} AND org_id = ${orgId} AND deleted_at_ms > ${deletedAfterMs})`;
}

/** Undoes the deletion of an app. */
export function restoreApp(orgId: OrgId, appId: AppId): CompiledQuery[] {
	const deleted = query.selectFrom("deleted_apps").where("app_id", "=", appId).where("org_id", "=", orgId);
	const uuid = deleted.select("app_id");
	return [
		query
			.updateTable("organizations")
			.set({ deleted_at_ms: 0 })
			.where("id", "=", query.selectFrom("apps").select("owner_org").where("id", "=", uuid)),
		query
			.updateTable("apps")
			.set({ owner_org: orgId, app_id: deleted.select("public_app_id"), revision: sql<number>`revision + 1` })
			.where("id", "=", uuid),
		query
			.deleteFrom("app_reservations")
			.where("org_id", "=", orgId)
			.where("app_id", "=", deleted.select("public_app_id")),
		query.deleteFrom("deleted_apps").where("app_id", "=", appId).where("org_id", "=", orgId),
	].map((statement) => statement.compile());
}

interface DeletedAppRow extends AppRow {
	readonly public_app_id: string;
	readonly deleted_from: string;
	readonly deleted_at_ms: number;
	readonly deleted_by: string;
}

/**
 * A page of the apps that were deleted after the given time from these organizations, and of these
 * single apps, newest deletion first.
 */
export function deletedAppsPage(
	{
		orgIds,
		appIds,
		orgId,
	}: { readonly orgIds: readonly OrgId[]; readonly appIds: readonly AppId[]; readonly orgId: string | undefined },
	deletedAfterMs: number,
	limit: number,
	offset: number,
): CompiledQuery<DeletedAppRow> {
	return sql<DeletedAppRow>`SELECT apps.*, NULL AS default_channel, d.public_app_id, d.org_id AS deleted_from, d.deleted_at_ms, d.deleted_by
		FROM deleted_apps d INNER JOIN apps ON apps.id = d.app_id
		INNER JOIN organizations o ON o.id = d.org_id AND o.deleted_at_ms IS NULL
		WHERE (d.org_id IN ${jsonList(JSON.stringify(orgIds))} OR d.app_id IN ${jsonList(JSON.stringify(appIds))})
			AND d.deleted_at_ms > ${deletedAfterMs} AND ${orgId === undefined ? sql`1` : sql`d.org_id = ${orgId}`}
		ORDER BY d.deleted_at_ms DESC, d.app_id LIMIT ${limit} OFFSET ${offset}`.compile(query);
}

interface ReservationRow {
	readonly app_id: string;
	readonly org_id: string;
	readonly reserved_at_ms: number;
	/** Time of the latest deletion of an app with this id that can be restored. */
	readonly deleted_at_ms: number | null;
}

const NO_APP_HAS_IT = sql<boolean>`NOT EXISTS (SELECT 1 FROM apps WHERE apps.app_id = r.app_id)`;

/** A page of the organization's reserved ids that no app has. */
export function reservationsPage(
	orgId: string,
	deletedAfterMs: number,
	limit: number,
	offset: number,
): CompiledQuery<ReservationRow> {
	return query
		.selectFrom("app_reservations as r")
		.select((eb) => [
			"r.app_id",
			"r.org_id",
			"r.reserved_at_ms",
			eb
				.selectFrom("deleted_apps as d")
				.select((deleted) => deleted.fn.max("d.deleted_at_ms").as("at_ms"))
				.whereRef("d.public_app_id", "=", "r.app_id")
				.whereRef("d.org_id", "=", "r.org_id")
				.where("d.deleted_at_ms", ">", deletedAfterMs)
				.as("deleted_at_ms"),
		])
		.where("r.org_id", "=", orgId)
		.where(NO_APP_HAS_IT)
		.orderBy("r.app_id")
		.limit(limit)
		.offset(offset)
		.compile();
}

/** For guards: the id is reserved for the organization, and no app has it. */
export function appIdIsReserved(orgId: OrgId, publicAppId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM app_reservations r
		WHERE r.org_id = ${orgId} AND r.app_id = ${publicAppId} AND ${NO_APP_HAS_IT})`;
}

/**
 * Releases the id. The organization's deleted apps with it can no longer be restored; the next
 * clean-up removes them.
 */
export function releaseAppId(orgId: OrgId, publicAppId: string, nowMs: number): CompiledQuery[] {
	const deleted = query
		.selectFrom("deleted_apps")
		.select("app_id")
		.where("org_id", "=", orgId)
		.where("public_app_id", "=", publicAppId);
	return [
		query
			.updateTable("organizations")
			.set({ deleted_at_ms: nowMs - RESTORABLE_MS })
			.where("id", "in", query.selectFrom("apps").select("owner_org").where("id", "in", deleted)),
		query.deleteFrom("deleted_apps").where("org_id", "=", orgId).where("public_app_id", "=", publicAppId),
		query.deleteFrom("app_reservations").where("org_id", "=", orgId).where("app_id", "=", publicAppId),
	].map((statement) => statement.compile());
}
