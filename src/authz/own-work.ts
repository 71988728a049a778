/**
 * The "own work only" rule: a preview role grants its permissions only on bundles, channels and uploads that the caller created itself.
 */
import { ApiError } from "../errors";
import { decide, type Target } from "./decide";
import type { Permission } from "./permissions";
import type { Principal } from "./principal";

/** An API key, or an account that is signed in without one. */
export type Caller = Pick<Principal, "userId" | "keyId">;

/** The creator of a bundle, a channel or an upload, as columns of its row. */
export interface Made {
	readonly created_by: string;
	readonly created_by_key: string | null;
}

/** Whether this API key created it, or this account without a key. */
export function isOwnWork(made: Made, { userId, keyId }: Caller): boolean {
	return made.created_by_key === keyId && (keyId !== null || made.created_by === userId);
}

/** @throws {ApiError} `permission_denied` unless the caller created it, or holds the permission on the target without that limit */
export function requireOwnWork(principal: Principal, permission: Permission, target: Target, made: Made): void {
	const decision = decide(principal, permission, target);
	const isLimited = decision.outcome !== "allow" || decision.ownWorkOnly !== undefined;
	if (isLimited) requireCreator(principal, permission, made);
}

/** @throws {ApiError} `permission_denied` unless the caller created it, with any role */
export function requireCreator(caller: Caller, permission: Permission, made: Made): void {
	if (isOwnWork(made, caller)) return;
	throw new ApiError(
		"permission_denied",
		"The caller may do this only to what it created itself; use the API key that created it, or a role without that limit.",
		{ moreInfo: { permission, scope: "app" } },
	);
}
