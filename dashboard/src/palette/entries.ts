/**
 * Everything that the palette finds: places, objects of the open (or last visited) app, members,
 * keys, documentation, and actions. Lists that the user may not read stay empty. Actions open their
 * dialog (`?do=`); nothing is changed from the palette itself.
 */
import { useQueries, useQuery } from "@tanstack/react-query";
import { ask, useAllPages } from "../api";
import { useColorScheme } from "../components/color-scheme";
import { IconApps, IconBook, IconDeviceMobile, IconMoon, IconSun, IconUser } from "../icons";
import { type AppRecord, useOrganizations } from "../organizations";
import { appPath, devicePath, organizationPath } from "../paths";
import type { Where } from "../shell/navigation";
import { visitedApps } from "../shell/visited";
import { useAppEntries } from "./app-entries";
import { type Entry, MOST_OF_A_GROUP } from "./match";
import { useOrganizationEntries } from "./organization-entries";

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
