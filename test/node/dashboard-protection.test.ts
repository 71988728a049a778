/**
 * Protected channels in a real browser: an administrator protects one, and decides on a waiting
 * promotion. Each message of the page is compared with the API afterwards.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addAuthenticator, chromium } from "./support/browser";
import { devtoolsOf, newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: protection in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("protection in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const get = async (path: string) => (await stage.product.api("GET", path)).body;
	const button = (name: string) => admin.page.getByRole("button", { name, exact: true });
	const screenshot = async (name: string) => {
		const directory = process.env.CAPSTAN_SCREENSHOTS;
		if (directory !== undefined) await admin.page.screenshot({ path: `${directory}/${name}.png`, fullPage: true });
	};

	test("an administrator protects a channel, sees a promotion that waits for approval, rejects it, and lifts the protection", async () => {
		await admin.open(`/apps/${stage.app}/channels/production`, "production");
		await button("Protect channel").click();
		await admin.page.getByRole("switch", { name: "Releases need approval" }).check();
		await admin.page.getByRole("combobox", { name: "API keys and people who can release" }).fill("first admin");
		await admin.page.getByRole("option", { name: "First admin key (API key)" }).click();
		await admin.page.keyboard.press("Tab");
		await expectSound(admin);
		await screenshot("protection-form-1280");
		await button("Save protection").click();
		await admin.page.getByText("Need the approval of another person who may release").waitFor();
		const channel = () => get(`/channel?app_id=${stage.app}&channel=production`);
		expect(await channel()).toMatchObject({
			protected: true,
			requires_approval: true,
			promoters: expect.arrayContaining(["app_admin", "org_admin", "org_super_admin"]),
		});
		expect((await channel()).promoters).toHaveLength(4);
		// Names stand in place of ids.
		await admin.page.getByText(/First admin key \(API key\)$/).waitFor();
		expect(await button("Delete channel").count(), "a protected channel stays").toBe(0);

		const invited = await stage.product.api("POST", "/organization/members", {
			orgId: stage.product.orgId,
			email: "proposer@example.com",
			role: "org_admin",
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const proposer = (await stage.product.api("POST", "/invitation/accept", { token })).body.api_key.key as string;
		const live = (await channel()).version.name as string;
		const version = live === "1.1.0" ? "1.0.0" : "1.1.0";
		const body = { app_id: stage.app, channel: "production", version };
		expect((await stage.product.api("POST", "/channel", body, proposer)).status).toBe(202);
		await admin.page.reload();
		await admin.page.getByText(`Waiting for approval: ${version} for every device`).waitFor();
		await button(`Approve ${version}`).waitFor();
		await expectSound(admin);
		await screenshot("proposal-1280");
		await button("Reject proposal").click();
		await admin.page.getByLabel("Comment").fill("Not before Monday");
		await button(`Reject ${version}`).click();
		await admin.page.getByText("Waiting for approval:").waitFor({ state: "detached" });
		expect((await get(`/proposal?app_id=${stage.app}`))[0]).toMatchObject({
			state: "rejected",
			comment: "Not before Monday",
		});
		expect((await channel()).version.name).toBe(live);

		await button("Edit protection").click();
		await admin.page.getByRole("switch", { name: "Protect this channel" }).uncheck();
		await button("Save protection").click();
		await button("Protect channel").waitFor();
		expect(await channel()).toMatchObject({ protected: false, promoters: [] });
	});

	test("an approver sees what waits on Apps, home, sidebar and phone, and approves it in three acts with a passkey", async () => {
		const { orgId } = stage.product;
		const invited = await stage.product.api("POST", "/organization/members", {
			orgId,
			email: "another-proposer@example.com",
			role: "org_admin",
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const proposer = (await stage.product.api("POST", "/invitation/accept", { token })).body.api_key.key as string;
		const rules = { protected: true, promoters: ["org_admin", "org_super_admin"], requires_approval: true };
		await stage.product.api("POST", "/channel", { app_id: stage.app, channel: "production", ...rules });
		const live = (await get(`/channel?app_id=${stage.app}&channel=production`)).version.name as string;
		const version = live === "1.1.0" ? "1.0.0" : "1.1.0";
		const proposal = { app_id: stage.app, channel: "production", version };
		expect((await stage.product.api("POST", "/channel", proposal, proposer)).status).toBe(202);

		const { page } = admin;
		const authenticator = await devtoolsOf(admin);
		await addAuthenticator(authenticator);
		await admin.open("/account", "Your account");
		await page.getByLabel("Name of a new passkey").fill("Laptop");
		await button("Add passkey").click();
		await button("Rename the passkey Laptop").waitFor();

		await admin.open(`/organizations/${orgId}/apps`, "Apps");
		await page.getByText(`${version} waits for your approval on production`).waitFor();
		await expectSound(admin);
		await screenshot("approval-apps-1280");
		await admin.open(`/apps/${stage.app}/releases`, /./);
		await page.getByText(`${version} waits for your approval on production`).waitFor();
		const channels = page
			.getByRole("navigation", { name: `App ${stage.app}` })
			.getByRole("link", { name: /^Channels/ });
		expect(await channels.textContent()).toBe("Channels1 waits for your approval");
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot("approval-home-1280");

		const dialog = page.getByRole("dialog");
		await page.getByRole("link", { name: `Review ${version}` }).click();
		await dialog.getByText("It takes effect immediately").waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: `Approve ${version}` }).click();
		const confirm = page.getByRole("dialog", { name: "Confirm it's you" });
		await confirm.getByRole("button", { name: /passkey/i }).click();
		await page.getByText(`${version} approved for production.`).waitFor();
		await expect
			.poll(async () => (await get(`/channel?app_id=${stage.app}&channel=production`)).version.name)
			.toBe(version);
		await expect.poll(() => channels.textContent()).toBe("Channels");
		expect((await get(`/proposal?app_id=${stage.app}`))[0]).toMatchObject({ state: "approved" });
	});
});
