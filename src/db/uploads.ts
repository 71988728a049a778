/**
 * Statements about uploads, the delta store and garbage, which link D1 to the objects in R2. Their
 * order is explained in src/storage/objects.ts.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { jobOf, type Principal } from "../authz/principal";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { insertEach, query } from "./client";
import { grantsAll } from "./custom-roles";
import { appIdOf } from "./public-app-id";
import { storedBytes } from "./quotas";
import type { BundlesTable, UploadsTable } from "./schema";
import { signingRules } from "./signing-keys";

type UploadRow = Selectable<UploadsTable>;

/** An upload with the data that its completion needs. */
export interface UploadWithBundle extends UploadRow {
	readonly public_app_id: string;
	readonly owner_org: string;
	readonly bundle_name: string | null;
	readonly bundle_status: BundlesTable["status"] | null;
	readonly bundle_checksum: string | null;
	readonly bundle_session_key: string | null;
	readonly bundle_size_bytes: number | null;
	readonly bundle_sha256: string | null;
	readonly bundle_object_key: string | null;
	/** The preview of its bundle. */
	readonly preview_id: string | null;
	/** JSON of `SigningRules` (src/features/signing/verify.ts) of the organization. */
	readonly signing_rules: string;
}

const uploadRows = () =>
	query
		.selectFrom("uploads")
		.innerJoin("apps", "apps.id", "uploads.app_id")
		.leftJoin("bundles", "bundles.id", "uploads.bundle_id")
		.selectAll("uploads")
		.select([
			"apps.app_id as public_app_id",
			"apps.owner_org",
			"bundles.name as bundle_name",
			"bundles.status as bundle_status",
			"bundles.checksum as bundle_checksum",
			"bundles.session_key as bundle_session_key",
			"bundles.size_bytes as bundle_size_bytes",
			"bundles.sha256 as bundle_sha256",
			"bundles.object_key as bundle_object_key",
			"bundles.preview_id",
			signingRules(sql.ref("apps.owner_org")).as("signing_rules"),
		]);

/**
 * An upload by its id, unless its organization is deleted. The rights of its uploader are in
 * `uploaderStatement`.
 */
export function uploadByLink(
	id: string,
): CompiledQuery<UploadWithBundle & { readonly uploader_name: string; readonly stored_bytes: number }> {
	return uploadRows()
		.leftJoin("api_keys", "api_keys.id", "uploads.created_by_key")
		.leftJoin("users", "users.id", "uploads.created_by")
		.select((eb) =>
			eb.fn.coalesce("api_keys.name", "users.email", sql<string>`'signed upload link'`).as("uploader_name"),
		)
		.select(storedBytes(sql`apps.owner_org`).as("stored_bytes"))
		.innerJoin("organizations", "organizations.id", "apps.owner_org")
		.where("uploads.id", "=", id)
		.where("organizations.deleted_at_ms", "is", null)
		.compile();
}

/** An upload by its random id, which only its owner gets. */
export function uploadById(id: string): CompiledQuery<UploadWithBundle> {
	return uploadRows().where("uploads.id", "=", id).compile();
}

/** The newest upload of a live bundle. */
export function latestUploadOf(publicAppId: string, bundleName: string): CompiledQuery<UploadWithBundle> {
	return uploadRows()
		.where("apps.id", "=", appIdOf(publicAppId))
		.where("bundles.name", "=", bundleName)
		.where("bundles.deleted_at_ms", "is", null)
		.orderBy("uploads.created_at_ms", "desc")
		.orderBy("uploads.id", "desc")
		.limit(1)
		.compile();
}

/** Who uploads. */
export const uploaderColumns = (principal: Principal) => ({
	created_by: principal.userId,
	created_by_key: principal.keyId,
	created_by_job: jobOf(principal),
});

const ownerOf = (appId: RawBuilder<unknown>) => sql<string>`(SELECT owner_org FROM apps WHERE id = ${appId})`;

export function insertUpload(values: Insertable<UploadsTable> & Pick<UploadRow, "created_by_job">): CompiledQuery {
	return query
		.insertInto("uploads")
		.values({ ...values, org_id: ownerOf(sql`${values.app_id}`) })
		.compile();
}

