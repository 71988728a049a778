/**
 * Statements about trusted publishers, the keys that CI jobs get from them, spent identity tokens,
 * and the public keys of issuers. A publisher and its key are deleted together; the publisher of an
 * app acts only in the organization of the app.
 */
import { type CompiledQuery, type Insertable, type Selectable, sql, type Updateable } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import type { RoleName } from "../authz/permissions";
import type { PullRequestOfJob } from "../domain/ci/context";
import { DAY_MS } from "../domain/time";
import { insertEach, jsonList, query } from "./client";
import { appIdOf } from "./public-app-id";
import type { Flag, PublishersTable } from "./schema";

export type PublisherRow = Selectable<PublishersTable>;

export interface ListedPublisherRow extends PublisherRow {
	/** 0: its creator lost the rights that it had, so its key lost them as well. */
	readonly has_rights: Flag;
}

/** SQL: the key of publisher `p` has a role. */
const HAS_RIGHTS = sql<Flag>`EXISTS (SELECT 1 FROM role_bindings b WHERE b.api_key_id = p.api_key_id)`;

/** A page of the app's publishers, oldest first. */
export function publishersPage(publicAppId: string, limit: number, offset: number): CompiledQuery<ListedPublisherRow> {
	return query
		.selectFrom("publishers as p")
		.selectAll()
		.select(HAS_RIGHTS.as("has_rights"))
		.where("app_id", "=", appIdOf(publicAppId))
		.orderBy("created_at_ms")
		.orderBy("id")
		.limit(limit)
		.offset(offset)
		.compile();
}

export function publisherOfApp(publicAppId: string, id: string): CompiledQuery<ListedPublisherRow> {
	return query
		.selectFrom("publishers as p")
		.selectAll()
		.select(HAS_RIGHTS.as("has_rights"))
		.where("app_id", "=", appIdOf(publicAppId))
		.where("id", "=", id)
		.compile();
}

export function insertPublisher(appId: AppId, values: Omit<Insertable<PublishersTable>, "app_id">): CompiledQuery {
	return query
		.insertInto("publishers")
		.values({ ...values, app_id: appId })
		.compile();
}

export function updatePublisher(appId: AppId, id: string, values: Updateable<PublishersTable>): CompiledQuery {
	return query.updateTable("publishers").set(values).where("app_id", "=", appId).where("id", "=", id).compile();
}

const publisher = (appId: AppId, id: string) =>
	query.selectFrom("publishers").where("id", "=", id).where("app_id", "=", appId);

/** Deletes a publisher with its key, its role bindings and the keys that jobs got from it. */
export function deletePublisher(orgId: OrgId, appId: AppId, id: string): CompiledQuery {
	return query
		.deleteFrom("api_keys")
		.where("org_id", "=", orgId)
		.where("id", "=", publisher(appId, id).select("api_key_id"))
		.compile();
}

/** Revokes the keys that jobs hold and, with `andRoles`, the roles of the publisher's own key. */
export function endPublisherRights(orgId: OrgId, appId: AppId, id: string, andRoles: boolean): CompiledQuery[] {
	const roles = query
		.deleteFrom("role_bindings")
		.where("org_id", "=", orgId)
		.where("api_key_id", "in", publisher(appId, id).select("api_key_id"));
	return [
		query.deleteFrom("ci_keys").where("publisher_id", "in", publisher(appId, id).select("id")).compile(),
		...(andRoles ? [roles.compile()] : []),
	];
}

/** Guard: the publisher is as it was read. */
export function publisherUnchanged(appId: AppId, { id, updated_at_ms }: Pick<PublisherRow, "id" | "updated_at_ms">) {
	return sql<boolean>`EXISTS (SELECT 1 FROM publishers WHERE app_id = ${appId} AND id = ${id} AND updated_at_ms = ${updated_at_ms})`;
}

/** Guard: all of these are channels of the app. */
export function channelsAreOf(appId: AppId, names: readonly string[]) {
	return sql<boolean>`(SELECT count(*) FROM channels WHERE app_id = ${appId} AND name IN ${jsonList(JSON.stringify(names))}) = ${names.length}`;
}

