/**
 * The page of a preview, which everybody with its address may see: what a tester needs to open the
 * preview, and what it changes. The address ends with an id and a signature of this server, so a
 * guess costs no read of D1, and nothing that is stored opens the page. A new id revokes the
 * address.
 */
import * as v from "valibot";
import type { AppId } from "../../authz/decide";
import { requireOwnPreview } from "../../authz/own-work";
import { keyedHash } from "../../authz/secrets";
import { auditStatement } from "../../db/audit/entries";
import { type Database, guard } from "../../db/client";
import { changedFiles, type PreviewPageRow, previewOfPage } from "../../db/preview-pages";
import { previewChanged, previewIsAsRead, previewsPage, previewTitle, updatePreview } from "../../db/previews";
import { bumpRevision } from "../../db/snapshot";
import type { Deps } from "../../deps";
import { RESTORABLE_DAYS } from "../../domain/defaults";
import { recentMap } from "../../domain/recent";
import { isSameText, signingSecret } from "../../domain/secrets";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { channelName, nullableRfc3339, nullableTime, publicAppId, rfc3339, text } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { type CountedPreview, withDevices } from "./devices";
import { channelLink } from "./links";

const PURPOSE = "capstan preview page";
const SIGNATURE_LENGTH = 32;
const TOKEN = /^([0-9a-f]{32})([0-9a-f]{32})$/;
/** Files that the page names; its counts are complete. */
const MOST_FILES = 100;
/** Answers kept in memory; about 20 kB each at most. */
const MOST_CACHED = 50;
const CACHED_MS = 5_000;

const signatureOf = (pageId: string, secret: Parameters<typeof keyedHash>[2]) =>
	keyedHash(PURPOSE, pageId, secret).slice(0, SIGNATURE_LENGTH);

/** The fragment keeps the token out of the logs of servers and proxies. */
export function pageUrl({ config }: Pick<Deps, "config">, origin: string, pageId: string, nowMs: number): string {
	const id = pageId.replaceAll("-", "");
	return `${origin}/p#${id}${signatureOf(id, signingSecret(config.secrets, nowMs))}`;
}

