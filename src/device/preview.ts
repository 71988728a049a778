/**
 * Preview links: what a tester's app downloads when it opens the link behind a QR code. The stock CLI prints
 * `capgo://preview/channel?appId=…` and `capgo://preview/bundle?appId=…`; an app turns such a link into a payload address by putting this
 * server's origin before its path, and hands that to `startPreviewSession` of the plugin, which asks again on every reload.
 *
 * A link opens by its ids alone only where the app allows it (`allow_preview`), because ids can be guessed; a signed link always opens,
 * until it expires. Nothing is counted: a preview is no device of the fleet.
 */
import * as v from "valibot";
import { refuseForeignBundle } from "../api/channel-change";
import { endpoint } from "../api/endpoint";
import { bundleVersion, channelName, optional, publicAppId, rfc3339, time } from "../api/schemas";
import { appScope, bundleNotFound, channelNotFound } from "../api/scope";
import type { AppId } from "../authz/decide";
import { bundleByName } from "../db/bundles";
import { channelByName } from "../db/channels";
import type { Database } from "../db/client";
import { manifestOf, type SnapshotBundle, type SnapshotFile, snapshotBundles } from "../db/snapshot";
import type { AppSnapshot, SnapshotCache } from "../db/snapshot-cache";
import type { Deps } from "../deps";
import { offeredForm, type UpdatePackage, wantedForm } from "../domain/update-package";
import { ApiError, invalidRequest } from "../errors";
import { previewLinkExpiresAt, previewSignature, signedDownloadUrl, verifyPreview } from "../storage/links";
import { hasManifest, hasZip, textUpTo } from "./device";

/** The scheme of the stock CLI's links; an app may register any other one and read the same path. */
const SCHEME = "capgo:";

const payloadSchema = v.strictObject({
	version: v.string(),
	url: v.optional(v.string()),
	checksum: v.optional(v.string()),
	sessionKey: v.optional(v.string()),
	manifest: v.optional(
		v.array(v.strictObject({ file_name: v.string(), file_hash: v.string(), download_url: v.string() })),
	),
});
type Payload = v.InferOutput<typeof payloadSchema>;

const EXAMPLE_PAYLOAD: Payload = {
	version: "1.4.0-pr.128",
	url: "https://updates.example.com/files/download/…?expires=…&signature=…",
	checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
};

const id = v.pipe(v.string(), v.regex(/^\d{1,15}$/, "must be a whole number"), v.transform(Number));
const signed = { expires: optional(textUpTo(16)), signature: optional(textUpTo(128)) };
const ACCESS = {
	public: "Testers have no key. A signed link is the permission; without one the app must allow previews by their ids.",
};

export const previewChannel = endpoint({
	method: "GET",
	path: "/preview/channel",
	tag: "Previews",
	summary: "What a preview link to a channel opens: the bundle that the channel serves now",
	description:
		"`get-qr --channel` of the stock CLI prints this path behind `capgo://`. Without a signature the app must have `allow_preview`, and the link must name the channel; `channelId`, where it is sent, must be that channel's. `message` of an error is what the plugin shows.",
	access: ACCESS,
	query: v.object({ appId: publicAppId, channel: channelName, channelId: optional(id), ...signed }),
	response: payloadSchema,
	errors: ["preview_not_found", "invalid_signature", "link_expired"],
	example: { query: { appId: "com.example.app", channel: "pr-128", channelId: "7" }, response: EXAMPLE_PAYLOAD },
	async handle({ deps, db, input, snapshots, origin, nowMs, waitUntil }) {
		const { appId, channel: name, channelId, ...link } = input.query;
		// A link without the id is signed for no channel: another one may have the name by now.
		const isSigned = checkSignature(deps, channelPath(appId, name, channelId ?? 0), link, nowMs);
		const { snapshot } = await snapshots.read(db, appId, waitUntil);
		const app = openApp(snapshot, isSigned);
		const channel = app.channelsByName.get(name);
		if (channel === undefined || (channelId !== undefined && channel.id !== channelId)) {
			throw notFound(`There is no channel ${name} behind this link any more; ask for a new link.`);
		}
		const bundle = channel.version_id === null ? undefined : app.bundles.get(channel.version_id);
		if (bundle?.status !== "ready") {
			throw notFound(`Channel ${name} serves no bundle but the store build; promote one to preview it.`);
		}
		const files = await filesOf({ db, snapshots }, app, bundle);
		return payloadOf({ deps, origin, nowMs }, bundle, files, channel.update_package);
	},
});

