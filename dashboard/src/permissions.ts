/**
 * The user's permissions, so that screens offer nothing that the API would refuse. The API decides;
 * this is only presentation. The user's roles come from the member list and from the roles on
 * single apps and channels; no role is named here.
 */
import { useQueries, useQuery } from "@tanstack/react-query";
import { administersOrganization, PERMISSIONS_AT, type Permission } from "../../src/authz/permissions";
import { type AnswerOf, ask, queryClient, useAsk } from "./api";
import { useOrganizations } from "./organizations";
import { isBuiltIn, type KnownRole, roleIn, useRolesOf } from "./roles";

export type { Permission };

/** Undefined while the permissions load. */
export type May = (permission: Permission) => boolean | undefined;

/** The permissions that the user holds somewhere; undefined while they load. */
export type Held = readonly Permission[] | undefined;

type Member = AnswerOf<"GET /organization/members">[number];
export type MemberBinding = AnswerOf<"GET /organization/members/bindings">[number];

/** The user's membership of the organization, or null. */
const ownMembership = (orgId: string, uid: string) => ({
	queryKey: ["GET /organization/members", "own", orgId, uid],
	queryFn: async (): Promise<Member | null> => {
		const [own] = await ask("GET /organization/members", { query: { orgId, uid } });
		return own ?? null;
	},
});

/** Everything that a role can permit on an app. */
const BELOW = PERMISSIONS_AT.app;

const useOwnId = () => useAsk("GET /account", {}).data?.uid;

/**
 * The permissions of the user's role on each whole organization, in the same order. Custom roles
 * are looked up only for their holders.
 */
export function useHeldIn(orgIds: readonly string[]): readonly Held[] {
	const uid = useOwnId();
	const memberships = useQueries({
		queries: orgIds.map((orgId) => ({ ...ownMembership(orgId, uid ?? ""), enabled: uid !== undefined })),
	});
	const names = memberships.map(({ data, isError }) => (isError ? "" : data === null ? "" : data?.role));
	const roles = useRolesOf(
		orgIds.map((orgId, index) => {
			const name = names[index] ?? "";
			return name === "" || isBuiltIn(name) ? undefined : orgId;
		}),
	);
	return names.map((name, index) => {
		const known = roles[index];
		if (name === undefined || known === undefined) return undefined;
		return name === "" ? [] : (roleIn(known, name)?.permissions ?? []);
	});
}

export function useHeld(orgId: string | undefined): Held {
	return useHeldIn(orgId === undefined ? [] : [orgId])[0];
}

/**
 * Whether the user may create organizations, and so grant that. The permission belongs to the
 * account and is effective while the account administers any organization. Every membership lists
 * it, so for users without it the first one is enough.
 */
export function useMayCreateOrganizations(): boolean {
	const uid = useOwnId();
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
				if (administersOrganization(member.role)) return true;
			}
			return false;
		},
	});
	return found.data === true;
}

export function useOrganizationMay(orgId: string | undefined): May {
	const held = useHeld(orgId);
	return (permission) => held?.includes(permission);
}

/** A role of the user on an app or a channel: of their own, or by a group. */
export type OwnBinding = Pick<MemberBinding, "id" | "role_name" | "app_id" | "channel_id" | "channel">;

const ownBindings = (orgId: string, uid: string, appId: string | undefined) => ({
	queryKey: ["own roles below", orgId, uid, appId],
	queryFn: async (): Promise<readonly OwnBinding[]> => {
		const ofApp = appId === undefined ? {} : { app_id: appId };
		const [own, groups] = await Promise.all([
			ask("GET /organization/members/bindings", { query: { orgId, uid, limit: "1000", ...ofApp } }),
			ask("GET /organization/groups", { query: { orgId, user_id: uid } }),
		]);
		const byGroups = groups.flatMap(({ bindings }) => bindings);
		return [...own, ...byGroups.filter(({ app_id }) => appId === undefined || app_id === appId)];
	},
});

/** The user's roles on single apps and channels. Those who may not list members get none. */
export function useOwnBindings(orgId: string | undefined, appId: string | undefined, enabled: boolean) {
	const uid = useOwnId();
	return useQuery({
		...ownBindings(orgId ?? "", uid ?? "", appId),
		enabled: enabled && uid !== undefined && orgId !== undefined,
	});
}

/**
 * The organization of an app that is hidden from the user, by a role of theirs on one of its
 * channels.
 */
export function useOrganizationOfRole(appId: string): string | undefined {
	const uid = useOwnId();
	const organizations = useOrganizations().data ?? [];
	const found = useQueries({
		queries: organizations.map(({ id }) => ({ ...ownBindings(id, uid ?? "", appId), enabled: uid !== undefined })),
	});
	return organizations.find((_, index) => (found[index]?.data?.length ?? 0) > 0)?.id;
}

/**
 * Permissions by the user's role on the organization, and by those on the app and, with
 * `channelId`, on that channel.
 */
function useHeldBelow(
	appId: string,
	orgId: string | undefined,
	channelId: number | undefined,
): readonly [Held, boolean] {
	const held = useHeld(orgId);
	const mayList =
		held?.includes("org.read_members") === true && !BELOW.every((permission) => held.includes(permission));
	const bindings = useOwnBindings(orgId, appId, mayList && appId !== "");
	const [roles] = useRolesOf([
		bindings.data?.some(({ role_name }) => !isBuiltIn(role_name)) === true ? orgId : undefined,
	]);
	const there = (bindings.data ?? []).filter(
		({ channel_id }) => channel_id === null || (channelId !== undefined && channel_id === channelId),
	);
	const isKnown = held !== undefined && roles !== undefined && !(mayList && appId !== "" && bindings.isPending);
	const gained = there.flatMap(({ role_name }) => roleIn(roles ?? [], role_name)?.permissions ?? []);
	return [[...(held ?? []), ...gained], isKnown];
}

/** On the app and everything in it. */
export function useAppMay(appId: string, orgId: string | undefined): May {
	const [held, isKnown] = useHeldBelow(appId, orgId, undefined);
	return (permission) => (held?.includes(permission) ? true : isKnown ? false : undefined);
}

/** On one channel. */
export function useChannelMay(appId: string, orgId: string | undefined, channelId: number): May {
	const [held, isKnown] = useHeldBelow(appId, orgId, channelId);
	return (permission) => (held?.includes(permission) ? true : isKnown ? false : undefined);
}

/**
 * Whether the user holds every permission of the role. Without that they may neither grant it nor
 * change its holder.
 */
export function covers(held: Held, role: KnownRole | undefined): boolean {
	return (role?.permissions ?? []).every((permission) => held?.includes(permission) === true);
}

/** Roles that the user may grant, at one level: those whose every permission they hold. */
export function grantableRoles(
	roles: readonly KnownRole[],
	held: Held,
	scope: KnownRole["scopeType"],
): readonly KnownRole[] {
	return roles.filter((role) => role.assignable && role.scopeType === scope && covers(held, role));
}

/**
 * Roles that the user may give to members on the whole organization: built-in ones, weakest first,
 * then custom ones.
 */
export function memberRoles(roles: readonly KnownRole[], held: Held): readonly KnownRole[] {
	const grantable = grantableRoles(roles, held, "org");
	const builtIn = grantable.filter(({ isCustom }) => !isCustom);
	return [
		...builtIn.sort((left, right) => left.permissions.length - right.permissions.length),
		...grantable.filter(({ isCustom }) => isCustom),
	];
}
