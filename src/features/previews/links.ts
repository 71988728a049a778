/**
 * Preview links: a tester's app downloads a bundle through the link of a QR code. The stock CLI
 * prints `capgo://preview/channel?appId=…` and `capgo://preview/bundle?appId=…`; the app replaces
 * `capgo://` with this server's origin and passes the address to `startPreviewSession` of the
 * plugin, which requests it again on every reload.
 *
 * Ids can be guessed, so an unsigned link opens only if the app allows it (`allow_preview`); a
 * signed link opens until it expires. Previews are not counted in statistics.
 */

import * as v from "valibot";
import { requireOwnWork } from "../../authz/own-work";
import { hashKey } from "../../authz/secrets";
import { bundleByName } from "../../db/bundles";
import { channelByName } from "../../db/channels";
import type { Database } from "../../db/client";
import { pageOfPreview } from "../../db/preview-pages";
import { snapshotBundles } from "../../db/snapshot";
import { manifestOf, type SnapshotFile } from "../../db/snapshot-load";
import type { Deps } from "../../deps";
import { offeredForm, type UpdatePackage, wantedForm } from "../../domain/updates/package";
import { ApiError, invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { bundleVersion, channelName, optional, publicAppId, rfc3339, textUpTo, time } from "../../http/schemas";
import { appScope, bundleNotFound, channelNotFound } from "../../http/scope";
import { type AppSnapshot, bundleOf, type SnapshotBundle } from "../../snapshots/app-snapshot";
import type { SnapshotCache } from "../../snapshots/cache";
import {
	type DownloadLinks,
	downloadLinks,
	previewLinkExpiresAt,
	previewSignature,
	verifyPreview,
} from "../../storage/links";

/** The scheme of the stock CLI's links; an app may register another one for the same paths. */
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
const signed = { of: optional(textUpTo(32)), expires: optional(textUpTo(16)), signature: optional(textUpTo(128)) };
const ACCESS = {
	public: "Testers have no key. A signed link is the permission; an unsigned one needs allow_preview of the app.",
};

export const previewChannel = endpoint({
	method: "GET",
	path: "/preview/channel",
	tag: "Previews",
	summary: "Open a preview link to a channel: its current bundle",
	description: [
		"`get-qr --channel` of the stock CLI prints this path after `capgo://`.",
		"A link without a signature needs `allow_preview` of the app;",
		"`channelId`, if it is sent, must be the id of the channel.",
		"The plugin shows the `message` of an error.",
	],
	access: ACCESS,
	query: v.object({ appId: publicAppId, channel: channelName, channelId: optional(id), ...signed }),
	response: payloadSchema,
	errors: ["preview_not_found", "invalid_signature", "link_expired"],
	example: { query: { appId: "com.example.app", channel: "pr-128", channelId: "7" }, response: EXAMPLE_PAYLOAD },
	async handle({ deps, db, input, snapshots, origin, nowMs, waitUntil }) {
		const { appId, channel: name, channelId, of, ...link } = input.query;
		// No signature is valid without the channel's id, because another channel may have the name by
		// now.
		const isSigned = await checkSignature(deps, channelPath(appId, name, channelId ?? 0, of), link, nowMs);
		const { snapshot } = await snapshots.read(db, appId, { waitUntil });
		const app = openApp(snapshot, isSigned);
		const channel = app.channelsByName.get(name);
		if (channel === undefined || (channelId !== undefined && channel.id !== channelId)) {
			throw notFound(`Channel ${name} of this link was deleted; ask for a new link.`);
		}
		if (isSigned && of !== rightOf(app.app.ownerOrg, channel.pageId)) throw ended();
		const { bundle } = channel;
		if (bundle?.ready !== true) {
			throw notFound(`Channel ${name} has no bundle; release one to it to preview it.`);
		}
		const files = await filesOf({ db, snapshots, waitUntil }, app, bundle);
		return payloadOf(await linksOf({ deps, origin, nowMs }, app), bundle, files, channel.updatePackage);
	},
});

export const previewBundle = endpoint({
	method: "GET",
	path: "/preview/bundle",
	tag: "Previews",
	summary: "Open a preview link to a bundle",
	description: [
		"`get-qr --bundle` of the stock CLI prints this path after `capgo://`.",
		"A link without a signature needs `allow_preview` of the app, with which every ready bundle opens by",
		"its id; ids can be guessed.",
	],
	access: ACCESS,
	query: v.object({ appId: publicAppId, versionId: id, ...signed }),
	response: payloadSchema,
	errors: ["preview_not_found", "invalid_signature", "link_expired"],
	example: { query: { appId: "com.example.app", versionId: "41" }, response: EXAMPLE_PAYLOAD },
	async handle({ deps, db, input, snapshots, origin, nowMs, waitUntil }) {
		const { appId, versionId, of, ...link } = input.query;
		const isSigned = await checkSignature(deps, bundlePath(appId, versionId, of), link, nowMs);
		const { snapshot } = await snapshots.read(db, appId, { waitUntil });
		const app = openApp(snapshot, isSigned);
		const onChannel = app.bundles.get(versionId);
		const { bundle, files } =
			onChannel === undefined
				? await readBundle(db, app, versionId)
				: { bundle: onChannel, files: await filesOf({ db, snapshots, waitUntil }, app, onChannel) };
		if (bundle?.ready !== true) {
			throw notFound("The bundle of this link was deleted; ask for a new link.");
		}
		if (isSigned && of !== rightOf(app.app.ownerOrg, bundle.pageId)) throw ended();
		return payloadOf(await linksOf({ deps, origin, nowMs }, app), bundle, files, "all");
	},
});

export const createPreviewLink = endpoint({
	method: "GET",
	path: "/preview/link",
	tag: "Previews",
	summary: "Create a signed preview link to a channel or a bundle",
	description: [
		"The link opens for seven days on any phone, also without `allow_preview`.",
		"Pass `payload_url` to `startPreviewSession` of the plugin, and put `deep_link` into a QR code.",
		"A preview key gets links only to its own channels and bundles.",
		"A link to a channel ends with the deletion of the channel, even if another channel gets the name.",
		"Links to a preview and its bundles end when the address of its page is replaced, and all links end",
		"with a transfer of the app.",
	],
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
	load: ({ query: { app_id, channel, version } }) => ({
		target: channel === undefined ? bundleByName(app_id, version ?? "") : channelByName(app_id, channel),
		page: pageOfPreview(app_id, { channel, version }),
	}),
	async handle({ deps, input, loaded, principal, scope, scopeRow, origin, nowMs }) {
		const { query } = input;
		if ((query.channel === undefined) === (query.version === undefined)) {
			throw invalidRequest([{ path: "channel", message: "send either channel or version" }]);
		}
		const [target] = loaded.target;
		if (target === undefined) throw query.channel === undefined ? bundleNotFound() : channelNotFound();
		if ("status" in target && target.status !== "ready") throw bundleNotFound();
		requireOwnWork(principal, "app.upload_bundle", scope, target);
		const of = rightOf(scope.orgId, loaded.page[0]?.page_id ?? null);
		const path =
			query.channel === undefined
				? bundlePath(scopeRow.app_id, target.id, of)
				: channelPath(scopeRow.app_id, query.channel, target.id, of);
		return signedLink({ deps, nowMs, origin }, path);
	},
});

interface LinkContext {
	readonly deps: Deps;
	readonly nowMs: number;
	readonly origin: string;
}

async function signedLink({ deps, nowMs, origin }: LinkContext, path: string) {
	const expires = previewLinkExpiresAt(nowMs);
	const link = `${path}&expires=${expires}&signature=${await previewSignature(deps, path, expires, nowMs)}`;
	return {
		payload_url: `${origin}${link}`,
		deep_link: `${SCHEME}/${link}`,
		expires_at: rfc3339(expires * 1000),
	};
}

/**
 * A signed link is bound to the organization that owns the app and to the page of the preview. It
 * ends when either is replaced.
 */
const rightOf = (ownerOrg: string, pageId: string | null): string =>
	hashKey(`preview link\0${ownerOrg}\0${pageId ?? ""}`).slice(0, 16);

const ended = () => notFound("This link has ended: the address of its preview was replaced; ask for a new link.");

/** A signed link to a channel, which ends with the channel and with the page that gave it. */
export const channelLink = (
	context: LinkContext,
	{
		appId,
		channel,
		channelId,
		ownerOrg,
		pageId,
	}: {
		readonly appId: string;
		readonly channel: string;
		readonly channelId: number;
		readonly ownerOrg: string;
		readonly pageId: string;
	},
) => signedLink(context, channelPath(appId, channel, channelId, rightOf(ownerOrg, pageId)));

const channelPath = (appId: string, channel: string, channelId: number, of = "") =>
	`/preview/channel?${new URLSearchParams({ appId, channel, channelId: String(channelId), of }).toString()}`;
const bundlePath = (appId: string, versionId: number, of = "") =>
	`/preview/bundle?${new URLSearchParams({ appId, versionId: String(versionId), of }).toString()}`;

/**
 * Whether the link is signed.
 * @throws {ApiError} for a wrong or expired signature
 */
async function checkSignature(
	deps: Deps,
	path: string,
	{ expires, signature }: { readonly expires?: string | undefined; readonly signature?: string | undefined },
	nowMs: number,
): Promise<boolean> {
	if (expires === undefined && signature === undefined) return false;
	await verifyPreview(deps, path, { expires: expires ?? "", signature: signature ?? "" }, nowMs);
	return true;
}

/** @throws {ApiError} the same for an app that does not exist and one without `allow_preview` */
function openApp(snapshot: AppSnapshot | null, isSigned: boolean): AppSnapshot {
	if (snapshot !== null && (isSigned || snapshot.app.allowsPreviews)) return snapshot;
	throw notFound("Previews are off for this app; turn on allow_preview in its settings, or ask for a signed link.");
}

function notFound(message: string): ApiError {
	return new ApiError("preview_not_found", message);
}

interface BundleWithFiles {
	readonly bundle: SnapshotBundle | undefined;
	readonly files: readonly SnapshotFile[];
}

/** A bundle that no channel serves, in one round trip. */
async function readBundle(db: Database, { app }: AppSnapshot, bundleId: number): Promise<BundleWithFiles> {
	const [found, files] = await db.batch([snapshotBundles(app.id, [bundleId]), manifestOf(app.id, bundleId)]);
	const [row] = found.rows;
	return { bundle: row === undefined ? undefined : bundleOf(row), files: files.rows };
}

async function filesOf(
	{
		db,
		snapshots,
		waitUntil,
	}: { readonly db: Database; readonly snapshots: SnapshotCache; readonly waitUntil: (work: Promise<unknown>) => void },
	snapshot: AppSnapshot,
	bundle: SnapshotBundle,
): Promise<readonly SnapshotFile[]> {
	if (!bundle.hasManifest) return [];
	return await snapshots.manifest(db, snapshot, bundle.id, {
		waitUntil,
		deadlineMs: snapshots.deadline(snapshot.app.publicId),
	});
}

const linksOf = (
	{ deps, origin, nowMs }: { readonly deps: Deps; readonly origin: string; readonly nowMs: number },
	{ app }: AppSnapshot,
) => downloadLinks(deps, origin, app.id, nowMs);

/** The plugin prefers the manifest to the zip, and accepts either alone. */
function payloadOf(
	link: DownloadLinks,
	bundle: SnapshotBundle,
	files: readonly SnapshotFile[],
	mode: UpdatePackage,
): Payload {
	const form = offeredForm(wantedForm(mode, false), bundle);
	const zip = bundle.externalUrl ?? (bundle.objectKey === null ? undefined : link(bundle.objectKey));
	const checksum = bundle.checksum ?? bundle.sha256;
	return {
		version: bundle.version,
		...(form === "delta" || zip === undefined ? {} : { url: zip }),
		...(checksum === null ? {} : { checksum }),
		...(bundle.sessionKey === null ? {} : { sessionKey: bundle.sessionKey }),
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
