/**
 * Everything that the palette finds: places, objects of the open (or last visited) app, members,
 * keys, documentation, and actions. Lists that the user may not read stay empty. Actions open their
 * dialog (`?do=`); nothing is changed from the palette itself.
 */
import { useQueries, useQuery } from "@tanstack/react-query";
import { ask, useAllPages, useAsk, usePage } from "../api";
import { useColorScheme } from "../components/color-scheme";
import { percentText } from "../components/size";
import {
	IconApps,
	IconArrowBackUp,
	IconBook,
	IconBox,
	IconDeviceMobile,
	IconGitBranch,
	IconGitCompare,
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
import { type AppRecord, useOrganizations } from "../organizations";
import { appPath, bundlePath, channelPath, devicePath, keyPath, organizationPath } from "../paths";
import { useAppMay, useOrganizationMay } from "../permissions";
import type { Where } from "../shell/navigation";
import { APP_PLACES, ORGANIZATION_PLACES } from "../shell/places";
import { visitedApps } from "../shell/visited";
import { type Entry, MOST_OF_A_GROUP } from "./match";

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

/** Apps whose devices are searched beside those of the open one, the last visited ones first. */
const OTHER_APPS = 5;

/**
 * All apps of all organizations, those that were visited last first, and the one whose objects are
 * searched: the open one, or the last visited one of the organization.
 */
function useApps({ appId, orgId }: Where) {
	const visited = visitedApps();
	const rank = (app: AppRecord) => (visited.includes(app.app_id) ? visited.indexOf(app.app_id) : visited.length);
	const all = useAllPages("GET /app", {}).data ?? [];
	const apps = [...all].sort((one, other) => rank(one) - rank(other));
	const here = apps.filter(({ owner_org }) => owner_org === orgId);
	const searched = appId ?? here[0]?.app_id;
	return { apps, searched };
}

function useAppEntries(
	appId: string | undefined,
	orgId: string | undefined,
	isOpenApp: boolean,
	part: string,
): Entry[] {
	const query = { app_id: appId ?? "" };
	const options = { enabled: appId !== undefined };
	const channels = usePage("GET /channel", { query }, 0, options).data?.items ?? [];
	const newest = usePage("GET /bundle", { query }, 0, options).data?.items ?? [];
	const named = useAsk(
		"GET /bundle",
		{ query: { ...query, search: part } },
		{ enabled: appId !== undefined && part.length > 1 },
	);
	const found = Array.isArray(named.data) ? named.data : [];
	const bundles = [...newest, ...found.filter(({ id }) => newest.every((one) => one.id !== id))];
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
		...bundles.map(({ name }) => ({
			group: "Actions",
			label: `Compare ${name}…`,
			words: "bundle difference files diff",
			icon: IconGitCompare,
			to: `${bundlePath(appId, name)}?do=compare`,
		})),
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
		...keys.map(({ id, name }) => ({
			group: "Actions",
			label: `Rotate ${name}…`,
			words: "api key secret regenerate",
			icon: IconKey,
			to: `${keyPath(orgId, id)}?do=rotate`,
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
	const { apps, searched } = useApps(where);
	const organizations = useOrganizations().data ?? [];
	const { setColorScheme } = useColorScheme();
	const docs = useDocs();
	const ofApp = useAppEntries(searched, where.orgId, searched === where.appId, part);
	const ofOrganization = useOrganizationEntries(where.orgId);
	const organizationOf = (id: string) => organizations.find((one) => one.id === id)?.name;
	return {
		entries: [
			...apps.map(({ app_id, name, owner_org }) => ({
				group: "Apps",
				label: name,
				note: owner_org === where.orgId ? app_id : `${app_id} · ${organizationOf(owner_org) ?? ""}`,
				icon: IconApps,
				to: appPath(app_id),
			})),
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
		devices: useDevices(apps, searched, part),
	};
}

/** Devices by a part of their id or custom id: of the searched app first, then of other apps. */
function useDevices(apps: readonly AppRecord[], searched: string | undefined, part: string): Entry[] {
	const others = apps.map(({ app_id }) => app_id).filter((appId) => appId !== searched);
	const appIds = searched === undefined ? [] : [searched, ...others.slice(0, OTHER_APPS)];
	const answers = useQueries({
		queries: appIds.map((appId) => ({
			queryKey: ["devices of the palette", appId, part],
			queryFn: () => ask("GET /device", { query: { app_id: appId, search: part } }),
			enabled: part.length > 1,
		})),
	});
	// Those of the open app stand first, so nothing moves under the cursor when another app answers.
	if (answers[0]?.isPending !== false) return [];
	const found = answers.flatMap(({ data }, index) =>
		(Array.isArray(data) ? data : []).map((device) => ({ ...device, appId: appIds[index] ?? "" })),
	);
	return found.slice(0, MOST_OF_A_GROUP).map(({ appId, device_id, custom_id, version_name, platform }) => ({
		group: "Devices",
		label: custom_id ?? device_id,
		note: [
			appId === searched ? null : apps.find(({ app_id }) => app_id === appId)?.name,
			custom_id === null ? null : device_id,
			platform,
			version_name,
		]
			.filter((one) => one !== null && one !== undefined)
			.join(" · "),
		icon: IconDeviceMobile,
		to: devicePath(appId, device_id),
	}));
}
