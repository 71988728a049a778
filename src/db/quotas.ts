/**
 * The count of each quota, as SQL for a guard of the batch that adds to it. The guard runs after
 * the write and reads its result, so concurrent requests never exceed a quota together. What may be
 * many is kept in the rows of the app and of the organization (usage-triggers.ts).
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import type { QuotaName } from "../domain/quotas";
import { query } from "./client";

/** A quota of one app, organization, key or account. */
export interface Quota {
	readonly name: QuotaName;
	readonly used: RawBuilder<number>;
}

const quota = (name: QuotaName, used: RawBuilder<number>): Quota => ({ name, used });
/** A key, or an account without one. */
interface Holder {
	readonly userId: string;
	readonly keyId: string | null;
}

export const organizationsOfAccount = (userId: string): Quota =>
	quota(
		"organizations_per_account",
		// A deleted app is in an organization without bindings.
		sql`(SELECT count(*) FROM organizations o WHERE o.created_by = ${userId}
			AND (o.deleted_at_ms IS NULL OR EXISTS (SELECT 1 FROM role_bindings b WHERE b.org_id = o.id)))`,
	);

const ofOrganization = (count: "app_count" | "storage_bytes" | "api_key_count", orgId: string | RawBuilder<unknown>) =>
	sql<number>`coalesce((SELECT ${sql.ref(`holder.${count}`)} FROM organizations AS holder WHERE holder.id = ${orgId}), 0)`;

export const appsOfOrganization = (orgId: string): Quota =>
	quota("apps_per_organization", ofOrganization("app_count", orgId));

export const keysOfOrganization = (orgId: string): Quota =>
	quota("api_keys_per_organization", ofOrganization("api_key_count", orgId));

export const invitationsOfOrganization = (orgId: string, nowMs: number): Quota =>
	quota(
		"invitations_per_organization",
		sql`(SELECT count(*) FROM invitations WHERE org_id = ${orgId} AND expires_at_ms > ${nowMs})`,
	);

export const storageOfOrganization = (orgId: string): Quota =>
	quota("storage_bytes_per_organization", storedBytes(sql`${orgId}`));

/** Bytes of the organization's apps and of its deleted apps that can be restored. */
export function storedBytes(orgId: RawBuilder<unknown>): RawBuilder<number> {
	// Aliases, because the id may be a column of an outer `apps`.
	return sql<number>`(${ofOrganization("storage_bytes", orgId)}
		+ (SELECT coalesce(sum(stored.storage_bytes), 0) FROM deleted_apps AS deleted
			INNER JOIN apps AS stored ON stored.id = deleted.app_id WHERE deleted.org_id = ${orgId}))`;
}

export const channelsOfApp = (appId: string): Quota =>
	quota("channels_per_app", sql`coalesce((SELECT channel_count FROM apps WHERE id = ${appId}), 0)`);

export const bundlesOfApp = (appId: string): Quota =>
	quota("bundles_per_app", sql`coalesce((SELECT bundle_count FROM apps WHERE id = ${appId}), 0)`);

/** Without those that were closed before they were opened (`insertClosedPreview`). */
export const previewsOfApp = (appId: string): Quota =>
	quota("previews_per_app", sql`(SELECT preview_count FROM apps WHERE id = ${appId})`);

export const hooksOfAppQuota = (appId: string): Quota =>
	quota("preview_hooks_per_app", sql`(SELECT count(*) FROM preview_hooks WHERE app_id = ${appId})`);

const openUploadsOfApp = (appId: string, nowMs: number): Quota =>
	quota(
		"open_uploads_per_app",
		sql`(SELECT count(*) FROM uploads WHERE app_id = ${appId} AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs})`,
	);

export const openUploadsOfOrganization = (orgId: string, nowMs: number): Quota =>
	quota(
		"open_uploads_per_organization",
		sql`(SELECT count(*) FROM uploads WHERE org_id = ${orgId} AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs})`,
	);

const openUploadsOfCaller = ({ userId, keyId }: Holder, nowMs: number): Quota =>
	quota(
		"open_uploads_per_key",
		sql`(SELECT count(*) FROM uploads WHERE created_by = ${userId} AND created_by_key IS ${keyId}
			AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs})`,
	);

const madeBy = (appId: AppId, { userId, keyId }: Holder) =>
	sql`app_id = ${appId} AND created_by_key IS ${keyId} AND created_by = ${userId}`;

export const channelsOfPreviewKey = (appId: AppId, holder: Holder): Quota =>
	quota("channels_per_preview_key", sql`(SELECT count(*) FROM channels WHERE ${madeBy(appId, holder)})`);

export const bundlesOfPreviewKey = (appId: AppId, holder: Holder): Quota =>
	quota(
		"bundles_per_preview_key",
		sql`(SELECT count(*) FROM bundles WHERE ${madeBy(appId, holder)} AND deleted_at_ms IS NULL)`,
	);

/**
 * Stored or registered bytes of the app's bundles, and those of resumable uploads of bundles
 * without a registered size.
 */
const storageOfPreviewKey = (appId: AppId, holder: Holder, nowMs: number): Quota =>
	quota(
		"storage_bytes_per_preview_key",
		sql`((SELECT coalesce(sum(size_bytes), 0) FROM bundles
				WHERE ${madeBy(appId, holder)} AND deleted_at_ms IS NULL AND storage_provider = 'r2')
			+ (SELECT coalesce(sum(reserved_bytes), 0) FROM uploads
				WHERE ${madeBy(appId, holder)} AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs}))`,
	);

/**
 * The quotas that an upload adds to: uploads under way, and stored bytes.
 * @param isPreview the caller may act only on its own work
 */
export const uploadQuotas = (
	scope: { readonly orgId: OrgId; readonly appId: AppId },
	holder: Holder,
	nowMs: number,
	isPreview: boolean,
) => [
	openUploadsOfApp(scope.appId, nowMs),
	openUploadsOfOrganization(scope.orgId, nowMs),
	openUploadsOfCaller(holder, nowMs),
	...(isPreview ? [storageOfPreviewKey(scope.appId, holder, nowMs)] : []),
	storageOfOrganization(scope.orgId),
];

export function quotaUse({ used }: Quota): CompiledQuery<{ used: number }> {
	return query.selectNoFrom(used.as("used")).compile();
}

interface AppUsageRow {
	readonly id: string;
	readonly app_id: string;
	readonly name: string;
	readonly storage_bytes: number;
	readonly channels: number;
	readonly bundles: number;
	readonly open_uploads: number;
}

/** A page of an organization's apps with the counts of each, the largest first. */
export function appUsagePage(orgId: string, nowMs: number, limit: number, offset: number): CompiledQuery<AppUsageRow> {
	return sql<AppUsageRow>`SELECT a.id, a.app_id, a.name, a.storage_bytes,
			a.channel_count AS channels, a.bundle_count AS bundles,
			(SELECT count(*) FROM uploads WHERE app_id = a.id AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs}) AS open_uploads
		FROM apps a INDEXED BY apps_by_storage WHERE a.owner_org = ${orgId}
		ORDER BY a.storage_bytes DESC, a.id LIMIT ${limit} OFFSET ${offset}`.compile(query);
}
