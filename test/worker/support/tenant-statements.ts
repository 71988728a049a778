/** Entries of the catalogues of statements, run against the rows of two tenants: each reads or writes the rows of its tenant and no others. */
import type { CompiledQuery, RawBuilder } from "kysely";
import { expect } from "vitest";
import { query } from "../../../src/db/client";
import { A, B, changesBy, rowsOfAll, type TenantRows, WRONG_PAIRS } from "./tenants";

export type Row = Record<string, unknown>;
/** A statement about a tenant, and the rows that it answers with, by the columns that distinguish them. */
export type Read = readonly [(of: TenantRows) => CompiledQuery, (of: TenantRows) => readonly Row[]];

/**
 * A statement, its changes when it runs for the second tenant's own thing, and statements that run before. One that takes the tenant and
 * the thing apart must change nothing when the thing belongs to the other tenant or does not exist.
 */
export type Change = readonly [
	(of: TenantRows, thing: TenantRows) => CompiledQuery | readonly CompiledQuery[],
	readonly string[],
	(readonly RawBuilder<unknown>[])?,
];

const nameOf = (row: Row) => String(row.id ?? row.device_id ?? row.target_id);
const idsOf = (text: unknown) => (JSON.parse(String(text)) as { id: string }[]).map(({ id }) => id).sort();

/** The statement answers with exactly these rows, for each tenant. */
export async function expectReads([read, expected]: Read): Promise<void> {
	const [ofA, ofB] = await rowsOfAll([read(A), read(B)]);
	const shown = (rows: readonly Row[] = []) =>
		rows
			.map((row) => (typeof row.bindings === "string" ? { ...row, bindings: idsOf(row.bindings) } : row))
			// Not every statement has an order, nor do these tests ask for one.
			.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other)));
	expect(shown(ofA)).toMatchObject(shown(expected(A)));
	expect(shown(ofB)).toMatchObject(shown(expected(B)));
}

/** The statement changes exactly these rows, and nothing if the thing is not the tenant's. */
export async function expectChanges([statement, expected, arranged = []]: Change): Promise<void> {
	if (arranged.length > 0) await rowsOfAll(arranged.map((each) => each.compile(query)));
	for (const [of, thing] of statement.length === 2 ? WRONG_PAIRS : []) {
		expect(await changesBy(statement(of, thing)), `${of.org} with ${thing.org}`).toEqual([]);
	}
	expect(await changesBy(statement(B, B))).toEqual(expected);
}
