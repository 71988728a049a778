/**
 * Malice around the body: headers, keys, method, and HTTP itself.
 */
import { bodyOf, headerText, targetOf } from "./draft";
import { always, type Mutation, oddHeader, setHeader } from "./mutation";
import { URL_MUTATIONS } from "./url-mutations";
import { nastyText } from "./values";

const RANGES = [
	"bytes=0-0",
	"bytes=-1",
	"bytes=5-2",
	"bytes=0-,1-",
	"bytes=a-b",
	"bytes=99999999999999999999-",
	"x=0-1",
	"bytes=0-99999999999999999999",
	"bytes=-0",
	"bytes=",
	",",
];
const ENTITY_TAGS = ["*", '"x"', 'W/"x"', '"', '"a","b', "", '"\u{1F600}"', `"${"a".repeat(5_000)}"`, "W/"];
const DATES = [
	"Sat, 21 Nov 2026 08:00:00 GMT",
	"0",
	"now",
	"Thu, 01 Jan 1970 00:00:00 GMT",
	"Fri, 31 Dec 99999 23:59:59 GMT",
	"2026-11-21",
];
const TUS_NUMBERS = [
	"",
	"-1",
	"0",
	"1",
	"5",
	"1e3",
	"99999999999999",
	"999999999999999999999999",
	"1.5",
	"NaN",
	"0x10",
	"5, 5",
	"١",
];

const ACCEPTED = [
	"application/vnd.pgrst.object+json",
	"application/vnd.pgrst.object+json;nulls=stripped",
	"*/*;q=0",
	"text/html",
	"application/json; version=\u{1F600}",
	"",
];

const ODD_HEADERS: readonly (readonly [name: string, values: readonly string[]])[] = [
	["range", RANGES],
	["if-match", ENTITY_TAGS],
	["if-none-match", ENTITY_TAGS],
	["if-range", [...ENTITY_TAGS, ...DATES]],
	["if-modified-since", DATES],
	["if-unmodified-since", DATES],
	["tus-resumable", ["", "0.2.2", "1.0.0, 1.0.0", "2.0.0", "\u{1F600}"]],
	["upload-length", TUS_NUMBERS],
	["upload-offset", TUS_NUMBERS],
	["upload-defer-length", ["1", "0"]],
	["upload-concat", ["partial", "final;/files/a /files/b"]],
	["upload-checksum", ["sha1 x", "md5", ""]],
	["accept", ACCEPTED],
	["prefer", ["return=representation", "count=exact", "resolution=merge-duplicates,tx=rollback", "\u{1F600}"]],
	["content-range", ["0-0/*", "bytes 0-1/2"]],
	["accept-profile", ["public", "pg_catalog"]],
	["x-http-method-override", ["DELETE", "GET", "PATCH"]],
	["x-forwarded-for", ["127.0.0.1", "' OR 1=1--", "a".repeat(5_000)]],
	["cf-connecting-ip", ["127.0.0.1", "::1", "x", "999.999.999.999", "\u{1F600}"]],
	["x-forwarded-host", ["evil.example"]],
	["x-forwarded-proto", ["https", "javascript"]],
	["x-original-url", ["/organization"]],
	["x-rewrite-url", ["/organization"]],
	["forwarded", ["for=127.0.0.1;host=evil.example"]],
	["origin", ["null", "https://evil.example", "file://", "*"]],
	["access-control-request-method", ["DELETE", "x", ""]],
	["access-control-request-headers", ["authorization", "\u{1F600}", "a,".repeat(2_000)]],
	["cookie", ["a=b; __proto__=1", "capstankey=x"]],
	["accept-encoding", ["gzip", "br;q=1.0, *;q=0", "identity;q=0", "x"]],
	["accept-language", ["\u202e"]],
	["user-agent", ["", "() { :;}; echo", "a".repeat(7_000)]],
	["x-request-id", ["x", "\u{1F600}"]],
	["x-d1-bookmark", ["", "x", "00000000-00000000-00000000-0", "first-primary"]],
	["traceparent", ["00-x"]],
	["upgrade", ["h2c"]],
	["expect", ["200-ok"]],
	["te", ["trailers, deflate;q=0.5"]],
	["via", ["1.0 a".repeat(100)]],
];

const metadataOf = (text: string) => Buffer.from(text).toString("base64");

