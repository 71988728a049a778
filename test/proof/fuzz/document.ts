/**
 * The OpenAPI document as the fuzzer needs it: the operations with what they take and answer, which
 * of them a URL addresses, and whether an answer is one that it declares. Nothing is known here of
 * any single operation.
 */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { getPathNoStrict } from "hono/utils/url";

// biome-ignore lint/suspicious/noExplicitAny: JSON Schema has every shape
export type JsonSchema = Record<string, any>;

export interface Parameter {
	readonly name: string;
	readonly in: "path" | "query" | "header";
	readonly required?: boolean;
	readonly schema: JsonSchema;
	readonly example?: unknown;
	/** A path parameter that takes the rest of the path, slashes included. */
	readonly "x-capstan-rest"?: boolean;
}

export interface Operation {
	/** E.g. `DELETE /channel`. */
	readonly name: string;
	readonly id: string;
	readonly method: string;
	/** E.g. `/app/{app_id}`. */
	readonly path: string;
	readonly parameters: readonly Parameter[];
	/** Schema of the JSON body, if the operation takes one. */
	readonly bodySchema: JsonSchema | undefined;
	readonly bodyExample: unknown;
	readonly takesKey: boolean;
	/** A session is what it takes, and no key. */
	readonly ofSession: boolean;
	readonly responses: ReadonlyMap<number, DeclaredAnswer>;
	/** Whether a success may show the text of a key. */
	readonly showsKeys: boolean;
	/** Texts by which the stock client asks for one of many shapes. */
	readonly weight: number;
}

export interface DeclaredAnswer {
	/** Media types of the body; empty if there is no body. */
	readonly contentTypes: readonly string[];
	/** The schema of JSON. */
	readonly validate: ValidateFunction | undefined;
	/** Undefined: not an error. */
	readonly errorCodes: ReadonlySet<string> | undefined;
}

export interface ApiDocument {
	readonly operations: readonly Operation[];
	/**
	 * The operation at this method and path; `methods` are those that the path takes, none when there
	 * is nothing at it.
	 */
	resolve(method: string, target: string, origin: string): { operation: Operation | undefined; methods: string[] };
}

const ERROR_REF = "#/components/schemas/Error";
const ROOT = "capstan";
const JSON_TYPE = "application/json";
const ENCODED_DOT = "~dot~";
const BACKSLASH = "~backslash~";

export function readDocument(document: JsonSchema): ApiDocument {
	const ajv = new Ajv2020({ strict: false, allErrors: false, formats: { binary: true } });
	addFormats.default(ajv);
	ajv.addSchema({ $id: ROOT, paths: document.paths, components: document.components });
	const { schemas } = document.components as JsonSchema;
	const operations = Object.entries(document.paths as JsonSchema).flatMap(([path, methods]) =>
		Object.entries(methods as JsonSchema).map(([method, operation]) =>
			readOperation(ajv, schemas, path, method, operation),
		),
	);
	const patterns = [...new Set(operations.map(({ path }) => path))].map((path) => {
		const own = operations.filter((operation) => operation.path === path);
		return { own, pattern: patternOf(own[0] as Operation) };
	});
	return {
		operations,
		resolve(method, target, origin) {
			// The runtime takes `..` for the parent and leaves `%2e%2e` and backslashes as they are, which
			// URL would not.
			const kept = target.replace(/%2e/gi, ENCODED_DOT).replaceAll("\\", BACKSLASH);
			// A target that is neither a path nor an address reaches the runtime as the root.
			const href = kept.startsWith("/") ? origin + kept : URL.canParse(kept) ? kept : origin;
			if (!URL.canParse(href)) return { operation: undefined, methods: [] };
			// The server's own reading of a path, percent-encoding included.
			const path = getPathNoStrict({ url: new URL(href).href } as Request)
				.replaceAll(ENCODED_DOT, ".")
				.replaceAll(BACKSLASH, "\\");
			const wanted = method === "HEAD" ? "GET" : method;
			// A path that is named as it stands is not one with parameters, whatever the method.
			const named = patterns.filter(({ own }) => own[0]?.path === path);
			const matching = named.length > 0 ? named : patterns.filter(({ pattern }) => pattern.test(path));
			const operation = matching.flatMap(({ own }) => own).find((known) => known.method === wanted);
			return { operation, methods: matching.flatMap(({ own }) => own.map((known) => known.method)) };
		},
	};
}

/** The text of a schema with the records that it names. */
function withRecords(text: string, schemas: JsonSchema, seen = new Set<string>()): string {
	const names = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name = ""]) => name);
	const fresh = names.filter((name) => !seen.has(name));
	for (const name of fresh) seen.add(name);
	return text + fresh.map((name) => withRecords(JSON.stringify(schemas[name]), schemas, seen)).join("");
}

function readOperation(
	ajv: Ajv2020,
	schemas: JsonSchema,
	path: string,
	method: string,
	operation: JsonSchema,
): Operation {
	const json = operation.requestBody?.content?.["application/json"];
	const parameters: Parameter[] = operation.parameters ?? [];
	const responses = new Map(
		Object.entries(operation.responses as JsonSchema).map(([status, response]) => [
			Number(status),
			readResponse(ajv, ["paths", path, method, "responses", status], response),
		]),
	);
	const schemes = (operation.security as JsonSchema[]).flatMap((scheme) => Object.keys(scheme));
	const successes = JSON.stringify(
		Object.entries(operation.responses as JsonSchema).filter(([status]) => Number(status) < 300),
	);
	return {
		name: `${method.toUpperCase()} ${path}`,
		id: operation.operationId,
		method: method.toUpperCase(),
		path,
		parameters,
		bodySchema: json?.schema,
		bodyExample: json?.example,
		takesKey: schemes.some((name) => name !== "session"),
		ofSession: schemes.length > 0 && schemes.every((name) => name === "session"),
		responses,
		showsKeys: /"key":\{/.test(withRecords(successes, schemas)),
		weight: 1 + parameters.length + (json === undefined ? 0 : schemaSize(json.schema)),
	};
}

function readResponse(ajv: Ajv2020, at: readonly string[], response: JsonSchema): DeclaredAnswer {
	const contents = (response.content ?? {}) as JsonSchema;
	const json = contents[JSON_TYPE];
	const pointer = (parts: readonly string[]) =>
		parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/");
	const isError = json?.schema?.$ref === ERROR_REF;
	return {
		contentTypes: Object.keys(contents),
		validate:
			json === undefined
				? undefined
				: ajv.compile({ $ref: `${ROOT}#/${pointer([...at, "content", JSON_TYPE, "schema"])}` }),
		errorCodes: isError
			? new Set([...String(response.description).matchAll(/`(\w+)`/g)].map(([, code = ""]) => code))
			: undefined,
	};
}

function patternOf({ path, parameters }: Operation): RegExp {
	const source = path.split(/(\{\w+\})/).map((part) => {
		const parameter = parameters.find(({ in: where, name }) => where === "path" && part === `{${name}}`);
		if (parameter !== undefined) return parameter["x-capstan-rest"] === true ? ".+" : "[^/]+";
		return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
	});
	return new RegExp(`^${source.join("")}$`, "su");
}

/** The number of fields that a schema names. */
export function schemaSize(schema: JsonSchema): number {
	return (JSON.stringify(schema).match(/"type":|"enum":|"const":/g) ?? []).length;
}
