/**
 * What the reader may do, so that nothing is offered that the API would refuse. It is only a matter of looks: the API decides. Roles of the
 * whole organization come from the list of members, what each holds from the role table of the project; no role is named.
 */
import { MEMBER_ROLES } from "../../src/authz/member-roles";
import {
	administersOrganization,
	type Permission,
	ROLE_NAMES,
	ROLES,
	type RoleName,
} from "../../src/authz/permissions";
import { useAsk } from "./api";

export type { Permission, RoleName };

/** Undefined while it is not known yet. */
export type May = (permission: Permission) => boolean | undefined;

export function roleNamed(name: string | undefined): RoleName | undefined {
	return ROLE_NAMES.find((role) => role === name);
}

const permissionsOf = (role: RoleName | undefined): readonly Permission[] =>
	role === undefined ? [] : ROLES[role].permissions;

/** The reader as a member of the organization; null where they are none. */
function useOwnMembership(orgId: string | undefined) {
	const account = useAsk("GET /account", {});
	const uid = account.data?.uid;
	const members = useAsk(
		"GET /organization/members",
		{ query: { orgId: orgId ?? "" } },
		{ enabled: orgId !== undefined && uid !== undefined },
	);
	if (members.isError) return null;
	if (members.data === undefined || uid === undefined) return undefined;
	return members.data.find((member) => member.uid === uid) ?? null;
}

/** The reader's role in the organization; null where they have none. */
export function useOwnRole(orgId: string | undefined): RoleName | null | undefined {
	const membership = useOwnMembership(orgId);
	return membership === undefined ? undefined : (roleNamed(membership?.role) ?? null);
}

/** Whether the reader creates organizations, and so may let others. It holds beside a role that administers one. */
export function useMayCreateOrganizations(orgId: string | undefined): boolean {
	const membership = useOwnMembership(orgId);
	return membership?.global_permissions.includes("org.create") === true && administers(membership.role);
}

export function administers(roleName: string): boolean {
	const role = roleNamed(roleName);
	return role !== undefined && administersOrganization(role);
}

export function useOrganizationMay(orgId: string): May {
	const role = useOwnRole(orgId);
	return (permission) => (role === undefined ? undefined : permissionsOf(role ?? undefined).includes(permission));
}

/** Somebody whose role gives them another one at the apps that they make has that one at those, as the log tells. */
export function useAppMay(appId: string, orgId: string | undefined): May {
	const account = useAsk("GET /account", {});
	const role = useOwnRole(orgId);
	const roleOfMaker = role === undefined || role === null ? undefined : ROLES[role].roleOnCreatedApp;
	const creation = useAsk(
		"GET /app/:app_id/audit",
		{ params: { app_id: appId }, query: { action: "app.create" } },
		{ enabled: roleOfMaker !== undefined },
	);
	const isMaker =
		Array.isArray(creation.data) &&
		creation.data.some(({ actor }) => actor.id === account.data?.uid && actor.id !== null);
	const held = [...permissionsOf(role ?? undefined), ...(isMaker ? permissionsOf(roleOfMaker) : [])];
	const isKnown = role !== undefined && (roleOfMaker === undefined || !creation.isPending);
	return (permission) => (held.includes(permission) ? true : isKnown ? false : undefined);
}

/** Nobody gives what they do not have: the roles whose every permission the granter holds. */
export function grantableRoles(own: RoleName | null | undefined, scope: "org" | "app"): RoleName[] {
	const held = permissionsOf(own ?? undefined);
	return ROLE_NAMES.filter(
		(name) =>
			ROLES[name].assignable &&
			(scope === "org" ? true : ROLES[name].scopeType === "app") &&
			ROLES[name].permissions.every((permission) => held.includes(permission)),
	);
}

/** What a member can be made by somebody with the role, weakest first. */
export function memberRoles(own: RoleName | null | undefined): RoleName[] {
	const grantable = grantableRoles(own, "org");
	return MEMBER_ROLES.filter((role) => grantable.includes(role)).reverse();
}

const ROLE_TEXTS: Readonly<Record<RoleName, string>> = {
	org_super_admin: "Owner",
	org_admin: "Administrator",
	org_member: "Member",
	app_admin: "App administrator",
	app_developer: "App developer",
	app_uploader: "App uploader",
	app_reader: "App reader",
	app_preview: "App previews",
	channel_preview: "Channel preview",
};

export function roleText(name: string): string {
	const role = roleNamed(name);
	return role === undefined ? name : ROLE_TEXTS[role];
}