export const previewBundle = endpoint({
	method: "GET",
	path: "/preview/bundle",
	tag: "Previews",
	summary: "What a preview link to a bundle opens",
	description:
		"`get-qr --bundle` of the stock CLI prints this path behind `capgo://`. Without a signature the app must have `allow_preview`: then every ready bundle of the app opens by its id, and ids can be guessed.",
	access: ACCESS,
	query: v.object({ appId: publicAppId, versionId: id, ...signed }),
	response: payloadSchema,
	errors: ["preview_not_found", "invalid_signature", "link_expired"],
	example: { query: { appId: "com.example.app", versionId: "41" }, response: EXAMPLE_PAYLOAD },
	async handle({ deps, db, input, snapshots, origin, nowMs, waitUntil }) {
		const { appId, versionId, ...link } = input.query;
		const isSigned = checkSignature(deps, bundlePath(appId, versionId), link, nowMs);
		const { snapshot } = await snapshots.read(db, appId, waitUntil);
		const app = openApp(snapshot, isSigned);
		const onChannel = app.bundles.get(versionId);
		const { bundle, files } =
			onChannel === undefined
				? await bundleOf(db, app, versionId)
				: { bundle: onChannel, files: await filesOf({ db, snapshots }, app, onChannel) };
		if (bundle?.status !== "ready") {
			throw notFound("There is no bundle behind this link any more; ask for a new link.");
		}
		return payloadOf({ deps, origin, nowMs }, bundle, files, "all");
	},
});

export const createPreviewLink = endpoint({
	method: "GET",
	path: "/preview/link",
	tag: "Previews",
	summary: "A signed preview link to a channel or a bundle",
	description:
		"Opens for seven days on any phone that gets it, whether or not the app has `allow_preview`. `payload_url` goes into `startPreviewSession` of the plugin, `deep_link` into a QR code. A preview key gets links to its own channels and bundles. A link to a channel ends with the channel: another one that gets the name later is not behind it.",
	access: { permission: "app.upload_bundle", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, channel: optional(channelName), version: optional(bundleVersion) }),
	response: v.strictObject({ payload_url: v.string(), deep_link: v.string(), expires_at: time }),
	errors: ["bundle_not_found", "channel_not_found"],
	example: {
		query: { app_id: "com.example.app", channel: "pr-128" },
		response: {
			payload_url:
				"https://updates.example.com/preview/channel?appId=com.example.app&channel=pr-128&channelId=7&expires=…&signature=…",
			deep_link: "capgo://preview/channel?appId=com.example.app&channel=pr-128&channelId=7&expires=…&signature=…",
			expires_at: "2026-11-28T08:00:00.000Z",
		},
	},
	load: ({ query: { app_id, channel, version } }) =>
		[channel === undefined ? bundleByName(app_id, version ?? "") : channelByName(app_id, channel)] as const,
	async handle({ deps, input, loaded, principal, ownWorkOnly, scopeRow, origin, nowMs }) {
		const { query } = input;
		if ((query.channel === undefined) === (query.version === undefined)) {
			throw invalidRequest([{ path: "channel", message: "name a channel or a version, and not both" }]);
		}
		const [made] = loaded[0].rows;
		if (made === undefined) throw query.channel === undefined ? bundleNotFound() : channelNotFound();
		if ("status" in made && made.status !== "ready") throw bundleNotFound();
		if (ownWorkOnly("app.upload_bundle") !== undefined) refuseForeignBundle(made, principal, "app.upload_bundle");
		const path =
			query.channel === undefined
				? bundlePath(scopeRow.app_id, made.id)
				: channelPath(scopeRow.app_id, query.channel, made.id);
		const expires = previewLinkExpiresAt(nowMs);
		const link = `${path}&expires=${expires}&signature=${previewSignature(deps, path, expires, nowMs)}`;
		return {
			payload_url: `${origin}${link}`,
			deep_link: `${SCHEME}/${link}`,
			expires_at: rfc3339(expires * 1000),
		};
	},
});

