/**
 * Keys and members of an organization from the dashboard in a real browser, as an administrator and
 * as the members concerned.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { chromium } from "./support/browser";
import { APP, HOSTILE, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined)
	console.log("skipped: members and their keys in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("members and their keys in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(() => admin?.leave());

	const get = async (path: string, key?: string) => (await stage.product.api("GET", path, undefined, key)).body;
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const options = (label: string) => admin.page.getByLabel(label).locator("option").allInnerTexts();
	const keyNamed = async (name: string) =>
		(await get(`/apikey?org_id=${stage.product.orgId}`)).find((key: { name: string }) => key.name === name);
	let secret: string;

	test("creates an API key for one app, shows its secret once, and the key works", async () => {
		await admin.open(`${at}/keys`, "API keys");
		await button("New key").click();
		await admin.page.getByLabel("Name").fill(HOSTILE);
		await admin.page.getByLabel("Scope (1)").selectOption({ label: `Example shop (${APP})` });
		expect(await options("Role (1)")).toEqual([
			"Choose a role",
			"App administrator",
			"App developer",
			"App uploader",
			"App reader",
			"App previews",
		]);
		await admin.page.getByLabel("Role (1)").selectOption({ label: "App uploader" });
		await expectSound(admin);
		await button("Create key").click();
		secret = await admin.page.getByRole("textbox", { name: "Secret", exact: true }).inputValue();
		await expectSound(admin);
		expect(secret).toMatch(/^cap_/);
		expect((await get(`/app/${APP}`, secret)).app_id).toBe(APP);
		await button("I have saved it").click();
		await admin.page.getByRole("link", { name: HOSTILE }).waitFor();
		expect(await admin.page.content()).not.toContain(secret);
		expect(await keyNamed(HOSTILE)).toMatchObject({ is_hashed_key: true, bindings: [{ role_name: "app_uploader" }] });
		await expectSound(admin);
	});

	test("edits a key, and keeps what was not touched", async () => {
		const before = await keyNamed(HOSTILE);
		await admin.open(`${at}/keys/${before.id}`, HOSTILE);
		await button("Edit key").click();
		await admin.page.getByLabel("Allowed IP addresses").fill("127.0.0.0/8");
		await button("Add role").click();
		await admin.page.getByLabel("Role (2)").selectOption({ label: "App reader" });
		await button("Save key").click();
		await admin.page.getByText(`Key ${HOSTILE} saved.`).waitFor();
		const after = await keyNamed(HOSTILE);
		expect(after).toMatchObject({ expires_at: before.expires_at, ip_allow_list: ["127.0.0.0/8"] });
		expect(after.bindings.map((binding: { role_name: string }) => binding.role_name)).toEqual([
			"app_uploader",
			"app_reader",
		]);
		expect(after.bindings[0].id).toBe(before.bindings[0].id);
	});

	test("rotates the secret of a key while the old one still works, and revokes the key", async () => {
		await button("Rotate secret").click();
		await admin.page.getByLabel("Keep the old secret valid for").selectOption({ label: "1 day" });
		await admin.page.getByRole("dialog").getByRole("button", { name: "Rotate secret" }).click();
		const renewed = await admin.page.getByRole("textbox", { name: "Secret", exact: true }).inputValue();
		await button("I have saved it").click();
		await admin.page.getByText("Valid until").waitFor();
		for (const key of [secret, renewed]) expect((await get(`/app/${APP}`, key)).app_id).toBe(APP);
		await expectSound(admin);
		await button("Revoke key").click();
		await admin.page.getByText("stops working immediately").waitFor();
		await admin.page.getByRole("dialog").getByRole("button", { name: "Revoke key" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
		for (const key of [secret, renewed]) {
			expect((await stage.product.api("GET", `/app/${APP}`, undefined, key)).status).toBe(401);
		}
	});

	test("asks for a recent sign-in in a dialog, keeps the form, and sends it when the reader has confirmed", async () => {
		const printed: string[] = [];
		vi.spyOn(process.stdout, "write").mockImplementation((chunk) => printed.push(String(chunk)) > 0);
		const member = await stage.member("org_admin", "late@example.com");
		const db = await stage.product.running.miniflare.getD1Database("DB");
		await db
			.prepare(
				"UPDATE sessions SET created_at_ms = created_at_ms - 3600000 WHERE user_id = (SELECT id FROM users WHERE email = ?)",
			)
			.bind("late@example.com")
			.run();
		await member.open(`${at}/members`, "Members");
		const { page } = member;
		await page.getByRole("button", { name: "Invite member" }).click();
		await page.getByLabel("E-mail address").fill("later@example.com");
		await page.getByRole("button", { name: "Create invite link" }).click();
		const question = page.getByRole("dialog", { name: "Confirm it's you" });
		await question.getByText("Your form stays as it is").waitFor();
		await expectSound(member);
		// Escape closes only the confirmation.
		await page.keyboard.press("Escape");
		await question.waitFor({ state: "detached" });
		await page.getByText("your input is still here").waitFor();
		expect(await page.getByLabel("E-mail address").inputValue()).toBe("later@example.com");
		await page.getByRole("button", { name: "Create invite link" }).click();
		await question.getByRole("button", { name: "Print a code in the terminal" }).click();
		await question.getByLabel("Code").waitFor();
		const code = () => /Mail to late@example\.com: (\d{6}) /.exec(printed.join(""))?.[1] ?? "";
		await expect.poll(code).not.toBe("");
		await expectSound(member);
		await question.getByLabel("Code").fill(code() === "000000" ? "000001" : "000000");
		await question.getByRole("button", { name: "Confirm" }).click();
		await question.getByRole("alert").getByText("is invalid").waitFor();
		await question.getByLabel("Code").fill(code());
		await question.getByRole("button", { name: "Confirm" }).click();
		await question.waitFor({ state: "detached" });
		await expect
			.poll(async () =>
				(await get(`/organization/members?orgId=${stage.product.orgId}`)).map(({ email }: { email: string }) => email),
			)
			.toContain("later@example.com");
		expect(new URL(page.url()).pathname).toBe(`/dashboard${at}/members`);
		vi.restoreAllMocks();
		member.leave();
	});

	test("keeps the form when the session ends, and sends it after a new sign-in", async () => {
		const printed: string[] = [];
		vi.spyOn(process.stdout, "write").mockImplementation((chunk) => printed.push(String(chunk)) > 0);
		const member = await stage.member("org_admin", "ended@example.com");
		await member.open(`${at}/members`, "Members");
		const { page } = member;
		await page.getByRole("button", { name: "Invite member" }).click();
		await page.getByLabel("E-mail address").fill("kept@example.com");
		const db = await stage.product.running.miniflare.getD1Database("DB");
		await db
			.prepare("DELETE FROM sessions WHERE user_id = (SELECT id FROM users WHERE email = ?)")
			.bind("ended@example.com")
			.run();
		await page.getByRole("button", { name: "Create invite link" }).click();
		const question = page.getByRole("dialog", { name: "Sign in again" });
		await question.getByText("The session of ended@example.com ended. Your form stays as it is").waitFor();
		await expectSound(member);
		await question.getByRole("button", { name: "Print a code in the terminal" }).click();
		const code = () => /Mail to ended@example\.com: (\d{6}) /.exec(printed.join(""))?.[1] ?? "";
		await expect.poll(code).not.toBe("");
		await question.getByLabel("Code").fill(code());
		await question.getByRole("button", { name: "Confirm" }).click();
		await question.waitFor({ state: "detached" });
		await expect
			.poll(async () =>
				(await get(`/organization/members?orgId=${stage.product.orgId}`)).map(({ email }: { email: string }) => email),
			)
			.toContain("kept@example.com");
		expect(new URL(page.url()).pathname).toBe(`/dashboard${at}/members`);
		vi.restoreAllMocks();
		member.leave();
	});

	test("gives an administrator the right to create organizations, and removes it", async () => {
		const member = await stage.member("org_admin", "founder@example.com");
		const isFounder = async () =>
			(await get(`/organization/members?orgId=${stage.product.orgId}`)).find(
				({ email }: { email: string }) => email === "founder@example.com",
			).global_permissions;
		const change = async (isChecked: boolean) => {
			await admin.open(`${at}/members`, "Members");
			await button("Change role of founder@example.com").click();
			await admin.page.getByLabel("May create organizations").setChecked(isChecked);
			await expectSound(admin);
			await button("Change role").click();
			await admin.page.getByRole("dialog").waitFor({ state: "detached" });
		};
		await change(true);
		expect(await isFounder()).toEqual(["org.create"]);
		await member.open("/organizations", "Organizations");
		await member.page.getByRole("button", { name: "New organization" }).waitFor();
		await change(false);
		expect(await isFounder()).toEqual([]);
		await member.open("/organizations", "Organizations");
		await member.page.getByRole("link", { name: "My organization" }).waitFor();
		await member.page.waitForLoadState("networkidle");
		expect(await member.page.getByRole("button", { name: "New organization" }).count()).toBe(0);
		member.leave();
	});

	test("lists unused keys", async () => {
		await admin.open(`${at}/keys`, "API keys");
		await admin.page.getByRole("button", { name: /^Not used, 90 days/ }).click();
		await admin.page.getByText("No matching API keys").waitFor();
		await expectSound(admin);
	});

	test("invites someone with a link, changes their role and withdraws it", async () => {
		await admin.open(`${at}/members`, "Members");
		await expectSound(admin);
		await button("Invite member").click();
		await admin.page.getByLabel("E-mail address").fill("ada@example.com");
		await button("Create invite link").click();
		const link = await admin.page.getByRole("textbox", { name: "Link", exact: true }).inputValue();
		expect(link).toContain("/invitation#token=");
		await expectSound(admin);
		await button("I have saved it").click();
		await button("Change role of ada@example.com").click();
		await admin.page.getByRole("dialog").getByLabel("Role").selectOption({ label: "Administrator" });
		await button("Change role").click();
		await expect
			.poll(async () =>
				(await get(`/organization/members?orgId=${stage.product.orgId}`)).find(
					(member: { email: string }) => member.email === "ada@example.com",
				),
			)
			.toMatchObject({ role: "org_admin", is_tmp: true });
		// The link changed with the role.
		expect(await admin.page.getByRole("textbox", { name: "Link", exact: true }).inputValue()).not.toBe(link);
		await button("I have saved it").click();
		await button("Withdraw the invitation for ada@example.com").click();
		await admin.page.getByText("Their invite link is no longer valid.").waitFor();
		await button("Withdraw invitation").click();
		await admin.page.getByText("ada@example.com", { exact: true }).waitFor({ state: "detached" });
	});

	test("removes a member after naming the keys that stop working", async () => {
		const member = await stage.member("org_admin", "bob@example.com");
		await member.open(`${at}/keys`, "API keys");
		await admin.open(`${at}/members`, "Members");
		await button("Remove bob@example.com").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("These API keys of theirs stop working immediately:").waitFor();
		await dialog.getByText("Personal key").or(dialog.getByRole("listitem")).first().waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Remove member" }).click();
		await admin.page.getByText("bob@example.com removed.").waitFor();
		// The removed member sees that the organization is not theirs any more, and none of its lists.
		await member.page.reload();
		await member.page.getByRole("heading", { level: 1, name: /^No organization / }).waitFor();
		expect(member.complaints).toEqual([]);
		member.leave();
	});
});
