/**
 * The endpoints that devices call, without a key.
 */
import { chooseChannel, currentChannel, selectableChannels, unsetChannel } from "./channel-self";
import { manifestSize } from "./manifest-size";
import { reportStats } from "./stats";
import { checkUpdate, updatesHealth } from "./updates";

export const deviceEndpoints = [
	updatesHealth,
	checkUpdate,
	manifestSize,
	reportStats,
	chooseChannel,
	currentChannel,
	unsetChannel,
	selectableChannels,
] as const;
