/**
 * The caller: an API key, or a person with a session (session.ts), with its live role bindings.
 * Pure; `db/principals.ts` has the statements. A key has only its own bindings, never its owner's;
 * a session has its account's and no key's.
 */
import type { CiContext, PublisherStage } from "../domain/ci/context";
import { brokenPolicy, type KeyPolicy, type KeyPolicyName, POLICY_REMEDIES } from "../domain/key-policy";
import { isInRanges } from "../domain/network/ip-allow-list";
import { ApiError } from "../errors";
import { resolvedRole } from "./custom-roles";
import { GLOBAL_PERMISSIONS, type GlobalPermission, type Permission, type Role, type ScopeType } from "./permissions";

/** A boolean column. */
export type Flag = 0 | 1;

export interface Binding {
	readonly id: string;
	readonly role: Role;
	readonly scopeType: ScopeType;
	readonly orgId: string;
	readonly appId: string | null;
	readonly channelId: number | null;
	/** The policy of the organization that the key violates, so that the binding grants nothing. */
	readonly suspendedBy?: KeyPolicyName;
	/** The organization is deleted, so the binding only allows restoring it. */
	readonly inDeletedOrganization?: true;
}

export type Principal = KeyPrincipal | SessionPrincipal;

interface Caller {
	/** The account that calls, or that the key acts for. */
	readonly userId: string;
	readonly bindings: readonly Binding[];
	readonly globalPermissions: readonly GlobalPermission[];
	/** When the key expires; null: never. Always null for a session. */
	readonly expiresAtMs: number | null;
	/** Address ranges that may use the key; null: all. */
	readonly ipAllowList: readonly string[] | null;
	/** Hash of the presented secret: the current one, or the previous one during its overlap. */
	readonly secretHash: string;
}

export interface KeyPrincipal extends Caller {
	readonly kind: "key";
	readonly keyId: string;
	readonly keyName: string;
	/** The organization that the key belongs to. */
	readonly orgId: string;
	/** To the minute. */
	readonly lastUsedAtMs: number | null;
	/** The presented secret was replaced and is valid only until its overlap ends. */
	readonly secretIsReplaced: boolean;
	/** The trusted publisher and the CI job that the key was given to; undefined: an ordinary key. */
	readonly publisher: KeyPublisher | undefined;
	/**
	 * Roles of the key's account on whole organizations: a key cannot grant rights that its account
	 * lacks.
	 */
	readonly accountRoles: readonly AccountRole[];
}

/** The trusted publisher of a key, and the CI job that exchanged its identity token. */
export interface KeyPublisher {
	readonly id: string;
	readonly name: string;
	readonly stage: PublisherStage;
	readonly ci: CiContext;
	/**
	 * The pull request that the key is limited to, null to none; undefined: it has no such limit
	 * (`limitOfJob` in domain/ci/context.ts).
	 */
	readonly limit: JobLimit | null | undefined;
}

/** The pull request of a job, as its key was exchanged for it. */
interface JobLimit {
	readonly repository: string;
	/** Null: the token names the source branch only (`PullRequestOfJob` in domain/ci/context.ts). */
	readonly number: number | null;
	readonly branch: string | null;
	/** Its previews: one at most by its number, and those of its branch in a token of GitLab. */
	readonly previewIds: readonly string[];
}

interface AccountRole {
	readonly orgId: string;
	readonly role: Role;
}

export interface SessionPrincipal extends Caller {
	readonly kind: "session";
	/** Always null: a session does not count as any key's work. */
	readonly keyId: null;
	readonly sessionId: string;
	readonly email: string;
	readonly signedInAtMs: number;
	readonly signedInByPasskey: boolean;
	readonly hasPasskey: boolean;
	readonly lastSeenAtMs: number;
}

/**
 * The CI job of a caller, known by the hash of its key, because all jobs of a publisher share one
 * key; null: no job.
 */
export const jobOf = (principal: Principal): string | null =>
	principal.kind === "key" && principal.publisher !== undefined ? principal.secretHash : null;

/** Policy columns of an organization. */
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
	/** Set for a secret that a CI job got (ci_keys). */
	readonly publisher_id: string | null;
	readonly publisher_name: string | null;
	readonly publisher_stage: PublisherStage | null;
	readonly ci: string | null;
	readonly job_is_limited: Flag | null;
	readonly job_repository: string | null;
	readonly job_number: number | null;
	readonly job_branch: string | null;
	/** JSON array. */
	readonly job_preview_ids: string;
}

interface RoleColumns {
	readonly role: string;
	/**
	 * The permissions of a custom role; null: the organization defines none of this name at this
	 * scope.
	 */
	readonly customPermissions: readonly string[] | null;
}

/** A binding in the JSON of a PrincipalRow, as `liveBindings` in db/principals.ts writes it. */
interface BindingRow extends PolicyColumns, RoleColumns {
	readonly id: string;
	readonly scopeType: ScopeType;
	readonly orgId: string;
	readonly appId: string | null;
	readonly channelId: number | null;
	readonly deleted: Flag;
}

/**
 * @param ipAddress the client's address; null when unknown
 * @throws {ApiError} `invalid_api_key` for an unknown or revoked key, `expired_api_key` from the
 * millisecond of its expiry, `ip_address_not_allowed` outside its ranges, `api_key_violates_policy`
 * when its organization's policy suspends it
 */
