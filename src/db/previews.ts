/**
 * Statements about previews of pull requests. A preview owns a channel and bundles, and everything
 * of it is closed in one batch. `revision` is the optimistic lock of everything that opens or
 * closes a preview; uploads only move the end of its time.
 */
import { type CompiledQuery, type RawBuilder, type Selectable, sql, type Updateable } from "kysely";
import type { AppId, ChannelId } from "../authz/decide";
import { DAY_MS } from "../domain/time";
import { ApiError } from "../errors";
import { liveBundles, UNUSED } from "./bundles";
import { PREVIEW_NAME_COLUMNS, type PreviewNameRow, previewPrefixOf } from "./channel-names";
import { deleteFirst, guard, isOfApp, onUnique, query, type Statement } from "./client";
import { appIdOf } from "./public-app-id";
import type { Flag, PreviewsTable } from "./schema";

export interface PreviewRow extends Selectable<PreviewsTable> {
	readonly public_app_id: string;
	readonly org_id: string;
	/** The bundle on its channel. */
	readonly version_name: string | null;
	readonly bundles: number;
	readonly bundle_bytes: number;
	/** Keys and accounts that may upload to its channel by a binding on it. */
	readonly keys: number;
	/** JSON array of the versions of its bundles. */
	readonly bundle_names: string;
	/** The telemetry database of its devices. */
	readonly telemetry_binding: string;
}

const IS_OWNED = sql`b.preview_id = p.id AND b.deleted_at_ms IS NULL`;
const OWNED = sql`FROM bundles b WHERE ${IS_OWNED}`;

/**
 * Bytes of the files of bundles that have no size, because they have no zip. A file of several
 * bundles is stored once and counts once. Null: no files.
 * @param which condition on `bundles b`
 */
export const bytesOfFiles = (which: RawBuilder<unknown>) => sql`(SELECT sum(d.size_bytes) FROM delta_objects d
	WHERE (d.app_id, d.path) IN (SELECT f.app_id, f.path FROM bundles b JOIN bundle_files f ON f.bundle_id = b.id
		WHERE ${which} AND b.size_bytes IS NULL))`;

const ownedColumns = () => sql`(SELECT count(*) ${OWNED}) AS bundles,
		(SELECT coalesce(sum(b.size_bytes), 0) ${OWNED}) + coalesce(${bytesOfFiles(IS_OWNED)}, 0) AS bundle_bytes`;

export type OwnedRow = Pick<PreviewRow, "bundles" | "bundle_bytes">;

/** Bundles that the preview has in this step of a batch. */
export const ownedByPreview = (appId: AppId, id: string): CompiledQuery<OwnedRow> =>
	sql<OwnedRow>`SELECT ${ownedColumns()} FROM previews p WHERE p.app_id = ${appId} AND p.id = ${id}`.compile(query);

/** The preview `p` with its app `a`. */
export const previewRows = () => sql<PreviewRow>`SELECT p.*, a.app_id AS public_app_id, a.owner_org AS org_id,
		(SELECT b.name FROM channels c JOIN bundles b ON b.id = c.version_id WHERE c.id = p.channel_id) AS version_name,
		${ownedColumns()},
		(SELECT count(*) FROM role_bindings r WHERE r.channel_id = p.channel_id) AS keys,
		(SELECT json_group_array(b.name) ${OWNED}) AS bundle_names, a.telemetry_binding
	FROM previews p JOIN apps a ON a.id = p.app_id`;

interface PreviewFilter {
	readonly isOpen?: boolean | undefined;
	readonly repository?: string | undefined;
	readonly number?: number | undefined;
	readonly channel?: string | undefined;
}

const filtered = (publicAppId: string, { isOpen, repository, number, channel }: PreviewFilter) =>
	sql`p.app_id = ${appIdOf(publicAppId)}${isOpen === undefined ? sql`` : isOpen ? sql` AND p.state = 'open'` : sql` AND p.state <> 'open'`}${
		repository === undefined ? sql`` : sql` AND p.repository = ${repository}`
	}${number === undefined ? sql`` : sql` AND p.number = ${number}`}${
		channel === undefined ? sql`` : sql` AND p.channel_name = ${channel}`
	}`;

