/**
 * Statements about signing keys, the public keys that an organization's bundles are verified with,
 * and about the policy that requires it. Only this file decides whether a bundle counts as signed,
 * by the keys that are registered at that moment.
 */
import { type CompiledQuery, type Insertable, type RawBuilder, type Selectable, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { SigningKeysTable } from "./schema";

export type SigningKeyRow = Selectable<SigningKeysTable>;

/** Verification tries each key on every encrypted bundle. */
export const MOST_SIGNING_KEYS = 20;

/** JSON of `SigningRules` (src/features/signing/verify.ts) of the organization. */
export function signingRules(orgId: RawBuilder<unknown>) {
	return sql<string>`(SELECT json_object('required', o.require_signed_bundles, 'keys', json((
		SELECT json_group_array(k.public_key) FROM signing_keys k WHERE k.org_id = o.id)))
		FROM organizations o WHERE o.id = ${orgId})`;
}

export function signingRulesOfApp(publicAppId: string): CompiledQuery<{ signing_rules: string }> {
	return query
		.selectFrom("apps")
		.select(signingRules(sql.ref("apps.owner_org")).as("signing_rules"))
		.where("apps.id", "=", appIdOf(publicAppId))
		.compile();
}

/**
 * A condition on bundle `b` of app `a`. A bundle with a manifest is signed if every hash of the
 * manifest is, because devices prefer it to the zip.
 */
const IS_SIGNED = isSignedFor(sql`a.owner_org`);
/** The same for the keys of another organization than the app's. */
function isSignedFor(orgId: RawBuilder<unknown>) {
	return sql<boolean>`(EXISTS (SELECT 1 FROM signing_keys k WHERE k.org_id = ${orgId} AND k.fingerprint = b.signed_by)
	AND (b.manifest_signed_by IS b.signed_by OR NOT EXISTS (SELECT 1 FROM bundle_files f WHERE f.bundle_id = b.id)))`;
}

/**
 * For guards: the organization requires no signatures, or a registered key verified each bundle.
 */
export function bundlesAreSigned(appId: AppId, bundleIds: readonly number[]) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM bundles b JOIN apps a ON a.id = b.app_id JOIN organizations o ON o.id = a.owner_org
		WHERE b.app_id = ${appId} AND b.id IN ${jsonList(JSON.stringify(bundleIds))}
			AND o.require_signed_bundles = 1 AND NOT ${IS_SIGNED})`;
}

/**
 * `key_id` of the registered key that verified the row's bundle; null if none did. For rows of
 * `bundles` joined with `apps`.
 */
export const signerOfBundle = sql<
	string | null
>`(SELECT substr(k.public_key, 1, 20) FROM bundles b JOIN apps a ON a.id = b.app_id
	JOIN signing_keys k ON k.org_id = a.owner_org AND k.fingerprint = b.signed_by WHERE b.id = bundles.id AND ${IS_SIGNED})`;

export interface SignatureRow {
	readonly id: number;
	readonly checksum: string | null;
	readonly session_key: string | null;
	readonly object_key: string | null;
	readonly external_url: string | null;
	readonly signing_rules: string;
	/** JSON array of the hashes in the manifest. */
	readonly file_hashes: string;
}

/** The values that verify at most two ready bundles. The largest manifest takes 5 MB. */
export function signaturesOfBundles(appId: AppId, bundleIds: readonly number[]): CompiledQuery<SignatureRow> {
	return sql<SignatureRow>`SELECT b.id, b.checksum, b.session_key, b.object_key, b.external_url,
			${signingRules(sql`a.owner_org`)} AS signing_rules,
			(SELECT json_group_array(f.file_hash) FROM bundle_files f WHERE f.bundle_id = b.id) AS file_hashes
		FROM bundles b JOIN apps a ON a.id = b.app_id
		WHERE b.app_id = ${appId} AND b.id IN ${jsonList(JSON.stringify(bundleIds))} AND b.status = 'ready'`.compile(query);
}

/** A channel with a bundle that no registered key verified. */
export interface UnsignedChannel {
	readonly app_id: string;
	readonly channel: string;
	readonly version: string;
	/** Number of all such channels. */
	readonly total: number;
}

/** @param withoutKeyId ignores this key */
export function unsignedChannels(orgId: string, withoutKeyId: string, limit: number): CompiledQuery<UnsignedChannel> {
	return sql<UnsignedChannel>`SELECT a.app_id, c.name AS channel, b.name AS version, count(*) OVER () AS total
		FROM apps a JOIN channels c ON c.app_id = a.id JOIN bundles b ON b.id IN (c.version_id, c.rollout_version_id)
		WHERE a.owner_org = ${orgId} AND (NOT ${IS_SIGNED} OR b.signed_by IS (
			SELECT fingerprint FROM signing_keys WHERE id = ${withoutKeyId} AND org_id = ${orgId}))
		ORDER BY a.app_id, c.name, b.id LIMIT ${limit}`.compile(query);
}

/** Channels of an offered app with bundles that no key of the receiver verified. */
export function unsignedChannelsOfOffer(publicAppId: string, limit: number): CompiledQuery<UnsignedChannel> {
	return sql<UnsignedChannel>`SELECT a.app_id, c.name AS channel, b.name AS version, count(*) OVER () AS total
		FROM app_transfers t JOIN organizations o ON o.id = t.to_org AND o.require_signed_bundles = 1
		JOIN apps a ON a.id = t.app_id JOIN channels c ON c.app_id = a.id
		JOIN bundles b ON b.id IN (c.version_id, c.rollout_version_id)
		WHERE t.app_id = ${appIdOf(publicAppId)} AND NOT ${isSignedFor(sql`t.to_org`)}
		ORDER BY c.name, b.id LIMIT ${limit}`.compile(query);
}

/** The organization's keys, oldest first. */
export function signingKeysOf(orgId: string): CompiledQuery<SigningKeyRow> {
	return query
		.selectFrom("signing_keys")
		.selectAll()
		.where("org_id", "=", orgId)
		.orderBy("created_at_ms")
		.orderBy("id")
		.limit(MOST_SIGNING_KEYS)
		.compile();
}

export function insertSigningKey(orgId: OrgId, values: Omit<Insertable<SigningKeysTable>, "org_id">): CompiledQuery {
	return query
		.insertInto("signing_keys")
		.values({ ...values, org_id: orgId })
		.compile();
}

export function deleteSigningKey(orgId: OrgId, id: string): CompiledQuery {
	return query.deleteFrom("signing_keys").where("org_id", "=", orgId).where("id", "=", id).compile();
}

/** For guards: the organization is below the limit of keys. */
export function hasRoomForSigningKey(orgId: OrgId) {
	return sql<boolean>`(SELECT count(*) FROM signing_keys WHERE org_id = ${orgId}) < ${MOST_SIGNING_KEYS}`;
}

/** For guards: the key exists. */
export function signingKeyExists(orgId: OrgId, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM signing_keys WHERE org_id = ${orgId} AND id = ${id})`;
}

