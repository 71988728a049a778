/**
 * Statements that load the caller of a request: a key or a session, with its live role bindings.
 * Each is one statement, so that a request can send its own reads in the same round trip.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { Flag, PolicyColumns, PrincipalRow } from "../authz/principal";
import { SESSION_IDLE_MS, type SessionRow } from "../authz/session";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { query } from "./client";
import { CUSTOM_PERMISSIONS } from "./custom-roles";
import { prepared } from "./prepared";

/**
 * The key with this hash, or with this previous hash during its overlap, or the key of the
 * publisher that gave this hash to a CI job, and its live bindings with the policy of each
 * organization. A binding that came from another one lives only as long as that one.
 */
export function principalStatement(keyHash: string, nowMs: number): CompiledQuery<PrincipalRow> {
	return keyStatement({ keyHash, nowMs });
}

/**
 * SQL: the previews of the pull request that the key `t` of the publisher `p` is limited to. Tokens
 * of GitLab name its branch only. Those of GitHub do so after the merge, and then the job reaches
 * nothing of a preview except its end (`requireOwnPullRequest`).
 */
const PREVIEWS_OF_JOB = sql<string>`SELECT v.id FROM previews v
				WHERE v.app_id = p.app_id AND v.repository = t.repository AND v.number = t.number
				UNION ALL SELECT v.id FROM previews v WHERE t.number IS NULL AND p.provider = 'gitlab'
					AND v.app_id = p.app_id AND v.repository = t.repository AND v.head_branch = t.branch`;

/**
 * SQL: jobs of a publisher share its key and the key's bindings, but a limited one reaches the
 * channel of its own preview only.
 */
const MAY_REACH_CHANNEL = sql<boolean>`(t.is_limited IS NOT 1 OR b.channel_id IS NULL
				OR EXISTS (SELECT 1 FROM previews v WHERE v.channel_id = b.channel_id AND v.id IN (${PREVIEWS_OF_JOB})))`;

const keyStatement = prepared<{ keyHash: string; nowMs: number }, PrincipalRow>((value) => {
	const [keyHash, nowMs] = [value("keyHash"), value("nowMs")];
	return sql<PrincipalRow>`
		SELECT k.id, k.name, k.user_id, k.org_id, coalesce(t.expires_at_ms, k.expires_at_ms) AS expires_at_ms,
			k.global_permissions, k.key_ciphertext IS NULL AS is_hashed_key,
			k.ip_allow_list, k.last_used_at_ms, ${keyHash} AS secret_hash,
			t.key_hash IS NULL AND k.key_hash <> ${keyHash} AS secret_is_replaced,
			p.id AS publisher_id, p.name AS publisher_name, p.stage AS publisher_stage, t.ci,
			t.is_limited AS job_is_limited, t.repository AS job_repository, t.number AS job_number, t.branch AS job_branch,
			(SELECT json_group_array(id) FROM (${PREVIEWS_OF_JOB})) AS job_preview_ids, home.enforce_hashed_api_keys, home.require_apikey_expiration,
			home.max_apikey_expiration_days,
			(SELECT json_group_array(json_object('orgId', b.org_id, 'role', b.role_name,
					'customPermissions', json(${CUSTOM_PERMISSIONS}))) FROM role_bindings b
				WHERE b.user_id = k.user_id AND b.scope_type = 'org'
					AND coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}) AS account_roles,
			${liveBindings(sql<boolean>`o.id = b.org_id AND b.api_key_id = k.id AND ${MAY_REACH_CHANNEL}`, nowMs)} AS bindings
		FROM api_keys k INNER JOIN organizations home ON home.id = k.org_id
		LEFT JOIN ci_keys t ON t.key_hash = ${keyHash} LEFT JOIN publishers p ON p.id = t.publisher_id
		WHERE k.key_hash = ${keyHash} OR (k.previous_key_hash = ${keyHash} AND k.previous_valid_until_ms > ${nowMs})
			OR k.id = (SELECT api_key_id FROM publishers WHERE id = (SELECT publisher_id FROM ci_keys WHERE key_hash = ${keyHash}))`.compile(
		query,
	);
});

/**
 * JSON array of the live bindings `b` of one holder, with the policy of each one's organization
 * `o`.
 * @param join the condition that joins both
 * @param bindings `ACCOUNT_BINDINGS` for a person
 */
