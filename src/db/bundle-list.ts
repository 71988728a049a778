/**
 * The list of an app's bundles: all or those of a filter, in an order. A page without a filter
 * reads its entries of an index; a filter looks at the first bundles of the order only, and the
 * totals say so. Columns that need further reads are for the bundles of the page alone.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { type BundleListRow, bundleRows, UNUSED, versionIds } from "./bundles";
import { query } from "./client";
import { appIdOf } from "./public-app-id";

export const BUNDLE_STATES = ["live", "unused", "preview", "unfinished", "deleted"] as const;
type BundleState = (typeof BUNDLE_STATES)[number];
export const BUNDLE_ORDERS = ["created", "version", "size"] as const;

interface BundleFilter {
	/** In lower case: a part of the version or of the notes. */
	readonly search?: string | undefined;
	/** Narrows to one version. */
	readonly version?: string | undefined;
	/** Undefined: all that are ready. */
	readonly state?: BundleState | undefined;
}

interface BundleOrder {
	readonly sort?: (typeof BUNDLE_ORDERS)[number] | undefined;
	readonly order?: "asc" | "desc" | undefined;
}

/** The bundles that a filter looks at. */
export const MOST_FILTERED = 200;
/** The same for a text search, which reads nothing else of a bundle. */
export const MOST_SEARCHED = 1_000;

const isReady = sql<boolean>`bundles.status = 'ready'`;
const CONDITIONS: Readonly<Record<BundleState, RawBuilder<boolean>>> = {
	// A channel serves every one that it looks at.
	live: isReady,
	unused: sql<boolean>`${isReady} AND ${UNUSED}`,
	preview: sql<boolean>`${isReady} AND (bundles.by_preview_key = 1 OR bundles.preview_id IS NOT NULL)`,
	unfinished: sql<boolean>`bundles.status = 'pending'`,
	deleted: sql<boolean>`bundles.status = 'deleted'`,
};

const ORDERS: Readonly<Record<(typeof BUNDLE_ORDERS)[number], RawBuilder<unknown>>> = {
	created: sql`bundles.created_at_ms`,
	version: sql`bundles.version_order`,
	size: sql`bundles.size_bytes`,
};

interface BundlePage {
	readonly limit: number;
	readonly offset: number;
}

interface FoundBundles {
	readonly total: number;
	/** 1: the filter has looked at every bundle. */
	readonly complete: number;
}

const ordered = ({ sort = "created", order = "desc" }: BundleOrder) => {
	const direction = sql.raw(order);
	return sql`${ORDERS[sort]} ${direction}, bundles.id ${direction}`;
};

/**
 * The newest bundles that channels serve, each found from the one before by an index. Rollouts
 * under way are few, and their bundles are live as well.
 */
const servedBundles = (app: RawBuilder<unknown>, most: number) => sql`(
	WITH RECURSIVE served (id) AS (
		SELECT max(version_id) FROM channels WHERE app_id = ${app}
		UNION ALL
		SELECT (SELECT max(version_id) FROM channels WHERE app_id = ${app} AND version_id < served.id) FROM served
		WHERE served.id IS NOT NULL LIMIT ${most})
	SELECT id FROM served WHERE id IS NOT NULL
	UNION SELECT id FROM (SELECT version_id AS id FROM rollouts WHERE app_id = ${app} AND ended_at_ms IS NULL LIMIT ${most}))`;

/**
 * The bundles that a filter looks at: the first of the order, or those of an index that has no
 * others.
 */
function candidates(publicAppId: string, { search, state }: BundleFilter, by: BundleOrder, most: number) {
	const app = appIdOf(publicAppId);
	if (state === "live") {
		return sql`(SELECT bundles.* FROM ${servedBundles(app, most)} AS live CROSS JOIN bundles ON bundles.id = live.id)`;
	}
	const within =
		state === "unfinished"
			? sql`bundles.status = 'pending'`
			: state === "deleted"
				? sql`bundles.deleted_at_ms IS NOT NULL`
				: sql`bundles.deleted_at_ms IS NULL`;
	// Bundles under way and deleted ones have an index by their age only.
	const isByAge = state === "unfinished" || state === "deleted";
	return sql`(SELECT * FROM bundles WHERE bundles.app_id = ${app} AND ${within}
		ORDER BY ${isByAge && search === undefined ? sql`bundles.created_at_ms DESC, bundles.id DESC` : ordered(by)} LIMIT ${most})`;
}

function condition(publicAppId: string, { search, version, state }: BundleFilter): RawBuilder<boolean> {
	const isOne = version === undefined ? sql`true` : sql`bundles.id IN ${versionIds(appIdOf(publicAppId), version)}`;
	const inState = sql<boolean>`${isOne} AND ${state === undefined ? isReady : CONDITIONS[state]}`;
	if (search === undefined) return inState;
	const has = (text: RawBuilder<unknown>) => sql`instr(lower(${text}), ${search}) > 0`;
	return sql<boolean>`${inState} AND (${has(sql`bundles.name`)} OR ${has(sql`coalesce(bundles.comment, '')`)})`;
}

const isFiltered = ({ search, version, state }: BundleFilter) =>
	search !== undefined || version !== undefined || state !== undefined;
