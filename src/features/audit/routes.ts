/**
 * Reads the audit log of an organization or of one app: a page as JSON, or all matching entries as
 * an NDJSON stream, so that memory stays bounded.
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import {
	type AuditFilter,
	type AuditOf,
	type AuditRow,
	auditExport,
	auditPage,
	auditSearch,
	isSearch,
} from "../../db/audit/entries";
import { openDb } from "../../db/client";
import type { Deps } from "../../deps";
import { causeText, serviceUnavailable } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { fromTime, optional, pageNumber, rfc3339, text, time, toTime, uuid } from "../../http/schemas";
import { appScope, orgScope } from "../../http/scope";

/** Entries per database read of an export; a few hundred kilobytes. */
const ENTRIES_A_CHUNK = 1_000;
const LONGEST_FILTER = 256;
/** Entries that a page of a search reads. */
const ENTRIES_SEARCHED = 250;

const entrySchema = v.strictObject({
	id: v.number(),
	at: time,
	actor: v.strictObject({ type: v.string(), id: v.nullable(v.string()), name: v.string() }),
	action: v.string(),
	target: v.strictObject({ type: v.string(), id: v.string(), name: v.nullable(v.string()) }),
	app_id: v.nullable(v.string()),
	before: v.nullable(v.record(v.string(), v.unknown())),
	after: v.nullable(v.record(v.string(), v.unknown())),
	details: v.record(v.string(), v.unknown()),
	request_id: v.string(),
	ip_address: v.nullable(v.string()),
});

/** The organization whose entries show IP addresses to the reader; undefined: none. */
interface Shown {
	readonly addressesOf: string | undefined;
}

function entryAnswer(row: AuditRow, { addressesOf }: Shown): v.InferInput<typeof entrySchema> {
	return {
		id: row.id,
		at: rfc3339(row.at_ms),
		actor: { type: row.actor_type, id: row.actor_id, name: row.actor_name },
		action: row.action,
		target: { type: row.target_type, id: row.target_id, name: row.target_name },
		app_id: row.app_id,
		before: row.before === null ? null : JSON.parse(row.before),
		after: row.after === null ? null : JSON.parse(row.after),
		details: JSON.parse(row.details),
		request_id: row.request_id,
		ip_address: row.org_id === addressesOf ? row.ip_address : null,
	};
}

