/**
 * What the reader may do, so that nothing is offered that the API would refuse. It is only a matter of looks: the API decides. Roles of the
 * whole organization come from the list of members, what each holds from the role table of the project; no role is named.
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

/** Undefined while it is not known yet. */
export type May = (permission: Permission) => boolean | undefined;

export function roleNamed(name: string | undefined): RoleName | undefined {
	return ROLE_NAMES.find((role) => role === name);
}

const permissionsOf = (role: RoleName | undefined): readonly Permission[] =>
	role === undefined ? [] : ROLES[role].permissions;

type Member = AnswerOf<"GET /organization/members">[number];

/** The reader as a member of the organization; null where they are none. */
const ownMembership = (orgId: string, uid: string) => ({
	queryKey: ["GET /organization/members", "own", orgId, uid],
	queryFn: async (): Promise<Member | null> => {
		const [own] = await ask("GET /organization/members", { query: { orgId, uid } });
		return own ?? null;
	},
});

/** The reader's role in each of the organizations, in their order; null where they have none, undefined while it is not known. */
export function useOwnRoles(orgIds: readonly string[]): readonly (RoleName | null | undefined)[] {
	const uid = useAsk("GET /account", {}).data?.uid;
	const memberships = useQueries({
		queries: orgIds.map((orgId) => ({ ...ownMembership(orgId, uid ?? ""), enabled: uid !== undefined })),
	});
	return memberships.map(({ data, isError }) =>
		isError ? null : data === undefined ? undefined : (roleNamed(data?.role) ?? null),
	);
}

/** The reader's role in the organization; null where they have none. */
export function useOwnRole(orgId: string | undefined): RoleName | null | undefined {
	return useOwnRoles(orgId === undefined ? [] : [orgId])[0];
}

/**
 * Whether the reader creates organizations, and so may let others. It is the account's, and holds while the account administers any
 * organization. Every organization tells of it, so those who do not have it are told by the first.
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
			ROLES[name].scopeType === scope &&
			ROLES[name].permissions.every((permission) => held.includes(permission)),
	);
}

/** Nobody takes anything from whoever is stronger: whether the role, or a missing one, holds all that the other does. */
export function covers(own: RoleName | null | undefined, roleName: string): boolean {
	const held = permissionsOf(own ?? undefined);
	return permissionsOf(roleNamed(roleName)).every((permission) => held.includes(permission));
}

/** What a member can be made by somebody with the role, weakest first. */
export function memberRoles(own: RoleName | null | undefined): RoleName[] {
	const grantable = grantableRoles(own, "org");
	return MEMBER_ROLES.filter((role) => grantable.includes(role)).reverse();
}

export function roleText(name: string): string {
	const role = roleNamed(name);
	return role === undefined ? name : ROLE_TEXTS[role];
}
