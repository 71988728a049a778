/**
 * Who is calling: an API key with the role bindings that are live now. It is loaded by one statement, so that a request can send its
 * own reads in the same round trip. A key has only its own bindings: nothing of its owner's is ever added.
 */
import { type CompiledQuery, sql } from "kysely";
import { query } from "../db/client";
import type { ScopeType } from "../db/schema";
import { ApiError } from "../errors";
import { GLOBAL_PERMISSIONS, type GlobalPermission, isRoleName, type RoleName } from "./permissions";

export interface Binding {
	readonly id: string;
	readonly role: RoleName;
	readonly scopeType: ScopeType;
	readonly orgId: string;
	readonly appId: string | null;
	readonly channelId: number | null;
}

export interface Principal {
	readonly keyId: string;
	readonly keyName: string;
	/** The account that the key acts for. */
	readonly userId: string;
	/** The organization that the key belongs to. */
	readonly orgId: string;
	readonly bindings: readonly Binding[];
	readonly globalPermissions: readonly GlobalPermission[];
}

export interface PrincipalRow {
	readonly id: string;
	readonly name: string;
	readonly user_id: string;
	readonly org_id: string;
	readonly expires_at_ms: number | null;
	readonly global_permissions: string;
	readonly bindings: string;
}

/** The key with this hash and its live bindings; a binding that came from another lives only while that other does. */
export function principalStatement(keyHash: string, nowMs: number): CompiledQuery<PrincipalRow> {
	return sql<PrincipalRow>`
		SELECT k.id, k.name, k.user_id, k.org_id, k.expires_at_ms, k.global_permissions,
			(SELECT json_group_array(json_object('id', b.id, 'role', b.role_name, 'scopeType', b.scope_type,
				'orgId', b.org_id, 'appId', b.app_id, 'channelId', b.channel_id))
			FROM role_bindings b LEFT JOIN role_bindings parent ON parent.id = b.parent_binding_id
			WHERE b.api_key_id = k.id AND coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}
				AND coalesce(parent.expires_at_ms, ${nowMs} + 1) > ${nowMs}) AS bindings
		FROM api_keys k WHERE k.key_hash = ${keyHash}`.compile(query);
}

/**
 * @throws {ApiError} `invalid_api_key` when there is no such key (a revoked key is no key), `expired_api_key` from the millisecond of
 * its expiry on
 */
export function principalFrom(row: PrincipalRow | undefined, nowMs: number): Principal {
	if (row === undefined) throw invalidApiKey();
	if (row.expires_at_ms !== null && row.expires_at_ms <= nowMs) {
		throw new ApiError("expired_api_key", "The API key has expired; create a new one.");
	}
	const bindings: (Omit<Binding, "role"> & { role: string })[] = JSON.parse(row.bindings);
	const globalPermissions: string[] = JSON.parse(row.global_permissions);
	return {
		keyId: row.id,
		keyName: row.name,
		userId: row.user_id,
		orgId: row.org_id,
		// A role of a newer version than this one grants nothing.
		bindings: bindings.filter((binding): binding is Binding => isRoleName(binding.role)),
		globalPermissions: GLOBAL_PERMISSIONS.filter((permission) => globalPermissions.includes(permission)),
	};
}

/** One answer for unknown, malformed and revoked keys, so that it tells nothing apart. */
export function invalidApiKey(): ApiError {
	return new ApiError("invalid_api_key", "The API key is not valid; check that it was copied whole and not revoked.");
}
