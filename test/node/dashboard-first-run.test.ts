/**
 * The first ten minutes in a real browser, at both sizes: an organization without apps, its first release in one dialog, a device, the next
 * release, and the way back. Each step is what a person reads, and the API confirms it.
 */
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { makeZip } from "./support/product";

if (chromium === undefined) console.log("skipped: the first run, because no Chromium is installed");

describe.skipIf(chromium === undefined)("the first run", () => {
	let stage: Stage;
	let zip: string;
	beforeAll(async () => {
		stage = await sharedStage();
		zip = join(tmpdir(), `first-run-${process.pid}.zip`);
		await writeFile(zip, makeZip("1.0.1"));
	});

	const release = async ({ page }: Visitor, button: string, version: string) => {
		await page.getByRole("button", { name: button, exact: true }).first().click();
		const dialog = page.getByRole("dialog");
		await dialog.locator('input[type="file"]').setInputFiles(zip);
		await dialog.getByText("calls notifyAppReady()").waitFor();
		await dialog.getByRole("button", { name: `Release ${version} to production` }).click();
		await dialog.waitFor({ state: "detached" });
	};

	test.each([1280, 390])("leads from no app to a release and back, at %d pixels", async (width) => {
		const { product } = stage;
		const appId = `com.example.first${width}`;
		const { body } = await product.api("PUT", "/organization", { name: `Beginners ${width}` });
		const visitor = await stage.admin({ width });
		const { page } = visitor;
		const reads = (text: string | RegExp) => page.getByText(text).first().waitFor();

		await visitor.open(`/organizations/${body.id}/apps`, "Apps");
		await page.getByRole("list", { name: "First steps" }).waitFor();
		await expectSound(visitor);
		await page.getByRole("button", { name: "Create app" }).click();
		await page.getByLabel("Name").fill("First shop");
		await page.getByLabel("App id").fill(appId);
		await page.getByRole("dialog").getByRole("button", { name: "Create app" }).click();
		await page.getByRole("heading", { level: 1, name: "First shop" }).waitFor();
		await reads(`init --server`);
		await reads("Waiting for the first update check…");
		await expectSound(visitor);

		await release(visitor, "Upload and release", "1.0.1");
		await reads("created production with 1.0.1");
		await expectSound(visitor);

		const device = {
			...{ app_id: appId, device_id: crypto.randomUUID(), platform: "android", version_name: "builtin" },
			...{ version_build: "1.0.0", plugin_version: "8.51.23", version_os: "17", is_prod: true, is_emulator: false },
		};
		const offered = async () => (await product.api("POST", "/updates", device)).body.version;
		await expect.poll(offered).toBe("1.0.1");
		await page.getByRole("list", { name: "First steps" }).waitFor({ state: "detached" });

		await release(visitor, "Release", "1.0.2");
		await reads("released 1.0.2 to production");
		await expect.poll(offered).toBe("1.0.2");
		// On a phone the confirmation of the release covers the button for some seconds.
		await page.getByRole("button", { name: "Roll back to 1.0.1 on production" }).press("Enter");
		const dialog = page.getByRole("dialog");
		await dialog.getByText("1 of 1 device will change version").waitFor();
		await dialog.getByLabel("Reason (optional)").fill("Login loop");
		await dialog.getByRole("button", { name: "Roll back to 1.0.1" }).click();
		await reads("rolled production back from 1.0.2 to 1.0.1");
		await reads("“Login loop”");
		await expect.poll(offered).toBe("1.0.1");
		await expectSound(visitor);

		await visitor.open(`/organizations/${body.id}/apps`, "Apps");
		await page.getByRole("link", { name: "First shop" }).waitFor();
		await reads("1.0.1");
		await expectSound(visitor);
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});
});
