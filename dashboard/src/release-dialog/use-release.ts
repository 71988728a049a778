/**
 * The facts of the release dialog: the channels and the chosen one as it is now, the bundle of the
 * chosen version, how many devices the channel has, and what the user may do.
 */
import { useQuery } from "@tanstack/react-query";
import { type AnswerOf, ask, useAllPages, useAsk } from "../api";
import type { Channel } from "../components/channel-badges";
import { useAppMay, useChannelMay } from "../permissions";

export type BundleRecord = AnswerOf<"GET /bundle">[number];

/** A rollout may start, end or be paused while the dialog is open. */
const LOOK_AGAIN_MS = 5_000;

/**
 * The channels to choose from: those of the app, or the given one for a role on that channel only.
 * Undefined while they load.
 */
export function useChannels(
	appId: string,
	given: string | undefined,
	seesApp: boolean,
): readonly Channel[] | undefined {
	const all = useAllPages("GET /channel", { query: { app_id: appId } }, { enabled: seesApp });
	const one = useAsk("GET /channel", { query: { app_id: appId, channel: given ?? "" } }, { enabled: !seesApp });
	if (seesApp) return all.data;
	return one.data === undefined || Array.isArray(one.data) ? undefined : [one.data as Channel];
}

/** The channel as it is now, so that the dialog stays correct while its rollout changes. */
export function useCurrent(appId: string, known: Channel | undefined): Channel | undefined {
	const query = { app_id: appId, channel: known?.name ?? "" };
	const { data } = useAsk("GET /channel", { query }, { enabled: known !== undefined, everyMs: LOOK_AGAIN_MS });
	return data === undefined || Array.isArray(data) ? known : (data as Channel);
}

export function useBundle(appId: string, version: string, isEnabled: boolean): BundleRecord | undefined {
	const query = { app_id: appId, version };
	const { data } = useAsk("GET /bundle", { query }, { enabled: isEnabled && version !== "" });
	return data?.find(({ name }) => name === version);
}

/**
 * Devices of the channel that were seen in the last 30 days; undefined while unknown. Nothing is
 * preselected while they are counted, because a selection must not change under the reader's hand.
 */
export function useChannelDevices(appId: string, channel: Channel | undefined, isEnabled: boolean) {
	const { data, isLoading } = useQuery({
		queryKey: ["POST /channel/what_if", "devices", appId, channel?.name],
		queryFn: () => {
			const body = { app_id: appId, channel: channel?.name ?? "", version: channel?.version?.name ?? "builtin" };
			return ask("POST /channel/what_if", { body });
		},
		enabled: isEnabled && channel !== undefined,
		retry: false,
	});
	return { known: data, isCounting: isLoading };
}

export function useRights(appId: string, orgId: string | undefined, channel: Channel | undefined) {
	const may = useAppMay(appId, orgId);
	const mayHere = useChannelMay(appId, orgId, channel?.id ?? 0);
	return {
		mayUpload: may("app.upload_bundle") === true,
		/** Releases to any channel of the app. */
		mayAnywhere: may("channel.promote_bundle") === true,
		/** Undefined while the rights load. */
		maySet: mayHere("channel.update_settings"),
	};
}