/** A page of the app's previews, the last changed first. */
export function previewsPage(
	publicAppId: string,
	filter: PreviewFilter,
	limit: number,
	offset: number,
): CompiledQuery<PreviewRow> {
	// The ids first, so that only the page's previews are looked at closely.
	return sql<PreviewRow>`${previewRows()} WHERE p.id IN (SELECT p.id FROM previews p WHERE ${filtered(publicAppId, filter)}
			ORDER BY p.updated_at_ms DESC, p.id LIMIT ${limit} OFFSET ${offset})
		ORDER BY p.updated_at_ms DESC, p.id`.compile(query);
}

export const previewRecord = (appId: AppId, id: string): CompiledQuery<PreviewRow> =>
	sql<PreviewRow>`${previewRows()} WHERE p.app_id = ${appId} AND p.id = ${id}`.compile(query);

/** As people name it: `acme/shop#128`. */
export const previewTitle = ({ repository, number }: { readonly repository: string; readonly number: number }) =>
	`${repository}#${number}`;

/** Facts of the app and of the channel that the opening of a preview would create. */
export interface PreviewPlaceRow extends PreviewNameRow {
	readonly name: string;
	readonly suffix: string;
	readonly repository_is_known: Flag;
	readonly preview_max_days: number;
	/** The channel that has the name now. */
	readonly channel_id: number | null;
	readonly channel_is_preview: Flag | null;
	readonly channel_created_by: string | null;
	readonly channel_created_by_key: string | null;
	/** The open preview of that channel. */
	readonly channel_preview_id: string | null;
}

/**
 * The channel of a pull request: the app's prefix or "pr-", the number, and a suffix that tells the
 * app's repositories apart.
 * @param suffix for a repository that is new to the app and not its first one
 */
export function previewPlace(
	publicAppId: string,
	{ repository, number, suffix }: { readonly repository: string; readonly number: number; readonly suffix: string },
): CompiledQuery<PreviewPlaceRow> {
	const suffixNow = sql<string>`coalesce(r.suffix, CASE WHEN EXISTS (SELECT 1 FROM preview_repositories other WHERE other.app_id = a.id)
		THEN ${suffix} ELSE '' END)`;
	const name = sql<string>`(${previewPrefixOf(sql`a`)} || CAST(${number} AS INTEGER) || ${suffixNow})`;
	return query
		.selectFrom("apps as a")
		.leftJoin("preview_repositories as r", (join) =>
			join.onRef("r.app_id", "=", "a.id").on("r.repository", "=", repository),
		)
		.leftJoin("channels as c", (join) => join.onRef("c.app_id", "=", "a.id").on("c.name", "=", name))
		.leftJoin("channel_names as n", (join) => join.onRef("n.app_id", "=", "a.id").on("n.name", "=", name))
		.select((eb) => [
			name.as("name"),
			suffixNow.as("suffix"),
			sql<Flag>`r.app_id IS NOT NULL`.as("repository_is_known"),
			"a.preview_max_days",
			"c.id as channel_id",
			"c.is_preview as channel_is_preview",
			"c.created_by as channel_created_by",
			"c.created_by_key as channel_created_by_key",
			eb
				.selectFrom("previews as v")
				.select("v.id")
				.whereRef("v.channel_id", "=", "c.id")
				.where("v.state", "=", "open")
				.as("channel_preview_id"),
			...PREVIEW_NAME_COLUMNS,
		])
		.where("a.id", "=", appIdOf(publicAppId))
		.compile();
}

export const nameRepository = (appId: AppId, repository: string, suffix: string): CompiledQuery =>
	query.insertInto("preview_repositories").values({ app_id: appId, repository, suffix }).compile();

/** For guards: nothing opened, closed or renewed the preview since it was read. */
export const previewIsAsRead = (appId: AppId, id: string, revision: number) =>
	sql<boolean>`EXISTS (SELECT 1 FROM previews WHERE app_id = ${appId} AND id = ${id} AND revision = ${revision})`;

