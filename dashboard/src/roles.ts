/**
 * The roles of an organization: built-in ones from the table of src/authz, and those that the
 * organization defines itself. Names of custom roles are loaded where a screen lists or offers
 * roles; until then a custom role is shown by its name.
 */
import { useQueries } from "@tanstack/react-query";
import { isRoleName, type Permission, ROLE_NAMES, ROLES, type ScopeType } from "../../src/authz/permissions";
import { ROLE_TEXTS } from "../../src/authz/role-texts";
import { type AnswerOf, ask } from "./api";

export type { ScopeType };

type RoleRecord = AnswerOf<"GET /organization/roles">[number];

export interface KnownRole {
	readonly name: string;
	readonly title: string;
	readonly description: string;
	readonly scopeType: ScopeType;
	readonly permissions: readonly Permission[];
	readonly isCustom: boolean;
	/** False: only the service assigns it. */
	readonly assignable: boolean;
}

const BUILT_IN: readonly KnownRole[] = ROLE_NAMES.map((name) => ({
	name,
	title: ROLE_TEXTS[name],
	description: "",
	scopeType: ROLES[name].scopeType,
	permissions: ROLES[name].permissions,
	isCustom: false,
	assignable: ROLES[name].assignable,
}));

export const isBuiltIn = (name: string): boolean => isRoleName(name);

/** The level at which a role is given. */
export const LEVEL_TEXTS: Readonly<Record<ScopeType, string>> = {
	org: "The whole organization",
	app: "One app",
	channel: "One channel",
};

export const knownRole = (role: RoleRecord): KnownRole => ({
	name: role.name,
	title: role.title,
	description: role.description,
	scopeType: role.scope_type,
	permissions: role.permissions as Permission[],
	isCustom: role.is_custom,
	assignable: role.assignable,
});

/**
 * The roles of each organization; without an id only the built-in ones. Undefined while they load.
 */
export function useRolesOf(orgIds: readonly (string | undefined)[]): readonly (readonly KnownRole[] | undefined)[] {
	const answers = useQueries({
		queries: orgIds.map((orgId) => ({
			queryKey: ["GET /organization/roles", { query: { orgId } }],
			queryFn: () => ask("GET /organization/roles", { query: { orgId: orgId ?? "" } }),
			enabled: orgId !== undefined,
		})),
	});
	return answers.map(({ data, isError }, index) => {
		if (orgIds[index] === undefined || isError) return BUILT_IN;
		return data === undefined ? undefined : [...BUILT_IN, ...data.filter(({ is_custom }) => is_custom).map(knownRole)];
	});
}

/** The roles of the organization; the built-in ones while the others load. */
export const useRoles = (orgId: string | undefined): readonly KnownRole[] => useRolesOf([orgId])[0] ?? BUILT_IN;

export const roleIn = (roles: readonly KnownRole[], name: string) => roles.find((role) => role.name === name);

/** The name of a role on screens. */
export const titleOf = (roles: readonly KnownRole[], name: string) => roleIn(roles, name)?.title ?? name;

/**
 * Options of a choice of roles. A custom role that has the title of another one shows its name as
 * well.
 */
export function roleOptions(roles: readonly KnownRole[]) {
	return roles.map(({ name, title }) => ({
		value: name,
		label: roles.some((other) => other.title === title && other.name !== name) ? `${title} (${name})` : title,
	}));
}
