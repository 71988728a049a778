/** The one form of dates on the screens, whatever the language of the browser. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { clockText, dateText, momentText, timeText } from "../../dashboard/src/components/dates";

const NOW_MS = new Date(2026, 10, 22, 13, 0).getTime();
const at = (year: number, month: number, day: number) => new Date(year, month - 1, day, 14, 5, 9).toISOString();

describe("dates", () => {
	test("have neither seconds nor the present year", () => {
		expect(timeText(at(2026, 11, 21), NOW_MS)).toBe("21 Nov, 14:05");
		expect(timeText(at(2025, 11, 21), NOW_MS)).toBe("21 Nov 2025, 14:05");
		expect(dateText(at(2026, 12, 8), NOW_MS)).toBe("8 Dec");
		expect(dateText(at(2027, 1, 8), NOW_MS)).toBe("8 Jan 2027");
		expect(momentText(at(2026, 11, 22), NOW_MS)).toBe("today, 14:05");
		expect(momentText(at(2026, 11, 21), NOW_MS)).toBe("21 Nov, 14:05");
		expect(momentText(at(2025, 11, 21), NOW_MS)).toBe("21 Nov 2025");
		expect(clockText(at(2026, 11, 21))).toBe("14:05");
	});

	test("are written in one file of the dashboard, and never in the form of the browser", () => {
		const dashboard = join(import.meta.dirname, "../../dashboard/src");
		const pages = join(import.meta.dirname, "../../src/pages");
		const files = [dashboard, pages].flatMap((directory) =>
			readdirSync(directory, { recursive: true, encoding: "utf8" })
				.filter((name) => /\.(tsx?|js)$/.test(name))
				.map((name) => [name, readFileSync(join(directory, name), "utf8")] as const),
		);
		expect(files.length).toBeGreaterThan(100);
		const having = (form: RegExp) => files.filter(([, text]) => form.test(text)).map(([name]) => name);
		expect(having(/DateTimeFormat\(/)).toEqual(["components/dates.ts"]);
		expect(having(/(Format|toLocale\w*)\((undefined|\))/)).toEqual([]);
	});
});
