/**
 * Bundles of an app for people: found by a part of the version or the notes, in a state, in an order. Reads the bundles of one app, whose number
 * a quota limits.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { type BundleListRow, bundleRows, IN_NO_CHANNEL, UNUSED } from "./bundles";
import { query } from "./client";
import { appIdOf } from "./public-app-id";

export const BUNDLE_STATES = ["live", "unused", "preview", "unfinished", "deleted"] as const;
type BundleState = (typeof BUNDLE_STATES)[number];
export const BUNDLE_ORDERS = ["created", "version", "size"] as const;

export interface BundleFilter {
	/** In lower case. */
	readonly search: string | undefined;
	/** Undefined: all that are ready. */
	readonly state: BundleState | undefined;
	readonly sort: (typeof BUNDLE_ORDERS)[number];
	readonly order: "asc" | "desc";
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
const ORDERS: Readonly<Record<BundleFilter["sort"], readonly RawBuilder<unknown>[]>> = {
	created: [sql`bundles.created_at_ms`],
	version: VERSION_ORDER,
	size: [sql`bundles.size_bytes`],
};

/** `total` is the number of all that the filter finds. */
type FoundBundle = BundleListRow & { readonly total: number };

/** For loading beside the decision. */
export function foundBundles(
	publicAppId: string,
	{ search, state, sort, order }: BundleFilter,
	limit: number,
	offset: number,
): CompiledQuery<FoundBundle> {
	let rows = bundleRows()
		.select(sql<number>`count(*) OVER ()`.as("total"))
		.where("bundles.app_id", "=", appIdOf(publicAppId))
		.where(state === undefined ? isReady : CONDITIONS[state]);
	if (search !== undefined) {
		rows = rows.where(
			sql<boolean>`(instr(lower(bundles.name), ${search}) > 0 OR instr(lower(coalesce(bundles.comment, '')), ${search}) > 0)`,
		);
	}
	for (const column of [...ORDERS[sort], sql`bundles.id`]) rows = rows.orderBy(column, order);
	return rows.limit(limit).offset(offset).compile();
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