export function principalFrom(row: PrincipalRow | undefined, nowMs: number, ipAddress: string | null): KeyPrincipal {
	if (row === undefined) throw invalidApiKey();
	const granted = grantsOf(row, row.bindings, nowMs);
	if (granted === "expired") {
		throw new ApiError(
			"expired_api_key",
			"The API key has expired; ask an administrator to extend expires_at, or use another key.",
		);
	}
	const ipAllowList: string[] | null = row.ip_allow_list === null ? null : JSON.parse(row.ip_allow_list);
	if (ipAllowList !== null && !isInRanges(ipAllowList, ipAddress)) {
		throw new ApiError(
			"ip_address_not_allowed",
			"The API key may not be used from this address; call from its ip_allow_list, or ask an administrator to change the list.",
			{ moreInfo: { ip_address: ipAddress } },
		);
	}
	if (typeof granted === "string") throw violatesPolicy(granted, row.org_id);
	return {
		kind: "key",
		keyId: row.id,
		keyName: row.name,
		userId: row.user_id,
		orgId: row.org_id,
		bindings: granted,
		globalPermissions: globalPermissionsFrom(row.global_permissions),
		expiresAtMs: row.expires_at_ms,
		ipAllowList,
		lastUsedAtMs: row.last_used_at_ms,
		secretHash: row.secret_hash,
		secretIsReplaced: row.secret_is_replaced === 1,
		publisher: publisherFrom(row),
		accountRoles: accountRolesFrom(row.account_roles),
	};
}

type KeyColumns = Pick<PrincipalRow, "expires_at_ms" | "is_hashed_key"> & PolicyColumns;

/**
 * The bindings of a key, or why it grants nothing now: its expiry, or a policy of its organization.
 * A link that was given for a key's right asks the same, so that it never outlives the key.
 * @param bindings JSON of a row of db/principals.ts
 */
export function grantsOf(row: KeyColumns, bindings: string, nowMs: number): Binding[] | "expired" | KeyPolicyName {
	if (row.expires_at_ms !== null && row.expires_at_ms <= nowMs) return "expired";
	const key = { hashed: row.is_hashed_key === 1, expiresAtMs: row.expires_at_ms };
	return (
		brokenPolicy(policyOf(row), key, nowMs) ?? bindingsFrom(bindings, (policy) => brokenPolicy(policy, key, nowMs))
	);
}

function publisherFrom(row: PrincipalRow): KeyPublisher | undefined {
	const { publisher_id: id, publisher_name: name, publisher_stage: stage, ci } = row;
	if (id === null || stage === null || ci === null) return undefined;
	return { id, name: name ?? "", stage, ci: JSON.parse(ci) as CiContext, limit: limitFrom(row) };
}

function limitFrom(row: PrincipalRow): JobLimit | null | undefined {
	const { job_is_limited, job_repository: repository, job_number: number, job_branch: branch } = row;
	if (job_is_limited !== 1) return undefined;
	if (repository === null || (number === null && branch === null)) return null;
	return { repository, number, branch, previewIds: JSON.parse(row.job_preview_ids) };
}

function accountRolesFrom(json: string): AccountRole[] {
	const rows: (RoleColumns & { readonly orgId: string })[] = JSON.parse(json);
	return rows.flatMap((row) => {
		const role = resolvedRole(row.role, "org", row.customPermissions);
		return role === undefined ? [] : [{ orgId: row.orgId, role }];
	});
}

/** @param json the `bindings` of a row of db/principals.ts */
export function bindingsFrom(json: string, brokenBy: (policy: KeyPolicy) => KeyPolicyName | undefined): Binding[] {
	const bindings: BindingRow[] = JSON.parse(json);
	return bindings.flatMap((row): Binding[] => {
		const { id, scopeType, orgId, appId, channelId, deleted } = row;
		const role = resolvedRole(row.role, row.scopeType, row.customPermissions);
		if (role === undefined) return [];
		const suspendedBy = brokenBy(policyOf(row));
		return [
			{
				id,
				role,
				scopeType,
				orgId,
				appId,
				channelId,
				...(suspendedBy === undefined ? {} : { suspendedBy }),
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
		`The organization's policy ${policy} does not allow this API key; ${POLICY_REMEDIES[policy]}.`,
		{ moreInfo: { policy, org_id: orgId } },
	);
}

/** The purpose of a permission, for requests that do not show it. */
const NEEDED_FOR: Partial<Record<Permission, string>> = {
	"app.update_user_roles":
		", which a protected channel needs for its protection, its settings, the platforms that it serves, and another channel whose name its devices send",
};

/** 403 for a key or an account that lacks the permission. */
export function lacksPermission({ kind }: Pick<Principal, "kind">, permission: Permission, scope: ScopeType): ApiError {
	return new ApiError(
		"permission_denied",
		`The ${kind === "key" ? "API key" : "account"} lacks the permission ${permission} here${NEEDED_FOR[permission] ?? ""}; ask an administrator for a role that has it.`,
		{ moreInfo: { permission, scope } },
	);
}

/** One answer for unknown, malformed and revoked keys, so that callers cannot distinguish them. */
export function invalidApiKey(): ApiError {
	return new ApiError("invalid_api_key", "The API key is not valid; check that it is complete and not revoked.");
}

/** One answer for unknown, revoked and expired sessions. */
export function invalidSession(): ApiError {
	return new ApiError("invalid_session", "You are not signed in, or your session ended; sign in.");
}

/**
 * For a write whose caller was valid when it was read, and is not any longer, or has other rights
 * or rules.
 */
export function callerGone({ kind }: Pick<Principal, "kind">): () => ApiError {
	return kind === "key"
		? () =>
				new ApiError(
					"invalid_api_key",
					"The API key was changed or revoked during this request, and nothing was written; repeat the request.",
				)
		: invalidSession;
}