/** Opens the completed upload of a bundle again for the bytes that it had. */
export function reopenUpload(values: Insertable<UploadsTable> & Pick<UploadRow, "created_by_job">): CompiledQuery {
	const { object_prefix: _prefix, ...changed } = values;
	return query
		.insertInto("uploads")
		.values(values)
		.onConflict((conflict) => conflict.column("object_prefix").doUpdateSet(changed))
		.compile();
}

/** For a bundle that the same batch inserted, by its version, because its id is not known yet. */
export function insertUploadForNewBundle(
	appId: AppId,
	bundleName: string,
	values: Omit<
		UploadRow,
		"reserved_bytes" | "org_id" | "app_id" | "bundle_id" | "delta_path" | "length_bytes" | "completed_at_ms"
	>,
): CompiledQuery {
	const bundle = query
		.selectFrom("bundles")
		.where("app_id", "=", appId)
		.where("name", "=", bundleName)
		.where("status", "=", "pending");
	return insertEach("uploads", bundle, (eb) => ({
		...values,
		app_id: eb.ref("app_id"),
		bundle_id: eb.ref("bundles.id"),
		org_id: ownerOf(sql`bundles.app_id`),
	})).compile();
}

/**
 * For guards: upload, app and organization still exist; they may be deleted while bytes come in.
 */
export function uploadExists(appId: AppId, uploadId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM uploads INNER JOIN apps ON apps.id = uploads.app_id
		INNER JOIN organizations ON organizations.id = apps.owner_org
		WHERE uploads.app_id = ${appId} AND uploads.id = ${uploadId} AND organizations.deleted_at_ms IS NULL)`;
}

/**
 * For guards, after `uploaderStatement` allowed it: the uploader has not lost its key, its job or
 * its role since.
 */
export function uploaderMayUpload(uploadId: string, nowMs: number) {
	const isLive = (table: string) => sql`coalesce(${sql.ref(`${table}.expires_at_ms`)}, ${nowMs} + 1) > ${nowMs}`;
	const holds = sql`${grantsAll(["app.upload_bundle"])} AND b.org_id = a.owner_org
		AND (b.scope_type = 'org' OR b.app_id = a.id) AND ${isLive("b")}`;
	return sql<boolean>`EXISTS (SELECT 1 FROM uploads u JOIN apps a ON a.id = u.app_id WHERE u.id = ${uploadId}
		AND u.expires_at_ms > ${nowMs} AND CASE WHEN u.created_by_key IS NULL
			THEN EXISTS (SELECT 1 FROM ${ACCOUNT_BINDINGS} b WHERE b.user_id = u.created_by AND ${holds})
			ELSE EXISTS (SELECT 1 FROM role_bindings b JOIN api_keys k ON k.id = b.api_key_id
				WHERE b.api_key_id = u.created_by_key AND ${isLive("k")} AND ${holds}) END
		AND (u.created_by_job IS NULL OR EXISTS (SELECT 1 FROM ci_keys t WHERE t.key_hash = u.created_by_job AND ${isLive("t")})))`;
}

/**
 * Links that were given to the old secret of a key end with it, because its replacement may be the
 * answer to a leak.
 */
export function endUploadLinks(orgId: OrgId, key: { readonly id: string; readonly user_id: string }, atMs: number) {
	return query
		.updateTable("uploads")
		.set((eb) => ({ expires_at_ms: sql<number>`min(${eb.ref("expires_at_ms")}, ${atMs})` }))
		.where("created_by", "=", key.user_id)
		.where(
			"created_by_key",
			"=",
			query.selectFrom("api_keys").select("id").where("id", "=", key.id).where("org_id", "=", orgId),
		)
		.where("completed_at_ms", "is", null)
		.where("length_bytes", "is", null)
		.compile();
}

/** For guards: the upload is not completed. */
export function uploadIsOpen(appId: AppId, uploadId: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM uploads WHERE app_id = ${appId} AND id = ${uploadId} AND completed_at_ms IS NULL)`;
}

export function completeUpload(appId: AppId, uploadId: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("uploads")
		.set({ completed_at_ms: nowMs })
		.where("app_id", "=", appId)
		.where("id", "=", uploadId)
		.compile();
}

/**
 * Marks the objects or prefixes of the SELECT as garbage, one in each row. An earlier mark starts
 * again.
 */
