/**
 * Everything that the palette finds: places, objects of the open (or last visited) app, members,
 * keys, documentation, and actions. Lists that the user may not read stay empty. Actions open their
 * dialog (`?do=`); nothing is changed from the palette itself.
 */
import { useQuery } from "@tanstack/react-query";
import { useAsk, usePage } from "../api";
import { useColorScheme } from "../components/color-scheme";
import { percentText } from "../components/size";
import {
	IconApps,
	IconArrowBackUp,
	IconBook,
	IconBox,
	IconDeviceMobile,
	IconGitBranch,
	IconGitPullRequest,
	IconKey,
	IconListCheck,
	IconMoon,
	IconPlus,
	IconRocket,
	IconSun,
	IconUpload,
	IconUser,
	IconUserPlus,
} from "../icons";
import { useAppsOfOrganization, useOrganizations } from "../organizations";
import { appPath, bundlePath, channelPath, devicePath, keyPath, organizationPath } from "../paths";
import { useAppMay, useOrganizationMay } from "../permissions";
import type { Where } from "../shell/navigation";
import { APP_PLACES, ORGANIZATION_PLACES } from "../shell/places";
import { visitedApps } from "../shell/visited";
import type { Entry } from "./match";

/** The search index of the documentation, as its own pages use it. */
interface DocsEntry {
	readonly page: string;
	readonly title: string;
	readonly to: string;
	readonly words: string;
}

function useDocs(): readonly DocsEntry[] {
	const docs = useQuery<readonly DocsEntry[]>({
		queryKey: ["documentation"],
		queryFn: async () => (await fetch("/docs-assets/search.json")).json(),
		staleTime: Number.POSITIVE_INFINITY,
	});
	return docs.data ?? [];
}

/**
 * The app whose objects are searched: the open one, or the last visited one of the organization.
 */
function useSearchedApp({ appId, orgId }: Where) {
	const apps = useAppsOfOrganization(orgId ?? "").data ?? [];
	const visited = visitedApps().find((one) => apps.some(({ app_id }) => app_id === one));
	const searched = appId ?? visited ?? apps[0]?.app_id;
	return { apps, searched };
}

function useAppEntries(appId: string | undefined, orgId: string | undefined, isOpenApp: boolean): Entry[] {
	const query = { app_id: appId ?? "" };
	const options = { enabled: appId !== undefined };
	const channels = usePage("GET /channel", { query }, 0, options).data?.items ?? [];
	const bundles = usePage("GET /bundle", { query }, 0, options).data?.items ?? [];
	const previews = usePage("GET /preview", { query }, 0, options).data?.items ?? [];
	const may = useAppMay(appId ?? "", orgId);
	if (appId === undefined) return [];
	const note = isOpenApp ? undefined : appId;
	const mayRelease = may("channel.promote_bundle") === true;
	return [
		...APP_PLACES.flatMap((place): Entry[] => [
			{
				group: "Go to",
				label: place.label,
				note,
				icon: place.icon,
				to: appPath(appId, place.screen),
				...(place.key === undefined ? {} : { keys: ["G", place.key.toUpperCase()] }),
			},
			...(place.tabs ?? [])
				.slice(1)
				.map(([screen, label]) => ({ group: "Go to", label, note, icon: place.icon, to: appPath(appId, screen) })),
		]),
		...bundles.map(({ name, comment }) => ({
			group: "Bundles",
			label: name,
			note: comment ?? note,
			icon: IconBox,
			to: bundlePath(appId, name),
		})),
		...channels.map(({ name, version }) => ({
			group: "Channels",
			label: name,
			note: version === null ? "store build" : version.name,
			icon: IconGitBranch,
			to: channelPath(appId, name),
		})),
		...previews.map(({ number, title, channel }) => ({
			group: "Previews",
			label: title ?? channel ?? `#${number}`,
			note: `#${number}`,
			icon: IconGitPullRequest,
			to: channel === null ? appPath(appId, "previews") : channelPath(appId, channel),
		})),
		...channels.flatMap(({ name, rolloutEnabled, rolloutPausedAt, rolloutPercentageBps, rollout_version_info }) =>
			rollout_version_info === null || !rolloutEnabled
				? []
				: [
						{
							group: "Rollouts",
							label: `Rollout of ${rollout_version_info.name} on ${name}`,
							note: `${rolloutPausedAt === null ? "" : "paused "}at ${percentText(rolloutPercentageBps)}`,
							words: "running",
							icon: IconRocket,
							to: channelPath(appId, name),
						},
					],
		),
		{
			group: "Actions",
			label: "Get started",
			words: "first steps checklist connect onboarding",
			icon: IconListCheck,
			to: `${appPath(appId)}?do=start`,
		},
		...(mayRelease
			? [
					{
						group: "Actions",
						label: "Release…",
						words: "bundle zip upload promote deploy publish",
						icon: IconRocket,
						to: `${appPath(appId)}?do=release`,
					},
					...bundles.map(({ name }) => ({
						group: "Actions",
						label: `Release ${name}…`,
						words: "bundle promote deploy publish",
						icon: IconRocket,
						to: `${bundlePath(appId, name)}?do=release`,
					})),
				]
			: []),
		...(mayRelease
			? channels.flatMap(({ name, is_preview }) => [
					{
						group: "Actions",
						label: `Release to ${name}…`,
						words: "bundle promote deploy publish",
						icon: IconRocket,
						to: `${channelPath(appId, name)}?do=release`,
					},
					...(is_preview
						? []
						: [
								{
									group: "Actions",
									label: `Roll back ${name}…`,
									words: "undo history",
									icon: IconArrowBackUp,
									to: `${channelPath(appId, name)}?do=rollback`,
								},
							]),
				])
			: []),
		...(may("app.upload_bundle") === true
			? [{ group: "Actions", label: "Upload a bundle", icon: IconUpload, to: `${appPath(appId, "bundles")}?do=upload` }]
			: []),
		...(may("app.create_channel") === true
			? [{ group: "Actions", label: "New channel", icon: IconPlus, to: `${appPath(appId, "channels")}?do=new` }]
			: []),
	];
}

