/**
 * What the reader may do, so that nothing is offered that the API would refuse. It is only a matter of looks: the API decides. Roles of the
 * whole organization come from the list of members; what somebody holds at one app alone is asked of the endpoint that tells callers
 * what they may do.
 */
import { useQuery } from "@tanstack/react-query";
import { type Permission, ROLE_NAMES, ROLES, type RoleName } from "../../src/authz/permissions";
import { ask, useAsk } from "./api";

export type { Permission, RoleName };

/** Undefined while it is not known yet. */
export type May = (permission: Permission) => boolean | undefined;

const FRESH_MS = 60_000;

export function roleNamed(name: string | undefined): RoleName | undefined {
	return ROLE_NAMES.find((role) => role === name);
}

const permissionsOf = (role: RoleName | undefined): readonly Permission[] =>
	role === undefined ? [] : ROLES[role].permissions;

/** The reader's role in the organization; null where they have none. */
export function useOwnRole(orgId: string | undefined): RoleName | null | undefined {
	const account = useAsk("GET /account", {});
	const uid = account.data?.uid;
	const members = useAsk(
		"GET /organization/members",
		{ query: { orgId: orgId ?? "" } },
		{ enabled: orgId !== undefined && uid !== undefined },
	);
	if (members.isError) return null;
	if (members.data === undefined || uid === undefined) return undefined;
	return roleNamed(members.data.find((member) => member.uid === uid)?.role) ?? null;
}

export function useOrganizationMay(orgId: string): May {
	const role = useOwnRole(orgId);
	return (permission) => (role === undefined ? undefined : permissionsOf(role ?? undefined).includes(permission));
}

/** What the screens of an app offer. */
const ASKED = [
	"app.update_settings",
	"app.delete",
	"app.upload_bundle",
	"app.create_channel",
	"app.manage_devices",
	"bundle.delete",
	"channel.update_settings",
	"channel.delete",
	"channel.promote_bundle",
] as const satisfies readonly Permission[];

export function useAppMay(appId: string, orgId: string | undefined): May {
	const role = useOwnRole(orgId);
	const held = permissionsOf(role ?? undefined);
	const missing = ASKED.filter((permission) => !held.includes(permission));
	const atApp = useQuery({
		queryKey: ["permissions at an app", appId, missing],
		staleTime: FRESH_MS,
		enabled: role !== undefined && missing.length > 0,
		queryFn: async () => {
			const answers = await Promise.all(
				missing.map((permission) =>
					ask("POST /compat/capgo-cli/rest/v1/rpc/cli_check_permission", {
						body: { permission_key: permission, app_id: appId },
					}),
				),
			);
			return missing.filter((_, index) => answers[index] === true);
		},
	});
	return (permission) => {
		if (role === undefined) return undefined;
		if (held.includes(permission)) return true;
		return missing.length === 0 ? false : atApp.data?.some((name) => name === permission);
	};
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
