/**
 * The documentation in Chromium: examples name the server that serves the page, and a person who
 * types finds a place and gets there with the keyboard alone.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { chromium, leave, openPage } from "./support/browser";
import { commandOf } from "./support/ci-steps";
import { PAGE_SERVER } from "./support/guide-blocks";
import { type Product, sharedProduct } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

describe.skipIf(chromium === undefined)("/docs in a browser", () => {
	test("examples name the server that serves the page; those of CI keep the address with HTTPS", async () => {
		const page = await openPage();
		await page.goto(`${product.url}/docs/first-update`);
		const text = await page.locator("main").innerText();
		expect(text).toContain(`"updateUrl": "${product.url}/updates"`);
		expect(text).toContain(`npx --yes ${product.url}/capstan.tgz release`);
		expect(text).not.toContain(PAGE_SERVER);
		const { port } = new URL(product.url);
		expect(text).toContain(`http://10.0.2.2:${port}`);
		expect(text).toContain(`adb reverse tcp:${port} tcp:${port}`);
		expect(text).not.toContain("8787");
		await page.goto(`${product.url}/docs/ci`);
		expect(await page.locator("main").innerText()).toContain("https://updates.example.com");
		// The address of the command is the one that this server keeps.
		const { pathname } = new URL(await commandOf(product));
		await page.getByText(`npx --yes $URL${pathname} preview upload`).waitFor();
		leave(page);
	});

	test("the search opens with /, finds a part of a code, and Enter goes to its heading", async () => {
		const page = await openPage();
		await page.goto(`${product.url}/docs`);
		await page.keyboard.press("/");
		await page.keyboard.type("under_nat");
		await page.getByRole("link", { name: "disable_auto_update_under_native" }).waitFor();
		await page.keyboard.press("Enter");
		await page.waitForURL("**/docs/how-a-device-decides#disable_auto_update_under_native");
		expect(await page.locator("#disable_auto_update_under_native").innerText()).toContain("under_native");
		await page.locator("#search").fill("qwxzzy");
		await page.getByText("Nothing found. Try fewer words.").waitFor();
		leave(page);
	});
});