export const previewChanged = () =>
	new ApiError("preview_changed", "The preview was opened or closed by another request; repeat the request.");

/** The preview's channel in a statement of the batch that creates it. */
const channelNamed = (appId: AppId, name: string) =>
	sql<number>`(SELECT id FROM channels WHERE app_id = ${appId} AND name = ${name})`;

type PreviewValues = Omit<
	Updateable<PreviewsTable>,
	"id" | "app_id" | "repository" | "number" | "channel_id" | "revision" | "created_at_ms"
>;

export function insertPreview(
	appId: AppId,
	values: Omit<Selectable<PreviewsTable>, "app_id" | "channel_id" | "revision">,
): CompiledQuery {
	const channelId = values.channel_name === null ? null : channelNamed(appId, values.channel_name);
	return query
		.insertInto("previews")
		.values({ ...values, app_id: appId, channel_id: channelId })
		.compile();
}

/**
 * Previews that a key, or an account without one, closed before they were opened; the oldest ones
 * beyond are dropped.
 */
export const MOST_NEVER_OPENED = 500;

/**
 * A pull request that was closed before its preview was opened: a build that is still running
 * cannot open it. Anyone may invent numbers of pull requests, so these rows have a limit for each
 * caller and no share in the app's quota.
 */
export function insertClosedPreview(
	appId: AppId,
	preview: Pick<
		Selectable<PreviewsTable>,
		"id" | "page_id" | "repository" | "number" | "repository_id" | "created_by" | "created_by_key" | "is_claimed"
	>,
	end: { readonly closedAs: "request" | "webhook"; readonly eventAtMs: number; readonly nowMs: number },
): Statement[] {
	const { closedAs, eventAtMs, nowMs } = end;
	const { created_by, created_by_key } = preview;
	const insert = insertPreview(appId, {
		...preview,
		state: "closed",
		channel_name: null,
		commit_sha: null,
		title: null,
		lifetime_ms: 0,
		expires_at_ms: nowMs,
		opened_at_ms: null,
		opened_event_at_ms: null,
		reopened_event_at_ms: null,
		closed_event_at_ms: eventAtMs,
		closed_at_ms: nowMs,
		closed_as: closedAs,
		created_at_ms: nowMs,
		updated_at_ms: nowMs,
		repository_id_proven: closedAs === "webhook" ? 1 : 0,
		head_branch: null,
	});
	return [
		onUnique(insert, "previews.app_id, previews.repository, previews.number", previewChanged),
		deleteFirst(
			"previews",
			query
				.selectFrom("previews")
				.select("id")
				.where("app_id", "=", appId)
				.where("opened_at_ms", "is", null)
				.where("created_by", "=", created_by)
				.where("created_by_key", "is", created_by_key)
				.where("id", "<>", preview.id)
				.orderBy("updated_at_ms", "desc")
				.orderBy("id")
				.limit(-1)
				.offset(MOST_NEVER_OPENED - 1),
		),
	];
}

/** @param channel the channel that it has from now on; undefined: as before */
export function updatePreview(
	appId: AppId,
	id: string,
	values: PreviewValues,
	channel: string | null | undefined,
): CompiledQuery {
	return query
		.updateTable("previews")
		.set({
			...values,
			...(channel === undefined ? {} : { channel_id: channel === null ? null : channelNamed(appId, channel) }),
			revision: sql<number>`revision + 1`,
		})
		.where("app_id", "=", appId)
		.where("id", "=", id)
		.compile();
}

/** Guard condition: no other preview of the repository is open for the branch. */
export const noOtherPreviewOfBranch = (appId: AppId, id: string, repository: string, branch: string) =>
	sql<boolean>`NOT EXISTS (SELECT 1 FROM previews WHERE app_id = ${appId} AND repository = ${repository} AND state = 'open'
		AND head_branch = ${branch} AND id <> ${id})`;

