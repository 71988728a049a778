/**
 * The user's permissions, so that screens offer nothing that the API would refuse. The API decides; this is only presentation. The user's
 * role comes from the member list, its permissions from the role table of src/authz; no role is named here.
 */
import { useQueries, useQuery } from "@tanstack/react-query";
import { MEMBER_ROLES } from "../../src/authz/member-roles";
import {
	administersOrganization,
	type Permission,
	ROLE_NAMES,
	ROLES,
	type RoleName,
} from "../../src/authz/permissions";
import { ROLE_TEXTS } from "../../src/authz/role-texts";
import { type AnswerOf, ask, queryClient, useAsk } from "./api";
import { useOrganizations } from "./organizations";

export type { Permission, RoleName };

/** Undefined while the permissions load. */
export type May = (permission: Permission) => boolean | undefined;

export function roleNamed(name: string | undefined): RoleName | undefined {
	return ROLE_NAMES.find((role) => role === name);
}

const permissionsOf = (role: RoleName | undefined): readonly Permission[] =>
	role === undefined ? [] : ROLES[role].permissions;

type Member = AnswerOf<"GET /organization/members">[number];

/** The user's membership of the organization, or null. */
const ownMembership = (orgId: string, uid: string) => ({
	queryKey: ["GET /organization/members", "own", orgId, uid],
	queryFn: async (): Promise<Member | null> => {
		const [own] = await ask("GET /organization/members", { query: { orgId, uid } });
		return own ?? null;
	},
});

/** The user's role in each organization, in the same order: null if they have none, undefined while it loads. */
export function useOwnRoles(orgIds: readonly string[]): readonly (RoleName | null | undefined)[] {
	const uid = useAsk("GET /account", {}).data?.uid;
	const memberships = useQueries({
		queries: orgIds.map((orgId) => ({ ...ownMembership(orgId, uid ?? ""), enabled: uid !== undefined })),
	});
	return memberships.map(({ data, isError }) =>
		isError ? null : data === undefined ? undefined : (roleNamed(data?.role) ?? null),
	);
}

/** The user's role in the organization: null if they have none, undefined while it loads. */
export function useOwnRole(orgId: string | undefined): RoleName | null | undefined {
	return useOwnRoles(orgId === undefined ? [] : [orgId])[0];
}

/**
 * Whether the user may create organizations, and so grant that. The permission belongs to the account and is effective while the account
 * administers any organization. Every membership lists it, so for users without it the first one is enough.
 */
export function useMayCreateOrganizations(): boolean {
	const uid = useAsk("GET /account", {}).data?.uid;
	const organizations = useOrganizations().data;
	const isOwn = ({ created_by }: { readonly created_by: string }) => created_by === uid;
	const orgIds = [...(organizations ?? [])].sort((a, b) => Number(isOwn(b)) - Number(isOwn(a))).map(({ id }) => id);
	const found = useQuery({
		queryKey: ["creates organizations", uid, orgIds],
		enabled: uid !== undefined && organizations !== undefined,
		queryFn: async () => {
			for (const orgId of orgIds) {
				const member = await queryClient.fetchQuery(ownMembership(orgId, uid ?? "")).catch(() => null);
				if (member === null) continue;
				if (!member.global_permissions.includes("org.create")) return false;
				if (administers(member.role)) return true;
			}
			return false;
		},
	});
	return found.data === true;
}

export function administers(roleName: string): boolean {
	const role = roleNamed(roleName);
	return role !== undefined && administersOrganization(role);
}

export function useOrganizationMay(orgId: string | undefined): May {
	const role = useOwnRole(orgId);
	return (permission) => (role === undefined ? undefined : permissionsOf(role ?? undefined).includes(permission));
}

/** Some roles grant a further role on apps that the member creates. The audit log says who created the app. */
export function useAppMay(appId: string, orgId: string | undefined): May {
	const account = useAsk("GET /account", {});
	const role = useOwnRole(orgId);
	const roleOfCreator = role === undefined || role === null ? undefined : ROLES[role].roleOnCreatedApp;
	const creation = useAsk(
		"GET /app/:app_id/audit",
		{ params: { app_id: appId }, query: { action: "app.create" } },
		{ enabled: roleOfCreator !== undefined && appId !== "" },
	);
	const isCreator =
		Array.isArray(creation.data) &&
		creation.data.some(({ actor }) => actor.id === account.data?.uid && actor.id !== null);
	const held = [...permissionsOf(role ?? undefined), ...(isCreator ? permissionsOf(roleOfCreator) : [])];
	const isKnown = role !== undefined && (roleOfCreator === undefined || !creation.isPending);
	return (permission) => (held.includes(permission) ? true : isKnown ? false : undefined);
}

/** Roles that the user may grant: those whose every permission they hold. */
export function grantableRoles(own: RoleName | null | undefined, scope: "org" | "app"): RoleName[] {
	const held = permissionsOf(own ?? undefined);
	return ROLE_NAMES.filter(
		(name) =>
			ROLES[name].assignable &&
			ROLES[name].scopeType === scope &&
			ROLES[name].permissions.every((permission) => held.includes(permission)),
	);
}

/** Whether the user's role has every permission of the other role. Without that they may not change its holder. */
export function covers(own: RoleName | null | undefined, roleName: string): boolean {
	const held = permissionsOf(own ?? undefined);
	return permissionsOf(roleNamed(roleName)).every((permission) => held.includes(permission));
}

/** Roles that a user with this role may give to members, weakest first. */
export function memberRoles(own: RoleName | null | undefined): RoleName[] {
	const grantable = grantableRoles(own, "org");
	return MEMBER_ROLES.filter((role) => grantable.includes(role)).reverse();
}

export function roleText(name: string): string {
	const role = roleNamed(name);
	return role === undefined ? name : ROLE_TEXTS[role];
}
