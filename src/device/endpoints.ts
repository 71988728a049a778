/**
 * The endpoints that devices call, without a key, and the one that explains what they are told.
 */
import { chooseChannel, currentChannel, selectableChannels, unsetChannel } from "./channel-self";
import { explainDevice } from "./explain";
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
	explainDevice,
] as const;