const EXAMPLE_ENTRY = {
	id: 4711,
	at: "2026-11-21T08:00:00.000Z",
	actor: { type: "api_key", id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31", name: "Releases" },
	action: "channel.promote",
	target: { type: "channel", id: "7", name: "production" },
	app_id: "com.example.app",
	before: { version: "1.3.0" },
	after: { version: "1.4.0" },
	details: {},
	request_id: "0b1f7a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
	ip_address: "192.0.2.7",
};

const filterFields = {
	page: pageNumber,
	actor: optional(text(LONGEST_FILTER)),
	action: optional(text(LONGEST_FILTER)),
	target: optional(text(LONGEST_FILTER)),
	search: optional(v.pipe(text(LONGEST_FILTER), v.toLowerCase())),
	from: optional(fromTime),
	to: optional(toTime),
	format: optional(v.picklist(["json", "ndjson"], "must be json or ndjson")),
};
const FILTERS_TEXT = [
	"Filters: `actor` (id or name), `action` (`channel.delete`, or `channel` for all channel actions),",
	"`target` (id, name, or `type:id`), `search` (a part of the name of the actor, the action, the target",
	"or the app, in any case), `from` and `to` (times or days, both inclusive).",
	"A page with `actor`, `action`, `target` or `search` has the matching ones of 250 entries, and may be",
	'empty; `Link: rel="next"` announces further ones.',
	"`format=ndjson` streams all matching entries, one per line; an export that fails midway ends with a",
	"line that has `error`.",
];
const NDJSON = { contentType: "application/x-ndjson", description: "One entry per line." };

type Filters = v.InferOutput<v.ObjectSchema<typeof filterFields, undefined>>;
const inOrder = <Query extends Pick<Filters, "from" | "to">>({ from, to }: Query) =>
	from === undefined || to === undefined || from <= to;

const filterOf = ({ actor, action, target, search, from, to }: Filters): AuditFilter => ({
	actor,
	action,
	target,
	search,
	fromMs: from,
	toMs: to,
});

interface Export {
	readonly deps: Deps;
	readonly requestId: string;
}

function firstEntries(of: AuditOf, query: Filters) {
	const filter = filterOf(query);
	if (query.format === "ndjson") return auditExport(of, filter, ENTRIES_A_CHUNK);
	const { limit, offset } = pageBounds(query.page, isSearch(filter) ? ENTRIES_SEARCHED : undefined);
	return (isSearch(filter) ? auditSearch : auditPage)(of, filter, limit, offset);
}

/** In a search, `is_last` is 1 for the entry after those of the page. */
type FoundRow = AuditRow & { readonly is_last?: 0 | 1 | null };

function searchReply(
	{ request, origin }: { readonly request: Request; readonly origin: string },
	page: number,
	rows: readonly FoundRow[],
	shown: Shown,
) {
	const items = rows.filter(({ is_last }) => is_last !== 1).map((row) => entryAnswer(row, shown));
	if (items.length === rows.length) return new Reply(200, items);
	const { pathname, searchParams } = new URL(request.url);
	searchParams.set("page", String(page + 1));
	return new Reply(200, items, { Link: `<${origin}${pathname}?${searchParams}>; rel="next"` });
}

function answer(
	context: Export & { readonly request: Request; readonly origin: string },
	/** Resolved ids, because a public app id may change its app while entries are sent. */
	of: AuditOf,
	query: Filters,
	rows: readonly FoundRow[],
	shown: Shown,
) {
	if (query.format !== "ndjson") {
		if (isSearch(filterOf(query))) return searchReply(context, query.page, rows, shown);
		return pageReply(context, query.page, rows, (row) => entryAnswer(row, shown));
	}
	return new Response(ndjson(context, of, filterOf(query), rows, shown), {
		headers: { "content-type": NDJSON.contentType, "content-disposition": 'attachment; filename="audit.ndjson"' },
	});
}

/**
 * The first entries are loaded before the response begins, so an earlier fault is a 503. A later
 * fault cannot change the status, and a truncated stream may look complete, so the last line
 * reports the error.
 */
function ndjson(
	{ deps, requestId }: Export,
	of: AuditOf,
	filter: AuditFilter,
	first: readonly AuditRow[],
	shown: Shown,
) {
	const db = openDb(deps.d1, "first-primary");
	const encoder = new TextEncoder();
	let rows = first;
	let failure: unknown;
	return new ReadableStream<Uint8Array>({
		async pull(controller) {
			if (failure !== undefined) return controller.error(failure);
			const last = rows.at(-1);
			if (last === undefined) return controller.close();
			controller.enqueue(encoder.encode(rows.map((row) => `${JSON.stringify(entryAnswer(row, shown))}\n`).join("")));
			if (rows.length < ENTRIES_A_CHUNK) return controller.close();
			try {
				const [next] = await db.batch([auditExport(of, filter, ENTRIES_A_CHUNK, last)]);
				rows = next.rows;
			} catch (error) {
				failure = error;
				deps.log("error", "stream_broke_off", { requestId, cause: causeText(error) });
				const { code, message, moreInfo } = serviceUnavailable(error);
				controller.enqueue(encoder.encode(`${JSON.stringify({ error: code, message, moreInfo, requestId })}\n`));
			}
		},
	});
}

export const organizationAudit = endpoint({
	method: "GET",
	path: "/organization/audit",
	tag: "Audit log",
	summary: "List the audit log of an organization, newest first",
	description: FILTERS_TEXT,
	access: { permission: "org.read_audit", scope: orgScope("query.orgId") },
	query: v.pipe(
		v.object({ orgId: uuid, ...filterFields }),
		v.forward(v.check(inOrder, "must not be later than to"), ["from"]),
	),
	response: v.array(entrySchema),
	rawResponse: NDJSON,
	errors: [],
	example: { query: { orgId: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21", action: "channel" }, response: [EXAMPLE_ENTRY] },
	load: ({ query }) => ({ entries: firstEntries({ orgId: query.orgId }, query) }),
	async handle({ deps, request, requestId, origin, input, loaded }) {
		const of = { orgId: input.query.orgId };
		return answer({ deps, request, requestId, origin }, of, input.query, loaded.entries, {
			addressesOf: input.query.orgId,
		});
	},
});

export const appAudit = endpoint({
	method: "GET",
	path: "/app/:app_id/audit",
	tag: "Audit log",
	summary: "List the audit log of an app, newest first",
	description: [
		"Entries about the app, its channels, bundles and devices, and none about the organization.",
		"`ip_address` is null for callers without `org.read_audit`, and in entries from before the app",
		"was transferred to its organization.",
		...FILTERS_TEXT,
	],
	access: { permission: "app.read_audit", scope: appScope("params.app_id") },
	query: v.pipe(v.object(filterFields), v.forward(v.check(inOrder, "must not be later than to"), ["from"])),
	response: v.array(entrySchema),
	rawResponse: NDJSON,
	errors: [],
	example: { query: { from: "2026-11-01" }, response: [EXAMPLE_ENTRY] },
	load: ({ params, query }) => ({ entries: firstEntries({ publicAppId: params.app_id }, query) }),
	async handle({ deps, request, requestId, origin, input, loaded, scope, principal }) {
		// Only readers of the organization's log see IP addresses. A transferred app brings entries of
		// its previous organization.
		const readsLog = holds(principal, "org.read_audit", { orgId: scope.orgId });
		const shown = { addressesOf: readsLog ? scope.orgId : undefined };
		return answer({ deps, request, requestId, origin }, { appUuid: scope.appId }, input.query, loaded.entries, shown);
	},
});
