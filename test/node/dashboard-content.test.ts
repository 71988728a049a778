/**
 * Nothing breaks by content: every screen of the dashboard with long, unspaced and right-to-left
 * names, with nothing and with 10,000 things, on a desktop and on a phone. No page scrolls
 * sideways, and no cell is narrower than its word.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { EMPTY_APP, fillWithContent, narrowCells } from "./support/content-scene";
import { APP, type OwnStage, overflowOf, startStage, type Visitor } from "./support/dashboard";
import { SCREENS } from "./support/dashboard-screens";

if (chromium === undefined) console.log("skipped: content of the dashboard, because no Chromium is installed");

const WIDTHS = [1280, 390];

describe.skipIf(chromium === undefined)("the screens of the dashboard", () => {
	let stage: OwnStage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await startStage();
		await fillWithContent(stage);
		admin = await stage.admin();
	});
	afterAll(async () => {
		admin?.leave();
		await stage?.stop();
	});

	const pathsOf = (app: string) => [...new Set(SCREENS.map(({ path }) => path(stage).replace(APP, app)))];

	/** Faults of the screens, each with the path and the width. */
	async function faultsOf(paths: readonly string[]): Promise<string[]> {
		const faults: string[] = [];
		const { page } = admin;
		for (const path of paths) {
			await page.setViewportSize({ width: WIDTHS[0] ?? 0, height: 900 });
			await page.goto(`${stage.origin}/dashboard${path}`);
			await page.getByRole("heading", { level: 1 }).first().waitFor();
			await page.waitForLoadState("networkidle");
			for (const width of WIDTHS) {
				await page.setViewportSize({ width, height: 900 });
				await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
				const overflow = await overflowOf(admin);
				if (overflow > 0) faults.push(`${path} at ${width}: ${overflow} pixels too wide`);
				faults.push(...(await narrowCells(page)).map((fault) => `${path} at ${width}: ${fault}`));
			}
		}
		return faults;
	}

	test("hold long, unspaced and right-to-left names, and 10,000 things", async () => {
		expect(await faultsOf(pathsOf(APP))).toEqual([]);
	});

	test("hold an app without anything", async () => {
		const lists = pathsOf(EMPTY_APP).filter((path) => /^\/apps\/[^/]+\/[^/]+$/.test(path));
		expect(await faultsOf(lists)).toEqual([]);
	});
});