const channelPath = (appId: string, channel: string, channelId: number) =>
	`/preview/channel?${new URLSearchParams({ appId, channel, channelId: String(channelId) }).toString()}`;
const bundlePath = (appId: string, versionId: number) =>
	`/preview/bundle?${new URLSearchParams({ appId, versionId: String(versionId) }).toString()}`;

/** Whether the link is signed. @throws {ApiError} when it is signed wrongly, or no longer */
function checkSignature(
	deps: Deps,
	path: string,
	{ expires, signature }: { readonly expires?: string | undefined; readonly signature?: string | undefined },
	nowMs: number,
): boolean {
	if (expires === undefined && signature === undefined) return false;
	verifyPreview(deps, path, { expires: expires ?? "", signature: signature ?? "" }, nowMs);
	return true;
}

/** One answer for an app that is not there and one that keeps its previews closed. */
function openApp(snapshot: AppSnapshot | null, isSigned: boolean): AppSnapshot {
	if (snapshot !== null && (isSigned || snapshot.app.allow_preview === 1)) return snapshot;
	throw notFound("Previews are off for this app; switch them on in its settings, or ask for a signed link.");
}

function notFound(message: string): ApiError {
	return new ApiError("preview_not_found", message);
}

interface BundleWithFiles {
	readonly bundle: SnapshotBundle | undefined;
	readonly files: readonly SnapshotFile[];
}

/** A bundle that no channel serves, in one round trip. */
async function bundleOf(db: Database, { app }: AppSnapshot, bundleId: number): Promise<BundleWithFiles> {
	const [found, files] = await db.batch([snapshotBundles(app.id as AppId, [bundleId]), manifestOf(app.id, bundleId)]);
	return { bundle: found.rows[0], files: files.rows };
}

async function filesOf(
	{ db, snapshots }: { readonly db: Database; readonly snapshots: SnapshotCache },
	snapshot: AppSnapshot,
	bundle: SnapshotBundle,
): Promise<readonly SnapshotFile[]> {
	return hasManifest(bundle) ? await snapshots.manifest(db, snapshot, bundle.id) : [];
}

/** The plugin takes the manifest before the zip, and either alone. */
function payloadOf(
	{ deps, origin, nowMs }: { readonly deps: Deps; readonly origin: string; readonly nowMs: number },
	bundle: SnapshotBundle,
	files: readonly SnapshotFile[],
	mode: UpdatePackage,
): Payload {
	const link = (objectKey: string) => signedDownloadUrl(deps, origin, objectKey, nowMs);
	const forms = { hasZip: hasZip(bundle), hasManifest: hasManifest(bundle) };
	const form = offeredForm(wantedForm(mode, false), forms);
	const zip = bundle.external_url ?? (bundle.object_key === null ? undefined : link(bundle.object_key));
	const checksum = bundle.checksum ?? bundle.sha256;
	return {
		version: bundle.name,
		...(form === "delta" || zip === undefined ? {} : { url: zip }),
		...(checksum === null ? {} : { checksum }),
		...(bundle.session_key === null ? {} : { sessionKey: bundle.session_key }),
		...(form === "zip"
			? {}
			: {
					manifest: files.map((file) => ({
						file_name: file.file_name,
						file_hash: file.file_hash,
						download_url: link(file.object_key),
					})),
				}),
	};
}
