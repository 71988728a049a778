/**
 * Reads a request and checks it against the endpoint's schemas: path parameters, query and body.
 * Only collects what is wrong; the phase validate.ts refuses it after the decision.
 */
import * as v from "valibot";
import { ApiError, type RequestIssue } from "../../errors";
import type { AnyEndpoint } from "../endpoint";
import type { RequestContext } from "../isolate";
import type { RawInput } from "../scope";
import { type Reading, readBody } from "./body";
import { ignoredFields, refusedUnknown } from "./unknown-fields";

const DRY_RUN = "dry_run";

interface ReadInput {
	readonly raw: RawInput;
	readonly issues: RequestIssue[];
	/** Why the body could not be read; reported only after the key was accepted. */
	readonly failure: ApiError | undefined;
}

export async function readInput(
	endpoint: AnyEndpoint,
	c: RequestContext,
	parameters: URLSearchParams,
	reading: Reading,
): Promise<ReadInput> {
	const issues: RequestIssue[] = [];
	const fields = new Map<string, unknown>();
	for (const [name, value] of parameters) {
		if (fields.has(name) && fieldsOf(endpoint.query).has(name)) {
			issues.push({ path: name, message: "is given more than once; give it once" });
		}
		fields.set(name, value);
	}
	const bodyIsQuery = readsQueryFromBody(endpoint);
	let body: unknown;
	let failure: ApiError | undefined;
	try {
		if (endpoint.body !== undefined || bodyIsQuery) {
			body = await readBody(c.req.raw, reading, endpoint.formBody);
		}
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		failure = error;
	}
	const differs = (name: string) =>
		new ApiError("conflicting_parameters", `${name} differs between the query and the body; send it once.`);
	if (bodyIsQuery && isRecord(body)) {
		for (const [name, value] of Object.entries(body)) {
			// A deletion refuses it, because a program that sends null may mean one thing and not all.
			if (value === null && endpoint.method !== "DELETE") continue;
			const asText = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
			if (fields.has(name) && fields.get(name) !== asText) failure = differs(name);
			fields.set(name, asText);
		}
		body = undefined;
	} else if (bodyIsQuery && body !== undefined) {
		issues.push({ path: "", message: "The body must be a JSON object." });
		body = undefined;
	}
	if (endpoint.body !== undefined && !("public" in endpoint.access) && (body === undefined || isRecord(body))) {
		const moved = bodyFieldsOf(endpoint, fields);
		for (const [name, { text, value }] of moved) {
			if (isRecord(body) && Object.hasOwn(body, name) && String(body[name]) !== text) failure = differs(name);
			body = { [name]: value, ...(body as object | undefined) };
			fields.delete(name);
		}
	}
	const query = Object.fromEntries(fields);
	const raw = { params: c.req.param(), query, body, headers: c.req.raw.headers };
	return { raw, issues, failure };
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
	typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Parameters of reads and deletions may come as a JSON body. Devices read from no body, so that a
 * check costs no more.
 */
export const readsQueryFromBody = ({ access, method, queryOrBody, body, rawBody }: AnyEndpoint): boolean =>
	queryOrBody === true ||
	(["GET", "DELETE"].includes(method) && !("public" in access) && body === undefined && rawBody === undefined);

/**
 * Parameters of the query that are fields of the body, with the value that the field's schema
 * accepts.
 */
function bodyFieldsOf({ query, body }: AnyEndpoint, fields: ReadonlyMap<string, unknown>) {
	const [inQuery, entries] = [fieldsOf(query), entriesOf(body)];
	return [...fields].flatMap(([name, text]) => {
		const schema = Object.hasOwn(entries, name) ? entries[name] : undefined;
		if (schema === undefined || name === DRY_RUN || inQuery.has(name) || typeof text !== "string") return [];
		const number = text === "" ? Number.NaN : Number(text);
		const others = [
			...(text === "true" || text === "false" ? [text === "true"] : []),
			...(Number.isFinite(number) ? [number] : []),
			...(text === "null" ? [null] : []),
		];
		const value = [text, ...others].find((each) => v.safeParse(schema, each).success) ?? text;
		return [[name, { text, value }] as const];
	});
}

export function entriesOf(schema: v.GenericSchema | undefined): Readonly<Record<string, v.GenericSchema>> {
	const entries = schema !== undefined && "entries" in schema ? schema.entries : {};
	return entries as Readonly<Record<string, v.GenericSchema>>;
}

/** Field names of an object schema. */
const fieldsOf = (schema: v.GenericSchema | undefined): ReadonlySet<string> => new Set(Object.keys(entriesOf(schema)));

/** @returns `input` unless there are issues */
export function checkInput(
	endpoint: AnyEndpoint,
	raw: RawInput,
	readIssues: readonly RequestIssue[],
): { input: unknown; issues: readonly RequestIssue[]; ignored: readonly string[] } {
	const issues = [...readIssues];
	const ignored = ignoredFields(endpoint, raw);
	const parse = (schema: v.GenericSchema | undefined, value: unknown): unknown => {
		if (schema === undefined) return undefined;
		const result = v.safeParse(schema, value);
		if (!result.success) issues.push(...result.issues.flatMap(fieldIssues).map(issueOf));
		return result.output;
	};
	const query = parse(endpoint.query, raw.query);
	const body = parse(endpoint.body, raw.body === undefined ? {} : raw.body);
	if (isNoObject(endpoint.body, raw.body)) issues.push({ path: "", message: "The body must be a JSON object." });
	issues.push(...misplacedDryRun(endpoint, raw));
	issues.push(...refusedUnknown(endpoint, raw, ignored).filter(({ path }) => !issues.some((one) => one.path === path)));
	const input = issues.length > 0 ? undefined : { params: raw.params, query, body, headers: raw.headers };
	return { input, issues, ignored: "public" in endpoint.access ? [] : ignored };
}

/** Object schemas accept an array as an object without fields. */
function isNoObject(schema: v.GenericSchema | undefined, body: unknown): boolean {
	return schema?.type === "object" && Array.isArray(body);
}

/**
 * An endpoint without `dry_run` refuses it, because the caller expects that nothing happens. Public
 * endpoints are exempt, because devices call them.
 */
function misplacedDryRun(endpoint: AnyEndpoint, raw: RawInput): RequestIssue[] {
	const { access, method, query, body } = endpoint;
	if (method === "GET" || "public" in access) return [];
	const isKnown = { query: fieldsOf(query).has(DRY_RUN), body: fieldsOf(body).has(DRY_RUN) };
	const isSent = (sent: unknown) => typeof sent === "object" && sent !== null && Object.hasOwn(sent, DRY_RUN);
	const isUnread = isSent(raw.body) && !isKnown.body;
	const isMisplaced = isUnread || (isSent(raw.query) && !isKnown.query);
	if (!isMisplaced) return [];
	const place = isKnown.body ? "body" : isKnown.query ? "query" : undefined;
	const remedy = place === undefined ? "leave it out to have the request done" : `send it in the ${place}`;
	return [{ path: DRY_RUN, message: `is not offered here; ${remedy}` }];
}

/** Longest excerpt of a refused value in an error. */
const RECEIVED_LENGTH = 80;

/** The issues inside of a value that may have several forms, because they name the field. */
function fieldIssues(issue: v.BaseIssue<unknown>): readonly v.BaseIssue<unknown>[] {
	const depth = issue.path?.length ?? 0;
	const inside = (issue.issues ?? []).filter(({ path }) => (path?.length ?? 0) > depth);
	return inside.length > 0 ? inside.flatMap(fieldIssues) : [issue];
}

function issueOf(issue: v.BaseIssue<unknown>): RequestIssue {
	const path = v.getDotPath(issue) ?? "";
	if (issue.received === "undefined") return { path, message: "is required" };
	const message = issue.message.startsWith("Invalid type")
		? `must be ${issue.expected ?? "something else"}`
		: issue.message;
	return { path, message, received: issue.received.slice(0, RECEIVED_LENGTH) };
}
