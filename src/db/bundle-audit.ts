/**
 * What the audit log says of bundles. Every way in which one goes is told with `bundle.delete`, a registration that came to nothing
 * included, and what went is read by SQL in the batch that removes it, before it does. An address is told without its query, which may
 * be a signature, and keys of encryption are not told at all.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { type Actor, auditEach } from "./audit";
import type { NewBundle } from "./bundles";

/** Why a bundle goes that nobody asked to delete, or with what. */
type Reason =
	| { readonly reason: string; readonly bundle_invalid?: { readonly reason: string; readonly message: string } }
	| { readonly with_channel: string };

const APP = sql`app_id AS app_uuid, (SELECT apps.owner_org FROM apps WHERE apps.id = bundles.app_id) AS org_id,
	(SELECT apps.app_id FROM apps WHERE apps.id = bundles.app_id) AS app_id`;

/** An entry for each bundle that the condition names, which are about to go; the condition names its app where a request says it. */
export function auditBundlesGoing(
	actor: Actor,
	atMs: number,
	condition: RawBuilder<unknown>,
	details?: Reason,
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

/** An entry for each bundle that the condition names and whose mark for deletion is about to be set or taken back. */
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
			FROM bundles WHERE ${condition} AND (delete_marked_at_ms IS NOT NULL) = ${marked ? 0 : 1} AND deleted_at_ms IS NULL`,
	);
}

/** An entry that the bundle gets its manifest, before it does; one that has it already is not changed by the same again. */
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

/** What an entry says of a bundle that is registered. */
export function auditedRegistration(
	version: string,
	values: Pick<NewBundle, "checksum" | "size_bytes" | "min_update_version" | "external_url">,
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
