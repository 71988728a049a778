/**
 * The release dialog in a real browser, through every door: its title, its preselection and its
 * focus, and from the side of a device, which bundle is served afterwards.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PATIENCE_MS } from "../patience";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { createProductApp, makeZip, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: the release dialog, because no Chromium is installed");

interface Door {
	readonly door: string;
	/** Below the app. */
	readonly path: string;
	/** Opens the dialog from the page. */
	readonly open: (visitor: Visitor, next: string) => Promise<void>;
	/** The preselected bundle, where the page is about one. */
	readonly isAboutBundle?: true;
	/** The label of the field that has the focus. */
	readonly focus: string;
}

const press = (name: string) => async (visitor: Visitor) =>
	visitor.page.getByRole("main").getByRole("button", { name, exact: true }).click();
const key = (name: string) => async (visitor: Visitor) => {
	// The button of the key appears with the user's rights.
	await visitor.page.locator("main [data-release]").first().waitFor();
	await visitor.page.keyboard.press(name);
};
const palette = (entry: (next: string) => string) => async (visitor: Visitor, next: string) => {
	const { page } = visitor;
	await page.keyboard.press("Control+k");
	await page.getByRole("combobox", { name: "Search" }).fill(entry(next));
	await page
		.getByRole("option", { name: entry(next) })
		.first()
		.click();
};

/** The address of a bundle's page has the next version. */
const DOORS: readonly Door[] = [
	{ door: "the home", path: "", open: press("Release"), focus: "Bundle" },
	{
		door: "the page of a bundle",
		path: "/bundles/NEXT",
		open: press("Release"),
		isAboutBundle: true,
		focus: "Channel",
	},
	{ door: "the page of a channel", path: "/channels/production", open: press("Release"), focus: "Bundle" },
	{
		door: "the page of a release",
		path: "/channels/production/releases/LIVE",
		open: press("Release another bundle…"),
		focus: "Bundle",
	},
	{ door: "the palette, for the app", path: "", open: palette(() => "Release…"), focus: "Bundle" },
	{
		door: "the palette, for a channel",
		path: "/devices",
		open: palette(() => "Release to production…"),
		focus: "Bundle",
	},
	{
		door: "the palette, for a bundle",
		path: "/devices",
		open: palette((next) => `Release ${next}…`),
		isAboutBundle: true,
		focus: "Channel",
	},
	{ door: "the key of the home", path: "", open: key("r"), focus: "Bundle" },
	{ door: "the key of a bundle", path: "/bundles/NEXT", open: key("r"), isAboutBundle: true, focus: "Channel" },
	{ door: "the key of a channel", path: "/channels/production", open: key("r"), focus: "Bundle" },
];

