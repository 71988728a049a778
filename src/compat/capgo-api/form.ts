/**
 * A form: how an endpoint reads and answers requests of scripts that were written for Capgo's
 * public API, where their names or shapes differ. A form has names and shapes, and no rules:
 * rights, limits and effects are those of the endpoint.
 */
import * as v from "valibot";
import { type AnyEndpoint, type Prose, Reply, type RequestForms } from "../../http/endpoint";
import type { RawInput, ScopeSource } from "../../http/scope";

/** The group of the paths that only those scripts know, in the documentation. */
export const TAG = "Capgo's scripts";

export type Fields = Readonly<Record<string, unknown>>;

/** Further fields of a query or a body, and the endpoint's own fields in their place. */
interface FurtherFields {
	readonly entries: v.ObjectEntries;
	readonly translate: (fields: Fields) => Fields;
	/** Fields that stay in the validated input under another name, for the answer. */
	readonly kept?: Readonly<Record<string, string>>;
}

/** A request as the shape of its answer depends on it. */
export interface Asked {
	readonly input: { readonly query: Fields | undefined; readonly body: Fields | undefined };
	readonly scope: { readonly orgId: string };
}

export interface Form {
	readonly query?: FurtherFields;
	readonly body?: FurtherFields;
	readonly forms?: RequestForms;
	/** Replaces the target of the decision, for requests that name it in another way. */
	readonly scope?: ScopeSource<never>;
	/** The schema of `answer`. */
	readonly response?: (own: v.GenericSchema) => v.GenericSchema;
	readonly answer?: (own: unknown, asked: Asked) => unknown;
	/** Added to the endpoint's own. */
	readonly description?: Prose;
}

/** The request of an endpoint's example. */
const EXAMPLE: Asked = {
	input: { query: undefined, body: undefined },
	scope: { orgId: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21" },
};

/** The endpoint with the form; its own forms of request and answer stay. */
export function withForm<const Own extends AnyEndpoint>(own: Own, form: Form): Own {
	const { answer } = form;
	const handle = own.handle as (context: unknown) => Promise<unknown>;
	const { response } = own.example;
	const changed: Partial<AnyEndpoint> = {
		...(form.query === undefined ? {} : { query: withFields(own.query, form.query) }),
		...(form.body === undefined ? {} : { body: withFields(own.body, form.body) }),
		...(form.forms === undefined ? {} : { forms: { ...own.forms, ...form.forms } }),
		...(form.scope === undefined ? {} : { access: { ...own.access, scope: form.scope } as AnyEndpoint["access"] }),
		...(form.response === undefined ? {} : { response: form.response(own.response as v.GenericSchema) }),
		...(form.description === undefined ? {} : { description: [own.description ?? [], form.description].flat() }),
		...(answer === undefined || response === undefined
			? {}
			: { example: { ...own.example, response: answer(response, EXAMPLE) } }),
		...(answer === undefined
			? {}
			: {
					handle: async (context: never) => {
						const output = await handle(context);
						if (output instanceof Response) return output;
						if (output instanceof Reply) return new Reply(output.status, answer(output.body, context), output.headers);
						return answer(output, context);
					},
				}),
	};
	return { ...own, ...changed };
}

/** The types of an alias for the typed client, without a value. */
interface AliasTypes {
	readonly params: Readonly<Record<string, string>>;
	readonly query: Fields | undefined;
	readonly body: Fields | undefined;
	readonly answer: unknown;
}

/** The endpoint under another path, and with another form. */
export function alias<const Method_ extends AnyEndpoint["method"], const Path extends string>(
	own: AnyEndpoint,
	method: Method_,
	path: Path,
	form: Form & Partial<Pick<AnyEndpoint, "example" | "status">> & Pick<AnyEndpoint, "summary">,
): AnyEndpoint & { readonly method: Method_; readonly path: Path; readonly types?: AliasTypes } {
	const { summary, example, status } = form;
	const formed = withForm(own, form);
	return {
		...formed,
		method,
		path,
		summary,
		tag: TAG,
		example: { ...formed.example, ...example },
		...(status === undefined ? {} : { status }),
	};
}

/**
 * The object schema with further fields. They are checked under their own names, so that an error
 * names what the request has; then the schema checks the translated object. The documentation has
 * the fields of both.
 */
function withFields(
	own: v.GenericSchema | undefined,
	{ entries, translate, kept = {} }: FurtherFields,
): v.GenericSchema {
	const target = own ?? v.object({});
	const ownEntries = "entries" in target ? (target.entries as v.ObjectEntries) : {};
	const further = v.looseObject(entries);
	const documented = v.object({ ...ownEntries, ...entries });
	const run: v.GenericSchema["~run"] = (dataset, config) => {
		const isObject = typeof dataset.value === "object" && dataset.value !== null && !Array.isArray(dataset.value);
		if (!isObject) return target["~run"](dataset, config);
		const checked = further["~run"]({ value: dataset.value }, config);
		if (checked.issues !== undefined) return { ...checked, typed: false };
		const given: Fields = checked.value as Fields;
		const result = target["~run"]({ value: translate(given) }, config);
		if (result.issues !== undefined) return result;
		const stays = Object.entries(kept).map(([name, under]) => [under, given[name]]);
		return { ...result, value: { ...(result.value as object), ...Object.fromEntries(stays) } };
	};
	return { ...documented, "~run": run } as v.GenericSchema;
}

/**
 * The schema of an answer, whose records have further fields. A list, and each choice of a union,
 * has them as well.
 */
export function withRecordFields(own: v.GenericSchema, entries: v.ObjectEntries): v.GenericSchema {
	const looked = own as unknown as { type: string; item?: v.GenericSchema; options?: readonly v.GenericSchema[] } & {
		entries?: v.ObjectEntries;
	};
	if (looked.type === "array" && looked.item !== undefined) return v.array(withRecordFields(looked.item, entries));
	if (looked.options !== undefined) return v.union(looked.options.map((option) => withRecordFields(option, entries)));
	return v.strictObject({ ...looked.entries, ...entries });
}

/** The answer with further fields in each record. */
export function recordsWith(add: (record: Fields, asked: Asked) => Fields) {
	return (own: unknown, asked: Asked): unknown =>
		Array.isArray(own)
			? own.map((record) => ({ ...record, ...add(record, asked) }))
			: { ...(own as Fields), ...add(own as Fields, asked) };
}

/** A list with totals is no form of Capgo's, so its records are the endpoint's own. */
export const unlessTotals =
	(add: (own: unknown, asked: Asked) => unknown) =>
	(own: unknown, asked: Asked): unknown =>
		Object.hasOwn(own as Fields, "total") ? own : add(own, asked);

/** The body of a raw request as an object. */
export const bodyOf = ({ body }: RawInput): Fields =>
	typeof body === "object" && body !== null && !Array.isArray(body) ? (body as Fields) : {};

/** Takes the name of each field from `names`; a field under the endpoint's own name wins. */
export const renamed =
	(names: Readonly<Record<string, string>>) =>
	(fields: Fields): Fields => {
		const own = Object.fromEntries(Object.entries(fields).filter(([name]) => !Object.hasOwn(names, name)));
		const others = Object.entries(names).flatMap(([theirs, ours]) =>
			fields[theirs] === undefined || own[ours] !== undefined ? [] : [[ours, fields[theirs]] as const],
		);
		return { ...own, ...Object.fromEntries(others) };
	};

/** A number that came as digits. */
export const digits = (value: unknown): unknown =>
	typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;

/** True for a request that declares itself as one for Capgo's API. */
export const isForCapgo = ({ headers }: Pick<Request, "headers">) => headers.has("capgo_api");
