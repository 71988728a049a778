/**
 * The rows of a first run: one account, one organization, one admin key. Local starts and deployments insert the same rows, and
 * inserting them into a database that already has an organization does nothing.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { MintedKey } from "../authz/keys";
import { query } from "./client";

export interface Bootstrap {
	readonly organizationId: string;
	readonly statements: CompiledQuery[];
}

export const FIRST_ORGANIZATION_NAME = "My organization";
export const FIRST_ACCOUNT_EMAIL = "admin@capstan.local";
const FIRST_KEY_NAME = "First admin key";

/** The statements, to be run as one batch. `key` holds `org_super_admin` on the first organization, and `org.create`. */
export function bootstrapStatements(key: MintedKey, newId: () => string, nowMs: number): Bootstrap {
	const [userId, organizationId, keyId] = [newId(), newId(), newId()];
	const untouched = sql`WHERE NOT EXISTS (SELECT 1 FROM organizations)`;
	const created = sql`WHERE EXISTS (SELECT 1 FROM organizations WHERE id = ${organizationId})`;
	const statements = [
		sql`INSERT INTO users (id, email, created_at_ms)
			SELECT ${userId}, ${FIRST_ACCOUNT_EMAIL}, ${nowMs} ${untouched}`,
		sql`INSERT INTO organizations (id, name, created_by, created_at_ms, updated_at_ms)
			SELECT ${organizationId}, ${FIRST_ORGANIZATION_NAME}, ${userId}, ${nowMs}, ${nowMs} ${untouched}`,
		sql`INSERT INTO api_keys (id, org_id, user_id, name, key_hash, key_hint, global_permissions, created_at_ms, updated_at_ms)
			SELECT ${keyId}, ${organizationId}, ${userId}, ${FIRST_KEY_NAME}, ${key.hash}, ${key.hint}, '["org.create"]', ${nowMs}, ${nowMs} ${created}`,
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${newId()}, ${keyId}, 'org_super_admin', 'org', ${organizationId}, ${nowMs} ${created}`,
		sql`INSERT INTO role_bindings (id, user_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${newId()}, ${userId}, 'org_super_admin', 'org', ${organizationId}, ${nowMs} ${created}`,
		firstEntry(nowMs, newId(), "organization.create", "organization", organizationId, FIRST_ORGANIZATION_NAME, created),
		firstEntry(nowMs, newId(), "api_key.create", "api_key", keyId, FIRST_KEY_NAME, created, organizationId),
	];
	return { organizationId, statements: statements.map((statement) => statement.compile(query)) };
}

/** What the first run did, for the audit log: nobody had a key yet. */
function firstEntry(
	nowMs: number,
	requestId: string,
	action: string,
	targetType: string,
	targetId: string,
	targetName: string,
	condition: RawBuilder<unknown>,
	organizationId = targetId,
) {
	return sql`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, target_name, after, request_id)
		SELECT ${organizationId}, ${nowMs}, 'system', 'first run', ${action}, ${targetType}, ${targetId}, ${targetName},
			json_object('name', ${targetName}), ${requestId} ${condition}`;
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** Of a new admin key where the organization demands an expiry and says no more. */
const REPLACEMENT_LIFE_DAYS = 90;

/**
 * Takes the first admin key's place: a new key with the same rights on the same organization, the old one gone. It meets the policies
 * of the organization, so it works even where they stopped every other key.
 */
export function replaceFirstKeyStatements(key: MintedKey, newId: () => string, nowMs: number): CompiledQuery[] {
	const keyId = newId();
	const firstFirst = sql`deleted_at_ms IS NOT NULL, created_at_ms`;
	const first = sql`(SELECT id, created_by, CASE
			WHEN max_apikey_expiration_days IS NOT NULL THEN ${nowMs} + max_apikey_expiration_days * ${DAY_MS}
			WHEN require_apikey_expiration = 1 THEN ${nowMs + REPLACEMENT_LIFE_DAYS * DAY_MS} END AS expires_at_ms
		FROM organizations ORDER BY ${firstFirst} LIMIT 1) AS first`;
	const statements = [
		sql`DELETE FROM api_keys WHERE name = ${FIRST_KEY_NAME}
			AND org_id = (SELECT id FROM organizations ORDER BY ${firstFirst} LIMIT 1)`,
		sql`INSERT INTO api_keys
			(id, org_id, user_id, name, key_hash, key_hint, global_permissions, expires_at_ms, created_at_ms, updated_at_ms)
			SELECT ${keyId}, first.id, first.created_by, ${FIRST_KEY_NAME}, ${key.hash}, ${key.hint}, '["org.create"]', first.expires_at_ms,
				${nowMs}, ${nowMs} FROM ${first}`,
		sql`INSERT INTO role_bindings (id, api_key_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ${newId()}, ${keyId}, 'org_super_admin', 'org', first.id, ${nowMs} FROM ${first}`,
		sql`INSERT INTO audit_log (org_id, at_ms, actor_type, actor_name, action, target_type, target_id, target_name, after, request_id)
			SELECT first.id, ${nowMs}, 'system', 'operator', 'api_key.replace_first', 'api_key', ${keyId}, ${FIRST_KEY_NAME},
				json_object('name', ${FIRST_KEY_NAME}), ${newId()} FROM ${first}`,
	];
	return statements.map((statement) => statement.compile(query));
}
