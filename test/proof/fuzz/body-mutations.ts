/**
 * Malice in the body: values, fields, text, encoding and size. It knows JSON and the schema of the
 * operation.
 */
import { gzipSync } from "node:zlib";
import type { JsonSchema } from "./document";
import { bodyOf } from "./draft";
import { hasBody, hasJson, type Mutation, oddHeader, setHeader } from "./mutation";
import { Fields, nastyName, nastyTree, nearlyValid, Raw, type Tree } from "./values";

/** Every place in a tree that holds a value. */
function slots(tree: Tree): { holder: Tree[] | Fields; index: number }[] {
	if (Array.isArray(tree)) {
		return tree.slice(0, 200).flatMap((item, index) => [{ holder: tree, index }, ...slots(item)]);
	}
	if (tree instanceof Fields) {
		return tree.entries.flatMap(([, value], index) => [{ holder: tree, index }, ...slots(value)]);
	}
	return [];
}

function read({ holder, index }: { holder: Tree[] | Fields; index: number }): Tree {
	return (holder instanceof Fields ? holder.entries[index]?.[1] : holder[index]) ?? null;
}

function write({ holder, index }: { holder: Tree[] | Fields; index: number }, value: Tree): void {
	if (holder instanceof Fields) {
		const name = holder.entries[index]?.[0] ?? "";
		holder.entries[index] = [name, value];
	} else holder[index] = value;
}

/** The fields that a schema names, with the way to each. */
function fieldsOf(schema: JsonSchema, way: readonly string[] = []): { way: readonly string[]; schema: JsonSchema }[] {
	const choices: JsonSchema[] = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
	return choices.flatMap((choice) => [
		...Object.entries((choice.properties ?? {}) as JsonSchema).flatMap(([name, property]) => [
			{ way: [...way, name], schema: property },
			...fieldsOf(property, [...way, name]),
		]),
		...(choice.items === undefined ? [] : fieldsOf(choice.items, [...way, "0"])),
	]);
}

function place(tree: Tree, way: readonly string[], value: Tree): Tree {
	const [name, ...rest] = way;
	if (name === undefined) return value;
	if (name === "0" && !(tree instanceof Fields)) {
		const items = Array.isArray(tree) ? tree : [];
		return [place(items[0] ?? null, rest, value), ...items.slice(1)];
	}
	const fields = tree instanceof Fields ? tree : new Fields([]);
	const known = fields.entries.find(([own]) => own === name);
	const placed = place(known?.[1] ?? null, rest, value);
	return new Fields([...fields.entries.filter(([own]) => own !== name), [name, placed]]);
}

