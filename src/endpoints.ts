/**
 * Every endpoint, in the order of the documentation; the stock CLI's are last. Routes,
 * authorization tests, openapi.json and the typed client derive from this list.
 */

import { capgoEndpoints, withCapgoForms } from "./compat/capgo-api/endpoints";
import { compatEndpoints } from "./compat/capgo-cli/endpoints";
import { accountLog, deleteAccount, getAccount } from "./features/accounts/account";
import { changeEmail, sendEmailCode } from "./features/accounts/email";
import { chooseMails, listEventMails } from "./features/accounts/event-mails";
import { listProviders, unlinkProvider } from "./features/accounts/linked-providers";
import { passkeySignInOptions, signInWithPasskey } from "./features/accounts/passkey-sign-in";
import {
	createPasskey,
	deletePasskey,
	listPasskeys,
	passkeyOptions,
	renamePasskey,
} from "./features/accounts/passkeys";
import { beginProvider, finishProvider } from "./features/accounts/providers";
import { endSession, endSessions, listSessions } from "./features/accounts/sessions";
import { sendSignInCode, signInMethods, signInWithCode, signInWithLink, signOut } from "./features/accounts/sign-in";
import { deleteApp, listReservations, releaseReservation, restoreApp } from "./features/apps/deletion";
import { createApp, getApp, listApps, updateApp } from "./features/apps/routes";
import { createSampleApp } from "./features/apps/sample/routes";
import {
	acceptTransfer,
	declineTransfer,
	listTransfers,
	offerTransfer,
	withdrawTransfer,
} from "./features/apps/transfer";
import { appAudit, organizationAudit } from "./features/audit/routes";
import { showCompatibility } from "./features/bundles/compatibility";
import { deleteBundle } from "./features/bundles/delete";
import { compareBundles } from "./features/bundles/difference";
import { downloadObject } from "./features/bundles/download";
import { listBundleFiles, showDownload } from "./features/bundles/files";
import { findBundles, listBundles } from "./features/bundles/list";
import { changeMetadata } from "./features/bundles/metadata";
import { promoteBundle } from "./features/bundles/promote";
import { completeBundle, registerBundle } from "./features/bundles/register";
import { tusAppend, tusStatus } from "./features/bundles/tus-append";
import { tusCapabilities, tusCreate } from "./features/bundles/tus-create";
import { uploadOnce } from "./features/bundles/upload-once";
import { approveProposal, rejectProposal } from "./features/channels/approvals";
import { listApprovers } from "./features/channels/approvers";
import { deleteChannel } from "./features/channels/delete";
import { showChannelHistory } from "./features/channels/history";
import { listProposals } from "./features/channels/proposals";
import { showRelease } from "./features/channels/release";
import { listReleases } from "./features/channels/releases";
import { rollBackChannel } from "./features/channels/rollback";
import { listChannels, setChannel } from "./features/channels/routes";
import { whatIf } from "./features/channels/what-if";
import { deviceEvents } from "./features/devices/events";
import { listDevices, listRecentDevices } from "./features/devices/list";
import { setDevice, unsetDevice } from "./features/devices/routes";
import { grantGroupBinding, revokeGroupBinding } from "./features/groups/bindings";
import { addGroupMember, listGroupMembers, removeGroupMember } from "./features/groups/members";
import { createGroup, deleteGroup, listGroups, updateGroup } from "./features/groups/routes";
import { changeKey } from "./features/keys/change";
import { createKey } from "./features/keys/create";
import { getKey, listKeys } from "./features/keys/read";
import { revokeKey } from "./features/keys/revoke";
import { updateOrganization } from "./features/organizations/change";
import { createOrganization } from "./features/organizations/creation";
import { deleteOrganization, restoreOrganization } from "./features/organizations/deletion";
import { acceptInvitation, declineInvitation, showInvitation } from "./features/organizations/invitations";
import { inviteMember } from "./features/organizations/invite";
import { grantMemberBinding, listMemberBindings, revokeMemberBinding } from "./features/organizations/member-bindings";
import { updateMember } from "./features/organizations/member-change";
import { updateMemberPermissions } from "./features/organizations/member-permissions";
import { removeMember } from "./features/organizations/member-removal";
import { listMembers } from "./features/organizations/members";
import { listOrganizations } from "./features/organizations/read";
import { deleteRole, updateRole } from "./features/organizations/role-change";
import { createRole, listRoles } from "./features/organizations/roles";
import { organizationUsage } from "./features/organizations/usage";
import { githubDelivery, gitlabDelivery } from "./features/previews/incoming-webhooks";
import { createPreviewLink, previewBundle, previewChannel } from "./features/previews/links";
import { replacePreviewPage, showPreviewPage } from "./features/previews/page";
import { closePreview, listPreviews, openPreviewEndpoint } from "./features/previews/routes";
import {
	createPreviewHook,
	deletePreviewHook,
	listPreviewHooks,
	rotatePreviewHook,
} from "./features/previews/webhook-settings";
import { exchangeToken } from "./features/publishers/exchange";
import { findRepository } from "./features/publishers/repository";
import { changePublisher, createPublisher, listPublishers, removePublisher } from "./features/publishers/routes";
import { showRollout } from "./features/rollouts/routes";
import { commandPackage, newestCommand } from "./features/service/command-package";
import { health, listAddresses, start } from "./features/service/routes";
import { serviceStatus } from "./features/service/status";
import { createSigningKey, deleteSigningKey, listDeviceKeys, listSigningKeys } from "./features/signing/routes";
import { appsOverview } from "./features/statistics/app-overview";
import { bundleUsage, installStatistics } from "./features/statistics/bundle-routes";
import { channelDevices } from "./features/statistics/channel-devices";
import { failureStatistics } from "./features/statistics/failure-figures";
import { healthStatistics } from "./features/statistics/health";
import { reportStats } from "./features/statistics/ingest";
import { nativeUsage } from "./features/statistics/native-routes";
import { appStatistics, organizationStatistics, userStatistics } from "./features/statistics/routes";
import { chooseChannel, currentChannel, selectableChannels, unsetChannel } from "./features/updates/channel-self";
import { checkUpdate, updatesHealth } from "./features/updates/check";
import { explainDevice } from "./features/updates/explain";
import { manifestSize } from "./features/updates/manifest-size";
import {
	listAttempts,
	listDeliveries,
	replayWebhook,
	stopWebhookDelivery,
	testWebhook,
} from "./features/webhooks/deliveries";
import {
	changeWebhook,
	createWebhook,
	deleteWebhook,
	listWebhooks,
	rotateWebhookSecret,
} from "./features/webhooks/routes";
import { tryAddress } from "./features/webhooks/trial";

