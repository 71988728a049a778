/**
 * Finding things in the dashboard: the command palette, the keys, the app switcher's list,
 * breadcrumbs, the theme and the marks of a lost network.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, deviceId, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { createProductApp } from "./support/product";

describe.skipIf(chromium === undefined)("finding things", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const search = async (text: string) => {
		await admin.page.keyboard.press("Control+k");
		await admin.page.getByRole("combobox", { name: "Search" }).fill(text);
	};

	test("the palette opens a bundle, a device by a part of its id, and the dialog of an action", async () => {
		const { page } = admin;
		await admin.open(`/apps/${APP}`, "Example shop");
		expect(new URL(page.url()).pathname).toBe(`/dashboard/apps/${APP}/releases`);
		await search("1.1");
		await page.getByRole("option", { name: "1.1.0" }).first().waitFor();
		await expectSound(admin);
		await page.keyboard.press("Enter");
		await page.getByRole("heading", { level: 1, name: "1.1.0" }).waitFor();
		const crumbs = page.getByRole("navigation", { name: "Breadcrumbs" });
		await expect.poll(() => crumbs.innerText()).toMatch(/My organization\s+Example shop\s+Bundles\s+1\.1\.0/);
		await search(deviceId(3).slice(-8));
		// Apps of other organizations may know the device, too; the open app comes first.
		await page.getByRole("group", { name: "Devices" }).getByRole("option").first().click();
		await page.waitForURL(`**/apps/${APP}/devices/${deviceId(3)}`);
		await search("api key new");
		await page.getByRole("option", { name: "New API key" }).click();
		await page.getByRole("dialog", { name: "New API key" }).waitFor();
		await page.keyboard.press("Escape");
		await page.getByRole("dialog").waitFor({ state: "detached" });
		expect(page.url()).not.toContain("do=");
	});

	test("no key is lost or does anything else while the palette's file loads", async () => {
		const visitor = await stage.admin();
		const { page } = visitor;
		let load: () => void = () => undefined;
		const held = new Promise<void>((resolve) => {
			load = resolve;
		});
		await page.route("**/dashboard-assets/palette-*.js", async (route) => {
			await held;
			await route.continue();
		});
		await visitor.open(`/apps/${APP}/channels`, "Channels");
		await page.keyboard.press("Control+k");
		// The last key but one is a single-key shortcut, and Enter would follow a focused link.
		await page.keyboard.type("bundle 1.1r");
		await page.keyboard.press("Backspace");
		await page.keyboard.press("Enter");
		expect(new URL(page.url()).pathname).toBe(`/dashboard/apps/${APP}/channels`);
		load();
		await page.waitForURL("**/bundles/1.1.0**");
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});

	test("the palette finds apps and devices of other apps, and opens a comparison and a rotation", async () => {
		const { page } = admin;
		const { product } = stage;
		const other = product.newAppId();
		const device = "0d6c2a34-9a1b-4a56-8f0e-7c1f7f5a2d61";
		await createProductApp(product, other);
		await product.api("PUT", `/app/${other}`, { name: "Elsewhere" });
		await product.api("POST", "/updates", {
			app_id: other,
			device_id: device,
			custom_id: "tester-of-elsewhere",
			platform: "ios",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			is_prod: true,
			is_emulator: false,
		});
		const { body: key } = await product.api("POST", "/apikey", {
			name: "nightly robot",
			bindings: [{ role_name: "org_member", scope_type: "org", org_id: product.orgId }],
		});
		await expect
			.poll(async () => (await product.api("GET", `/device?app_id=${other}&device_id=${device}`)).status)
			.toBe(200);
		await admin.open(`/apps/${APP}/releases`, "Example shop");
		await search("elsewhere");
		await page.getByRole("group", { name: "Apps" }).getByRole("option").click();
		await page.getByRole("heading", { level: 1, name: "Elsewhere" }).waitFor();
		await admin.open(`/apps/${APP}/releases`, "Example shop");
		await search("tester-of");
		await page
			.getByRole("group", { name: "Devices" })
			.getByRole("option", { name: /Elsewhere/ })
			.click();
		await page.waitForURL(`**/apps/${other}/devices/${device}`);
		await admin.open(`/apps/${APP}/releases`, "Example shop");
		await search("compare 1.1.0");
		await page.getByRole("option", { name: "Compare 1.1.0…" }).click();
		await page.getByRole("heading", { level: 1, name: "1.1.0" }).waitFor();
		await expect.poll(() => page.evaluate("document.activeElement?.labels?.[0]?.textContent")).toMatch(/^Compare with/);
		// With the bundle before, until a person chooses another one.
		await page.getByRole("region", { name: "1.1.0 compared with 1.0.0" }).waitFor();
		await search("rotate nightly");
		await page.getByRole("option", { name: "Rotate nightly robot…" }).click();
		await page.getByRole("dialog").waitFor();
		expect(new URL(page.url()).pathname).toContain(`/keys/${key.id}`);
		await page.keyboard.press("Escape");
		await page.getByRole("dialog").waitFor({ state: "detached" });
	});

	test("single keys open places, rows and help, never while somebody types, and can be turned off", async () => {
		const { page } = admin;
		await admin.open(`/apps/${APP}/releases`, "Example shop");
		await page.keyboard.press("g");
		await page.keyboard.press("c");
		await page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		await page.getByRole("link", { name: "production" }).waitFor();
		for (let row = 0; row < 3; row++) await page.keyboard.press("j");
		// The second row is the channel whose name the API refuses.
		const third = await page.evaluate("document.activeElement?.textContent");
		await page.keyboard.press("Enter");
		await page.getByRole("heading", { level: 1, name: String(third) }).waitFor();
		await page.keyboard.press("Escape");
		await page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		await page.keyboard.press("g");
		await page.keyboard.press("d");
		await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
		await page.keyboard.press("/");
		await page.keyboard.type("?gc");
		await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
		await page.evaluate("document.activeElement.blur()");
		await page.keyboard.press("?");
		const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
		await help.getByRole("switch", { name: "Single-key shortcuts" }).setChecked(false, { force: true });
		await expectSound(admin);
		await page.keyboard.press("Escape");
		await help.waitFor({ state: "detached" });
		await page.evaluate("document.activeElement.blur()");
		await page.keyboard.press("?");
		expect(await help.count()).toBe(0);
		await page.evaluate("localStorage.clear()");
	});

	test("the theme is chosen under You, and a lost network is marked and disables changes", async () => {
		const { page, context } = admin;
		await admin.open(`/organizations/${stage.product.orgId}/keys`, "API keys");
		await page.getByRole("button", { name: /^You:/ }).click();
		await page.getByRole("menuitem", { name: "Dark", exact: true }).click();
		await expect.poll(() => page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(11, 13, 16)");
		await page.getByRole("menuitem", { name: "As the system" }).click();
		await page.keyboard.press("Escape");
		await page.getByRole("menu").waitFor({ state: "detached" });
		await page.getByRole("link", { name: "First admin key" }).waitFor();
		const isDisabled = (name: string) => page.getByRole("button", { name, exact: true }).isDisabled();
		await context.setOffline(true);
		try {
			await page.getByText("You are offline.").waitFor();
			expect(await isDisabled("New key")).toBe(true);
			await expectSound(admin);
		} finally {
			await context.setOffline(false);
		}
		await page.getByText("You are offline.").waitFor({ state: "detached" });
		// Buttons within the page are disabled with the reason as well, but an open dialog can be closed.
		await admin.open(`/apps/${APP}/settings`, "Settings");
		await page.getByRole("button", { name: "Offer Example shop" }).click();
		await context.setOffline(true);
		try {
			await expect.poll(() => isDisabled("Offer app")).toBe(true);
			await page.getByRole("button", { name: "Cancel" }).click();
			await page.getByLabel("Default upload channel").fill("beta");
			expect(await isDisabled("Save uploads")).toBe(true);
			expect(await page.getByRole("button", { name: "Delete Example shop" }).getAttribute("title")).toContain(
				"offline",
			);
		} finally {
			await context.setOffline(false);
		}
		await expect.poll(() => isDisabled("Save uploads")).toBe(false);
		await admin.open(`/organizations/${stage.product.orgId}/keys`, "API keys");
		await page.getByText("You are offline.").waitFor({ state: "detached" });
		expect(await page.getByRole("button", { name: "New key" }).isEnabled()).toBe(true);
	});
});
