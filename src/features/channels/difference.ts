/**
 * Step 1 of a channel change: what differs. Compares the request with the rows that were loaded
 * beside the decision. Pure, so POST /channel, PUT /bundle, the stock CLI and dry runs get the same
 * difference, and a refused request is a value: only callers who may promote learn why.
 */

import type { ChannelRow, ChannelValues, Platforms } from "../../db/channels";
import { NO_NOTICE } from "../../db/rollouts";
import type { Flag } from "../../db/schema";
import { PLATFORMS } from "../../domain/updates/model";
import { ApiError, invalidRequest } from "../../errors";
import type { ChannelBody } from "./body";
import { requestedColumns } from "./fields";
import { onlySlowsDown, protectedThatYield, requestedProtection } from "./protection";
import {
	type ChannelRequest,
	type LoadedBundle,
	type RolloutEnded,
	rolloutEnded,
	servedBundles,
} from "./served-bundles";
import { differences, type PlannedValues, touchesRollout } from "./values";

/** The columns that differ from the channel, and what follows from them. */
export interface Difference {
	/** Name of the channel. */
	readonly name: string;
	/** As it was read; undefined: the request creates it. */
	readonly channel: ChannelRow | undefined;
	readonly settings: ChannelValues;
	/** Columns of the stable bundle and the rollout, which need another permission than settings. */
	readonly bundles: PlannedValues;
	/** Both groups. */
	readonly values: PlannedValues;
	/** Bundles that the channel newly points to. */
	readonly promoted: readonly LoadedBundle[];
	/** Versions of the bundles that the request or the channel names, by id. */
	readonly versions: ReadonlyMap<number, string>;
	readonly changesSettings: boolean;
	readonly changesBundles: boolean;
	/** The stable bundle or the rollout of the channel must still be as it was read. */
	readonly concernsRollout: boolean;
	/** Pauses, lowers or ends a rollout and brings nothing new to any device. */
	readonly onlySlowsDown: boolean;
	/** The rollout that ends without its bundle becoming stable. */
	readonly rolloutEnded: RolloutEnded | null;
	/** The platforms of the channel must still be as they were read. */
	readonly movesPlatforms: boolean;
	/** Platforms that other channels lose. */
	readonly taken: Platforms;
	/** A protected channel is among them. */
	readonly takesFromProtected: boolean;
	/** Devices whose build names the channel reach it from now on. */
	readonly opensByName: boolean;
}

export const NO_PLATFORMS: Platforms = { ios: 0, android: 0, electron: 0 };

/**
 * The difference, or the refusal of a request that contradicts itself, the channel or its bundles.
 */
export function differenceOf(request: ChannelRequest): Difference | ApiError {
	const { body, channel } = request;
	const served = servedBundles(request);
	if (served instanceof ApiError) return served;
	const bundles = differences(served, channel);
	if (touchesRollout(bundles) || body.rolloutNotice === null) Object.assign(bundles, differences(NO_NOTICE, channel));
	const requested = requestedSettings(body, channel);
	if (requested instanceof ApiError) return requested;
	const settings = differences(requested, channel);
	const values = { ...settings, ...bundles };
	const platforms = platformsOf(values, channel);
	return {
		name: body.channel,
		channel,
		settings,
		bundles,
		values,
		promoted: promotedBy(bundles, request),
		versions: versionsOf(request),
		changesSettings: Object.keys(settings).length > 0,
		changesBundles: Object.keys(bundles).length > 0,
		concernsRollout: touchesRollout(bundles) || bundles.version_id !== undefined,
		onlySlowsDown: channel !== undefined && onlySlowsDown(bundles, channel),
		rolloutEnded: rolloutEnded(bundles, channel),
		...platforms,
		takesFromProtected: protectedThatYield(request.protectedPublic, body.channel, platforms.taken).length > 0,
		opensByName: opensByName(values, channel),
	};
}

function promotedBy(bundles: PlannedValues, { stable, rollout }: ChannelRequest): LoadedBundle[] {
	const promoted: LoadedBundle[] = [];
	if (typeof bundles.version_id === "number" && stable !== undefined) promoted.push(stable);
	if (typeof bundles.rollout_version_id === "number" && rollout !== undefined) promoted.push(rollout);
	return promoted;
}

