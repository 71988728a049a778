/**
 * The endpoints that devices call, without a key, and those that explain what they are told, or would be.
 */
import { chooseChannel, currentChannel, selectableChannels, unsetChannel } from "./channel-self";
import { explainDevice } from "./explain";
import { manifestSize } from "./manifest-size";
import { createPreviewLink, previewBundle, previewChannel } from "./preview";
import { approveProposal, listProposals, rejectProposal } from "./proposals";
import { rollBackChannel } from "./rollback";
import { reportStats } from "./stats";
import { checkUpdate, updatesHealth } from "./updates";
import { whatIf } from "./what-if";

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
	whatIf,
	previewChannel,
	previewBundle,
	createPreviewLink,
	rollBackChannel,
	listProposals,
	approveProposal,
	rejectProposal,
] as const;
