/**
 * Values that break things elsewhere, and values that a schema almost takes. JSON values are kept
 * as trees that can hold what JavaScript objects cannot: a name twice, `__proto__` as a field,
 * numbers that no double holds.
 */
import type { JsonSchema } from "./document";
import type { Random } from "./random";

/** Text that stands in the JSON as it is. */
export class Raw {
	constructor(readonly text: string) {}
}

/** An object as its list of fields. */
export class Fields {
	constructor(readonly entries: [name: string, value: Tree][]) {}
}

export type Tree = Raw | Fields | Tree[] | string | number | boolean | null;

export function treeOf(value: unknown): Tree {
	if (Array.isArray(value)) return value.map(treeOf);
	if (typeof value === "object" && value !== null) {
		return new Fields(
			Object.entries(value)
				.filter(([, field]) => field !== undefined)
				.map(([name, field]) => [name, treeOf(field)]),
		);
	}
	return (value ?? null) as Tree;
}

export function jsonOf(tree: Tree): string {
	if (tree instanceof Raw) return tree.text;
	if (Array.isArray(tree)) return `[${tree.map(jsonOf).join(",")}]`;
	if (tree instanceof Fields) {
		return `{${tree.entries.map(([name, value]) => `${JSON.stringify(name)}:${jsonOf(value)}`).join(",")}}`;
	}
	return JSON.stringify(tree);
}

/** Ids that exist: of the organization that is attacked, and of one that must not notice. */
export interface KnownIds {
	readonly texts: readonly string[];
	readonly numbers: readonly number[];
}

const NAMES = [
	"__proto__",
	"constructor",
	"prototype",
	"toString",
	"hasOwnProperty",
	"valueOf",
	"then",
	"toJSON",
	"length",
	"",
	" ",
	"\0",
	"id",
	"org_id",
	"owner_org",
	"user_id",
	"key_hash",
	"role_name",
	"$where",
	"a.b",
	"a[0]",
	"а", // Cyrillic
	"\ud800",
];

const INJECTIONS = [
	"' OR '1'='1",
	"'; DROP TABLE bundles;--",
	'" OR ""="',
	"1) OR 1=1--",
	"1; ATTACH DATABASE ':memory:' AS x",
	"0 UNION ALL VALUES(1,2,3)",
	"%' ESCAPE '\\",
	"$.x'",
	"guard:pending",
	"?1",
	":name",
	"eq.x),owner_org.neq.(y",
	"in.(1,2,3)",
	'in.("a","b\\")',
	"or(id.gt.0)",
	"not.is.null",
	"*,api_keys(*)",
	"id,api_keys!inner(key_hint)",
	"created_at.desc,(1)",
	"../../../../../../etc/passwd",
	"..\\..\\..\\windows\\win.ini",
	"%2e%2e%2f",
	"%252e%252e%252f",
	"file:///etc/passwd",
	"delta/../../../x",
	"\r\nX-Injected: 1",
	"<script>alert(1)</script>",
	"$" + "{7*7}{{7*7}}",
	"=cmd|' /C calc'!A0",
	"(a+)+$",
	"data:text/html,x",
	"javascript:alert(1)",
	"https://localhost/x.zip",
	"https://127.0.0.1:1/x.zip",
	"https://[::ffff:127.0.0.1]/x.zip",
	"https://169.254.169.254/latest/meta-data",
	"https://user:password@example.com/x.zip",
	"https://example.com:99999/x.zip",
	"https://0x7f.1/x.zip",
	"https://例え.テスト/x.zip",
	"https://",
	"http://example.com/x.zip",
];

const UNICODE = [
	"\0",
	"a\0b",
	"\ud800",
	"\udc00\ud800",
	"a\udfff",
	"\u202Etxt.exe",
	"\ufeff",
	"\u2028\u2029",
	"\u200b",
	"é",
	"e\u0301",
	"ﬀ",
	"İıſß",
	"𝟙𝟚",
	"👩‍👩‍👧‍👦",
	"аdmin",
	"com.exаmple.app",
	"Z͑ͫ̓ͪ̂ͫ̽",
	"\u{10FFFF}",
	"\uffff",
	"\u0085",
	"\x7f\x1b[31m",
	"١٢٣",
];

