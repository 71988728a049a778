/**
 * The record of a bundle, as every answer has it, and GET /bundle: an array of bundles, or with
 * `totals=true` an object that has their number.
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import {
	BUNDLE_ORDERS,
	BUNDLE_STATES,
	bundleCounts,
	bundlesPage,
	foundBundles,
	MOST_COUNTED,
	MOST_FILTERED,
	MOST_SEARCHED,
	type StateCounts,
} from "../../db/bundle-list";
import { type BundleListRow, keptUntilMs, MOST_DEVICES_READ } from "../../db/bundles";
import type { NamedRows } from "../../db/named-reads";
import { lastSeenRunning, tryTelemetry } from "../../db/telemetry-reads";
import { uploadersOf } from "../../db/uploaders";
import { packagesOf } from "../../domain/bundles/native-packages";
import { CLEAN_UP_MINUTES } from "../../domain/defaults";
import { type Context, endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import {
	booleanText,
	bundleVersion,
	itemsPerPage,
	nullableRfc3339,
	nullableTime,
	optional,
	PAGE_SIZE,
	pageNumber,
	publicAppId,
	rfc3339,
	text,
	time,
} from "../../http/schemas";
import { type AppScopeRow, appScope } from "../../http/scope";
import { nativePackages } from "./native-packages";

export const bundleFields = {
	id: v.number(),
	app_id: v.string(),
	name: v.string(),
	checksum: v.nullable(v.string()),
	size: v.nullable(v.number()),
	storage_provider: v.picklist(["r2", "external"]),
	external_url: v.nullable(v.string()),
	session_key: v.nullable(v.string()),
	key_id: v.nullable(v.string()),
	signed_by: v.nullable(v.string()),
	min_update_version: v.nullable(v.string()),
	comment: v.nullable(v.string()),
	link: v.nullable(v.string()),
	created_by_key: v.nullable(v.string()),
	created_at: time,
	updated_at: time,
	expires_at: nullableTime,
	channels: v.array(v.string()),
};
export const bundleSchema = v.strictObject(bundleFields);

export function bundleAnswer(row: BundleListRow): v.InferOutput<typeof bundleSchema> {
	return {
		id: row.id,
		app_id: row.public_app_id,
		name: row.name,
		checksum: row.checksum,
		size: row.size_bytes,
		storage_provider: row.storage_provider,
		external_url: row.external_url,
		session_key: row.session_key,
		key_id: row.key_id,
		signed_by: row.signer,
		min_update_version: row.min_update_version,
		comment: row.comment,
		link: row.link,
		created_by_key: row.created_by_key,
		created_at: rfc3339(row.created_at_ms),
		updated_at: rfc3339(row.updated_at_ms),
		expires_at: nullableRfc3339(row.kept_until_ms),
		channels: JSON.parse(row.channels),
	};
}

export const EXAMPLE_BUNDLE = {
	id: 41,
	app_id: "com.example.app",
	name: "1.4.0-pr.128",
	checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	size: 1_048_576,
	storage_provider: "r2" as const,
	external_url: null,
	session_key: null,
	key_id: null,
	signed_by: null,
	min_update_version: null,
	comment: null,
	link: null,
	created_by_key: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	expires_at: null,
	channels: ["pr-128"],
};

/** Parameters of both paths. */
const listFields = {
	app_id: publicAppId,
	page: pageNumber,
	search: optional(v.pipe(text(128), v.toLowerCase())),
	state: optional(v.picklist(BUNDLE_STATES, `must be one of ${BUNDLE_STATES.join(", ")}`)),
	sort: optional(v.picklist(BUNDLE_ORDERS, `must be one of ${BUNDLE_ORDERS.join(", ")}`)),
	order: optional(v.picklist(["asc", "desc"], "must be asc or desc")),
};
const query = v.object({
	...listFields,
	version: optional(bundleVersion),
	limit: itemsPerPage,
	totals: optional(booleanText),
});
type Query = v.InferOutput<typeof query>;

const listedFields = { ...bundleFields, native_packages: v.optional(nativePackages) };
export const bundleListSchema = v.array(v.strictObject(listedFields));
export const bundleTotalsSchema = v.strictObject({
	total: v.number(),
	complete: v.boolean(),
	/** By state, whichever one is asked for. */
	states: v.nullable(
		v.strictObject({
			all: v.number(),
			live: v.number(),
			unused: v.number(),
			preview: v.number(),
			unfinished: v.number(),
			deleted: v.nullable(v.number()),
		}),
	),
	bundles: v.array(
		v.strictObject({
			...listedFields,
			deleted_at: nullableTime,
			uploaded_by: v.strictObject({
				type: v.picklist(["api_key", "user"]),
				name: v.nullable(v.string()),
			}),
		}),
	),
});

function load(query: Query) {
	const { app_id, page, limit: size = PAGE_SIZE, totals } = query;
	// The extra row of an array says if more follow; the total does so as well.
	const bounds = totals ? { limit: size, offset: page * size } : pageBounds(page, size);
	return {
		bundles: bundlesPage(app_id, query, query, bounds),
		found: totals ? foundBundles(app_id, query, query) : undefined,
		states: totals && page === 0 ? bundleCounts(app_id, query.search) : undefined,
	};
}
type Loaded = NamedRows<ReturnType<typeof load>>;
type ListContext = Pick<
	Context<string, undefined, undefined, AppScopeRow, ReturnType<typeof load>>,
	"db" | "deps" | "loaded" | "principal" | "scope" | "scopeRow"
>;

const shownFor =
	({ version }: Query) =>
	(row: BundleListRow) => ({
		...bundleAnswer(row),
		...(version === undefined ? {} : { native_packages: packagesOf(row.native_packages) }),
	});