/** @throws {ApiError} `preview_not_found`, without a read of D1 */
function pageIdOf({ config }: Pick<Deps, "config">, token: string): string {
	const [, id = "", signature = ""] = TOKEN.exec(token) ?? [];
	let isSigned = false;
	for (const secret of config.secrets) isSigned = isSameText(signature, signatureOf(id, secret)) || isSigned;
	if (!isSigned) throw pageNotFound();
	return id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const pageNotFound = () =>
	new ApiError(
		"preview_not_found",
		`No preview has this address. It was replaced, or the preview was closed more than ${RESTORABLE_DAYS} days ago; ask for a new link.`,
	);

const pageSchema = v.strictObject({
	app_id: v.string(),
	repository: v.string(),
	number: v.number(),
	title: v.nullable(v.string()),
	commit: v.nullable(v.string()),
	state: v.picklist(["open", "closed"]),
	closed_as: v.nullable(v.picklist(["request", "time", "webhook", "kept"])),
	closed_at: nullableTime,
	expires_at: nullableTime,
	version: v.nullable(v.string()),
	size: v.nullable(v.number()),
	devices: v.nullable(v.number()),
	/** For the camera of a phone and for `startPreviewSession`; absent without a bundle. */
	deep_link: v.nullable(v.string()),
	payload_url: v.nullable(v.string()),
	/** The difference from the live bundle of the public channel. */
	changes: v.nullable(
		v.strictObject({
			live_version: v.string(),
			/** Null: unknown, or only one of the bundles has a zip, so sizes cannot be compared. */
			live_size: v.nullable(v.number()),
			/** Null: one of the bundles was uploaded without single files, so files cannot be compared. */
			files: v.nullable(
				v.strictObject({
					added: v.number(),
					changed: v.number(),
					removed: v.number(),
					/** Bytes of added and changed files. */
					size: v.number(),
					named: v.array(
						v.strictObject({
							file: v.string(),
							change: v.picklist(["added", "changed", "removed"]),
							size: v.nullable(v.number()),
						}),
					),
				}),
			),
		}),
	),
});
type Page = v.InferOutput<typeof pageSchema>;

type Files = NonNullable<NonNullable<Page["changes"]>["files"]>;

/**
 * For each isolate: the pages of the last seconds, and the differences of pairs of bundles, which
 * never change.
 */
const createCache = () => ({
	pages: recentMap<{ readonly untilMs: number; readonly page: Page }>(MOST_CACHED),
	files: recentMap<Files>(MOST_CACHED),
});
type Cache = ReturnType<typeof createCache>;
const cached = new WeakMap<Deps, Cache>();

export const showPreviewPage = endpoint({
	method: "POST",
	path: "/preview/show",
	tag: "Previews",
	summary: "Show the page of a preview",
	description: [
		"The page at `page_url` reads it.",
		"`token` is the fragment of that address.",
		"Everybody with the address sees the state of the preview, the link that opens it in the app, the",
		"number of devices that run it and the files that differ from the live bundle of the public channel.",
		"The answer may be five seconds old.",
	],
	access: { public: "The token is the permission: it ends with a signature of this server.", isProven: true },
	body: v.object({ token: text(128) }),
	safe: true,
	response: pageSchema,
	errors: ["preview_not_found"],
	example: {
		body: { token: "6d6f2f2a1b0e4a559c3f5c2b8d1f7e04…" },
		response: {
			app_id: "com.example.app",
			repository: "acme/shop",
			number: 128,
			title: "New checkout",
			commit: "9f86d08",
			state: "open",
			closed_as: null,
			closed_at: null,
			expires_at: "2026-12-05T08:00:00.000Z",
			version: "0.0.0-pr-128.7.1",
			size: 481_112,
			devices: 2,
			deep_link: "capgo://preview/channel?appId=com.example.app&channel=pr-128&channelId=7&expires=…&signature=…",
			payload_url: "https://updates.example.com/preview/channel?appId=com.example.app&channel=pr-128&…",
			changes: {
				live_version: "1.4.0",
				live_size: 479_310,
				files: {
					added: 0,
					changed: 1,
					removed: 0,
					size: 18_422,
					named: [{ file: "assets/checkout.js", change: "changed", size: 18_422 }],
				},
			},
		},
	},
	async handle({ deps, db, input, origin, nowMs }) {
		const pageId = pageIdOf(deps, input.body.token);
		const cache = cached.get(deps) ?? createCache();
		cached.set(deps, cache);
		const known = cache.pages.get(pageId);
		if (known !== undefined && known.untilMs > nowMs) return known.page;
		const [{ rows }] = await db.batch([previewOfPage(pageId)]);
		const [preview] = await withDevices(deps, rows);
		if (preview === undefined) throw pageNotFound();
		const page = await pageOf({ db, deps, nowMs, origin, cache }, preview);
		cache.pages.set(pageId, { untilMs: nowMs + CACHED_MS, page });
		return page;
	},
});

interface PageContext {
	readonly db: Database;
	readonly deps: Deps;
	readonly nowMs: number;
	readonly origin: string;
	readonly cache: Cache;
}

async function pageOf(context: PageContext, preview: CountedPreview<PreviewPageRow>): Promise<Page> {
	const { deps, nowMs, origin } = context;
	const isOpen = preview.state === "open";
	const { version_id: versionId, channel_id: channelId, channel_name: channel } = preview;
	const link =
		isOpen && versionId !== null && channelId !== null && channel !== null
			? await channelLink(
					{ deps, nowMs, origin },
					{
						appId: preview.public_app_id,
						channel,
						channelId,
						ownerOrg: preview.org_id,
						pageId: preview.page_id,
					},
				)
			: undefined;
	return {
		app_id: preview.public_app_id,
		repository: preview.repository,
		number: preview.number,
		title: preview.title,
		commit: preview.commit_sha,
		state: isOpen ? "open" : "closed",
		closed_as: isOpen ? null : preview.closed_as,
		closed_at: nullableRfc3339(isOpen ? null : preview.closed_at_ms),
		expires_at: isOpen ? rfc3339(preview.expires_at_ms) : null,
		version: preview.version_name,
		size: preview.version_bytes,
		devices: preview.devices,
		deep_link: link?.deep_link ?? null,
		payload_url: link?.payload_url ?? null,
		changes: isOpen ? await changesOf(context, preview) : null,
	};
}

async function changesOf(
	{ db, cache }: PageContext,
	preview: Omit<PreviewPageRow, "devices">,
): Promise<Page["changes"]> {
	const { version_id: next, live_version_id: live, live_version_name: live_version } = preview;
	if (next === null || live === null || live_version === null) return null;
	const compared = { live_version, live_size: preview.live_bytes };
	if (preview.both_have_files === 0) return { ...compared, files: null };
	const known = cache.files.get(`${live} ${next}`);
	if (known !== undefined) return { ...compared, files: known };
	const [{ rows }] = await db.batch([changedFiles(preview.app_id as AppId, live, next, MOST_FILES)]);
	const [first] = rows;
	const files: Files = {
		added: first?.added ?? 0,
		changed: first?.changed ?? 0,
		removed: first?.removed ?? 0,
		size: first?.bytes ?? 0,
		named: rows.map(({ file_name, change, size_bytes }) => ({ file: file_name, change, size: size_bytes })),
	};
	cache.files.set(`${live} ${next}`, files);
	return { ...compared, files };
}

export const replacePreviewPage = endpoint({
	method: "POST",
	path: "/preview/page",
	tag: "Previews",
	summary: "Replace the address of a preview's page",
	description: [
		"The former address shows nothing from then on, and",
		"links that open the preview or its bundles in the app end.",
		"A preview key may replace only that of its own preview;",
		"other callers need bundle.delete for those of others.",
	],
	access: {
		permissions: ["app.create_channel", "bundle.delete"],
		scope: appScope("body.app_id"),
		choose: () => ["app.create_channel"],
	},
	body: v.object({ app_id: publicAppId, channel: channelName }),
	response: v.strictObject({ page_url: v.string() }),
	errors: ["preview_not_found", "preview_changed"],
	example: {
		body: { app_id: "com.example.app", channel: "pr-128" },
		response: { page_url: "https://updates.example.com/p#6d6f2f2a1b0e4a559c3f5c2b8d1f7e04…" },
	},
	load: ({ body }) => ({ preview: previewsPage(body.app_id, { channel: body.channel }, 1, 0) }),
	async handle({ db, deps, input, loaded, principal, scope, scopeRow, origin, nowMs, actor }) {
		const [preview] = loaded.preview;
		if (preview === undefined) {
			throw new ApiError("preview_not_found", "The app has no preview with this channel; list them with GET /preview.");
		}
		requireOwnPreview(principal, "bundle.delete", scope, preview, "change");
		const pageId = deps.newId();
		await db.batch([
			guard(previewIsAsRead(scope.appId, preview.id, preview.revision), previewChanged),
			updatePreview(scope.appId, preview.id, { page_id: pageId }, undefined),
			// Links that the former page gave end with it.
			bumpRevision(scope.appId),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "preview.replace_page",
				target: { type: "preview", id: preview.id, name: previewTitle(preview) },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				details: { channel: input.body.channel },
			}),
		]);
		return { page_url: pageUrl(deps, origin, pageId, nowMs) };
	},
});
