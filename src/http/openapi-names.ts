/**
 * Gives the records of the API names in its document, so that generated clients have a type for
 * each. A name is taken from one operation, and every equal schema of the document refers to it.
 */

type Json = Record<string, unknown>;

/**
 * By name: the operation whose first answer has the schema. The items of a list, and the first
 * choice of several, are meant.
 */
const NAMES: Readonly<Record<string, readonly [path: string, method: string]>> = {
	Organization: ["/organization", "get"],
	Member: ["/organization/members", "get"],
	ApiKey: ["/apikey", "get"],
	App: ["/app", "get"],
	Channel: ["/channel", "get"],
	Bundle: ["/bundle", "get"],
	Device: ["/device", "get"],
	Statistics: ["/statistics/app/{app_id}", "get"],
	BundleUsage: ["/statistics/app/{app_id}/bundle_usage", "get"],
	Webhook: ["/webhook", "get"],
	Publisher: ["/publisher", "get"],
	Preview: ["/preview", "get"],
	AuditEntry: ["/organization/audit", "get"],
	CreatedApiKey: ["/apikey", "post"],
};

const isObject = (value: unknown): value is Json =>
	typeof value === "object" && value !== null && !Array.isArray(value);

function recordOf(schema: unknown): Json | undefined {
	if (!isObject(schema)) return undefined;
	if (Array.isArray(schema.anyOf)) return recordOf(schema.anyOf[0]);
	if (schema.type === "array") return recordOf(schema.items);
	return schema.type === "object" ? schema : undefined;
}

/**
 * The same for a record in a list and for one that is an answer, which may have `ignored` as well.
 */
function textOf(record: Json | undefined): string {
	const { ignored: _, ...properties } = isObject(record?.properties) ? record.properties : {};
	return JSON.stringify({ ...record, properties });
}

function answerOf(paths: Readonly<Record<string, Json>>, path: string, method: string): unknown {
	const operation = paths[path]?.[method];
	const responses = isObject(operation) && isObject(operation.responses) ? operation.responses : {};
	const first = Object.values(responses)[0];
	const content = isObject(first) && isObject(first.content) ? first.content["application/json"] : undefined;
	return isObject(content) ? content.schema : undefined;
}

/** @returns the paths with references, and the named schemas */
export function withNames(paths: Readonly<Record<string, Json>>): { paths: Json; schemas: Record<string, Json> } {
	const schemas: Record<string, Json> = {};
	const nameOf = new Map<string, string>();
	for (const [name, [path, method]] of Object.entries(NAMES)) {
		const record = recordOf(answerOf(paths, path, method));
		const text = textOf(record);
		if (record === undefined || nameOf.has(text)) continue;
		nameOf.set(text, name);
		schemas[name] = record;
	}
	const referred = (value: unknown, isRoot = false): unknown => {
		if (Array.isArray(value)) return value.map((each) => referred(each));
		if (!isObject(value)) return value;
		const name = isRoot || value.type !== "object" ? undefined : nameOf.get(textOf(value));
		if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
		return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, referred(each)]));
	};
	return {
		paths: referred(paths) as Json,
		// An answer may have `ignored` beside the fields of its record.
		schemas: Object.fromEntries(
			Object.entries(schemas).map(([name, { additionalProperties: _, ...record }]) => [
				name,
				referred(record, true) as Json,
			]),
		),
	};
}
