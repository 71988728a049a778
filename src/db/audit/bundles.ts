/**
 * Audit entries about bundles. Every deletion has a `bundle.delete` entry, also that of a
 * registration that never became ready; SQL reads the bundle in the batch that deletes it, before
 * it does. A URL is logged without its query, which may be a signature. Encryption keys are not
 * logged.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, sql } from "kysely";
import type { AppId } from "../../authz/decide";
import type { BundlesTable } from "../schema";
import { type Actor, auditEach } from "./entries";

/** Why a bundle is deleted that nobody asked to delete, or with which channel. */
export type DeletionReason =
	| { readonly reason: string; readonly bundle_invalid?: { readonly reason: string; readonly message: string } }
	| { readonly with_channel: string };

const APP = sql`app_id AS app_uuid, (SELECT apps.owner_org FROM apps WHERE apps.id = bundles.app_id) AS org_id,
	(SELECT apps.app_id FROM apps WHERE apps.id = bundles.app_id) AS app_id`;

/**
 * An entry for each bundle that the batch deletes next. The condition names the app, except for the
 * clean-up of all apps.
 */
export function auditBundleDeletions(
	actor: Actor,
	atMs: number,
	condition: RawBuilder<unknown>,
	details?: DeletionReason,
): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "bundle.delete", targetType: "bundle", ofApps: true, ...(details === undefined ? {} : { details }) },
		sql`SELECT ${APP}, CAST(id AS TEXT) AS target_id, name AS target_name,
				json_object('version', name, 'checksum', checksum, 'size', size_bytes, 'status', status) AS before, NULL AS after
			FROM bundles WHERE ${condition}`,
	);
}

/**
 * An entry for each bundle of the condition whose mark for deletion the batch sets or removes next.
 */
export function auditDeleteMarks(
	actor: Actor,
	atMs: number,
	marked: boolean,
	condition: RawBuilder<unknown>,
): CompiledQuery {
	const shown = (value: boolean) => JSON.stringify({ marked_for_deletion: value });
	return auditEach(
		actor,
		atMs,
		{ action: marked ? "bundle.mark_for_deletion" : "bundle.keep", targetType: "bundle", ofApps: true },
		sql`SELECT ${APP}, CAST(id AS TEXT) AS target_id, name AS target_name, ${shown(!marked)} AS before, ${shown(marked)} AS after
			FROM bundles WHERE ${condition} AND (delete_marked_at_ms IS NOT NULL) = ${marked ? 0 : 1}`,
	);
}

/**
 * An entry that the bundle gets its manifest, before the batch inserts it. None if the bundle has
 * one: the same manifest changes nothing.
 */
export function auditManifest(
	actor: Actor,
	atMs: number,
	appId: AppId,
	bundleId: number,
	fileCount: number,
): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "bundle.set_manifest", targetType: "bundle", ofApps: true },
		sql`SELECT ${APP}, CAST(id AS TEXT) AS target_id, name AS target_name, NULL AS before,
				${JSON.stringify({ manifest_files: fileCount })} AS after
			FROM bundles WHERE app_id = ${appId} AND id = ${bundleId}
				AND NOT EXISTS (SELECT 1 FROM bundle_files WHERE bundle_files.bundle_id = bundles.id)`,
	);
}

/** The `after` of the entry for a registration. */
export function auditedRegistration(
	version: string,
	values: Pick<Insertable<BundlesTable>, "checksum" | "size_bytes" | "min_update_version" | "external_url">,
): Record<string, unknown> {
	const { checksum, size_bytes, min_update_version, external_url } = values;
	const address = external_url == null ? undefined : new URL(external_url);
	return {
		version,
		checksum,
		size: size_bytes,
		min_update_version,
		external_url: address === undefined ? null : `${address.origin}${address.pathname}`,
	};
}
