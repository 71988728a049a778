/**
 * The SQL text of backups against a real D1: rows of every SQLite type come back as they were,
 * whatever their values, and no statement is longer than D1 accepts. The export of wrangler is read
 * as well as the rows themselves.
 */
import fc from "fast-check";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ambiguousTexts, InsertWriter, insertedRow, selectLiterals, statementsOf } from "../../src/operator/backup-sql";

let miniflare: Miniflare;
let db: Awaited<ReturnType<Miniflare["getD1Database"]>>;
const COLUMNS = ["id", "whole", "text", "bytes", "any"];
const table = (name: string) => ({ name, columns: COLUMNS, key: ["id"] });

beforeAll(async () => {
	miniflare = new Miniflare(
		convertV4MiniflareOptions({ modules: true, script: "export default {}", d1Databases: { DB: "DB" }, cf: false }),
	);
	db = await miniflare.getD1Database("DB");
	for (const name of ["source", "target"]) {
		await db
			.prepare(`CREATE TABLE ${name} (id INTEGER PRIMARY KEY, whole INTEGER, text TEXT, bytes BLOB, "any" ANY) STRICT`)
			.run();
	}
});
afterAll(() => miniflare?.dispose());

const hex = (text: string) => Buffer.from(text).toString("hex");
const asText = (text: string) => `CAST(X'${hex(text)}' AS TEXT)`;
/** Texts that break naive writers, alone and repeated beyond the length of a statement. */
const hostile = fc.oneof(
	fc.string({ unit: "binary", maxLength: 40 }),
	fc.constantFrom(
		"'",
		"''",
		";\n",
		"\n",
		"\\n",
		"\\n\n",
		"\r\n",
		"\0",
		"a\0b",
		"🦊",
		"--",
		"/*",
		"X'00'",
		"replace('a','b',c)",
		'"',
		"",
	),
);
const long = fc
	.tuple(hostile, fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 20_000 })))
	.map(([text, times]) => text.repeat(text.length > 10 ? Math.min(times, 400) : times));
const integer = fc.oneof(
	fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
	fc.constantFrom(0n, -1n, 2n ** 53n + 1n, -(2n ** 53n) - 1n, 2n ** 63n - 1n),
);
const literalOfInteger = (value: bigint) => (value === -(2n ** 63n) ? "(-9223372036854775807 - 1)" : String(value));
const real = fc
	.double({ noNaN: true })
	.map((value) => (Number.isFinite(value) ? `CAST('${value}' AS REAL)` : value > 0 ? "9e999" : "-9e999"));
const any = fc.oneof(
	fc.constant("NULL"),
	integer.map(literalOfInteger),
	real,
	hostile.map(asText),
	hostile.map((text) => `X'${hex(text)}'`),
);
const rows = fc.array(
	fc.tuple(
		fc.oneof(integer.map(literalOfInteger), fc.constant("NULL")),
		fc.oneof(long.map(asText), fc.constant("NULL")),
		fc.oneof(
			long.map((text) => `X'${hex(text)}'`),
			fc.constant("NULL"),
		),
		any,
	),
	{ minLength: 1, maxLength: 8 },
);
/** Exact, also for what JSON does not carry. */
const exactly = async (name: string) => {
	const exact = COLUMNS.map((column) => `typeof("${column}") || ' ' || hex(CAST("${column}" AS BLOB)) AS "${column}"`);
	return (await db.prepare(`SELECT ${exact.join(", ")} FROM ${name} ORDER BY id`).all()).results;
};

async function fillSource(generated: readonly (readonly string[])[]): Promise<void> {
	await db.batch([db.prepare("DELETE FROM source"), db.prepare("DELETE FROM target")]);
	for (const [id, values] of generated.entries()) {
		// In pieces, because the statement would be too long.
		await db.prepare(`INSERT INTO source (id) VALUES (${id})`).run();
		for (const [index, value] of values.entries()) {
			const column = COLUMNS[index + 1];
			if (value.length < 90_000) {
				await db.prepare(`UPDATE source SET "${column}" = ${value} WHERE id = ${id}`).run();
				continue;
			}
			const bytes = Buffer.from(/X'([0-9a-f]*)'/.exec(value)?.[1] ?? "", "hex");
			const type = value.startsWith("CAST") ? "TEXT" : "BLOB";
			await db
				.prepare(`UPDATE source SET "${column}" = CAST(? AS ${type}) WHERE id = ${id}`)
				.bind(new Uint8Array(bytes).buffer)
				.run();
		}
	}
}

async function write(literals: AsyncIterable<readonly string[]> | Iterable<readonly string[]>): Promise<void> {
	const writer = new InsertWriter(table("target"));
	let text = "";
	for await (const values of literals) text += writer.add(values);
	text += writer.end();
	// In chunks that end anywhere.
	const chunks = text.match(/[\s\S]{1,1000}/gu) ?? [];
	for await (const statement of statementsOf(chunks)) {
		expect(Buffer.byteLength(statement)).toBeLessThan(90_001);
		if (statement.startsWith("UPDATE")) pieces++;
		await db.prepare(statement).run();
	}
}

/** Statements that appended to a long row. */
let pieces = 0;

describe("rows of every type", () => {
	test("come back as they were", { timeout: 120_000 }, async () => {
		await fc.assert(
			fc.asyncProperty(rows, async (generated) => {
				await fillSource(generated);
				const { results } = await db.prepare(selectLiterals(table("source"))).all<Record<string, string>>();
				await write(results.map((row) => COLUMNS.map((column) => row[column] ?? "")));
				expect(await exactly("target")).toEqual(await exactly("source"));
			}),
			{ numRuns: 25 },
		);
		expect(pieces).toBeGreaterThan(0);
	});

	test("as wrangler exports them come back as they were, but for NULs and integers beyond 2^53", {
		timeout: 120_000,
	}, async () => {
		const portable = hostile.filter((text) => !text.includes("\0")).map(asText);
		await fc.assert(
			fc.asyncProperty(fc.array(portable, { minLength: 1, maxLength: 8 }), async (texts) => {
				await fillSource(texts.map((text) => ["1", text, "X'00ff'", "NULL"]));
				const { results } = await db
					.prepare("PRAGMA miniflare_d1_export(?,?,?);")
					.bind(1, 0, "source")
					.raw<[string]>()
					.then((lines) => ({ results: lines as unknown as string[] }));
				const { results: exact } = await db
					.prepare(ambiguousTexts(table("source"), "text"))
					.all<{ id: string; literal: string }>();
				const found: string[][] = [];
				for await (const statement of statementsOf(results.flat().map((line) => `${line}\n`))) {
					const row = insertedRow(statement);
					if (row?.table !== "source") continue;
					const values = COLUMNS.map((column) => row.values[row.columns?.indexOf(column) ?? -1] ?? "");
					values[2] = exact.find(({ id }) => id === values[0])?.literal ?? values[2] ?? "";
					found.push(values);
				}
				await write(found);
				expect(await exactly("target")).toEqual(await exactly("source"));
			}),
			{ numRuns: 25 },
		);
	});
});

test("SQL text that was cut short is refused", async () => {
	const read = async () => {
		for await (const _ of statementsOf(["INSERT INTO a VALUES ('x;"]));
	};
	await expect(read()).rejects.toThrow("cut short");
});
