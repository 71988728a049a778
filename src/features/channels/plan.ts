/**
 * Plans a change of a channel: compares the request with the channel as it is, and derives the columns to write, the platforms to take
 * from other channels, and the permissions. Pure, so POST /channel, dry runs and the stock CLI get the same plan.
 */
import { holds, type Target } from "../../authz/decide";
import type { Permission } from "../../authz/permissions";
import { lacksPermission, type Principal } from "../../authz/principal";
import type { ChannelRow, ChannelValues, Platforms } from "../../db/channels";
import { NO_NOTICE } from "../../db/rollouts";
import type { Flag } from "../../db/schema";
import { columnsOf, PROTECTION_FIELDS } from "../../domain/updates/channel-fields";
import { ApiError, invalidRequest } from "../../errors";
import type { ChannelBody } from "./body";
import { requestedColumns } from "./fields";
import { protectedThatYield, requestedProtection } from "./protection";
import { type ChannelRequest, type LoadedBundle, servedBundles } from "./served-bundles";

/** Columns that differ from the channel, in two groups, because each needs its own permission. */
export interface ChannelChange {
	readonly settings: ChannelValues;
	readonly bundles: ChannelValues;
	/** Bundles that the channel newly points to. */
	readonly promoted: readonly LoadedBundle[];
}

const flag = (value: boolean): Flag => (value ? 1 : 0);

function requestedSettings(body: ChannelBody, channel: ChannelRow | undefined): ChannelValues {
	const mode = body.updatePackage ?? body.update_package;
	if (body.update_package !== undefined && body.update_package !== mode) {
		throw invalidRequest([{ path: "update_package", message: "contradicts updatePackage; send one of the two" }]);
	}
	const settings = requestedColumns(body);
	return { ...settings, ...platformsOfPublic(body, settings, channel), ...requestedProtection(body, channel) };
}

/** Platforms that follow from `public`, unless the body names them. */
function platformsOfPublic(body: ChannelBody, settings: ChannelValues, channel: ChannelRow | undefined): ChannelValues {
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
		throw new ApiError(
			"channel_has_no_platform",
			"A public channel needs a platform; set ios, android or electron to true.",
		);
	}
	return channel?.public === 1 ? { public: 0 } : {};
}

/** The values that the channel does not have yet. */
export function differences(values: ChannelValues, channel: ChannelRow | undefined): ChannelValues {
	if (channel === undefined) return values;
	const current: Readonly<Record<string, unknown>> = { ...channel };
	return Object.fromEntries(Object.entries(values).filter(([column, value]) => current[column] !== value));
}

export function changeOf(request: ChannelRequest, newRolloutId: string, nowMs: number): ChannelChange {
	const { channel, stable, rollout } = request;
	const bundles = differences(servedBundles(request, newRolloutId, nowMs), channel);
	if (touchesRollout(bundles) || request.body.rolloutNotice === null) {
		Object.assign(bundles, differences(NO_NOTICE, channel));
	}
	const promoted: LoadedBundle[] = [];
	if (typeof bundles.version_id === "number" && stable !== undefined) promoted.push(stable);
	if (typeof bundles.rollout_version_id === "number" && rollout !== undefined) promoted.push(rollout);
	return { settings: differences(requestedSettings(request.body, channel), channel), bundles, promoted };
}

export const touchesRollout = (values: ChannelValues): boolean =>
	Object.keys(values).some((column) => column.startsWith("rollout_"));

/** The columns to write, and the platforms that other channels lose. */
export function plannedWrite({ settings, bundles }: ChannelChange, channel: ChannelRow | undefined) {
	const values = { ...settings, ...bundles };
	const isOn = (platform: keyof Platforms) => flag((values[platform] ?? channel?.[platform] ?? 1) === 1);
	const isPublic = (values.public ?? channel?.public ?? 0) === 1;
	// Only if this request makes something public: other channels must not lose platforms to a state that was read earlier.
	const movesPlatforms = (["public", "ios", "android", "electron"] as const).some((name) => values[name] !== undefined);
	return {
		values,
		movesPlatforms,
		taken:
			movesPlatforms && isPublic
				? { ios: isOn("ios"), android: isOn("android"), electron: isOn("electron") }
				: NO_PLATFORMS,
	};
}

export const NO_PLATFORMS: Platforms = { ios: 0, android: 0, electron: 0 };

/**
 * Permissions that the request needs: `channel.read` if it changes nothing. A channel that becomes public serves its bundle to every device, as
 * a promotion does.
 */
export function permissionsToChange(request: ChannelRequest): readonly [Permission, ...Permission[]] {
	const { channel } = request;
	const unchanged = channel === undefined ? "app.create_channel" : "channel.read";
	let change: ChannelChange;
	try {
		change = changeOf(request, "undrawn", 0);
	} catch (error) {
		// The handler throws it again, for callers who may promote.
		if (error instanceof ApiError) return [channel === undefined ? "app.create_channel" : "channel.promote_bundle"];
		throw error;
	}
	const needed: Permission[] = [];
	if (channel === undefined) needed.push("app.create_channel");
	else {
		const opens = change.settings.public === 1 && channel.version_id !== null;
		if (opens || Object.keys(change.bundles).length > 0) needed.push("channel.promote_bundle");
		if (Object.keys(change.settings).length > 0) needed.push("channel.update_settings");
	}
	if (isForAdministrators(request, change)) needed.push("app.update_user_roles");
	const [first, ...rest] = needed;
	return first === undefined ? [unchanged] : [first, ...rest];
}

/** The change concerns protection, the settings of a protected channel, or a platform of one. */
export function isForAdministrators(
	{ body, channel, protectedPublic }: ChannelRequest,
	change: ChannelChange,
): boolean {
	const { settings } = change;
	if (channel?.protected === 1 && Object.keys(settings).length > 0) return true;
	if (columnsOf(PROTECTION_FIELDS).some((column) => settings[column] !== undefined)) return true;
	return protectedThatYield(protectedPublic, body.channel, plannedWrite(change, channel).taken).length > 0;
}

/**
 * A new channel that serves a bundle, or serves every device, does what a promotion and a change of settings do. Channels of preview roles have
 * rules of their own.
 * @throws {ApiError} `permission_denied`
 */
export function refuseToServeNew(principal: Principal, { orgId, appId }: Target, values: ChannelValues): void {
	const needed: Permission[] = [];
	if (typeof values.version_id === "number" || typeof values.rollout_version_id === "number") {
		needed.push("channel.promote_bundle");
	}
	if (values.public === 1) needed.push("channel.update_settings");
	const missing = needed.find(
		(permission) => !holds(principal, permission, { orgId, ...(appId === undefined ? {} : { appId }) }),
	);
	if (missing !== undefined) throw lacksPermission(principal, missing, "app");
}
