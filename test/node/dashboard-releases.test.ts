/**
 * Releasing from the dashboard in a real browser: channels, bundles and devices, as an
 * administrator and as a member with read access. Each message of the page is compared with the API
 * afterwards.
 */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { deviceId, HOSTILE, newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { makeZip, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: releasing from the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("releasing from the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const get = async (path: string) => (await stage.product.api("GET", path)).body;
	const channelNamed = (name: string) => get(`/channel?app_id=${stage.app}&channel=${encodeURIComponent(name)}`);
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const dialogButton = (name: string) => admin.page.getByRole("dialog").getByRole("button", { name, exact: true });
	const choose = async (label: string, version: string) => {
		await admin.page.getByRole("combobox", { name: label }).fill(version);
		await admin.page.getByRole("listbox").getByRole("option", { name: version }).first().click();
	};

	test("creates a channel, changes it and lists the changes", async () => {
		await admin.open(`/apps/${stage.app}/channels`, "Channels");
		await expectSound(admin);
		await button("New channel").click();
		await admin.page.getByLabel("Name").fill("feature/7 @ home");
		await admin.page.getByRole("switch", { name: "Electron" }).uncheck();
		await button("Create channel").click();
		await admin.page.getByRole("heading", { level: 1, name: "feature/7 @ home" }).waitFor();
		expect(await channelNamed("feature/7 @ home")).toMatchObject({ electron: false, ios: true, public: false });
		// A name with every special character of URLs survives a reload.
		await admin.page.reload();
		await admin.page.getByRole("heading", { level: 1, name: "feature/7 @ home" }).waitFor();
		await button("Edit channel").click();
		await admin.page.getByRole("switch", { name: "Devices can join" }).check();
		await button("Save channel").click();
		await admin.page.getByRole("dialog").waitFor({ state: "detached" });
		await expect.poll(() => channelNamed("feature/7 @ home")).toMatchObject({ allow_device_self_set: true });
		await button("Everything").click();
		await admin.page.getByText("changed Devices can join of").waitFor();
		// The choice is in the address.
		await admin.page.reload();
		await admin.page.getByText("changed Devices can join of").waitFor();
		await expectSound(admin);
	});

	test("releases a bundle after showing which devices would get it, and rolls back", async () => {
		await admin.open(`/apps/${stage.app}/channels/production`, "production");
		await button("Release").click();
		await choose("Bundle", "1.1.0");
		await admin.page.getByText("6 of 6 devices will change version").waitFor();
		expect(await channelNamed("production")).toMatchObject({ version: { name: "1.0.0" } });
		await expectSound(admin);
		await dialogButton("Release 1.1.0 to production").click();
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
		// A rollback can be taken back while its message is shown.
		await button("Undo: release 1.1.0 again").click();
		await expect.poll(() => channelNamed("production")).toMatchObject({ version: { name: "1.1.0" } });
		await admin.page.getByText("1.1.0 is live on production again.").waitFor();
		await stage.product.api("POST", "/channel", { app_id: stage.app, channel: "production", version: "1.0.0" });
	});

	test("offers no rollback to a deleted bundle, and reports a bundle that is deleted while the dialog is open", async () => {
		const { product } = stage;
		for (const version of ["1.4.0", "1.4.1", "1.4.2"]) await uploadProductBundle(product, stage.app, version);
		const post = (fields: object) =>
			product.api("POST", "/channel", { app_id: stage.app, channel: "history", ...fields });
		for (const version of ["1.4.0", "1.4.1", "1.4.2"]) await post({ version });
		await product.api("DELETE", `/bundle?app_id=${stage.app}&version=1.4.0`);
		await admin.open(`/apps/${stage.app}/channels/history`, "history");
		await admin.page.getByText("Bundle deleted").waitFor();
		expect(await button("Roll back to 1.4.0").count()).toBe(0);
		await product.api("DELETE", `/bundle?app_id=${stage.app}&version=1.4.1`);
		await button("Roll back to 1.4.1").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("1.4.1 was deleted").waitFor();
		expect(await dialog.getByRole("button", { name: "Roll back to 1.4.1" }).isDisabled()).toBe(true);
		await product.api("DELETE", `/channel?app_id=${stage.app}&channel=history&delete_bundle=true`);
	});

	test("sets how long unused bundles are kept", async () => {
		await admin.open(`/apps/${stage.app}/settings`, "Settings");
		await admin.page.getByLabel("Forever").check();
		await admin.page.getByLabel("Former bundles to keep per channel").fill("7");
		await button("Save retention").click();
		await expect.poll(() => get(`/app/${stage.app}`)).toMatchObject({ retention: 0, keep_live_bundles: 7 });
		await admin.page.getByLabel("For a number of days").check();
		await admin.page.getByRole("textbox", { name: "Days" }).fill("30");
		await admin.page.getByLabel("Former bundles to keep per channel").fill("5");
		await button("Save retention").click();
		await expect.poll(() => get(`/app/${stage.app}`)).toMatchObject({ retention: 2_592_000, keep_live_bundles: 5 });
	});

	test("rolls a bundle out to a share, raises it, pauses it and rolls it back", async () => {
		await uploadProductBundle(stage.product, stage.app, "1.3.0");
		await admin.open(`/apps/${stage.app}/channels/pr-128`, "pr-128");
		await button("Release").click();
		await choose("Bundle", "1.3.0");
		await admin.page.getByRole("radio", { name: "To a share of the devices" }).check();
		await admin.page.getByLabel("Share of devices, in %").fill("20");
		await button("Release 1.3.0 to pr-128").click();
		await admin.page.getByText("Rolling out 1.3.0 to 20 %").waitFor();
		await button("Change share").click();
		await admin.page.getByLabel("Share of devices, in %").fill("50");
		await button("Set share").click();
		await admin.page.getByText("Rolling out 1.3.0 to 50 %").waitFor();
		await button("Pause rollout").click();
		await button("Resume rollout").waitFor();
		expect((await channelNamed("pr-128")).rolloutPausedAt).not.toBeNull();
		await expectSound(admin);
		await button("Roll back to 1.2.0-pr.128").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("devices that run 1.3.0 get 1.2.0-pr.128 again").waitFor();
		await dialog.getByRole("button", { name: "Roll back to 1.2.0-pr.128" }).click();
		await admin.page.getByText("Last rollout: 1.3.0, rolled back.").waitFor();
		expect((await channelNamed("pr-128")).rollout_version).toBeNull();
		await stage.product.api("DELETE", `/bundle?app_id=${stage.app}&version=1.3.0`);
	});

	test("deletes a channel with its bundle, and names both first", async () => {
		await admin.open(`/apps/${stage.app}/channels/pr-128`, "pr-128");
		await button("Delete channel").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("the channel pr-128 and its settings").waitFor();
		await dialog.getByLabel("Delete the bundle 1.2.0-pr.128 too").check();
		// The same text as the dry run of the service.
		await dialog.getByText(/^the bundle 1\.2\.0-pr\.128 with its \d+ B of files; no known device runs it$/).waitFor();
		await dialog.getByRole("button", { name: "Delete channel" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		expect((await stage.product.api("GET", `/channel?app_id=${stage.app}&channel=pr-128`)).status).toBe(404);
		expect(await get(`/bundle?app_id=${stage.app}&version=1.2.0-pr.128`)).toEqual([]);
	});

	test("names the bundle of a rollout among what a channel takes with it, also on a channel without a live bundle", async () => {
		const { product } = stage;
		for (const version of ["3.0.0", "3.1.0"]) await uploadProductBundle(product, stage.app, version);
		await product.api("POST", "/channel", {
			app_id: stage.app,
			channel: "both",
			version: "3.0.0",
			rolloutVersion: "3.1.0",
			rolloutEnabled: true,
			rolloutPercentage: 25,
		});
		await product.api("POST", "/device", { app_id: stage.app, device_id: deviceId(8), channel: "both" });
		await admin.open(`/apps/${stage.app}/channels/both`, "both");
		await button("Delete channel").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("the rollout of 3.1.0; the bundle is kept").waitFor();
		await dialog.getByText("the channel of 1 known device;").waitFor();
		await dialog.getByLabel("Delete the bundles 3.0.0 and 3.1.0 too").check();
		await dialog.getByText("the bundle 3.1.0").waitFor();
		await expect.poll(() => dialog.getByText("the bundle is kept").count()).toBe(0);
		const going = (await dialog.getByRole("listitem").allInnerTexts()).filter((text) => text.startsWith("the bundle"));
		expect(going).toEqual([
			expect.stringMatching(/^the bundle 3.0.0 with its \d+ B of files; no known device runs it$/),
			expect.stringMatching(/^the bundle 3.1.0 with its \d+ B of files; no known device runs it$/),
		]);
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Delete channel" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		for (const version of ["3.0.0", "3.1.0"]) {
			expect(await get(`/bundle?app_id=${stage.app}&version=${version}`)).toEqual([]);
		}

		await uploadProductBundle(product, stage.app, "3.2.0");
		await product.api("POST", "/channel", {
			app_id: stage.app,
			channel: "rollout only",
			rolloutVersion: "3.2.0",
			rolloutEnabled: true,
			rolloutPercentage: 25,
		});
		await admin.open(`/apps/${stage.app}/channels/rollout%20only`, "rollout only");
		await button("Delete channel").click();
		await dialog.getByLabel("Delete the bundle 3.2.0 too").check();
		await dialog.getByRole("button", { name: "Delete channel" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Channels" }).waitFor();
		expect(await get(`/bundle?app_id=${stage.app}&version=3.2.0`)).toEqual([]);
	});

	const zipOf = (sizeBytes: number) =>
		Buffer.from(makeZip("9.0.0", sizeBytes === 0 ? {} : { "large.bin": randomBytes(sizeBytes) }));

	test("uploads a bundle with its checksum", async () => {
		await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
		await button("Upload bundle").click();
		await admin.page
			.locator("input[type=file]")
			.setInputFiles({ name: "app.zip", mimeType: "application/zip", buffer: zipOf(0) });
		await admin.page.getByLabel("Version").fill("2.0.0");
		await admin.page.getByLabel("Note (optional)").fill(HOSTILE);
		await expectSound(admin);
		await dialogButton("Upload bundle").click();
		await admin.page.getByRole("heading", { level: 1, name: "2.0.0" }).waitFor();
		await admin.page.locator(".bundle-notes").getByText(HOSTILE).waitFor();
		const [bundle] = await get(`/bundle?app_id=${stage.app}&version=2.0.0`);
		expect(bundle).toMatchObject({ name: "2.0.0", size: zipOf(0).length, comment: HOSTILE });
		await expectSound(admin);
	});

	test("resumes an interrupted upload after the page was reloaded", async () => {
		const { page } = admin;
		const zip = zipOf(20_000_000);
		const fill = async () => {
			await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
			await button("Upload bundle").click();
			await page
				.locator("input[type=file]")
				.setInputFiles({ name: "large.zip", mimeType: "application/zip", buffer: zip });
			await page.getByLabel("Version").fill("2.1.0");
			await dialogButton("Upload bundle").click();
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
		// The page retries it, so it must be gone before a piece could arrive.
		await page.goto("about:blank");
		await page.unroute("**/files/upload/attachments/*");
		offsets.length = 0;
		admin.complaints.length = 0;
		await fill();
		await page.getByRole("heading", { level: 1, name: "2.1.0" }).waitFor();
		// Nothing was sent twice.
		expect(offsets).toEqual(["16777216"]);
		const [bundle] = await get(`/bundle?app_id=${stage.app}&version=2.1.0`);
		expect(bundle).toMatchObject({ size: zip.length });
	});

	test("registers a bundle again that was deleted while its upload was interrupted", async () => {
		const { page } = admin;
		const fill = async () => {
			await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
			await button("Upload bundle").click();
			await page
				.locator("input[type=file]")
				.setInputFiles({ name: "gone.zip", mimeType: "application/zip", buffer: zipOf(0) });
			await page.getByLabel("Version").fill("2.2.0");
			await dialogButton("Upload bundle").click();
		};
		let pieces = 0;
		await page.route("**/files/upload/attachments/*", (route) => {
			if (route.request().method() !== "PATCH") return route.continue();
			pieces++;
			return route.abort();
		});
		await fill();
		await expect.poll(() => pieces).toBeGreaterThan(0);
		await button("Stop upload").click();
		await page.unroute("**/files/upload/attachments/*");
		expect((await stage.product.api("DELETE", `/bundle?app_id=${stage.app}&version=2.2.0`)).status).toBe(200);
		admin.complaints.length = 0;
		await fill();
		await page.getByRole("heading", { level: 1, name: "2.2.0" }).waitFor();
		expect(await get(`/bundle?app_id=${stage.app}&version=2.2.0`)).toMatchObject([{ size: zipOf(0).length }]);
		await stage.product.api("DELETE", `/bundle?app_id=${stage.app}&version=2.2.0`);
	});

	test("shows why the API refuses an upload", async () => {
		await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
		await button("Upload bundle").click();
		await admin.page
			.locator("input[type=file]")
			.setInputFiles({ name: "other.zip", mimeType: "application/zip", buffer: zipOf(10) });
		await admin.page.getByLabel("Version").fill("2.0.0");
		await dialogButton("Upload bundle").click();
		await admin.page.getByRole("alert").getByText("already").waitFor();
	});

	test("compares two bundles, and deletes one that no channel uses", async () => {
		await admin.open(`/apps/${stage.app}/bundles/2.0.0`, "2.0.0");
		// Parts that still load move the list of versions.
		await admin.page.waitForLoadState("networkidle");
		await choose("Compare with", "1.0.0");
		await button("Compare").click();
		await admin.page.getByRole("region", { name: "2.0.0 compared with 1.0.0" }).waitFor();
		await admin.page.getByText(/^From 1\.0\.0 to 2\.0\.0: \d+ added, \d+ changed, \d+ removed\.$/).waitFor();
		await admin.page.getByRole("region", { name: "Files that differ" }).getByText("index.html").waitFor();
		expect(admin.page.url()).toContain("with=1.0.0");
		await expectSound(admin);
		await button("Delete bundle").click();
		await dialogButton("Delete bundle").click();
		await admin.page.getByRole("heading", { level: 1, name: "Bundles" }).waitFor();
		expect(await get(`/bundle?app_id=${stage.app}&version=2.0.0`)).toEqual([]);
		await admin.open(`/apps/${stage.app}/bundles/1.0.0`, "1.0.0");
		await button("Delete bundle").click();
		// The service refuses the deletion and names the channel that needs the bundle.
		await admin.page
			.getByRole("dialog")
			.getByRole("alert")
			.getByText(/still used by .*production/)
			.waitFor();
		expect(await dialogButton("Delete bundle").isDisabled()).toBe(true);
	});

	test("names the unused bundles before it deletes them", async () => {
		await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
		await button("Delete unused bundles").click();
		await admin.page.getByRole("dialog").getByText("2.1.0").waitFor();
		await expectSound(admin);
		await dialogButton("Delete unused bundles").click();
		await expect
			.poll(async () => (await get(`/bundle?app_id=${stage.app}`)).map(({ name }: { name: string }) => name))
			.toEqual(["1.1.0", "1.0.0"]);
	});

	test("lets a member read everything and offers no forbidden action", async () => {
		const member = await stage.member("org_member", "looker@example.com");
		for (const [path, heading] of [
			["channels", "Channels"],
			["channels/production", "production"],
			["bundles", "Bundles"],
			["bundles/1.0.0", "1.0.0"],
			["devices", "Devices"],
			[`devices/${deviceId(1)}`, "Device"],
		] as const) {
			await member.open(`/apps/${stage.app}/${path}`, heading);
			await member.page.waitForLoadState("networkidle");
			// None of the actions that a member may not do. A filter named "Deleted" is none.
			const offered = await member.page.getByRole("main").locator("button:not(.filter-chip)").allInnerTexts();
			expect(offered.filter((name) => /new|upload|delete|promote|edit|set|pause/i.test(name))).toEqual([]);
			expect(member.complaints).toEqual([]);
		}
		member.leave();
	});
});
