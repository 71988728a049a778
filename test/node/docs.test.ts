/**
 * The pages for people say what is true: examples are run against the product as a reader would run them, what is said of roles and
 * figures is what the service has, and they are served without anything from elsewhere.
 */
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFINITIONS } from "../../src/api/statistics/definitions";
import { guidePage, withFigures, withRoleTable } from "../../src/cli/guide";
import { difference, examplesOf, jsonValues, runExamples } from "./support/examples";
import { type Product, startProduct } from "./support/product";

const PAGES = ["access", "rollouts"] as const;
const pagePath = (page: string) => fileURLToPath(new URL(`../../src/docs/${page}.md`, import.meta.url));

/** `jq` as the page uses it: a path such as `.[0].id`, and `-r` for the bare text. Not every machine that runs the tests has it. */
const JQ = `#!${process.execPath}
const given = process.argv.slice(2);
const [path, file] = given.filter((option) => option !== "-r");
let value = JSON.parse(require("node:fs").readFileSync(file ?? 0, "utf8"));
for (const [, name, index] of path.matchAll(/\\.(\\w+)|\\[(\\d+)\\]/g)) value = value[name ?? Number(index)];
console.log(given.includes("-r") && typeof value === "string" ? value : JSON.stringify(value));
`;

/** `zip` as the pages use it: `zip -q ARCHIVE FILE`. */
const ZIP = `#!${process.execPath}
const { zipSync } = require(${JSON.stringify(createRequire(import.meta.url).resolve("fflate"))});
const { readFileSync, writeFileSync } = require("node:fs");
const [archive, file] = process.argv.slice(3);
writeFileSync(archive, zipSync({ [file]: readFileSync(file) }));
`;

let product: Product;
let tools: string;
beforeAll(async () => {
	product = await startProduct();
	tools = join(product.directory, "bin");
	await mkdir(tools);
	for (const [name, script] of [
		["jq", JQ],
		["zip", ZIP],
	] as const) {
		await writeFile(join(tools, name), script);
		await chmod(join(tools, name), 0o755);
	}
	await mkdir(join(product.directory, ".capstan"));
	await writeFile(join(product.directory, ".capstan/admin.key"), `${product.adminKey}\n`);
});
afterAll(async () => {
	await product.stop();
});

describe("what is shown", () => {
	test.each<[unknown, unknown]>([
		["a…c", "abc"],
		[{ a: 1 }, { a: 1, b: 2 }],
		[[{ a: "…" }], [{ a: "x" }]],
	])("%j is held by %j", (shown, printed) => expect(difference(shown, printed)).toBe(undefined));

	test.each<[unknown, unknown]>([
		["a…c", "ab"],
		["…", 5],
		[{ a: 1 }, { b: 1 }],
		[{ a: null }, {}],
		[[1], [1, 2]],
		[[], [1]],
		[true, "true"],
	])("%j is not held by %j", (shown, printed) => expect(difference(shown, printed)).toMatch(/^answer/));

	test("values are found whatever stands between them", () => {
		expect(jsonValues('{"a":"}"}[1]\n"x"true\n{"b":2}')).toEqual([{ a: "}" }, [1], "x", true, { b: 2 }]);
	});
});

test("src/docs/access.md has the table of roles that the service decides by", async () => {
	const markdown = await readFile(pagePath("access"), "utf8");
	expect(withRoleTable(markdown), "run npm run openapi").toBe(markdown);
	expect(markdown).toContain("| `org.delete` | yes |");
});

describe.each(PAGES)("src/docs/%s.md", (page) => {
	test("every example does what the page shows", async () => {
		const here = (text: string) => text.replaceAll("http://127.0.0.1:8787", product.url);
		const examples = examplesOf(here(await readFile(pagePath(page), "utf8")));
		const printed = await runExamples(examples, { directory: product.directory, path: tools });
		expect(examples.filter((example) => example.shown !== undefined).length).toBeGreaterThan(3);
		for (const [index, { line, shown }] of examples.entries()) {
			if (shown === undefined) continue;
			const [expected, answers] = [jsonValues(shown), jsonValues(printed[index] ?? "")];
			expect(difference(expected, answers), `line ${line}: ${printed[index]}`).toBe(undefined);
		}
	});

	test("is served under /docs, reads as a page, and fetches nothing from elsewhere", async () => {
		const answer = await fetch(`${product.url}/docs/${page}`);
		const html = await answer.text();
		expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
		expect(html).toBe(guidePage(await readFile(pagePath(page), "utf8")));
		for (const [, address = ""] of html.matchAll(/(?:src|href)="([^"]+)"/g)) expect(address).toMatch(/^[/#]/);
		for (const [, id = ""] of html.matchAll(/href="#([^"]+)"/g)) expect(html).toContain(`id="${id}"`);
		expect(html).not.toMatch(/<script|style=/);
		expect((await fetch(`${product.url}/docs-assets/page.css`)).status).toBe(200);
		expect(await (await fetch(`${product.url}/docs`)).text()).toContain(`href="/docs/${page}"`);
	});
});

describe("src/docs/statistics.md", () => {
	const page = readFileSync(fileURLToPath(new URL("../../src/docs/statistics.md", import.meta.url)), "utf8");

	test("says of each figure what openapi.json says", () => {
		expect(withFigures(page, DEFINITIONS), "run npm run openapi").toBe(page);
		expect(page).toContain("Different devices, told apart by app and device id");
	});

	test("is served at /docs/statistics, and fetches nothing from elsewhere", async () => {
		const html = await (await fetch(`${product.url}/docs/statistics`)).text();
		expect(html).toBe(guidePage(page));
		expect(html).not.toMatch(/<script|style=/);
		expect(await (await fetch(`${product.url}/docs`)).text()).toContain('href="/docs/statistics"');
	});
});

describe("src/docs/security.md", () => {
	const page = readFileSync(pagePath("security"), "utf8");
	const testsOf = (markdown: string) =>
		[...markdown.matchAll(/<small>(.+?)<\/small>/g)].flatMap(([, tests = ""]) =>
			tests.split(/; (?=[\w-]+\.test\.ts)/).map((test) => test.split(" › ")),
		);
	const textOf = (file: string) =>
		["worker", "node"]
			.map((folder) => fileURLToPath(new URL(`../${folder}/${file}`, import.meta.url)))
			.filter((path) => existsSync(path))
			.map((path) => readFileSync(path, "utf8"))
			.join("");
	const missing = (markdown: string) =>
		testsOf(markdown).filter(([file = "", ...titles]) => !titles.every((title) => textOf(file).includes(title)));

	test("names with each claim the tests that hold it", () => {
		expect(missing("<small>sign-in.test.ts › no such title</small>")).toHaveLength(1);
		expect(missing(page)).toEqual([]);
		const [claims = ""] = page.split("## Limits and their defaults");
		const [, ...items] = claims.split(/^- /m);
		expect(items.length).toBeGreaterThan(30);
		expect(items.filter((item) => testsOf(item).length === 0)).toEqual([]);
	});

	test("is served at /docs/security, and fetches nothing from elsewhere", async () => {
		const html = await (await fetch(`${product.url}/docs/security`)).text();
		expect(html).toBe(guidePage(page));
		expect(html).not.toMatch(/<script|style=/);
		expect(await (await fetch(`${product.url}/docs`)).text()).toContain('href="/docs/security"');
	});
});
