/**
 * The actions that the dashboard offers to each role, in a real browser: all that the API allows,
 * and none that it refuses. Each case is compared with the API's answer to the same person.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: what the dashboard offers to whom, because no Chromium is installed");

describe.skipIf(chromium === undefined)("what the dashboard offers to whom", () => {
	let stage: Stage;
	let owner: Visitor;
	let administrator: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await newStage();
		owner = await stage.admin();
		administrator = await stage.member("org_admin", "administrator@example.com");
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(() => {
		owner?.leave();
		administrator?.leave();
	});

	const get = async (path: string) => (await stage.product.api("GET", path)).body;
	const buttons = async ({ page }: Visitor) => {
		await page.waitForLoadState("networkidle");
		return page.getByRole("main").getByRole("button").allInnerTexts();
	};
	const makeKey = async (fields: object): Promise<{ id: string; key: string }> => {
		const { status, body } = await stage.product.api("POST", "/apikey", fields);
		if (status !== 201) throw new Error(JSON.stringify(body));
		return body;
	};
	const onOrganization = (role_name: string) => ({ role_name, scope_type: "org", org_id: stage.product.orgId });
	const onApp = (role_name: string) => ({
		role_name,
		scope_type: "app",
		org_id: stage.product.orgId,
		app_id: stage.appUuid,
	});

	test("a key gets roles of the organization on the organization, roles of an app on an app", async () => {
		const { page } = owner;
		await owner.open(`${at}/keys`, "API keys");
		await page.getByRole("button", { name: "New key" }).click();
		const roles = () => page.getByLabel("Role (1)").locator("option").allInnerTexts();
		await expect.poll(roles).toEqual(["Choose a role", "Owner", "Administrator", "Member", "Billing administrator"]);
		await page.getByLabel("Scope (1)").selectOption({ label: `Example shop (${stage.app})` });
		expect(await roles()).toEqual([
			"Choose a role",
			"App administrator",
			"App developer",
			"App uploader",
			"App reader",
			"App previews",
		]);
		await page.getByLabel("Scope (1)").selectOption({ label: "Whole organization" });
		await page.getByLabel("Name").fill("For everything");
		await page.getByLabel("Role (1)").selectOption({ label: "Member" });
		await page.getByRole("button", { name: "Create key" }).click();
		await page.getByRole("button", { name: "I have saved it" }).click();
		await page.getByRole("link", { name: "For everything" }).waitFor();
	});

	test("an administrator changes administrators and members, and the page names who may change an owner", async () => {
		const { page } = administrator;
		const { body } = await stage.product.api("POST", "/organization/members", {
			orgId: stage.product.orgId,
			email: "invited-owner@example.com",
			role: "org_super_admin",
		});
		expect(body.link).toContain("/invitation");
		await administrator.open(`${at}/members`, "Members");
		const row = (email: string) => page.getByRole("row").filter({ hasText: email });
		await row("administrator@example.com").getByRole("button", { name: "Change role of" }).waitFor();
		for (const email of ["admin@capstan.local", "invited-owner@example.com"]) {
			expect(await row(email).getByRole("button").count()).toBe(0);
			await row(email).getByRole("cell", { name: "Owner", exact: true }).waitFor();
			await row(email).getByText("Only for the role Owner").waitFor();
		}
		await expectSound(administrator);
		await owner.open(`${at}/members`, "Members");
		await owner.page.getByRole("button", { name: "Change role of invited-owner@example.com" }).waitFor();
	});

	test("an administrator changes keys that hold no more permissions than they do, and the page explains the others", async () => {
		const strong = await makeKey({ name: "Owner key", hashed: false, bindings: [onOrganization("org_super_admin")] });
		const creates = await makeKey({
			name: "Creates",
			hashed: true,
			bindings: [onOrganization("org_admin")],
			global_permissions: ["org.create"],
		});
		const weak = await makeKey({ name: "App key", hashed: true, bindings: [onApp("app_preview")] });
		const { page } = administrator;
		for (const [{ id }, name, expected] of [
			[strong, "Owner key", []],
			[creates, "Creates", ["Revoke key"]],
			[weak, "App key", ["Rotate secret", "Edit key", "Revoke key"]],
		] as const) {
			await administrator.open(`${at}/keys/${id}`, name);
			expect(await buttons(administrator)).toEqual(expected);
			expect(await page.getByText("This key has permissions that you do not have").count()).toBe(
				expected.length === 3 ? 0 : 1,
			);
			await expectSound(administrator);
			// The API answers the same.
			const answers = await page.evaluate(async (keyId) => {
				const send = async (method: string, query: string, body?: object) => {
					const response = await fetch(`/apikey/${keyId}${query}`, {
						method,
						...(body === undefined
							? {}
							: { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
					});
					return response.status;
				};
				return [await send("PUT", "", { regenerate: true }), await send("DELETE", "?dry_run=true")];
			}, id);
			expect(answers).toEqual([expected.length === 3 ? 200 : 403, expected.length === 0 ? 403 : 200]);
		}
		await owner.open(`${at}/keys/${creates.id}`, "Creates");
		expect(await buttons(owner)).toEqual(["Rotate secret", "Edit key", "Revoke key"]);
	});

	test("a stored secret of a key can be shown again, and the audit log records it", async () => {
		const kept = await makeKey({ name: "Kept", hashed: false, bindings: [onApp("app_reader")] });
		const { page } = owner;
		await owner.open(`${at}/keys/${kept.id}`, "Kept");
		await page.getByRole("button", { name: "Reveal secret" }).click();
		expect(await page.getByRole("textbox", { name: "Secret", exact: true }).inputValue()).toBe(kept.key);
		await page.getByText("The audit log records that you revealed it.").waitFor();
		await expectSound(owner);
		await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
		await page.getByRole("dialog").waitFor({ state: "detached" });
		expect(await page.content()).not.toContain(kept.key);
		const log = await get(`/organization/audit?orgId=${stage.product.orgId}&action=api_key.reveal`);
		expect(log).toMatchObject([{ target: { id: kept.id } }]);
		const hashed = await makeKey({ name: "Hashed", hashed: true, bindings: [onApp("app_reader")] });
		await owner.open(`${at}/keys/${hashed.id}`, "Hashed");
		expect(await buttons(owner)).toEqual(["Rotate secret", "Edit key", "Revoke key"]);
	});

	test("a person with org.create in one organization can create another", async () => {
		const { body } = await stage.product.api("PUT", "/organization", { name: "Another" });
		const founder = await stage.member("org_member", "second-founder@example.com");
		const { body: invitation } = await stage.product.api("POST", "/organization/members", {
			orgId: body.id,
			email: "second-founder@example.com",
			role: "org_admin",
		});
		await founder.send("/invitation/accept", { token: String(invitation.link).replace(/.*token=/, "") });
		await founder.open("/organizations", "Organizations");
		expect(await buttons(founder)).toEqual([]);
		const given = await stage.product.api("PUT", "/organization/members/permissions", {
			orgId: body.id,
			email: "second-founder@example.com",
			global_permissions: ["org.create"],
		});
		expect(given.status).toBe(200);
		await founder.open("/organizations", "Organizations");
		await founder.page.getByRole("button", { name: "New organization" }).click();
		await founder.page.getByLabel("Name").fill("Founded");
		await founder.page.getByRole("button", { name: "Create organization" }).click();
		await founder.page.getByText("Ship your first live update").waitFor();
		founder.leave();
	});

	test("an owner keeps every action in an organization with thousands of invitations", async () => {
		const { body } = await stage.product.api("PUT", "/organization", { name: "Crowded" });
		const db = await stage.product.running.miniflare.getD1Database("DB");
		// Every address comes before the owner's.
		await db
			.prepare(
				`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2100)
				INSERT INTO invitations (id, org_id, email, role_name, token_hash, invited_by, created_at_ms, expires_at_ms)
				SELECT 'crowd-' || i, ?1, 'a' || i || '@example.com', 'org_member', 'crowd-' || i,
					(SELECT id FROM users WHERE email = 'admin@capstan.local'), 0, 9999999999999 FROM n`,
			)
			.bind(body.id)
			.run();
		await owner.open(`/organizations/${body.id}/apps`, "Apps");
		await owner.page.getByRole("button", { name: "New app" }).waitFor();
		await owner.page.getByRole("link", { name: "API keys" }).waitFor();
	});

	test("a policy form accepts the same number of days as the API", async () => {
		const { page } = owner;
		await makeKey({
			name: "Ending",
			hashed: true,
			expires_at: new Date(Date.now() + 40 * 86_400_000).toISOString(),
			bindings: [onOrganization("org_super_admin")],
		});
		await owner.open(`${at}/settings`, "Organization settings");
		await page.getByLabel("Longest key lifetime, in days").fill("3660");
		await page.getByLabel("Longest key lifetime, in days").blur();
		expect(await page.getByLabel("Longest key lifetime, in days").inputValue()).toBe("365");
		await page.getByText(/will stop working/).waitFor();
	});
});
