/**
 * The screen "Publishers" in a real browser: a publisher is added with the fields that its provider
 * shows, its last use is listed, and it is deleted. Each step is compared with the API afterwards.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { GITHUB_JOB, type LocalIssuer, startLocalIssuer } from "./support/local-issuer";

if (chromium === undefined) console.log("skipped: publishers in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("publishers in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let issuer: LocalIssuer;
	beforeAll(async () => {
		[stage, issuer] = [await sharedStage(), await startLocalIssuer()];
		admin = await stage.admin();
	});
	afterAll(async () => {
		admin?.leave();
		await issuer?.stop();
	});

	const publishers = async () => (await stage.product.api("GET", `/publisher?app_id=${APP}`)).body;

	test("one is added, shows the job that used it, and is deleted", async () => {
		const { page } = admin;
		await admin.open(`/apps/${APP}/publishers`, "Publishers");
		await page.getByText("No publishers yet").waitFor();
		await page.getByRole("button", { name: "Add publisher" }).first().click();
		const dialog = page.getByRole("dialog");
		await dialog.getByLabel("Name").fill("Releases");
		await dialog.getByLabel("Provider").selectOption({ label: "GitLab, self-managed" });
		await dialog.getByLabel("Server").fill(issuer.url);
		await dialog.getByLabel("Project ID").fill("20");
		await dialog.getByLabel("Namespace ID").fill("72*");
		await dialog.getByLabel("Stage").selectOption("upload");
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Add publisher" }).click();
		await dialog.getByText(/^Must be exact/).waitFor();
		await dialog.getByLabel("Namespace ID").fill("acme/shop");
		await dialog.getByText(/^The number of the id, such as 72/).waitFor();
		expect(await dialog.getByRole("button", { name: "Add publisher" }).isDisabled()).toBe(true);
		await dialog.getByLabel("Branch or tag (optional)").waitFor();
		await dialog.getByLabel("Namespace ID").fill("72");
		await dialog.getByRole("button", { name: "Add publisher" }).click();
		await dialog.waitFor({ state: "detached" });
		expect(await publishers()).toMatchObject([
			{
				name: "Releases",
				provider: "gitlab",
				stage: "upload",
				issuer: issuer.url,
				claims: { project_id: "20", namespace_id: "72" },
			},
		]);
		await page.getByText("Waiting for the first job", { exact: true }).last().waitFor();
		await page.getByText("Never").waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
		const claims = {
			project_id: "20",
			namespace_id: "72",
			pipeline_source: "push",
			project_path: "group/project",
			pipeline_id: "574",
		};
		const token = issuer.token({ ...claims, sha: GITHUB_JOB.sha, aud: stage.product.url });
		expect((await stage.product.api("POST", "/oidc/token", { token, app_id: APP })).status).toBe(200);
		await admin.open(`/apps/${APP}/publishers`, "Publishers");
		await page.getByText("group/project run 574").waitFor();
		await page.getByText("b4f1234").waitFor();
		await expectSound(admin);
		expect(await page.locator(".badge").filter({ hasText: "Waiting for the first job" }).count()).toBe(0);
		await page.getByRole("button", { name: "More about Releases" }).click();
		await page.getByRole("menuitem", { name: "Delete Releases" }).click();
		await dialog.getByRole("button", { name: "Delete publisher" }).click();
		await page.getByText("No publishers yet").waitFor();
		expect(await publishers()).toEqual([]);
	});

	test("a member who does not administer the app sees whom to ask", async () => {
		const member = await stage.member("org_member", "publisher-reader@example.com");
		await member.open(`/apps/${APP}/publishers`, "Publishers");
		await member.page.getByText("Only administrators of the app see its publishers").waitFor();
		expect(await member.page.getByRole("button", { name: "Add publisher" }).count()).toBe(0);
		await expectSound(member);
		member.leave();
	});
});
