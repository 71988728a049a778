/**
 * The rows of channels, bundles and devices in a real browser: their figures are what devices
 * reported, and acts on several rows say for each what happened to it.
 */
import type { Route } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { deviceId, newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: rows of the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("rows of the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const region = (name: string) => admin.page.getByRole("region", { name, exact: true });
	const rowOf = (list: string, name: string) =>
		region(list)
			.getByRole("row")
			.filter({ has: admin.page.getByRole("link", { name, exact: true }) });
	const cells = async (list: string, name: string) =>
		(await rowOf(list, name).getByRole("cell").allTextContents()).map((text) => text.replaceAll("\u00a0", " "));
	const pick = (name: string) => admin.page.getByRole("checkbox", { name: `Select ${name}`, exact: true });
	const dialog = () => admin.page.getByRole("dialog");
	const dialogButton = (name: string) => dialog().getByRole("button", { name, exact: true });
	const toolbarButton = (name: string) => admin.page.getByRole("toolbar").getByRole("button", { name, exact: true });
	const bundles = async () =>
		(await stage.product.api("GET", `/bundle?app_id=${stage.app}`)).body.map(({ name }: { name: string }) => name);
	const newDevice = (index: number) => `e5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d0${index}`;
	const deviceOf = (device_id: string, fields: object = {}) => ({
		app_id: stage.app,
		device_id,
		platform: "android",
		version_name: "1.0.0",
		version_build: "1.0.0",
		plugin_version: "8.51.23",
		is_prod: true,
		is_emulator: false,
		...fields,
	});

	test("a channel's row has the devices that checked on it, and the installs of its live bundle that failed", async () => {
		const { product, app } = stage;
		await admin.open(`/apps/${app}/channels`, "Channels");
		await expect.poll(async () => (await cells("Channels", "production"))[2]).toBe("6");
		// The scene reports 1.0.0 on four devices, and the store build on two.
		await expect.poll(async () => (await cells("Channels", "production"))[3]).toMatch(/^0 of 4/);
		expect(await cells("Channels", "pr-128")).toMatchObject({ 2: "0", 3: "no installs" });
		for (const index of [1, 2]) {
			const device = deviceOf(newDevice(index));
			await product.api("POST", "/updates", device);
			await product.api("POST", "/stats", { ...device, action: "set_fail" });
		}
		const joined = deviceOf(newDevice(3), { defaultChannel: "beta" });
		await product.api("POST", "/updates", joined);
		await product.api("POST", "/stats", { ...joined, action: "set" });
		const { body: channels } = await product.api("GET", `/channel?app_id=${app}`);
		const ids = channels.map(({ id }: { readonly id: number }) => id).join(",");
		const counted = async () => {
			const { body } = await product.api("GET", `/statistics/app/${app}/channels?channel_ids=${ids}`);
			return body.map(({ devices }: { readonly devices: number }) => devices).toSorted();
		};
		await expect.poll(counted, { timeout: 20_000 }).toEqual([0, 0, 1, 8]);
		await admin.page.reload();
		await expect.poll(async () => (await cells("Channels", "production"))[2]).toBe("8");
		expect((await cells("Channels", "production"))[3]).toMatch(/^2 of 6, above the limit|^2 of 6, too few to tell/);
		expect(await cells("Channels", "beta")).toMatchObject({ 1: "1.0.01.1.0 at 25 %", 2: "1" });
		await expectSound(admin);
		await expectFitsPhone(admin);
		// The number leads to these devices.
		await rowOf("Channels", "production").getByRole("link", { name: "8", exact: true }).click();
		await expect.poll(() => region("Devices").locator("tbody tr").count()).toBe(8);
	});

	test("previews stand apart from channels, and several are deleted at once", async () => {
		const { product, app } = stage;
		for (const number of [301, 302]) {
			const body = { app_id: app, repository: "acme/shop", number, title: `Title of ${number}` };
			const { body: opened } = await product.api("POST", "/preview", body);
			await uploadProductBundle(product, app, `0.0.0-${opened.channel}.1`);
			await product.api("POST", "/channel", {
				app_id: app,
				channel: opened.channel,
				version: `0.0.0-${opened.channel}.1`,
			});
		}
		await admin.open(`/apps/${app}/channels`, "Channels");
		await rowOf("Preview channels", "pr-301").getByText("Title of 301").waitFor();
		expect(await region("Channels").getByRole("link", { name: "pr-301" }).count()).toBe(0);
		expect(await region("Preview channels").getByRole("link", { name: "production" }).count()).toBe(0);
		await pick("pr-301").check();
		await pick("pr-302").check();
		await toolbarButton("Delete…").click();
		await dialog()
			.getByText(/1 bundle/)
			.first()
			.waitFor();
		await expectSound(admin);
		await dialogButton("Delete 2 previews").click();
		await admin.page.getByText("2 previews deleted.").waitFor();
		await region("Preview channels").waitFor({ state: "detached" });
		const left = (await product.api("GET", `/channel?app_id=${app}`)).body.map(({ name }: { name: string }) => name);
		expect(left).toContain("production");
		expect(left).not.toContain("pr-301");
		expect(await bundles()).not.toContain("0.0.0-pr-302.1");
	});

	test("bundles are selected by keyboard and deleted together; one in use is named and stays", async () => {
		const { product, app } = stage;
		for (const version of ["7.0.0", "7.0.1", "7.0.2"]) await uploadProductBundle(product, app, version);
		const { page } = admin;
		await admin.open(`/apps/${app}/bundles?sort=version`, "Bundles");
		await rowOf("Bundles", "1.0.0").waitFor();
		expect((await cells("Bundles", "1.0.0"))[1]).toContain("production");
		await expect.poll(async () => (await cells("Bundles", "1.0.0"))[4]).toMatch(/^2 of /);
		await page.getByRole("link", { name: "7.0.0", exact: true }).focus();
		await page.keyboard.press("x");
		await page.keyboard.press("Shift+j");
		await page.keyboard.press("Shift+j");
		await page.getByRole("toolbar").getByText("3 bundles selected").waitFor();
		// Escape clears the selection, and leaves the page where it is.
		await page.keyboard.press("Escape");
		await page.getByRole("toolbar").waitFor({ state: "detached" });
		expect(new URL(page.url()).pathname).toMatch(/\/bundles$/);
		await pick("7.0.0").click();
		await pick("7.0.2").click({ modifiers: ["Shift"] });
		expect(await pick("7.0.1").isChecked()).toBe(true);
		await pick("1.0.0").check();
		await expectSound(admin);
		await expectFitsPhone(admin);
		await toolbarButton("Delete…").click();
		const refused = dialog()
			.getByRole("listitem")
			.filter({ hasText: /still used by .*production/ });
		await refused.getByText("1.0.0", { exact: true }).waitFor();
		await expectSound(admin);
		// The second deletion fails once.
		let failures = 0;
		const fail = (route: Route) => {
			const isRun = route.request().method() === "DELETE" && !route.request().url().includes("dry_run");
			if (!isRun || !route.request().url().includes("7.0.1") || failures++ > 0) return route.continue();
			const error = { error: "bundle_in_use", message: "Bundle 7.0.1 is still used.", moreInfo: {} };
			return route.fulfill({ status: 409, json: error });
		};
		await page.route("**/bundle?**", fail);
		await dialogButton("Delete 3 bundles").click();
		await dialog().getByText("2 of 3 bundles deleted").waitFor();
		await dialog().getByRole("listitem").filter({ hasText: "7.0.1" }).getByText("is still used").waitFor();
		expect(await bundles()).toContain("7.0.1");
		expect(await bundles()).not.toContain("7.0.2");
		await expectSound(admin);
		await dialogButton("Delete 1 bundle").click();
		await page.getByText("3 bundles deleted.").waitFor();
		await page.unroute("**/bundle?**", fail);
		expect(await bundles()).toContain("1.0.0");
		expect(await bundles()).not.toContain("7.0.1");
		// A deleted bundle is selected no more.
		await page.getByRole("toolbar").getByText("1 bundle selected").waitFor();
		await toolbarButton("Clear the selection").click();
	});

	test("devices show their state, and an override is set and removed for several", async () => {
		const { product, app } = stage;
		const [bundle] = (await product.api("GET", `/bundle?app_id=${app}&version=1.1.0`)).body;
		await product.api("POST", "/device", { app_id: app, device_id: deviceId(3), version_id: bundle.id });
		await admin.open(`/apps/${app}/devices`, "Devices");
		await rowOf("Devices", deviceId(3)).getByText("Behind: 1.1.0 is set for it").waitFor();
		expect(await region("Devices").getByText("Behind").count()).toBe(1);
		// They reported a failure, and no install since.
		await rowOf("Devices", newDevice(1)).getByText("Failed", { exact: false }).first().waitFor();
		expect(await rowOf("Devices", deviceId(0)).getByText("Failed").count()).toBe(0);
		for (const id of [newDevice(1), deviceId(0)]) await pick(id).check();
		await toolbarButton("Set override…").click();
		await expectSound(admin);
		expect(await dialogButton("Set override for 2 devices").isDisabled()).toBe(true);
		await dialog().getByLabel("Channel").selectOption("beta");
		await dialogButton("Set override for 2 devices").click();
		await admin.page.getByText("2 devices changed.").waitFor();
		const overrideOf = async (id: string) =>
			(await product.api("GET", `/device?app_id=${app}&device_id=${id}`)).body.override_channel;
		expect([await overrideOf(newDevice(1)), await overrideOf(deviceId(0)), await overrideOf(deviceId(2))]).toEqual([
			"beta",
			"beta",
			null,
		]);
		await rowOf("Devices", deviceId(0)).getByText("Channel override: beta").waitFor();
		await expectFitsPhone(admin);
		for (const id of [newDevice(1), deviceId(0), deviceId(2)]) await pick(id).check();
		await toolbarButton("Remove overrides…").click();
		await dialog().getByText("1 device cannot be changed").waitFor();
		await dialogButton("Remove overrides of 2 devices").click();
		await admin.page.getByText("2 devices changed.").last().waitFor();
		await expect.poll(() => overrideOf(newDevice(1))).toBeNull();
		await expect.poll(() => overrideOf(deviceId(0))).toBeNull();
	});

	test("a reader selects nothing", async () => {
		const reader = await stage.member("org_member", "rows-reader@example.com");
		for (const [screen, heading] of [
			["bundles", "Bundles"],
			["devices", "Devices"],
		] as const) {
			await reader.open(`/apps/${stage.app}/${screen}`, heading);
			await reader.page.getByRole("region", { name: heading, exact: true }).waitFor();
			expect(await reader.page.getByRole("checkbox").count()).toBe(0);
		}
		reader.leave();
	});
});
