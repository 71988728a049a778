/**
 * Rules for managing API keys. A caller cannot create, change, reveal or regenerate a key that is
 * stronger than itself: more permissions at some scope, a global permission, no expiry, or more
 * addresses. Policies of the organization are checked before the caller's strength, so that the
 * error names the rule that applies to every caller.
 */
import { resolvedRole, roleNamed } from "../../authz/custom-roles";
import type { OrgId, Target } from "../../authz/decide";
import { refuseLongerLife, refuseMoreAddresses, refuseStronger } from "../../authz/granting";
import { administersOrganization, type Role } from "../../authz/permissions";
import { type Principal, policyOf } from "../../authz/principal";
import type { ApiKeyRow, BindingRecord, PoliciesElsewhere } from "../../db/api-keys";
import type { ChannelOfApp } from "../../db/channels";
import { brokenPolicy, type KeyPolicy, POLICY_REMEDIES, type PolicedKey } from "../../domain/key-policy";
import { ApiError, invalidRequest, type RequestIssue } from "../../errors";
import { appOf, channelOf, identityOf, type NewBindingInput } from "./record";

/**
 * 400 for bindings outside the key's organization, at the wrong scope, on unknown apps or channels,
 * or repeated.
 */
export function refuseMisplacedBindings(
	bindings: readonly NewBindingInput[],
	orgId: OrgId,
	appIds: ReadonlySet<string>,
	channels: readonly ChannelOfApp[],
	customRoles: readonly Role[],
): void {
	const issues: RequestIssue[] = [];
	const seen = new Set<string>();
	for (const [index, binding] of bindings.entries()) {
		const path = `bindings.${index}`;
		const appId = appOf(binding);
		const level = roleNamed(binding.role_name, customRoles)?.scopeType;
		if (binding.org_id !== orgId) {
			issues.push({ path: `${path}.org_id`, message: "must be the organization of the key", received: binding.org_id });
		}
		if (level === undefined) {
			issues.push({
				path: `${path}.role_name`,
				message: "is no role of the organization; list the roles with GET /organization/roles",
				received: binding.role_name,
			});
		} else if (level !== binding.scope_type) {
			issues.push({
				path: `${path}.scope_type`,
				message: `must be "${level}" for the role ${binding.role_name}`,
				received: binding.scope_type,
			});
		}
		if (appId !== undefined && !appIds.has(appId)) {
			issues.push({
				path: `${path}.app_id`,
				message: "must be the UUID (not the reverse-domain id) of an app in the organization",
				received: appId,
			});
		}
		const channelId = channelOf(binding);
		if (channelId !== undefined && !channels.some(({ id, app_id }) => id === channelId && app_id === appId)) {
			issues.push({
				path: `${path}.channel_id`,
				message: "must be the id of a channel of this app; list them with GET /channel",
				received: String(channelId),
			});
		}
		const identity = `${binding.org_id} ${identityOf(binding.role_name, appId, channelId)}`;
		if (seen.has(identity)) issues.push({ path, message: "repeats an earlier binding; omit it" });
		seen.add(identity);
	}
	if (issues.length > 0) throw invalidRequest(issues);
}

/** 400 for an expiry in the past. */
export function refusePast(expiresAtMs: number | null, nowMs: number): void {
	if (expiresAtMs !== null && expiresAtMs <= nowMs) {
		throw invalidRequest([{ path: "expires_at", message: "must be in the future" }]);
	}
}

const POLICY_ERRORS = {
	enforce_hashed_api_keys: ["hashed_api_key_required", "hashed: the organization requires hashed keys; send true."],
	require_apikey_expiration: ["expiration_required", "expires_at: the organization requires an expiry; send one."],
	max_apikey_expiration_days: [
		"expiration_exceeds_max",
		"expires_at: must lie within the organization's max_apikey_expiration_days from now.",
	],
} as const;

/** 400 for a key that would violate a policy of its organization. */
export function refuseBrokenPolicy(policy: KeyPolicy, key: PolicedKey, nowMs: number): void {
	const broken = brokenPolicy(policy, key, nowMs);
	if (broken === undefined) return;
	const [code, message] = POLICY_ERRORS[broken];
	throw new ApiError(code, message, {
		moreInfo: { policy: broken, max_apikey_expiration_days: policy.maxExpirationDays },
	});
}

/**
 * 400 for a change after which the key would newly violate a policy of another organization in
 * which it has bindings, because that organization would suspend the key without notice. A key that
 * already violates the policy is suspended there anyway.
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
			`The key has bindings in the organization ${columns.id}, whose policy ${broken} would suspend it there; ${POLICY_REMEDIES[broken]}, or remove these bindings first.`,
			{ moreInfo: { policy: broken, max_apikey_expiration_days: policy.maxExpirationDays, org_id: columns.id } },
		);
	}
}

/**
 * The place of a binding, as the target of its granting. A preview role on the channel grants
 * nothing to others.
 */
