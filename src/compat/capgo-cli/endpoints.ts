/**
 * The closed list of requests that the stock CLI (@capgo/cli) sends beside the public API. They go through the same pipeline and the
 * same authorization as everything else; nothing but what that CLI needs may be added here.
 */
import { appExists } from "./app-exists";
import {
	actorEmail,
	actorUserId,
	checkPermission,
	constants,
	currentBundle,
	existsVersion,
	organizations,
	versionId,
} from "./rpc";
import { config, events, filesConfig } from "./service";
import {
	insertOrganization,
	patchApp,
	patchChannel,
	patchVersion,
	readApps,
	readChannels,
	readOrganizations,
	readVersions,
	upsertVersion,
} from "./tables";
import {
	deleteFailedVersion,
	fileExists,
	filesUploadLink,
	finalizeUpload,
	privateUploadLink,
	setManifest,
} from "./uploads";

export const compatEndpoints = [
	config,
	filesConfig,
	events,
	appExists,
	...constants,
	actorUserId,
	actorEmail,
	checkPermission,
	existsVersion,
	versionId,
	currentBundle,
	organizations,
	readChannels,
	patchChannel,
	readApps,
	patchApp,
	readOrganizations,
	insertOrganization,
	readVersions,
	upsertVersion,
	patchVersion,
	filesUploadLink,
	privateUploadLink,
	fileExists,
	setManifest,
	finalizeUpload,
	deleteFailedVersion,
] as const;
