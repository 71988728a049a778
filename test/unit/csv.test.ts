/** CSV as RFC 4180 has it, and nothing in it that a spreadsheet would run. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toCsv } from "../../src/http/csv";

/** A reader of RFC 4180, strict. */
function readCsv(csv: string): string[][] {
	const rows: string[][] = [];
	let row: string[] = [];
	let rest = csv;
	while (rest !== "") {
		const [whole = "", quoted, plain, end] = /^(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/.exec(rest) ?? [];
		if (whole === "") throw new Error(`cannot read ${JSON.stringify(rest)}`);
		row.push(quoted === undefined ? (plain ?? "") : quoted.replaceAll('""', '"'));
		if (end === "\r\n") {
			rows.push(row);
			row = [];
		}
		rest = rest.slice(whole.length);
	}
	return rows;
}

describe("CSV", () => {
	test("quotes cells with commas, quotes and line breaks, and ends every line with CRLF", () => {
		expect(toCsv(["date", "name", "mau"], [["2026-03-01", 'a "b", c\nd', 12]])).toBe(
			'date,name,mau\r\n2026-03-01,"a ""b"", c\nd",12\r\n',
		);
	});

	test("writes null as an empty cell, quoted if the row has only one", () => {
		expect(toCsv(["a", "b"], [[null, null]])).toBe("a,b\r\n,\r\n");
		expect(toCsv(["a"], [[null], [""]])).toBe('a\r\n""\r\n""\r\n');
	});

	test("marks text that begins like a formula as text", () => {
		for (const start of ["=", "+", "-", "@", "\t", "\r", "\n", "＝", " =", "\u200b=", "\ufeff@"]) {
			const [, [cell] = []] = readCsv(toCsv(["name"], [[`${start}cmd|' /C calc'!A0`]]));
			expect(cell).toBe(`'${start}cmd|' /C calc'!A0`);
		}
		expect(toCsv(["=1+1"], [])).toBe("'=1+1\r\n");
	});

	test("keeps numbers as numbers, even negative ones", () => {
		expect(toCsv(["n"], [[-5], [0.1], [1e21], [true]])).toBe("n\r\n-5\r\n0.1\r\n1e+21\r\ntrue\r\n");
		expect(() => toCsv(["n"], [[Number.NaN]])).toThrow(RangeError);
	});

	test("refuses a row of another length", () => {
		expect(() => toCsv(["a", "b"], [["x"]])).toThrow("a CSV row has 1 cells for 2 columns");
	});

	test("gives a reader any text back, except for the apostrophe before a formula", () => {
		fc.assert(
			fc.property(
				fc.array(fc.tuple(fc.string({ unit: "binary" }), fc.string({ unit: fc.constantFrom(..."=,\"\r\n\t@ a'") })), {
					minLength: 1,
				}),
				(rows) => {
					const [, ...read] = readCsv(toCsv(["a", "b"], rows));
					expect(read.map((row) => row.map((cell, at) => (at < 2 ? cell.replace(/^'(?=[\s\S])/, "") : cell)))).toEqual(
						rows.map((row) => row.map((cell) => cell.replace(/^'(?=[\s\S])/, ""))),
					);
					const formula = /^[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠]|^[\t\r\n]/u;
					expect(read.flat().filter((cell) => formula.test(cell))).toEqual([]);
				},
			),
			{ numRuns: 400, seed: 8 },
		);
	});
});