const ODD_TEXTS = [
	"",
	" ",
	"\t\n",
	"null",
	"undefined",
	"true",
	"NaN",
	"Infinity",
	"-1",
	"0",
	"00",
	"1.5",
	"1e3",
	"1e309",
	"0x10",
	"+1",
	"9007199254740993",
	"99999999999999999999",
	"1.2.3",
	"v1.2.3",
	"1.2.3+build",
	"1.2.3-",
	"999999999999999999999.0.0",
	"1.0.0-pr.128",
	"builtin",
	"unknown",
	"2026-02-31T00:00:00Z",
	"2030-01-31T00:00:00Z",
	"9999-12-31T23:59:59Z",
	"0000-01-01T00:00:00Z",
	"2030-01-01T24:00:00Z",
	"2030-01-01T00:00:00+23:59",
	"2030-01-01T00:00:00.123456789123456789Z",
	"+275760-09-13T00:00:00.000Z",
	"com.example.app",
	"com..example",
	"00000000-0000-0000-0000-000000000000",
	"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
	"0.0.0.0/0",
	"::/0",
	"10.0.0.0/33",
	"::ffff:10.0.0.0/104",
	"fe80::1%eth0",
	"a@b",
	'"a b"@example.com',
	"a@[127.0.0.1]",
	"org_super_admin",
	"app_preview",
	"owner",
	"ios",
	"__proto__",
	"constructor",
	"toString",
];

const LENGTHS = [63, 64, 65, 128, 129, 255, 256, 512, 513, 1024, 2049, 9000, 70_000];
const LETTERS = ["a", "0", ".", "/", "a.", "é", "\u{1F600}", "\0", "'", "%", "(", "-"];

export function nastyText(random: Random, known: KnownIds): string {
	const kind = random.integer(0, 9);
	if (kind < 2) return random.pick(INJECTIONS) as string;
	if (kind < 4) return random.pick(UNICODE) as string;
	if (kind < 7) return random.pick(ODD_TEXTS) as string;
	if (kind < 8) return (random.pick(LETTERS) as string).repeat(random.pick(LENGTHS) as number);
	if (kind < 9) return random.pick(known.texts) ?? "";
	const text = random.pick(known.texts) ?? "";
	return `${text}${random.pick(UNICODE)}`;
}

export const nastyName = (random: Random): string => random.pick(NAMES) as string;

const ODD_NUMBERS = [
	"0",
	"-0",
	"-1",
	"1",
	"1.5",
	"0.1e1",
	"1e21",
	"1e308",
	"1e309",
	"-1e309",
	"5e-324",
	"2147483648",
	"4294967296",
	"9007199254740991",
	"9007199254740993",
	"-9007199254740993",
	"9223372036854775808",
	"1000000000000000000000000000000000000000000",
	"8640000000000001",
];
const NOT_JSON = [
	"NaN",
	"Infinity",
	"-Infinity",
	"undefined",
	"00",
	"+1",
	"1.",
	".5",
	"0x10",
	"'a'",
	"\\u0041",
	"{a:1}",
];

function deep(random: Random): Raw {
	const levels = random.pick([20, 200, 5_000, 100_000]) as number;
	const [open, close, middle] = random.pick([
		["[", "]", ""],
		['{"a":', "}", "1"],
		['[{"bindings":', "}]", "null"],
	]) as [string, string, string];
	return new Raw(open.repeat(levels) + middle + close.repeat(levels));
}

