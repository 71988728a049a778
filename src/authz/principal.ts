/**
 * Who is calling: an API key, or a person with a session (session.ts), with the role bindings that are live now. Either is loaded by one
 * statement, so that a request can send its own reads in the same round trip. A key has only its own bindings: nothing of its owner's is
 * ever added; a session has its account's, and nothing of any key's.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { query } from "../db/client";
import { prepared } from "../db/prepared";
import type { Flag, ScopeType } from "../db/schema";
import { isInRanges } from "../domain/ip-allow-list";
import { brokenPolicy, type KeyPolicy, type KeyPolicyName, POLICY_REMEDIES } from "../domain/key-policy";
import { ApiError } from "../errors";
import { GLOBAL_PERMISSIONS, type GlobalPermission, isRoleName, type Permission, type RoleName } from "./permissions";

export interface Binding {
	readonly id: string;
	readonly role: RoleName;
	readonly scopeType: ScopeType;
	readonly orgId: string;
	readonly appId: string | null;
	readonly channelId: number | null;
	/** The policy of the binding's organization that the key breaks: the binding grants nothing. */
	readonly stoppedBy?: KeyPolicyName;
	/** The binding's organization is deleted: all that it can grant is to undo that. */
	readonly inDeletedOrganization?: true;
}

export type Principal = KeyPrincipal | SessionPrincipal;

interface Caller {
	/** The account that calls, or that the key acts for. */
	readonly userId: string;
	readonly bindings: readonly Binding[];
	readonly globalPermissions: readonly GlobalPermission[];
	/** When its rights end; null: never. Those of a session are its account's, and outlive it. */
	readonly expiresAtMs: number | null;
	/** Ranges that it may be used from; null: everywhere. */
	readonly ipAllowList: readonly string[] | null;
	/** Hash of the secret that was presented: of a key the current one's, or the previous one's while that is still good. */
	readonly secretHash: string;
}

export interface KeyPrincipal extends Caller {
	readonly kind: "key";
	readonly keyId: string;
	readonly keyName: string;
	/** The organization that the key belongs to. */
	readonly orgId: string;
	/** As the database knows it, to the minute. */
	readonly lastUsedAtMs: number | null;
	/** The secret has been replaced by a new one and is good for the rest of the overlap alone. */
	readonly secretIsReplaced: boolean;
	/** Roles of the key's account on whole organizations: a key gives no rights that its account could not give itself. */
	readonly accountRoles: readonly AccountRole[];
}

export interface AccountRole {
	readonly orgId: string;
	readonly role: RoleName;
}

export interface SessionPrincipal extends Caller {
	readonly kind: "session";
	/** There is none; what is written down as a key's work is not a session's. */
	readonly keyId: null;
	readonly sessionId: string;
	readonly email: string;
	readonly signedInAtMs: number;
	readonly signedInByPasskey: boolean;
	readonly hasPasskey: boolean;
	readonly lastSeenAtMs: number;
}

/** Who made a bundle, a channel or an upload, as their rows say it. */
export interface Made {
	readonly created_by: string;
	readonly created_by_key: string | null;
}

/** Whether this very key made it, or this account without a key. */
export function isOwnWork(made: Made, { userId, keyId }: Pick<Principal, "userId" | "keyId">): boolean {
	return made.created_by_key === keyId && (keyId !== null || made.created_by === userId);
}

/** The policies of an organization, as its row has them. */
export interface PolicyColumns {
	readonly enforce_hashed_api_keys: Flag;
	readonly require_apikey_expiration: Flag;
	readonly max_apikey_expiration_days: number | null;
}

export interface PrincipalRow extends PolicyColumns {
	readonly id: string;
	readonly name: string;
	readonly user_id: string;
	readonly org_id: string;
	readonly expires_at_ms: number | null;
	readonly global_permissions: string;
	readonly is_hashed_key: Flag;
	readonly ip_allow_list: string | null;
	readonly last_used_at_ms: number | null;
	readonly secret_hash: string;
	readonly secret_is_replaced: Flag;
	readonly account_roles: string;
	readonly bindings: string;
}

