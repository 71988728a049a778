/**
 * The page of a release in a real browser: its figures are what devices did, and its acts change
 * what they get.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: the page of a release, because no Chromium is installed");

describe.skipIf(chromium === undefined)("the page of a release", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		await uploadProductBundle(stage.product, stage.app, "1.4.0");
		await set({
			rolloutVersion: "1.4.0",
			rolloutEnabled: true,
			rolloutPercentage: 100,
			rolloutCountNewDevices: true,
			rolloutDevicesPerNetwork: null,
			autoPauseFailureRateBps: 2_000,
		});
	});
	afterAll(() => admin?.leave());

	const api = async (method: string, path: string, body?: unknown) => {
		const answer = await stage.product.api(method, path, body);
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return answer.body;
	};
	const set = (fields: object) => api("POST", "/channel", { app_id: stage.app, channel: "production", ...fields });
	const address = (release: string) => `/apps/${stage.app}/channels/production/releases/${release}`;
	const release = (id = "1.4.0") => api("GET", `/release?app_id=${stage.app}&channel=production&id=${id}`);
	const device = (index: number, version_name: string) => ({
		app_id: stage.app,
		platform: "android",
		version_name,
		version_build: "1.0.0",
		plugin_version: "8.51.23",
		device_id: `d5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d${index + 10}`,
		is_prod: true,
		is_emulator: false,
	});
	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const card = (title: string) => admin.page.locator(".card").filter({ has: admin.page.getByText(title) });
	const rows = async (title: string) =>
		(await card(title).locator(".tally li").allTextContents()).map((text) => text.trim());

	test("counts the devices that were offered it, by what became of them", async () => {
		for (let index = 0; index < 12; index++) {
			expect(await api("POST", "/updates", device(index, "1.0.0"))).toMatchObject({
				version: "1.4.0",
				checksum: expect.any(String),
			});
			if (index === 11) break;
			const action = index < 9 ? "set" : "update_fail";
			await api("POST", "/stats", { ...device(index, "1.4.0"), action, timestamp: Date.now() });
		}
		await expect
			.poll(async () => (await release()).devices, { timeout: 50_000 })
			.toMatchObject({ offered: 12, running: 9, failed: 2, not_reported: 1 });
		await admin.open(address("1.4.0"), "1.4.0 on production");
		await admin.page.getByText("2 of 11 · 18 %").waitFor();
		expect(await rows("Who has it")).toEqual([
			"run 1.4.09",
			"failed with 1.4.02",
			"offered, not reported yet1",
			"Devices that were offered 1.4.012",
		]);
		await admin.page.getByText("Too few to tell").waitFor();
		await admin.page.getByText("Every device of production is offered 1.4.0. It is ready to finish.").waitFor();
		await admin.page.getByText("2 of 11 failed").waitFor();
		// A version in the address becomes the id, which always means this release.
		const { id } = await release();
		await expect.poll(() => admin.page.url()).toMatch(new RegExp(`/releases/${id}$`));
		await expectSound(admin);
		await expectFitsPhone(admin);
	});

	test("pauses and continues with one button, and says who did", async () => {
		await button("Pause").click();
		await admin.page.getByText("Paused at 100 %").waitFor();
		expect(await release()).toMatchObject({ state: "paused", paused_by: "person" });
		await admin.page.getByText("paused it at 100 %").waitFor();
		await expectSound(admin);
		await button("Continue at 100 %").click();
		await button("Pause").waitFor();
	});

	test("finishes, and links to the release before", async () => {
		await button("Finish…").click();
		await admin.page.getByRole("dialog").getByRole("button", { name: "Finish 1.4.0" }).click();
		await admin.page.getByRole("dialog").waitFor({ state: "detached" });
		await admin.page.getByText("1.4.0 is live on production since today").waitFor();
		expect(await release()).toMatchObject({ state: "live", failures: { release: { failed: 2, of: 11 } } });
		await admin.page.getByRole("link", { name: "1.0.0 on production" }).click();
		await admin.page.getByRole("heading", { level: 1, name: "1.0.0 on production" }).waitFor();
		await admin.page.getByText(/^1\.0\.0 was replaced by 1\.4\.0 today at/).waitFor();
		await expectSound(admin);
		await expectFitsPhone(admin);
	});

	test("rolls back, after which the release says where its devices went", async () => {
		await admin.open(address("1.4.0"), "1.4.0 on production");
		await button("Roll back to 1.0.0…").click();
		await admin.page.getByRole("dialog").getByRole("button", { name: "Roll back to 1.0.0" }).click();
		await admin.page.getByText(/production was rolled back from 1\.4\.0 to 1\.0\.0 today at/).waitFor();
		expect(await release()).toMatchObject({ state: "rolled_back", after: { version: "1.0.0" } });
	});

	test("copies its address", async () => {
		await admin.context.grantPermissions(["clipboard-read", "clipboard-write"]);
		await button("Share").click();
		const { id } = await release();
		await button("Address copied").waitFor();
		expect(await admin.page.evaluate("navigator.clipboard.readText()")).toMatch(
			new RegExp(`/dashboard/apps/.*/releases/${id}$`),
		);
	});

	test("says so if there is no such release", async () => {
		await admin.page.goto(`${stage.origin}/dashboard${address("9.9.9")}`);
		await admin.page.getByText("The channel has no such release").waitFor();
	});
});
