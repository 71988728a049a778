/**
 * Entries of the palette about one app: its screens, objects and actions. Lists that the user may
 * not read stay empty.
 */
import { useAsk, usePage } from "../api";
import { percentText } from "../components/size";
import {
	IconArrowBackUp,
	IconBox,
	IconGitBranch,
	IconGitCompare,
	IconGitPullRequest,
	IconListCheck,
	IconPlus,
	IconRocket,
	IconUpload,
} from "../icons";
import { appPath, bundlePath, channelPath } from "../paths";
import { useAppMay } from "../permissions";
import { APP_PLACES } from "../shell/places";
import { action, type Entry } from "./match";

type Channel = NonNullable<ReturnType<typeof usePage<"GET /channel">>["data"]>["items"][number];

/** @param part what was typed, a moment ago */
export function useAppEntries(
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
	const names = bundles.map(({ name }) => name);
	return [
		...placeEntries(appId, note),
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
		...channels.flatMap((channel) => rolloutEntries(appId, channel)),
		action("Get started", IconListCheck, `${appPath(appId)}?do=start`, "first steps checklist connect onboarding"),
		...(mayRelease ? releaseActions(appId, names, channels) : []),
		...names.map((name) =>
			action(
				`Compare ${name}…`,
				IconGitCompare,
				`${bundlePath(appId, name)}?do=compare`,
				"bundle difference files diff",
			),
		),
		...(may("app.upload_bundle") === true
			? [action("Upload a bundle", IconUpload, `${appPath(appId, "bundles")}?do=upload`)]
			: []),
		...(may("app.create_channel") === true
			? [action("New channel", IconPlus, `${appPath(appId, "channels")}?do=new`)]
			: []),
	];
}

const placeEntries = (appId: string, note: string | undefined) =>
	APP_PLACES.flatMap((place): Entry[] => [
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
	]);

function rolloutEntries(
	appId: string,
	{ name, rolloutEnabled, rolloutPausedAt, rolloutPercentageBps, rollout_version_info }: Channel,
): Entry[] {
	if (rollout_version_info === null || !rolloutEnabled) return [];
	return [
		{
			group: "Rollouts",
			label: `Rollout of ${rollout_version_info.name} on ${name}`,
			note: `${rolloutPausedAt === null ? "" : "paused "}at ${percentText(rolloutPercentageBps)}`,
			words: "running",
			icon: IconRocket,
			to: channelPath(appId, name),
		},
	];
}

/** Releases start at the app, at a bundle, or at a channel; a rollback at a channel. */
function releaseActions(appId: string, bundles: readonly string[], channels: readonly Channel[]): Entry[] {
	const words = "bundle promote deploy publish";
	return [
		action("Release…", IconRocket, `${appPath(appId)}?do=release`, `${words} zip upload`),
		...bundles.map((name) => action(`Release ${name}…`, IconRocket, `${bundlePath(appId, name)}?do=release`, words)),
		...channels.flatMap(({ name, is_preview }) => [
			action(`Release to ${name}…`, IconRocket, `${channelPath(appId, name)}?do=release`, words),
			...(is_preview
				? []
				: [action(`Roll back ${name}…`, IconArrowBackUp, `${channelPath(appId, name)}?do=rollback`, "undo history")]),
		]),
	];
}