/** A version alone has an index. */
const isOfVersion = ({ search, version, state }: BundleFilter) =>
	version !== undefined && search === undefined && state === undefined;
const mostOf = ({ search }: BundleFilter) => (search === undefined ? MOST_FILTERED : MOST_SEARCHED);

/** The source and the condition of a filter. */
function filtered(publicAppId: string, filter: BundleFilter, by: BundleOrder) {
	const from = isOfVersion(filter)
		? sql`bundles`
		: sql`${candidates(publicAppId, filter, by, mostOf(filter))} AS bundles`;
	return sql`${from} WHERE ${condition(publicAppId, filter)}`;
}

/** Ids of a page, in no order. */
function pageIds(publicAppId: string, filter: BundleFilter, by: BundleOrder, { limit, offset }: BundlePage) {
	const found = isFiltered(filter)
		? filtered(publicAppId, filter, by)
		: sql`bundles WHERE bundles.app_id = ${appIdOf(publicAppId)} AND bundles.deleted_at_ms IS NULL AND ${isReady}`;
	return sql`(SELECT bundles.id FROM ${found} ORDER BY ${ordered(by)} LIMIT ${limit} OFFSET ${offset})`;
}

/**
 * A page of the app's bundles, the newest first unless another order is given. For loading beside
 * the decision.
 */
export function bundlesPage(
	publicAppId: string,
	filter: BundleFilter,
	by: BundleOrder,
	page: BundlePage,
): CompiledQuery<BundleListRow> {
	const direction = by.order ?? "desc";
	return bundleRows()
		.where("bundles.id", "in", pageIds(publicAppId, filter, by, page) as RawBuilder<number>)
		.orderBy(ORDERS[by.sort ?? "created"], direction)
		.orderBy("bundles.id", direction)
		.compile();
}

/** The number of bundles that a filter finds. */
export function foundBundles(publicAppId: string, filter: BundleFilter, by: BundleOrder): CompiledQuery<FoundBundles> {
	const app = appIdOf(publicAppId);
	if (!isFiltered(filter)) {
		const pending = query.selectFrom("bundles").where("app_id", "=", app).where("status", "=", "pending");
		return query
			.selectFrom("apps")
			.select((eb) => [
				eb(
					"bundle_count",
					"-",
					pending
						.select((rows) => rows.fn.countAll<number>().as("pending"))
						.$asScalar()
						.$notNull(),
				).as("total"),
				sql<number>`1`.as("complete"),
			])
			.where("id", "=", app)
			.compile();
	}
	if (isOfVersion(filter)) {
		return sql<FoundBundles>`SELECT count(*) AS total, 1 AS complete FROM ${filtered(publicAppId, filter, by)}`.compile(
			query,
		);
	}
	const most = mostOf(filter);
	return sql<FoundBundles>`SELECT count(*) FILTER (WHERE ${condition(publicAppId, filter)}) AS total, count(*) < ${most} AS complete
		FROM ${candidates(publicAppId, filter, by, most)} AS bundles`.compile(query);
}

/** Bundles of an app whose states are counted. */
export const MOST_COUNTED = 100;

/** Bundles of each state that a search finds; null: the app has had too many deleted ones. */
export type StateCounts = Readonly<Record<"all" | Exclude<BundleState, "deleted">, number>> & {
	readonly deleted: number | null;
};

/** `states` is JSON of `StateCounts`; null: the app has too many bundles, of which none is read. */
export function bundleCounts(
	publicAppId: string,
	search: string | undefined,
): CompiledQuery<{ readonly states: string | null }> {
	const app = appIdOf(publicAppId);
	const count = (state: BundleState | undefined, more = sql`true`) =>
		sql`count(*) FILTER (WHERE ${condition(publicAppId, { search, state })} AND ${more})`;
	const isServed = sql`bundles.id IN ${servedBundles(app, MOST_COUNTED + 1)}`;
	const deleted = sql`(SELECT CASE WHEN count(*) <= ${MOST_COUNTED} THEN ${count("deleted")} END FROM (SELECT * FROM bundles
		WHERE bundles.app_id = ${app} AND bundles.deleted_at_ms IS NOT NULL LIMIT ${MOST_COUNTED + 1}) AS bundles)`;
	return sql<{ readonly states: string | null }>`SELECT CASE WHEN apps.bundle_count <= ${MOST_COUNTED} THEN (
			SELECT json_object('all', ${count(undefined)}, 'live', ${count("live", isServed)}, 'unused', ${count("unused")},
				'preview', ${count("preview")}, 'unfinished', ${count("unfinished")}, 'deleted', ${deleted})
			FROM bundles WHERE bundles.app_id = apps.id AND bundles.deleted_at_ms IS NULL) END AS states
		FROM apps WHERE apps.id = ${app}`.compile(query);
}

const LOOKED_AT = 100;

/** Keys of the newest bundles' objects, of all apps: for the operator. */
export function newestObjects(): CompiledQuery<{ readonly object_key: string }> {
	const newest = query.selectFrom("bundles").select(["id", "object_key"]).orderBy("id", "desc").limit(LOOKED_AT);
	return query
		.selectFrom(newest.as("newest"))
		.select("object_key")
		.where("object_key", "is not", null)
		.limit(3)
		.$narrowType<{ object_key: string }>()
		.compile();
}
