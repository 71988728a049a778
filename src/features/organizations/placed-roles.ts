/**
 * Roles on single apps and channels, for members and groups: which can be given where, and what
 * several of them give together. Roles that only the service gives are not among them.
 */
import * as v from "valibot";
import { roleNamed } from "../../authz/custom-roles";
import { covers, type Target } from "../../authz/decide";
import { type Permission, ROLE_NAMES, ROLES, type Role } from "../../authz/permissions";
import { invalidRequest } from "../../errors";
import { customRoleName } from "../../http/schemas";

const BUILT_IN = ROLE_NAMES.filter((role) => ROLES[role].assignable && ROLES[role].scopeType !== "org");
const PLACED_ROLE = `must be one of ${BUILT_IN.join(", ")}, or the name of a custom role of apps or channels`;
/** The strongest role of channels. */
export const EXAMPLE_PLACED_ROLE = BUILT_IN.find((role) => ROLES[role].scopeType === "channel") ?? "";

/** The name of a built-in role, or what may be one of a custom role. */
export const placedRoleName = v.union([v.picklist(BUILT_IN), customRoleName], PLACED_ROLE);

/** A role of a member or a group, with its place. */
interface PlacedBinding {
	readonly role_name: string;
	readonly scope_type: "app" | "channel";
	readonly app_uuid: string;
	readonly channel_id: number | null;
}

export const placedAt = (channelId: number | null) => (channelId === null ? ("app" as const) : ("channel" as const));

/**
 * @throws {ApiError} `invalid_request` for a role of apps with a channel, one of channels without,
 * or any other
 */
export function placedRole(name: string, channel: string | undefined, customRoles: readonly Role[]): Role {
	const role = roleNamed(name, customRoles);
	if (role === undefined || role.scopeType === "org") {
		throw invalidRequest([
			{ path: "role_name", message: `${PLACED_ROLE}; list them with GET /organization/roles`, received: name },
		]);
	}
	if (role.scopeType === "channel" && channel === undefined) {
		throw invalidRequest([{ path: "channel", message: `is required for the role ${name}` }]);
	}
	if (role.scopeType === "app" && channel !== undefined) {
		throw invalidRequest([
			{ path: "channel", message: `must be omitted for the role ${name}, which is held on an app` },
		]);
	}
	return role;
}

/**
 * Permissions that the roles on the organization and those on apps and channels give at the place.
 */
export function permissionsAt(
	roles: readonly string[],
	held: readonly PlacedBinding[],
	place: Target,
	customRoles: readonly Role[],
): ReadonlySet<Permission> {
	const there = held.filter(({ scope_type, app_uuid, channel_id }) =>
		covers({ scopeType: scope_type, orgId: place.orgId, appId: app_uuid, channelId: channel_id }, place),
	);
	const names = [...roles, ...there.map(({ role_name }) => role_name)];
	return new Set(names.flatMap((name) => roleNamed(name, customRoles)?.permissions ?? []));
}
