/**
 * Phase 3, decide: may this caller do this, on this target? Must stay true: every permission that
 * the request needs is granted by `decide`, and each refusal has its own error; a target that the
 * caller may not know of is refused exactly like one that does not exist.
 */
import { decide, holdsGlobally, type OwnWorkOnly, type Target } from "../../authz/decide";
import type { GlobalPermission, Permission } from "../../authz/permissions";
import { lacksPermission, type Principal, violatesPolicy } from "../../authz/principal";
import { type RecentSignIn, requireRecentSignIn } from "../../authz/session";
import { ApiError, invalidRequest } from "../../errors";
import { type AnyEndpoint, permissionsOf } from "../endpoint";
import type { ScopeSource } from "../scope";
import type { Incoming } from "./incoming";
import type { Loaded } from "./load";

export interface Decided {
	/** Null for requests about no target, and where the target does not exist. */
	readonly target: Target | null;
	/** The permissions that are limited to the caller's own work. */
	readonly limits: ReadonlyMap<Permission, OwnWorkOnly>;
}

/**
 * @throws {ApiError} unless the caller may do what the request asks for; a public endpoint needs no
 * caller
 */
export function decideRequest({ nowMs, soFar }: Incoming, loaded: Loaded): Decided {
	const { endpoint, principal, source, scopeRow, input } = loaded;
	if (principal === undefined) return { target: null, limits: new Map() };
	const { access } = endpoint;
	if ("globalPermission" in access) requireGlobally(principal, access.globalPermission);
	let decided: Decided = { target: null, limits: new Map() };
	if (source !== undefined) {
		if (!loaded.namesTarget) throw withoutTarget(loaded, source);
		const target = scopeRow === undefined ? null : source.target(scopeRow);
		if (target !== null) soFar.orgId = target.orgId;
		decided = { target, limits: authorize(principal, target, source, loaded) };
	}
	if (principal.kind === "session") requireRecentSignIn(principal, wantedSignIn(endpoint, input), nowMs);
	return decided;
}

function requireGlobally(principal: Principal, permission: GlobalPermission): void {
	if (holdsGlobally(principal, permission)) return;
	throw new ApiError(
		"permission_denied",
		`The caller lacks ${permission}, or no longer administers an organization; use an API key or an account that does both.`,
		{ moreInfo: { permission, scope: "global" } },
	);
}

/**
 * A request that names no target is refused for its form, because there is nothing to decide about.
 */
function withoutTarget({ failure, issues }: Loaded, { missing }: ScopeSource<unknown>): ApiError {
	return failure ?? invalidRequest(issues.length > 0 || missing === undefined ? issues : [missing]);
}

/**
 * @returns the permissions that are limited to the caller's own work
 * @throws {ApiError} unless every permission that the request needs is granted
 */
function authorize(
	principal: Principal,
	target: Target | null,
	source: ScopeSource<unknown>,
	loaded: Loaded,
): Map<Permission, OwnWorkOnly> {
	const limits = new Map<Permission, OwnWorkOnly>();
	for (const permission of neededPermissions(principal, target, loaded)) {
		const decision = decide(principal, permission, target);
		if (decision.outcome === "allow") {
			if (decision.ownWorkOnly !== undefined) limits.set(permission, decision.ownWorkOnly);
			continue;
		}
		if (decision.outcome === "replaced") throw secretReplaced(permission);
		if (decision.outcome === "account") throw accountLacks(permission);
		if (decision.outcome === "suspended") throw violatesPolicy(decision.policy, target?.orgId ?? "");
		const appVisible =
			"neverHidden" in loaded.endpoint.access &&
			target?.appId !== undefined &&
			decide(principal, "app.read", { orgId: target.orgId, appId: target.appId }).outcome === "allow";
		if (decision.outcome === "hidden" && !appVisible) throw source.hidden(loaded.raw);
		const scope = decision.outcome === "forbidden" ? decision.scope : "channel";
		throw lacksPermission(principal, permission, scope);
	}
	return limits;
}

/** The permissions that the request needs, of those that the endpoint lists. */
function neededPermissions(
	principal: Principal,
	target: Target | null,
	{ endpoint: { access }, raw, input, scopeRow, loaded }: Loaded,
): readonly Permission[] {
	const listed = permissionsOf(access);
	if (!("permissions" in access)) return listed;
	if (target !== null && input !== undefined) {
		return access.choose({ raw, input, scopeRow, loaded, principal, target } as never);
	}
	// An invalid request cannot choose; any of the permissions suffices to learn what is wrong with
	// it.
	const held = listed.find((permission) => decide(principal, permission, target).outcome === "allow");
	if (held !== undefined) return [held];
	return listed;
}

function secretReplaced(permission: Permission): ApiError {
	return new ApiError(
		"permission_denied",
		`This secret of the API key has been replaced and can no longer do what needs ${permission}; use the new one.`,
		{ moreInfo: { permission, scope: "org" } },
	);
}

function accountLacks(permission: Permission): ApiError {
	return new ApiError(
		"permission_denied",
		`The API key holds ${permission}, but the account that it acts for does not, so the key cannot use it; have another member raise the account's role, or use a key of a member who holds it.`,
		{ moreInfo: { permission, scope: "org" } },
	);
}

function wantedSignIn({ recentSignIn }: AnyEndpoint, input: unknown): RecentSignIn {
	if (typeof recentSignIn !== "function") return recentSignIn ?? false;
	return input !== undefined && recentSignIn(input as never);
}