export const allEndpoints = withCapgoForms([
	listOrganizations,
	createOrganization,
	updateOrganization,
	deleteOrganization,
	restoreOrganization,
	organizationUsage,
	listMembers,
	inviteMember,
	updateMember,
	updateMemberPermissions,
	removeMember,
	listMemberBindings,
	grantMemberBinding,
	revokeMemberBinding,
	listGroups,
	createGroup,
	updateGroup,
	deleteGroup,
	listGroupMembers,
	addGroupMember,
	removeGroupMember,
	grantGroupBinding,
	revokeGroupBinding,
	listRoles,
	createRole,
	updateRole,
	deleteRole,
	showInvitation,
	acceptInvitation,
	declineInvitation,
	organizationAudit,
	listSigningKeys,
	createSigningKey,
	deleteSigningKey,
	listWebhooks,
	createWebhook,
	changeWebhook,
	deleteWebhook,
	rotateWebhookSecret,
	testWebhook,
	tryAddress,
	listAttempts,
	listDeliveries,
	replayWebhook,
	stopWebhookDelivery,
	listKeys,
	getKey,
	createKey,
	changeKey,
	revokeKey,
	listApps,
	createApp,
	createSampleApp,
	// Before the paths with an app id, which would match these as ids.
	...capgoEndpoints,
	listReservations,
	releaseReservation,
	restoreApp,
	listTransfers,
	offerTransfer,
	withdrawTransfer,
	acceptTransfer,
	declineTransfer,
	getApp,
	updateApp,
	deleteApp,
	appAudit,
	listChannels,
	setChannel,
	deleteChannel,
	showRollout,
	showChannelHistory,
	listApprovers,
	listReleases,
	showRelease,
	listBundles,
	compareBundles,
	showCompatibility,
	findBundles,
	listBundleFiles,
	showDownload,
	changeMetadata,
	registerBundle,
	completeBundle,
	promoteBundle,
	deleteBundle,
	listDevices,
	listRecentDevices,
	deviceEvents,
	setDevice,
	unsetDevice,
	listDeviceKeys,
	uploadOnce,
	tusCapabilities,
	tusCreate,
	tusStatus,
	tusAppend,
	downloadObject,
	appStatistics,
	bundleUsage,
	nativeUsage,
	installStatistics,
	healthStatistics,
	failureStatistics,
	channelDevices,
	userStatistics,
	appsOverview,
	organizationStatistics,
	signInMethods,
	sendSignInCode,
	signInWithCode,
	passkeySignInOptions,
	signInWithPasskey,
	signInWithLink,
	beginProvider,
	finishProvider,
	signOut,
	getAccount,
	sendEmailCode,
	changeEmail,
	listSessions,
	endSession,
	endSessions,
	listPasskeys,
	passkeyOptions,
	createPasskey,
	renamePasskey,
	deletePasskey,
	listProviders,
	unlinkProvider,
	accountLog,
	deleteAccount,
	listEventMails,
	chooseMails,
	start,
	health,
	listAddresses,
	newestCommand,
	commandPackage,
	serviceStatus,
	// Devices call these without a key.
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
	listPreviews,
	openPreviewEndpoint,
	closePreview,
	replacePreviewPage,
	showPreviewPage,
	listPreviewHooks,
	createPreviewHook,
	rotatePreviewHook,
	deletePreviewHook,
	githubDelivery,
	gitlabDelivery,
	previewChannel,
	previewBundle,
	createPreviewLink,
	rollBackChannel,
	listProposals,
	approveProposal,
	rejectProposal,
	listPublishers,
	createPublisher,
	changePublisher,
	removePublisher,
	findRepository,
	exchangeToken,
	...compatEndpoints,
]);
