/**
 * Groups in the dashboard in a real browser, seen by the administrator who manages them and by a
 * person who gets a role by one and loses it.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound, NOTHING_HERE } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: groups in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("groups in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let member: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		// A person who sees the organization, and none of its apps.
		member = await stage.member("org_billing_admin", "tester@example.com");
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(() => {
		admin?.leave();
		member?.leave();
	});

	const groups = async () => (await stage.product.api("GET", `/organization/groups?orgId=${stage.product.orgId}`)).body;
	const dialog = () => admin.page.getByRole("dialog");
	const button = (name: string, { page } = admin) => page.getByRole("button", { name, exact: true });
	const choose = (label: string, option: string) =>
		dialog().getByRole("combobox", { name: label, exact: true }).selectOption({ label: option });
	const submit = (name: string) => dialog().getByRole("button", { name, exact: true }).click();
	const expectFine = async () => {
		await expectSound(admin);
		await expectFitsPhone(admin);
	};

	test("creates a group, and refuses its name a second time at the field", async () => {
		await admin.open(`${at}/groups`, "Groups");
		await admin.page.getByText("No groups yet").waitFor();
		await button("New group").click();
		await admin.page.getByLabel("Name").fill("Testers");
		await admin.page.getByLabel("Description").fill("People who test every release.");
		await expectFine();
		await submit("Create group");
		await admin.page.getByRole("heading", { level: 1, name: "Testers" }).waitFor();
		expect(await groups()).toMatchObject([{ name: "Testers", member_count: 0, bindings: [] }]);
		await admin.open(`${at}/groups`, "Groups");
		await button("New group").click();
		await admin.page.getByLabel("Name").fill("Testers");
		await submit("Create group");
		await dialog()
			.getByText(/has a group of this name/)
			.waitFor();
		await expectFine();
	});

	test("gives the group a role and a member, who can then release on that channel only", async () => {
		await admin.open(`${at}/groups`, "Groups");
		await admin.page.getByRole("link", { name: "Testers" }).click();
		await button("Add role").click();
		await choose("App", `Example shop (${stage.app})`);
		await choose("Channel", "beta");
		await choose("Role", "Channel developer");
		await dialog().getByText("The group has no members yet").waitFor();
		await expectFine();
		await submit("Add role");
		await admin.page.getByText("Testers is now Channel developer on beta of Example shop.").waitFor();
		await button("Add member").click();
		await choose("Member", "tester@example.com");
		await dialog().getByText("They get these roles").waitFor();
		await dialog().getByText("Channel developer on beta of Example shop").waitFor();
		await expectFine();
		// The dry run added nobody.
		expect(await groups()).toMatchObject([{ member_count: 0 }]);
		await submit("Add member");
		await admin.page.getByText("tester@example.com is now in Testers.").waitFor();
		await expectFine();

		await member.open(`${at}/apps`, "Apps");
		await member.page.getByRole("link", { name: "beta", exact: true }).click();
		await member.page.getByRole("heading", { level: 1, name: "beta" }).waitFor();
		await button("Release", member).click();
		await member.page.getByRole("combobox", { name: "Bundle" }).fill("1.1.0");
		// The rollout of beta makes it a decision, and a role on one channel may count no devices.
		await member.page.getByRole("radio", { name: "Every device at once" }).check();
		await member.page.getByRole("dialog").getByRole("button", { name: "Release 1.1.0 to beta" }).click();
		await member.page.getByText("Released 1.1.0 to beta.").waitFor();
		await member.page.goto(`${stage.origin}/dashboard/apps/${stage.app}/channels/production`);
		await member.page.getByText(NOTHING_HERE).waitFor();
	});

	test("shows a reader the groups without buttons", async () => {
		const [{ id }] = await groups();
		await member.open(`${at}/groups`, "Groups");
		await member.page.getByRole("link", { name: "Testers" }).waitFor();
		await expectSound(member);
		await member.open(`${at}/groups/${id}`, "Testers");
		await member.page.getByRole("cell", { name: "tester@example.com" }).waitFor();
		await member.page.waitForLoadState("networkidle");
		expect(await member.page.getByRole("main").getByRole("button").allInnerTexts()).toEqual([]);
		await expectSound(member);
	});

	test("renames the group, and removes a person, who loses the channel", async () => {
		const [{ id }] = await groups();
		await admin.open(`${at}/groups/${id}`, "Testers");
		await button("Edit group").click();
		await admin.page.getByLabel("Name").fill("Beta testers");
		await submit("Save group");
		await admin.page.getByRole("heading", { level: 1, name: "Beta testers" }).waitFor();
		await button("Remove tester@example.com from the group").click();
		await dialog().getByText("They lose the roles of the group: Channel developer on beta").waitFor();
		await expectFine();
		await submit("Remove from group");
		await admin.page.getByText("tester@example.com is no longer in Beta testers.").waitFor();
		await member.page.goto(`${stage.origin}/dashboard/apps/${stage.app}/channels/beta`);
		await member.page.getByText(NOTHING_HERE).waitFor();
	});

	test("removes a role from the group, and deletes the group, after naming the keys that lose with it", async () => {
		const [{ id }] = await groups();
		const send = (path: string, body: object) => stage.product.api("POST", `/organization/groups/${id}${path}`, body);
		await send("/members", { email: "tester@example.com" });
		await send("/bindings", { role_name: "channel_reader", app_id: stage.app, channel: "production" });
		await admin.open(`${at}/groups/${id}`, "Beta testers");
		await button("Remove Channel developer on beta of Example shop").click();
		await dialog().getByText("1 member loses what no other role of theirs permits there.").waitFor();
		await expectFine();
		await submit("Remove role");
		await admin.page.getByText("Beta testers is no longer Channel developer on beta of Example shop.").waitFor();
		expect((await groups())[0].bindings).toMatchObject([{ role_name: "channel_reader" }]);
		await member.open(`/apps/${stage.app}/channels/production`, "production");
		await button("Delete group").click();
		await dialog().getByText("1 member loses 1 role of the group.").waitFor();
		await expectFine();
		await submit("Delete group");
		await admin.page.getByText("No groups yet").waitFor();
		expect(await groups()).toEqual([]);
		await member.page.reload();
		await member.page.getByText(NOTHING_HERE).waitFor();
	});
});
