/**
 * A prepared statement equals the statement that would be built for each request, and keeps no
 * values of an earlier request.
 */
import { expect, test, vi } from "vitest";
import { query } from "../../src/db/client";
import { prepared } from "../../src/db/prepared";

const build = (name: string, limit: number) =>
	query.selectFrom("apps").select("id").where("name", "=", name).where("owner_org", "=", "own").limit(limit).compile();

test("a prepared statement equals the statement that is built with the values", () => {
	const statement = prepared<{ name: string; limit: number }, { id: string }>((value) =>
		build(value("name"), value("limit")),
	);
	for (const [name, limit] of [
		["first", 1],
		["second", 2],
	] as const) {
		const { sql, parameters } = build(name, limit);
		expect(statement({ name, limit })).toMatchObject({ sql, parameters });
	}
});

test("a prepared statement is built once and shares nothing between requests", () => {
	const builder = vi.fn((value: (name: "name") => string) => build(value("name"), 1));
	const statement = prepared<{ name: string }, { id: string }>(builder);
	const first = statement({ name: "first" });
	expect(statement({ name: "second" }).parameters).toEqual(["second", "own", 1]);
	expect(first.parameters).toEqual(["first", "own", 1]);
	expect(builder).toHaveBeenCalledTimes(1);
});

test("a prepared statement whose text depends on a value throws", () => {
	const later = prepared<{ limit: number }, { id: string }>((value) => build("first", value("limit") + 1));
	expect(() => later({ limit: 1 })).toThrow("the text of a prepared statement must not depend on limit");
});