/** A binding in the JSON of a PrincipalRow. */
interface BindingRow extends PolicyColumns {
	readonly id: string;
	readonly role: string;
	readonly scopeType: ScopeType;
	readonly orgId: string;
	readonly appId: string | null;
	readonly channelId: number | null;
	readonly deleted: Flag;
}

/**
 * The key with this hash, or with this hash before its last regeneration while that is still good, and its live bindings with the
 * policy of each one's organization. A binding that came from another lives only while that other does.
 */
export function principalStatement(keyHash: string, nowMs: number): CompiledQuery<PrincipalRow> {
	return keyStatement({ keyHash, nowMs });
}

const keyStatement = prepared<{ keyHash: string; nowMs: number }, PrincipalRow>((value) => {
	const [keyHash, nowMs] = [value("keyHash"), value("nowMs")];
	return sql<PrincipalRow>`
		SELECT k.id, k.name, k.user_id, k.org_id, k.expires_at_ms, k.global_permissions, k.key_ciphertext IS NULL AS is_hashed_key,
			k.ip_allow_list, k.last_used_at_ms, ${keyHash} AS secret_hash,
			k.key_hash <> ${keyHash} AS secret_is_replaced, home.enforce_hashed_api_keys, home.require_apikey_expiration,
			home.max_apikey_expiration_days,
			(SELECT json_group_array(json_object('orgId', b.org_id, 'role', b.role_name)) FROM role_bindings b
				WHERE b.user_id = k.user_id AND b.scope_type = 'org'
					AND coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}) AS account_roles,
			${liveBindings(sql`ON o.id = b.org_id AND b.api_key_id = k.id`, nowMs)} AS bindings
		FROM api_keys k INNER JOIN organizations home ON home.id = k.org_id
		WHERE k.key_hash = ${keyHash} OR (k.previous_key_hash = ${keyHash} AND k.previous_valid_until_ms > ${nowMs})`.compile(
		query,
	);
});

/**
 * JSON array of the live bindings `b` of somebody, with the policy of each one's organization `o`.
 * @param on whose they are, written as the whole of the clause, so that the mutation run finds its conditions
 */
export function liveBindings(on: RawBuilder<unknown>, nowMs: number): RawBuilder<string> {
	return sql<string>`(SELECT json_group_array(json_object('id', b.id, 'role', b.role_name, 'scopeType', b.scope_type,
				'orgId', b.org_id, 'appId', b.app_id, 'channelId', b.channel_id, 'deleted', o.deleted_at_ms IS NOT NULL,
				'enforce_hashed_api_keys', o.enforce_hashed_api_keys, 'require_apikey_expiration', o.require_apikey_expiration,
				'max_apikey_expiration_days', o.max_apikey_expiration_days))
			FROM role_bindings b INNER JOIN organizations o ${on}
			LEFT JOIN role_bindings parent ON parent.id = b.parent_binding_id
			WHERE coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}
				AND coalesce(parent.expires_at_ms, ${nowMs} + 1) > ${nowMs})`;
}

/**
 * @param ipAddress where the request comes from; null when nobody knows
 * @throws {ApiError} `invalid_api_key` when there is no such key (a revoked key is no key), `expired_api_key` from the millisecond of
 * its expiry on, `ip_address_not_allowed` outside its ranges, `api_key_violates_policy` when its own organization does not allow it
 */
