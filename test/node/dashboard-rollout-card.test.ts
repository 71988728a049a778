/**
 * The card of a rollout in the dashboard, in a real browser, on an app's first day, when every
 * device is new.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { createProductApp, uploadProductBundle } from "./support/product";

if (chromium === undefined)
	console.log("skipped: the card of a rollout in the dashboard, because no Chromium is installed");

const FIRST_DAY = "com.example.firstday";

describe.skipIf(chromium === undefined)("a rollout in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const api = async (method: string, path: string, body?: unknown) => {
		const answer = await stage.product.api(method, path, body);
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return answer.body;
	};
	const rolloutOf = (channel: string, app = FIRST_DAY) =>
		api("GET", `/channel/rollout?app_id=${app}&channel=${channel}`);
	const channelNamed = (channel: string, app = FIRST_DAY) => api("GET", `/channel?app_id=${app}&channel=${channel}`);
	const setChannel = (fields: object, channel = "production", app = FIRST_DAY) =>
		api("POST", "/channel", { app_id: app, channel, ...fields });

	const inDialog = (visitor = admin) => visitor.page.getByRole("dialog");
	const button = (name: string | RegExp, visitor = admin) => visitor.page.getByRole("button", { name, exact: true });
	const choose = async (version: string, visitor = admin) => {
		await visitor.page.getByRole("combobox", { name: "Bundle" }).fill(version);
		await visitor.page.getByRole("listbox").getByRole("option", { name: version }).first().click();
	};
	const closed = (visitor = admin) => inDialog(visitor).waitFor({ state: "detached" });

	describe("the card on an app's first day", () => {
		const device = (index: number, version_name: string) => ({
			app_id: FIRST_DAY,
			device_id: `c5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d${String(index + 10)}`,
			platform: "android",
			version_name,
			version_build: "2.3.1",
			plugin_version: "8.51.23",
			is_prod: true,
			is_emulator: false,
		});
		/**
		 * The device asks, gets the bundle, and reports the result. All of them come from the network of
		 * this machine.
		 */
		const takeUp = async (index: number, action = "set") => {
			expect(await api("POST", "/updates", device(index, "2.3.1"))).toMatchObject({ version: "2.4.0" });
			await api("POST", "/stats", { ...device(index, "2.4.0"), action, timestamp: Date.now() });
		};
		const openCard = () => admin.open(`/apps/${FIRST_DAY}/channels/production`, "production");

		test("shows which devices run the bundle, and why none of them counts", async () => {
			await createProductApp(stage.product, FIRST_DAY);
			for (const version of ["2.3.1", "2.4.0"]) await uploadProductBundle(stage.product, FIRST_DAY, version);
			await setChannel({ public: true, version: "2.3.1" }, "production", FIRST_DAY);
			await setChannel(
				{ rolloutVersion: "2.4.0", rolloutEnabled: true, rolloutPercentage: 100, rolloutSteps: [100] },
				"production",
				FIRST_DAY,
			);
			for (let index = 0; index < 8; index++) await takeUp(index);
			await takeUp(8, "update_fail");
			await expect
				.poll(async () => (await rolloutOf("production", FIRST_DAY)).notCounted, { timeout: 30_000 })
				.toEqual({ newer: 9, sharedNetwork: 0, more: false });
			await expect.poll(async () => (await rolloutOf("production", FIRST_DAY)).running, { timeout: 30_000 }).toBe(8);
			await openCard();
			await admin.page.getByText("0 offered · 0 installed · 0 failed · 0 not reported yet").waitFor();
			await admin.page
				.getByText("8 devices run 2.4.0. 0 count towards health: 9 are newer than the rollout.")
				.waitFor();
			await expectSound(admin);
			await expectFitsPhone(admin);
		});

		test("counts them immediately when new devices count, and then names devices that share a network", async () => {
			await button("Count new devices").click();
			await admin.page.getByText("3 offered · 3 installed · 0 failed · 0 not reported yet").waitFor();
			await admin.page
				.getByText(
					"8 devices run 2.4.0. 3 of 9 that were offered it count towards health: 6 share a network with 3 others.",
				)
				.waitFor();
			await admin.page
				.getByText("0 of 3 devices failed (0 %). Allowing for chance, at most 57 % fail. The limit is 5 %.")
				.waitFor();
			expect(await button("Count new devices").count()).toBe(0);
		});

		test("shows its settings, and changes them", async () => {
			// The dialog starts with the settings that the page has, which follow the change above a moment
			// later.
			const listed = admin.page.locator("details").filter({ hasText: "Rollout settings of this channel" });
			await expect.poll(() => listed.textContent()).toContain("New devicesCount");
			await button("Rollout settings").click();
			await expectSound(admin);
			await expectFitsPhone(admin);
			const field = (label: string) => inDialog().getByLabel(label);
			expect(await field("Count new devices").isChecked()).toBe(true);
			await field("Devices that count per network").fill("");
			await field("Steps, in %").fill("10, 5");
			await inDialog().getByText("Enter increasing numbers from 0.01 to 100").waitFor();
			expect(await button("Save rollout settings").isDisabled()).toBe(true);
			await field("Steps, in %").fill("5, 50, 100 %");
			await field("Minimum minutes per step").fill("15");
			await field("Minimum reporting devices per step").fill("4");
			await field("Failure rate limit, in %").fill("2.5");
			await field("When a limit is exceeded").selectOption("rollback");
			await button("Save rollout settings").click();
			await closed();
			expect(await channelNamed("production", FIRST_DAY)).toMatchObject({
				rolloutCountNewDevices: true,
				rolloutDevicesPerNetwork: null,
				rolloutSteps: [5, 50, 100],
				rolloutStepMinutes: 15,
				rolloutStepMinDevices: 4,
				autoPauseFailureRateBps: 250,
				autoPauseAction: "rollback",
				autoPauseMinAttempts: 20,
				autoPauseConfidence: 0.95,
			});
			// With every device of the network, all of them count.
			await admin.page.getByText("9 offered · 8 installed · 1 failed · 0 not reported yet").waitFor();
			expect(await admin.page.getByText(/do not count$|^No device counts/).count()).toBe(0);
			await admin.page.getByText("Rollout settings of this channel").click();
			await admin.page.getByText("5, 50, 100 %").waitFor();
			await admin.page.getByText("At least 15 minutes and 4 reporting devices").waitFor();
			await expectSound(admin);
			await expectFitsPhone(admin);
		});

		test("shows when the next step comes and what it waits for", async () => {
			await setChannel({ rolloutPercentage: 50, rolloutStepMinutes: 60 }, "production", FIRST_DAY);
			await admin.page.reload();
			await admin.page
				.getByText(
					/^Next step \(100 %\) in \d+ min, if \d+ more devices report and the failure rate stays below 2\.5 %\. The failure rate is above that so far\.$/,
				)
				.waitFor();
		});

		test("offers to count new devices before a rollout starts, and shows how many are new", async () => {
			await setChannel({ rollback: true, rolloutCountNewDevices: false, rolloutSteps: null }, "production", FIRST_DAY);
			await openCard();
			await button("Release").click();
			await choose("2.4.0");
			await admin.page.getByRole("radio", { name: /^In steps: 5, 25, 100/ }).check();
			await admin.page.getByText("9 of 9 devices of this channel were first seen today.").waitFor();
			await admin.page.getByLabel("Count new devices towards rollout health").check();
			await inDialog()
				.getByText(/devices will change version$/)
				.waitFor();
			await expectSound(admin);
			await button("Release 2.4.0 to production").click();
			await closed();
			expect(await channelNamed("production", FIRST_DAY)).toMatchObject({
				rolloutCountNewDevices: true,
				rolloutSteps: [5, 25, 100],
				rolloutPercentageBps: 500,
			});
		});
	});

	test("lets a member read the card and its settings, and offers no change", async () => {
		const member = await stage.member("org_member", "reader@example.com");
		await member.open(`/apps/${FIRST_DAY}/channels/production`, "production");
		await member.page.getByText(/ offered · /).waitFor();
		await member.page.getByText("Rollout settings of this channel").click();
		await member.page.getByText("No limit").waitFor();
		for (const name of ["Rollout settings", "Change share", "Pause rollout", "Count new devices"]) {
			expect(await button(name, member).count(), name).toBe(0);
		}
		await expectSound(member);
		member.leave();
	});
});