export function placeOf(orgId: string, appId: string | null | undefined, channelId: number | null | undefined): Target {
	return {
		orgId,
		...(appId == null ? {} : { appId }),
		...(channelId == null ? {} : { channelId, isMoreThanPreview: true }),
	};
}

/** After `refuseMisplacedBindings`, which refuses names of no role. */
export function refuseStrongerBindings(
	principal: Principal,
	bindings: readonly NewBindingInput[],
	customRoles: readonly Role[],
): void {
	for (const binding of bindings) {
		const role = roleNamed(binding.role_name, customRoles);
		if (role === undefined) continue;
		refuseStronger(principal, role, placeOf(binding.org_id, appOf(binding), channelOf(binding)));
	}
}

/**
 * 403 when the key grants anywhere what the caller does not hold, because its secret gives access
 * to all of its bindings. A key is never stronger than itself, even where a policy suspends it, so
 * that it can fix the violation.
 */
export function refuseStrongerPermissions(principal: Principal, key: ApiKeyRow): void {
	if (key.id === principal.keyId) return;
	refuseGlobalPermissionsNotHeld(principal, JSON.parse(key.global_permissions));
	for (const binding of JSON.parse(key.bindings) as BindingRecord[]) refuseStrongerBinding(principal, binding);
}

/** 403 when the secret of the key grants more than the caller holds. */
export function refuseStrongerSecret(principal: Principal, key: ApiKeyRow): void {
	refuseStrongerPermissions(principal, key);
	refuseLongerLife(principal, key.expires_at_ms, undefined);
	refuseMoreAddresses(principal, JSON.parse(key.ip_allow_list ?? "[]"));
}

/**
 * 403 when the key holds more than the caller in this organization. Only the key's bindings in the
 * organization are compared: weakening a key grants nothing, so its rights elsewhere must not
 * prevent it.
 */
export function refuseToWeakenStrongerKey(principal: Principal, key: ApiKeyRow, orgId: OrgId): void {
	for (const binding of JSON.parse(key.bindings) as BindingRecord[]) {
		if (binding.org_id === orgId) refuseStrongerBinding(principal, binding);
	}
}

function refuseStrongerBinding(principal: Principal, binding: BindingRecord): void {
	// The service created it together with its parent binding, which is checked itself.
	const role = resolvedRole(binding.role_name, binding.scope_type, binding.custom_permissions);
	if (binding.parent_binding_id !== null || role === undefined) return;
	refuseStronger(principal, role, {
		...placeOf(binding.org_id, binding.app_id, binding.channel_id),
		...(binding.in_deleted_organization === 1 ? { inDeletedOrganization: true } : {}),
	});
}

/**
 * Only a holder of `org.create` may grant it, and only to a key or member that administers an
 * organization.
 */
export function refuseGlobalPermissions(
	principal: Principal,
	wanted: readonly string[],
	roles: readonly string[],
): void {
	if (wanted.length === 0) return;
	refuseGlobalPermissionsNotHeld(principal, wanted);
	if (roles.some(administersOrganization)) return;
	throw new ApiError(
		"invalid_global_permissions",
		"org.create requires an org_admin or org_super_admin binding as well; add one to the key or the member.",
	);
}

/**
 * @throws {ApiError} `permission_denied` when the caller grants or removes a global permission that
 * it does not hold
 */
export function refuseGlobalPermissionsNotHeld(principal: Principal, permissions: readonly string[]): void {
	const held: readonly string[] = principal.globalPermissions;
	const missing = permissions.find((permission) => !held.includes(permission));
	if (missing !== undefined) throw globalPermissionDenied(missing);
}

export function globalPermissionDenied(permission: string): ApiError {
	return new ApiError(
		"permission_denied",
		`The caller does not hold ${permission}; use a key or an account that does.`,
		{ moreInfo: { permission, scope: "global" } },
	);
}

/**
 * The custom roles that the checks of a change saw: those of the key's bindings, and those that it
 * would get.
 */
export function rolesOfKey(key: ApiKeyRow, added: readonly NewBindingInput[], customRoles: readonly Role[]) {
	const held = (JSON.parse(key.bindings) as BindingRecord[]).map((binding) => ({
		orgId: binding.org_id,
		role: resolvedRole(binding.role_name, binding.scope_type, binding.custom_permissions),
	}));
	return [...held, ...rolesOfBindings(added, customRoles)].flatMap(({ orgId, role }) =>
		role === undefined ? [] : [{ orgId, role }],
	);
}

/** The roles of new bindings; for the guard of the batch that gives them. */
export function rolesOfBindings(bindings: readonly NewBindingInput[], customRoles: readonly Role[]) {
	return bindings.flatMap((binding) => {
		const role = roleNamed(binding.role_name, customRoles);
		return role === undefined ? [] : [{ orgId: binding.org_id, role }];
	});
}
