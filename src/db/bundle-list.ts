/**
 * The list of an app's bundles: all or those of a filter, in an order. The newest first without a filter reads only its page; every other
 * list, and a total, reads the bundles of one app, whose number a quota limits.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { type BundleListRow, bundleRows, IN_NO_CHANNEL, isVersion, UNUSED } from "./bundles";
import { appIdOf } from "./public-app-id";

export const BUNDLE_STATES = ["live", "unused", "preview", "unfinished", "deleted"] as const;
type BundleState = (typeof BUNDLE_STATES)[number];
export const BUNDLE_ORDERS = ["created", "version", "size"] as const;

export interface BundleFilter {
	/** In lower case: a part of the version or of the notes. */
	readonly search?: string | undefined;
	/** Narrows to one version. */
	readonly version?: string | undefined;
	/** Undefined: all that are ready. */
	readonly state?: BundleState | undefined;
}

export interface BundleOrder {
	readonly sort?: (typeof BUNDLE_ORDERS)[number] | undefined;
	readonly order?: "asc" | "desc" | undefined;
}

const isReady = sql<boolean>`bundles.status = 'ready'`;
const CONDITIONS: Readonly<Record<BundleState, RawBuilder<boolean>>> = {
	live: sql<boolean>`${isReady} AND NOT (${IN_NO_CHANNEL})`,
	unused: sql<boolean>`${isReady} AND ${UNUSED}`,
	preview: sql<boolean>`${isReady} AND (bundles.by_preview_key = 1 OR bundles.preview_id IS NOT NULL)`,
	unfinished: sql<boolean>`bundles.status = 'pending'`,
	deleted: sql<boolean>`bundles.status = 'deleted'`,
};

/** The numbers of a version as a JSON array. */
const numbers = sql`'[' || replace(substr(bundles.name, 1, instr(replace(bundles.name, '+', '-') || '-', '-') - 1), '.', ',') || ']'`;
const part = (index: number) => sql`json_extract(${numbers}, ${sql.lit(`$[${index}]`)})`;
/** Pre-releases precede their release; the longer of two has the greater number as a rule. */
const VERSION_ORDER = [
	...[0, 1, 2].map(part),
	sql`instr(bundles.name, '-') = 0`,
	sql`length(bundles.name)`,
	sql`bundles.name`,
];
const ORDERS: Readonly<Record<(typeof BUNDLE_ORDERS)[number], readonly RawBuilder<unknown>[]>> = {
	created: [sql`bundles.created_at_ms`],
	version: VERSION_ORDER,
	size: [sql`bundles.size_bytes`],
};

/** `total` is the number of all that the filter finds; only if it was requested. */
type ListedBundle = BundleListRow & { readonly total?: number };

export interface BundlePage {
	readonly limit: number;
	readonly offset: number;
	readonly hasTotal?: boolean;
}

/** A page of the app's bundles, the newest first unless another order is given. For loading beside the decision. */
export function bundlesPage(
	publicAppId: string,
	{ search, version, state }: BundleFilter,
	{ sort = "created", order = "desc" }: BundleOrder,
	{ limit, offset, hasTotal = false }: BundlePage,
): CompiledQuery<ListedBundle> {
	let rows = bundleRows()
		.$if(hasTotal, (counted) => counted.select(sql<number>`count(*) OVER ()`.as("total")))
		.where("bundles.app_id", "=", appIdOf(publicAppId))
		.where(state === undefined ? isReady : CONDITIONS[state]);
	// For the index by age, which has the newest first. A list that reads all bundles reads fewer rows without it.
	const isByAge = !hasTotal && state === undefined && search === undefined && sort === "created";
	if (isByAge) rows = rows.where("bundles.deleted_at_ms", "is", null);
	if (version !== undefined) rows = rows.where(isVersion(version));
	if (search !== undefined) {
		rows = rows.where(
			sql<boolean>`(instr(lower(bundles.name), ${search}) > 0 OR instr(lower(coalesce(bundles.comment, '')), ${search}) > 0)`,
		);
	}
	for (const column of [...ORDERS[sort], sql`bundles.id`]) rows = rows.orderBy(column, order);
	return rows.limit(limit).offset(offset).compile();
}
