/**
 * Fields of a request that its endpoint does not know. They are reported to the caller, and refused
 * where dropping them could do more than the caller asked for: in deletions, where rights are
 * given, and where the name says that the field limits something.
 */
import type * as v from "valibot";
import type { RequestIssue } from "../../errors";
import type { AnyEndpoint } from "../endpoint";
import type { RawInput } from "../scope";

/** Names that an answer lists, and the length of each. */
const MOST_NAMES = 20;
const LONGEST_NAME = 64;

/** Header of an answer with the names of fields that had no effect. */
export const IGNORED_HEADER = "x-ignored-fields";

/** Beginnings of names of fields that limit what a request does. */
const LIMITING =
	/^(allow|auto_?pause|block|deny|disable|dry_?run|enforc|expir|if_|ip_|keep_|limited|max_|min_|only|protected|promoters|require|rollout|until)/i;

/** A schema as this file looks at it: the properties of its kind. */
interface Looked {
	readonly type: string;
	readonly entries?: Readonly<Record<string, v.GenericSchema>>;
	readonly item?: v.GenericSchema;
	readonly wrapped?: v.GenericSchema;
	readonly options?: readonly v.GenericSchema[];
}

const WRAPPERS: readonly string[] = ["optional", "nullish", "nullable", "exact_optional", "undefinedable"];

/** Dotted names of the fields in the value that the schema does not have. */
function unknownFields(schema: v.GenericSchema | undefined, value: unknown, path: readonly string[] = []): string[] {
	if (typeof value !== "object" || value === null) return [];
	const { type, entries, item, wrapped, options } = (schema ?? { type: "object", entries: {} }) as unknown as Looked;
	if (wrapped !== undefined && WRAPPERS.includes(type)) return unknownFields(wrapped, value, path);
	if (item !== undefined && Array.isArray(value)) {
		return value.flatMap((each, index) => unknownFields(item, each, [...path, String(index)]));
	}
	if (options !== undefined) {
		// The option that leaves out the fewest fields, because a wrong request has none that fits.
		const left = options.map((option) => unknownFields(option, value, path));
		return left.reduce((fewest, names) => (names.length < fewest.length ? names : fewest), left[0] ?? []);
	}
	if (entries === undefined || type === "loose_object" || Array.isArray(value)) return [];
	return Object.entries(value).flatMap(([name, each]) =>
		Object.hasOwn(entries, name) ? unknownFields(entries[name], each, [...path, name]) : [[...path, name].join(".")],
	);
}

/** Names of the fields of a request that have no effect. */
export function ignoredFields({ query, body, forms }: AnyEndpoint, raw: RawInput): string[] {
	const unknown = [...unknownFields(query, raw.query), ...unknownFields(body, raw.body)];
	return [...new Set(unknown)].filter((name) => forms?.expected?.includes(name) !== true);
}

/** Issues for fields that must not be ignored, and for empty parameters of a deletion. */
export function refusedUnknown(endpoint: AnyEndpoint, raw: RawInput, ignored: readonly string[]): RequestIssue[] {
	const { access, method, refusesUnknown, safe } = endpoint;
	if ("public" in access || method === "GET" || safe === true) return [];
	const isDeletion = method === "DELETE";
	const refusesAll = isDeletion || refusesUnknown === true;
	const unknown = ignored
		.filter((path) => refusesAll || LIMITING.test(path.split(".").at(-1) ?? ""))
		.slice(0, MOST_NAMES)
		.map((path) => ({ path, message: "is not known here; check its spelling, or leave it out" }));
	const empty = isDeletion
		? Object.entries(raw.query)
				.filter(([, value]) => value === "" || value === null)
				.map(([path]) => ({ path, message: "must not be empty; leave it out" }))
		: [];
	return [...empty, ...unknown];
}

/** The names as answers have them. */
export const shownNames = (names: readonly string[]): string[] =>
	names.slice(0, MOST_NAMES).map((name) => name.slice(0, LONGEST_NAME).toWellFormed());

/** The names as a header has them: text that no header can break. */
export const namesForHeader = (names: readonly string[]): string =>
	shownNames(names)
		.map((name) => name.replace(/[^\w.-]+/g, encodeURIComponent))
		.join(", ");
