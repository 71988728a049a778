/**
 * Step 2 of a channel change: what it needs from the caller and of its bundles. Pure, and read from
 * the named fields of the difference alone. `requirements.ts` compares the needs with the caller; a
 * write without that check must not exist.
 */
import type { Permission } from "../../authz/permissions";
import type { ChannelRow } from "../../db/channels";
import { CHANNEL_FIELDS, type ChannelField, columnsOf, PROTECTION_FIELDS } from "../../domain/updates/channel-fields";
import { ApiError } from "../../errors";
import { type Difference, NO_PLATFORMS } from "./difference";
import { newBundles, type PlannedValues } from "./values";

export interface Needs {
	/**
	 * `app.update_user_roles`: it concerns protection, the settings of a protected channel, or a
	 * platform of one.
	 */
	readonly administrator: boolean;
	/** A right to settings of the whole app, because other channels lose platforms. */
	readonly settingsOfApp: boolean;
	/**
	 * Rights on the app, because a new channel serves a bundle or every device, as a promotion and a
	 * change of settings do.
	 */
	readonly toServeNew: readonly Permission[];
	/** A promoter of the channel, if it is protected. */
	readonly promoter: boolean;
	/** A recent sign-in of this promoter. */
	readonly recentPromoter: boolean;
	/** The approval of another promoter. */
	readonly approval: boolean;
	/** Bundles that the organization's signing policy must accept. */
	readonly signatures: readonly number[];
}

export function needsOf(difference: Difference): Needs {
	const { channel, values, changesBundles, taken, onlySlowsDown } = difference;
	const promotes = channel !== undefined && changesBundles;
	return {
		administrator: isForAdministrators(difference),
		settingsOfApp: taken !== NO_PLATFORMS,
		toServeNew: [
			...(newBundles(values).length > 0 ? ["channel.promote_bundle" as const] : []),
			...(values.public === 1 ? ["channel.update_settings" as const] : []),
		],
		promoter: promotes,
		recentPromoter: promotes && !onlySlowsDown,
		approval: promotes && channel.protected === 1 && channel.requires_approval === 1 && !onlySlowsDown,
		signatures: promotedBundles(values, channel),
	};
}

/**
 * Permissions that the request needs: `channel.read` if it changes nothing, and the right to
 * promote if it is refused. A channel that becomes public serves its bundle to every device, as a
 * promotion does.
 * @param channel as it was read; undefined: the request creates it
 */
export function permissionsOf(
	difference: Difference | ApiError,
	channel: ChannelRow | undefined,
): readonly [Permission, ...Permission[]] {
	const creates = channel === undefined;
	if (difference instanceof ApiError) return [creates ? "app.create_channel" : "channel.promote_bundle"];
	const { settings, changesSettings, changesBundles } = difference;
	const opens = !creates && settings.public === 1 && channel.version_id !== null;
	const needed: Permission[] = [
		...(creates ? ["app.create_channel" as const] : []),
		...(!creates && (opens || changesBundles) ? ["channel.promote_bundle" as const] : []),
		...(!creates && changesSettings ? ["channel.update_settings" as const] : []),
		...(isForAdministrators(difference) ? ["app.update_user_roles" as const] : []),
	];
	const [first, ...rest] = needed;
	return first === undefined ? ["channel.read"] : [first, ...rest];
}

const isForAdministrators = ({ channel, settings, changesSettings, takesFromProtected }: Difference): boolean =>
	takesFromProtected ||
	(channel?.protected === 1 && changesSettings) ||
	columnsOf(PROTECTION_FIELDS).some((column) => settings[column] !== undefined);

/** Settings that open the channel to more devices. */
const OPENING_COLUMNS = columnsOf(CHANNEL_FIELDS).filter((column) => {
	const field: ChannelField = CHANNEL_FIELDS[column];
	return field.opens === true;
});

/**
 * Bundles that a change brings to more devices: those that it puts on the channel, the rollout's if
 * its share grows, and both of the channel if the channel opens.
 *
 * @param values the columns that differ from the channel
 */
export function promotedBundles(values: PlannedValues, channel: ChannelRow | undefined): number[] {
	const brought = newBundles(values);
	if (channel === undefined) return brought;
	const opens = OPENING_COLUMNS.some((column) => values[column] === 1);
	const stable = opens && values.version_id === undefined ? channel.version_id : null;
	const grows =
		values.rollout_enabled === 1 ||
		values.rollout_paused_at_ms === null ||
		(values.rollout_percentage_bps ?? 0) > channel.rollout_percentage_bps;
	const rollout = (opens || grows) && values.rollout_version_id === undefined ? channel.rollout_version_id : null;
	return [...brought, stable, rollout].filter((id) => typeof id === "number");
}
