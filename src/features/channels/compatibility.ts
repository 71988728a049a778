/**
 * Compares the native packages of a bundle with those of the bundle that a channel serves, and
 * refuses the bundle if the channel requires compatible ones. A bundle is compared when a change
 * puts it on the channel; a rollout that goes on, and a rollback to a bundle that was live there,
 * are not compared again.
 */
import * as v from "valibot";
import type { AppId, ChannelId } from "../../authz/decide";
import type { ChannelRow, ChannelValues } from "../../db/channels";
import { guard, type Statement } from "../../db/client";
import type { PackagedRow } from "../../db/native-packages";
import { channelHas } from "../../db/proposals";
import {
	COMPATIBILITY_VERDICTS,
	type Compatibility,
	compatibilityOf,
	isRefused,
	NOT_COMPARED_PACKAGES,
	PACKAGE_PROBLEMS,
	problemsText,
} from "../../domain/bundles/native-packages";
import { ApiError } from "../../errors";
import type { PlannedValues } from "./values";

/** In an answer. */
export const compatibilityFields = {
	version: v.string(),
	live_version: v.nullable(v.string()),
	verdict: v.picklist(COMPATIBILITY_VERDICTS),
	not_compared: v.nullable(v.picklist(NOT_COMPARED_PACKAGES)),
	packages: v.array(
		v.strictObject({
			name: v.string(),
			version: v.nullable(v.string()),
			live_version: v.nullable(v.string()),
			problem: v.nullable(v.picklist(PACKAGE_PROBLEMS)),
		}),
	),
};

interface ChannelCompatibility extends Compatibility {
	readonly version: string;
	readonly live_version: string | null;
}

/** For the answer of an endpoint, whose arrays are not readonly. */
export const compatibilityAnswer = ({ packages, ...compatibility }: ChannelCompatibility) => ({
	...compatibility,
	packages: packages.map((each) => ({ ...each })),
});

type ComparedChannel = Pick<ChannelRow, "name" | "version_id" | "rollout_version_id" | "disable_auto_update">;

/** Compares a bundle with the one that is live on the channel. */
export function compatibilityWith(
	channel: Pick<ComparedChannel, "disable_auto_update">,
	bundle: PackagedRow,
	live: PackagedRow | undefined,
): ChannelCompatibility {
	const byMinimum = channel.disable_auto_update === "version_number";
	return { version: bundle.name, live_version: live?.name ?? null, ...compatibilityOf(bundle, live, byMinimum) };
}

/**
 * The comparison of the bundle that a change puts on the channel, of the one with a problem if it
 * puts two; undefined if it puts none.
 * @param values the columns that differ
 * @param bundles those of the channel and of `values`
 */
export function compatibilityOfChange(
	values: PlannedValues,
	channel: ComparedChannel,
	bundles: readonly PackagedRow[],
): ChannelCompatibility | undefined {
	const bundleOf = (id: number | null | undefined) => bundles.find((bundle) => bundle.id === id);
	const { version_id: stableId, rollout_version_id: rolloutId } = values;
	const nextStable = stableId === undefined ? channel.version_id : stableId;
	const { disable_auto_update = channel.disable_auto_update } = values;
	const compared = [
		// The bundle of a rollout that becomes stable was compared when the rollout began.
		...(stableId === channel.rollout_version_id ? [] : [[stableId, channel.version_id] as const]),
		[rolloutId, nextStable] as const,
	].flatMap(([id, liveId]) => {
		const bundle = bundleOf(id);
		return bundle === undefined ? [] : [compatibilityWith({ disable_auto_update }, bundle, bundleOf(liveId))];
	});
	return compared.find(isRefused) ?? compared.at(-1);
}

/**
 * @throws {ApiError} `bundle_incompatible` if the channel requires compatible bundles and the
 * change brings another one
 */
export function refuseIncompatible(
	values: PlannedValues,
	channel: ComparedChannel & Pick<ChannelRow, "require_compatible_bundle">,
	bundles: readonly PackagedRow[],
): void {
	if ((values.require_compatible_bundle ?? channel.require_compatible_bundle) === 0) return;
	const compatibility = compatibilityOfChange(values, channel, bundles);
	if (compatibility === undefined || !isRefused(compatibility)) return;
	const { version, live_version, packages, not_compared } = compatibility;
	const problem =
		not_compared === "bundle_lists_none"
			? `Bundle ${version} does not list its native packages, and channel ${channel.name} requires bundles that fit the live bundle ${live_version}. Upload it with \`capstan release\` or the stock CLI, which list them`
			: `Bundle ${version} does not fit the store builds of channel ${channel.name}, whose live bundle is ${live_version}: ${problemsText(packages)}. Release it to a channel for newer store builds`;
	throw new ApiError(
		"bundle_incompatible",
		`${problem}, or have somebody who may change the channel's settings send requireCompatibleBundle: false.`,
		{
			moreInfo: {
				channel: channel.name,
				version,
				live_version,
				not_compared,
				packages: packages.filter((each) => each.problem !== null),
			},
		},
	);
}

/**
 * For the batch of a change that brings a bundle: the comparison still holds, because the setting
 * and the live bundle are as they were read.
 */
export function compatibilityGuards(
	appId: AppId,
	channelId: ChannelId,
	values: ChannelValues,
	{ require_compatible_bundle, version_id }: Pick<ChannelRow, "require_compatible_bundle" | "version_id">,
	changed: () => ApiError,
): Statement[] {
	const brings = [values.version_id, values.rollout_version_id].some((id) => typeof id === "number");
	if (!brings) return [];
	const isRequired = (values.require_compatible_bundle ?? require_compatible_bundle) === 1;
	return [
		guard(channelHas(appId, channelId, { require_compatible_bundle, ...(isRequired ? { version_id } : {}) }), changed),
	];
}
