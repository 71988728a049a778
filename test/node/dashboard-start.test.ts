/**
 * How the dashboard starts in a real browser: with little script, few requests and three rounds,
 * one after another. Round one is the page. Round two is every file and every first answer, so all
 * of them must be requested while the entry script is held back.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { filesOf, type Manifest, preloadRules } from "../../src/operator/dashboard-preloads";
import { PROJECT_DIRECTORY } from "../../src/operator/project";
import { chromium } from "./support/browser";
import { type Stage, sharedStage } from "./support/dashboard";

const DIRECTORY = join(PROJECT_DIRECTORY, "dist/dashboard");
const SCREENS = join(PROJECT_DIRECTORY, "dashboard/src/screens");
const manifest = (): Manifest => JSON.parse(readFileSync(join(DIRECTORY, "dashboard-assets/manifest.json"), "utf8"));

test("the first screen needs less than 150 kB of compressed script", () => {
	const needed = new Set<string>();
	for (const name of ["index.html", "src/screens/apps/apps.tsx"]) filesOf(manifest(), name, needed);
	expect(needed.size).toBeGreaterThan(1);
	const sizes = [...needed].map((file) => gzipSync(readFileSync(join(DIRECTORY, file))).length);
	expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000);
});

test("every screen needs less than 30 kB of compressed style", () => {
	const [name = "", ...others] = readdirSync(join(DIRECTORY, "dashboard-assets")).filter((file) =>
		file.endsWith(".css"),
	);
	expect(others).toEqual([]);
	expect(gzipSync(readFileSync(join(DIRECTORY, "dashboard-assets", name))).length).toBeLessThan(30_000);
});

test("the rules stay within the limits of Cloudflare, beyond which a rule is ignored", () => {
	const lines = readFileSync(join(PROJECT_DIRECTORY, "dist/assets/_headers"), "utf8").split("\n");
	expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(2_000);
	expect(lines.filter((line) => line.startsWith("/")).length).toBeLessThanOrEqual(100);
});

test("every path of the routes has a rule that requests the files of its screen", () => {
	const routes = readFileSync(join(PROJECT_DIRECTORY, "dashboard/src/app.tsx"), "utf8");
	const imported = [...routes.matchAll(/import\("\.\/screens\/([\w/-]+)"\)/g)].map(([, path]) => path ?? "");
	expect(imported.length).toBeGreaterThan(20);
	for (const path of imported) expect(readdirSync(join(SCREENS, path, "..")).join()).toContain(path.split("/")[1]);
	const rules = preloadRules(manifest());
	const files = manifest();
	// At the path of an ordinary channel, known only once the app is not found.
	for (const path of imported.filter((one) => one !== "channels/single-channel"))
		expect(rules, path).toContain(`</${files[`src/screens/${path}.tsx`]?.file}>; rel=modulepreload`);
});

describe.skipIf(chromium === undefined)("in a browser", () => {
	let stage: Stage;
	beforeAll(async () => {
		stage = await sharedStage();
	});

	test.each([
		{
			screen: "the list of apps",
			path: () => `/organizations/${stage.product.orgId}/apps`,
			heading: "Apps",
			files: ["apps-"],
			answers: () => ["/account", "/organization?page=0", `/statistics/apps?org_id=${stage.product.orgId}&page=0`],
			most: 16,
		},
		{
			screen: "the home of an app",
			path: () => `/apps/${stage.app}/releases`,
			heading: /./,
			files: ["overview-"],
			answers: () => [
				"/account",
				"/organization?page=0",
				`/app/${stage.app}`,
				...["channel", "bundle", "device"].map((list) => `/${list}?app_id=${stage.app}&page=0`),
			],
			most: 24,
		},
	])("$screen requests everything that it can at once", async ({ path, heading, files, answers, most }) => {
		const visitor = await stage.admin();
		const { page, leave, complaints } = visitor;
		const asked: string[] = [];
		const names = () => asked.map((url) => url.replace(stage.origin, ""));
		page.on("request", (request) => void asked.push(request.url()));
		let release: () => void = () => undefined;
		const held = new Promise<void>((resolve) => {
			release = resolve;
		});
		await page.route("**/dashboard-assets/index-*.js", async (route) => {
			await held;
			await route.continue();
		});
		const opened = visitor.open(path(), heading);
		await expect.poll(names).toEqual(expect.arrayContaining([...answers()]));
		for (const file of files)
			expect(
				names().some((name) => name.includes(`/dashboard-assets/${file}`)),
				file,
			).toBe(true);
		release();
		await opened;
		await page.waitForLoadState("networkidle");
		for (const answer of answers().slice(0, 3))
			expect(
				names().filter((name) => name === answer),
				"asked once",
			).toHaveLength(1);
		// A busy machine may be so slow that a figure is asked for again.
		const needed = [...new Set(names())].filter((name) => !name.startsWith("/favicon"));
		expect(needed.length, needed.join("\n")).toBeLessThanOrEqual(most);
		expect(complaints).toEqual([]);
		leave();
	});
});
