/**
 * How the dashboard starts in a real browser: with little script, few requests and three rounds,
 * one after another. Round one is the page. Round two is every file and every first answer, so all
 * of them must be requested while the entry script is held back.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { type Manifest, preloadRules } from "../../src/operator/dashboard-preloads";
import { PROJECT_DIRECTORY } from "../../src/operator/project";
import { chromium } from "./support/browser";
import { type Stage, sharedStage } from "./support/dashboard";

const DIRECTORY = join(PROJECT_DIRECTORY, "dist/dashboard");
const SCREENS = join(PROJECT_DIRECTORY, "dashboard/src/screens");
const manifest = (): Manifest => JSON.parse(readFileSync(join(DIRECTORY, "dashboard-assets/manifest.json"), "utf8"));

test("the first screen needs less than 150 kB of compressed script", () => {
	const chunks = manifest();
	const needed = new Set<string>();
	const collect = (name: string) => {
		const chunk = chunks[name];
		if (chunk === undefined || needed.has(chunk.file)) return;
		needed.add(chunk.file);
		for (const imported of chunk.imports ?? []) collect(imported);
	};
	for (const name of ["index.html", "src/screens/apps/apps.tsx"]) collect(name);
	expect(needed.size).toBeGreaterThan(1);
	const sizes = [...needed].map((file) => gzipSync(readFileSync(join(DIRECTORY, file))).length);
	expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000);
});

test("every path of the routes has a rule that requests the files of its screen", () => {
	const routes = readFileSync(join(PROJECT_DIRECTORY, "dashboard/src/app.tsx"), "utf8");
	const imported = [...routes.matchAll(/import\("\.\/screens\/([\w/-]+)"\)/g)].map(([, path]) => path ?? "");
	expect(imported.length).toBeGreaterThan(20);
	for (const path of imported) expect(readdirSync(join(SCREENS, path, "..")).join()).toContain(path.split("/")[1]);
	const rules = preloadRules(manifest());
	// Opened from a list of the same visit, or before anything else is known.
	const others = ["account/account", "channels/single-channel", "keys/cli-login", "keys/key", "organization/group"];
	const [more, files] = [["organization/organizations", "webhooks/webhook"], manifest()];
	for (const path of imported.filter((one) => ![...others, ...more].includes(one)))
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
				...["/account", "/organization?page=0", `/app/${stage.app}`],
				...["channel", "bundle", "device"].map((list) => `/${list}?app_id=${stage.app}&page=0`),
			],
			most: 36,
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
		expect(names().filter((name) => !name.startsWith("/favicon")).length).toBeLessThanOrEqual(most);
		expect(complaints).toEqual([]);
		leave();
	});
});
