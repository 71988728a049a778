/**
 * Releasing from the dashboard in a real browser: channels, bundles and devices, as an administrator and as a member who may look and not
 * touch. What the page says happened is held against what the API says afterwards.
 */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, deviceId, HOSTILE, type Stage, startStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { makeZip, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: releasing from the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("releasing from the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await startStage();
		admin = await stage.admin();
	});
	afterAll(async () => {
		await stage?.stop();
	});

	const get = async (path: string) => (await stage.product.api("GET", path)).body;
	const channelNamed = (name: string) => get(`/channel?app_id=${APP}&channel=${encodeURIComponent(name)}`);
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const choose = async (label: string, version: string) => {
		await admin.page.getByRole("combobox", { name: label }).fill(version);
		await admin.page.getByRole("option", { name: version, exact: true }).click();
	};

	test("creates a channel, changes it and tells what was changed", async () => {
		await admin.open(`/apps/${APP}/channels`, "Channels");
		await expectSound(admin);
		await button("New channel").click();
		await admin.page.getByLabel("Name").fill("feature/7 @ home");
		await admin.page.getByRole("switch", { name: "Electron" }).uncheck();
		await button("Create channel").click();
		await admin.page.getByRole("heading", { level: 1, name: "feature/7 @ home" }).waitFor();
		expect(await channelNamed("feature/7 @ home")).toMatchObject({ electron: false, ios: true, public: false });
		// A name with every character that addresses know survives a reload.
		await admin.page.reload();
		await admin.page.getByRole("heading", { level: 1, name: "feature/7 @ home" }).waitFor();
		await button("Edit").click();
		await admin.page.getByRole("switch", { name: "Devices may choose it" }).check();
		await button("Save").click();
		await admin.page.getByRole("dialog").waitFor({ state: "detached" });
		await expect.poll(() => channelNamed("feature/7 @ home")).toMatchObject({ allow_device_self_set: true });
		await admin.page.getByText("changed channel feature/7 @ home").waitFor();
		await expectSound(admin);
	});

	test("promotes a bundle after it showed who would get what, and goes back", async () => {
		await admin.open(`/apps/${APP}/channels/production`, "production");
		await button("Promote a bundle").click();
		await choose("Bundle", "1.1.0");
		await admin.page.getByText("6 of 6 devices will change version").waitFor();
		expect(await channelNamed("production")).toMatchObject({ version: { name: "1.0.0" } });
		await expectSound(admin);
		await button("Promote").click();
		await admin.page.getByText("released 1.1.0 to every device").waitFor();
		expect(await channelNamed("production")).toMatchObject({ version: { name: "1.1.0" } });
		await button("Roll back to 1.0.0").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("of 6 devices will change version").waitFor();
		await expectSound(admin);
		await dialog.getByLabel("Reason (optional)").fill("Login loop");
		await dialog.getByRole("button", { name: "Roll back to 1.0.0" }).click();
		await expect.poll(() => channelNamed("production")).toMatchObject({ version: { name: "1.0.0" } });
		await dialog.waitFor({ state: "detached" });
		await admin.page.getByText("rolled back from 1.1.0 to 1.0.0").waitFor();
		await admin.page.getByText("Login loop").waitFor();
	});

	test("offers no way back to a bundle that was deleted, and says so when it goes while the dialog is open", async () => {
		const { product } = stage;
		for (const version of ["1.4.0", "1.4.1", "1.4.2"]) await uploadProductBundle(product, APP, version);
		const post = (fields: object) => product.api("POST", "/channel", { app_id: APP, channel: "history", ...fields });
		for (const version of ["1.4.0", "1.4.1", "1.4.2"]) await post({ version });
		await product.api("DELETE", `/bundle?app_id=${APP}&version=1.4.0`);
		await admin.open(`/apps/${APP}/channels/history`, "history");
		await admin.page.getByText("Bundle deleted").waitFor();
		expect(await button("Roll back to 1.4.0").count()).toBe(0);
		await product.api("DELETE", `/bundle?app_id=${APP}&version=1.4.1`);
		await button("Roll back to 1.4.1").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("1.4.1 was deleted meanwhile").waitFor();
		expect(await dialog.getByRole("button", { name: "Roll back to 1.4.1" }).isDisabled()).toBe(true);
		await product.api("DELETE", `/channel?app_id=${APP}&channel=history&delete_bundle=true`);
	});

	test("sets how long unused bundles are kept", async () => {
		await admin.open(`/apps/${APP}/settings`, "Settings");
		await admin.page.getByLabel("For ever").check();
		await admin.page.getByLabel("Former bundles kept per channel").fill("7");
		await button("Save retention").click();
		await expect.poll(() => get(`/app/${APP}`)).toMatchObject({ retention: 0, keep_live_bundles: 7 });
		await admin.page.getByLabel("For a number of days").check();
		await admin.page.getByRole("textbox", { name: "Days" }).fill("30");
		await admin.page.getByLabel("Former bundles kept per channel").fill("5");
		await button("Save retention").click();
		await expect.poll(() => get(`/app/${APP}`)).toMatchObject({ retention: 2_592_000, keep_live_bundles: 5 });
	});

	test("rolls a bundle out to a share, raises it, pauses it and rolls it back", async () => {
		await admin.open(`/apps/${APP}/channels/pr-128`, "pr-128");
		await button("Promote a bundle").click();
		await choose("Bundle", "1.1.0");
		await admin.page.getByLabel("A share of the devices").check();
		await admin.page.getByLabel("Share of the devices, in %").fill("20");
		await button("Start the rollout").click();
		await admin.page.getByText("1.1.0 for 20 % of the devices").waitFor();
		await button("Change share").click();
		await admin.page.getByLabel("Share of the devices, in %").fill("50");
		await button("Set share").click();
		await admin.page.getByText("1.1.0 for 50 % of the devices").waitFor();
		await button("Pause").click();
		await button("Resume").waitFor();
		expect((await channelNamed("pr-128")).rolloutPausedAt).not.toBeNull();
		await expectSound(admin);
		await button("Roll back to 1.2.0-pr.128").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("devices that run 1.1.0 get 1.2.0-pr.128 again").waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Roll back to 1.2.0-pr.128" }).click();
		await admin.page.getByText("The last one was 1.1.0, rolled back.").waitFor();
		expect((await channelNamed("pr-128")).rollout_version).toBeNull();
	});

	test("deletes a channel with its bundle, and names both first", async () => {
		await admin.open(`/apps/${APP}/channels/pr-128`, "pr-128");
		await button("Delete").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("the channel pr-128 and its settings").waitFor();
		await dialog.getByLabel("Delete the bundle 1.2.0-pr.128 as well").check();
		// As the service's dry run says it.
		await dialog.getByText(/^the bundle 1\.2\.0-pr\.128 with its \d+ B of files; no known device runs it$/).waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Delete channel" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		expect((await stage.product.api("GET", `/channel?app_id=${APP}&channel=pr-128`)).status).toBe(404);
		expect(await get(`/bundle?app_id=${APP}&version=1.2.0-pr.128`)).toEqual([]);
	});

	test("names the bundle of a rollout among what a channel takes with it, also where nothing is live", async () => {
		const { product } = stage;
		for (const version of ["3.0.0", "3.1.0"]) await uploadProductBundle(product, APP, version);
		await product.api("POST", "/channel", {
			app_id: APP,
			channel: "both",
			version: "3.0.0",
			rolloutVersion: "3.1.0",
			rolloutEnabled: true,
			rolloutPercentage: 25,
		});
		await product.api("POST", "/device", { app_id: APP, device_id: deviceId(8), channel: "both" });
		await admin.open(`/apps/${APP}/channels/both`, "both");
		await button("Delete").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("the rollout of 3.1.0; the bundle stays").waitFor();
		await dialog.getByText("the channel of 1 known device;").waitFor();
		await dialog.getByLabel("Delete the bundles 3.0.0 and 3.1.0 as well").check();
		await dialog.getByText("the bundle 3.1.0").waitFor();
		await expect.poll(() => dialog.getByText("the bundle stays").count()).toBe(0);
		const going = (await dialog.getByRole("listitem").allInnerTexts()).filter((text) => text.startsWith("the bundle"));
		expect(going).toEqual([
			expect.stringMatching(/^the bundle 3.0.0 with its \d+ B of files; no known device runs it$/),
			expect.stringMatching(/^the bundle 3.1.0 with its \d+ B of files; no known device runs it$/),
		]);
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Delete channel" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		for (const version of ["3.0.0", "3.1.0"]) {
			expect(await get(`/bundle?app_id=${APP}&version=${version}`)).toEqual([]);
		}

		await uploadProductBundle(product, APP, "3.2.0");
		await product.api("POST", "/channel", {
			app_id: APP,
			channel: "rollout only",
			rolloutVersion: "3.2.0",
			rolloutEnabled: true,
			rolloutPercentage: 25,
		});
		await admin.open(`/apps/${APP}/channels/rollout%20only`, "rollout only");
		await button("Delete").click();
		await dialog.getByLabel("Delete the bundle 3.2.0 as well").check();
		await dialog.getByRole("button", { name: "Delete channel" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		expect(await get(`/bundle?app_id=${APP}&version=3.2.0`)).toEqual([]);
	});

	const zipOf = (sizeBytes: number) =>
		Buffer.from(makeZip("9.0.0", sizeBytes === 0 ? {} : { "large.bin": randomBytes(sizeBytes) }));

	test("uploads a bundle with its checksum", async () => {
		await admin.open(`/apps/${APP}/bundles`, "Bundles");
		await button("Upload a bundle").click();
		await admin.page
			.locator("input[type=file]")
			.setInputFiles({ name: "app.zip", mimeType: "application/zip", buffer: zipOf(0) });
		await admin.page.getByLabel("Version").fill("2.0.0");
		await admin.page.getByLabel("Comment").fill(HOSTILE);
		await expectSound(admin);
		await button("Upload").click();
		await admin.page.getByRole("heading", { level: 1, name: "2.0.0" }).waitFor();
		await admin.page.getByText(HOSTILE).waitFor();
		const [bundle] = await get(`/bundle?app_id=${APP}&version=2.0.0`);
		expect(bundle).toMatchObject({ name: "2.0.0", size: zipOf(0).length, comment: HOSTILE });
		await expectSound(admin);
	});

	test("goes on with an upload that was broken off, after the page was loaded anew", async () => {
		const { page } = admin;
		const zip = zipOf(20_000_000);
		const fill = async () => {
			await admin.open(`/apps/${APP}/bundles`, "Bundles");
			await button("Upload a bundle").click();
			await page
				.locator("input[type=file]")
				.setInputFiles({ name: "large.zip", mimeType: "application/zip", buffer: zip });
			await page.getByLabel("Version").fill("2.1.0");
			await button("Upload").click();
		};
		const offsets: string[] = [];
		page.on("request", (request) => {
			if (request.method() === "PATCH") offsets.push(request.headers()["upload-offset"] ?? "");
		});
		// The second piece never arrives.
		await page.route("**/files/upload/attachments/*", (route) =>
			route.request().headers()["upload-offset"] === "16777216" ? route.abort() : route.continue(),
		);
		await fill();
		await expect.poll(() => offsets.includes("16777216")).toBe(true);
		// The page tries it again: it must be gone before a piece could come through.
		await page.goto("about:blank");
		await page.unroute("**/files/upload/attachments/*");
		offsets.length = 0;
		admin.complaints.length = 0;
		await fill();
		await page.getByRole("heading", { level: 1, name: "2.1.0" }).waitFor();
		// Nothing was sent twice.
		expect(offsets).toEqual(["16777216"]);
		const [bundle] = await get(`/bundle?app_id=${APP}&version=2.1.0`);
		expect(bundle).toMatchObject({ size: zip.length });
	});

	test("registers a bundle anew that was deleted while its upload was broken off", async () => {
		const { page } = admin;
		const fill = async () => {
			await admin.open(`/apps/${APP}/bundles`, "Bundles");
			await button("Upload a bundle").click();
			await page
				.locator("input[type=file]")
				.setInputFiles({ name: "gone.zip", mimeType: "application/zip", buffer: zipOf(0) });
			await page.getByLabel("Version").fill("2.2.0");
			await button("Upload").click();
		};
		let pieces = 0;
		await page.route("**/files/upload/attachments/*", (route) => {
			if (route.request().method() !== "PATCH") return route.continue();
			pieces++;
			return route.abort();
		});
		await fill();
		await expect.poll(() => pieces).toBeGreaterThan(0);
		await button("Stop for now").click();
		await page.unroute("**/files/upload/attachments/*");
		expect((await stage.product.api("DELETE", `/bundle?app_id=${APP}&version=2.2.0`)).status).toBe(200);
		admin.complaints.length = 0;
		await fill();
		await page.getByRole("heading", { level: 1, name: "2.2.0" }).waitFor();
		expect(await get(`/bundle?app_id=${APP}&version=2.2.0`)).toMatchObject([{ size: zipOf(0).length }]);
		await stage.product.api("DELETE", `/bundle?app_id=${APP}&version=2.2.0`);
	});

	test("says what the API refuses of an upload", async () => {
		await admin.open(`/apps/${APP}/bundles`, "Bundles");
		await button("Upload a bundle").click();
		await admin.page
			.locator("input[type=file]")
			.setInputFiles({ name: "other.zip", mimeType: "application/zip", buffer: zipOf(10) });
		await admin.page.getByLabel("Version").fill("2.0.0");
		await button("Upload").click();
		await admin.page.getByRole("alert").getByText("already").waitFor();
	});

	test("compares two bundles, and deletes one that no channel uses", async () => {
		await admin.open(`/apps/${APP}/bundles/2.0.0`, "2.0.0");
		await choose("With the bundle", "1.0.0");
		await button("Compare").click();
		await admin.page.getByRole("region", { name: "2.0.0 compared to 1.0.0" }).waitFor();
		await expectSound(admin);
		await button("Delete").click();
		await button("Delete bundle").click();
		await admin.page.getByRole("heading", { level: 1, name: "Bundles" }).waitFor();
		expect(await get(`/bundle?app_id=${APP}&version=2.0.0`)).toEqual([]);
		await admin.open(`/apps/${APP}/bundles/1.0.0`, "1.0.0");
		await button("Delete").click();
		// The service refuses it before it is done, and says which channel needs the bundle.
		await admin.page
			.getByRole("dialog")
			.getByRole("alert")
			.getByText(/still used by .*production/)
			.waitFor();
		expect(await button("Delete bundle").isDisabled()).toBe(true);
	});

	test("names the unused bundles before it deletes them", async () => {
		await admin.open(`/apps/${APP}/bundles`, "Bundles");
		await button("Delete unused ones").click();
		await admin.page.getByRole("dialog").getByText("2.1.0").waitFor();
		await expectSound(admin);
		await button("Delete unused bundles").click();
		await expect
			.poll(async () => (await get(`/bundle?app_id=${APP}`)).map(({ name }: { name: string }) => name))
			.toEqual(["1.1.0", "1.0.0"]);
	});

	test("finds a device, explains what it gets, and sets a bundle for it alone", async () => {
		await admin.open(`/apps/${APP}/devices`, "Devices");
		await admin.page.getByLabel("Platform").selectOption("ios");
		await button("Filter").click();
		await expect.poll(() => admin.page.getByRole("region", { name: "Devices" }).getByRole("row").count()).toBe(4);
		await expectSound(admin);
		await admin.page.getByLabel("Device id").fill(deviceId(0));
		await button("Open device").click();
		await admin.page.getByText("At its next check it gets nothing").waitFor();
		// There is no override to remove.
		expect(await button("Remove override").count()).toBe(0);
		const waits: (string | undefined)[] = [];
		admin.page.on("request", (request) => {
			if (["POST", "DELETE"].includes(request.method()) && new URL(request.url()).pathname === "/device")
				waits.push(request.headers()["x-capstan-wait"]);
		});
		await button("Set channel or bundle").click();
		await choose("Bundle", "1.1.0");
		await expectSound(admin);
		await button("Set").click();
		await admin.page.getByText("Waiting until every part of the service knows").waitFor();
		await admin.page
			.getByText("At its next check it gets 1.1.0, because bundle 1.1.0 is set for this device.")
			.waitFor();
		// Rules that found nothing are folded away.
		const passed = admin.page.getByText(/^\d+ rules passed$/);
		const rule = admin.page.getByText("Not older than the store build");
		expect(await rule.isVisible()).toBe(false);
		await passed.click();
		await rule.waitFor();
		await expectSound(admin);
		await button("Remove override").click();
		const goes = admin.page.getByRole("dialog").getByRole("listitem");
		await expect.poll(() => goes.allInnerTexts()).toEqual(["the bundle 1.1.0"]);
		await button("Remove").click();
		await admin.page.getByText("At its next check it gets nothing").waitFor();
		expect(await get(`/device?app_id=${APP}&device_id=${deviceId(0)}`)).toMatchObject({ override_version: null });
		await button("Remove override").waitFor({ state: "detached" });
		await button("Set channel or bundle").click();
		await admin.page.getByRole("textbox", { name: "Channel" }).fill("beta");
		await button("Set").click();
		await button("Remove override").waitFor();
		// Whose channel was set stands in the list.
		await admin.open(`/apps/${APP}/devices`, "Devices");
		const set = admin.page.getByRole("row").filter({ hasText: "Channel set: beta" });
		await set.getByRole("link", { name: deviceId(0) }).waitFor();
		expect(await admin.page.getByText(/ set: /).count()).toBe(1);
		await set.getByRole("link").click();
		// A channel alone can be removed as well.
		await button("Remove override").click();
		await button("Remove").click();
		await button("Remove override").waitFor({ state: "detached" });
		expect(waits).toEqual(["visible", "visible", "visible", "visible"]);
	});

	test("marks a channel that no device can get its bundle from, and says the remedy on the device, too", async () => {
		const channel = "misconfigured";
		const device = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d70";
		const body = { app_id: APP, channel, version: "1.1.0", allow_device_self_set: true };
		await stage.product.api("POST", "/channel", { ...body, allow_prod: false, allow_dev: false });
		const build = { version_name: "builtin", version_build: "1.0.0", plugin_version: "8.51.23" };
		const asking = { app_id: APP, device_id: device, platform: "ios", defaultChannel: channel };
		await stage.product.api("POST", "/updates", { ...asking, ...build });
		const query = `app_id=${APP}&device_id=${device}`;
		await expect.poll(async () => (await get(`/device?${query}`)).channel).toBe(channel);
		const message =
			"Channel misconfigured is off for production builds and for development builds, so no device gets bundle 1.1.0. Turn on allow_prod or allow_dev.";
		await admin.open(`/apps/${APP}/channels`, "Channels");
		const row = admin.page.getByRole("row").filter({ hasText: message });
		await row.getByText("Misconfigured", { exact: true }).waitFor();
		await expectSound(admin);
		await row.getByRole("link", { name: channel }).click();
		await admin.page.getByRole("alert").getByText(message).waitFor();
		await expectSound(admin);
		await admin.open(`/apps/${APP}/devices/${device}`, "Device");
		await admin.page
			.getByText("At its next check it gets nothing, because channel misconfigured is off for production builds.")
			.waitFor();
		await admin.page.getByRole("alert").getByText("Turn on allow_prod on channel misconfigured.").waitFor();
		await expectSound(admin);
		await stage.product.api("DELETE", `/channel?app_id=${APP}&channel=${channel}`);
	});

	test("finds devices by the id that their app gave them", async () => {
		const named = { app_id: APP, device_id: deviceId(8), platform: "ios", custom_id: "Ada & Co" };
		const build = { version_name: "builtin", version_build: "1.0.0", plugin_version: "8.51.23" };
		await stage.product.api("POST", "/updates", { ...named, ...build });
		await expect.poll(async () => (await get(`/device?app_id=${APP}&custom_id=Ada%20%26%20Co`)).length).toBe(1);
		await admin.open(`/apps/${APP}/devices`, "Devices");
		await admin.page.getByLabel("Custom id").fill("Ada & Co");
		await button("Filter").click();
		const rows = admin.page.getByRole("region", { name: "Devices" }).getByRole("row");
		await expect.poll(() => rows.count()).toBe(2);
		await admin.page.getByRole("link", { name: "Ada & Co" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Ada & Co" }).waitFor();
	});

	test("offers to remove the override of a device that was never seen, and nothing where there is none", async () => {
		const query = `app_id=${APP}&device_id=${deviceId(7)}`;
		await stage.product.api("POST", "/device", { app_id: APP, device_id: deviceId(7), channel: "beta" });
		await admin.open(`/apps/${APP}/devices/${deviceId(7)}`, "Device");
		await button("Remove override").waitFor();
		await stage.product.api("DELETE", `/device?${query}`);
		await admin.page.reload();
		await admin.page.getByText("Never", { exact: true }).waitFor();
		await admin.page.waitForLoadState("networkidle");
		expect(await button("Remove override").count()).toBe(0);
	});

	test("says of a device that was never seen what can be done for it", async () => {
		await admin.open(`/apps/${APP}/devices/${deviceId(9)}`, "Device");
		await admin.page.getByText("This device was not seen yet").waitFor();
		await expectSound(admin);
	});

	test("lets a member look at everything and offers nothing that they may not do", async () => {
		const member = await stage.member("org_member", "looker@example.com");
		for (const [path, heading] of [
			["channels", "Channels"],
			["channels/production", "production"],
			["bundles", "Bundles"],
			["bundles/1.0.0", "1.0.0"],
			["devices", "Devices"],
			[`devices/${deviceId(1)}`, "Device"],
		] as const) {
			await member.open(`/apps/${APP}/${path}`, heading);
			await member.page.waitForLoadState("networkidle");
			// The page with what only others may do.
			const offered = await member.page.getByRole("main").getByRole("button").allInnerTexts();
			expect(offered.filter((name) => /new|upload|delete|promote|edit|set|pause/i.test(name))).toEqual([]);
			await expectSound(member);
		}
		member.leave();
	});
});
