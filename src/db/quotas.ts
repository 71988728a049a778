/**
 * The count of each quota, as SQL for a guard of the batch that adds to it. The guard runs after the write and reads its result, so concurrent
 * requests never exceed a quota together. Stored bytes, bundles, channels and previews are kept in
 * the rows of apps and organizations (count-triggers.ts).
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

export const appsOfOrganization = (orgId: string): Quota =>
	quota("apps_per_organization", sql`(SELECT count(*) FROM apps WHERE owner_org = ${orgId})`);

export const keysOfOrganization = (orgId: string): Quota =>
	quota("api_keys_per_organization", sql`(SELECT count(*) FROM api_keys WHERE org_id = ${orgId})`);

export const invitationsOfOrganization = (orgId: string, nowMs: number): Quota =>
	quota(
		"invitations_per_organization",
		sql`(SELECT count(*) FROM invitations WHERE org_id = ${orgId} AND expires_at_ms > ${nowMs})`,
	);

export const storageOfOrganization = (orgId: string): Quota =>
	quota("storage_bytes_per_organization", storedBytes(sql`${orgId}`));

/** Bytes of the organization's apps and of its deleted apps that can be restored. */
export function storedBytes(orgId: RawBuilder<unknown>): RawBuilder<number> {
	// An alias, because the id may be a column of an outer `organizations`.
	return sql<number>`(SELECT owner.storage_bytes FROM organizations AS owner WHERE owner.id = ${orgId})`;
}

export const channelsOfApp = (appId: string): Quota =>
	quota("channels_per_app", sql`(SELECT counted.channel_count FROM apps AS counted WHERE counted.id = ${appId})`);

export const bundlesOfApp = (appId: string): Quota =>
	quota("bundles_per_app", sql`(SELECT counted.bundle_count FROM apps AS counted WHERE counted.id = ${appId})`);

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
		sql`(SELECT count(*) FROM uploads WHERE owner_org = ${orgId} AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs})`,
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

/** Stored or registered bytes of the app's bundles, and those of resumable uploads of bundles without a registered size. */
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

/** A page of an organization's apps with the counts of each, the largest first; for loading beside the decision. */
export function appUsagePage(orgId: string, nowMs: number, limit: number, offset: number): CompiledQuery<AppUsageRow> {
	return sql<AppUsageRow>`SELECT a.id, a.app_id, a.name, a.storage_bytes,
			a.channel_count AS channels, a.bundle_count AS bundles,
			(SELECT count(*) FROM uploads WHERE app_id = a.id AND completed_at_ms IS NULL AND expires_at_ms > ${nowMs}) AS open_uploads
		FROM apps a WHERE a.owner_org = ${orgId}
		ORDER BY a.storage_bytes DESC, a.id LIMIT ${limit} OFFSET ${offset}`.compile(query);
}