const HEADERS: readonly Mutation[] = [
	{
		name: "header",
		weight: 4,
		applies: always,
		apply(draft, { random }) {
			for (let count = random.integer(1, 3); count > 0; count--) {
				const [name, values] = random.pick(ODD_HEADERS) ?? ["x", ["x"]];
				const value = headerText(random.pick(values) ?? "");
				if (random.chance(0.2)) draft.headers.push([name, value]);
				else setHeader(draft, name, value);
			}
		},
	},
	{
		name: "header that the document names",
		weight: 4,
		applies: (_, operation) => operation.parameters.some((parameter) => parameter.in === "header"),
		apply(draft, { random, operation, known }) {
			const parameter = random.pick(operation.parameters.filter((known) => known.in === "header"));
			if (parameter === undefined) return;
			const odd = ODD_HEADERS.find(([name]) => name === parameter.name.toLowerCase())?.[1];
			const value = odd !== undefined && random.chance(0.6) ? (random.pick(odd) ?? "") : nastyText(random, known);
			oddHeader(draft, parameter.name.toLowerCase(), value, random);
		},
	},
	{
		name: "upload metadata",
		weight: 6,
		applies: (draft) => draft.headers.some(([name]) => name === "upload-metadata"),
		apply(draft, { random, known }) {
			const own = draft.headers.find(([name]) => name === "upload-metadata")?.[1] ?? "";
			const path = Buffer.from(own.split(" ")[1] ?? "", "base64").toString();
			const parts = path.split("/");
			parts[random.integer(0, parts.length - 1)] = nastyText(random, known);
			const values = [
				`filename ${metadataOf(parts.join("/"))}`,
				`filename ${metadataOf(path + nastyText(random, known))}`,
				`filename ${metadataOf(nastyText(random, known))}`,
				`${own},${own}`,
				`${own},filename ${metadataOf(parts.join("/"))}`,
				`filename ${metadataOf(path).replace(/=*$/, "")}`,
				`filename ${metadataOf(path)}!`,
				"filename",
				"filename ",
				",,,",
				`filetype ${metadataOf("application/zip")}`,
				`filename ${Buffer.from([0xff, 0xfe, 0x2f]).toString("base64")}`,
				`__proto__ ${metadataOf("x")},${own}`,
			];
			setHeader(draft, "upload-metadata", random.pick(values) as string);
		},
	},
	{
		name: "key",
		weight: 2,
		applies: always,
		apply(draft, { random, keys }) {
			const key = random.pick(keys) as string;
			const other = random.pick(keys) as string;
			const ways: [string, string][][] = [
				[
					["authorization", key],
					["capstankey", other],
				],
				[
					["authorization", key],
					["authorization", other],
				],
				[["authorization", `${key}, ${other}`]],
				[["authorization", `Bearer Bearer ${key}`]],
				[["authorization", `Basic ${metadataOf(`a:${key}`)}`]],
				[["authorization", key.toLowerCase()]],
				[["authorization", key.slice(0, -1)]],
				[["authorization", `${key}\u00a0`]],
				[["authorization", `${key.slice(0, -1)}é`]],
				[["authorization", "Bearer"]],
				[["authorization", "Bearer null"]],
				[["capgkey", `' OR key_hint LIKE 'cap%`]],
				[["capstankey", "cap_".repeat(1_500)]],
				[
					["servicekey", key],
					["capgkey", key],
				],
			];
			draft.headers = [
				...draft.headers.filter(([name]) => !["authorization", "capstankey"].includes(name)),
				...(random.pick(ways) ?? []).map(([name, value]): [string, string] => [name, headerText(value)]),
			];
		},
	},
	{
		name: "accept",
		weight: 0.7,
		applies: always,
		apply(draft, { random }) {
			setHeader(draft, "accept", random.pick(ACCEPTED) as string);
		},
	},
	{
		name: "host",
		weight: 0.5,
		applies: always,
		apply(draft, { random }) {
			setHeader(
				draft,
				"host",
				random.pick(["evil.example", "evil.example:99", "127.0.0.1", "xn--e1afmkfd", "a".repeat(250)]) as string,
			);
		},
	},
	{
		name: "method",
		weight: 1,
		applies: always,
		apply(draft, { random }) {
			draft.method = random.pick([
				"HEAD",
				"OPTIONS",
				"TRACE",
				"PATCH",
				"PUT",
				"DELETE",
				"POST",
				"GET",
				"PROPFIND",
				"LOCK",
				"PURGE",
				"SEARCH",
			]) as string;
		},
	},
];

/** Requests that are no sound HTTP; the server itself may refuse them. */
const TRANSPORT: readonly Mutation[] = [
	{
		name: "transport",
		weight: 0.7,
		applies: always,
		apply(draft, { random }) {
			draft.unsound = true;
			const length = bodyOf(draft)?.length ?? 0;
			const ways = [
				() => draft.headers.push(["content-length", String(length + random.integer(1, 50))]),
				() => draft.headers.push(["content-length", String(Math.max(0, length - 1))]),
				() => draft.headers.push(["content-length", String(length)], ["content-length", String(length + 1)]),
				() =>
					draft.headers.push(["content-length", random.pick(["-1", "abc", "1e3", "99999999999999999999"]) as string]),
				() => draft.headers.push(["transfer-encoding", "chunked"], ["content-length", String(length)]),
				() => draft.headers.push(["transfer-encoding", random.pick(["gzip", "chunked, chunked", "x"]) as string]),
				() => draft.headers.push(["x-null", "a\0b"]),
				() => draft.headers.push(["x-bare", "a\nx-injected: 1"]),
				() => draft.headers.push(["bad header name", "x"]),
				() => draft.headers.push(["", "x"]),
				() => draft.headers.push(["x-large", "a".repeat(300_000)]),
				() => {
					for (let index = 0; index < 600; index++) draft.headers.push([`x-many-${index}`, "x"]);
				},
				() => {
					draft.method = random.pick(["BREW", "get", "G E T", "", "GET\0", "A".repeat(500), "CONNECT"]) as string;
				},
				() => {
					draft.target = random.pick([
						"http://evil.example/organization",
						"*",
						"",
						"organization",
						"//",
						"/\0",
						"/a b",
						"/\xff\xfe",
						"http://[",
						"/?\r",
					]) as string;
				},
				() => {
					draft.target = `${targetOf(draft)}${"a".repeat(100_000)}`;
				},
				() =>
					draft.headers.push(
						["connection", "upgrade"],
						["upgrade", "websocket"],
						["sec-websocket-version", "13"],
						["sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="],
					),
				() => draft.headers.push(["expect", "100-continue"]),
			];
			(random.pick(ways) as () => unknown)();
		},
	},
];

export const HTTP: readonly Mutation[] = [...URL_MUTATIONS, ...HEADERS, ...TRANSPORT];