export function selectedToGarbage(prefixes: RawBuilder<unknown>, nowMs: number): CompiledQuery {
	const times = { created_at_ms: nowMs, due_at_ms: nowMs };
	const found = query.selectFrom(sql<{ object_prefix: string }>`(${prefixes})`.as("found")).where(sql<boolean>`true`);
	return insertEach("garbage_objects", found, (eb) => ({ object_prefix: eb.ref("found.object_prefix"), ...times }))
		.onConflict((conflict) => conflict.column("object_prefix").doUpdateSet(times))
		.compile();
}

export function toGarbage(objectPrefix: string, nowMs: number): CompiledQuery {
	return selectedToGarbage(sql`SELECT ${objectPrefix} AS object_prefix`, nowMs);
}

/**
 * Before bytes are stored under the prefix: they are removed at that time, unless `dropGarbage`
 * runs in the batch that names them.
 */
export function toGarbageLater(objectPrefix: string, nowMs: number, dueAtMs: number): CompiledQuery {
	return query
		.insertInto("garbage_objects")
		.values({ object_prefix: objectPrefix, created_at_ms: nowMs, due_at_ms: dueAtMs })
		.compile();
}

export function dropGarbage(objectPrefix: string): CompiledQuery {
	return query.deleteFrom("garbage_objects").where("object_prefix", "=", objectPrefix).compile();
}

/**
 * The stored bytes of bundles, before their rows drop the reference. The condition names the app.
 */
export function bytesOfBundlesToGarbage(which: RawBuilder<unknown>, nowMs: number): CompiledQuery {
	return selectedToGarbage(
		sql`SELECT object_key AS object_prefix FROM bundles WHERE ${which} AND object_key IS NOT NULL`,
		nowMs,
	);
}

/**
 * Everything that unfinished uploads of bundles stored, before their rows are deleted. `bundles` is
 * `= 5` or `IN (…)`.
 */
export function uploadsOfBundlesToGarbage(appId: AppId, bundles: RawBuilder<unknown>, nowMs: number): CompiledQuery {
	return selectedToGarbage(
		sql`SELECT object_prefix FROM uploads WHERE +app_id = ${appId} AND bundle_id ${bundles} AND completed_at_ms IS NULL`,
		nowMs,
	);
}

export function uploadsOfBundleToGarbage(appId: AppId, bundleId: number, nowMs: number): CompiledQuery {
	return uploadsOfBundlesToGarbage(appId, sql`= ${bundleId}`, nowMs);
}

/** Deletes an upload unless it is completed. */
export function deleteUpload(appId: AppId, uploadId: string): CompiledQuery {
	return query
		.deleteFrom("uploads")
		.where("app_id", "=", appId)
		.where("id", "=", uploadId)
		.where("completed_at_ms", "is", null)
		.compile();
}

export function deleteOpenUploadsOfBundle(appId: AppId, bundleId: number): CompiledQuery {
	return query
		.deleteFrom("uploads")
		.where("app_id", "=", appId)
		.where("bundle_id", "=", bundleId)
		.where("completed_at_ms", "is", null)
		.compile();
}

/**
 * The path of a private file of a key in the delta store: files of preview keys, and files that
 * cannot be checked against their path (src/domain/bundles/delta-path.ts). Shared paths begin with
 * `orgs/`, so the two never collide, and no other key's update contains private files.
 */
export function ownDeltaPath(path: string, keyId: string): string {
	return `${keyId}:${path}`;
}

/**
 * Stores a file under its path. If the path already has a file, that one is kept and claimed again.
 */
export function upsertDeltaObject(
	appId: AppId,
	values: { readonly path: string; readonly objectKey: string; readonly sizeBytes: number },
	nowMs: number,
): CompiledQuery {
	return query
		.insertInto("delta_objects")
		.values({
			app_id: appId,
			path: values.path,
			object_key: values.objectKey,
			size_bytes: values.sizeBytes,
			last_claimed_at_ms: nowMs,
		})
		.onConflict((conflict) => conflict.columns(["app_id", "path"]).doUpdateSet({ last_claimed_at_ms: nowMs }))
		.compile();
}

/** After `upsertDeltaObject`: marks this upload as garbage if the path has another object. */
export function redundantDeltaObjectToGarbage(
	appId: AppId,
	path: string,
	objectKey: string,
	prefix: string,
	nowMs: number,
): CompiledQuery {
	return selectedToGarbage(
		sql`SELECT ${prefix} AS object_prefix WHERE NOT EXISTS (
			SELECT 1 FROM delta_objects WHERE app_id = ${appId} AND path = ${path} AND object_key = ${objectKey})`,
		nowMs,
	);
}
