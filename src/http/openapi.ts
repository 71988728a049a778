/**
 * Generates the OpenAPI document from the endpoint list. It runs in the generator and in a test;
 * the Worker serves the generated file.
 */
import { toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import { RECENT_SIGN_IN_MS } from "../authz/session";
import { ERROR_STATUS, type ErrorCode } from "../errors";
import { type AnyEndpoint, isRaw, permissionsOf, proseText, type RawAnswer } from "./endpoint";
import { isAnsweredUnderEveryName } from "./known-hosts";
import { withNames } from "./openapi-names";
import { KEY_HEADERS as OWN_KEY_HEADERS } from "./pipeline/credential-headers";
import { IDEMPOTENCY_ERRORS, takesIdempotencyKey } from "./pipeline/idempotency";
import { readsQueryFromBody } from "./pipeline/input";
import { PIPELINE_ERRORS } from "./pipeline/pipeline";
import type { ScopeSource } from "./scope";

type Json = Record<string, unknown>;

const INTRODUCTION = `Live updates for Capacitor and Electron apps.

Send an API key in \`authorization\` (raw, or after \`Bearer \`) or in \`capstankey\`. Lists are paged by \`page\` from 0, 50 items each, with
\`Link: rel="next"\` while more follow. An optional field that is null is absent. Fields that an operation does not know have no effect and are
named in the header \`x-ignored-fields\`, and in \`ignored\` of an answer that is an object; in deletions, in requests that give rights, and where
a name says that it limits something, they are refused.`;

const ERROR_SCHEMA: Json = {
	type: "object",
	required: ["error", "message", "moreInfo", "status", "requestId"],
	properties: {
		error: { type: "string", description: "A code from the operation's list." },
		message: { type: "string", description: "The problem, then the remedy." },
		moreInfo: {
			type: "object",
			additionalProperties: true,
			description: "Machine-readable details; `issues` lists invalid fields by path.",
		},
		status: { const: "KO" },
		requestId: { type: "string" },
	},
};

/** Path parameters have no schema; these are their example values. */
const PATH_EXAMPLES: Readonly<Record<string, string>> = {
	file: "capstan-1.0.0-5d41402abc4b2a76.tgz",
	id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	app_id: "com.example.app",
	org_id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	app: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
	user_id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	binding_id: "0f0e5a64-2b8b-4f0e-8b66-5a9d0f3f6a11",
	upload: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	part: "whole",
	provider: "github",
	path: "orgs/b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21/apps/com.example.app/delta/9f86_index.html",
};

const RETRY_AFTER: Json = {
	"Retry-After": { description: "Seconds to wait before the next try.", schema: { type: "integer" } },
};

const IDEMPOTENCY_KEY = {
	name: "Idempotency-Key",
	in: "header",
	required: false,
	description:
		"A text of the client's choice, 1 to 255 characters. A repetition of the request with the same key within a day gets the first answer, with the header `Idempotency-Replayed`.",
	schema: { type: "string" },
	example: "0f7f6d0c-2a1e-4f7e-9f0b-6a2c3b1d4e5f",
};

const SESSION_COOKIE = "session";
const KEY_HEADERS = ["authorization", ...OWN_KEY_HEADERS];

/** The document of these endpoints, in order. */
export function openApiDocument(endpoints: readonly AnyEndpoint[]): Json {
	const paths: Record<string, Json> = {};
	for (const endpoint of endpoints) {
		const path = endpoint.path.replace(/\{.+?\}$/, "").replace(/:(\w+)/g, "{$1}");
		paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint) };
	}
	const named = withNames(paths);
	return {
		openapi: "3.1.0",
		info: {
			title: "Capstan",
			version: "1.0.0",
			description: INTRODUCTION,
			license: { name: "MIT", identifier: "MIT" },
		},
		servers: [{ url: "/", description: "The server that answers with this document." }],
		tags: [...new Set(endpoints.map((endpoint) => endpoint.tag))].map((name) => ({ name })),
		paths: named.paths,
		components: {
			schemas: { Error: ERROR_SCHEMA, ...named.schemas },
			securitySchemes: {
				...Object.fromEntries(
					KEY_HEADERS.map((name) => [name, { type: "apiKey", in: "header", name, description: "An API key." }]),
				),
				[SESSION_COOKIE]: {
					type: "apiKey",
					in: "cookie",
					name: "__Host-capstan-session",
					description:
						"The session of a signed-in person, for the service's own pages. Ignored beside a key. Requests that change something must come from the service's own origin.",
				},
			},
		},
	};
}

