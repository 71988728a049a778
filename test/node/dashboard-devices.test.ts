/**
 * Devices in the dashboard in a real browser: finding one, reading which update it gets and why,
 * and its override.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, deviceId, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: devices in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("devices in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const get = async (path: string) => (await stage.product.api("GET", path)).body;
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	/** A button of the page itself, because a dialog that closes has one of the same name. */
	const pageButton = (name: string) => admin.page.locator("#content").getByRole("button", { name, exact: true });
	const dialogButton = (name: string) => admin.page.getByRole("dialog").getByRole("button", { name, exact: true });
	const choose = async (label: string, version: string) => {
		await admin.page.getByRole("combobox", { name: label }).fill(version);
		await admin.page.getByRole("option", { name: version, exact: true }).click();
	};

	test("finds a device, explains what it gets, and sets a bundle for it alone", async () => {
		await admin.open(`/apps/${APP}/devices`, "Devices");
		await button(/^iOS \d/).click();
		await expect.poll(() => admin.page.getByRole("region", { name: "Devices" }).getByRole("row").count()).toBe(4);
		await expectSound(admin);
		// The view can be saved, and is there after a reload.
		await button("Save this view").click();
		await admin.page.getByLabel("Name of the view").fill("Phones of Apple");
		await button("Save").click();
		await button(/^All platforms/).click();
		const rows = admin.page.getByRole("region", { name: "Devices" }).getByRole("row");
		await expect.poll(() => rows.count()).toBeGreaterThan(4);
		await admin.page.reload();
		await button("Phones of Apple").click();
		await expect.poll(() => rows.count()).toBe(4);
		await button("More filters").click();
		await admin.page.getByLabel("Last seen since (UTC)").fill("2026-01-01");
		await expect.poll(() => new URL(admin.page.url()).search).toContain("seen_from=2026-01-01");
		await expect.poll(() => rows.count()).toBe(4);
		await button("Phones of Apple").click();
		await button("Device").click();
		await expect.poll(() => rows.nth(1).innerText()).toContain(deviceId(1));
		expect(new URL(admin.page.url()).search).toContain("sort=name");
		await button("Forget the view Phones of Apple").click();
		await admin.open(`/apps/${APP}/devices/${deviceId(0)}`, "Device");
		await admin.page.getByText("At its next check, the device gets no update").waitFor();
		// There is no override to remove.
		expect(await pageButton("Remove override").count()).toBe(0);
		const waits: (string | undefined)[] = [];
		admin.page.on("request", (request) => {
			if (["POST", "DELETE"].includes(request.method()) && new URL(request.url()).pathname === "/device")
				waits.push(request.headers()["x-capstan-wait"]);
		});
		await pageButton("Set override").click();
		// A bundle that does not exist is refused at its field, in words of the screen.
		await admin.page.getByRole("combobox", { name: "Bundle" }).fill("9.9.9");
		await admin.page.keyboard.press("Escape");
		await dialogButton("Set override").click();
		await expect
			.poll(() => admin.page.getByRole("combobox", { name: "Bundle" }).getAttribute("aria-invalid"))
			.toBe("true");
		await admin.page.getByRole("dialog").getByText("Bundle 9.9.9 does not exist. Choose another version.").waitFor();
		await choose("Bundle", "1.1.0");
		await expectSound(admin);
		await dialogButton("Set override").click();
		await admin.page.getByText("Waiting until the change is live everywhere").waitFor();
		await admin.page
			.getByText("At its next check, the device gets 1.1.0, because bundle 1.1.0 is set for this device.")
			.waitFor();
		// Rules that found nothing are folded away.
		const passed = admin.page.getByText(/^\d+ rules passed$/);
		const rule = admin.page.getByText("Not older than the store build");
		expect(await rule.isVisible()).toBe(false);
		await passed.click();
		await rule.waitFor();
		await expectSound(admin);
		await pageButton("Remove override").click();
		const goes = admin.page.getByRole("dialog").getByRole("listitem");
		await expect.poll(() => goes.allInnerTexts()).toEqual(["the bundle 1.1.0"]);
		await dialogButton("Remove override").click();
		await admin.page.getByText("At its next check, the device gets no update").waitFor();
		expect(await get(`/device?app_id=${APP}&device_id=${deviceId(0)}`)).toMatchObject({ override_version: null });
		await pageButton("Remove override").waitFor({ state: "detached" });
		await pageButton("Set override").click();
		await admin.page.getByRole("textbox", { name: "Channel" }).fill("beta");
		await dialogButton("Set override").click();
		await pageButton("Remove override").waitFor();
		// The list shows devices with a channel override.
		await admin.open(`/apps/${APP}/devices`, "Devices");
		const set = admin.page.getByRole("row").filter({ hasText: "Channel override: beta" });
		await set.getByRole("link", { name: deviceId(0) }).waitFor();
		expect(await admin.page.getByText(/ override: /).count()).toBe(1);
		await set.getByRole("link").click();
		// A channel override can be removed alone.
		await pageButton("Remove override").click();
		await dialogButton("Remove override").click();
		await pageButton("Remove override").waitFor({ state: "detached" });
		expect(waits).toEqual(["visible", "visible", "visible", "visible"]);
	});

	test("marks a channel whose bundle no device can get, and shows the remedy on the device too", async () => {
		const channel = "misconfigured";
		const device = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d70";
		const body = { app_id: APP, channel, version: "1.1.0", allow_device_self_set: true };
		await stage.product.api("POST", "/channel", { ...body, allow_prod: false, allow_dev: false });
		const build = { version_name: "builtin", version_build: "1.0.0", plugin_version: "8.51.23" };
		const asking = { app_id: APP, device_id: device, platform: "ios", defaultChannel: channel };
		await stage.product.api("POST", "/updates", { ...asking, ...build });
		const query = `app_id=${APP}&device_id=${device}`;
		await expect.poll(async () => (await get(`/device?${query}`)).channel).toBe(channel);
		const title = "Production builds and development builds are off";
		await admin.open(`/apps/${APP}/channels`, "Channels");
		const row = admin.page.getByRole("row").filter({ hasText: title });
		await row.getByText("Misconfigured", { exact: true }).waitFor();
		await row.getByRole("link", { name: channel }).click();
		const problem = admin.page.getByRole("alert").filter({ hasText: title });
		await problem.getByText("No device gets 1.1.0 until this changes.").waitFor();
		await expectSound(admin);
		await admin.open(`/apps/${APP}/devices/${device}`, "Device");
		await admin.page
			.getByText(
				"At its next check, the device gets no update, because channel misconfigured is off for production builds.",
			)
			.waitFor();
		await admin.page.getByRole("alert").getByText("Turn on production builds on channel misconfigured.").waitFor();
		// One click solves it, and the device gets the bundle.
		await admin.open(`/apps/${APP}/channels/${channel}`, channel);
		await button("Turn on production builds").click();
		await problem.waitFor({ state: "detached" });
		const { body: offered } = await stage.product.api("POST", "/updates", { ...asking, ...build });
		expect(offered).toMatchObject({ version: "1.1.0" });
		await stage.product.api("DELETE", `/channel?app_id=${APP}&channel=${channel}`);
	});

	test("finds devices by their custom id", async () => {
		const named = { app_id: APP, device_id: deviceId(8), platform: "ios", custom_id: "Ada & Co" };
		const build = { version_name: "builtin", version_build: "1.0.0", plugin_version: "8.51.23" };
		await stage.product.api("POST", "/updates", { ...named, ...build });
		await expect.poll(async () => (await get(`/device?app_id=${APP}&custom_id=Ada%20%26%20Co`)).length).toBe(1);
		await admin.open(`/apps/${APP}/devices`, "Devices");
		await admin.page.getByLabel("Find by id").fill("ada &");
		const rows = admin.page.getByRole("region", { name: "Devices" }).getByRole("row");
		await expect.poll(() => rows.count()).toBe(2);
		await admin.page.getByRole("link", { name: "Ada & Co" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Ada & Co" }).waitFor();
	});

	test("offers to remove the override of a device that was never seen, and offers nothing without an override", async () => {
		const query = `app_id=${APP}&device_id=${deviceId(7)}`;
		await stage.product.api("POST", "/device", { app_id: APP, device_id: deviceId(7), channel: "beta" });
		await admin.open(`/apps/${APP}/devices/${deviceId(7)}`, "Device");
		await pageButton("Remove override").waitFor();
		await stage.product.api("DELETE", `/device?${query}`);
		await admin.page.reload();
		await admin.page.getByText("Never", { exact: true }).waitFor();
		await admin.page.waitForLoadState("networkidle");
		expect(await pageButton("Remove override").count()).toBe(0);
	});

	test("an override is set before the first check of a device, from the list", async () => {
		await admin.open(`/apps/${APP}/devices`, "Devices");
		await admin.page.getByText("Set an override before the first check of a device").click();
		await admin.page.getByLabel("Device id", { exact: true }).fill(deviceId(9).toUpperCase());
		await button("Set override…").click();
		await admin.page.getByRole("dialog").getByRole("textbox", { name: "Channel" }).fill("beta");
		await dialogButton("Set override").click();
		await admin.page.getByRole("heading", { level: 1, name: "Device" }).waitFor();
		await expect.poll(() => new URL(admin.page.url()).pathname).toMatch(new RegExp(`/devices/${deviceId(9)}$`));
		await pageButton("Remove override").waitFor();
		await expectSound(admin);
		await stage.product.api("DELETE", `/device?app_id=${APP}&device_id=${deviceId(9)}`);
	});
});
