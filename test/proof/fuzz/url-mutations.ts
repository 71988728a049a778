/**
 * Malice in the request line: query and path.
 */
import { lineText, percent } from "./draft";
import { always, type Mutation } from "./mutation";
import type { Random } from "./random";
import { jsonOf, type KnownIds, nastyName, nastyText, nearlyValid, type Tree } from "./values";

const BROKEN_QUERIES = [
	"?",
	"&&&&",
	"=",
	"==&=",
	"%",
	"%zz=%zz",
	"%FF=%FE",
	"page=%ED%A0%80",
	"page=%00",
	"page[]=1&page[]=2",
	"page[a]=1",
	"page=1;page=2",
	"__proto__=1&__proto__[a]=b",
	"constructor=1",
	"select=*&select=*",
	"order=created_at.desc,(select)",
	"limit=-1&offset=-1",
	"page=-1",
	"page=0&page=1",
	"page=999999999",
	"page=1e3",
	"page=%2B1",
	"app_id",
	"app_id=",
	"app_id=eq.",
	"app_id=in.(%22a%22)",
	"+",
	"a=".repeat(3_000),
	"x&".repeat(3_000),
	"reveal=true",
	"dry_run=",
];

function nastyParameter(random: Random, known: KnownIds): string {
	const kind = random.integer(0, 9);
	if (kind === 0)
		return random.pick(["%", "%zz", "%FF", "%ED%A0%80", "%C0%AF", "%E2%82", "%u0041", "+", "%00"]) as string;
	if (kind === 1) return lineText(nastyText(random, known).slice(0, 9_000)).replace(/[&#]/g, "");
	return percent(nastyText(random, known).slice(0, 9_000));
}

/** A JSON value as a query parameter. */
function asParameter(tree: Tree): string {
	return percent((typeof tree === "string" ? tree : jsonOf(tree)).slice(0, 9_000));
}

const QUERY: readonly Mutation[] = [
	{
		name: "parameter as its schema almost says",
		weight: 4,
		applies: (_, operation) => operation.parameters.some((parameter) => parameter.in === "query"),
		apply(draft, { random, operation, known }) {
			const parameter = random.pick(operation.parameters.filter((known) => known.in === "query"));
			if (parameter === undefined) return;
			const value = asParameter(nearlyValid(random, parameter.schema, known));
			draft.query = [...draft.query.filter(([name]) => name !== parameter.name), [parameter.name, value]];
		},
	},
	{
		name: "parameter of any kind",
		weight: 4,
		applies: (draft) => draft.query.length > 0,
		apply(draft, { random, known }) {
			const index = random.integer(0, draft.query.length - 1);
			const [name, value] = draft.query[index] ?? ["", ""];
			const prefix = /^(eq|neq|in|is)\./.exec(value)?.[0];
			const nasty = nastyParameter(random, known);
			draft.query[index] = [name, prefix !== undefined && random.chance(0.6) ? prefix + nasty : nasty];
		},
	},
	{
		name: "parameter twice",
		weight: 2,
		applies: (draft) => draft.query.length > 0,
		apply(draft, { random, known }) {
			const [name, value] = random.pick(draft.query) ?? ["", ""];
			draft.query.push([name, random.chance(0.5) ? value : nastyParameter(random, known)]);
		},
	},
	{
		name: "parameter left out",
		weight: 1,
		applies: (draft) => draft.query.length > 0,
		apply(draft, { random }) {
			draft.query.splice(random.integer(0, draft.query.length - 1), 1);
		},
	},
	{
		name: "parameter too many",
		weight: 1.5,
		applies: always,
		apply(draft, { random, known }) {
			draft.query.push([percent(nastyName(random)), nastyParameter(random, known)]);
		},
	},
	{
		name: "query broken",
		weight: 2,
		applies: always,
		apply(draft, { random }) {
			const own = draft.query.map(([name, value]) => `${name}=${value}`).join("&");
			const broken = random.pick(BROKEN_QUERIES) as string;
			draft.rawQuery = random.chance(0.6) && own !== "" ? `${own}&${broken}` : broken;
		},
	},
];

const PATH: readonly Mutation[] = [
	{
		name: "path parameter",
		weight: 5,
		applies: (draft) => draft.path.some(({ parameter }) => parameter),
		apply(draft, { random, known }) {
			const part = random.pick(draft.path.filter(({ parameter }) => parameter));
			if (part === undefined) return;
			const odd = [
				"..%2f..%2f",
				"%2e%2e",
				"..",
				".",
				"%00",
				"%0d%0aX-Injected:%201",
				"%ff",
				"%",
				"%2F",
				"a%2Fb",
				";a=b",
				"%5c",
			];
			const nasty = random.chance(0.4) ? (random.pick(odd) as string) : nastyParameter(random, known);
			part.text = random.chance(0.3) ? part.text + nasty : nasty.replace(/\?/g, "%3F");
		},
	},
	{
		name: "shape of the path",
		weight: 1,
		applies: always,
		apply(draft, { random }) {
			const path = draft.path.map(({ text }) => text).join("");
			const at = random.integer(1, Math.max(1, path.length - 1));
			const letter = path.charCodeAt(at);
			const ways = [
				`${path}/`,
				`/${path}`,
				`/x/..${path}`,
				`/%2e%2e${path}`,
				path.toUpperCase(),
				`${path}${"/a".repeat(500)}`,
				`${path}%00`,
				`${path};jsessionid=1`,
				`${path}.json`,
				`${path.slice(0, at)}%${letter.toString(16).padStart(2, "0")}${path.slice(at + 1)}`,
				`${path.slice(0, at)}%25${letter.toString(16)}${path.slice(at + 1)}`,
				path.replaceAll("/", "\\"),
				path.replaceAll("/", "//"),
				path.slice(0, at),
				`${path}#x`,
				`${path}/${"a".repeat(9_000)}`,
			];
			draft.path = [{ text: random.pick(ways) as string, parameter: false }];
		},
	},
];

export const URL_MUTATIONS: readonly Mutation[] = [...QUERY, ...PATH];
