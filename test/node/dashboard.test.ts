/**
 * The dashboard in a real browser against the running product: each screen's main path, as an
 * administrator, as a member with few rights and without any; keyboard and screen reader can use
 * every screen.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, HOSTILE, type OwnStage, startStage, type Visitor } from "./support/dashboard";
import { expectSound, expectSoundScreen, NOTHING_HERE } from "./support/dashboard-checks";
import { SCREENS } from "./support/dashboard-screens";

if (chromium === undefined) console.log("skipped: the dashboard in a browser, because no Chromium is installed");

describe.skipIf(chromium === undefined)("the dashboard", () => {
	let stage: OwnStage;
	beforeAll(async () => {
		stage = await startStage();
	});
	afterAll(async () => {
		await stage?.stop();
	});

	test("sends a visitor without a session to the sign-in page, and back afterwards", async () => {
		const { page, leave } = await stage.visitor();
		// It leads to another page before it is loaded itself.
		await page.goto(`${stage.origin}/dashboard/apps/${APP}/overview`, { waitUntil: "commit" });
		await page.waitForURL((url) => url.pathname === "/sign-in");
		expect(new URL(page.url()).searchParams.get("next")).toBe(`/dashboard/apps/${APP}/overview`);
		leave();
	});

	test("is served at every address below its own, under a policy that allows nothing inline", async () => {
		for (const path of ["/dashboard/", "/dashboard/apps/x/overview", "/dashboard/organizations/1/apps"]) {
			const response = await fetch(stage.product.url + path);
			expect(response.status).toBe(200);
			expect(response.headers.get("content-type")).toContain("text/html");
			const policy = response.headers.get("content-security-policy") ?? "";
			expect(policy).toContain("default-src 'none'");
			expect(policy).toContain("frame-ancestors 'none'");
			expect(policy).not.toContain("unsafe");
		}
		expect((await fetch(`${stage.product.url}/dashboard`)).url).toBe(`${stage.product.url}/dashboard/`);
		expect((await fetch(`${stage.product.url}/dashboardx`)).status).toBe(404);
	});

	test("has its icon on every page for people, and every file that a page requests exists", async () => {
		const { page, leave, complaints } = await stage.admin();
		const missing: string[] = [];
		page.on("response", (response) => {
			// The page of an invitation asks for the one in its address, and there is none.
			const isNone = response.url().endsWith("/invitation/show");
			if (response.status() === 404 && !isNone) missing.push(response.url());
		});
		for (const path of ["/dashboard/", "/sign-in", "/invitation", "/docs", "/docs/access"]) {
			const html = await (await fetch(stage.product.url + path)).text();
			expect(html, path).toMatch(/<link rel="icon"[^>]* href="\/favicon\.svg"/);
			await page.goto(stage.origin + path);
			await page.waitForLoadState("networkidle");
			// Subject to the page's own policy, as when the browser loads an icon.
			const isShown = await page.evaluate(`new Promise((resolve) => {
				const image = new Image();
				image.onload = () => resolve(image.naturalWidth > 0);
				image.onerror = () => resolve(false);
				image.src = document.querySelector("link[rel=icon]").href;
			})`);
			expect(isShown, path).toBe(true);
		}
		expect(missing).toEqual([]);
		expect(complaints).toEqual([]);
		for (const name of ["/favicon.svg", "/favicon.ico"]) {
			const icon = await fetch(stage.product.url + name);
			expect([icon.status, icon.headers.get("content-type")], name).toEqual([200, "image/svg+xml"]);
		}
		leave();
	});

	test("leads an administrator from the start to their apps, and creates one", async () => {
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open("/", "Apps");
		await page.getByRole("link", { name: "Example shop" }).waitFor();
		await page.getByRole("button", { name: "New app" }).click();
		await page.getByLabel("Name").fill(HOSTILE);
		await page.getByLabel("App id").fill("not an id");
		await page.getByRole("button", { name: "Create app" }).click();
		await expect.poll(() => page.getByLabel("App id").getAttribute("aria-invalid")).toBe("true");
		expect(await page.getByRole("dialog").innerText()).not.toContain("app_id");
		await expectSound(visitor);
		await page.getByLabel("App id").fill("com.example.hostile");
		await page.getByRole("button", { name: "Create app" }).click();
		await page.getByText("Add the updater to your app").waitFor();
		await visitor.open("/", "Apps");
		await page.getByRole("link", { name: HOSTILE }).waitFor();
		await expectSound(visitor);
		visitor.leave();
	});

	test("switches between organizations", async () => {
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open("/organizations", "Organizations");
		await page.getByRole("button", { name: "New organization" }).click();
		await page.getByLabel("Name").fill("Lab");
		await page.getByRole("button", { name: "Create organization" }).click();
		await page.getByText("Ship your first live update").waitFor();
		await expectSound(visitor);
		await page.getByRole("button", { name: "Switch app: Lab" }).click();
		await page.getByRole("textbox", { name: "Find an app or organization" }).fill("my org");
		await page.keyboard.press("Enter");
		await page.getByRole("button", { name: "Switch app: My organization" }).waitFor();
		await page.getByRole("link", { name: "Example shop" }).waitFor();
		visitor.leave();
	});

	test("shows what is live, which devices run it and what was changed", async () => {
		const visitor = await stage.admin();
		const { page } = visitor;
		const device = { app_id: APP, device_id: randomUUID(), platform: "ios", plugin_version: "8.51.23" };
		const preview = { ...device, version_name: "1.2.0-pr.128", version_build: "1.0.0" };
		expect((await stage.product.api("POST", "/updates", preview)).status).toBe(200);
		const { product } = stage;
		const found = () => product.api("GET", `/device?app_id=${APP}&device_id=${device.device_id}`);
		await expect.poll(async () => (await found()).status).toBe(200);
		await visitor.open(`/apps/${APP}/overview`, "Example shop");
		await page.getByRole("figure").getByText("1.2.0-pr.128").first().waitFor();
		const live = page.getByRole("figure", { name: /Bundles live on each channel/ });
		await live.getByRole("listitem").filter({ hasText: "production: 1.0.0" }).waitFor({ state: "attached" });
		const releases = page.getByRole("list", { name: "Releases" });
		await releases.getByText("created production with 1.0.0").waitFor();
		await releases.getByText("started the rollout of 1.1.0 on beta at 25").waitFor();
		// Shown as text.
		await releases.getByRole("link", { name: HOSTILE }).waitFor();
		await expectSound(visitor);
		visitor.leave();
	});

	test("offers a member what they may do, and shows a removed member an error", async () => {
		const member = await stage.member("org_member", "member@example.com");
		const memberships = "**/organization/members?*uid=*";
		const isShown = Promise.withResolvers<void>();
		await member.page.route(memberships, async (route) => {
			await isShown.promise;
			await route.continue();
		});
		await member.open(`/apps/${APP}/overview`, "Example shop");
		// Nothing is offered before it is known that they may.
		await member.page.getByRole("figure", { name: /Bundles live on each channel/ }).waitFor();
		expect(await member.page.getByRole("link", { name: "API keys" }).count()).toBe(0);
		isShown.resolve();
		await member.page.getByRole("link", { name: "Members" }).waitFor();
		await member.page.unroute(memberships);
		expect(await member.page.getByRole("link", { name: "API keys" }).count()).toBe(0);
		expect(await member.page.getByRole("link", { name: "Activity", exact: true }).count()).toBe(0);
		const { status } = await stage.product.api(
			"DELETE",
			`/organization/members?orgId=${stage.product.orgId}&email=member@example.com`,
		);
		expect(status).toBe(200);
		await member.open("/", "Organizations");
		await member.page.getByText("No organizations").waitFor();
		await expectSound(member);
		await member.page.goto(`${stage.origin}/dashboard/apps/${APP}/overview`);
		await member.page.getByText(NOTHING_HERE).waitFor();
		await expectSound(member);
		member.leave();
	});

	test("works by keyboard alone", async () => {
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open("/", "Apps");
		await page.getByRole("button", { name: "New app" }).waitFor();
		const focused = () => page.evaluate("document.activeElement?.textContent || document.activeElement?.id");
		await page.keyboard.press("Tab");
		expect(await focused()).toBe("Skip to content");
		await page.keyboard.press("Enter");
		// Past the tabs.
		for (const text of ["Apps", "Statistics of all apps", "New app"]) {
			await page.keyboard.press("Tab");
			expect(await focused()).toBe(text);
		}
		await page.keyboard.press("Enter");
		await page.getByRole("dialog").waitFor();
		await expect.poll(() => page.getByLabel("Name").evaluate((field) => field.matches(":focus"))).toBe(true);
		await page.keyboard.type("By keyboard");
		expect(await page.getByLabel("Name").inputValue()).toBe("By keyboard");
		await page.keyboard.press("Escape");
		await expect.poll(focused).toBe("Keep editing");
		await page.keyboard.press("Tab");
		expect(await focused()).toBe("Discard");
		await page.keyboard.press("Enter");
		await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
		await expect.poll(focused).toBe("New app");
		// Other tests may have created apps that come first.
		await expect
			.poll(async () => {
				await page.keyboard.press("Tab");
				return focused();
			})
			.toBe("Example shop");
		await page.keyboard.press("Enter");
		// The new screen's heading has the focus, so that a screen reader announces it.
		await page.getByRole("heading", { level: 1, name: "Example shop" }).waitFor();
		await expect.poll(focused).toBe("Example shop");
		visitor.leave();
	});

	test("shows a remedy when a screen cannot be loaded or the server does not answer", async () => {
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open("/", "Apps");
		await page.route("**/dashboard-assets/members-*", (route) => route.abort());
		await page.getByRole("link", { name: "Members" }).click();
		await page.getByRole("alert").getByText("Reload the page").waitFor();
		await page.route("**/organization/members*", (route) => route.abort());
		await page.unroute("**/dashboard-assets/members-*");
		await page.getByRole("button", { name: "Reload page" }).click();
		await page.getByRole("alert").getByText("The server did not answer").waitFor();
		await page.unroute("**/organization/members*");
		await page.getByRole("button", { name: "Try again" }).click();
		await page.getByRole("table").getByText("admin@capstan.local").waitFor();
		visitor.leave();
	});

	describe("on a phone, in the dark", () => {
		let phone: Visitor;
		beforeAll(async () => {
			phone = await stage.admin({ width: 360, dark: true });
		});
		// test/proof/screenshots looks at every screen.
		test.each(["apps", "overview", "channel", "channel-release", "devices", "keys", "app-statistics", "settings"])(
			"is sound: %s",
			async (name) => {
				const screen = SCREENS.find((one) => one.name === name);
				if (screen === undefined) throw new Error(`no screen ${name}`);
				await expectSoundScreen(stage, phone, screen);
			},
		);
	});

	test("signs out", async () => {
		const visitor = await stage.member("org_member", "leaving@example.com");
		const { page } = visitor;
		await visitor.open("/", "Apps");
		await page.getByRole("button", { name: "You: leaving@example.com" }).click();
		await page.getByRole("menuitem", { name: "Sign out" }).click();
		await expect.poll(() => new URL(page.url()).pathname).toBe("/sign-in");
		// It leads to another page before it is loaded itself.
		await page.goto(`${stage.origin}/dashboard/`, { waitUntil: "commit" });
		await page.waitForURL((url) => url.pathname === "/sign-in");
		visitor.leave();
	});
});
