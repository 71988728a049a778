// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the source under test is written as text
/**
 * `npm run test:mutation` takes hours, so this file tests its parts: it finds the conditions of
 * code that decides or queries the database, and each mutant is valid source. Its list of mutants
 * that no test can catch names only mutants that exist.
 */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseAst } from "vitest/node";
import { linesOf } from "../proof/mutation/changed-lines";
import { findConditions, KINDS, withSwitches } from "../proof/mutation/conditions";
import { readEquivalents, staleEquivalents } from "../proof/mutation/equivalents";
import { allMutants, mutatedSource, ROOT } from "../proof/mutation/mutants";

/** Parsing the whole source takes a second, so the tests share it. */
const mutants = allMutants();
const found = (source: string, file = "src/db/example.ts") =>
	findConditions(file, source).map(({ kind, text, becomes }) => `${kind}: ${text} -> ${becomes}`);

describe("findConditions", () => {
	test("finds each where, on and two-column join of Kysely, and each operand of `and`", () => {
		const source = `query.selectFrom("apps").innerJoin("channels", "channels.app_id", "apps.id")
			.leftJoin("bundles", (join) => join.onRef("bundles.id", "=", "channels.version_id").on("bundles.name", "=", name))
			.where("apps.id", "=", id).where((eb) => eb.and([eb("owner_org", "=", org), eb("status", "=", "ready")]))`;
		expect(found(source).sort()).toEqual([
			'join: innerJoin("channels", "channels.app_id", "apps.id") -> nothing',
			'where: eb("owner_org", "=", org) -> true',
			'where: on("bundles.name", "=", name) -> nothing',
			'where: onRef("bundles.id", "=", "channels.version_id") -> nothing',
			'where: where("apps.id", "=", id) -> nothing',
			'where: where((eb) => eb.and([eb("owner_org", "=", org), eb("status", "=", "ready")])) -> nothing',
		]);
	});

	test("finds the operands of AND and OR in SQL, in joins, subqueries and parentheses", () => {
		const source =
			"sql`UPDATE a SET b = CASE WHEN c = ${1} THEN 1 END FROM d INNER JOIN e ON e.id = d.id AND e.org_id = ${org}" +
			" WHERE (a.id = ${id} OR a.app_id = ${app}) AND a.key_id BETWEEN 1 AND 2" +
			" AND NOT EXISTS (SELECT 1 FROM f WHERE f.owner_org = ${org}) RETURNING id`";
		expect(found(source)).toEqual([
			"sql: e.id = d.id -> true",
			"sql: e.org_id = ${org} -> true",
			"sql: (a.id = ${id} OR a.app_id = ${app}) -> true",
			"sql: a.id = ${id} -> false",
			"sql: a.app_id = ${app} -> false",
			"sql: a.key_id BETWEEN 1 AND 2 -> true",
			"sql: NOT EXISTS (SELECT 1 FROM f WHERE f.owner_org = ${org}) -> true",
			"sql: f.owner_org = ${org} -> true",
		]);
		expect(found("sql<boolean>`id = ${id} AND org_id = ${org}`")).toEqual([
			"sql: id = ${id} -> true",
			"sql: org_id = ${org} -> true",
		]);
		expect(found("sql<string>`SELECT ${text}`"), "a text is no condition").toEqual([]);
	});

	test("finds whole guards, and conditions of code that refuses or allows", () => {
		expect(found("guard(exists(id), notFound)")).toEqual(["guard: exists(id) -> true"]);
		const source = `function refuseOthers(key: Key) {
			if (key.expired || !key.ids.includes(id)) throw new Error();
			if (key.isAdmin && key.isHere) return "allowed";
			return key.bindings.some((binding) => binding.org === org);
		}`;
		expect(found(source, "src/api/example.ts").sort()).toEqual([
			"code: !key.ids.includes(id) -> false",
			"code: binding.org === org -> true",
			"code: key.bindings.some((binding) => binding.org === org) -> true",
			"code: key.expired -> false",
			"code: key.expired || !key.ids.includes(id) -> false",
			"code: key.isAdmin && key.isHere -> true",
			"code: key.isAdmin -> true",
			"code: key.isHere -> true",
		]);
		expect(found(source.replace("refuseOthers", "renderOthers"), "src/api/example.ts")).toEqual([]);
	});

	test("finds conditions of every kind in the product, including known ones", () => {
		expect(mutants.length).toBeGreaterThan(600);
		for (const kind of KINDS) expect(mutants.filter((mutant) => mutant.kind === kind).length, kind).toBeGreaterThan(15);
		const known = [
			["src/authz/decide.ts", "!isOfOrganization(binding, target)"],
			["src/authz/decide.ts", "binding.appId !== target.appId"],
			["src/authz/principal.ts", "row.expires_at_ms !== null && row.expires_at_ms <= nowMs"],
			["src/db/principals.ts", "b.api_key_id = k.id"],
			["src/http/pipeline/decide.ts", 'decision.outcome === "allow"'],
			["src/db/api-keys.ts", 'where("org_id", "=", orgId)'],
			["src/db/channels.ts", "app_id = ${appId}"],
			["src/http/scope.ts", 'where("apps.id", "=", appIdOf(value("appId")))'],
		];
		for (const [file, text] of known) {
			expect(
				mutants.some((mutant) => mutant.file === file && mutant.text === text),
				`${file}: ${text}`,
			).toBe(true);
		}
	});
});

