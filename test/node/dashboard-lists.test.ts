/**
 * Lists of the dashboard in a real browser: the address holds their page and filters, so that Back
 * returns to them, and unbounded lists are paged. Lists of the reader's account: the label of each
 * button, and the confirmation before a passkey is deleted.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addAuthenticator, chromium } from "./support/browser";
import { APP, deviceId, devtoolsOf, type OwnStage, startStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: lists of the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("lists of the dashboard", () => {
	let stage: OwnStage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await startStage();
		admin = await stage.admin();
		for (let index = 0; index < 60; index++) {
			const channel = `c${String(index).padStart(2, "0")}`;
			await stage.product.api("POST", "/channel", { app_id: APP, channel });
		}
	});
	afterAll(async () => {
		admin?.leave();
		await stage?.stop();
	});

	const search = () => new URL(admin.page.url()).search;

	test("Back returns to the page of a list, and a reload stays on it", async () => {
		const { page } = admin;
		await admin.open(`/apps/${APP}/channels`, "Channels");
		await page.getByRole("button", { name: "Next" }).click();
		await page.getByText("Page 2").waitFor();
		expect(search()).toBe("?page=2");
		await page.getByRole("link", { name: "c00", exact: true }).waitFor({ state: "detached" });
		const rows = page.getByRole("region", { name: "Channels" }).getByRole("row").nth(1).getByRole("link");
		const channel = rows.first();
		const name = await channel.innerText();
		await channel.click();
		await page.getByRole("heading", { level: 1, name }).waitFor();
		await page.goBack();
		await page.getByText("Page 2").waitFor();
		await page.getByRole("link", { name, exact: true }).waitFor();
		await page.reload();
		await page.getByText("Page 2").waitFor();
		await expectSound(admin);
		await page.goBack();
		await page.getByRole("link", { name, exact: true }).waitFor({ state: "detached" });
		await page.getByText("Page 1").waitFor();
		expect(search()).toBe("");
		// An invalid address shows the first page.
		for (const nonsense of ["0", "-1", "1.5", "x", "1e99"]) {
			await admin.open(`/apps/${APP}/channels?page=${nonsense}`, "Channels");
			await page.getByText("Page 1").waitFor();
		}
	});

	test("Back restores the filter of a list, and its chips and fields show the filter", async () => {
		const { page } = admin;
		await admin.open(`/apps/${APP}/devices?page=3`, "Devices");
		const rows = () => page.getByRole("region", { name: "Devices" }).getByRole("row").count();
		const isPressed = () => page.getByRole("button", { name: /^iOS/ }).getAttribute("aria-pressed");
		await page.getByRole("button", { name: /^iOS/ }).click();
		await expect.poll(rows).toBe(4);
		expect(search()).toBe("?platform=ios");
		await page.getByRole("link", { name: deviceId(1) }).click();
		await page.getByRole("heading", { level: 1, name: "Device" }).waitFor();
		await page.goBack();
		await expect.poll(rows).toBe(4);
		await expect.poll(isPressed).toBe("true");
		await page.getByRole("button", { name: "Clear filters" }).click();
		await expect.poll(rows).toBe(7);
		await expect.poll(isPressed).toBe("false");
		await page.goBack();
		await expect.poll(rows).toBe(4);
		await expect.poll(isPressed).toBe("true");
		await admin.open(`/apps/${APP}/changes?action=app.create`, "Activity");
		await page.getByRole("button", { name: "Clear filters" }).waitFor();
		// A kind that has no chip gets one.
		expect(await page.getByRole("button", { name: "app.create" }).getAttribute("aria-pressed")).toBe("true");
		await admin.open(`/organizations/${stage.product.orgId}/keys?kind=unused`, "API keys");
		expect(await page.getByRole("button", { name: /^Not used, 90 days/ }).getAttribute("aria-pressed")).toBe("true");
	});

	test("a whole list has its total, a filter of parts, and an order, all in the address", async () => {
		const { page } = admin;
		const { orgId } = stage.product;
		const bindings = [{ scope_type: "org", role_name: "org_member", org_id: orgId }];
		for (const name of ["Zeta", "build 10", "build 9", "Alpha", "build 1", "deploy"])
			await stage.product.api("POST", "/apikey", { name, bindings, hashed: true });
		await admin.open(`/organizations/${orgId}/keys`, "API keys");
		const names = () =>
			page.getByRole("region", { name: "API keys" }).getByRole("row").getByRole("link").allInnerTexts();
		await page.getByText("7 API keys", { exact: true }).waitFor();
		expect(await names()).toEqual(["Alpha", "build 1", "build 9", "build 10", "deploy", "First admin key", "Zeta"]);
		await page.keyboard.press("/");
		await page.keyboard.type("BUILD");
		await page.getByText("3 of 7 API keys").waitFor();
		await page.getByRole("button", { name: "Key", exact: true }).click();
		await expect.poll(names).toEqual(["build 10", "build 9", "build 1"]);
		expect(search()).toBe("?q=BUILD&sort=-name");
		await expectSound(admin);
		await page.reload();
		await expect.poll(names).toEqual(["build 10", "build 9", "build 1"]);
		await page.getByLabel("Filter API keys").fill("no such key");
		await page.getByText("No matching API keys").waitFor();
	});

	test("organizations, sessions and passkeys are paged", async () => {
		const { page } = admin;
		const db = await stage.product.running.miniflare.getD1Database("DB");
		for (let index = 0; index < 21; index++)
			await stage.product.api("PUT", "/organization", { name: `Branch ${index}` });
		await db
			.prepare(
				`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
				INSERT INTO sessions (id, user_id, token_hash, method, user_agent, created_at_ms, last_seen_at_ms, expires_at_ms)
				SELECT 'many-' || i, u.id, 'many-' || i, 'code', 'Firefox on Linux', ?1, ?1, ?1 + 86400000 FROM n, users u
				WHERE u.email = 'admin@capstan.local'`,
			)
			.bind(Date.now() - 60_000)
			.run();
		await admin.open("/organizations", "Organizations");
		const region = (name: string) => page.getByRole("region", { name, exact: true });
		await expect.poll(() => region("Organizations").getByRole("row").count()).toBe(21);
		await page.getByRole("button", { name: "Next" }).click();
		await expect.poll(() => region("Organizations").getByRole("row").count()).toBe(3);
		expect(search()).toBe("?page=2");
		await admin.open("/account", "Your account");
		await expect.poll(() => region("Sessions").getByRole("row").count()).toBe(21);
		await expectSound(admin);
		const end = region("Sessions").getByRole("button", { name: /^End session of Firefox on Linux, last used / });
		expect(await end.count()).toBeGreaterThan(10);
		const pager = page.getByRole("navigation", { name: "Pages" }).first();
		await pager.getByRole("button", { name: "Next" }).click();
		await expect.poll(() => region("Sessions").getByRole("row").count()).toBeLessThan(21);
		expect(search()).toBe("?sessions=2");
	});

	test("a passkey is deleted after a confirmation that names it and the remaining sign-in methods", async () => {
		const { page } = admin;
		const send = await devtoolsOf(admin);
		const add = async (name: string) => {
			// Each passkey is on a separate device.
			const authenticatorId = await addAuthenticator(send);
			await page.getByLabel("Name of a new passkey").fill(name);
			await page.getByRole("button", { name: "Add passkey" }).click();
			await page.getByRole("button", { name: `Remove the passkey ${name}` }).waitFor();
			await send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
		};
		const passkeys = async () =>
			(await (await admin.context.request.get(`${stage.origin}/account/passkeys`)).json()).map(
				({ name }: { name: string }) => name,
			);
		await admin.open("/account", "Your account");
		await add("Laptop");
		await add("Phone");
		const dialog = page.getByRole("dialog");
		await page.getByRole("button", { name: "Remove the passkey Laptop" }).click();
		await dialog.getByText("Remove the passkey Laptop?").waitFor();
		await dialog.getByText("You can still sign in with your other passkeys.").waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Cancel" }).click();
		expect(await passkeys()).toEqual(["Laptop", "Phone"]);
		await page.getByRole("button", { name: "Remove the passkey Laptop" }).click();
		await dialog.getByRole("button", { name: "Remove passkey" }).click();
		await dialog.waitFor({ state: "detached" });
		await expect.poll(passkeys).toEqual(["Phone"]);
		await page.getByRole("button", { name: "Remove the passkey Phone" }).click();
		await dialog.getByText("This is your last passkey. You can still sign in with a code by e-mail").waitFor();
		await dialog.getByRole("button", { name: "Cancel" }).click();
		// Without mail and without a provider.
		await page.route("**/sign-in/methods", (route) =>
			route.fulfill({ json: { code: false, passkey: true, providers: [] } }),
		);
		await page.reload();
		await page.getByRole("button", { name: "Remove the passkey Phone" }).click();
		await dialog.getByText("This is your only way to sign in.").waitFor();
		expect(await dialog.getByRole("button", { name: "Remove passkey" }).isDisabled()).toBe(true);
		await expectSound(admin);

		await page.unroute("**/sign-in/methods");
		await page.reload();
		await page.getByRole("button", { name: "Remove the passkey Phone" }).click();
		await dialog.getByRole("button", { name: "Remove passkey" }).click();
		await expect.poll(passkeys).toEqual([]);
	});
});
