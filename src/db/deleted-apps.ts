/**
 * Statements about deleted apps and reserved ids. A deleted app moves into a dedicated, deleted organization, so every statement that excludes
 * deleted organizations excludes the app, and the clean-up after 30 days is the same. The public id stays reserved for the app's organization.
 * Role bindings stay unchanged: they name the app's UUID and grant nothing while the app is in another organization.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import type { AppRow } from "./apps";
import { jsonList, query } from "./client";
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
	return [
		sql`INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms, deleted_at_ms)
			SELECT ${graveId}, 'Deleted app', o.created_by, ${nowMs}, ${nowMs}, ${nowMs}
			FROM organizations o INNER JOIN apps ON apps.owner_org = o.id
			WHERE o.id = ${orgId} AND apps.id = ${appId}`,
		sql`INSERT INTO deleted_apps (app_id, public_app_id, org_id, deleted_at_ms, deleted_by)
			SELECT id, app_id, owner_org, ${nowMs}, ${deletedBy} FROM apps WHERE id = ${appId} AND owner_org = ${orgId}`,
		sql`INSERT INTO app_reservations (app_id, org_id, reserved_at_ms)
			SELECT app_id, owner_org, ${nowMs} FROM apps WHERE id = ${appId} AND owner_org = ${orgId}
			ON CONFLICT (app_id) DO UPDATE SET app_id = excluded.app_id, org_id = excluded.org_id,
				reserved_at_ms = excluded.reserved_at_ms`,
		sql`DELETE FROM app_transfers WHERE app_id = ${appId} AND from_org = ${orgId}`,
		// The UUID replaces the public id; no public id looks like a UUID.
		sql`UPDATE apps SET owner_org = ${graveId}, app_id = id WHERE id = ${appId} AND owner_org = ${orgId}`,
	].map((statement) => statement.compile(query));
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
	const deleted = sql`FROM deleted_apps WHERE app_id = ${appId} AND org_id = ${orgId}`;
	return [
		sql`UPDATE organizations SET deleted_at_ms = 0 WHERE id = (SELECT owner_org FROM apps WHERE id = (SELECT app_id ${deleted}))`,
		sql`UPDATE apps SET owner_org = ${orgId}, app_id = (SELECT public_app_id ${deleted}), revision = revision + 1
			WHERE id = (SELECT app_id ${deleted})`,
		sql`DELETE FROM app_reservations WHERE org_id = ${orgId} AND app_id = (SELECT public_app_id ${deleted})`,
		sql`DELETE ${deleted}`,
	].map((statement) => statement.compile(query));
}

interface DeletedAppRow extends AppRow {
	readonly public_app_id: string;
	readonly deleted_from: string;
	readonly deleted_at_ms: number;
	readonly deleted_by: string;
}

/** A page of the apps that were deleted after the given time from these organizations, and of these single apps, newest deletion first. */
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

const NO_APP_HAS_IT = sql`NOT EXISTS (SELECT 1 FROM apps WHERE apps.app_id = r.app_id)`;

/** A page of the organization's reserved ids that no app has; for loading beside the decision. */
export function reservationsPage(
	orgId: string,
	deletedAfterMs: number,
	limit: number,
	offset: number,
): CompiledQuery<ReservationRow> {
	return sql<ReservationRow>`SELECT r.app_id, r.org_id, r.reserved_at_ms, (SELECT max(d.deleted_at_ms) FROM deleted_apps d
			WHERE d.public_app_id = r.app_id AND d.org_id = r.org_id AND d.deleted_at_ms > ${deletedAfterMs}) AS deleted_at_ms
		FROM app_reservations r WHERE r.org_id = ${orgId} AND ${NO_APP_HAS_IT}
		ORDER BY r.app_id LIMIT ${limit} OFFSET ${offset}`.compile(query);
}

/** For guards: the id is reserved for the organization, and no app has it. */
export function appIdIsReserved(orgId: OrgId, publicAppId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM app_reservations r
		WHERE r.org_id = ${orgId} AND r.app_id = ${publicAppId} AND ${NO_APP_HAS_IT})`;
}

/** Releases the id. The organization's deleted apps with it can no longer be restored; the next clean-up removes them. */
export function releaseAppId(orgId: OrgId, publicAppId: string, nowMs: number): CompiledQuery[] {
	const deleted = sql`FROM deleted_apps WHERE org_id = ${orgId} AND public_app_id = ${publicAppId}`;
	return [
		sql`UPDATE organizations SET deleted_at_ms = ${nowMs - RESTORABLE_MS}
			WHERE id IN (SELECT owner_org FROM apps WHERE id IN (SELECT app_id ${deleted}))`,
		sql`DELETE ${deleted}`,
		sql`DELETE FROM app_reservations WHERE org_id = ${orgId} AND app_id = ${publicAppId}`,
	].map((statement) => statement.compile(query));
}