export const BODY: readonly Mutation[] = [
	{
		name: "field as its schema almost says",
		weight: 8,
		applies: (draft, operation) => hasJson(draft) && operation.bodySchema !== undefined,
		apply(draft, { random, operation, known }) {
			const field = random.pick(fieldsOf(operation.bodySchema ?? {}));
			if (field === undefined) return;
			draft.json = place(draft.json ?? null, field.way, nearlyValid(random, field.schema, known));
		},
	},
	{
		name: "body as its schema almost says",
		weight: 2,
		applies: (draft, operation) => hasJson(draft) && operation.bodySchema !== undefined,
		apply(draft, { random, operation, known }) {
			draft.json = nearlyValid(random, operation.bodySchema ?? {}, known);
		},
	},
	{
		name: "value of any kind",
		weight: 8,
		applies: (draft) => hasJson(draft) && slots(draft.json ?? null).length > 0,
		apply(draft, { random, known }) {
			const slot = random.pick(slots(draft.json ?? null));
			if (slot !== undefined) write(slot, nastyTree(random, known));
		},
	},
	{
		name: "value wrapped",
		weight: 1,
		applies: (draft) => hasJson(draft) && slots(draft.json ?? null).length > 0,
		apply(draft, { random }) {
			const slot = random.pick(slots(draft.json ?? null));
			if (slot === undefined) return;
			const value = read(slot);
			write(slot, random.pick([[value], [value, value], new Fields([["eq", value]]), [[[[value]]]]]) as Tree);
		},
	},
	{
		name: "field left out",
		weight: 2,
		applies: (draft) => hasJson(draft) && slots(draft.json ?? null).length > 0,
		apply(draft, { random }) {
			const slot = random.pick(slots(draft.json ?? null));
			if (slot?.holder instanceof Fields) slot.holder.entries.splice(slot.index, 1);
			else slot?.holder.splice(slot.index, 1);
		},
	},
	{
		name: "field too many",
		weight: 2,
		applies: hasJson,
		apply(draft, { random, known }) {
			if (draft.json instanceof Fields) {
				draft.json.entries.push([nastyName(random), nastyTree(random, known)]);
				if (random.chance(0.1)) {
					for (let index = 0; index < 5_000; index++) draft.json.entries.push([`f${index}`, index]);
				}
			} else draft.json = new Fields([[nastyName(random), nastyTree(random, known)]]);
		},
	},
	{
		name: "field twice",
		weight: 1,
		applies: (draft) => draft.json instanceof Fields && draft.json.entries.length > 0,
		apply(draft, { random, known }) {
			if (!(draft.json instanceof Fields)) return;
			const [name, value] = random.pick(draft.json.entries) ?? ["", null];
			draft.json.entries.push([name, random.chance(0.5) ? value : nastyTree(random, known)]);
		},
	},
	{
		name: "body of another kind",
		weight: 2,
		applies: hasJson,
		apply(draft, { random, known }) {
			draft.json = random.pick([null, [], "text", 0, true, new Raw(""), new Raw(" "), [draft.json ?? null]]) as Tree;
			if (random.chance(0.3)) draft.json = nastyTree(random, known);
		},
	},
	{
		name: "text of the body broken",
		weight: 3,
		applies: hasJson,
		apply(draft, { random }) {
			const text = bodyOf(draft) ?? Buffer.alloc(0);
			const at = random.integer(0, text.length);
			const insert = Buffer.from(
				random.pick([[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0], [0x22], [0x2c], [0x5c], [0x7b], [0xf4, 0x90]]) ??
					[],
			);
			draft.bytes = random.chance(0.4)
				? text.subarray(0, at)
				: Buffer.concat([text.subarray(0, at), insert, text.subarray(random.chance(0.5) ? at : at + 1)]);
		},
	},
	{
		name: "encoding of the body",
		weight: 3,
		applies: hasJson,
		apply(draft, { random }) {
			const text = bodyOf(draft) ?? Buffer.alloc(0);
			const header = (value: string) => setHeader(draft, "content-encoding", value);
			const ways: (() => Buffer)[] = [
				() => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text]),
				() => Buffer.from(`\ufeff${text}`, "utf16le"),
				() => Buffer.from(text.toString("utf8"), "utf16le").swap16(),
				() => Buffer.from(text.toString("utf8"), "latin1"),
				() => gzipSync(text),
				() => {
					header("gzip");
					return gzipSync(text);
				},
				() => {
					header(random.pick(["gzip", "br", "deflate", "identity", "gzip, gzip", "x"]) as string);
					return text;
				},
				() => {
					header("gzip");
					return gzipSync(Buffer.alloc(20_000_000, 0x20));
				},
				() => {
					draft.chunked = true;
					return text;
				},
				() => Buffer.from(text.toString("base64")),
			];
			draft.bytes = (random.pick(ways) as () => Buffer)();
		},
	},
	{
		name: "content type",
		weight: 2,
		applies: hasBody,
		apply(draft, { random }) {
			const types = [
				"",
				"text/plain",
				"application/json; charset=utf-16",
				"application/json;;;",
				"application/JSON",
				"application/merge-patch+json",
				"application/x-www-form-urlencoded",
				"multipart/form-data",
				"multipart/form-data; boundary=",
				"*/*",
				"application/offset+octet-stream",
				"json",
				"application/json, text/plain",
				"\u{1F600}",
				"a".repeat(6_000),
			];
			oddHeader(draft, "content-type", random.pick(types) as string, random);
		},
	},
	{
		name: "multipart",
		weight: 1,
		applies: hasBody,
		apply(draft, { random }) {
			const text = (bodyOf(draft) ?? Buffer.alloc(0)).toString("latin1");
			const part = `--x\r\nContent-Disposition: form-data; name="file"; filename="../../a.zip"\r\n\r\n${text}`;
			const form = random.pick([part, `${part}\r\n--x--`, `${part}\r\n--x--\r\n`, `--y${part}`, "--x--", "\r\n--x"]);
			draft.bytes = Buffer.from(form ?? "", "latin1");
			setHeader(draft, "content-type", "multipart/form-data; boundary=x");
		},
	},
	{
		name: "body over the limit",
		weight: 0.25,
		applies: hasJson,
		apply(draft, { random }) {
			const size = random.pick([1_048_575, 1_048_576, 1_048_577, 1_500_000, 4_000_000]) as number;
			const text = bodyOf(draft) ?? Buffer.alloc(0);
			const letter = random.pick([" ", "[", "1", '"', "a"]) as string;
			draft.bytes = Buffer.concat([text, Buffer.alloc(Math.max(0, size - text.length), letter)]);
			if (random.chance(0.3)) draft.chunked = true;
		},
	},
	{
		name: "body where none belongs",
		weight: 1,
		applies: (draft) => !hasBody(draft),
		apply(draft, { random, known, operation }) {
			const query = Object.fromEntries(operation.parameters.map(({ name, schema }) => [name, schema]));
			draft.json = random.chance(0.6)
				? nearlyValid(random, { type: "object", properties: query }, known)
				: nastyTree(random, known);
			if (random.chance(0.7)) setHeader(draft, "content-type", "application/json");
		},
	},
	{
		name: "bytes of another length",
		weight: 6,
		applies: (draft) => draft.bytes !== undefined && draft.json === undefined,
		apply(draft, { random }) {
			const bytes = draft.bytes ?? Buffer.alloc(0);
			const ways = [
				() => bytes.subarray(0, random.integer(0, bytes.length)),
				() => Buffer.concat([bytes, Buffer.alloc(random.integer(1, 100), 0xff)]),
				() => Buffer.alloc(0),
				() => Buffer.alloc(bytes.length, 0),
				() => Buffer.alloc(200_000, 0x50),
				() => {
					draft.chunked = true;
					return bytes;
				},
				() => Buffer.from('{"app_id":null}'),
			];
			draft.bytes = (random.pick(ways) as () => Buffer)();
		},
	},
];
