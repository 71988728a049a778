/** Reads by name: the order of the batch, and the rows under each name. */
import type { CompiledQuery } from "kysely";
import { describe, expect, test } from "vitest";
import type { Database, Statement } from "../../src/db/batch";
import { query } from "../../src/db/client";
import { listReads, readNamed } from "../../src/db/named-reads";

const read = (name: string): CompiledQuery<{ name: string }> =>
	query.selectFrom("apps").select("name").where("name", "=", name).compile();

/** Answers each statement with one row, which has the statement's parameter. */
function echo(): { db: Database; batches: (readonly Statement[])[] } {
	const batches: (readonly Statement[])[] = [];
	const batch = async (statements: readonly Statement[]) => {
		batches.push(statements);
		return statements.map(({ parameters: [name] }) => ({ rows: [{ name }], changes: 0 }));
	};
	return { db: { trips: 0, batch: batch as Database["batch"] }, batches };
}

describe("named reads", () => {
	test("run in one batch, in the order of their names", async () => {
		const { db, batches } = echo();
		await readNamed(db, { second: read("b"), first: read("a") });
		expect(batches.map((statements) => statements.map(({ parameters }) => parameters))).toEqual([[["b"], ["a"]]]);
	});

	test("give no rows for a read that is left out, and run no statement for it", async () => {
		const { db } = echo();
		const absent: CompiledQuery<{ name: string }> | undefined = undefined;
		const reads = { before: read("a"), absent, after: read("b") };
		expect(listReads(reads)).toHaveLength(2);
		expect(await readNamed(db, reads)).toEqual({ before: [{ name: "a" }], absent: [], after: [{ name: "b" }] });
	});

	test("join the rows of several statements under one name", async () => {
		const { db } = echo();
		const rows = await readNamed(db, { chunks: ["a", "b"].map(read), none: [], last: read("c") });
		expect(rows).toEqual({ chunks: [{ name: "a" }, { name: "b" }], none: [], last: [{ name: "c" }] });
	});
});