export function nastyTree(random: Random, known: KnownIds, depth = 0): Tree {
	const kind = random.integer(0, 15);
	if (kind < 6 || depth > 2) return nastyText(random, known);
	if (kind < 8) return new Raw(random.pick(ODD_NUMBERS) as string);
	if (kind < 9) return random.pick(known.numbers) ?? 0;
	if (kind < 11) return random.pick([true, false, null]) as Tree;
	if (kind < 12) return Array.from({ length: random.integer(0, 3) }, () => nastyTree(random, known, depth + 1));
	if (kind < 14) {
		return new Fields(
			Array.from({ length: random.integer(0, 3) }, () => [nastyName(random), nastyTree(random, known, depth + 1)]),
		);
	}
	if (kind < 15) return deep(random);
	if (random.chance(0.3)) return new Raw(random.pick(NOT_JSON) as string);
	return hugeArray(random);
}

function hugeArray(random: Random): Raw {
	const item = random.pick([
		'""',
		"0",
		"null",
		"{}",
		"[]",
		'"com.example.app"',
		'{"role_name":"app_reader"}',
	]) as string;
	const length = random.pick([100, 1_000, 20_000, 60_000]) as number;
	return new Raw(`[${Array(length).fill(item).join(",")}]`);
}

/** A value that the schema takes, or almost. */
export function nearlyValid(random: Random, schema: JsonSchema, known: KnownIds, depth = 0): Tree {
	if (random.chance(0.06) || depth > 5) return nastyTree(random, known);
	const choices: JsonSchema[] | undefined = schema.anyOf ?? schema.oneOf;
	if (choices !== undefined) return nearlyValid(random, random.pick(choices) ?? {}, known, depth + 1);
	if (schema.const !== undefined) return variant(random, schema.const);
	if (Array.isArray(schema.enum)) return variant(random, random.pick(schema.enum));
	switch (schema.type) {
		case "string":
			return nearlyText(random, schema, known);
		case "integer":
		case "number": {
			const bounds = [schema.minimum, schema.maximum].filter((bound) => bound !== undefined);
			if (bounds.length > 0 && random.chance(0.6)) {
				return (random.pick(bounds) as number) + (random.pick([-1, 0, 1, 0.5]) as number);
			}
			return random.chance(0.4) ? (random.pick(known.numbers) ?? 1) : new Raw(random.pick(ODD_NUMBERS) as string);
		}
		case "boolean":
			return random.pick([true, false, true, false, "true", 1, 0]) as Tree;
		case "null":
			return null;
		case "array": {
			const most = schema.maxItems ?? 3;
			const length = random.pick([0, 1, 2, 3, Math.min(most, 300), Math.min(most + 1, 301)]) as number;
			return Array.from({ length }, () => nearlyValid(random, schema.items ?? {}, known, depth + 1));
		}
		case "object": {
			const properties = Object.entries((schema.properties ?? {}) as JsonSchema);
			const fields = properties
				.filter(([name]) => random.chance(schema.required?.includes(name) ? 0.95 : 0.4))
				.map(([name, property]): [string, Tree] => [name, nearlyValid(random, property, known, depth + 1)]);
			if (random.chance(0.1)) fields.push([nastyName(random), nastyTree(random, known)]);
			return new Fields(fields);
		}
		default:
			return nastyTree(random, known);
	}
}

function variant(random: Random, value: unknown): Tree {
	if (typeof value !== "string" || random.chance(0.75)) return value as Tree;
	return random.pick([value.toUpperCase(), `${value} `, `${value}\0`, [value], `${value}${value}`]) as Tree;
}

function nearlyText(random: Random, schema: JsonSchema, known: KnownIds): string {
	const kind = random.integer(0, 4);
	if (kind === 0) return nastyText(random, known);
	if (kind === 1 && schema.maxLength !== undefined) {
		const letter = random.pick(["a", "1", "\u{1F600}", "é"]) as string;
		return letter.repeat(Math.max(0, schema.maxLength + random.integer(-1, 1)));
	}
	if (kind <= 2) return random.pick(ODD_TEXTS) as string;
	return random.pick(known.texts) ?? "";
}
