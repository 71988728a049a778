/**
 * The parts of PostgREST that the stock CLI relies on: filters written `eq.<value>`, and answers
 * with a single object if the Accept header asks for one. There is no query language: every shape
 * is listed, and any other request is refused.
 */
import * as v from "valibot";
import { query } from "../../db/client";
import { appIdOf } from "../../db/public-app-id";
import { invalidRequest } from "../../errors";
import { Reply } from "../../http/endpoint";
import { publicAppId } from "../../http/schemas";
import { type AppScopeRow, appNotFound, type RawInput, type ScopeSource, textAt } from "../../http/scope";

export const TAG = "Stock CLI";
export const PREFIX = "/compat/capgo-cli";
export const TABLES = `${PREFIX}/rest/v1` as const;

/** A filter of one operator; the value without it. */
export function filter<const Operator extends "eq" | "neq">(operator: Operator) {
	return v.pipe(
		v.string(),
		v.check((value) => value.startsWith(`${operator}.`), `must be ${operator}.<value>`),
		v.transform((value) => value.slice(operator.length + 1)),
	);
}

/** `in.(a,"b")`: the values. */
const listFilter = v.pipe(
	v.string(),
	v.regex(/^in\.\((?:"[^"\\]*"|[^",()]+)(?:,(?:"[^"\\]*"|[^",()]+))*\)$/, "must be in.(<value>,…)"),
	v.transform((value) => [...value.slice(4, -1).matchAll(/"([^"]*)"|[^",]+/g)].map((match) => match[1] ?? match[0])),
	v.maxLength(10, "must name at most 10 values"),
);

/** `eq.<value>` or `in.(<value>,…)`: the values. */
export const valuesFilter = v.union(
	[
		v.pipe(
			filter("eq"),
			v.transform((value) => [value]),
		),
		listFilter,
	],
	"must be eq.<value> or in.(<value>,…)",
);

/**
 * A query of filters only. An unknown filter is refused, because ignoring it would widen the
 * selection.
 */
export function filters<const Entries extends v.ObjectEntries>(entries: Entries) {
	return v.strictObject(entries, (issue) =>
		issue.expected === "never"
			? "is not a filter that the stock CLI sends here; use the public API at /docs"
			: issue.message,
	);
}

export const appFilter = v.pipe(filter("eq"), publicAppId);

/** The app of an `app_id=eq.…` filter. */
export function appOfFilter(path: string): ScopeSource<AppScopeRow> {
	return {
		statement: (raw: RawInput) => {
			const text = textAt(raw, path);
			if (text === undefined) return undefined;
			return query
				.selectFrom("apps")
				.select(["id", "app_id", "owner_org", "default_upload_channel"])
				.where("id", "=", appIdOf(text.replace(/^eq\./, "")))
				.compile();
		},
		target: (row) => ({ orgId: row.owner_org, appId: row.id }),
		hidden: appNotFound,
	};
}

export const singleRefusal = v.strictObject({
	code: v.literal("PGRST116"),
	message: v.string(),
	details: v.string(),
	hint: v.null(),
});

/** The rows as an array, or the single row if the request asks for an object. */
export function rowsReply<Row>(headers: Headers, rows: readonly Row[]) {
	if (headers.get("accept")?.includes("application/vnd.pgrst.object+json") !== true) return new Reply(200, [...rows]);
	const [row] = rows;
	if (row !== undefined && rows.length === 1) return new Reply(200, row);
	return new Reply(406, {
		code: "PGRST116" as const,
		message: "Cannot coerce the result to a single JSON object",
		details: `The result contains ${rows.length} rows`,
		hint: null,
	});
}

/**
 * The answer's shape for a `select` list, ignoring white space.
 * @throws {ApiError} `invalid_request` for a list that the stock CLI does not send
 */
export function shapeOf<Shape>(shapes: Readonly<Record<string, Shape>>, select: string): Shape {
	const list = select.replace(/\s/g, "");
	const shape = Object.hasOwn(shapes, list) ? shapes[list] : undefined;
	if (shape !== undefined) return shape;
	throw invalidRequest([
		{
			path: "select",
			message: "is not one of the requests that the stock CLI sends; use the public API at /docs",
			received: list.slice(0, 80),
		},
	]);
}
