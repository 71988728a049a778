/**
 * The guides are true: their examples run against the product as a reader would run them, their
 * roles and figures are those of the service, and they load nothing from other hosts.
 */
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFINITIONS } from "../../src/features/statistics/definitions";
import { GUIDE_NAMES, guidePage } from "../../src/operator/docs-pages";
import { withFigures, withRoleTable } from "../../src/operator/guide";
import { difference, type Example, examplesOf, jsonValues, missingLine, runExamples } from "./support/examples";
import { PROJECT_GUIDES, REQUEST_GUIDES } from "./support/executed-guides";
import { PAGE_SERVER } from "./support/guide-blocks";
import { guideScene, type ProjectGuide } from "./support/guide-scene";
import { type Product, startProduct } from "./support/product";
import { writeTools } from "./support/tools";

const pagePath = (page: string) => fileURLToPath(new URL(`../../src/docs/${page}.md`, import.meta.url));

/** The policy refuses them. */
const INLINE = /<script(?! src="\/docs-assets\/)|<style|style=/;

let product: Product;
let tools: string;
beforeAll(async () => {
	product = await startProduct();
	tools = join(product.directory, "bin");
	await mkdir(tools);
	await writeTools(tools);
	await mkdir(join(product.directory, ".capstan"));
	await writeFile(join(product.directory, ".capstan/admin.key"), `${product.adminKey}\n`);
});
afterAll(async () => {
	await product.stop();
});

describe("the comparison of shown and printed values", () => {
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

	test("finds JSON values between any other text", () => {
		expect(jsonValues('{"a":"}"}[1]\n"x"true\n{"b":2}')).toEqual([{ a: "}" }, [1], "x", true, { b: 2 }]);
	});
});

test("src/docs/access.md has the table of roles of the service", async () => {
	const markdown = await readFile(pagePath("access"), "utf8");
	expect(withRoleTable(markdown), "run npm run docs").toBe(markdown);
	expect(markdown).toContain("| `org.delete` | yes |");
});

/** Each example prints what its page shows. */
function expectShown(examples: readonly Example[], printed: readonly string[]): void {
	for (const [index, { line, shown, printed: lines }] of examples.entries()) {
		const output = printed[index] ?? "";
		if (shown !== undefined) {
			expect(difference(jsonValues(shown), jsonValues(output)), `line ${line}: ${output}`).toBe(undefined);
		}
		if (lines !== undefined) expect(missingLine(lines, output), `line ${line}: ${output}`).toBe(undefined);
	}
}

describe.each(Object.keys(PROJECT_GUIDES) as ProjectGuide[])("src/docs/%s.md, in the project of an app", (page) => {
	test("every example prints what the page shows", async () => {
		const here = (text: string) => text.replaceAll(PAGE_SERVER, product.url);
		const { directory, environment, prelude } = await guideScene(product, page);
		const shown = examplesOf(here(await readFile(pagePath(page), "utf8")));
		const examples = [{ ...prelude, commands: here(prelude.commands) }, ...shown];
		expectShown(examples, await runExamples(examples, { directory, path: tools, environment }));
		expect(shown.length).toBeGreaterThan(0);
	});
});

describe.each(REQUEST_GUIDES)("src/docs/%s.md", (page) => {
	test("every example prints what the page shows", async () => {
		const here = (text: string) => text.replaceAll(PAGE_SERVER, product.url);
		const examples = examplesOf(here(await readFile(pagePath(page), "utf8")));
		const printed = await runExamples(examples, { directory: product.directory, path: tools });
		expect(examples.filter((example) => example.shown !== undefined).length).toBeGreaterThan(3);
		expectShown(examples, printed);
	});
});

describe.each(GUIDE_NAMES)("/docs/%s", (page) => {
	test("is served under /docs as a page, and loads nothing from other hosts", async () => {
		const answer = await fetch(`${product.url}/docs/${page}`);
		const html = await answer.text();
		expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
		expect(html).toBe(guidePage(page, await readFile(pagePath(page), "utf8")));
		for (const [, address = ""] of html.matchAll(/(?:src=|<link[^>]* href=)"([^"]+)"/g)) expect(address).toMatch(/^\//);
		for (const [, id = ""] of html.matchAll(/href="#([^"]+)"/g)) expect(html).toContain(`id="${id}"`);
		expect(html).not.toMatch(INLINE);
		expect((await fetch(`${product.url}/docs-assets/page.css`)).status).toBe(200);
		expect(await (await fetch(`${product.url}/docs`)).text()).toContain(`href="/docs/${page}"`);
	});
});

describe("src/docs/statistics.md", () => {
	const page = readFileSync(fileURLToPath(new URL("../../src/docs/statistics.md", import.meta.url)), "utf8");

	test("describes each figure as openapi.json does", () => {
		expect(withFigures(page, DEFINITIONS), "run npm run docs").toBe(page);
		expect(page).toContain("Distinct devices, by app and device id");
	});
});

test("every link of the documentation leads to a page that answers, and to a heading that it has", async () => {
	const pages = new Map<string, string>();
	const waiting = ["/docs"];
	const broken: string[] = [];
	for (const path of waiting) {
		const response = await fetch(product.url + path);
		const html = await response.text();
		pages.set(path, html);
		if (response.status !== 200) broken.push(path);
		if (!path.startsWith("/docs")) continue;
		for (const [, address = ""] of html.matchAll(/href="(\/[^"#]*)/g)) {
			if (!waiting.includes(address)) waiting.push(address);
		}
	}
	for (const [path, html] of pages) {
		for (const [, address = "", id = ""] of html.matchAll(/href="([^"#:]*)#([^"/]+)"/g)) {
			const target = pages.get(address === "" ? path : address) ?? "";
			if (path.startsWith("/docs") && !target.includes(`id="${id}"`)) broken.push(`${path}: ${address}#${id}`);
		}
	}
	expect(broken).toEqual([]);
	expect([...pages.keys()]).toEqual(expect.arrayContaining(GUIDE_NAMES.map((name) => `/docs/${name}`)));
});

test("/docs leads to every guide and the API reference, and its search names only places that exist", async () => {
	const front = await (await fetch(`${product.url}/docs`)).text();
	expect(front).not.toMatch(INLINE);
	expect(front).toContain("capstan.tgz release");
	expect(front).toContain('href="/docs/api"');
	const reference = await fetch(`${product.url}/docs/api`);
	expect(await reference.text()).toContain("swagger-ui-bundle.js");
	expect(reference.headers.get("content-security-policy")).toContain("style-src 'self' 'unsafe-inline'");
	const answer = await fetch(`${product.url}/docs-assets/search.json`);
	const entries = (await answer.json()) as { readonly title: string; readonly to: string; readonly words: string }[];
	const [rollback] = entries.filter(({ title }) => title === "POST /channel/rollback");
	expect(rollback?.to).toMatch(/^\/docs\/api#\/Channels\//);
	expect(rollback?.words).toContain("rollback");
	const pages = new Map<string, string>();
	for (const { to } of entries) {
		const [page = "", anchor] = to.split("#");
		const html = pages.get(page) ?? (await (await fetch(product.url + page)).text());
		pages.set(page, html);
		if (anchor !== undefined && page !== "/docs/api") expect(html).toContain(`id="${anchor}"`);
	}
	expect(pages.size).toBe(GUIDE_NAMES.length + 1);
});

test("src/docs/deploying.md names settings that exist", () => {
	const settings = readFileSync(fileURLToPath(new URL("../../wrangler.toml", import.meta.url)), "utf8");
	const named = [...readFileSync(pagePath("deploying"), "utf8").matchAll(/^\s*([A-Z_]+) = /gm)];
	expect(named.length).toBeGreaterThan(1);
	for (const [, name] of named) expect(settings).toContain(`${name} = `);
});

describe("src/docs/security.md", () => {
	const page = readFileSync(pagePath("security"), "utf8");
	const testsOf = (markdown: string) =>
		[...markdown.matchAll(/<small>(.+?)<\/small>/g)].flatMap(([, tests = ""]) =>
			tests.split(/; (?=[\w-]+\.test\.ts)/).map((test) => test.split(" › ")),
		);
	const tests = fileURLToPath(new URL("..", import.meta.url));
	const testFiles = readdirSync(tests, { recursive: true, encoding: "utf8" });
	const textOf = (file: string) =>
		testFiles
			.filter((path) => path.split("/").at(-1) === file)
			.map((path) => readFileSync(`${tests}${path}`, "utf8"))
			.join("");
	const missing = (markdown: string) =>
		testsOf(markdown).filter(([file = "", ...titles]) => !titles.every((title) => textOf(file).includes(title)));

	test("names existing tests with each claim", () => {
		expect(missing("<small>sign-in.test.ts › no such title</small>")).toHaveLength(1);
		expect(missing(page)).toEqual([]);
		const [claims = ""] = page.split("## Limits and their defaults");
		const [, ...items] = claims.split(/^- /m);
		expect(items.length).toBeGreaterThan(30);
		expect(items.filter((item) => testsOf(item).length === 0)).toEqual([]);
	});
});