export function principalFrom(row: PrincipalRow | undefined, nowMs: number, ipAddress: string | null): KeyPrincipal {
	if (row === undefined) throw invalidApiKey();
	if (row.expires_at_ms !== null && row.expires_at_ms <= nowMs) {
		throw new ApiError(
			"expired_api_key",
			"The API key has expired; have its expires_at changed by an administrator, or use another key.",
		);
	}
	const ipAllowList: string[] | null = row.ip_allow_list === null ? null : JSON.parse(row.ip_allow_list);
	if (ipAllowList !== null && !isInRanges(ipAllowList, ipAddress)) {
		throw new ApiError(
			"ip_address_not_allowed",
			"The API key may not be used from this address; use it from its ip_allow_list or have that changed.",
			{ moreInfo: { ip_address: ipAddress } },
		);
	}
	const key = { hashed: row.is_hashed_key === 1, expiresAtMs: row.expires_at_ms };
	const broken = brokenPolicy(policyOf(row), key, nowMs);
	if (broken !== undefined) throw violatesPolicy(broken, row.org_id);
	return {
		kind: "key",
		keyId: row.id,
		keyName: row.name,
		userId: row.user_id,
		orgId: row.org_id,
		bindings: bindingsFrom(row.bindings, (policy) => brokenPolicy(policy, key, nowMs)),
		globalPermissions: globalPermissionsFrom(row.global_permissions),
		expiresAtMs: row.expires_at_ms,
		ipAllowList,
		lastUsedAtMs: row.last_used_at_ms,
		secretHash: row.secret_hash,
		secretIsReplaced: row.secret_is_replaced === 1,
		accountRoles: (JSON.parse(row.account_roles) as AccountRole[]).filter(({ role }) => isRoleName(role)),
	};
}

/** @param json what `liveBindings` made */
export function bindingsFrom(json: string, brokenBy: (policy: KeyPolicy) => KeyPolicyName | undefined): Binding[] {
	const bindings: BindingRow[] = JSON.parse(json);
	return bindings.flatMap(({ id, role, scopeType, orgId, appId, channelId, deleted, ...policy }): Binding[] => {
		// A role of a newer version than this one grants nothing.
		if (!isRoleName(role)) return [];
		const stoppedBy = brokenBy(policyOf(policy));
		return [
			{
				...{ id, role, scopeType, orgId, appId, channelId },
				...(stoppedBy === undefined ? {} : { stoppedBy }),
				...(deleted === 1 ? { inDeletedOrganization: true } : {}),
			},
		];
	});
}

export function globalPermissionsFrom(json: string): GlobalPermission[] {
	const names: string[] = JSON.parse(json);
	return GLOBAL_PERMISSIONS.filter((permission) => names.includes(permission));
}

export function policyOf(columns: PolicyColumns): KeyPolicy {
	return {
		enforceHashed: columns.enforce_hashed_api_keys === 1,
		requireExpiration: columns.require_apikey_expiration === 1,
		maxExpirationDays: columns.max_apikey_expiration_days,
	};
}

export function violatesPolicy(policy: KeyPolicyName, orgId: string): ApiError {
	return new ApiError(
		"api_key_violates_policy",
		`The organization's policy ${policy} does not allow this API key any more; ${POLICY_REMEDIES[policy]}.`,
		{ moreInfo: { policy, org_id: orgId } },
	);
}

/** The purpose of a permission, where the request does not show it. */
const NEEDED_FOR: Partial<Record<Permission, string>> = {
	"app.update_user_roles":
		", which a protected channel needs for its protection, its settings and the platforms that it serves",
};

/** 403 for a caller that lacks the permission, in words that are true of a key and of a person. */
export function lacksPermission({ kind }: Pick<Principal, "kind">, permission: Permission, scope: ScopeType): ApiError {
	return new ApiError(
		"permission_denied",
		`The ${kind === "key" ? "API key" : "account"} lacks the permission ${permission} here${NEEDED_FOR[permission] ?? ""}; ask an administrator for a role that has it.`,
		{ moreInfo: { permission, scope } },
	);
}

/** One answer for unknown, malformed and revoked keys, so that it tells nothing apart. */
export function invalidApiKey(): ApiError {
	return new ApiError("invalid_api_key", "The API key is not valid; check that it was copied whole and not revoked.");
}

/** The same for sessions: unknown, revoked and expired ones. */
export function invalidSession(): ApiError {
	return new ApiError("invalid_session", "You are not signed in, or not any more; sign in.");
}

/** For writes whose caller was good when it was read, and is not now. */
export function callerGone({ kind }: Pick<Principal, "kind">): () => ApiError {
	return kind === "key" ? invalidApiKey : invalidSession;
}
