/**
 * Previews in a real browser: the list in the dashboard, the page that testers open on a phone, and
 * closing.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, HOSTILE, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: previews in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("previews in a browser", () => {
	let stage: Stage;
	beforeAll(async () => {
		stage = await sharedStage();
	});

	const screenshot = async ({ page }: Visitor, name: string) => {
		const directory = process.env.CAPSTAN_SCREENSHOTS;
		if (directory !== undefined) await page.screenshot({ path: `${directory}/${name}.png`, fullPage: true });
	};

	test("a tester opens the page on a phone; an administrator closes the preview, and the page says so", async () => {
		const { product } = stage;
		const body = { app_id: APP, repository: "acme/shop", number: 77, title: `New checkout ${HOSTILE}` };
		const opened = await product.api("POST", "/preview", body);
		expect(opened.status, JSON.stringify(opened.body)).toBe(201);
		const { channel, page_url } = opened.body as { channel: string; page_url: string };
		await uploadProductBundle(product, APP, `0.0.0-${channel}.1`);
		await product.api("POST", "/channel", { app_id: APP, channel, version: `0.0.0-${channel}.1` });

		const phone = await stage.visitor({ width: 390 });
		const page = new URL(page_url);
		await phone.page.goto(`${stage.origin}${page.pathname}${page.hash}`);
		await phone.page.getByText("Open until").waitFor();
		expect(await phone.page.title()).toContain("New checkout");
		const link = await phone.page.getByRole("link", { name: "Open in the app" }).getAttribute("href");
		expect(link).toContain(`capgo://preview/channel?appId=${APP}&channel=${channel}`);
		const payload = await fetch(`${product.url}${(link ?? "").replace("capgo:/", "")}`);
		expect(((await payload.json()) as { version: string }).version).toBe(`0.0.0-${channel}.1`);
		const isDrawn = await phone.page.evaluate(`(() => {
			const canvas = document.querySelector("canvas");
			const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
			return new Set(data).size > 1 && canvas.width > 100;
		})()`);
		expect(isDrawn, "the QR code").toBe(true);
		await expectSound(phone);
		await screenshot(phone, "preview-page-390");

		const admin = await stage.admin();
		await admin.open(`/apps/${APP}/previews`, "Previews");
		await admin.page.getByRole("link", { name: "Page for testers" }).first().waitFor();
		await expectSound(admin);
		await screenshot(admin, "previews-1280");
		await admin.page.getByRole("button", { name: "Close acme/shop#77", exact: true }).click();
		await screenshot(admin, "preview-close-1280");
		await admin.page.getByRole("button", { name: "Close preview", exact: true }).click();
		await admin.page.getByText("Preview acme/shop#77 closed.").waitFor();
		expect((await product.api("GET", `/channel?app_id=${APP}&channel=${channel}`)).status).toBe(404);

		await expect
			.poll(
				async () => {
					await phone.page.reload();
					await phone.page.locator("#title").getByText("New checkout").waitFor();
					return phone.page.locator("#state").textContent();
				},
				{ timeout: 20_000, interval: 1_000 },
			)
			.toContain("This preview was closed");
		expect(await phone.page.locator("#open").isVisible()).toBe(false);
		await screenshot(phone, "preview-page-closed-390");
		phone.leave();
		admin.leave();
	});
});