/** For guards, after the write: an organization that requires signatures has a key. */
export function policyHasSigningKey(orgId: OrgId) {
	return sql<boolean>`EXISTS (SELECT 1 FROM organizations o WHERE o.id = ${orgId} AND (o.require_signed_bundles = 0
		OR EXISTS (SELECT 1 FROM signing_keys k WHERE k.org_id = o.id)))`;
}

/**
 * Limits for the key ids of one answer, and for the devices counted for one. Reports are not
 * verified, so strangers can invent key ids.
 */
const MOST_COUNTED_KEYS = 50;
export const MOST_COUNTED_DEVICES = 10_000;

interface DevicesOfKey {
	readonly key_id: string;
	/** At most `MOST_COUNTED_DEVICES`. */
	readonly devices: number;
}

/**
 * In the telemetry database: key ids that devices of the app report, with the number of devices.
 */
export function devicesByKey(appId: AppId): CompiledQuery<DevicesOfKey> {
	const next = (after: RawBuilder<unknown>) => sql`(SELECT min(key_id) FROM devices INDEXED BY devices_by_key
		WHERE app_id = ${appId} AND key_id > ${after})`;
	return sql<DevicesOfKey>`WITH RECURSIVE reported (key_id) AS (
			SELECT ${next(sql`''`)}
			UNION ALL SELECT ${next(sql`reported.key_id`)} FROM reported WHERE reported.key_id IS NOT NULL
			LIMIT ${sql.lit(MOST_COUNTED_KEYS)})
		SELECT reported.key_id, (SELECT count(*) FROM (SELECT 1 FROM devices INDEXED BY devices_by_key
			WHERE devices.app_id = ${appId} AND devices.key_id = reported.key_id LIMIT ${sql.lit(MOST_COUNTED_DEVICES)})) AS devices
		FROM reported WHERE reported.key_id IS NOT NULL ORDER BY devices DESC, reported.key_id`.compile(query);
}

/** Names of the registered keys by key id. */
export function signingKeyNames(orgId: OrgId): CompiledQuery<{ key_id: string; name: string }> {
	const keyId = (column: "k.public_key" | "same.public_key") => sql<string>`substr(${sql.ref(column)}, 1, 20)`;
	return query
		.selectFrom("signing_keys as k")
		.select([keyId("k.public_key").as("key_id"), "k.name"])
		.where("k.org_id", "=", orgId)
		.where("k.id", "=", (eb) =>
			eb
				.selectFrom("signing_keys as same")
				.select((key) => key.fn.min("same.id").as("id"))
				.where("same.org_id", "=", orgId)
				.where(keyId("same.public_key"), "=", keyId("k.public_key")),
		)
		.compile();
}