/** The answer with the total. */
function totalsOf(
	query: Query,
	{ found: [found], states: [counted] }: Loaded,
	rows: readonly BundleListRow[],
	names: ReadonlyMap<string, string>,
): v.InferOutput<typeof bundleTotalsSchema> {
	const shown = shownFor(query);
	const bundles = rows.map((row) => {
		return {
			...shown(row),
			deleted_at: nullableRfc3339(row.deleted_at_ms),
			uploaded_by: {
				type: row.created_by_key === null ? ("user" as const) : ("api_key" as const),
				name: names.get(row.created_by_key ?? row.created_by) ?? null,
			},
		};
	});
	return {
		total: found?.total ?? 0,
		complete: found?.complete !== 0,
		states: counted == null || counted.states === null ? null : (JSON.parse(counted.states) as StateCounts),
		bundles,
	};
}

export const listBundles = endpoint({
	method: "GET",
	path: "/bundle",
	tag: "Bundles",
	summary: "List an app's bundles, newest first or sorted",
	description: [
		"`expires_at` is the time after which automatic clean-up may delete the bundle, by the app's",
		`\`retention\`; a time in the past means the next run, within ${CLEAN_UP_MINUTES} minutes.`,
		"Each check of a device that runs the bundle extends it.",
		"It is null for a bundle that is kept: the app's newest bundle, one that a channel or a rollout",
		"serves, one of the last that were live on a channel (`keep_live_bundles`), one that an operator set",
		"for a device, and every bundle of an app with retention 0.",
		"With `version` the answer has `native_packages`, null if the uploader named none.",
		"",
		"`search` finds a part of the version or of the notes.",
		"`state`: `live` (a channel or a rollout serves it), `unused` (no channel serves it or keeps it for a",
		"rollback), `preview` (uploaded for a preview),",
		"`unfinished` (its upload is not complete) or `deleted`.",
		"Without `state` the list has every bundle that is complete.",
		"`sort` is created, version or size, `order` asc or desc.",
		"With `totals=true` the answer is `{total, complete, states, bundles}`, and each bundle has `deleted_at` and",
		"`uploaded_by`, whose `name` is null for callers without app.read_audit.",
		"`total` is the number of bundles that the filters find.",
		"`states` are the numbers of bundles in each state that the search finds; null for an app with more",
		`than ${MOST_COUNTED} bundles, and on later pages.`,
		"",
		`A filter looks at the first ${MOST_FILTERED} bundles of the order, a search at`,
		`${MOST_SEARCHED.toLocaleString("en-US")}; \`complete\` is false if the app has more.`,
		"`state=live` looks at the newest that channels serve;",
		"unfinished and deleted bundles are looked at by their age.",
	],
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query,
	response: v.union([bundleListSchema, bundleTotalsSchema]),
	errors: [],
	example: { query: { app_id: "com.example.app" }, response: [EXAMPLE_BUNDLE] },
	load: ({ query }) => load(query),
	async handle(context) {
		const { input, loaded, request, origin } = context;
		if (input.query.totals === true) return totalsOf(input.query, loaded, ...(await withFigures(context)));
		const rows = await withDevices(context);
		return pageReply({ request, origin }, input.query.page, rows, shownFor(input.query), input.query.limit);
	},
});

export const findBundles = endpoint({
	method: "GET",
	path: "/bundle/list",
	tag: "Bundles",
	summary: "Find bundles of an app, sorted, with their number",
	deprecated: "use GET /bundle with `totals=true`, which answers alike. The release after 1.0 removes this path.",
	access: { permission: "app.read_bundles", scope: appScope("query.app_id") },
	query: v.object(listFields),
	response: bundleTotalsSchema,
	errors: [],
	example: {
		query: { app_id: "com.example.app", search: "1.4", sort: "size" },
		response: {
			total: 1,
			complete: true,
			states: { all: 1, live: 1, unused: 0, preview: 1, unfinished: 0, deleted: 0 },
			bundles: [
				{ ...EXAMPLE_BUNDLE, deleted_at: null, uploaded_by: { type: "api_key" as const, name: "CI of the shop" } },
			],
		},
	},
	load: ({ query }) => load({ ...query, totals: true, limit: undefined }),
	async handle(context) {
		return totalsOf(context.input.query, context.loaded, ...(await withFigures(context)));
	},
});

/**
 * A telemetry database that does not answer leaves the time from which the age of the bundle alone
 * would let it expire.
 */
async function withDevices({
	deps,
	scope: { appId },
	scopeRow,
	loaded,
}: ListContext): Promise<readonly BundleListRow[]> {
	const rows = loaded.bundles;
	const names = rows.filter(({ kept_until_ms }) => kept_until_ms !== null).map(({ name }) => name);
	if (names.length === 0) return rows;
	const seen =
		(await tryTelemetry(deps, scopeRow.telemetry_binding, lastSeenRunning(appId, names, MOST_DEVICES_READ))) ?? [];
	const seenAtMs = new Map(seen.map(({ name, last_seen_at_ms }) => [name, last_seen_at_ms]));
	return rows.map((row) => ({ ...row, kept_until_ms: keptUntilMs(row, seenAtMs.get(row.name)) }));
}

/** The rows, and the names of who uploaded them for readers of the audit log. */
async function withFigures(context: ListContext) {
	const { db, principal, scope, loaded } = context;
	const showsNames = loaded.bundles.length > 0 && holds(principal, "app.read_audit", scope);
	const [rows, found] = await Promise.all([
		withDevices(context),
		showsNames ? db.batch(uploadersOf(loaded.bundles)) : [],
	]);
	return [rows, new Map(found.flatMap((result) => result.rows.map(({ id, name }) => [id, name])))] as const;
}