function operation(endpoint: AnyEndpoint): Json {
	const { access } = endpoint;
	const isPublic = "public" in access;
	return {
		operationId: operationId(endpoint),
		tags: [endpoint.tag],
		summary: endpoint.summary,
		...(endpoint.deprecated === undefined ? {} : { deprecated: true }),
		description: [
			deprecationText(endpoint),
			endpoint.description === undefined ? undefined : proseText(endpoint.description),
			bodyText(endpoint),
			accessText(access),
			recencyText(endpoint),
		]
			.filter(Boolean)
			.join("\n\n"),
		"x-capstan-permission": permissionValue(access),
		security: isPublic ? [] : credentialsOf(endpoint).map((name) => ({ [name]: [] })),
		parameters: parameters(endpoint),
		...(endpoint.body === undefined ? {} : { requestBody: requestBody(endpoint.body, endpoint.example.body) }),
		...(endpoint.rawBody === undefined ? {} : { requestBody: rawRequestBody(endpoint.rawBody) }),
		responses: { ...successes(endpoint), ...failures(endpoint) },
	};
}

/** Security schemes of the endpoint. */
function credentialsOf({ access, keyOnly }: AnyEndpoint): string[] {
	if ("ownSession" in access) return [SESSION_COOKIE];
	return keyOnly === true ? KEY_HEADERS : [...KEY_HEADERS, SESSION_COOKIE];
}

function operationId({ method, path }: AnyEndpoint): string {
	const words = path.match(/[A-Za-z0-9]+/g) ?? [];
	return [method.toLowerCase(), ...words.map((word) => word[0]?.toUpperCase() + word.slice(1))].join("");
}

function deprecationText({ deprecated }: AnyEndpoint): string | undefined {
	return deprecated === undefined ? undefined : `Deprecated: ${deprecated}`;
}

function bodyText(endpoint: AnyEndpoint): string | undefined {
	return endpoint.queryOrBody
		? "The parameters may come as a JSON body instead; a contradiction is refused."
		: undefined;
}

function recencyText({ recentSignIn }: AnyEndpoint): string | undefined {
	if (recentSignIn === undefined) return undefined;
	const which = typeof recentSignIn === "function" ? "For changes that outlive the session, it" : "A session";
	const how = recentSignIn === "passkey" ? " with a passkey" : "";
	return `${which} must have signed in${how} within the last ${RECENT_SIGN_IN_MS / 60_000} minutes.`;
}

