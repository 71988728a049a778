/**
 * Reads and validates a request: path parameters, query and body against the endpoint's schemas.
 */
import * as v from "valibot";
import { ApiError, type RequestIssue } from "../errors";
import { readBody } from "./body";
import type { AnyEndpoint } from "./endpoint";
import type { RequestContext } from "./isolate";
import type { RawInput } from "./scope";

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
	limitBytes: number,
	deadline: (ms: number) => Promise<void>,
): Promise<ReadInput> {
	const issues: RequestIssue[] = [];
	const fields = new Map<string, unknown>();
	for (const [name, value] of parameters) {
		if (fields.has(name) && fieldsOf(endpoint.query).has(name)) {
			issues.push({ path: name, message: "is given more than once; give it once" });
		}
		fields.set(name, value);
	}
	let body: unknown;
	let failure: ApiError | undefined;
	try {
		if (endpoint.body !== undefined || endpoint.queryOrBody) {
			body = await readBody(c.req.raw, limitBytes, deadline, endpoint.formBody);
		}
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		failure = error;
	}
	if (endpoint.queryOrBody && typeof body === "object" && body !== null && !Array.isArray(body)) {
		for (const [name, value] of Object.entries(body)) {
			if (value === null) continue;
			const asText = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
			if (fields.has(name) && fields.get(name) !== asText) {
				failure = new ApiError(
					"conflicting_parameters",
					`${name} differs between the query and the body; send it once.`,
				);
			}
			fields.set(name, asText);
		}
	}
	const query = Object.fromEntries(fields);
	return { raw: { params: c.req.param(), query, body, headers: c.req.raw.headers }, issues, failure };
}

/** Field names of an object schema. */
function fieldsOf(schema: v.GenericSchema | undefined): ReadonlySet<string> {
	const entries = schema !== undefined && "entries" in schema ? schema.entries : {};
	return new Set(Object.keys(entries as object));
}

/** @returns `input` unless there are issues */
export function validate(
	endpoint: AnyEndpoint,
	raw: RawInput,
	readIssues: readonly RequestIssue[],
): { input: unknown; issues: readonly RequestIssue[] } {
	const issues = [...readIssues];
	const parse = (schema: v.GenericSchema | undefined, value: unknown): unknown => {
		if (schema === undefined) return undefined;
		const result = v.safeParse(schema, value);
		if (!result.success) issues.push(...result.issues.map(issueOf));
		return result.output;
	};
	const query = parse(endpoint.query, raw.query);
	const body = parse(endpoint.body, raw.body === undefined ? {} : raw.body);
	if (isNoObject(endpoint.body, raw.body)) issues.push({ path: "", message: "The body must be a JSON object." });
	issues.push(...misplacedDryRun(endpoint, raw));
	return { input: issues.length > 0 ? undefined : { params: raw.params, query, body, headers: raw.headers }, issues };
}

/** Object schemas accept an array as an object without fields. */
function isNoObject(schema: v.GenericSchema | undefined, body: unknown): boolean {
	return schema?.type === "object" && Array.isArray(body);
}

/**
 * Unknown fields are ignored, except `dry_run`: an endpoint without one refuses it, because the caller expects that nothing happens.
 * Public endpoints are exempt, because devices call them.
 */
function misplacedDryRun(endpoint: AnyEndpoint, raw: RawInput): RequestIssue[] {
	const { access, method, query, body, queryOrBody } = endpoint;
	if (method === "GET" || "public" in access) return [];
	const isKnown = { query: fieldsOf(query).has(DRY_RUN), body: fieldsOf(body).has(DRY_RUN) };
	const isSent = (sent: unknown) => typeof sent === "object" && sent !== null && Object.hasOwn(sent, DRY_RUN);
	const isUnread = isSent(raw.body) && !isKnown.body && !(isKnown.query && queryOrBody === true);
	const isMisplaced = isUnread || (isSent(raw.query) && !isKnown.query);
	if (!isMisplaced) return [];
	const place = isKnown.body ? "body" : isKnown.query ? "query" : undefined;
	const remedy = place === undefined ? "leave it out to have the request done" : `send it in the ${place}`;
	return [{ path: DRY_RUN, message: `is not offered here; ${remedy}` }];
}

/** Longest excerpt of a refused value in an error. */
const RECEIVED_LENGTH = 80;

function issueOf(issue: v.BaseIssue<unknown>): RequestIssue {
	const path = v.getDotPath(issue) ?? "";
	if (issue.received === "undefined") return { path, message: "is required" };
	const message = issue.message.startsWith("Invalid type")
		? `must be ${issue.expected ?? "something else"}`
		: issue.message;
	return { path, message, received: issue.received.slice(0, RECEIVED_LENGTH) };
}
