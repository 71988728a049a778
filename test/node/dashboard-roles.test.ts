/**
 * Roles below the organization, custom roles and keys of single channels from the dashboard in a
 * real browser, seen by the administrator who gives them and by the person or key that gets them.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound, NOTHING_HERE } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: roles in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("roles in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(() => admin?.leave());

	const send = async (method: string, path: string, body?: object, key?: string) => {
		const answer = await stage.product.api(method, path, body, key);
		if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
		return answer.body;
	};
	const dialog = () => admin.page.getByRole("dialog");
	const button = (name: string | RegExp, { page } = admin) => page.getByRole("button", { name, exact: true });
	const select = (label: string) => admin.page.getByRole("combobox", { name: label, exact: true });
	const options = (label: string) => select(label).locator("option").allInnerTexts();
	const choose = (label: string, option: string) => select(label).selectOption({ label: option });
	const liveOn = async (channel: string) =>
		(await send("GET", `/channel?app_id=${stage.app}&channel=${channel}`)).version.name;
	const bindingsOf = async (email: string) =>
		(await send("GET", `/organization/members/bindings?orgId=${stage.product.orgId}`)).filter(
			(binding: { email: string }) => binding.email === email,
		);
	/** A person who sees the organization, and none of its apps. */
	const outsider = (email: string) => stage.member("org_billing_admin", email);
	const addRole = async (email: string, channel: string, role: string) => {
		await admin.open(`${at}/members`, "Members");
		await button(`Add role for ${email}`).click();
		await choose("App", `Example shop (${stage.app})`);
		await choose("Channel", channel);
		await choose("Role", role);
		await dialog().getByText("They gain").waitFor();
	};

	test("gives a member a role on one channel after naming what they gain, and they release there and see no other", async () => {
		const member = await outsider("beta@example.com");
		await member.open(`${at}/apps`, "Apps");
		await member.page.getByText("No apps yet").waitFor();
		await addRole("beta@example.com", "beta", "Channel developer");
		expect(await options("Role")).toEqual([
			"Choose a role",
			"Channel administrator",
			"Channel developer",
			"Channel reader",
		]);
		for (const gained of ["See channels", "Release bundles", "Change channel settings"]) {
			await dialog().getByText(gained, { exact: true }).waitFor();
		}
		// The dry run gave nothing.
		expect(await bindingsOf("beta@example.com")).toEqual([]);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await dialog().getByRole("button", { name: "Add role" }).click();
		await admin.page.getByText("beta@example.com is now Channel developer on beta of Example shop.").waitFor();
		expect(await bindingsOf("beta@example.com")).toMatchObject([{ role_name: "channel_developer", channel: "beta" }]);
		await admin.page.getByText("Channel developer on beta of Example shop", { exact: true }).waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);

		const { page } = member;
		await member.open(`${at}/apps`, "Apps");
		const listed = page.getByRole("region", { name: "Your channels" }).getByRole("row");
		await listed.nth(1).waitFor();
		expect(await listed.count()).toBe(2);
		await expectSound(member);
		await page.getByRole("link", { name: "beta", exact: true }).click();
		await page.getByRole("heading", { level: 1, name: "beta" }).waitFor();
		await button("Release", member).click();
		await page.getByRole("combobox", { name: "Bundle" }).fill("9.9.9");
		await page.getByRole("radio", { name: "Every device at once" }).check();
		await page.getByRole("dialog").getByRole("button", { name: "Release 9.9.9 to beta" }).click();
		await page.getByText(/no bundle with this version/).waitFor();
		await page.getByRole("combobox", { name: "Bundle" }).fill("1.1.0");
		await expectSound(member);
		await page.getByRole("dialog").getByRole("button", { name: "Release 1.1.0 to beta" }).click();
		await page.getByText("Released 1.1.0 to beta.").waitFor();
		expect(await liveOn("beta")).toBe("1.1.0");
		await expectSound(member);
		await expectFitsPhone(member);
		await page.goto(`${stage.origin}/dashboard/apps/${stage.app}/channels/production`);
		await page.getByText(NOTHING_HERE).waitFor();
		await page.goto(`${stage.origin}/dashboard/apps/${stage.app}/releases`);
		await page.getByText(NOTHING_HERE).waitFor();
		member.leave();
	});

	test("removes the role after naming what they lose, and the channel is gone for them", async () => {
		const member = await outsider("gone@example.com");
		await addRole("gone@example.com", "beta", "Channel reader");
		await dialog().getByRole("button", { name: "Add role" }).click();
		await dialog().waitFor({ state: "detached" });
		const address = `/apps/${stage.app}/channels/beta`;
		await member.open(address, "beta");
		// A reader gets no button.
		await member.page.waitForLoadState("networkidle");
		expect(await member.page.getByRole("main").getByRole("button").allInnerTexts()).toEqual([]);
		await button("Remove Channel reader on beta of Example shop from gone@example.com").click();
		await dialog().getByText("They lose").waitFor();
		await dialog().getByText("See channels", { exact: true }).waitFor();
		await expectSound(admin);
		expect(await bindingsOf("gone@example.com")).toHaveLength(1);
		await dialog().getByRole("button", { name: "Remove role" }).click();
		await admin.page.getByText("gone@example.com is no longer").waitFor();
		expect(await bindingsOf("gone@example.com")).toEqual([]);
		await member.page.goto(`${stage.origin}/dashboard${address}`);
		await member.page.getByText(NOTHING_HERE).waitFor();
		member.leave();
	});

	test("gives a member of the organization a button on the one channel where they may release", async () => {
		const member = await stage.member("org_member", "lead@example.com");
		await addRole("lead@example.com", "beta", "Channel developer");
		await dialog().getByRole("button", { name: "Add role" }).click();
		await dialog().waitFor({ state: "detached" });
		await member.open(`/apps/${stage.app}/channels/beta`, "beta");
		await button("Release", member).waitFor();
		await member.open(`/apps/${stage.app}/channels/production`, "production");
		await member.page.waitForLoadState("networkidle");
		expect(await button("Release", member).count()).toBe(0);
		expect(await button("Edit channel", member).count()).toBe(0);
		member.leave();
	});

	test("shows roles to readers without buttons", async () => {
		const member = await stage.member("org_member", "roles-reader@example.com");
		for (const screen of ["members", "roles"]) {
			await member.open(`${at}/${screen}`, screen === "members" ? "Members" : "Roles");
			await member.page.waitForLoadState("networkidle");
			expect(await member.page.getByRole("main").getByRole("button").allInnerTexts()).toEqual(
				screen === "members" ? ["Person", "Role"] : [],
			);
			await expectSound(member);
		}
		await member.page.getByRole("table").last().getByText("Channel reader").waitFor();
		member.leave();
	});

	test("creates a custom role, gives it to a person and a key, and a change takes a permission from both", async () => {
		await admin.open(`${at}/roles`, "Roles");
		await button("New role").click();
		await admin.page.getByLabel("Title").fill("Shipper");
		expect(await admin.page.getByLabel("Name for scripts").inputValue()).toBe("shipper");
		await admin.page.getByLabel("Name for scripts").fill("admin");
		await choose("Given on", "One channel");
		await admin.page.getByLabel("See channels").check();
		await admin.page.getByLabel("Release bundles").check();
		await admin.page.getByLabel("Change channel settings").check();
		await button("Create role").click();
		await admin.page.getByText(/is the name of a built-in role/i).waitFor();
		await admin.page.getByLabel("Name for scripts").fill("shipper");
		await expectSound(admin);
		await expectFitsPhone(admin);
		await button("Create role").click();
		await admin.page.getByText("Role Shipper created.").waitFor();

		const member = await outsider("shipper@example.com");
		await addRole("shipper@example.com", "beta", "Shipper");
		await dialog().getByRole("button", { name: "Add role" }).click();
		await dialog().waitFor({ state: "detached" });
		await admin.open(`${at}/keys`, "API keys");
		await button("New key").click();
		await admin.page.getByLabel("Name").fill("Ships beta");
		await choose("Scope (1)", `Example shop (${stage.app})`);
		await choose("Channel (1)", "beta");
		expect(await options("Role (1)")).toEqual([
			"Choose a role",
			"Channel administrator",
			"Channel developer",
			"Channel reader",
			"Shipper",
		]);
		await choose("Role (1)", "Shipper");
		await expectSound(admin);
		await expectFitsPhone(admin);
		await button("Create key").click();
		const key = await admin.page.getByRole("textbox", { name: "Secret", exact: true }).inputValue();
		await button("I have saved it").click();
		await admin.page.getByText("Shipper of Example shop, channel beta").waitFor();
		const release = { app_id: stage.app, channel: "beta", version: "1.0.0" };
		expect((await stage.product.api("POST", "/channel", release, key)).status).toBe(200);
		expect((await stage.product.api("POST", "/channel", { ...release, channel: "production" }, key)).status).toBe(404);
		await member.open(`/apps/${stage.app}/channels/beta`, "beta");
		await button("Release", member).waitFor();

		await admin.open(`${at}/roles`, "Roles");
		await button("Change Shipper").click();
		await admin.page.getByLabel("Release bundles").uncheck();
		await dialog().getByText("2 holders of this role").waitFor();
		await dialog().getByText("shipper@example.com on beta").waitFor();
		await dialog().getByText("Ships beta on beta").waitFor();
		expect(await dialog().getByText("Loses: Release bundles").count()).toBe(2);
		await expectSound(admin);
		await expectFitsPhone(admin);
		// The dry run changed nothing.
		expect((await stage.product.api("POST", "/channel", { ...release, version: "1.1.0" }, key)).status).toBe(200);
		await button("Save role").click();
		await admin.page.getByText("Role Shipper saved.").waitFor();
		await expect.poll(async () => (await stage.product.api("POST", "/channel", release, key)).status).toBe(403);
		await member.page.reload();
		await button("Edit channel", member).waitFor();
		expect(await button("Release", member).count()).toBe(0);
		member.leave();
	});

	test("deletes a custom role in use only with another one for its holders", async () => {
		await admin.open(`${at}/roles`, "Roles");
		await button("Delete Shipper").click();
		await dialog().getByText("shipper@example.com on beta").waitFor();
		expect(await button("Delete role").isDisabled()).toBe(true);
		await dialog().getByLabel("Give its holders this role instead").selectOption({ label: "Channel reader" });
		await dialog().getByText("Loses: Change channel settings").first().waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
		await button("Replace and delete role").click();
		await admin.page.getByText("Role Shipper deleted.").waitFor();
		expect(await bindingsOf("shipper@example.com")).toMatchObject([{ role_name: "channel_reader", channel: "beta" }]);
	});

	test("names the API keys that lose a role with a changed custom role, and they lose it only then", async () => {
		const reads = ["app.read", "app.read_bundles", "app.read_devices", "app.read_audit", "channel.read"];
		await send("POST", "/organization/roles", {
			orgId: stage.product.orgId,
			name: "keeper",
			title: "Keeper",
			scope_type: "org",
			permissions: [
				"org.read",
				"org.read_members",
				"org.manage_apikeys",
				"app.upload_bundle",
				"channel.promote_bundle",
				...reads,
			],
		});
		const member = await stage.member("keeper", "keeper@example.com");
		await member.open(`${at}/keys`, "API keys");
		await button("New key", member).click();
		await member.page.getByLabel("Name").fill("Uploads at night");
		await member.page.getByLabel("Scope (1)").selectOption({ label: `Example shop (${stage.app})` });
		await member.page.getByLabel("Role (1)").selectOption({ label: "App uploader" });
		await button("Create key", member).click();
		const key = await member.page.getByRole("textbox", { name: "Secret", exact: true }).inputValue();
		await admin.open(`${at}/roles`, "Roles");
		await button("Change Keeper").click();
		await admin.page.getByLabel("Upload bundles").uncheck();
		await dialog().getByText("These API keys lose roles with it:").waitFor();
		await dialog().getByText("Uploads at night: App uploader").waitFor();
		await expectSound(admin);
		expect((await stage.product.api("GET", `/app/${stage.app}`, undefined, key)).status).toBe(200);
		await button("Save role").click();
		await admin.page.getByText("Role Keeper saved.").waitFor();
		await expect
			.poll(async () => (await stage.product.api("GET", `/app/${stage.app}`, undefined, key)).status)
			.toBe(404);
		member.leave();
	});

	test("offers a custom role of the organization to invited people and members, who then hold what it permits", async () => {
		await send("POST", "/organization/roles", {
			orgId: stage.product.orgId,
			name: "auditor",
			title: "Auditor",
			scope_type: "org",
			permissions: ["org.read", "org.read_members", "org.read_audit"],
		});
		await admin.open(`${at}/members`, "Members");
		await button("Invite member").click();
		await admin.page.getByLabel("E-mail address").fill("auditor@example.com");
		await dialog().getByLabel("Role").selectOption({ label: "Auditor" });
		await button("Create invite link").click();
		const link = await admin.page.getByRole("textbox", { name: "Link", exact: true }).inputValue();
		await button("I have saved it").click();
		await admin.page.getByRole("cell", { name: "Auditor", exact: true }).waitFor();
		const member = await stage.visitor();
		await member.send("/invitation/accept", { token: link.replace(/.*token=/, ""), sign_in: true });
		await member.open(`${at}/changes`, "Activity");
		await member.page.getByRole("link", { name: "Activity" }).first().waitFor();
		await member.page.waitForLoadState("networkidle");
		expect(await member.page.getByRole("link", { name: "API keys" }).count()).toBe(0);
		await expectSound(member);
		member.leave();
	});
});
