/**
 * What a caller may make of an API key. No key makes, changes, shows or regenerates one that is stronger than itself: more permissions
 * at some scope, a global permission, a life without end, or more addresses to be used from. The policies of the organization are
 * asked before the caller's strength, so that the answer names what nobody could do.
 */
import { firstPermissionNotHeld, type OrgId, type Target } from "../authz/decide";
import { administersOrganization, isRoleName, ROLES, type RoleName } from "../authz/permissions";
import { type Principal, policyOf } from "../authz/principal";
import type { ApiKeyRow, BindingRecord, PoliciesElsewhere } from "../db/api-keys";
import { firstRangeOutside } from "../domain/ip-allow-list";
import {
	brokenPolicy,
	type KeyPolicy,
	MOST_EXPIRATION_DAYS,
	POLICY_REMEDIES,
	type PolicedKey,
} from "../domain/key-policy";
import { DAY_MS } from "../domain/time";
import { ApiError, invalidRequest, type RequestIssue } from "../errors";
import type { NewBindingInput } from "./api-key-record";

/** 400 for bindings outside the key's organization, at the wrong level, to apps that are not there, or given twice. */
export function refuseMisplacedBindings(
	bindings: readonly NewBindingInput[],
	orgId: OrgId,
	appIds: ReadonlySet<string>,
): void {
	const issues: RequestIssue[] = [];
	const seen = new Set<string>();
	for (const [index, binding] of bindings.entries()) {
		const path = `bindings.${index}`;
		const appId = "app_id" in binding ? binding.app_id : undefined;
		const level = ROLES[binding.role_name].scopeType;
		if (binding.org_id !== orgId) {
			issues.push({ path: `${path}.org_id`, message: "must be the organization of the key", received: binding.org_id });
		}
		if (level !== binding.scope_type) {
			issues.push({
				path: `${path}.scope_type`,
				message: `must be "${level}" for the role ${binding.role_name}`,
				received: binding.scope_type,
			});
		}
		if (appId !== undefined && !appIds.has(appId)) {
			issues.push({
				path: `${path}.app_id`,
				message: "must be the UUID (not the reverse-domain id) of an app of the organization",
				received: appId,
			});
		}
		const identity = `${binding.role_name} ${binding.org_id} ${appId ?? ""}`;
		if (seen.has(identity)) issues.push({ path, message: "repeats an earlier binding; leave it out" });
		seen.add(identity);
	}
	if (issues.length > 0) throw invalidRequest(issues);
}

const POLICY_ERRORS = {
	enforce_hashed_api_keys: ["hashed_api_key_required", "hashed: the organization requires hashed keys; send true."],
	require_apikey_expiration: ["expiration_required", "expires_at: the organization requires an expiry; send one."],
	max_apikey_expiration_days: [
		"expiration_exceeds_max",
		"expires_at: must lie within the organization's max_apikey_expiration_days from now.",
	],
} as const;

/** 400 for a key that would break a policy of its organization. */
export function refuseBrokenPolicy(policy: KeyPolicy, key: PolicedKey, nowMs: number): void {
	const broken = brokenPolicy(policy, key, nowMs);
	if (broken === undefined) return;
	const [code, message] = POLICY_ERRORS[broken];
	throw new ApiError(code, message, {
		moreInfo: { policy: broken, max_apikey_expiration_days: policy.maxExpirationDays },
	});
}

/**
 * 400 for a change after which the key breaks a policy of another organization that it acts in, and that it meets now: it would be
 * stopped there at its next use, and nobody would have been told. Where it is stopped already, there is nothing to lose.
 */
export function refuseBrokenPolicyElsewhere(
	policies: readonly PoliciesElsewhere[],
	before: PolicedKey,
	after: PolicedKey,
	nowMs: number,
): void {
	for (const columns of policies) {
		const policy = policyOf(columns);
		const broken = brokenPolicy(policy, after, nowMs);
		if (broken === undefined || brokenPolicy(policy, before, nowMs) !== undefined) continue;
		throw new ApiError(
			POLICY_ERRORS[broken][0],
			`The key acts in the organization ${columns.id} too, whose policy ${broken} would stop it there; ${POLICY_REMEDIES[broken]}, or take its bindings there away first.`,
			{ moreInfo: { policy: broken, max_apikey_expiration_days: policy.maxExpirationDays, org_id: columns.id } },
		);
	}
}

export function refuseStrongerBindings(principal: Principal, bindings: readonly NewBindingInput[]): void {
	for (const binding of bindings) {
		const target = { orgId: binding.org_id, ...("app_id" in binding ? { appId: binding.app_id } : {}) };
		refuseStronger(principal, binding.role_name, target);
	}
}

/**
 * 403 when the key may do, anywhere, what the caller may not: whoever has its secret has all of its bindings. No key is stronger than
 * itself, also where a policy stops it, which it can then put right.
 */