function accessText(access: AnyEndpoint["access"]): string {
	if ("public" in access) return `No key is needed. ${access.public}`;
	if ("anyKey" in access) return `Any valid key or session. ${access.anyKey}`;
	if ("ownSession" in access) return `Signed in, without a key. ${access.ownSession}`;
	if ("globalPermission" in access)
		return `Needs \`${access.globalPermission}\` and a role that administers an organization.`;
	if ("permission" in access) return `Needs \`${access.permission}\`.`;
	return `Needs, depending on the request, of ${access.permissions.map((name) => `\`${name}\``).join(", ")}.`;
}

function permissionValue(access: AnyEndpoint["access"]): unknown {
	if ("public" in access) return "public";
	if ("anyKey" in access) return "any key";
	if ("ownSession" in access) return "own session";
	if ("globalPermission" in access) return [access.globalPermission];
	return permissionsOf(access);
}

function parameters(endpoint: AnyEndpoint): Json[] {
	const inPath = [...endpoint.path.matchAll(/:(\w+)(\{)?/g)].map(([, name = "", rest]) => ({
		name,
		in: "path",
		required: true,
		schema: { type: "string" },
		...(rest === undefined ? {} : { description: "The rest of the path, including slashes.", "x-capstan-rest": true }),
		...(PATH_EXAMPLES[name] === undefined ? {} : { example: PATH_EXAMPLES[name] }),
	}));
	const inHeader = Object.entries(endpoint.headers ?? {}).map(([name, { description, required, example }]) => ({
		name,
		in: "header",
		required: required ?? false,
		description: proseText(description),
		schema: { type: "string" },
		example,
	}));
	if (takesIdempotencyKey(endpoint)) inHeader.push(IDEMPOTENCY_KEY);
	if (endpoint.query === undefined) return [...inPath, ...inHeader];
	const schema = schemaOf(endpoint.query, "input") as { properties?: Record<string, Json>; required?: string[] };
	const inQuery = Object.entries(schema.properties ?? {}).map(([name, property]) => ({
		name,
		in: "query",
		required: schema.required?.includes(name) ?? false,
		schema: withoutNull(property),
		...(endpoint.example.query?.[name] === undefined ? {} : { example: endpoint.example.query[name] }),
	}));
	return [...inPath, ...inQuery, ...inHeader];
}

/** A query string has no null, so the parameter is left out instead. */
function withoutNull(schema: Json): Json {
	const { anyOf, ...rest } = schema;
	if (!Array.isArray(anyOf)) return schema;
	const choices: Json[] = anyOf.filter((choice: Json) => choice.type !== "null");
	return choices.length === 1 ? { ...rest, ...choices[0] } : { ...rest, anyOf: choices };
}

function requestBody(schema: v.GenericSchema, example: unknown): Json {
	return {
		required: true,
		content: {
			"application/json": { schema: schemaOf(schema, "input"), ...(example === undefined ? {} : { example }) },
		},
	};
}

function rawRequestBody({ contentType, description }: RawAnswer): Json {
	return { required: true, description, content: { [contentType]: { schema: { type: "string", format: "binary" } } } };
}

const SUCCESS_TEXT: Readonly<Record<number, string>> = {
	200: "The answer.",
	201: "Created.",
	202: "Accepted; the result is not reported.",
	204: "Done; no body.",
	206: "The requested range.",
	302: "Continue at the address in `Location`.",
	304: "Unchanged; no body.",
	406: "The result is not exactly one row, although one object was requested.",
};
const BODILESS: readonly number[] = [204, 302, 304];

function successes(endpoint: AnyEndpoint): Json {
	const statuses = endpoint.status ?? [200];
	return Object.fromEntries(
		statuses.map((status) => [
			status,
			{
				description:
					isRaw(endpoint.response) && status === statuses[0]
						? endpoint.response.description
						: (SUCCESS_TEXT[status] ?? "The answer."),
				...(BODILESS.includes(status) ? {} : { content: successContent(endpoint) }),
			},
		]),
	);
}

function rawContent(answer: RawAnswer): Json {
	return { [answer.contentType]: { schema: { type: "string", format: "binary" } } };
}

function successContent({ response, rawResponse, example }: AnyEndpoint): Json {
	if (isRaw(response)) return rawContent(response);
	const schema = withIgnored(schemaOf(response, "output"));
	return {
		"application/json": { schema, ...(example.response === undefined ? {} : { example: example.response }) },
		...Object.assign({}, ...[rawResponse ?? []].flat().map(rawContent)),
	};
}

/**
 * An answer that is an object names the ignored fields of its request; records in lists are left as
 * they are.
 */
function withIgnored(schema: Json): Json {
	if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: schema.anyOf.map(withIgnored) };
	if (schema.type !== "object" || typeof schema.properties !== "object") return schema;
	return { ...schema, properties: { ...schema.properties, ignored: { type: "array", items: { type: "string" } } } };
}

/** Whether a parameter may come in the query or the body. */
function takesQueryAndBody(endpoint: AnyEndpoint): boolean {
	return readsQueryFromBody(endpoint) || (endpoint.body !== undefined && !("public" in endpoint.access));
}

/** Errors of the pipeline that this endpoint can answer with. */
function pipelineErrors(endpoint: AnyEndpoint): ErrorCode[] {
	const { access } = endpoint;
	const readsJson = endpoint.body !== undefined || readsQueryFromBody(endpoint);
	const hidden = "scope" in access ? (access.scope as ScopeSource<unknown>).hidden().code : undefined;
	return PIPELINE_ERRORS.filter((code) => {
		if (code === "unknown_host") return !isAnsweredUnderEveryName(endpoint);
		if (code === "conflicting_parameters") return takesQueryAndBody(endpoint);
		if (code === "payload_too_large" || code === "unsupported_media_type") return readsJson;
		if (code === "permission_denied") return permissionsOf(access).length > 0 || "globalPermission" in access;
		if (code === "ip_address_not_allowed" || code === "api_key_violates_policy") {
			return !("public" in access || "ownSession" in access);
		}
		if (ERROR_STATUS[code] === 404) return code === hidden;
		if (code === "session_required") return "ownSession" in access;
		if (code === "recent_sign_in_required") return endpoint.recentSignIn !== undefined;
		if (code === "passkey_required") return endpoint.recentSignIn === "passkey";
		if (code === "invalid_session" || code === "cross_site_request") {
			return !("public" in access) && endpoint.keyOnly !== true;
		}
		if (code === "missing_api_key" || code === "expired_api_key")
			return !("public" in access || "ownSession" in access);
		return code.endsWith("_api_key") ? !("public" in access) : true;
	}).concat(hidden === undefined ? [] : [hidden]);
}

/** All codes that the endpoint answers with. */
export function errorsOf(endpoint: AnyEndpoint): ReadonlySet<ErrorCode> {
	const ofRepetition = takesIdempotencyKey(endpoint) ? IDEMPOTENCY_ERRORS : [];
	return new Set([...pipelineErrors(endpoint), ...endpoint.errors, ...ofRepetition]);
}

function failures(endpoint: AnyEndpoint): Json {
	const codes = errorsOf(endpoint);
	const byStatus = new Map<number, ErrorCode[]>();
	for (const code of codes) byStatus.set(ERROR_STATUS[code], [...(byStatus.get(ERROR_STATUS[code]) ?? []), code]);
	return Object.fromEntries(
		[...byStatus]
			.sort(([left], [right]) => left - right)
			.map(([status, list]) => [
				status,
				{
					description: list.map((code) => `\`${code}\``).join(", "),
					...(status === 429 || status === 503 ? { headers: RETRY_AFTER } : {}),
					content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
				},
			]),
	);
}

/**
 * Checks that JSON Schema cannot express; the error text describes them. Any other loss fails the
 * generator.
 */
const LEFT_TO_ERRORS = ["check", "partial_check", "trim", "to_lower_case", "transform"];

function schemaOf(schema: v.GenericSchema, typeMode: "input" | "output"): Json {
	const { $schema: _, ...rest } = toJsonSchema(schema, { typeMode, errorMode: "throw", ignoreActions: LEFT_TO_ERRORS });
	return rest;
}
