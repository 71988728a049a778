/**
 * A TypeScript client generated from an OpenAPI document, as generators for other languages make
 * one: a type for each named schema, and for each operation the types of its parameters, its body
 * and its answer.
 */

type Json = Readonly<Record<string, unknown>>;

interface Parameter {
	readonly name: string;
	readonly in: "path" | "query" | "header";
	readonly required: boolean;
	readonly schema: Json;
}

interface Operation {
	readonly operationId: string;
	readonly parameters: readonly Parameter[];
	readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Json }>> };
	readonly responses: Readonly<
		Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Json }>> }>
	>;
}

export interface OpenApiDocument {
	readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
	readonly components: { readonly schemas: Readonly<Record<string, Json>> };
}

const JSON_TYPE = "application/json";
const SCALARS: Readonly<Record<string, string>> = {
	string: "string",
	number: "number",
	integer: "number",
	boolean: "boolean",
	null: "null",
};

function typeOf(schema: Json): string {
	const { $ref, const: constant, enum: choices, anyOf, oneOf, type, items, properties } = schema;
	if (typeof $ref === "string") return $ref.split("/").at(-1) ?? "unknown";
	if (constant !== undefined) return JSON.stringify(constant);
	if (Array.isArray(choices)) return choices.map((choice) => JSON.stringify(choice)).join(" | ");
	const options = anyOf ?? oneOf;
	if (Array.isArray(options)) return options.map((option: Json) => `(${typeOf(option)})`).join(" | ");
	if (type === "array") return `readonly (${typeOf((items ?? {}) as Json)})[]`;
	if (type !== "object") return SCALARS[String(type)] ?? "unknown";
	const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
	const fields = Object.entries((properties ?? {}) as Record<string, Json>).map(
		([name, field]) => `${JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${typeOf(field)};`,
	);
	return fields.length === 0 ? "Record<string, unknown>" : `{ ${fields.join(" ")} }`;
}

function inputOf({ parameters, requestBody }: Operation): string {
	const groups = (["path", "query"] as const).flatMap((place) => {
		const ofPlace = parameters.filter((parameter) => parameter.in === place);
		if (ofPlace.length === 0) return [];
		const fields = ofPlace.map(({ name, required, schema }) => `${name}${required ? "" : "?"}: ${typeOf(schema)};`);
		return [`${place}${ofPlace.some(({ required }) => required) ? "" : "?"}: { ${fields.join(" ")} };`];
	});
	const body = requestBody?.content[JSON_TYPE]?.schema;
	return `{ ${[...groups, ...(body === undefined ? [] : [`body: ${typeOf(body)};`])].join(" ")} }`;
}

function answerOf({ responses }: Operation): string {
	const schemas = Object.entries(responses).flatMap(([status, { content }]) => {
		const schema = content?.[JSON_TYPE]?.schema;
		return status.startsWith("2") && schema !== undefined ? [typeOf(schema)] : [];
	});
	return schemas.length === 0 ? "undefined" : [...new Set(schemas)].join(" | ");
}

/** The text of a module with `createClient`. */
export function generatedClient({ paths, components }: OpenApiDocument): string {
	const operations = Object.entries(paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
	);
	const schemas = Object.entries(components.schemas).map(
		([name, schema]) => `export type ${name} = ${typeOf(schema)};`,
	);
	const types = operations.map(
		({ operation }) => `	${operation.operationId}: { input: ${inputOf(operation)}; answer: ${answerOf(operation)} };`,
	);
	const routes = operations.map(
		({ path, method, operation }) =>
			`	${operation.operationId}: [${JSON.stringify(method)}, ${JSON.stringify(path)}],`,
	);
	return `${schemas.join("\n")}
export interface Operations {
${types.join("\n")}
}
const ROUTES: { readonly [Name in keyof Operations]: readonly [method: string, path: string] } = {
${routes.join("\n")}
};
${CALL}`;
}

const CALL = `interface Sent { path?: Record<string, unknown>; query?: Record<string, unknown>; body?: unknown }
export function createClient(baseUrl: string, key: string) {
	return async <Name extends keyof Operations>(
		name: Name,
		input: Operations[Name]["input"],
	): Promise<Operations[Name]["answer"]> => {
		const { path = {}, query = {}, body } = input as Sent;
		const [method, template] = ROUTES[name];
		const url = new URL(template.replace(/\\{(\\w+)\\}/g, (_, part: string) => encodeURIComponent(String(path[part]))), baseUrl);
		for (const [field, value] of Object.entries(query)) url.searchParams.set(field, String(value));
		const response = await fetch(url, {
			method,
			headers: { "x-api-key": key, "content-type": "application/json" },
			...(body === undefined ? {} : { body: JSON.stringify(body) }),
		});
		const answer: unknown = await response.json();
		if (!response.ok) throw answer;
		return answer as Operations[Name]["answer"];
	};
}
`;