function useOrganizationEntries(orgId: string | undefined): Entry[] {
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
		...members.map(({ email, role }) => ({
			group: "Members",
			label: email,
			note: role,
			icon: IconUser,
			to: organizationPath(orgId, "members"),
		})),
		...(may("org.create_app") === true
			? [{ group: "Actions", label: "New app", icon: IconPlus, to: `${organizationPath(orgId)}?do=new` }]
			: []),
		...(may("org.invite_user") === true
			? [
					{
						group: "Actions",
						label: "Invite a member",
						words: "colleague",
						icon: IconUserPlus,
						to: `${organizationPath(orgId, "members")}?do=invite`,
					},
				]
			: []),
		...(may("org.update_user_roles") === true
			? [
					{
						group: "Actions",
						label: "New role",
						words: "custom permissions",
						icon: IconUserPlus,
						to: `${organizationPath(orgId, "roles")}?do=new`,
					},
					{
						group: "Actions",
						label: "New group",
						words: "team members",
						icon: IconUserPlus,
						to: `${organizationPath(orgId, "groups")}?do=new`,
					},
				]
			: []),
		...(mayKeys
			? [
					{
						group: "Actions",
						label: "New API key",
						words: "create token ci",
						icon: IconKey,
						to: `${organizationPath(orgId, "keys")}?do=new`,
					},
				]
			: []),
	];
}

export interface Found {
	readonly entries: readonly Entry[];
	/** Results of the server for the text; they need no further match. */
	readonly devices: readonly Entry[];
}

/** @param part what was typed, a moment ago */
export function useEntries(where: Where, part: string): Found {
	const { apps, searched } = useSearchedApp(where);
	const organizations = useOrganizations().data ?? [];
	const { setColorScheme } = useColorScheme();
	const docs = useDocs();
	const ofApp = useAppEntries(searched, where.orgId, searched === where.appId);
	const ofOrganization = useOrganizationEntries(where.orgId);
	const devices = useAsk(
		"GET /device",
		{ query: { app_id: searched ?? "", search: part } },
		{ enabled: searched !== undefined && part.length > 1 },
	);
	const visited = visitedApps();
	const rank = (appId: string) => (visited.includes(appId) ? visited.indexOf(appId) : visited.length);
	const found = Array.isArray(devices.data) ? devices.data : [];
	return {
		entries: [
			...[...apps]
				.sort((one, other) => rank(one.app_id) - rank(other.app_id))
				.map(({ app_id, name }) => ({ group: "Apps", label: name, note: app_id, icon: IconApps, to: appPath(app_id) })),
			...ofApp,
			...ofOrganization,
			...organizations
				.filter(({ id }) => id !== where.orgId)
				.map(({ id, name }) => ({ group: "Organizations", label: name, icon: IconApps, to: organizationPath(id) })),
			{ group: "Go to", label: "Your account", words: "passkey email sessions", icon: IconUser, to: "/account" },
			{ group: "Theme", label: "Light theme", icon: IconSun, run: () => setColorScheme("light") },
			{ group: "Theme", label: "Dark theme", icon: IconMoon, run: () => setColorScheme("dark") },
			{ group: "Theme", label: "Theme of the system", icon: IconSun, run: () => setColorScheme("auto") },
			{ group: "Documentation", label: "Documentation", words: "docs help", icon: IconBook, to: "/docs" },
			...docs.map(({ page, title, to, words }) => ({
				group: "Documentation",
				label: title,
				note: page === title ? undefined : page,
				words,
				icon: IconBook,
				to,
			})),
		],
		devices:
			searched === undefined
				? []
				: found.slice(0, 4).map(({ device_id, custom_id, version_name, platform }) => ({
						group: "Devices",
						label: custom_id ?? device_id,
						note: [custom_id === null ? undefined : device_id, platform, version_name]
							.filter((one) => one !== null && one !== undefined)
							.join(" · "),
						icon: IconDeviceMobile,
						to: devicePath(searched, device_id),
					})),
	};
}
