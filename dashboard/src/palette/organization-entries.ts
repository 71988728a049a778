/**
 * Entries of the palette about one organization: its screens, keys, members and actions. Lists that
 * the user may not read stay empty.
 */
import { usePage } from "../api";
import { IconKey, IconPlus, IconUser, IconUserPlus } from "../icons";
import { keyPath, organizationPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { ORGANIZATION_PLACES } from "../shell/places";
import { action, type Entry } from "./match";

export function useOrganizationEntries(orgId: string | undefined): Entry[] {
	const may = useOrganizationMay(orgId ?? "");
	const mayKeys = orgId !== undefined && may("org.manage_apikeys") === true;
	const mayMembers = orgId !== undefined && may("org.read_members") === true;
	const keys = usePage("GET /apikey", { query: { org_id: orgId ?? "" } }, 0, { enabled: mayKeys }).data?.items ?? [];
	const members =
		usePage("GET /organization/members", { query: { orgId: orgId ?? "" } }, 0, { enabled: mayMembers }).data?.items ??
		[];
	if (orgId === undefined) return [];
	return [
		...ORGANIZATION_PLACES.filter(({ permission }) => may(permission) === true).flatMap((place): Entry[] => [
			{ group: "Go to", label: place.label, icon: place.icon, to: organizationPath(orgId, place.screen) },
			...(place.tabs ?? [])
				.slice(1)
				.filter(([, , permission]) => may(permission) === true)
				.map(([screen, label]) => ({ group: "Go to", label, icon: place.icon, to: organizationPath(orgId, screen) })),
		]),
		...keys.map(({ id, name, key_hint }) => ({
			group: "API keys",
			label: name,
			note: key_hint,
			icon: IconKey,
			to: keyPath(orgId, id),
		})),
		...keys.map(({ id, name }) =>
			action(`Rotate ${name}…`, IconKey, `${keyPath(orgId, id)}?do=rotate`, "api key secret regenerate"),
		),
		...members.map(({ email, role }) => ({
			group: "Members",
			label: email,
			note: role,
			icon: IconUser,
			to: organizationPath(orgId, "members"),
		})),
		...NEW_THINGS.filter(({ permission }) => may(permission) === true).map(({ label, icon, screen, act, words }) =>
			action(label, icon, `${organizationPath(orgId, screen)}?do=${act}`, words),
		),
	];
}

/** Actions that create something; each opens the dialog of its screen. */
const NEW_THINGS = [
	{ permission: "org.create_app", label: "New app", icon: IconPlus, screen: undefined, act: "new", words: undefined },
	{
		permission: "org.create_app",
		label: "Look at the sample app",
		icon: IconPlus,
		screen: undefined,
		act: "sample",
		words: "add demo example try",
	},
	{
		permission: "org.invite_user",
		label: "Invite a member",
		icon: IconUserPlus,
		screen: "members",
		act: "invite",
		words: "colleague",
	},
	{
		permission: "org.update_user_roles",
		label: "New role",
		icon: IconUserPlus,
		screen: "roles",
		act: "new",
		words: "custom permissions",
	},
	{
		permission: "org.update_user_roles",
		label: "New group",
		icon: IconUserPlus,
		screen: "groups",
		act: "new",
		words: "team members",
	},
	{
		permission: "org.manage_apikeys",
		label: "New API key",
		icon: IconKey,
		screen: "keys",
		act: "new",
		words: "create token ci",
	},
] as const;