interface PublisherBinding {
	readonly id: string;
	readonly keyId: string;
	readonly orgId: OrgId;
	readonly appId: AppId;
	readonly role: RoleName;
	readonly parentId: string;
	readonly createdAtMs: number;
}

/**
 * The role of a publisher on one channel, which ends with the channel or with the publisher's role
 * on the app.
 */
export function insertPublisherChannel(binding: PublisherBinding, channel: string): CompiledQuery {
	const { id, keyId, orgId, appId, role, parentId, createdAtMs } = binding;
	const place = query.selectFrom("channels").where("app_id", "=", appId).where("name", "=", channel);
	return insertEach("role_bindings", place, (eb) => ({
		id,
		api_key_id: keyId,
		role_name: role,
		scope_type: "channel" as const,
		org_id: orgId,
		app_id: eb.ref("app_id"),
		channel_id: eb.ref("channels.id"),
		parent_binding_id: parentId,
		created_at_ms: createdAtMs,
	})).compile();
}

/**
 * A publisher that an identity token may be for, with what the exchange needs to know of its app
 * and key.
 */
export interface CandidateRow extends ListedPublisherRow {
	readonly public_app_id: string;
	readonly org_id: string;
	/** 1: its anchor is in the token. 0: only its owner is, so it serves to explain a refusal. */
	readonly is_anchored: 0 | 1;
}

/**
 * Live publishers of the issuer whose repository, or at least its owner, is among the token's
 * claims. Deleted apps and organizations have none.
 * @param anchors `name=value` of the token's claims
 */
export function candidatePublishers(
	issuer: string,
	anchors: readonly string[],
	publicAppId: string | undefined,
	limit: number,
): CompiledQuery<CandidateRow> {
	const list = jsonList(JSON.stringify(anchors));
	const ofApp = publicAppId === undefined ? sql`true` : sql`p.app_id = ${appIdOf(publicAppId)}`;
	const rows = (
		column: "anchor" | "owner_anchor",
	) => sql`SELECT p.*, a.app_id AS public_app_id, k.org_id, ${HAS_RIGHTS} AS has_rights,
			${sql.lit(column === "anchor" ? 1 : 0)} AS is_anchored
		FROM publishers p INNER JOIN apps a ON a.id = p.app_id INNER JOIN api_keys k ON k.id = p.api_key_id AND k.org_id = a.owner_org
		INNER JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
		WHERE p.issuer = ${issuer} AND ${sql.ref(`p.${column}`)} IN ${list} AND ${ofApp}`;
	return sql<CandidateRow>`SELECT * FROM (${rows("anchor")} UNION ALL ${rows("owner_anchor")} AND p.anchor NOT IN ${list})
		ORDER BY is_anchored DESC, created_at_ms, id LIMIT ${limit}`.compile(query);
}

/**
 * The provider of any publisher that names the issuer; no row: none does, so its keys are not
 * fetched.
 */
export function publisherOfIssuer(issuer: string): CompiledQuery<Pick<PublisherRow, "provider">> {
	return query.selectFrom("publishers").select("provider").where("issuer", "=", issuer).limit(1).compile();
}

/**
 * Guard: the publisher is as it was read, its app is still in the organization of its key, and the
 * organization is not deleted.
 */
export function publisherMints({ id, updated_at_ms }: CandidateRow) {
	return sql<boolean>`EXISTS (SELECT 1 FROM publishers p INNER JOIN apps a ON a.id = p.app_id
		INNER JOIN api_keys k ON k.id = p.api_key_id AND k.org_id = a.owner_org
		INNER JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
		WHERE p.id = ${id} AND p.updated_at_ms = ${updated_at_ms})`;
}

/** Fails on a token that was exchanged before: see `onUnique`. */
export function spendIdentityToken(hash: string, expiresAtMs: number): CompiledQuery {
	return query.insertInto("spent_identity_tokens").values({ hash, expires_at_ms: expiresAtMs }).compile();
}

/** Guard: the hash is not spent. */
export function isUnspent(hash: string) {
	return sql<boolean>`NOT EXISTS (SELECT 1 FROM spent_identity_tokens WHERE hash = ${hash})`;
}

