/**
 * An organization from the dashboard in a real browser: deletion, audit log, statistics,
 * apps and their connection to CI; as an administrator and as a member with few rights.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { commandOf } from "./support/ci-steps";
import { deviceId, HOSTILE, newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { uploadProductBundle } from "./support/product";

if (chromium === undefined)
	console.log("skipped: an organization from the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("an organization from the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(() => admin?.leave());

	const get = async (path: string, key?: string) => (await stage.product.api("GET", path, undefined, key)).body;
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });

	test("names everything that an organization loses before its deletion, and restores it", async () => {
		const { body } = await stage.product.api("PUT", "/organization", { name: "Short-lived" });
		const visitor = await stage.admin();
		await visitor.open(`/organizations/${body.id}/settings`, "Organization settings");
		const { page } = visitor;
		await page.getByRole("button", { name: "Delete Short-lived" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("0 apps").waitFor();
		expect(await dialog.getByRole("button", { name: "Delete organization" }).isDisabled()).toBe(true);
		await dialog.getByLabel("Type Short-lived to confirm").fill("Short-lived");
		await expectSound(visitor);
		await dialog.getByRole("button", { name: "Delete organization" }).click();
		await page.getByText("Short-lived is deleted").waitFor();
		expect((await stage.product.api("GET", `/organization?orgId=${body.id}`)).status).toBe(404);
		await page.getByRole("button", { name: "Undo" }).click();
		await expect.poll(async () => (await stage.product.api("GET", `/organization?orgId=${body.id}`)).status).toBe(200);
		visitor.leave();
	});

	test("shows a deleted organization until its purge, to everyone who may restore it", async () => {
		const { body } = await stage.product.api("PUT", "/organization", { name: HOSTILE });
		const { body: gone } = await stage.product.api("DELETE", `/organization?orgId=${body.id}`);
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open("/organizations", "Organizations");
		const deleted = page.getByRole("region", { name: "Deleted organizations" });
		await deleted.getByText(HOSTILE).waitFor();
		expect(await deleted.locator("time").last().getAttribute("datetime")).toBe(gone.restorable_until);
		await expectSound(visitor);
		await page.getByRole("button", { name: `Undo the deletion of ${HOSTILE}` }).click();
		await page.getByText(`${HOSTILE} is restored.`).waitFor();
		await page.getByRole("link", { name: HOSTILE }).waitFor();
		await deleted.waitFor({ state: "detached" });
		expect((await get(`/organization?orgId=${body.id}`)).name).toBe(HOSTILE);
		await expectSound(visitor);
		visitor.leave();
	});

	test("filters the audit log and exports it", async () => {
		await admin.open(`${at}/changes`, "Activity");
		const rows = admin.page.getByRole("list", { name: "Changes" }).getByRole("listitem");
		await admin.page.getByLabel("Filter changes").fill("CHANNEL.CREA");
		await expect.poll(() => rows.count()).toBe(4);
		await rows
			.first()
			.getByRole("button", { name: /^Details: / })
			.click();
		await rows.first().getByText("channel.create", { exact: true }).waitFor();
		await expectSound(admin);
		const file = await admin.page.getByRole("link", { name: "Download NDJSON" }).getAttribute("href");
		const response = await admin.context.request.get(`${stage.origin}${file}`);
		expect((await response.text()).trim().split("\n")).toHaveLength(4);
		await admin.open(`/apps/${stage.app}/changes`, "Activity");
		await admin.page.getByText("changed Name of").first().waitFor();
	});

	test("answers with each figure, draws it for any days, and reads it out day by day", async () => {
		for (const [path, figures] of [
			[`/apps/${stage.app}/statistics`, 8],
			[`${at}/statistics`, 6],
		] as const) {
			await admin.open(path, "Statistics");
			const { page } = admin;
			const tabs = page.getByRole("tab");
			await expect.poll(() => tabs.count()).toBe(figures);
			for (let index = 0; index < figures; index++) {
				await tabs.nth(index).click();
				await expect.poll(() => tabs.nth(index).getAttribute("aria-selected")).toBe("true");
				expect(await page.getByRole("tabpanel").locator("p").first().innerText()).toMatch(/\.$/);
			}
			await page.getByRole("tab", { name: /^Active devices/ }).click();
			await button("7 d").click();
			const chart = page.getByRole("application", { name: /^Line chart of/ });
			await chart.focus();
			await page.keyboard.press("End");
			const today = new Date().getUTCDate();
			await page
				.locator("[aria-live=polite]", { hasText: new RegExp(`, ${today} .*Active devices each day [1-9]`) })
				.waitFor();
			await page.keyboard.press("Home");
			await page.locator("[aria-live=polite]", { hasText: /Active devices each day 0/ }).waitFor();
			await button("Show as table").click();
			await expect
				.poll(() =>
					page
						.getByRole("region", { name: /as a table$/ })
						.getByRole("row")
						.count(),
				)
				.toBe(8);
			expect(page.url()).toContain("days=7");
			await expectSound(admin);
			const download = page.waitForEvent("download");
			await button("Download CSV").click();
			expect((await download).suggestedFilename()).toMatch(/devices-.*\.csv$/);
		}
	});

	test("explains how to connect an app and its CI, and shows when both are connected", async () => {
		const appId = "com.example.fresh";
		await stage.product.api("POST", "/app", { app_id: appId, name: "Fresh", owner_org: stage.product.orgId });
		await admin.open(`/apps/${appId}/connect`, "Setup");
		await admin.page.getByText("0 of 6 done").waitFor();
		await admin.page.getByText("Waiting for the first device").waitFor();
		await admin.page.getByText("Waiting for the first upload").waitFor();
		const steps = admin.page.getByRole("list", { name: "Setup" }).locator("> li");
		await steps.locator(".step-body").waitFor();
		expect(await steps.locator(".step-body").count(), "only the next step is open").toBe(1);
		await button("Show: Point the app at this server").click();
		await admin.page.getByText(`"updateUrl": "${stage.origin}/updates"`).waitFor();
		await button("Show: Release from your CI").click();
		await admin.page.getByText(`capstan.tgz init --server ${stage.origin} --app ${appId} --ci github`).waitFor();
		const { pathname } = new URL(await commandOf(stage.product));
		await admin.page.getByText(`npx --yes ${stage.origin}${pathname} preview upload dist --server`).waitFor();
		await expectSound(admin);
		await admin.page.getByLabel("Command").selectOption("capgo");
		await admin.page.getByText(`bundle upload ${appId}`).waitFor();
		// No device was seen yet, so the page asks for the store version.
		const storeVersion = admin.page.getByLabel("Newest store version");
		await admin.page.getByText("No device yet. Enter the version of your newest store build.").waitFor();
		await storeVersion.fill("10.0.1");
		await admin.page.getByText('--bundle "10.$(date').waitFor();
		await admin.page.getByText("These releases reach every store build 10.x").waitFor();
		await storeVersion.fill("ten");
		await admin.page.getByText("Enter a version such as 2.3.0.").waitFor();
		expect(await admin.page.getByText("bundle upload").count()).toBe(0);
		await storeVersion.fill("10.0.1");
		await admin.page.getByLabel("CI system").selectOption("gitlab");
		await admin.page.getByText("resource_group: release").waitFor();
		await admin.page.getByLabel("Trigger").selectOption("preview");
		await admin.page.getByText("curl -sS -X DELETE").waitFor();
		await expectSound(admin);
		await uploadProductBundle(stage.product, appId, "1.0.0");
		await admin.page.getByText("Newest upload with a key: 1.0.0").waitFor();
		await admin.page.getByText("1 of 6 done").waitFor();
		await stage.product.api("POST", "/updates", {
			app_id: appId,
			device_id: deviceId(0),
			platform: "ios",
			version_name: "builtin",
			version_build: "2.3.0",
			plugin_version: "8.51.23",
		});
		await admin.page.getByText("First device:").waitFor();
		await admin.page.getByText("Version 8.51.23 reports from ios.").waitFor();
		await admin.page.getByText("3 of 6 done").waitFor();
		// A device whose start of a bundle was reported, and a channel that has one.
		await stage.product.api("POST", "/channel", {
			app_id: appId,
			channel: "strict",
			version: "1.0.0",
			disableAutoUpdate: "minor",
		});
		await stage.product.api("POST", "/updates", {
			app_id: appId,
			device_id: deviceId(1),
			platform: "android",
			version_name: "1.0.0",
			version_build: "2.3.0",
			plugin_version: "8.51.23",
		});
		await admin.page.getByText("A device runs 1.0.0, so its start was reported.").waitFor();
		await admin.page.getByText("strict has 1.0.0.").waitFor();
		await admin.page.getByText("5 of 6 done").waitFor();
		expect(await steps.locator(".step-number .sr").count()).toBe(5);
		await expectSound(admin);
		// The page knows the newest store version now. Nothing opens by itself while facts are missing.
		let answer = () => {};
		const isHeld = new Promise<void>((resolve) => {
			answer = resolve;
		});
		await admin.page.route(/\/bundle\?/, async (route) => {
			await isHeld;
			await route.continue();
		});
		await admin.open(`/apps/${appId}/connect`, "Setup");
		await admin.page.getByText("4 of 6 done").waitFor();
		expect(await steps.locator(".step-body").count()).toBe(0);
		await button("Show: Release from your CI").click();
		answer();
		await admin.page.getByText("5 of 6 done").waitFor();
		await admin.page.unroute(/\/bundle\?/);
		await admin.page.getByLabel("Command").selectOption("capgo");
		await admin.page.getByText("Newest reported version: 2.3.0.").waitFor();
		await admin.page.getByText("These releases reach every store build 2.3.x").waitFor();
		await admin.page.getByText('--bundle "2.3.$(date').waitFor();
	});

	test("changes an app's settings, and names what is deleted with it", async () => {
		await admin.open("/apps/com.example.fresh/settings", "Settings");
		await admin.page.getByRole("textbox", { name: "Name", exact: true }).fill("Fresh paint");
		await button("Save app").click();
		await expect.poll(async () => (await get("/app/com.example.fresh")).name).toBe("Fresh paint");
		await stage.product.api("POST", "/channel", { app_id: "com.example.fresh", channel: "production" });
		await stage.product.api("POST", "/apikey", {
			name: "Reader",
			bindings: [
				{
					role_name: "app_reader",
					scope_type: "app",
					org_id: stage.product.orgId,
					app_id: (await get("/app/com.example.fresh")).id,
				},
			],
		});
		await button("Delete Fresh paint").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("1 bundle,").waitFor();
		expect(await dialog.getByRole("listitem").allInnerTexts()).toEqual([
			// The channel of the previous test, and production.
			"2 channels",
			expect.stringMatching(/^1 bundle, \d+ B$/),
			"its devices and statistics",
			"1 role of members and API keys",
		]);
		await dialog.getByLabel("Type com.example.fresh to confirm").fill("com.example.fresh");
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Delete app" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Apps" }).waitFor();
		expect((await stage.product.api("GET", "/app/com.example.fresh")).status).toBe(404);
	});

	test("restores a deleted app from the list of the organization's apps", async () => {
		await admin.open(`${at}/apps`, "Apps");
		const deleted = admin.page.getByRole("region", { name: "Deleted apps" });
		await deleted.getByText("Fresh paint").waitFor();
		await expectSound(admin);
		await deleted.getByRole("button", { name: "Undo the deletion of Fresh paint" }).click();
		await admin.page.getByRole("link", { name: "Fresh paint" }).waitFor();
		await expect.poll(() => deleted.count()).toBe(0);
		expect(await get("/app/com.example.fresh")).toMatchObject({ name: "Fresh paint" });
	});

	test("offers an app to another organization, which accepts it", async () => {
		const other = (await stage.product.api("PUT", "/organization", { name: "Other company" })).body.id;
		await admin.open("/apps/com.example.fresh/settings", "Settings");
		await button("Offer Fresh paint").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByLabel("Organization").fill(`http://localhost/dashboard/organizations/${other}/apps`);
		await dialog.getByText("1 role that members and API keys have on the app will end: Reader.").waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Offer app" }).click();
		await button("Withdraw offer").waitFor();
		await admin.open(`/organizations/${other}/apps`, "Apps");
		const offered = admin.page.getByRole("region", { name: "Offered apps" });
		await offered.getByText("My organization").waitFor();
		await expectSound(admin);
		await offered.getByRole("button", { name: "Accept com.example.fresh" }).click();
		await admin.page.waitForURL("**/apps/com.example.fresh/releases");
		expect(await get("/app/com.example.fresh")).toMatchObject({ owner_org: other });
	});

	test("shows what the organization holds beside its quotas", async () => {
		await admin.open(`${at}/settings`, "Organization settings");
		// An empty bar has no width, so it counts as hidden.
		for (const name of ["Storage", "Apps", "API keys", "Open invitations"]) {
			await admin.page.getByRole("progressbar", { name, exact: true }).waitFor({ state: "attached" });
		}
		await admin.page
			.getByRole("region", { name: "Usage of apps" })
			.getByRole("link", { name: "Example shop" })
			.waitFor();
		await expectSound(admin);
	});

	test("warns the operator of a database that is 70 or 90 % full, with the remedy", async () => {
		let used = 0.69;
		await admin.page.route("**/service/status", async (route) => {
			const response = await route.fetch();
			const status = await response.json();
			status.database.size_bytes = used * status.database.telemetry_max_bytes;
			await route.fulfill({ response, json: status });
		});
		const notice = () => admin.page.getByRole("alert").filter({ hasText: "The database" });
		for (const [share, title] of [
			[0.69, undefined],
			[0.71, "The database fills up"],
			[0.91, "The database is nearly full"],
		] as const) {
			used = share;
			const answered = admin.page.waitForResponse("**/service/status");
			await admin.open(`${at}/apps`, "Apps");
			await answered;
			if (title === undefined) expect(await notice().count()).toBe(0);
			else {
				await notice().getByText(title).waitFor();
				expect(await notice().innerText()).toContain(`(${Math.round(share * 100)} %)`);
				expect(await notice().innerText()).toContain("Shorten DEVICE_DAYS or STATISTICS_DAYS");
			}
		}
		await admin.page.unroute("**/service/status");
	});

	test("lets a member read, and offers the creator of an app what their role on it grants", async () => {
		const member = await stage.member("org_member", "maker@example.com");
		const { page } = member;
		const asked: string[] = [];
		page.on("request", (request) => asked.push(new URL(request.url()).pathname));
		for (const [path, heading] of [
			[`${at}/members`, "Members"],
			[`${at}/settings`, "Organization settings"],
			[`${at}/statistics`, "Statistics"],
			[`/apps/${stage.app}/connect`, "Setup"],
			[`/apps/${stage.app}/settings`, "Settings"],
		] as const) {
			await member.open(path, heading);
			await page.waitForLoadState("networkidle");
			const offered = await page.getByRole("main").locator("button:not(.sort)").allInnerTexts();
			expect(offered.filter((name) => /invite|role|remove|delete|preview|^save|create/i.test(name))).toEqual([]);
		}
		await member.open(`${at}/keys`, "API keys");
		await page.getByText("No API keys").waitFor();
		await member.open(`${at}/changes`, "Activity");
		await page.getByRole("alert").getByText("org.read_audit").waitFor();
		await expectSound(member);
		await member.open(`${at}/apps`, "Apps");
		await page.getByRole("button", { name: "New app" }).click();
		await page.getByLabel("Name").fill("Mine");
		await page.getByLabel("App id").fill("com.example.mine");
		await page.getByRole("button", { name: "Create app" }).click();
		await page.getByText("Add the updater to your app").waitFor();
		await member.open("/apps/com.example.mine/channels", "Channels");
		await page.getByRole("button", { name: "New channel" }).waitFor();
		await member.open(`/apps/${stage.app}/webhooks`, "Webhooks");
		await page.getByText("Only administrators see webhooks").waitFor();
		await member.open("/apps/com.example.mine/webhooks", "Webhooks");
		await page.getByRole("button", { name: "Add webhook" }).click();
		await page.getByLabel("Address").fill("http://127.0.0.1:9/hook");
		await page.getByLabel("Name").fill("Mine to hear");
		await page.getByLabel("Only these").check();
		await page.getByLabel("Paused rollouts").waitFor();
		expect(await page.getByLabel("Created keys").count()).toBe(0);
		await page.getByLabel("All events").check();
		await page.getByRole("button", { name: "Add", exact: true }).click();
		await page.getByRole("button", { name: "I have saved it" }).click();
		await page.getByRole("link", { name: "Mine to hear" }).click();
		await page.getByText("All events of com.example.mine").waitFor();
		await expectSound(member);
		await page.getByRole("button", { name: "Delete webhook" }).click();
		await page.getByRole("button", { name: "Delete", exact: true }).click();
		await page.getByText("No webhooks yet").waitFor();
		expect(asked).toContain("/account");
		expect(asked, "the state of the installation is for its operator").not.toContain("/service/status");
		member.leave();
	});
});