export function refuseStrongerPermissions(principal: Principal, key: ApiKeyRow): void {
	if (key.id === principal.keyId) return;
	refuseGlobalPermissionsNotHeld(principal, JSON.parse(key.global_permissions));
	for (const binding of JSON.parse(key.bindings) as BindingRecord[]) refuseStrongerBinding(principal, binding);
}

/** 403 when the secret of the key is worth more than the caller's own. */
export function refuseStrongerSecret(principal: Principal, key: ApiKeyRow): void {
	refuseStrongerPermissions(principal, key);
	refuseLongerLife(principal, key.expires_at_ms, undefined);
	refuseMoreAddresses(principal, JSON.parse(key.ip_allow_list ?? "[]"));
}

/**
 * 403 when the key may do more than the caller in the caller's organization. Whoever takes rights away gives none, so what the key may
 * do elsewhere does not save it: an organization is always master of its own keys, and of who acts in it.
 */
export function refuseToWeakenStrongerKey(principal: Principal, key: ApiKeyRow, orgId: OrgId): void {
	for (const binding of JSON.parse(key.bindings) as BindingRecord[]) {
		if (binding.org_id === orgId) refuseStrongerBinding(principal, binding);
	}
}

function refuseStrongerBinding(principal: Principal, binding: BindingRecord): void {
	// Given by the service with a binding that is checked itself.
	if (binding.parent_binding_id !== null || !isRoleName(binding.role_name)) return;
	refuseStronger(principal, binding.role_name, {
		orgId: binding.org_id,
		...(binding.app_id === null ? {} : { appId: binding.app_id }),
		...(binding.in_deleted_organization === 1 ? { inDeletedOrganization: true } : {}),
	});
}

export function refuseStronger(principal: Principal, role: RoleName, target: Target): void {
	const permission = firstPermissionNotHeld(principal, role, target);
	if (permission === undefined) return;
	throw new ApiError(
		"permission_denied",
		principal.kind === "key"
			? `The role ${role} holds ${permission}, which this API key does not hold there; use a key that does.`
			: `The role ${role} holds ${permission}, which your account does not hold there; ask a member who does.`,
		{ moreInfo: { permission, scope: ROLES[role].scopeType, role_name: role } },
	);
}

/** `org.create` is for keys that administer an organization, and only its holders give it. */
export function refuseGlobalPermissions(
	principal: Principal,
	wanted: readonly string[],
	roles: readonly RoleName[],
): void {
	if (wanted.length === 0) return;
	refuseGlobalPermissionsNotHeld(principal, wanted);
	if (roles.some(administersOrganization)) return;
	throw new ApiError(
		"invalid_global_permissions",
		"org.create needs an org_admin or org_super_admin binding beside it; give the key or the member one as well.",
	);
}

/** @throws {ApiError} `permission_denied` when the caller gives or takes what it does not hold */
export function refuseGlobalPermissionsNotHeld(principal: Principal, permissions: readonly string[]): void {
	const held: readonly string[] = principal.globalPermissions;
	const missing = permissions.find((permission) => !held.includes(permission));
	if (missing !== undefined) throw globalPermissionDenied(missing);
}

export function globalPermissionDenied(permission: string): ApiError {
	return new ApiError(
		"permission_denied",
		`The caller does not hold ${permission} itself; use a key or an account that does.`,
		{ moreInfo: { permission, scope: "global" } },
	);
}

/**
 * 403 when a key that expires would give a life without end. It may give a finite one, so that expiring keys can be rotated; how long
 * is the organization's policy, and a year at most.
 * @param nowMs undefined: the key is there already, and any end will do
 */
export function refuseLongerLife(principal: Principal, expiresAtMs: number | null, nowMs: number | undefined): void {
	if (principal.expiresAtMs === null) return;
	const latestMs = nowMs === undefined ? Number.POSITIVE_INFINITY : nowMs + (MOST_EXPIRATION_DAYS + 1) * DAY_MS;
	if (expiresAtMs !== null && expiresAtMs <= Math.max(latestMs, principal.expiresAtMs)) return;
	throw new ApiError(
		"permission_denied",
		"This API key expires, so the keys it manages must expire within a year; send expires_at or use a key that does not expire.",
		{ moreInfo: { permission: "org.manage_apikeys", scope: "org", field: "expires_at" } },
	);
}

/** 403 when a key that is limited to addresses would give a key that works from others. No ranges are all addresses. */
export function refuseMoreAddresses(principal: Principal, ranges: readonly string[]): void {
	if (principal.ipAllowList === null) return;
	const outside = ranges.length === 0 ? "0.0.0.0/0" : firstRangeOutside(ranges, principal.ipAllowList);
	if (outside === undefined) return;
	throw new ApiError(
		"permission_denied",
		"This API key is limited to addresses, so the keys it gives must be limited to some of the same; correct ip_allow_list, or use a key without one.",
		{ moreInfo: { permission: "org.manage_apikeys", scope: "org", field: "ip_allow_list" } },
	);
}