/** The statements that give a job its key. */
export function insertCiKey(
	key: {
		readonly hash: string;
		readonly ci: string;
		/** The pull request that the key is limited to, null to none; undefined: no such limit. */
		readonly limit: PullRequestOfJob | null | undefined;
		readonly expiresAtMs: number;
	},
	publisherId: string,
	nowMs: number,
): CompiledQuery[] {
	return [
		query
			.insertInto("ci_keys")
			.values({
				key_hash: key.hash,
				publisher_id: publisherId,
				ci: key.ci,
				created_at_ms: nowMs,
				expires_at_ms: key.expiresAtMs,
				is_limited: key.limit === undefined ? 0 : 1,
				repository: key.limit?.repository ?? null,
				number: key.limit?.number ?? null,
				branch: key.limit?.branch ?? null,
			})
			.compile(),
		query
			.updateTable("publishers")
			.set({ last_used_at_ms: nowMs, last_ci: key.ci })
			.where("id", "=", publisherId)
			.compile(),
	];
}

/** Guard: the publisher has given out fewer live keys than this. */
export function hasFewCiKeys(publisherId: string, most: number, nowMs: number) {
	return sql<boolean>`(SELECT count(*) FROM ci_keys WHERE publisher_id = ${publisherId} AND expires_at_ms > ${nowMs}) < ${most}`;
}

export interface IssuerKeysRow {
	readonly keys: string | null;
	readonly fetched_at_ms: number | null;
	readonly attempted_at_ms: number;
}

export function issuerKeysOf(issuer: string): CompiledQuery<IssuerKeysRow> {
	return query
		.selectFrom("issuer_keys")
		.select(["keys", "fetched_at_ms", "attempted_at_ms"])
		.where("issuer", "=", issuer)
		.compile();
}

/**
 * Takes the right to fetch the issuer's keys now; no row returns while another request took it
 * since `notSinceMs`.
 */
export function claimFetch(issuer: string, nowMs: number, notSinceMs: number): CompiledQuery<{ issuer: string }> {
	return query
		.insertInto("issuer_keys")
		.values({ issuer, attempted_at_ms: nowMs })
		.onConflict((conflict) =>
			conflict
				.column("issuer")
				.doUpdateSet({ attempted_at_ms: nowMs })
				.where("issuer_keys.attempted_at_ms", "<=", notSinceMs),
		)
		.returning("issuer")
		.compile();
}

/** Until the next attempt is allowed. */
export function noteFailedFetch(issuer: string, nowMs: number): CompiledQuery {
	return query.updateTable("issuer_keys").set({ attempted_at_ms: nowMs }).where("issuer", "=", issuer).compile();
}

export function storeIssuerKeys(issuer: string, keys: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("issuer_keys")
		.set({ keys, fetched_at_ms: nowMs, attempted_at_ms: nowMs })
		.where("issuer", "=", issuer)
		.compile();
}

/** An expired key of a CI job is reported as expired for this time, and as invalid afterwards. */
const CI_KEY_ERROR_MS = DAY_MS;
/**
 * Per run of the clean-up: strangers cause them, so there may be many, and no other row depends on
 * them.
 */
const MOST_OLD_ROWS = 5_000;

/**
 * Deletes expired keys of jobs and spent tokens, and the keys of issuers that no publisher names.
 */
export function deleteOldIdentities(nowMs: number): CompiledQuery[] {
	const keys = query
		.selectFrom("ci_keys")
		.select("key_hash")
		.where("expires_at_ms", "<=", nowMs - CI_KEY_ERROR_MS)
		.orderBy("expires_at_ms")
		.limit(MOST_OLD_ROWS);
	const tokens = query
		.selectFrom("spent_identity_tokens")
		.select("hash")
		.where("expires_at_ms", "<=", nowMs)
		.orderBy("expires_at_ms")
		.limit(MOST_OLD_ROWS);
	return [
		query.deleteFrom("ci_keys").where("key_hash", "in", keys).compile(),
		query.deleteFrom("spent_identity_tokens").where("hash", "in", tokens).compile(),
		query
			.deleteFrom("issuer_keys")
			.where("issuer", "not in", query.selectFrom("publishers").select("issuer"))
			.compile(),
	];
}
