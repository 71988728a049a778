/**
 * The places of the navigation: order, names, icons, and the screens that share an entry as tabs.
 * The sidebar, the tab bar of phones, breadcrumbs, the palette and the keys after G read the same
 * lists. A place has one name everywhere.
 */
import {
	IconAdjustmentsHorizontal,
	IconApps,
	IconBox,
	IconChartLine,
	IconDeviceMobile,
	type IconDrawing,
	IconGitBranch,
	IconGitPullRequest,
	IconHistory,
	IconKey,
	IconRocket,
	IconSettings,
	IconUsers,
} from "../icons";
import type { AppScreen, OrganizationScreen } from "../paths";
import type { Permission } from "../permissions";

interface AppPlace {
	readonly screen: AppScreen;
	readonly label: string;
	readonly icon: IconDrawing;
	/** Pressed after G. */
	readonly key?: string;
	/** Further screens below the same entry, as tabs beside the first. */
	readonly tabs?: readonly (readonly [AppScreen, string])[];
}

export const APP_PLACES: readonly AppPlace[] = [
	{
		screen: "releases",
		label: "Releases",
		icon: IconRocket,
		key: "r",
	},
	{ screen: "channels", label: "Channels", icon: IconGitBranch, key: "c" },
	{ screen: "previews", label: "Previews", icon: IconGitPullRequest, key: "p" },
	{ screen: "bundles", label: "Bundles", icon: IconBox, key: "b" },
	{
		screen: "devices",
		label: "Devices",
		icon: IconDeviceMobile,
		key: "d",
		tabs: [
			["devices", "Devices"],
			["events", "Events"],
		],
	},
	{ screen: "statistics", label: "Statistics", icon: IconChartLine, key: "s" },
	{
		screen: "settings",
		label: "Settings",
		icon: IconSettings,
		tabs: [
			["settings", "General"],
			["connect", "Setup"],
			["publishers", "Trusted publishers"],
			["webhooks", "Webhooks"],
			["changes", "Activity"],
		],
	},
];

interface OrganizationPlace {
	readonly screen: OrganizationScreen;
	readonly label: string;
	readonly icon: IconDrawing;
	readonly permission: Permission;
	readonly key?: string;
	readonly tabs?: readonly (readonly [OrganizationScreen, string, Permission])[];
}

export const ORGANIZATION_PLACES: readonly OrganizationPlace[] = [
	{
		screen: "apps",
		label: "Apps",
		icon: IconApps,
		permission: "org.read",
		tabs: [
			["apps", "Apps", "org.read"],
			["statistics", "Statistics of all apps", "org.read"],
		],
	},
	{
		screen: "members",
		label: "Members",
		icon: IconUsers,
		permission: "org.read_members",
		tabs: [
			["members", "Members", "org.read_members"],
			["groups", "Groups", "org.read_members"],
			["roles", "Roles", "org.read"],
		],
	},
	{ screen: "keys", label: "API keys", icon: IconKey, permission: "org.manage_apikeys" },
	{ screen: "changes", label: "Activity", icon: IconHistory, permission: "org.read_audit" },
	{
		screen: "settings",
		label: "Organization settings",
		icon: IconAdjustmentsHorizontal,
		permission: "org.read",
		tabs: [
			["settings", "General", "org.read"],
			["webhooks", "Webhooks", "org.update_settings"],
		],
	},
];

interface Place<Screen> {
	readonly screen: Screen;
	readonly tabs?: readonly (readonly [Screen, string, ...unknown[]])[];
}

/** The entry that leads to a screen. */
export function placeOf<Screen extends string, Of extends Place<Screen>>(
	places: readonly (Of & Place<Screen>)[],
	screen: string | undefined,
): Of | undefined {
	return places.find((place) => place.screen === screen || place.tabs?.some(([tab]) => tab === screen) === true);
}
