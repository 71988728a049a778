/**
 * The reader's account in the dashboard, in a real browser: a new address, which is verified before
 * it counts, passkeys, unlinking a provider, and the deletion of an account. Each message of the
 * page is compared with the API afterwards.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { addAuthenticator, chromium } from "./support/browser";
import { devtoolsOf, HOSTILE, type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined)
	console.log("skipped: one's own account in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("the reader's account in the dashboard", () => {
	let stage: Stage;
	let visitor: Visitor;
	const printed: string[] = [];
	beforeAll(async () => {
		vi.spyOn(process.stdout, "write").mockImplementation((chunk) => printed.push(String(chunk)) > 0);
		stage = await sharedStage();
		visitor = await stage.member("org_member", "eve@example.com");
	});
	afterAll(() => {
		vi.restoreAllMocks();
		visitor?.leave();
	});

	const button = (name: string) => visitor.page.getByRole("button", { name, exact: true });
	const account = async (path = "") =>
		(await visitor.context.request.get(`${stage.origin}/account${path}`, { maxRetries: 1 })).json();
	const mailTo = (email: string) =>
		expect.poll(() => printed.join("").split(`Mail to ${email}: `).slice(1).join(" | "));

	test("changes the address after a code verified it, and notifies the old address", async () => {
		const { page } = visitor;
		await visitor.open("/account", "Your account");
		await button("Change e-mail address").click();
		const dialog = page.getByRole("dialog");
		await dialog.getByLabel("New e-mail address").fill("eve.adams@example.com");
		await expectSound(visitor);
		await dialog.getByRole("button", { name: "Send code" }).click();
		await dialog.getByText("a code is on its way").waitFor();
		await expectSound(visitor);
		await mailTo("eve.adams@example.com").toMatch(/^\d{6} /);
		const code = /Mail to eve\.adams@example\.com: (\d{6}) /.exec(printed.join(""))?.[1] ?? "";
		await dialog.getByLabel("Code").fill(code === "000000" ? "000001" : "000000");
		await dialog.getByRole("button", { name: "Change address" }).click();
		await dialog.getByText("is invalid").waitFor();
		expect((await account()).email).toBe("eve@example.com");
		await dialog.getByLabel("Code").fill(code);
		await dialog.getByRole("button", { name: "Change address" }).click();
		await page.getByText("Your e-mail address is now eve.adams@example.com.").waitFor();
		await dialog.waitFor({ state: "detached" });
		expect(await account()).toMatchObject({ email: "eve.adams@example.com", email_verified: true });
		await mailTo("eve@example.com").toContain("was changed");
		// The page continues with the new session.
		await page.reload();
		await page.getByText("eve.adams@example.com").first().waitFor();
	});

	test("renames a passkey", async () => {
		const { page } = visitor;
		await addAuthenticator(await devtoolsOf(visitor));
		await visitor.open("/account", "Your account");
		await page.getByLabel("Name of a new passkey").fill("Phone");
		await button("Add passkey").click();
		await button("Rename the passkey Phone").click();
		const dialog = page.getByRole("dialog");
		await dialog.getByLabel("Name of the passkey").fill("Given up");
		await dialog.getByRole("button", { name: "Cancel" }).click();
		await button("Discard").click();
		await expect.poll(() => dialog.count()).toBe(0);
		expect(await account("/passkeys")).toMatchObject([{ name: "Phone" }]);
		await button("Rename the passkey Phone").click();
		await dialog.getByLabel("Name of the passkey").fill(HOSTILE);
		await expectSound(visitor);
		await dialog.getByRole("button", { name: "Rename passkey" }).click();
		await page.getByText(`Passkey renamed to ${HOSTILE}.`).waitFor();
		await button(`Rename the passkey ${HOSTILE}`).waitFor();
		expect(await account("/passkeys")).toMatchObject([{ name: HOSTILE }]);
		await expectSound(visitor);
	});

	test("unlinks a provider after a confirmation", async () => {
		const { page } = visitor;
		const db = await stage.product.running.miniflare.getD1Database("DB");
		const { uid } = await account();
		await db
			.prepare("INSERT INTO identities (provider, subject, user_id, created_at_ms) VALUES ('github', '7', ?, ?)")
			.bind(uid, Date.now())
			.run();
		await visitor.open("/account", "Your account");
		await button("Unlink github").click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("You can no longer sign in with it.").waitFor();
		await expectSound(visitor);
		await dialog.getByRole("button", { name: "Unlink github" }).click();
		await page.getByText("github unlinked.").waitFor();
		expect(await account("/providers")).toEqual([]);
		await page.getByRole("region", { name: "Account activity" }).getByText("Provider unlinked").waitFor();
		await expectSound(visitor);
	});

	test("lists sessions, adds a passkey, and deletes the account", async () => {
		const leaving = await stage.member("org_member", "leaving.ada@example.com");
		const { page } = leaving;
		await addAuthenticator(await devtoolsOf(leaving));
		await leaving.open("/account", "Your account");
		await page.getByLabel("Name of a new passkey").fill(HOSTILE);
		await page.getByRole("button", { name: "Add passkey" }).click();
		await page.getByRole("region", { name: "Passkeys" }).getByText(HOSTILE, { exact: true }).waitFor();
		await page.getByRole("region", { name: "Sessions" }).getByText("This browser").waitFor();
		await page.getByRole("button", { name: "Delete account" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("your membership in My organization").waitFor();
		await dialog.getByLabel("Type leaving.ada@example.com to confirm").fill("leaving.ada@example.com");
		await expectSound(leaving);
		await dialog.getByRole("button", { name: "Delete account" }).click();
		await page.waitForURL((url) => url.pathname === "/sign-in");
		leaving.leave();
	});
});
