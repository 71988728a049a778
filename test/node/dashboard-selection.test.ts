/**
 * Chips with numbers, and the selection of every row that matches, in a real browser: each number
 * is what its chip leaves, and one act on all of them names those that stay and why.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { PATIENCE_MS } from "../patience";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound, takePictures } from "./support/dashboard-checks";
import { createProductApp, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: selection of whole lists, because no Chromium is installed");

/** More than a page. */
const BUNDLES = 53;
const PLATFORMS = ["ios", "android", "android"];

describe.skipIf(chromium === undefined)("lists", () => {
	let stage: Stage;
	let admin: Visitor;
	let app: string;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
		app = stage.product.newAppId();
		await createProductApp(stage.product, app);
		for (let index = 0; index < BUNDLES; index++) await uploadProductBundle(stage.product, app, `1.${index}.0`);
		const live = { app_id: app, channel: "production", version: "1.0.0", public: true };
		expect((await stage.product.api("POST", "/channel", live)).status).toBeLessThan(300);
		for (const [index, platform] of PLATFORMS.entries()) {
			await stage.product.api("POST", "/updates", {
				app_id: app,
				device_id: `f5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d0${index}`,
				platform,
				version_name: "1.0.0",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
			});
		}
		const seen = async () => (await stage.product.api("GET", `/device?totals=true&app_id=${app}`)).body.total;
		await vi.waitFor(async () => expect(await seen()).toBe(PLATFORMS.length), { timeout: PATIENCE_MS });
	}, 120_000);
	afterAll(() => admin?.leave());

	const chips = async (label: string) =>
		(await admin.page.getByRole("group", { name: label }).getByRole("button").allInnerTexts()).map((text) =>
			text.replace(/\s+/g, " "),
		);

	test("show the number of rows that each chip leaves, also while one is chosen", async () => {
		const { page } = admin;
		await admin.open(`/apps/${app}/devices`, "Devices");
		const all = ["All platforms 3", "iOS 1", "Android 2", "Electron 0"];
		await expect.poll(() => chips("Platform")).toEqual(all);
		await page.getByRole("button", { name: /^Android/ }).click();
		await page.getByText("2 devices.").waitFor();
		expect(await chips("Platform")).toEqual(all);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await takePictures(admin, "chips-devices");
		await admin.open(`/apps/${app}/bundles?page=2`, "Bundles");
		await expect
			.poll(() => chips("State"))
			.toEqual(["All 53", "Live 1", "Unused 52", "Previews 0", "Not finished 0", "Deleted 0"]);
		await page.getByRole("searchbox", { name: "Find bundles" }).fill("1.5");
		await expect.poll(async () => (await chips("State"))[0]).toBe("All 4");
	});

	test("select every row that matches after a whole page, and delete them with one confirmation", async () => {
		const { page } = admin;
		await admin.open(`/apps/${app}/bundles`, "Bundles");
		await page.getByRole("checkbox", { name: "Select all rows of this page" }).check();
		const bar = page.getByRole("toolbar");
		await bar.getByText("50 bundles selected").waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
		await takePictures(admin, "select-all");
		await bar.getByRole("button", { name: "Select all 53 bundles that match" }).click();
		await bar.getByText("53 bundles selected").waitFor();
		expect(await bar.getByRole("button", { name: /^Select all/ }).count()).toBe(0);
		await bar.getByRole("button", { name: "Delete…", exact: true }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("1 bundle cannot be deleted").waitFor();
		await dialog
			.getByRole("listitem")
			.filter({ hasText: /still used by .*production/ })
			.waitFor();
		await dialog.getByRole("button", { name: "Show 44 more bundles" }).waitFor();
		await expectSound(admin);
		await takePictures(admin, "select-all-dialog");
		await dialog.getByRole("button", { name: "Delete 52 bundles", exact: true }).click();
		await page.getByText("52 bundles deleted.").waitFor();
		const { body } = await stage.product.api("GET", `/bundle?totals=true&app_id=${app}`);
		expect(body).toMatchObject({ total: 1, bundles: [{ name: "1.0.0" }] });
		expect(admin.complaints).toEqual([]);
	});
});