/** The open preview of a channel. */
export const previewOfChannel = (publicAppId: string, channel: string): CompiledQuery<{ id: string }> =>
	query
		.selectFrom("previews")
		.select("id")
		.where("app_id", "=", appIdOf(publicAppId))
		.where("channel_name", "=", channel)
		.where("state", "=", "open")
		.compile();

/** For guards. */
export const previewOfChannelIs = (appId: AppId, channelId: ChannelId, id: string | null) =>
	sql<boolean>`(SELECT id FROM previews WHERE app_id = ${appId} AND channel_id = ${channelId} AND state = 'open') IS ${id}`;

/** For `deleteBundles`: bundles of the preview that nothing else uses. */
export const bundlesOfPreview = (appId: AppId, previewId: string): RawBuilder<boolean> =>
	sql<boolean>`preview_id = ${previewId} AND ${isOfApp(appId)} AND deleted_at_ms IS NULL AND ${UNUSED}`;

/** Bundles of a channel's deletion and those of its preview; see `bundlesOfPreview`. */
export const bundlesOfChannelAndPreview = (appId: AppId, ids: readonly number[], previewId: string | null) =>
	previewId === null
		? liveBundles(appId, ids)
		: sql<boolean>`((${liveBundles(appId, ids)}) OR (${bundlesOfPreview(appId, previewId)}))`;

/**
 * After the deletion of its channel and bundles. Bundles that something else uses stay, and belong
 * to the app.
 */
export function endPreview(
	appId: AppId,
	id: string,
	values: Pick<PreviewValues, "closed_as" | "closed_event_at_ms" | "updated_at_ms" | "is_claimed">,
): CompiledQuery[] {
	return [
		query
			.updateTable("bundles")
			.set({ preview_id: null })
			.where("preview_id", "=", id)
			.where(isOfApp(appId))
			.where("deleted_at_ms", "is", null)
			.compile(),
		updatePreview(appId, id, { ...values, state: "closed", closed_at_ms: values.updated_at_ms ?? null }, null),
	];
}

/** For the batch that creates a channel: no preview had or has its name. */
export const refuseNameOfPreview = (appId: AppId, name: string): Statement =>
	guard(sql<boolean>`NOT EXISTS (SELECT 1 FROM previews WHERE app_id = ${appId} AND channel_name = ${name})`, () =>
		previewClosed(name),
	);

export const previewClosed = (channel: string) =>
	new ApiError(
		"preview_closed",
		`The preview ${channel} is closed, and everything of it was deleted. Open it again with POST /preview and the event_at of an event after its end, such as a new push.`,
		{ moreInfo: { channel } },
	);

/** Open previews whose time is over, in apps that are not deleted. */
export function expiredPreviews(nowMs: number, limit: number): CompiledQuery<PreviewRow> {
	return sql<PreviewRow>`${previewRows()} JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
		WHERE p.state = 'open' AND p.expires_at_ms <= ${nowMs} AND a.app_id <> a.id
		ORDER BY p.expires_at_ms LIMIT ${limit}`.compile(query);
}

export const previewIsExpired = (appId: AppId, id: string, nowMs: number) =>
	sql<boolean>`EXISTS (SELECT 1 FROM previews WHERE app_id = ${appId} AND id = ${id} AND state = 'open' AND expires_at_ms <= ${nowMs})`;

/** Closed previews refuse late uploads for this time. */
const CLOSED_PREVIEW_MS = 30 * DAY_MS;
/** Deleted per run of the clean-up. */
const MOST_OLD_PREVIEWS = 200;

/** Deletes rows of previews that were closed long ago. */
export const deleteOldPreviews = (nowMs: number): CompiledQuery =>
	deleteFirst(
		"previews",
		query
			.selectFrom("previews")
			.select("id")
			// A literal, because the index has this condition.
			.where("state", "<>", sql.lit("open"))
			.where("updated_at_ms", "<=", nowMs - CLOSED_PREVIEW_MS)
			.limit(MOST_OLD_PREVIEWS),
	);