describe.skipIf(chromium === undefined)("the release dialog", () => {
	let stage: Stage;
	let admin: Visitor;
	let few: string;
	let many: string;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
		few = await appWith(3, ["1.0.0", ...DOORS.map((_, index) => `1.${index + 1}.0`)]);
		many = await appWith(60, ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "2.0.0"]);
	});
	afterAll(() => admin?.leave());

	const api = async (method: string, path: string, body?: unknown) => {
		const answer = await stage.product.api(method, path, body);
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return answer.body;
	};
	const deviceOf = (app: string, index: number) => ({
		app_id: app,
		device_id: `c5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2${String(index).padStart(3, "0")}`,
		platform: "android",
		version_name: "1.0.0",
		version_build: index === 0 ? "1.0.1" : "1.0.0",
		plugin_version: "8.51.23",
		version_os: "17",
		is_prod: true,
		is_emulator: false,
	});
	/** An app whose first version is live on the public channel, for this many devices. */
	const appWith = async (devices: number, versions: readonly [string, ...string[]]) => {
		const app = stage.product.newAppId();
		await createProductApp(stage.product, app);
		for (const version of versions) await uploadProductBundle(stage.product, app, version);
		await api("POST", "/channel", { app_id: app, channel: "production", version: versions[0], public: true });
		await api("PUT", `/app/${app}`, { name: "Acme Shop" });
		for (let index = 0; index < devices; index++) {
			await api("POST", "/updates", deviceOf(app, index));
			await api("POST", "/stats", { ...deviceOf(app, index), action: "set" });
		}
		const listed = async () => (await api("GET", `/device?totals=true&app_id=${app}`)).total;
		const untilMs = Date.now() + PATIENCE_MS;
		while ((await listed()) < devices && Date.now() < untilMs) await sleep(50);
		return app;
	};
	/** The bundle that a device of the app is served, or the reason for none. */
	const served = async (app: string, index = 1) => {
		const answer = await api("POST", "/updates", deviceOf(app, index));
		return answer.version ?? answer.error;
	};
	const channelOf = (app: string, channel = "production") => api("GET", `/channel?app_id=${app}&channel=${channel}`);
	const set = (app: string, fields: object) =>
		api("POST", "/channel", { app_id: app, channel: "production", ...fields });

	const dialog = (visitor = admin) => visitor.page.getByRole("dialog");
	const field = (name: string, visitor = admin) => dialog(visitor).getByRole("combobox", { name, exact: true });
	const way = (title: string | RegExp, visitor = admin) => dialog(visitor).getByRole("radio", { name: title });
	const submit = (name: string, visitor = admin) => dialog(visitor).getByRole("button", { name, exact: true });
	const choose = async (version: string, visitor = admin) => {
		await field("Bundle", visitor).fill(version);
		await visitor.page.getByRole("option", { name: version }).first().click();
	};
	const closed = (visitor = admin) => dialog(visitor).waitFor({ state: "detached" });
	/** The label of the field that has the focus. */
	const focused = (visitor = admin) =>
		visitor.page.evaluate(
			"document.activeElement?.labels?.[0]?.textContent?.trim() ?? document.activeElement?.tagName",
		);
	const openAt = async (app: string, path: string, heading: string | RegExp = /./, visitor = admin) => {
		await visitor.open(`/apps/${app}${path}`, heading);
		await press("Release")(visitor);
		await dialog(visitor).waitFor();
	};
	const screenshot = async (name: string, visitor = admin) => {
		const directory = process.env.CAPSTAN_SCREENSHOTS;
		if (directory === undefined) return;
		for (const [theme, dark] of [
			["light", false],
			["dark", true],
		] as const) {
			await visitor.page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
			for (const width of [1280, 390]) {
				await visitor.page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
				await visitor.page.waitForTimeout(120);
				await visitor.page.screenshot({ path: `${directory}/${name}-${width}-${theme}.png` });
			}
		}
		await visitor.page.emulateMedia({ colorScheme: "light" });
		await visitor.page.setViewportSize({ width: 1280, height: 900 });
	};

	test.each(DOORS.map((door, index) => ({ ...door, live: `1.${index}.0`, next: `1.${index + 1}.0` })))(
		"opens from $door, and releases $next",
		async ({ path, open, isAboutBundle, focus, live, next }) => {
			await admin.open(`/apps/${few}${path.replace("NEXT", next).replace("LIVE", live)}`, /./);
			await open(admin, next);
			await dialog().waitFor();
			await dialog().getByRole("heading", { name: "Release to production" }).waitFor();
			expect(await field("Channel").inputValue()).toBe("production");
			expect(await field("Bundle").inputValue()).toBe(isAboutBundle === true ? next : "");
			await expect.poll(() => focused()).toMatch(new RegExp(`^${focus}`));
			if (isAboutBundle !== true) await choose(next);
			await expect.poll(() => way("Every device at once").isChecked()).toBe(true);
			await dialog().getByText("3 of 3 devices will change version").waitFor();
			expect(await served(few)).toBe(live === "1.0.0" ? "no_new_version_available" : live);
			await submit(`Release ${next} to production`).click();
			await admin.page.getByText(`Released ${next} to production.`).waitFor();
			await closed();
			await expect.poll(() => served(few)).toBe(next);
			expect(admin.complaints).toEqual([]);
		},
	);

	test("preselects steps for 60 devices, and while their number is unknown", async () => {
		await admin.page.route("**/channel/what_if", (route) => route.abort());
		await openAt(many, "/channels/production");
		await expect.poll(() => way(/^In steps: 5, 25, 100/).isChecked()).toBe(true);
		await admin.page.unroute("**/channel/what_if");
		await admin.page.keyboard.press("Escape");
		await closed();
		admin.complaints.length = 0;

		await openAt(many, "/channels/production");
		await choose("1.1.0");
		await dialog().getByText("60 of 60 devices will change version").waitFor();
		await dialog()
			.getByText(/\d+ of them in the first step, 5 %/)
			.waitFor();
		await dialog().getByText("from 1.0.0").waitFor();
		expect(await way(/^In steps/).isChecked()).toBe(true);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot("release-steps");
		await submit("Release 1.1.0 to production").click();
		await admin.page.getByText("Started the release of 1.1.0 to production.").waitFor();
		expect(await channelOf(many)).toMatchObject({
			version: { name: "1.0.0" },
			rollout_version_info: { name: "1.1.0" },
			rolloutPercentageBps: 500,
			rolloutSteps: [5, 25, 100],
		});
		const all = await Promise.all(Array.from({ length: 60 }, (_, index) => served(many, index)));
		expect(new Set(all)).toContain("no_new_version_available");
	});

	test("never preselects every device while a rollout of another bundle runs for many devices", async () => {
		await openAt(many, "/channels/production");
		await choose("1.2.0");
		expect(await way(/^In steps/).isDisabled()).toBe(true);
		await dialog().getByText("The rollout of 1.1.0 has reached 5 %: finish it or roll it back before").waitFor();
		expect(await way(/^Every device at once/).isChecked()).toBe(false);
		expect(await submit("Release 1.2.0 to production").isDisabled()).toBe(true);
		await way(/^Every device at once/).check();
		await dialog().getByText("The rollout of 1.1.0 ends: devices that run 1.1.0 get 1.2.0").waitFor();
		await dialog().getByText("60 of 60 devices will change version").waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot("release-ends-rollout");
		await submit("Release 1.2.0 to production").click();
		await closed();
		const all = () => Promise.all(Array.from({ length: 60 }, (_, index) => served(many, index)));
		await expect.poll(async () => [...new Set(await all())]).toEqual(["1.2.0"]);
	});

	test("says which devices do not get a bundle and why", async () => {
		await set(many, { disableAutoUpdate: "major" });
		await openAt(many, "/channels/production");
		await choose("2.0.0");
		await dialog().getByText("No device will change version").waitFor();
		await dialog().getByText("the channel allows no new major version").waitFor();
		await screenshot("release-refused");
		await dialog().getByRole("link", { name: "Change settings of production" }).click();
		await dialog().getByRole("heading", { name: "Edit production" }).waitFor();
		await admin.page.keyboard.press("Escape");
		await closed();
		await set(many, { disableAutoUpdate: "none" });
	});

	test("proposes on a protected channel, where devices keep what they run", async () => {
		await set(many, { protected: true, requires_approval: true, promoters: ["org_super_admin", "app_admin"] });
		await openAt(many, "/bundles/1.3.0");
		await dialog().getByRole("heading", { name: "Propose release to production" }).waitFor();
		// Nobody but the administrator is in the organization yet.
		await dialog().getByText("Nobody else may approve releases to production.").waitFor();
		await screenshot("release-no-approver");
		await admin.page.keyboard.press("Escape");
		await closed();
		const approver = await stage.member("org_super_admin", "jonas.weber@example.com");
		await openAt(many, "/bundles/1.3.0");
		await dialog().getByText("jonas.weber@example.com").first().waitFor();
		await dialog().getByText("has to approve it.").waitFor();
		await dialog().getByText("No mail goes out; send the link of the channel. They need a passkey first.").waitFor();
		approver.leave();
		await way(/^Every device at once/).check();
		await dialog().getByText("60 of 60 devices will change version").waitFor();
		await expectSound(admin);
		await screenshot("release-proposes");
		await submit("Propose release").click();
		await admin.page.getByText("Proposed the release of 1.3.0 to production.").waitFor();
		await closed();
		expect(await served(many)).toBe("1.2.0");
		expect((await api("GET", `/proposal?app_id=${many}`))[0]).toMatchObject({ state: "pending", version: "1.3.0" });
	});

	/** Drops a zip on the dialog, as the browser does. */
	const dropZip = async (name: string, version: string, target = dialog().locator("form")) => {
		const content = Buffer.from(makeZip(version)).toString("base64");
		const dataTransfer = await admin.page.evaluateHandle(`(() => {
			const transfer = new DataTransfer();
			const bytes = Uint8Array.from(atob("${content}"), (letter) => letter.charCodeAt(0));
			transfer.items.add(new File([bytes], "${name}", { type: "application/zip" }));
			return transfer;
		})()`);
		await target.dispatchEvent("dragover", { dataTransfer });
		await target.dispatchEvent("drop", { dataTransfer });
	};

	test("releases a dropped zip with its note, and asks before it is lost", async () => {
		const version = `1.${DOORS.length + 1}.0`;
		await openAt(few, "");
		await dropZip("shop.zip", version);
		await dialog().getByText("calls notifyAppReady()").waitFor();
		await dialog().getByText("shop.zip").waitFor();
		await dialog().getByText("Up to 3 devices of production will change version").waitFor();
		await dialog().getByRole("textbox", { name: "Version" }).fill("1.0.0");
		await dialog().getByText("The app has a bundle 1.0.0 already").waitFor();
		expect(await submit("Release 1.0.0 to production").isDisabled()).toBe(true);
		await dialog().getByRole("textbox", { name: "Version" }).fill(version);
		await dialog().getByLabel("Note (optional)").fill("Search with suggestions");
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot("release-zip");
		const address = admin.page.url();
		await admin.page.keyboard.press("Escape");
		const question = admin.page.getByRole("dialog", { name: "Discard what you entered?" });
		await question.waitFor();
		await admin.page.keyboard.press("Escape");
		await question.waitFor({ state: "detached" });
		expect(await dialog().getByLabel("Note (optional)").inputValue()).toBe("Search with suggestions");
		expect(admin.page.url()).toBe(address);
		await submit(`Release ${version} to production`).click();
		await admin.page.getByText(`Released ${version} to production.`).waitFor();
		await expect.poll(() => served(few)).toBe(version);
		await admin.page.getByText("Search with suggestions").first().waitFor();
	});

	test("opens with a zip that is dropped anywhere on the home, and releases it with one key", async () => {
		const version = `1.${DOORS.length + 2}.0`;
		await admin.open(`/apps/${few}/releases`, /./);
		await admin.page.getByRole("button", { name: "Release", exact: true }).waitFor();
		await dropZip("dropped.zip", version, admin.page.getByRole("heading", { level: 1 }));
		await dialog().getByText("dropped.zip").waitFor();
		expect(await admin.page.getByText("Drop the zip to release it").count(), "the hint goes with the drop").toBe(0);
		await dialog().getByRole("textbox", { name: "Version" }).fill(version);
		await expect.poll(() => submit(`Release ${version} to production`).isEnabled()).toBe(true);
		await admin.page.keyboard.press("Control+Enter");
		await admin.page.getByText(`Released ${version} to production.`).waitFor();
		await closed();
		await expect.poll(() => served(few)).toBe(version);
	});

	test("keeps its keys: Escape closes it, stays on the page, and returns the focus", async () => {
		for (const path of ["/channels/production", "/bundles/1.1.0", ""]) {
			await openAt(few, path);
			const address = admin.page.url();
			await expect.poll(() => focused()).toMatch(/^Bundle|^Channel/);
			for (const letter of ["g", "d", "?", "r", "j"]) await admin.page.keyboard.press(letter);
			expect(await dialog().count()).toBe(1);
			await admin.page.keyboard.press("Escape");
			if ((await dialog().count()) > 0) await admin.page.keyboard.press("Escape");
			await closed();
			expect(admin.page.url()).toBe(address);
			await expect.poll(() => admin.page.evaluate("document.activeElement?.textContent")).toBe("Release");
		}
	});

	test("discards only what a person agrees to lose", async () => {
		await openAt(few, "/bundles/1.1.0");
		await dialog().getByLabel("Note (optional)").fill("Half a sentence");
		await admin.page.keyboard.press("Escape");
		await admin.page.getByRole("button", { name: "Keep editing" }).click();
		expect(await dialog().getByLabel("Note (optional)").inputValue()).toBe("Half a sentence");
		await submit("Cancel").click();
		await admin.page.getByRole("button", { name: "Discard" }).click();
		await closed();
		expect((await api("GET", `/bundle?app_id=${few}&version=1.1.0`))[0].comment).toBeNull();
	});

	test("is as wide as a phone, and asks for a bundle first", async () => {
		await openAt(few, "");
		await dialog().getByText("Who gets it").waitFor();
		expect(await submit("Release").isDisabled()).toBe(true);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await screenshot("release-empty");
		await admin.page.keyboard.press("Escape");
		await closed();
	});
});
