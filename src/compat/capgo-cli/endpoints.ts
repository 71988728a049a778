/**
 * The closed list of requests that the stock CLI (@capgo/cli) sends beside the public API. They use
 * the same pipeline and authorization as every endpoint. Add only requests that this CLI needs.
 */
import type { AnyEndpoint } from "../../http/endpoint";
import { appExists, patchApp, readApps } from "./apps";
import { deleteFailedVersion, patchVersion, readVersions, upsertVersion } from "./bundles";
import { patchChannel, readChannels } from "./channels";
import { insertOrganization, readOrganizations } from "./organizations";
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
import { fileExists, filesUploadLink, finalizeUpload, privateUploadLink, setManifest } from "./uploads";

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

/**
 * Fields that the CLI sends with its requests and that repeat what the key or the path says, or ask
 * about services that are not here.
 */
const EXPECTED: Readonly<Record<string, readonly string[]>> = {
	"/rpc/": ["apikey", "app_id", "appid", "orgid", "org_id", "actions", "cli_version"],
	"/app_versions": ["owner_org", "user_id"],
	"/upload_link": ["version", "bucket_id"],
};

const expectedAt = (path: string): readonly string[] =>
	Object.entries(EXPECTED).flatMap(([part, names]) => (path.includes(part) ? names : []));

/** The stock CLI uses keys only, so these endpoints ignore session cookies. */
const keyOnly = <const List extends readonly AnyEndpoint[]>(list: List) =>
	list.map((endpoint) => ({
		...endpoint,
		keyOnly: true,
		forms: { ...endpoint.forms, expected: expectedAt(endpoint.path) },
	})) as unknown as List;

export const compatEndpoints = keyOnly(all);
