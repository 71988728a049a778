/**
 * The screen "Publishers" in a real browser: a publisher is added with the fields that its provider
 * shows or by the name of its repository, its first job appears by itself, and it is changed and
 * deleted. Each step is compared with the API afterwards.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound, takePictures } from "./support/dashboard-checks";
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
		// By itself, because the list waits for the first job.
		await page.getByText("run 574").waitFor();
		await page.getByRole("cell", { name: "group/project: on any branch" }).waitFor();
		await page.getByText("b4f1234").waitFor();
		await expectSound(admin);
		expect(await page.locator(".badge").filter({ hasText: "Waiting for the first job" }).count()).toBe(0);
		await page.getByRole("button", { name: "More about Releases" }).click();
		await page.getByRole("menuitem", { name: "Delete Releases" }).click();
		await dialog.getByRole("button", { name: "Delete publisher" }).click();
		await page.getByText("No publishers yet").waitFor();
		expect(await publishers()).toEqual([]);
	});

	test("a public repository is found by its name, and its publisher is changed in place", async () => {
		const { page } = admin;
		await stage.product.api("POST", "/channel", { app_id: APP, channel: "beta-of-jobs" });
		await admin.open(`/apps/${APP}/publishers`, "Publishers");
		await page.getByRole("button", { name: "Add publisher" }).first().click();
		const dialog = page.getByRole("dialog");
		const add = dialog.getByRole("button", { name: "Add publisher" });
		await dialog.getByLabel("Repository", { exact: true }).fill("octo-org/secret");
		await dialog.getByRole("button", { name: "Find ids" }).click();
		await dialog.getByText("GitHub shows no public repository octo-org/secret").waitFor();
		await dialog.getByText("gh api repos/OWNER/REPO").waitFor();
		await dialog.getByLabel("Repository", { exact: true }).fill("https://github.com/octo-org/octo-repo.git");
		await dialog.getByLabel("Repository", { exact: true }).press("Enter");
		await dialog.getByText("Found octo-org/octo-repo").waitFor();
		expect(await dialog.getByLabel("Repository ID").inputValue()).toBe("456789");
		expect(await dialog.getByLabel("Owner ID").inputValue()).toBe("123456");
		expect(await dialog.getByLabel("Name").inputValue()).toBe("octo-org/octo-repo");
		await dialog.getByText("Any branch may release").waitFor();
		expect(await add.isDisabled()).toBe(true);
		await takePictures(admin, "publisher-add");
		await dialog.getByRole("button", { name: "Use main" }).click();
		await dialog.getByText("Jobs of octo-org/octo-repo, on main, may release to every channel.").waitFor();
		await expectSound(admin);
		await add.click();
		await dialog.waitFor({ state: "detached" });
		const claims = { repository_id: "456789", repository_owner_id: "123456", ref: "refs/heads/main" };
		expect(await publishers()).toMatchObject([
			{ name: "octo-org/octo-repo", stage: "promote", provider: "github", claims, channels: null },
		]);

		const [{ id }] = await publishers();
		await stage.product.api("PUT", "/publisher", {
			app_id: APP,
			id,
			claims: { ...claims, runner_environment: "github-hosted" },
		});
		await admin.open(`/apps/${APP}/publishers`, "Publishers");
		await page.getByRole("button", { name: "More about octo-org/octo-repo" }).click();
		await page.getByRole("menuitem", { name: "Edit octo-org/octo-repo" }).click();
		const save = dialog.getByRole("button", { name: "Save publisher" });
		expect(await save.isDisabled(), "nothing is changed").toBe(true);
		expect(await dialog.getByLabel("runner_environment").inputValue()).toBe("github-hosted");
		await dialog.getByLabel("Branch or tag").fill("");
		await dialog.getByText("Any branch may release").waitFor();
		expect(await save.isDisabled()).toBe(true);
		await dialog.getByLabel("Branch or tag").fill("release/*");
		await dialog.getByLabel("Workflow file").fill("release.yml");
		await dialog.getByLabel("Name").fill("Shop releases");
		await dialog.getByLabel("Channels (optional)").first().click();
		await page.getByRole("option", { name: "beta-of-jobs" }).click();
		await page.keyboard.press("Escape");
		await dialog.getByText("on release/*, may release to beta-of-jobs").waitFor();
		await dialog.getByText("Saving revokes the keys that its jobs have now.").waitFor();
		await expectSound(admin);
		await takePictures(admin, "publisher-edit");
		await save.click();
		await dialog.waitFor({ state: "detached" });
		expect(await publishers()).toMatchObject([
			{
				id,
				name: "Shop releases",
				stage: "promote",
				channels: ["beta-of-jobs"],
				claims: {
					...claims,
					ref: "refs/heads/release/*",
					workflow_ref: "release.yml",
					runner_environment: "github-hosted",
				},
			},
		]);
		await page.getByRole("cell", { name: "Release to beta-of-jobs", exact: true }).waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
		await takePictures(admin, "publishers");
		const { body: log } = await stage.product.api(
			"GET",
			`/organization/audit?orgId=${stage.product.orgId}&action=publisher.update&target=${id}`,
		);
		expect(log[0]).toMatchObject({ before: { name: "octo-org/octo-repo" }, after: { name: "Shop releases" } });
		expect(log[0].after).not.toHaveProperty("stage");

		await page.getByRole("button", { name: "More about Shop releases" }).click();
		await page.getByRole("menuitem", { name: "Edit Shop releases" }).click();
		await dialog.getByLabel("Stage").selectOption("upload");
		await save.click();
		await dialog.waitFor({ state: "detached" });
		expect(await publishers()).toMatchObject([{ stage: "upload", channels: null }]);
		await stage.product.api("DELETE", `/publisher?app_id=${APP}&id=${id}`);
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
