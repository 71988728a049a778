/**
 * Every endpoint of the API, in the order of the documentation. What is not in this list (or in the stock CLI's, src/compat) is not
 * reachable; the authorization tests, openapi.json and the typed client are made from it.
 */
import {
	accountLog,
	changeEmail,
	deleteAccount,
	endSession,
	endSessions,
	getAccount,
	listSessions,
	sendEmailCode,
} from "./routes/account";
import { listProviders, unlinkProvider } from "./routes/account-providers";
import { createApiKey, deleteApiKey, getApiKey, listApiKeys } from "./routes/apikey";
import { changeApiKey } from "./routes/apikey-change";
import { createApp, getApp, listApps, updateApp } from "./routes/app";
import { deleteApp, listReservations, releaseReservation, restoreApp } from "./routes/app-deletion";
import { acceptTransfer, declineTransfer, listTransfers, offerTransfer, withdrawTransfer } from "./routes/app-transfer";
import { appAudit, organizationAudit } from "./routes/audit";
import { completeBundle, deleteBundle, listBundles, promoteBundle, registerBundle } from "./routes/bundle";
import { deleteChannel, listChannels, setChannel } from "./routes/channel";
import { showChannelHistory } from "./routes/channel-history";
import { listDevices, setDevice, unsetDevice } from "./routes/device";
import { downloadObject } from "./routes/download";
import { acceptInvitation, inviteMember, showInvitation } from "./routes/invitation";
import { listMembers, removeMember, updateMember } from "./routes/member";
import { updateMemberPermissions } from "./routes/member-permissions";
import { createOrganization, listOrganizations, updateOrganization } from "./routes/organization";
import { deleteOrganization, restoreOrganization } from "./routes/organization-deletion";
import {
	createPasskey,
	deletePasskey,
	listPasskeys,
	passkeyOptions,
	passkeySignInOptions,
	renamePasskey,
	signInWithPasskey,
} from "./routes/passkey";
import { beginProvider, finishProvider } from "./routes/provider";
import { showRollout } from "./routes/rollout";
import { health, listAddresses, start } from "./routes/service";
import { sendSignInCode, signInMethods, signInWithCode, signInWithLink, signOut } from "./routes/sign-in";
import { createSigningKey, deleteSigningKey, listDeviceKeys, listSigningKeys } from "./routes/signing-key";
import { appStatistics, organizationStatistics, userStatistics } from "./routes/statistics";
import { bundleUsage, installStatistics } from "./routes/statistics-of-bundles";
import { tusAppend, tusCapabilities, tusCreate, tusStatus, uploadOnce } from "./routes/upload";
import { organizationUsage } from "./routes/usage";

export const endpoints = [
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
	showInvitation,
	acceptInvitation,
	organizationAudit,
	listSigningKeys,
	createSigningKey,
	deleteSigningKey,
	listApiKeys,
	getApiKey,
	createApiKey,
	changeApiKey,
	deleteApiKey,
	listApps,
	createApp,
	// Before the paths with an app's id, which would take their names for one.
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
	listBundles,
	registerBundle,
	completeBundle,
	promoteBundle,
	deleteBundle,
	listDevices,
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
	installStatistics,
	userStatistics,
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
	start,
	health,
	listAddresses,
] as const;
