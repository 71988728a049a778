/**
 * Which batches of a handler carry the conditions of its decision: every one that writes, and none
 * that only reads.
 */
import { expect, test } from "vitest";
import type { Principal } from "../../src/authz/principal";
import type { Database, Statement } from "../../src/db/client";
import { ApiError } from "../../src/errors";
import { guardedWrites } from "../../src/http/pipeline/guarded-writes";

const principal = {
	kind: "session",
	userId: "user",
	keyId: null,
	secretHash: "hash",
	expiresAtMs: null,
	ipAllowList: null,
	bindings: [],
	globalPermissions: [],
} as unknown as Principal;

async function guardsOf(sql: string): Promise<number> {
	let guards = 0;
	const database = {
		trips: 0,
		batch: async (_: readonly Statement[], { before = [] }: { before?: readonly Statement[] } = {}) => {
			guards = before.length;
			return [];
		},
	} as unknown as Database;
	const gone = () => new ApiError("app_not_found", "gone");
	await guardedWrites(database, principal, null, gone).batch([{ sql, parameters: [] } as unknown as Statement]);
	return guards;
}

test.each([
	"SELECT 1",
	"\n\t\tSELECT deleted_at_ms FROM apps",
	"WITH listed AS MATERIALIZED (SELECT 1) SELECT * FROM listed",
	"WITH RECURSIVE pairs (value) AS (SELECT 1) SELECT updated_at_ms FROM pairs",
])("a read has no conditions: %s", async (sql) => expect(await guardsOf(sql)).toBe(0));

test.each([
	"INSERT INTO apps SELECT 1",
	"UPDATE apps SET name = 'SELECT'",
	"WITH listed AS (SELECT 1) INSERT INTO apps SELECT * FROM listed",
	"WITH listed AS (SELECT 1)\n\tDELETE FROM apps WHERE id IN listed",
	"WITH listed AS (SELECT 1) UPDATE apps SET name = 1",
])("a write has conditions: %s", async (sql) => expect(await guardsOf(sql)).toBeGreaterThan(0));
