/**
 * The rows that a channel change reads beside the decision, in the same round trip. Every door that
 * changes a channel loads these, so that the four steps of `change.ts` compare the same rows.
 */
import { bundleById, bundleByName } from "../../db/bundles";
import { previewName } from "../../db/channel-names";
import { channelById, channelByName } from "../../db/channels";
import { packagesOfChannel } from "../../db/native-packages";
import { proposalsPage } from "../../db/proposals";
import type { Context } from "../../http/endpoint";
import type { ChannelScopeRow } from "../../http/scope";
import { type ChannelBody, rolloutOf } from "./body";
import { protectedPublicChannels } from "./protection";
import type { ChannelRequest } from "./served-bundles";

/** @param choice a bundle's id or version; none reads nothing */
export function bundleOfChoice(appId: string, choice: string | number | null | undefined) {
	if (choice === undefined || choice === null) return undefined;
	return typeof choice === "number" ? bundleById(appId, choice) : bundleByName(appId, choice);
}

/** Reads for a change, beside the decision: the channel, and the bundles that the body names. */
export function channelChangeReads(body: ChannelBody, nowMs: number) {
	return {
		channel: channelByName(body.app_id, body.channel),
		stable: bundleOfChoice(body.app_id, body.version),
		rollout: bundleOfChoice(body.app_id, rolloutOf(body).version),
		naming: previewName(body.app_id, body.channel),
		protectedPublic: protectedPublicChannels(body.app_id),
		waiting: proposalsPage(body.app_id, { channel: body.channel, isWaiting: true }, nowMs, 1, 0),
		packages: packagesOfChannel(body.app_id, { name: body.channel }),
	};
}

/** The same for a promotion that names the channel and the bundle by their ids. */
export function promotionReads(publicAppId: string, channelId: number, versionId: number, nowMs: number) {
	return {
		channel: channelById(publicAppId, channelId),
		stable: bundleById(publicAppId, versionId),
		rollout: undefined,
		naming: previewName(publicAppId, ""),
		protectedPublic: protectedPublicChannels(publicAppId),
		waiting: proposalsPage(publicAppId, { channelId, isWaiting: true }, nowMs, 1, 0),
		packages: packagesOfChannel(publicAppId, { id: channelId }),
	};
}

export type ChangeContext = Omit<
	Context<string, undefined, undefined, ChannelScopeRow, ReturnType<typeof channelChangeReads>>,
	"input"
> & { readonly input: { readonly body: ChannelBody } };

export function requestOf({ input: { body }, loaded }: Pick<ChangeContext, "input" | "loaded">): ChannelRequest {
	const { protectedPublic } = loaded;
	return { body, channel: loaded.channel[0], stable: loaded.stable[0], rollout: loaded.rollout[0], protectedPublic };
}
