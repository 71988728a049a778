/**
 * The first ten minutes in a real browser, at both sizes: an organization without apps, its first
 * release in one dialog, a device, the next release, and the way back. Each step is what a person
 * reads, and the API confirms it.
 */
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { makeZip, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: the first run, because no Chromium is installed");

/** Counts what the page hears, whatever the test clicks. */
const COUNT_CLICKS =
	"window.clicks = 0; addEventListener('click', ({ isTrusted }) => { if (isTrusted) window.clicks += 1; }, true)";
const MOST_CLICKS = 6;
const PHONE_WIDTH = 390;

/** An update check of a new device with the store build. */
const deviceOf = (appId: string) => ({
	app_id: appId,
	device_id: crypto.randomUUID(),
	platform: "android",
	version_name: "builtin",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	version_os: "17",
	is_prod: true,
	is_emulator: false,
});

describe.skipIf(chromium === undefined)("the first run", () => {
	let stage: Stage;
	let zip: string;
	beforeAll(async () => {
		stage = await sharedStage();
		zip = join(tmpdir(), `first-run-${process.pid}.zip`);
		await writeFile(zip, makeZip("1.0.1"));
	});

	/** @returns the clicks after the file was chosen */
	const release = async ({ page }: Visitor, button: string, version: string): Promise<number> => {
		await page.getByRole("button", { name: button, exact: true }).first().click();
		const dialog = page.getByRole("dialog");
		await dialog.locator('input[type="file"]').setInputFiles(zip);
		await page.evaluate(COUNT_CLICKS);
		await dialog.getByText("calls notifyAppReady()").waitFor();
		await dialog.getByRole("button", { name: `Release ${version} to production` }).click();
		await dialog.waitFor({ state: "detached" });
		return Number(await page.evaluate("window.clicks"));
	};
	const done = ({ page }: Visitor, step: string) =>
		page.getByRole("list", { name: "First steps" }).getByRole("listitem").filter({ hasText: step }).getByText("Done");

	test("leads from no app to a release and back, at both sizes", async () => {
		const { product } = stage;
		const appId = "com.example.first";
		const { body } = await product.api("PUT", "/organization", { name: "Beginners" });
		const visitor = await stage.admin();
		const { page } = visitor;
		const expectSoundAtBothSizes = async () => {
			await expectSound(visitor);
			await expectFitsPhone(visitor);
		};
		const reads = (text: string | RegExp) => page.getByText(text).first().waitFor();

		await visitor.open(`/organizations/${body.id}/apps`, "Apps");
		await page.getByRole("list", { name: "First steps" }).waitFor();
		await expectSoundAtBothSizes();
		await page.getByRole("button", { name: "Create app" }).click();
		await page.getByLabel("Name").fill("First shop");
		await page.getByLabel("App id").fill(appId);
		await page.getByRole("dialog").getByRole("button", { name: "Create app" }).click();
		await page.getByRole("heading", { level: 1, name: "First shop" }).waitFor();
		await reads(`init --server`);
		await reads("Waiting for the first update check…");
		await expectSoundAtBothSizes();

		const started = page.getByRole("link", { name: "Get started" });
		await started.waitFor();

		expect(await release(visitor, "Release", "1.0.1")).toBeLessThanOrEqual(MOST_CLICKS);
		await reads("created production with 1.0.1");
		await done(visitor, "Release it to a channel").waitFor();
		await page.getByRole("img", { name: "QR code that opens 1.0.1 in your app" }).waitFor();
		await expectSoundAtBothSizes();

		const device = deviceOf(appId);
		const offered = async () => (await product.api("POST", "/updates", device)).body.version;
		await expect.poll(offered).toBe("1.0.1");
		await page.getByRole("list", { name: "First steps" }).waitFor({ state: "detached" });
		await started.waitFor({ state: "detached" });
		await page.setViewportSize({ width: PHONE_WIDTH, height: 900 });

		await release(visitor, "Release", "1.0.2");
		await reads("released 1.0.2 to production");
		await expect.poll(offered).toBe("1.0.2");
		// The confirmation of the release covers no button on a phone.
		await reads("Released 1.0.2 to production.");
		await page.getByRole("button", { name: "Roll back to 1.0.1 on production" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("1 of 1 device will change version").waitFor();
		await dialog.getByLabel("Reason (optional)").fill("Login loop");
		await dialog.getByRole("button", { name: "Roll back to 1.0.1" }).click();
		await reads("rolled production back from 1.0.2 to 1.0.1");
		await reads("“Login loop”");
		await expect.poll(offered).toBe("1.0.1");
		await expectSound(visitor);

		// The bundle that was left is no one-click release.
		await reads("Rolled back");
		expect(await page.getByRole("button", { name: "Roll back to 1.0.2 on production" }).count()).toBe(0);
		await page.getByRole("button", { name: "More about 1.0.2 on production" }).click();
		await page.getByRole("menuitem", { name: "Return to 1.0.2 anyway" }).click();
		await dialog.getByText("1 of 1 device will change version").waitFor();
		await page.keyboard.press("Escape");
		await dialog.waitFor({ state: "detached" });

		await page.getByLabel("Show").selectOption("Rollbacks");
		await page.waitForURL(/kind=rollback/);
		await page.getByText("released 1.0.2 to production").waitFor({ state: "detached" });
		await reads("rolled production back from 1.0.2 to 1.0.1");
		await page.getByLabel("By").selectOption("Capstan (automatic)");
		await reads("No matching releases");

		await visitor.open(`/organizations/${body.id}/apps`, "Apps");
		await page.getByRole("link", { name: "First shop" }).waitFor();
		await reads("1.0.1");
		await expectSound(visitor);
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});

	test("ticks the steps of the checklist as requests do them, without a reload", async () => {
		const { product } = stage;
		const appId = "com.example.ticks";
		const { body } = await product.api("PUT", "/organization", { name: "Ticking" });
		await product.api("POST", "/app", { app_id: appId, name: "Ticks", owner_org: body.id });
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open(`/apps/${appId}`, "Ticks");
		await page.evaluate("window.isFirstLoad = true");
		await done(visitor, "Create an app").waitFor();
		expect(await done(visitor, "Upload a bundle").count()).toBe(0);
		await uploadProductBundle(product, appId, "1.0.1");
		await done(visitor, "Upload a bundle").waitFor();
		expect(await done(visitor, "Release it to a channel").count()).toBe(0);
		await page.getByRole("button", { name: "Release 1.0.1 to production" }).click();
		await page.getByRole("dialog").getByRole("heading", { name: "Release to production" }).waitFor();
		await page.getByRole("dialog").getByRole("button", { name: "Release 1.0.1 to production" }).click();
		await done(visitor, "Release it to a channel").waitFor();
		const [channel] = (await product.api("GET", `/channel?app_id=${appId}`)).body;
		expect(channel).toMatchObject({ name: "production", public: true, version: { name: "1.0.1" }, is_preview: false });
		// The steps end with what the device did, and the figures show it.
		const device = deviceOf(appId);
		const name = `Android device ${device.device_id.slice(0, 8)}`;
		await expect.poll(async () => (await product.api("POST", "/updates", device)).body.version).toBe("1.0.1");
		await page.getByText(`${name} checked for updates`).waitFor();
		await product.api("POST", "/stats", { ...device, version_name: "1.0.1", action: "set" });
		await page.getByText(new RegExp(`${name} installed 1\\.0\\.1, [\\d.]+\\u00a0s after the offer`)).waitFor();
		await page.getByText("of 1 install").waitFor();
		await expectSound(visitor);
		await expectFitsPhone(visitor);
		expect(await page.evaluate("window.isFirstLoad")).toBe(true);
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});

	test("adds a sample app with one click, and removes it with one", async () => {
		const { product } = stage;
		const { body } = await product.api("PUT", "/organization", { name: "Lookers" });
		const visitor = await stage.admin({ width: PHONE_WIDTH });
		const { page } = visitor;
		const apps = async () => (await product.api("GET", `/app?org_id=${body.id}`)).body as { app_id: string }[];
		await visitor.open(`/organizations/${body.id}/apps`, "Apps");
		await page.evaluate(COUNT_CLICKS);
		await page.getByRole("button", { name: "Add a sample app" }).click();
		await page.getByRole("heading", { level: 1, name: "Sample shop" }).waitFor();
		await page.getByText("This is a sample app").waitFor();
		await page.getByText("rolled production back from 2.3.0 to 2.2.1").waitFor();
		await page.getByText("The rollout of 2.4.0-beta.1 on beta is paused").waitFor();
		await expectSound(visitor);
		const [{ app_id } = { app_id: "" }] = await apps();
		for (const [screen, heading, text] of [
			["statistics", "Statistics", "By bundle"],
			["devices", "Devices", /customer-1\d+/],
			["bundles/2.3.1?with=2.3.0", "2.3.1", "assets/wishlist.js"],
		] as const) {
			await visitor.open(`/apps/${app_id}/${screen}`, heading);
			await page.getByText(text).first().waitFor();
			await expectSound(visitor);
		}
		await page.keyboard.press("Control+k");
		await page.getByRole("combobox", { name: "Search" }).fill("rollout");
		await page.getByRole("option", { name: "Rollout of 2.4.0 on production" }).waitFor();
		await page.getByRole("combobox", { name: "Search" }).fill("roll back production");
		await page.keyboard.press("Enter");
		const dialog = page.getByRole("dialog", { name: "Roll back production to 2.3.1?" });
		await dialog.getByText("The rollout of 2.4.0 at 25 % ends.").waitFor();
		await page.keyboard.press("Escape");
		await visitor.open(`/apps/${app_id}`, "Sample shop");
		await page.evaluate(COUNT_CLICKS);
		await page.getByRole("button", { name: "Remove sample app" }).click();
		await page.getByRole("list", { name: "First steps" }).waitFor();
		expect(await page.evaluate("window.clicks")).toBe(1);
		expect(await apps()).toEqual([]);
		expect(await page.getByText("Deleted apps").count()).toBe(0);
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});
});
