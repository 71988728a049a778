/**
 * Scopes of the endpoints for API keys: which organization authorizes a request about a key; and
 * the errors that these endpoints share.
 */
import type { RawBuilder } from "kysely";
import type { PolicyColumns } from "../../authz/principal";
import { hashKey, isWellFormedKey } from "../../authz/secrets";
import { type KeyId, keyIdOfSecret } from "../../db/api-keys";
import { query } from "../../db/client";
import { ApiError, invalidRequest } from "../../errors";
import { hiddenAs, organizationNotFound, type RawInput, type ScopeSource, textAt } from "../../http/scope";

export const keyNotFound = hiddenAs(
	"api_key_not_found",
	"No API key with this id is visible to the caller. List the keys with GET /apikey.",
);

const POLICY_COLUMNS = [
	"organizations.enforce_hashed_api_keys",
	"organizations.require_apikey_expiration",
	"organizations.max_apikey_expiration_days",
] as const;

type KeyScopeRow = PolicyColumns & { id: string; org_id: string };

const scopeOfKey = (id: KeyId) =>
	query
		.selectFrom("api_keys")
		.innerJoin("organizations", "organizations.id", "api_keys.org_id")
		.select(["api_keys.id", "api_keys.org_id", ...POLICY_COLUMNS])
		.where("api_keys.id", "=", id)
		.compile();

/** The key of a path that names it by its id, or by its secret. */
export const keyNamed = (name: string | undefined): KeyId =>
	name !== undefined && isWellFormedKey(name) ? keyIdOfSecret(hashKey(name)) : (name ?? "").toLowerCase();

/** Scope: the organization of the key `:id`. */
export const keyScope: ScopeSource<KeyScopeRow> = {
	statement: (raw) => scopeOfKey((raw.params.id ?? "").toLowerCase()),
	target: (row) => ({ orgId: row.org_id }),
	hidden: keyNotFound,
};

/**
 * Scope: the organization `org_id` if the key belongs to it or has a binding in it; without
 * `org_id`, the key's organization.
 */
export const boundKeyScope = boundScope((name) => (name ?? "").toLowerCase());

/** The same for a key that the path names by its id or its secret. */
export const revokedKeyScope = boundScope(keyNamed);

function boundScope(idOf: (name: string | undefined) => KeyId): ScopeSource<KeyScopeRow> {
	return { ...keyScope, statement: (raw) => boundStatement(raw, idOf(raw.params.id)) };
}

function boundStatement(raw: RawInput, id: KeyId) {
	const orgId = textAt(raw, "query.org_id")?.toLowerCase();
	if (orgId === undefined) return scopeOfKey(id);
	return query
		.selectFrom("api_keys")
		.innerJoin("organizations", (join) => join.on("organizations.id", "=", orgId))
		.select(["api_keys.id", "organizations.id as org_id", ...POLICY_COLUMNS])
		.where("api_keys.id", "=", id)
		.where((eb) =>
			eb.or([
				eb("api_keys.org_id", "=", orgId),
				eb.exists(
					eb
						.selectFrom("role_bindings")
						.select("role_bindings.id")
						.whereRef("role_bindings.api_key_id", "=", "api_keys.id")
						.where("role_bindings.org_id", "=", orgId),
				),
			]),
		)
		.compile();
}

export const scopeOfNewKey = (orgId: string | RawBuilder<string>) =>
	query
		.selectFrom("organizations")
		.select(["organizations.id", ...POLICY_COLUMNS])
		.where("id", "=", orgId)
		.where("deleted_at_ms", "is", null)
		.compile();

/**
 * Scope: the organization of a new key, which is `org_id` of the query or the one in its bindings.
 */
export const newKeyScope: ScopeSource<PolicyColumns & { id: string }> = {
	missing: { path: "org_id", message: "is required unless bindings name the organization" },
	statement: (raw) => {
		const orgId = textAt(raw, "query.org_id") ?? textAt(raw, "body.bindings.0.org_id");
		return orgId === undefined ? undefined : scopeOfNewKey(orgId.toLowerCase());
	},
	target: (row) => ({ orgId: row.id }),
	hidden: organizationNotFound,
};

export function keyChanged(): ApiError {
	return new ApiError("api_key_changed", "The API key was changed by another request. Read it again and retry.");
}

/** 400 for an app or a channel that was deleted between reading and writing. */
export function appsDeleted(): ApiError {
	return invalidRequest([
		{
			path: "bindings",
			message: "name an app or a channel that was just deleted; list them with GET /app and GET /channel, and retry",
		},
	]);
}