function versionsOf({ channel, stable, rollout }: ChannelRequest): Map<number, string> {
	const versions = new Map<number, string>();
	for (const bundle of [stable, rollout]) if (bundle !== undefined) versions.set(bundle.id, bundle.name);
	if (channel !== undefined && channel.rollout_version_id !== null && channel.rollout_version_name !== null) {
		versions.set(channel.rollout_version_id, channel.rollout_version_name);
	}
	return versions;
}

/**
 * Only if this request makes something public: other channels must not lose platforms to a state
 * that was read earlier.
 */
function platformsOf(values: PlannedValues, channel: ChannelRow | undefined) {
	const isOn = (platform: keyof Platforms) => flag((values[platform] ?? channel?.[platform] ?? 1) === 1);
	const isPublic = (values.public ?? channel?.public ?? 0) === 1;
	const movesPlatforms = (["public", "ios", "android", "electron"] as const).some((name) => values[name] !== undefined);
	const taken = { ios: isOn("ios"), android: isOn("android"), electron: isOn("electron") };
	return { movesPlatforms, taken: movesPlatforms && isPublic ? taken : NO_PLATFORMS };
}

type Opening = Pick<PlannedValues, "public" | "allow_device_self_set" | (typeof PLATFORMS)[number]>;

const isOpenFor = (platform: (typeof PLATFORMS)[number], channel: Opening) =>
	(channel.public === 1 || channel.allow_device_self_set === 1) && (channel[platform] ?? 1) === 1;

/**
 * Whether devices of some platform reach the channel by its name after the change, and not before.
 * Previews have rules of their own.
 */
function opensByName(values: PlannedValues, channel: ChannelRow | undefined): boolean {
	if (channel?.is_preview === 1 && values.public !== 1) return false;
	const after: Opening = { ...channel, ...values };
	return PLATFORMS.some((platform) => isOpenFor(platform, after) && !isOpenFor(platform, channel ?? {}));
}

const flag = (value: boolean): Flag => (value ? 1 : 0);

function requestedSettings(body: ChannelBody, channel: ChannelRow | undefined): ChannelValues | ApiError {
	const mode = body.updatePackage ?? body.update_package;
	if (body.update_package !== undefined && body.update_package !== mode) {
		return invalidRequest([{ path: "update_package", message: "contradicts updatePackage; send one of the two" }]);
	}
	const settings = requestedColumns(body);
	const platforms = platformsOfPublic(body, settings, channel);
	if (platforms instanceof ApiError) return platforms;
	const protection = requestedProtection(body, channel);
	return protection instanceof ApiError ? protection : { ...settings, ...platforms, ...protection };
}

/** Platforms that follow from `public`, unless the body names them. */
function platformsOfPublic(
	body: ChannelBody,
	settings: ChannelValues,
	channel: ChannelRow | undefined,
): ChannelValues | ApiError {
	const named = [body.ios, body.android, body.electron].some((platform) => platform !== undefined);
	const becomesPublic = body.public === true;
	if (channel === undefined && becomesPublic && body.electron === undefined) {
		// A new channel for one phone platform is not for desktops either.
		const phones = [body.ios ?? true, body.android ?? true].filter(Boolean).length;
		if (phones === 1) return { electron: 0 };
	}
	if (channel !== undefined && becomesPublic && !named && channel.ios + channel.android + channel.electron === 0) {
		// Another channel took the platforms when it became public; a request for public takes them back.
		return { ios: 1, android: 1, electron: 1 };
	}
	const left = {
		ios: settings.ios ?? channel?.ios ?? 1,
		android: settings.android ?? channel?.android ?? 1,
		electron: settings.electron ?? channel?.electron ?? 1,
	};
	if (Number(left.ios) + Number(left.android) + Number(left.electron) > 0) return {};
	if (becomesPublic) {
		return new ApiError(
			"channel_has_no_platform",
			"A public channel needs a platform; set ios, android or electron to true.",
		);
	}
	return channel?.public === 1 ? { public: 0 } : {};
}
