/**
 * The OpenAPI document, made from the endpoint list and nothing else. It runs in the generator and in a test; the Worker serves the
 * file that the generator wrote, so none of this is in the Worker.
 */
import { toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import { ERROR_STATUS, type ErrorCode } from "../errors";
import { type AnyEndpoint, isRaw, permissionsOf } from "./endpoint";
import { PIPELINE_ERRORS } from "./pipeline";

type Json = Record<string, unknown>;

const INTRODUCTION = `Live updates for Capacitor and Electron apps.

Send an API key in \`authorization\` (raw, or after \`Bearer \`) or in \`capstankey\`. Lists are paged by \`page\` from 0, 50 items each, with
\`Link: rel="next"\` while more follow. Unknown fields are ignored; an optional field that is null is absent.`;

const ERROR_SCHEMA: Json = {
	type: "object",
	required: ["error", "message", "moreInfo", "requestId"],
	properties: {
		error: { type: "string", description: "A code from the operation's list." },
		message: { type: "string", description: "One sentence, with the remedy." },
		moreInfo: { type: "object", description: "Facts for programs; `issues` lists refused fields by path." },
		requestId: { type: "string" },
	},
};

const KEY_HEADERS = ["authorization", "capstankey", "servicekey", "capgkey"];

/** The document of these endpoints, in their order. */
export function openApiDocument(endpoints: readonly AnyEndpoint[]): Json {
	const paths: Record<string, Json> = {};
	for (const endpoint of endpoints) {
		const path = endpoint.path.replace(/\{.+?\}$/, "").replace(/:(\w+)/g, "{$1}");
		paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint) };
	}
	return {
		openapi: "3.1.0",
		info: {
			title: "Capstan",
			version: "1.0.0",
			description: INTRODUCTION,
			license: { name: "MIT", identifier: "MIT" },
		},
		tags: [...new Set(endpoints.map((endpoint) => endpoint.tag))].map((name) => ({ name })),
		paths,
		components: {
			schemas: { Error: ERROR_SCHEMA },
			securitySchemes: Object.fromEntries(
				KEY_HEADERS.map((name) => [name, { type: "apiKey", in: "header", name, description: "An API key." }]),
			),
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
		description: [endpoint.description, accessText(access)].filter(Boolean).join("\n\n"),
		"x-capstan-permission": permissionValue(access),
		security: isPublic ? [] : KEY_HEADERS.map((name) => ({ [name]: [] })),
		parameters: parameters(endpoint),
		...(endpoint.body === undefined ? {} : { requestBody: requestBody(endpoint.body, endpoint.example.body) }),
		responses: { ...successes(endpoint), ...failures(endpoint, isPublic) },
	};
}

function operationId({ method, path }: AnyEndpoint): string {
	const words = path.match(/[A-Za-z0-9]+/g) ?? [];
	return [method.toLowerCase(), ...words.map((word) => word[0]?.toUpperCase() + word.slice(1))].join("");
}

function accessText(access: AnyEndpoint["access"]): string {
	if ("public" in access) return `No key is needed. ${access.public}`;
	if ("anyKey" in access) return `Any valid key. ${access.anyKey}`;
	if ("permission" in access) return `Needs \`${access.permission}\`.`;
	return `Needs, depending on the request, of ${access.permissions.map((name) => `\`${name}\``).join(", ")}.`;
}

function permissionValue(access: AnyEndpoint["access"]): unknown {
	if ("public" in access) return "public";
	if ("anyKey" in access) return "any key";
	return permissionsOf(access);
}

function parameters(endpoint: AnyEndpoint): Json[] {
	const inPath = [...endpoint.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
		name,
		in: "path",
		required: true,
		schema: { type: "string" },
	}));
	if (endpoint.query === undefined) return inPath;
	const schema = schemaOf(endpoint.query, "input") as { properties?: Record<string, Json>; required?: string[] };
	const inQuery = Object.entries(schema.properties ?? {}).map(([name, property]) => ({
		name,
		in: "query",
		required: schema.required?.includes(name) ?? false,
		schema: property,
		...(endpoint.example.query?.[name] === undefined ? {} : { example: endpoint.example.query[name] }),
	}));
	return [...inPath, ...inQuery];
}

function requestBody(schema: v.GenericSchema, example: unknown): Json {
	return {
		required: true,
		content: {
			"application/json": { schema: schemaOf(schema, "input"), ...(example === undefined ? {} : { example }) },
		},
	};
}

function successes(endpoint: AnyEndpoint): Json {
	if (isRaw(endpoint.response)) {
		const { contentType, description } = endpoint.response;
		return { 200: { description, content: { [contentType]: { schema: { type: "string", format: "binary" } } } } };
	}
	const schema = schemaOf(endpoint.response, "output");
	const { response: example } = endpoint.example;
	const content = { "application/json": { schema, ...(example === undefined ? {} : { example }) } };
	return Object.fromEntries(
		(endpoint.status ?? [200]).map((status) => [
			status,
			status === 204 ? { description: "Done." } : { description: status === 201 ? "Created." : "The answer.", content },
		]),
	);
}

function failures(endpoint: AnyEndpoint, isPublic: boolean): Json {
	const aboutKeys = (code: ErrorCode) => /api_key|permission|organization|app_not_found|channel_not_found/.test(code);
	const codes = new Set([...PIPELINE_ERRORS.filter((code) => !isPublic || !aboutKeys(code)), ...endpoint.errors]);
	const byStatus = new Map<number, ErrorCode[]>();
	for (const code of codes) byStatus.set(ERROR_STATUS[code], [...(byStatus.get(ERROR_STATUS[code]) ?? []), code]);
	return Object.fromEntries(
		[...byStatus]
			.sort(([left], [right]) => left - right)
			.map(([status, list]) => [
				status,
				{
					description: list.map((code) => `\`${code}\``).join(", "),
					content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
				},
			]),
	);
}

/** Checks that JSON Schema cannot say are left to the text of their error. */
function schemaOf(schema: v.GenericSchema, typeMode: "input" | "output"): Json {
	const { $schema: _, ...rest } = toJsonSchema(schema, { typeMode, errorMode: "ignore" });
	return rest;
}
