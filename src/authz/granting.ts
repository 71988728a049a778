/**
 * Nobody grants more than they hold: a key, a member's role or a trusted publisher gets no
 * permission, no lifetime and no address that its creator lacks.
 */

import { MOST_EXPIRATION_DAYS } from "../domain/key-policy";
import { firstRangeOutside } from "../domain/network/ip-allow-list";
import { DAY_MS } from "../domain/time";
import { ApiError } from "../errors";
import { firstPermissionNotHeld, type Target } from "./decide";
import type { Role } from "./permissions";
import type { Principal } from "./principal";

/**
 * @throws {ApiError} `permission_denied` when the role holds a permission that the caller lacks on
 * the target
 */
export function refuseStronger(principal: Principal, role: Role, target: Target): void {
	const permission = firstPermissionNotHeld(principal, role, target);
	if (permission === undefined) return;
	throw new ApiError(
		"permission_denied",
		principal.kind === "key"
			? `The role ${role.name} holds ${permission}, which this API key does not hold there; use a key that does.`
			: `The role ${role.name} holds ${permission}, which your account does not hold there; ask a member who does.`,
		{ moreInfo: { permission, scope: role.scopeType, role_name: role.name } },
	);
}

/**
 * 403 when a key that expires would grant a longer life. It may create keys that expire later,
 * within one year, so that expiring keys can be rotated; it cannot create a key that never expires.
 * @param nowMs undefined: the key exists already, so any expiry is accepted
 */
export function refuseLongerLife(principal: Principal, expiresAtMs: number | null, nowMs: number | undefined): void {
	if (principal.expiresAtMs === null) return;
	const latestMs = nowMs === undefined ? Number.POSITIVE_INFINITY : nowMs + (MOST_EXPIRATION_DAYS + 1) * DAY_MS;
	if (expiresAtMs !== null && expiresAtMs <= Math.max(latestMs, principal.expiresAtMs)) return;
	throw new ApiError(
		"permission_denied",
		"This API key expires, so the keys it manages must expire within a year. Send expires_at, or use a key that does not expire.",
		{ moreInfo: { permission: "org.manage_apikeys", scope: "org", field: "expires_at" } },
	);
}

/**
 * 403 when a caller that is limited to addresses would grant access from others. An empty list
 * means any address.
 */
export function refuseMoreAddresses(principal: Principal, ranges: readonly string[]): void {
	if (principal.ipAllowList === null) return;
	const outside = ranges.length === 0 ? "0.0.0.0/0" : firstRangeOutside(ranges, principal.ipAllowList);
	if (outside === undefined) return;
	throw new ApiError(
		"permission_denied",
		"This API key is limited to addresses, so the keys it grants must be limited to a subset of them. Correct ip_allow_list, or use a key that is not limited.",
		{ moreInfo: { permission: "org.manage_apikeys", scope: "org", field: "ip_allow_list" } },
	);
}
