/**
 * Settings in a real browser: policies and signing keys of an organization, what the app accepts
 * from its devices, the form of a channel's updates, and the notice of a rollout that fails on a
 * gate which only notifies. Each message of the page is compared with the API afterwards.
 */
import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: settings in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("settings in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const get = async (path: string) => (await stage.product.api("GET", path)).body;
	const button = (name: string) => admin.page.getByRole("button", { name, exact: true });
	const screenshot = async (visitor: Visitor, name: string) => {
		const directory = process.env.CAPSTAN_SCREENSHOTS;
		if (directory !== undefined) await visitor.page.screenshot({ path: `${directory}/${name}.png`, fullPage: true });
	};

	/** The error that the input names as its description, once it is marked as refused. */
	const refusalAt = async (label: string) => {
		const input = admin.page.getByLabel(label, { exact: true });
		await expect.poll(() => input.getAttribute("aria-invalid")).toBe("true");
		const ids = ((await input.getAttribute("aria-describedby")) ?? "").split(" ");
		return admin.page.locator(`#${ids.find((id) => id.endsWith("-error"))}`).innerText();
	};

	test("a refused form says so at its fields, in words of the screen, and puts the focus there", async () => {
		await admin.open(`/organizations/${stage.product.orgId}/keys`, "API keys");
		await button("New key").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByLabel("Name").fill("CI");
		await dialog.getByLabel("Role (1)").selectOption({ index: 1 });
		await dialog.getByLabel("Allowed IP addresses").fill("192.0.2.1\noffice");
		await button("Create key").click();
		const refusal = await refusalAt("Allowed IP addresses");
		expect(refusal).not.toMatch(/ip_allow_list|\d+\.\d+:|(GET|POST) \//);
		const isAtField = () => admin.page.evaluate("document.activeElement.getAttribute('aria-invalid')");
		await expect.poll(isAtField).toBe("true");
		expect(await dialog.getByText("The request was not accepted").count()).toBe(0);
		await expectSound(admin);
		await button("Cancel").click();
	});

	test("an app's device settings are saved, cleared, and refused with the API's message", async () => {
		await admin.open(`/apps/${stage.app}/settings`, "Settings");
		await admin.page.getByRole("switch", { name: "Store custom ids of devices" }).uncheck();
		await admin.page.getByRole("switch", { name: "Block review networks" }).check();
		await admin.page.getByLabel("App Store address").fill("https://apps.apple.com/app/id1234567890");
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot(admin, "app-settings-1280");
		await button("Save devices").click();
		await admin.page.getByRole("switch", { name: "Open preview links by their ids" }).check();
		await button("Save previews").click();
		const record = () => get(`/app/${stage.app}`);
		await expect.poll(record).toMatchObject({
			allow_device_custom_id: false,
			block_provider_infra_requests: true,
			allow_preview: true,
			ios_store_url: "https://apps.apple.com/app/id1234567890",
			android_store_url: null,
		});
		await admin.page.getByLabel("App Store address").fill("");
		await admin.page.getByLabel("Google Play address").fill("http://play.google.com/");
		await button("Save devices").click();
		expect(await refusalAt("Google Play address (optional)")).toMatch(/^Must be an https address/);
		expect((await record()).ios_store_url, "nothing is half done").not.toBeNull();
		await admin.page.getByLabel("Google Play address").fill("");
		await button("Save devices").click();
		await expect.poll(record).toMatchObject({ ios_store_url: null });
	});

	test("the form of a channel's updates is chosen in its dialog and shown on its page", async () => {
		await admin.open(`/apps/${stage.app}/channels/production`, "production");
		await admin.page.getByText("Zip and single files").waitFor();
		await button("Edit channel").click();
		await admin.page.getByLabel("Update format").selectOption({ label: "Zip only" });
		await expectSound(admin);
		await screenshot(admin, "channel-form-1280");
		await button("Save channel").click();
		await admin.page.getByRole("dialog").waitFor({ state: "detached" });
		await admin.page.getByText("Zip only", { exact: true }).waitFor();
		expect(await get(`/channel?app_id=${stage.app}&channel=production`)).toMatchObject({ updatePackage: "zip" });
		await button("Edit channel").click();
		await admin.page.getByLabel("Update format").selectOption({ label: "Single files only" });
		await button("Save channel").click();
		await admin.page.getByText("The channel's update format asks for single files").waitFor();
		expect(await get(`/channel?app_id=${stage.app}&channel=production`)).toMatchObject({ updatePackage: "zip" });
	});

	test("a rollout that fails is announced on the overview and on its channel until it is dismissed", async () => {
		const reason = "12 of 40 devices failed; with 95 % confidence at least 18.1 % do, and the limit is 5 %.";
		const db = await stage.product.running.miniflare.getD1Database("DB");
		await db
			.prepare("UPDATE channels SET rollout_notice = ?, rollout_notice_at_ms = ? WHERE name = 'beta'")
			.bind(reason, Date.now())
			.run();
		const { name } = await get(`/app/${stage.app}`);
		await admin.open(`/apps/${stage.app}/overview`, name);
		await admin.page.getByText("The rollout of 1.1.0 on beta is failing").waitFor();
		await admin.page.getByText(reason).waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot(admin, "notice-1280");
		await admin.page.getByRole("link", { name: "View release", exact: true }).click();
		await admin.page.getByRole("heading", { level: 1, name: "1.1.0 on beta" }).waitFor();
		await button("Dismiss warning").click();
		await admin.page.getByText("The rollout of 1.1.0 on beta is failing").waitFor({ state: "detached" });
		expect(await get(`/channel?app_id=${stage.app}&channel=beta`)).toMatchObject({
			rolloutNotice: null,
			rolloutEnabled: true,
			rolloutPercentageBps: 2500,
		});
	});

	test("each card says what is stored, saves what changed and nothing else, and the last one destroys", async () => {
		const { page } = admin;
		for (const [path, heading, cards] of [
			[`/apps/${stage.app}/settings`, "Settings", 5],
			[`/organizations/${stage.product.orgId}/settings`, "Organization settings", 3],
			["/account", "Your account", 0],
		] as const) {
			await admin.open(path, heading);
			await page.waitForLoadState("networkidle");
			const forms = page.getByRole("main").locator("form.settings");
			expect(await forms.count(), heading).toBe(cards);
			for (const present of await forms.locator(".settings-present").allInnerTexts()) {
				expect(present).toMatch(/\w.*\.|App id/);
			}
			expect(await forms.locator(".settings-present").count()).toBe(cards);
			expect(await page.getByRole("button", { name: /^(Save|Discard)/ }).count(), "nothing is changed").toBe(0);
			const last = page.getByRole("main").locator(".settings").last();
			expect(await last.getByRole("button").last().innerText()).toMatch(/^Delete /);
			for (const form of await forms.all()) {
				const control = form.locator("input:not([type=radio]):not([disabled])").first();
				if ((await control.getAttribute("role")) === "switch") await control.click();
				else await control.fill(/^\d+$/.test(await control.inputValue()) ? "9" : "other-name");
				await form.getByText(/^Unsaved: ./).waitFor();
				expect(await form.getByRole("button", { name: /^Save / }).count()).toBe(1);
				await form.getByRole("button", { name: "Discard" }).click();
				expect(await form.getByRole("button", { name: /^Save / }).count()).toBe(0);
			}
			await expectSound(admin);
		}
	});

	test("what is typed while a card is saved stays, within its limits, and is saved next", async () => {
		const { page } = admin;
		const kept = page.getByLabel("Former bundles to keep per channel");
		const stored = async () => (await stage.product.api("GET", `/app/${stage.app}`)).body.keep_live_bundles;
		let answer: () => void = () => undefined;
		let held: Promise<void> | undefined;
		await page.route(`**/app/${stage.app}`, async (route) => {
			if (route.request().method() !== "PUT") return route.fallback();
			const response = await route.fetch();
			await held;
			return route.fulfill({ response });
		});
		await admin.open(`/apps/${stage.app}/settings`, "Settings");
		for (const [first, second, after] of [
			["7", "9", 9],
			["4", "600", 50],
			["x3,", "12", 12],
		] as const) {
			held = new Promise((resolve) => {
				answer = resolve;
			});
			await kept.fill(first);
			await button("Save retention").click();
			await expect.poll(stored).toBe(Number(first.replaceAll(/\D/g, "")));
			await kept.fill(second);
			answer();
			await page.getByText(`Unsaved: former bundles ${await stored()} → `).waitFor();
			await button("Save retention").click();
			await expect.poll(stored).toBe(after);
			await expect.poll(() => button("Save retention").count()).toBe(0);
			expect(await kept.inputValue()).toBe(String(after));
		}
		await page.unrouteAll({ behavior: "wait" });
	});

	test("a card sends only the fields that changed, so that it undoes nobody else's change", async () => {
		await admin.open(`/apps/${stage.app}/settings`, "Settings");
		await admin.page.getByLabel("Default upload channel").fill("beta");
		await stage.product.api("PUT", `/app/${stage.app}`, { expose_metadata: true, name: "Renamed meanwhile" });
		const [request] = await Promise.all([
			admin.page.waitForRequest((sent) => sent.method() === "PUT"),
			button("Save uploads").click(),
		]);
		expect(request.postDataJSON()).toEqual({ default_upload_channel: "beta" });
		await admin.page.getByText("Uploads go to beta. Devices get the release notes and the link.").waitFor();
		expect(await get(`/app/${stage.app}`)).toMatchObject({ name: "Renamed meanwhile", expose_metadata: true });
	});

	test("a member with read access sees the settings and can change none", async () => {
		const member = await stage.member("org_member", "settings-looker@example.com");
		await member.open(`/apps/${stage.app}/settings`, "Settings");
		await member.page.getByText("Custom ids are not stored. Review networks get no updates.").waitFor();
		expect(await member.page.getByRole("main").locator("input").count()).toBe(0);
		member.leave();
	});

	test("tries policies before saving them", async () => {
		await stage.product.api("POST", "/apikey", {
			name: "Everlasting",
			hashed: true,
			bindings: [{ role_name: "org_member", scope_type: "org", org_id: stage.product.orgId }],
		});
		await stage.product.api("POST", "/apikey", {
			name: "Ending",
			hashed: true,
			expires_at: new Date(Date.now() + 40 * 86_400_000).toISOString(),
			bindings: [{ role_name: "org_super_admin", scope_type: "org", org_id: stage.product.orgId }],
		});
		await admin.open(`/organizations/${stage.product.orgId}/settings`, "Organization settings");
		await admin.page.getByRole("switch", { name: "Keys must expire" }).check();
		await admin.page.getByText("Everlasting, which never expires").waitFor();
		await expectSound(admin);
		const policy = async () =>
			(await get(`/organization?orgId=${stage.product.orgId}`)).require_apikey_expiration as boolean;
		expect(await policy()).toBe(false);
		// Another setting is tried by itself, and cannot be saved before the answer is there.
		let answer = () => {};
		const isHeld = new Promise<void>((resolve) => {
			answer = resolve;
		});
		await admin.page.route("**/organization", async (route) => {
			await isHeld;
			await route.continue();
		});
		await admin.page.getByLabel("Longest key lifetime, in days").fill("60");
		await expect.poll(() => button("Save policies").isDisabled()).toBe(true);
		answer();
		await expect.poll(() => button("Save policies").isEnabled()).toBe(true);
		await admin.page.unroute("**/organization");
		await button("Discard").click();
		expect(await policy()).toBe(false);
		await admin.page.getByRole("switch", { name: "Never store key secrets" }).check();
		await admin.page.getByText("No key will stop working").waitFor();
		expect((await get(`/organization?orgId=${stage.product.orgId}`)).enforce_hashed_api_keys).toBe(false);
	});

	test("registers a signing key, tries the policy that demands it, and removes both", async () => {
		const { publicKey } = generateKeyPairSync("rsa", {
			modulusLength: 2048,
			publicKeyEncoding: { type: "pkcs1", format: "pem" },
			privateKeyEncoding: { type: "pkcs8", format: "pem" },
		});
		const isRequired = async () =>
			(await get(`/organization?orgId=${stage.product.orgId}`)).require_signed_bundles as boolean;
		const policy = admin.page.getByRole("switch", { name: "Require signed bundles" });
		await admin.open(`/organizations/${stage.product.orgId}/settings`, "Organization settings");
		await button("Add signing key").click();
		await admin.page.getByLabel("Name").last().fill("Release key");
		await admin.page.getByLabel("Public key").fill(publicKey);
		await expectSound(admin);
		await button("Add key").click();
		await admin.page.getByText("Signing key Release key added.").waitFor();
		await policy.click();
		await admin.page.getByText("serve unsigned bundles").waitFor();
		await expectSound(admin);
		expect(await isRequired()).toBe(false);
		await button("Save signed bundles").click();
		await admin.page.getByText("Only signed bundles are accepted.").waitFor();
		expect(await isRequired()).toBe(true);
		await policy.click();
		await admin.page.getByText("can then release any bundle").waitFor();
		await button("Save signed bundles").click();
		await admin.page.getByText("Unsigned bundles are accepted.").waitFor();
		expect(await isRequired()).toBe(false);
		await button("Remove Release key").click();
		await button("Remove key").click();
		await admin.page.getByText("Signing key Release key removed.").waitFor();
		expect(admin.complaints).toEqual([]);
	});
});
