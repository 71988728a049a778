/**
 * An organization from the dashboard in a real browser: keys, members, policies, logs, figures, connecting an app and its CI, one's own
 * account; as an administrator, as a member, and as somebody whose rights went while the page was open.
 */
import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { addAuthenticator, chromium } from "./support/browser";
import { APP, deviceId, devtoolsOf, HOSTILE, type Stage, startStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { uploadProductBundle } from "./support/product";

if (chromium === undefined)
	console.log("skipped: an organization from the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("an organization from the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	let at: string;
	beforeAll(async () => {
		stage = await startStage();
		admin = await stage.admin();
		at = `/organizations/${stage.product.orgId}`;
	});
	afterAll(async () => {
		await stage?.stop();
	});

	const get = async (path: string, key?: string) => (await stage.product.api("GET", path, undefined, key)).body;
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const options = (label: string) => admin.page.getByLabel(label).locator("option").allInnerTexts();
	const keyNamed = async (name: string) =>
		(await get(`/apikey?org_id=${stage.product.orgId}`)).find((key: { name: string }) => key.name === name);
	let secret: string;

	test("makes an API key for one app, shows its secret once, and the key works", async () => {
		await admin.open(`${at}/keys`, "API keys");
		await expectSound(admin);
		await button("New key").click();
		await admin.page.getByLabel("Name").fill(HOSTILE);
		await admin.page.getByLabel("Where (1)").selectOption({ label: `Example shop (${APP})` });
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
		await button("I have kept it").click();
		await admin.page.getByRole("link", { name: HOSTILE }).waitFor();
		expect(await admin.page.content()).not.toContain(secret);
		expect(await keyNamed(HOSTILE)).toMatchObject({ is_hashed_key: true, bindings: [{ role_name: "app_uploader" }] });
		await expectSound(admin);
	});

	test("edits a key, and keeps what was not touched", async () => {
		const before = await keyNamed(HOSTILE);
		await admin.open(`${at}/keys/${before.id}`, HOSTILE);
		await button("Edit").click();
		await admin.page.getByLabel("Addresses it may be used from").fill("127.0.0.0/8");
		await button("Add another").click();
		await admin.page.getByLabel("Role (2)").selectOption({ label: "App reader" });
		await expectSound(admin);
		await button("Save").click();
		await admin.page.getByText(`The key ${HOSTILE} is changed.`).waitFor();
		const after = await keyNamed(HOSTILE);
		expect(after).toMatchObject({ expires_at: before.expires_at, ip_allow_list: ["127.0.0.0/8"] });
		expect(after.bindings.map((binding: { role_name: string }) => binding.role_name)).toEqual([
			"app_uploader",
			"app_reader",
		]);
		expect(after.bindings[0].id).toBe(before.bindings[0].id);
	});

	test("gives a key a new secret while the old one still works, and revokes it", async () => {
		await button("New secret").click();
		await admin.page.getByLabel("How long the old secret works too").selectOption({ label: "A day" });
		await button("Make the new secret").click();
		const renewed = await admin.page.getByRole("textbox", { name: "Secret", exact: true }).inputValue();
		await button("I have kept it").click();
		await admin.page.getByText("Works until").waitFor();
		for (const key of [secret, renewed]) expect((await get(`/app/${APP}`, key)).app_id).toBe(APP);
		await expectSound(admin);
		await button("Revoke").click();
		await admin.page.getByText("stops working at once").waitFor();
		await button("Revoke key").click();
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
		await page.getByRole("button", { name: "Invite someone" }).click();
		await page.getByLabel("E-mail address").fill("later@example.com");
		await page.getByRole("button", { name: "Make the invitation" }).click();
		const question = page.getByRole("dialog", { name: "Confirm it's you" });
		await question.getByText("Your form stays as it is").waitFor();
		await expectSound(member);
		// Escape closes the question only.
		await page.keyboard.press("Escape");
		await question.waitFor({ state: "detached" });
		await page.getByText("your input is still here").waitFor();
		expect(await page.getByLabel("E-mail address").inputValue()).toBe("later@example.com");
		await page.getByRole("button", { name: "Make the invitation" }).click();
		await question.getByRole("button", { name: "Print a code in the terminal" }).click();
		await question.getByLabel("Code").waitFor();
		const code = () => /Mail to late@example\.com: (\d{6}) /.exec(printed.join(""))?.[1] ?? "";
		await expect.poll(code).not.toBe("");
		await expectSound(member);
		await question.getByLabel("Code").fill(code() === "000000" ? "000001" : "000000");
		await question.getByRole("button", { name: "Confirm" }).click();
		await question.getByRole("alert").getByText("is not valid").waitFor();
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

	test("lets an administrator create organizations, and not any more", async () => {
		const member = await stage.member("org_admin", "founder@example.com");
		const isFounder = async () =>
			(await get(`/organization/members?orgId=${stage.product.orgId}`)).find(
				({ email }: { email: string }) => email === "founder@example.com",
			).global_permissions;
		const change = async (isChecked: boolean) => {
			await admin.open(`${at}/members`, "Members");
			await button("Change the role of founder@example.com").click();
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

	test("lists the keys that nobody used", async () => {
		await admin.open(`${at}/keys`, "API keys");
		await admin.page.getByLabel("Only keys that nobody used for 90 days").check();
		await admin.page.getByText("Every key is in use").waitFor();
		await expectSound(admin);
	});

	test("invites someone with a link, changes their role and withdraws it", async () => {
		await admin.open(`${at}/members`, "Members");
		await expectSound(admin);
		await button("Invite someone").click();
		await admin.page.getByLabel("E-mail address").fill("ada@example.com");
		await button("Make the invitation").click();
		const link = await admin.page.getByRole("textbox", { name: "Link", exact: true }).inputValue();
		expect(link).toContain("/invitation#token=");
		await expectSound(admin);
		await button("I have kept it").click();
		await button("Change the role of ada@example.com").click();
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
		await button("I have kept it").click();
		await button("Withdraw the invitation of ada@example.com").click();
		await admin.page.getByText("Their link stops working.").waitFor();
		await button("Withdraw").last().click();
		await admin.page.getByText("ada@example.com", { exact: true }).waitFor({ state: "detached" });
	});

	test("removes a member after it named the keys that stop", async () => {
		const member = await stage.member("org_admin", "bob@example.com");
		await member.open(`${at}/keys`, "API keys");
		await admin.open(`${at}/members`, "Members");
		await button("Remove bob@example.com").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("These API keys of theirs stop working at once:").waitFor();
		await dialog.getByText("Personal key").or(dialog.getByRole("listitem")).first().waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Remove member" }).click();
		await admin.page.getByText("bob@example.com is removed.").waitFor();
		// Who is removed meets the API's refusal, in words.
		await member.page.reload();
		await member.page.getByRole("alert").or(member.page.getByText("No API keys")).first().waitFor();
		await expectSound(member);
		member.leave();
	});

	test("tries policies before they hold", async () => {
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
		await admin.open(`${at}/settings`, "Policies and settings");
		await admin.page.getByRole("switch", { name: "Every key expires" }).check();
		await button("See what would stop").click();
		await admin.page.getByText("Everlasting, which never expires").waitFor();
		await expectSound(admin);
		const policy = async () =>
			(await get(`/organization?orgId=${stage.product.orgId}`)).require_apikey_expiration as boolean;
		expect(await policy()).toBe(false);
		// What was tried is what is saved: another setting has to be tried anew.
		await admin.page.getByLabel("Days that a key may live at most").fill("60");
		await button("See what would stop").click();
		await button("Let these policies hold").waitFor();
		await admin.page.getByLabel("Days that a key may live at most").fill("");
		await admin.page.getByRole("switch", { name: "Every key expires" }).uncheck();
		await button("See what would stop").click();
		await admin.page.getByText("No working key would stop").waitFor();
		expect(await policy()).toBe(false);
	});

	test("registers a signing key, tries the policy that demands it, and takes both back", async () => {
		const { publicKey } = generateKeyPairSync("rsa", {
			modulusLength: 2048,
			publicKeyEncoding: { type: "pkcs1", format: "pem" },
			privateKeyEncoding: { type: "pkcs8", format: "pem" },
		});
		const isRequired = async () =>
			(await get(`/organization?orgId=${stage.product.orgId}`)).require_signed_bundles as boolean;
		const policy = admin.page.getByRole("switch", { name: "Require signed bundles" });
		await admin.open(`${at}/settings`, "Policies and settings");
		await button("Add a signing key").click();
		await admin.page.getByLabel("Name").last().fill("Release key");
		await admin.page.getByLabel("Public key").fill(publicKey);
		await expectSound(admin);
		await button("Add key").click();
		await admin.page.getByText("The signing key Release key is added.").waitFor();
		await policy.click();
		await button("See what changes").click();
		await admin.page.getByText("would serve unsigned bundles").waitFor();
		await expectSound(admin);
		expect(await isRequired()).toBe(false);
		await button("Require signed bundles").click();
		await admin.page.getByText("Only signed bundles are accepted from now on.").waitFor();
		expect(await isRequired()).toBe(true);
		await policy.click();
		await button("Accept unsigned bundles").click();
		await admin.page.getByText("Unsigned bundles are accepted again.").waitFor();
		expect(await isRequired()).toBe(false);
		await button("Remove Release key").click();
		await button("Remove key").click();
		await admin.page.getByText("The signing key Release key is removed.").waitFor();
		await expectSound(admin);
	});

	test("names everything before an organization is deleted, and undoes it", async () => {
		const { body } = await stage.product.api("PUT", "/organization", { name: "Short-lived" });
		const visitor = await stage.admin();
		await visitor.open(`/organizations/${body.id}/settings`, "Policies and settings");
		const { page } = visitor;
		await page.getByRole("button", { name: "Delete Short-lived" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("0 apps").waitFor();
		expect(await dialog.getByRole("button", { name: "Delete organization" }).isDisabled()).toBe(true);
		await dialog.getByLabel("Type Short-lived to go on").fill("Short-lived");
		await expectSound(visitor);
		await dialog.getByRole("button", { name: "Delete organization" }).click();
		await page.getByText("Short-lived is deleted").waitFor();
		expect((await stage.product.api("GET", `/organization?orgId=${body.id}`)).status).toBe(404);
		await page.getByRole("button", { name: "Undo" }).click();
		await expect.poll(async () => (await stage.product.api("GET", `/organization?orgId=${body.id}`)).status).toBe(200);
		visitor.leave();
	});

	test("keeps a deleted organization in sight until its day, for whoever may bring it back", async () => {
		const { body } = await stage.product.api("PUT", "/organization", { name: HOSTILE });
		const { body: gone } = await stage.product.api("DELETE", `/organization?orgId=${body.id}`);
		const visitor = await stage.admin();
		const { page } = visitor;
		await visitor.open("/organizations", "Organizations");
		const deleted = page.getByRole("region", { name: "Deleted organizations" });
		await deleted.getByText(HOSTILE).waitFor();
		expect(await deleted.locator("time").last().getAttribute("datetime")).toBe(gone.restorable_until);
		await expectSound(visitor);
		await page.getByRole("button", { name: `Undo the deletion of ${HOSTILE}` }).click();
		await page.getByText(`${HOSTILE} is back, as it was.`).waitFor();
		await page.getByRole("link", { name: HOSTILE }).waitFor();
		await deleted.waitFor({ state: "detached" });
		expect((await get(`/organization?orgId=${body.id}`)).name).toBe(HOSTILE);
		await expectSound(visitor);
		visitor.leave();
	});

	test("filters the audit log and offers it as a file", async () => {
		await admin.open(`${at}/changes`, "Audit log");
		await admin.page.getByLabel("Action").fill("channel.create");
		await button("Filter").click();
		await expect.poll(() => admin.page.getByRole("region", { name: "Changes" }).getByRole("row").count()).toBe(5);
		await expectSound(admin);
		const file = await admin.page.getByRole("link", { name: "Save as NDJSON" }).getAttribute("href");
		const response = await admin.context.request.get(`${stage.origin}${file}`);
		expect((await response.text()).trim().split("\n")).toHaveLength(4);
		await admin.open(`/apps/${APP}/changes`, "Changes");
		await admin.page.getByText("Example shop").first().waitFor();
		await expectSound(admin);
	});

	test("draws every figure for any range, and gives its table", async () => {
		for (const path of [`/apps/${APP}/statistics`, `${at}/statistics`]) {
			await admin.open(path, "Statistics");
			for (const figure of await options("Figure")) {
				await admin.page.getByLabel("Figure").selectOption({ label: figure });
				await button("7 days").click();
				const graph = admin.page.getByRole("img", { name: new RegExp(`^${figure} by day`) });
				await expect
					.poll(() => graph.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth))
					.toBeGreaterThan(0);
			}
			await expectSound(admin);
			const file = await admin.page.getByRole("link", { name: "Save as CSV" }).getAttribute("href");
			const response = await admin.context.request.get(`${stage.origin}${file}`);
			expect(response.headers()["content-type"]).toContain("text/csv");
			await admin.page.getByLabel("From").fill("2026-12-31");
			await admin.page.getByRole("alert").waitFor();
		}
	});

	test("tells how to connect an app and its CI, and sees both arrive", async () => {
		const appId = "com.example.fresh";
		await stage.product.api("POST", "/app", { app_id: appId, name: "Fresh", owner_org: stage.product.orgId });
		await admin.open(`/apps/${appId}/connect`, "Connect");
		await admin.page.getByText("Waiting for the first device").waitFor();
		await admin.page.getByText("Waiting for the first upload").waitFor();
		await admin.page.getByText(`"updateUrl": "${stage.origin}/updates"`).waitFor();
		await admin.page.getByText(`bundle upload ${appId}`).waitFor();
		// No device was seen yet, so the page asks for the store version.
		const storeVersion = admin.page.getByLabel("Newest store version");
		await admin.page.getByText("No device was seen yet: enter the version of your newest store build.").waitFor();
		await storeVersion.fill("10.0.1");
		await admin.page.getByText('--bundle "10.$(date').waitFor();
		await admin.page.getByText("These releases reach every store build 10.x").waitFor();
		await storeVersion.fill("ten");
		await admin.page.getByText("Enter a version such as 2.3.0.").waitFor();
		expect(await admin.page.getByText("bundle upload").count()).toBe(0);
		await storeVersion.fill("10.0.1");
		await admin.page.getByLabel("CI system").selectOption("gitlab");
		await admin.page.getByText("resource_group: release").waitFor();
		await expectSound(admin);
		await admin.page.getByLabel("What CI does").selectOption("preview");
		await admin.page.getByText(`channel delete "$channel"`).waitFor();
		await expectSound(admin);
		await uploadProductBundle(stage.product, appId, "1.0.0");
		await admin.page.getByText("An upload arrived").waitFor();
		await stage.product.api("POST", "/updates", {
			app_id: appId,
			device_id: deviceId(0),
			platform: "ios",
			version_name: "builtin",
			version_build: "2.3.0",
			plugin_version: "8.51.23",
		});
		await admin.page.getByText("Your app is connected").waitFor();
		// The page knows the newest store version now.
		await stage.product.api("POST", "/channel", { app_id: appId, channel: "strict", disableAutoUpdate: "minor" });
		await admin.open(`/apps/${appId}/connect`, "Connect");
		await admin.page.getByText("The newest that a device reported is 2.3.0.").waitFor();
		await admin.page.getByText("These releases reach every store build 2.3.x").waitFor();
		await admin.page.getByText('--bundle "2.3.$(date').waitFor();
		await expectSound(admin);
	});

	test("changes an app's settings, and names what goes before it is deleted", async () => {
		await admin.open("/apps/com.example.fresh/settings", "Settings");
		await admin.page.getByRole("textbox", { name: "Name", exact: true }).fill("Fresh paint");
		await button("Save").click();
		await expect.poll(async () => (await get("/app/com.example.fresh")).name).toBe("Fresh paint");
		await expectSound(admin);
		await stage.product.api("POST", "/channel", { app_id: "com.example.fresh", channel: "production" });
		await stage.product.api("POST", "/apikey", {
			name: "Reader",
			bindings: [
				{
					...{ role_name: "app_reader", scope_type: "app", org_id: stage.product.orgId },
					app_id: (await get("/app/com.example.fresh")).id,
				},
			],
		});
		await button("Delete Fresh paint").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByText("1 bundle,").waitFor();
		expect(await dialog.getByRole("listitem").allInnerTexts()).toEqual([
			// That of the test before, and production.
			"2 channels",
			expect.stringMatching(/^1 bundle, \d+ B$/),
			"what is known of its devices, and its statistics",
			"1 role that members and API keys have at it",
		]);
		await dialog.getByLabel("Type com.example.fresh to go on").fill("com.example.fresh");
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Delete app" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "Apps" }).waitFor();
		expect((await stage.product.api("GET", "/app/com.example.fresh")).status).toBe(404);
	});

	test("brings a deleted app back from the list of the organization's apps", async () => {
		await admin.open(`${at}/apps`, "Apps");
		const deleted = admin.page.getByRole("region", { name: "Deleted apps" });
		await deleted.getByText("Fresh paint").waitFor();
		await expectSound(admin);
		await deleted.getByRole("button", { name: "Undo the deletion of Fresh paint" }).click();
		await admin.page.getByRole("link", { name: "Fresh paint" }).waitFor();
		await expect.poll(() => deleted.count()).toBe(0);
		expect(await get("/app/com.example.fresh")).toMatchObject({ name: "Fresh paint" });
	});

	test("offers an app to another organization, which accepts it", async () => {
		const other = (await stage.product.api("PUT", "/organization", { name: "Other company" })).body.id;
		await admin.open("/apps/com.example.fresh/settings", "Settings");
		await button("Offer Fresh paint").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByLabel("Organization").fill(`http://localhost/dashboard/organizations/${other}/apps`);
		await dialog.getByText("1 role that members and API keys have on the app will end: Reader.").waitFor();
		await expectSound(admin);
		await dialog.getByRole("button", { name: "Offer app" }).click();
		await button("Withdraw the offer").waitFor();
		await expectSound(admin);
		await admin.open(`/organizations/${other}/apps`, "Apps");
		const offered = admin.page.getByRole("region", { name: "Offered apps" });
		await offered.getByText("My organization").waitFor();
		await expectSound(admin);
		await offered.getByRole("button", { name: "Accept com.example.fresh" }).click();
		await admin.page.waitForURL("**/apps/com.example.fresh/overview");
		expect(await get("/app/com.example.fresh")).toMatchObject({ owner_org: other });
	});

	test("shows what the organization holds beside its quotas", async () => {
		await admin.open(`${at}/settings`, "Policies and settings");
		// An empty bar has no width, so it counts as hidden.
		for (const name of ["Storage", "Apps", "API keys", "Open invitations"]) {
			await admin.page.getByRole("progressbar", { name, exact: true }).waitFor({ state: "attached" });
		}
		await admin.page
			.getByRole("region", { name: "Usage of apps" })
			.getByRole("link", { name: "Example shop" })
			.waitFor();
		await expectSound(admin);
	});

	test("lets somebody see their sessions, add a passkey, and leave", async () => {
		const visitor = await stage.member("org_member", "eve@example.com");
		const { page } = visitor;
		await addAuthenticator(await devtoolsOf(visitor));
		await visitor.open("/account", "Your account");
		await page.getByLabel("Name of a new passkey").fill(HOSTILE);
		await page.getByRole("button", { name: "Add a passkey" }).click();
		await page.getByRole("region", { name: "Passkeys" }).getByText(HOSTILE, { exact: true }).waitFor();
		await page.getByRole("region", { name: "Sessions" }).getByText("This one").waitFor();
		await expectSound(visitor);
		await page.getByRole("button", { name: "Delete your account" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("your part in My organization").waitFor();
		await dialog.getByLabel("Type eve@example.com to go on").fill("eve@example.com");
		await expectSound(visitor);
		await dialog.getByRole("button", { name: "Delete account" }).click();
		await page.waitForURL((url) => url.pathname === "/sign-in");
		visitor.leave();
	});

	test("lets a member look and gives an app's maker what its role at it holds", async () => {
		const member = await stage.member("org_member", "maker@example.com");
		const { page } = member;
		for (const [path, heading] of [
			[`${at}/members`, "Members"],
			[`${at}/settings`, "Policies and settings"],
			[`${at}/statistics`, "Statistics"],
			[`/apps/${APP}/connect`, "Connect"],
			[`/apps/${APP}/settings`, "Settings"],
		] as const) {
			await member.open(path, heading);
			await page.waitForLoadState("networkidle");
			const offered = await page.getByRole("main").getByRole("button").allInnerTexts();
			expect(offered.filter((name) => /invite|role|remove|delete|see what|^save$|make/i.test(name))).toEqual([]);
			await expectSound(member);
		}
		await member.open(`${at}/keys`, "API keys");
		await page.getByText("No API keys").waitFor();
		await member.open(`${at}/changes`, "Audit log");
		await page.getByRole("alert").getByText("org.read_audit").waitFor();
		await expectSound(member);
		await member.open(`${at}/apps`, "Apps");
		await page.getByRole("button", { name: "New app" }).click();
		await page.getByLabel("Name").fill("Mine");
		await page.getByLabel("App id").fill("com.example.mine");
		await page.getByRole("button", { name: "Create app" }).click();
		await page.waitForURL("**/apps/com.example.mine/connect");
		await member.open("/apps/com.example.mine/channels", "Channels");
		await page.getByRole("button", { name: "New channel" }).waitFor();
		member.leave();
	});
});
