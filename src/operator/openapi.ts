/**
 * The OpenAPI document, which the build serves as /openapi.json, and its short form for reviewers:
 * test/api-surface.txt has an operation in each line, so that a changed right, field or status is
 * seen in a diff.
 */
import { allEndpoints } from "../endpoints";
import { openApiDocument } from "../http/openapi";

export const openApiText = (): string => `${JSON.stringify(openApiDocument(allEndpoints), null, "\t")}\n`;

interface Schema {
	readonly $ref?: string;
	readonly properties?: Readonly<Record<string, Schema>>;
	readonly required?: readonly string[];
	readonly items?: Schema;
	readonly anyOf?: readonly Schema[];
}

interface Content {
	readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

interface Operation {
	readonly "x-capstan-permission": string | readonly string[] | null;
	readonly deprecated?: boolean;
	readonly parameters?: readonly { readonly in: string; readonly name: string; readonly required?: boolean }[];
	readonly requestBody?: Content;
	readonly responses: Readonly<Record<string, Content>>;
}

interface Document {
	readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
	readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** Every answer that is an object may have it. */
const IGNORED = "ignored";

/**
 * Each operation with its permission, its query and body (`?` after optional fields), and the
 * fields of its answers by status.
 */
export function apiSurface(text: string): string {
	const { paths, components }: Document = JSON.parse(text);
	const fieldsOf = (schema: Schema | undefined): string => {
		if (schema?.$ref !== undefined) return fieldsOf(components.schemas[schema.$ref.split("/").at(-1) ?? ""]);
		if (schema?.items !== undefined) return `[${fieldsOf(schema.items)}]`;
		if (schema?.anyOf !== undefined) return [...new Set(schema.anyOf.map(fieldsOf))].filter(Boolean).join(" | ");
		const required = schema?.required ?? [];
		return Object.keys(schema?.properties ?? {})
			.filter((name) => name !== IGNORED)
			.map((name) => (required.includes(name) ? name : `${name}?`))
			.join(" ");
	};
	const shown = (name: string, fields: string) => (fields === "" ? [] : [`${name}(${fields})`]);
	const bodyOf = ({ content = {} }: Content) => fieldsOf(Object.values(content)[0]?.schema);
	const lines = Object.entries(paths).flatMap(([path, methods]) =>
		Object.entries(methods).map(([method, operation]) => {
			const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
			return [
				`${path} ${method.toUpperCase()}`,
				`[${[operation["x-capstan-permission"] ?? "public"].flat().join(" ")}]`,
				...(operation.deprecated === true ? ["deprecated"] : []),
				...shown("query", query.map(({ name, required }) => (required === true ? name : `${name}?`)).join(" ")),
				...shown("body", bodyOf(operation.requestBody ?? {})),
				...Object.entries(operation.responses).flatMap(([status, response]) =>
					status < "300" ? [`${status}(${bodyOf(response)})`] : [],
				),
			].join(" ");
		}),
	);
	return `${lines.sort().join("\n")}\n`;
}