export function liveBindings(
	join: RawBuilder<boolean>,
	nowMs: number,
	bindings: RawBuilder<unknown> = sql.table("role_bindings"),
): RawBuilder<string> {
	return sql<string>`(SELECT json_group_array(json_object('id', b.id, 'role', b.role_name,
				'customPermissions', json(${CUSTOM_PERMISSIONS}), 'scopeType', b.scope_type,
				'orgId', b.org_id, 'appId', b.app_id, 'channelId', b.channel_id, 'deleted', o.deleted_at_ms IS NOT NULL,
				'enforce_hashed_api_keys', o.enforce_hashed_api_keys, 'require_apikey_expiration', o.require_apikey_expiration,
				'max_apikey_expiration_days', o.max_apikey_expiration_days))
			FROM ${bindings} b INNER JOIN organizations o ON ${join}
			LEFT JOIN role_bindings parent ON parent.id = b.parent_binding_id
			WHERE coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}
				AND coalesce(parent.expires_at_ms, ${nowMs} + 1) > ${nowMs})`;
}

/**
 * The key or the account that began an upload, with what it may do now; for the use of a link that
 * was given to it.
 */
export interface UploaderRow extends PolicyColumns {
	readonly app_id: string;
	readonly owner_org: string;
	readonly created_by_key: string | null;
	/** Null: the key was revoked, or there is none. */
	readonly key_id: string | null;
	readonly expires_at_ms: number | null;
	readonly is_hashed_key: Flag;
	readonly ip_allow_list: string | null;
	/** The link ends earlier if the secret that asked for it was replaced. */
	readonly link_expires_at_ms: number;
	/** 0: the key of the CI job ended. */
	readonly job_is_live: Flag;
	readonly key_bindings: string;
	readonly account_bindings: string;
}

export const uploaderStatement = prepared<{ uploadId: string; nowMs: number }, UploaderRow>((value) => {
	const [uploadId, nowMs] = [value("uploadId"), value("nowMs")];
	const byPerson = sql<boolean>`o.id = b.org_id AND u.created_by_key IS NULL AND b.user_id = u.created_by`;
	return sql<UploaderRow>`SELECT u.app_id, a.owner_org, u.created_by_key, u.expires_at_ms AS link_expires_at_ms,
			k.id AS key_id, k.expires_at_ms, k.ip_allow_list,
			k.key_ciphertext IS NULL AS is_hashed_key, coalesce(home.enforce_hashed_api_keys, 0) AS enforce_hashed_api_keys,
			coalesce(home.require_apikey_expiration, 0) AS require_apikey_expiration, home.max_apikey_expiration_days,
			u.created_by_job IS NULL OR EXISTS (SELECT 1 FROM ci_keys t WHERE t.key_hash = u.created_by_job
				AND t.expires_at_ms > ${nowMs}) AS job_is_live,
			${liveBindings(sql<boolean>`o.id = b.org_id AND b.api_key_id = k.id`, nowMs)} AS key_bindings,
			${liveBindings(byPerson, nowMs, ACCOUNT_BINDINGS)} AS account_bindings
		FROM uploads u INNER JOIN apps a ON a.id = u.app_id LEFT JOIN api_keys k ON k.id = u.created_by_key
			LEFT JOIN organizations home ON home.id = k.org_id
		WHERE u.id = ${uploadId}`.compile(query);
});

/** SQL: the session `s` is live. */
export const sessionIsLive = (nowMs: number) =>
	sql<boolean>`s.expires_at_ms > ${nowMs} AND s.last_seen_at_ms > ${nowMs - SESSION_IDLE_MS}`;

/** The live session with this hash, and the live bindings of its account. */
export function sessionStatement(tokenHash: string, nowMs: number): CompiledQuery<SessionRow> {
	return sql<SessionRow>`
		SELECT s.id, s.user_id, u.email, s.token_hash, s.created_at_ms, s.last_seen_at_ms, s.method,
			EXISTS (SELECT 1 FROM passkeys WHERE user_id = u.id) AS has_passkey, u.global_permissions,
			${liveBindings(sql<boolean>`o.id = b.org_id AND b.user_id = u.id`, nowMs, ACCOUNT_BINDINGS)} AS bindings
		FROM sessions s INNER JOIN users u ON u.id = s.user_id
		WHERE s.token_hash = ${tokenHash} AND ${sessionIsLive(nowMs)}`.compile(query);
}