describe("mutants", () => {
	test("are valid source with each condition behind a separate switch", () => {
		for (const file of new Set(mutants.map((mutant) => mutant.file))) {
			const source = readFileSync(`${ROOT}${file}`, "utf8");
			const mutated = mutatedSource(mutants, file, source) ?? "";
			expect(() => parseAst(mutated, { lang: "ts" }), file).not.toThrow();
			expect(mutated.split("\n").length, `${file}: lines moved`).toBe(source.split("\n").length);
			for (const { id } of mutants.filter((mutant) => mutant.file === file)) {
				expect(mutated, `${file}: mutant ${id}`).toMatch(new RegExp(`__mutation\\.\\w+\\(${id}[,)]`));
			}
		}
	});

	test("change a condition only while their switch is on", () => {
		const source = "const allowed = (key) => { if (key.org !== org || key.expired) return false; return true; };";
		const conditions = findConditions("src/authz/decide.ts", source);
		const code = withSwitches(source, conditions, 1, "switch").replace(/^import .*?; /, "");
		const allowed = (active: number, key: { org: number; expired: boolean }) =>
			new Function("__mutation", "org", "key", `${code}; return allowed(key);`)(
				{ isOn: (id: number) => id === active, code: (_: number, __: boolean, value: boolean) => value },
				1,
				key,
			);
		expect(conditions.map(({ text }) => text)).toEqual([
			"key.org !== org || key.expired",
			"key.org !== org",
			"key.expired",
		]);
		const keys = [
			{ org: 1, expired: false },
			{ org: 2, expired: false },
			{ org: 1, expired: true },
		];
		expect(keys.map((key) => allowed(0, key))).toEqual([true, false, false]);
		expect(keys.map((key) => allowed(1, key))).toEqual([true, true, true]);
		expect(keys.map((key) => allowed(2, key))).toEqual([true, true, false]);
		expect(keys.map((key) => allowed(3, key))).toEqual([true, false, true]);
	});

	test("since a commit are those on lines that were added or changed", () => {
		const diff = [
			"--- a/src/db/apps.ts",
			"+++ b/src/db/apps.ts",
			"@@ -3,2 +3 @@ x",
			"-a",
			"-b",
			"+c",
			"@@ -9 +8,0 @@",
			"-d",
			"@@ -20,0 +19,2 @@",
			"+e",
			"+f",
			"--- a/src/gone.ts",
			"+++ /dev/null",
		].join("\n");
		const lines = linesOf(diff);
		expect([...lines.keys()]).toEqual(["src/db/apps.ts"]);
		expect([...(lines.get("src/db/apps.ts") ?? [])]).toEqual([3, 19, 20]);
	});

	test("that no test can catch exist and are listed with a reason", () => {
		const entries = readEquivalents();
		expect(staleEquivalents(entries, mutants), "remove these from test/proof/mutation/equivalent.txt").toEqual([]);
		for (const { mutant, reason } of entries) expect(reason, mutant).toMatch(/^[A-Z].{20,}\.$/);
		const gone = readEquivalents("src/db/apps.ts\n[where] gone -> nothing\n\tIt was here once and is not any more.\n");
		expect(staleEquivalents(gone, mutants)).toHaveLength(1);
	});
});
