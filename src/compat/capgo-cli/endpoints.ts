/**
 * The closed list of requests that the stock CLI (@capgo/cli) sends beside the public API. They go through the same pipeline and the
 * same authorization as everything else; nothing but what that CLI needs may be added here.
 */
import type { AnyEndpoint } from "../../api/endpoint";
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
	warnings,
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

const all = [
	config,
	filesConfig,
	events,
	appExists,
	...constants,
	actorUserId,
	warnings,
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

/** The stock CLI knows keys alone, so nothing here listens to the cookie of a browser. */
const keyOnly = <const List extends readonly AnyEndpoint[]>(list: List) =>
	list.map((endpoint) => ({ ...endpoint, keyOnly: true })) as unknown as List;

export const compatEndpoints = keyOnly(all);
