/**
 * The decision about one request, by `decide`, with the error of each refusal.
 */
import { decide, type OwnWorkOnly, type Target } from "../../authz/decide";
import type { Permission } from "../../authz/permissions";
import { lacksPermission, type Principal, violatesPolicy } from "../../authz/principal";
import { ApiError } from "../../errors";
import { type AnyEndpoint, permissionsOf } from "../endpoint";
import type { RawInput, ScopeSource } from "../scope";

/**
 * @param limits receives the permissions that are limited to the caller's own work
 * @throws {ApiError} unless every permission that the request needs is granted
 */
export function authorize(
	endpoint: AnyEndpoint,
	principal: Principal,
	target: Target | null,
	source: ScopeSource<unknown>,
	request: { raw: RawInput; input: unknown; scopeRow: unknown; loaded: unknown },
	limits: Map<Permission, OwnWorkOnly>,
): void {
	const access = endpoint.access;
	const decided = (permission: Permission) => decide(principal, permission, target);
	let needed = permissionsOf(access);
	if ("permissions" in access) {
		if (target !== null && request.input !== undefined) {
			needed = (access.choose as unknown as (request: unknown) => readonly Permission[])({
				...request,
				principal,
				target,
			});
		} else {
			// An invalid request cannot choose; any of the permissions suffices to learn what is wrong with it.
			const held = needed.find((permission) => decided(permission).outcome === "allow");
			if (held !== undefined) needed = [held];
		}
	}
	for (const permission of needed) {
		const decision = decided(permission);
		if (decision.outcome === "allow") {
			if (decision.ownWorkOnly !== undefined) limits.set(permission, decision.ownWorkOnly);
			continue;
		}
		if (decision.outcome === "replaced") {
			throw new ApiError(
				"permission_denied",
				`This secret of the API key has been replaced and can no longer do what needs ${permission}; use the new one.`,
				{ moreInfo: { permission, scope: "org" } },
			);
		}
		if (decision.outcome === "account") {
			throw new ApiError(
				"permission_denied",
				`The API key holds ${permission}, but the account that it acts for does not, so the key cannot use it; have another member raise the account's role, or use a key of a member who holds it.`,
				{ moreInfo: { permission, scope: "org" } },
			);
		}
		if (decision.outcome === "suspended") throw violatesPolicy(decision.policy, target?.orgId ?? "");
		const appVisible =
			"neverHidden" in access &&
			target?.appId !== undefined &&
			decide(principal, "app.read", { orgId: target.orgId, appId: target.appId }).outcome === "allow";
		if (decision.outcome === "hidden" && !appVisible) throw source.hidden(request.raw);
		const scope = decision.outcome === "forbidden" ? decision.scope : "channel";
		throw lacksPermission(principal, permission, scope);
	}
}
