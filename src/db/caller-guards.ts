/**
 * Guards of every write that a caller asks for: its credential is still valid, and the bindings
 * that allowed the request are still there. They read only the caller's own rows, so a revocation
 * that another isolate wrote meanwhile aborts the batch.
 */
import { sql } from "kysely";
import type { Principal } from "../authz/principal";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { jsonList } from "./client";

/**
 * Guard: the caller still has every binding of the decision, and is still valid: a key keeps its
 * secret, expiry and address limit; the publisher of a CI job exists; a session has not ended.
 */
export function callerUnchanged(
	caller: Pick<Principal, "kind" | "userId" | "keyId" | "secretHash" | "expiresAtMs" | "ipAllowList"> & {
		readonly publisher?: { readonly id: string } | undefined;
		readonly bindings: readonly { readonly id: string }[];
	},
) {
	const ids = caller.bindings.map((binding) => binding.id);
	if (caller.keyId === null) {
		return sql<boolean>`EXISTS (SELECT 1 FROM sessions WHERE user_id = ${caller.userId} AND token_hash = ${caller.secretHash})
			AND (SELECT count(*) FROM ${ACCOUNT_BINDINGS} WHERE user_id = ${caller.userId}
				AND id IN ${jsonList(JSON.stringify(ids))}) = ${ids.length}`;
	}
	const addresses = caller.ipAllowList === null ? null : JSON.stringify(caller.ipAllowList);
	if (caller.publisher !== undefined) {
		return sql<boolean>`EXISTS (SELECT 1 FROM ci_keys t INNER JOIN publishers p ON p.id = t.publisher_id
				WHERE t.key_hash = ${caller.secretHash} AND p.api_key_id = ${caller.keyId} AND p.id = ${caller.publisher.id})
			AND ${bindingsUnchanged(caller.keyId, ids)}`;
	}
	return sql<boolean>`EXISTS (SELECT 1 FROM api_keys WHERE id = ${caller.keyId}
			AND ${caller.secretHash} IN (key_hash, coalesce(previous_key_hash, key_hash))
			AND expires_at_ms IS ${caller.expiresAtMs} AND ip_allow_list IS ${addresses})
		AND ${bindingsUnchanged(caller.keyId, ids)}`;
}

/** Guard: the account still has these roles on the whole organization. */
export function accountRolesAre(userId: string, orgId: string, roles: readonly string[]) {
	return sql<boolean>`(SELECT count(*) FROM role_bindings WHERE user_id = ${userId} AND org_id = ${orgId} AND scope_type = 'org'
		AND role_name IN ${jsonList(JSON.stringify(roles))}) = ${roles.length}`;
}

/** Guard: the caller still has the bindings on the channel, or the channel is not there. */
export function channelBindingsAre(
	{ userId, keyId }: Pick<Principal, "userId" | "keyId">,
	channelId: number,
	ids: readonly string[],
) {
	const held =
		keyId === null
			? sql`${ACCOUNT_BINDINGS} WHERE user_id = ${userId}`
			: sql`role_bindings WHERE api_key_id = ${keyId}`;
	return sql<boolean>`(NOT EXISTS (SELECT 1 FROM channels WHERE id = ${channelId})
		OR (SELECT count(*) FROM ${held} AND id IN ${jsonList(JSON.stringify(ids))}) = ${ids.length})`;
}

/** Guard: the key still has these bindings. */
export function bindingsUnchanged(keyId: string, ids: readonly string[]) {
	return sql<boolean>`(SELECT count(*) FROM role_bindings WHERE api_key_id = ${keyId}
		AND id IN ${jsonList(JSON.stringify(ids))}) = ${ids.length}`;
}
