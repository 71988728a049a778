/**
 * Rollouts and promotions as a person reads them in the dashboard: the count before a public channel changes, what becomes of a rollout
 * that runs, and the rollout card on an app's first day, when every device is new. What the page says is held against what devices get.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { APP, type Stage, startStage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";
import { createProductApp, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: rollouts in the dashboard, because no Chromium is installed");

const FIRST_DAY = "com.example.firstday";
const PHONE_WIDTH = 390;

describe.skipIf(chromium === undefined)("rollouts in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await startStage();
		admin = await stage.admin();
		for (const version of ["1.3.0", "2.0.0"]) await uploadProductBundle(stage.product, APP, version);
	});
	afterAll(async () => {
		await stage?.stop();
	});

	const api = async (method: string, path: string, body?: unknown) => {
		const answer = await stage.product.api(method, path, body);
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return answer.body;
	};
	const rolloutOf = (channel: string, app = APP) => api("GET", `/channel/rollout?app_id=${app}&channel=${channel}`);
	const channelNamed = (channel: string, app = APP) => api("GET", `/channel?app_id=${app}&channel=${channel}`);
	const setChannel = (fields: object, channel = "production", app = APP) =>
		api("POST", "/channel", { app_id: app, channel, ...fields });

	const inDialog = (visitor = admin) => visitor.page.getByRole("dialog");
	const button = (name: string | RegExp, visitor = admin) => visitor.page.getByRole("button", { name, exact: true });
	const choose = async (version: string, visitor = admin) => {
		await visitor.page.getByRole("combobox", { name: "Bundle" }).fill(version);
		await visitor.page.getByRole("option", { name: version, exact: true }).click();
	};
	const openPromotion = async (channel = "production", visitor = admin) => {
		await visitor.open(`/apps/${APP}/channels/${channel}`, channel);
		await button("Promote a bundle", visitor).click();
	};
	const closed = (visitor = admin) => inDialog(visitor).waitFor({ state: "detached" });
	const WHAT_IF = "**/channel/what_if";

	describe("promoting to a public channel", () => {
		test("waits until the devices are counted, and counts again when the form changes", async () => {
			const { page } = admin;
			let release: () => void = () => {};
			const released = new Promise<void>((resolve) => {
				release = resolve;
			});
			await page.route(WHAT_IF, async (route) => {
				await released;
				await route.continue();
			});
			await openPromotion();
			expect(await button("Promote").isDisabled()).toBe(true);
			await choose("1.1.0");
			await page.getByText("Counting the devices that will change version").waitFor();
			expect(await button("Promote").isDisabled()).toBe(true);
			release();
			await page.getByText("6 of 6 devices will change version").waitFor();
			await page.getByText("6 devices: get 1.1.0").waitFor();
			await page.unroute(WHAT_IF);
			expect(await button("Promote").isDisabled()).toBe(false);
			await expectSound(admin);
			await choose("2.0.0");
			expect(await button("Promote").isDisabled()).toBe(true);
			await page.getByText("No device will change version").waitFor();
			await page.getByText("6 devices on production do not get it:").waitFor();
			await page.getByText("the channel allows no new major version.").waitFor();
			expect((await channelNamed("production")).version.name).toBe("1.0.0");
			await button("Cancel").click();
		});

		test("is no dead end when the count fails", async () => {
			const { page } = admin;
			await page.route(WHAT_IF, (route) => route.abort());
			await openPromotion();
			await choose("1.1.0");
			await page.getByText("The devices could not be counted").waitFor();
			expect(await button("Promote").isDisabled()).toBe(true);
			await expectSound(admin);
			await page.getByLabel("Continue without knowing how many devices will change version").check();
			expect(await button("Promote").isDisabled()).toBe(false);
			// The confirmation for one bundle does not carry over to another.
			await choose("1.3.0");
			await page.getByText("The devices could not be counted").waitFor();
			expect(await button("Promote").isDisabled()).toBe(true);
			await page.unroute(WHAT_IF);
			await button("Try again").click();
			await page.getByText("6 of 6 devices will change version").waitFor();
			expect(await button("Promote").isDisabled()).toBe(false);
			await button("Cancel").click();
			admin.complaints.length = 0;
		});

		test("is no dead end when the count takes long", async () => {
			const visitor = await stage.admin();
			const { page } = visitor;
			await page.clock.install();
			await page.route(WHAT_IF, () => new Promise(() => {}));
			await openPromotion("production", visitor);
			await choose("1.1.0", visitor);
			await page.getByText("Counting the devices that will change version").waitFor();
			await page.clock.runFor(9_000);
			await page.getByText("Counting takes longer than usual").waitFor();
			expect(await button("Promote", visitor).isDisabled()).toBe(true);
			await page.getByLabel("Continue without knowing how many devices will change version").check();
			expect(await button("Promote", visitor).isDisabled()).toBe(false);
			visitor.leave();
		});

		test("says what the change itself would be refused for, and stays shut", async () => {
			await openPromotion();
			await admin.page.getByRole("combobox", { name: "Bundle" }).fill("9.9.9");
			await inDialog().getByRole("alert").getByText("There is no such bundle").waitFor();
			expect(await button("Promote").isDisabled()).toBe(true);
			expect(await admin.page.getByLabel(/^Continue without/).count()).toBe(0);
			await button("Cancel").click();
		});

		test("of a private channel does not wait", async () => {
			await admin.page.route(WHAT_IF, (route) => route.abort());
			await openPromotion("beta");
			await choose("1.3.0");
			await expect.poll(() => button("Promote").isDisabled()).toBe(false);
			await admin.page.unroute(WHAT_IF);
			await button("Cancel").click();
			admin.complaints.length = 0;
		});
	});

	describe("a rollout that runs", () => {
		const start = () =>
			setChannel({ version: "1.0.0", rolloutVersion: "1.1.0", rolloutEnabled: true, rolloutPercentage: 50 });
		const counted = () =>
			inDialog()
				.getByText(/will change version$|^No device/)
				.waitFor();
		const title = () => inDialog().getByText("A rollout of 1.1.0 is on production").waitFor();
		const checks = async () => {
			const answers = await Promise.all(
				Array.from({ length: 20 }, async (_, index) => {
					const device_id = `b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2e${String(index + 10)}`;
					const device = { app_id: APP, device_id, platform: "ios", version_name: "1.0.0", version_build: "1.0.0" };
					const { body } = await stage.product.api("POST", "/updates", { ...device, plugin_version: "8.51.23" });
					return body.version ?? body.error;
				}),
			);
			return [...new Set(answers)].sort();
		};
		/** Other isolates see a change after a few seconds at most; this one at once. */
		const promote = async (action = "Promote") => {
			await counted();
			await button(action).click();
			await closed();
		};

		test("is finished by promoting its own bundle", async () => {
			await start();
			await openPromotion();
			await choose("1.1.0");
			await title();
			await admin.page.getByText("This finishes the rollout of 1.1.0: it becomes the live bundle").waitFor();
			expect(await admin.page.getByLabel(/^End the rollout/).count()).toBe(0);
			await promote();
			expect(await rolloutOf("production")).toMatchObject({
				state: "none",
				stableVersion: "1.1.0",
				previous: { version: "1.1.0", endedAs: "promoted" },
			});
			expect(await checks()).toEqual(["1.1.0"]);
		});

		test("keeps running when another bundle is promoted, as the dialog says", async () => {
			await start();
			await openPromotion();
			await choose("1.3.0");
			await admin.page
				.getByText("The rollout of 1.1.0 keeps running: its 50 % of the devices get 1.1.0, the others get 1.3.0.")
				.waitFor();
			await expectSound(admin);
			await promote();
			expect(await rolloutOf("production")).toMatchObject({
				state: "running",
				version: "1.1.0",
				stableVersion: "1.3.0",
			});
			expect(await checks()).toEqual(["1.1.0", "1.3.0"]);
		});

		test("ends as well where that is chosen", async () => {
			await start();
			await openPromotion();
			await choose("1.3.0");
			await admin.page.getByLabel("End the rollout of 1.1.0 as well").check();
			await admin.page.getByText("The rollout of 1.1.0 ends: devices that run 1.1.0 get 1.3.0").waitFor();
			await promote();
			expect(await rolloutOf("production")).toMatchObject({
				state: "none",
				stableVersion: "1.3.0",
				previous: { version: "1.1.0", endedAs: "rolled_back" },
			});
			expect(await checks()).toEqual(["1.3.0"]);
		});

		test("is replaced by starting another", async () => {
			await start();
			await openPromotion();
			await choose("1.3.0");
			await admin.page.getByLabel("A share of the devices").check();
			await admin.page
				.getByText("This replaces the rollout of 1.1.0: devices that run 1.1.0 get 1.0.0 at their next check")
				.waitFor();
			await promote("Start the rollout");
			expect(await rolloutOf("production")).toMatchObject({
				state: "running",
				version: "1.3.0",
				percentageBps: 500,
				previous: { version: "1.1.0", endedAs: "replaced" },
			});
		});

		test("continues when its own bundle is given another share, and is steered with a count before each step", async () => {
			await start();
			await openPromotion();
			await choose("1.1.0");
			await admin.page.getByLabel("A share of the devices").check();
			await admin.page.getByLabel("Share of the devices, in %").fill("60");
			await admin.page.getByText("its share changes from 50 % to 60 %.").waitFor();
			const { rollout_id } = await rolloutOf("production");
			await promote("Start the rollout");
			expect(await rolloutOf("production")).toMatchObject({ state: "running", percentageBps: 6_000, rollout_id });

			await button("Change share").click();
			expect(await button("Set share").isDisabled()).toBe(true);
			await admin.page.getByLabel("Share of the devices, in %").fill("100");
			await promote("Set share");
			await admin.page.getByText("1.1.0 for 100 % of the devices").waitFor();
			await button("Make 1.1.0 live").click();
			await counted();
			await inDialog().getByRole("button", { name: "Make 1.1.0 live" }).click();
			await closed();
			expect(await rolloutOf("production")).toMatchObject({ state: "none", previous: { endedAs: "promoted" } });

			await start();
			await admin.page.reload();
			await button("Roll back to 1.0.0").click();
			await inDialog().getByText("devices that run 1.1.0 get 1.0.0 again").waitFor();
			await counted();
			await inDialog().getByRole("button", { name: "Roll back to 1.0.0" }).click();
			await admin.page.getByText("The last one was 1.1.0, rolled back.").waitFor();
		});
	});

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
		/** The device asks, gets the bundle, and reports the result. All of them come from the network of this machine. */
		const takeUp = async (index: number, action = "set") => {
			expect(await api("POST", "/updates", device(index, "2.3.1"))).toMatchObject({ version: "2.4.0" });
			await api("POST", "/stats", { ...device(index, "2.4.0"), action, timestamp: Date.now() });
		};
		const openCard = (visitor = admin) => visitor.open(`/apps/${FIRST_DAY}/channels/production`, "production");

		test("says which devices run the bundle, and why none of them counts", async () => {
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
			const phone = await stage.admin({ width: PHONE_WIDTH });
			await openCard(phone);
			await phone.page.getByText("8 devices run 2.4.0.").waitFor();
			await expectSound(phone);
			phone.leave();
		});

		test("counts them at once when new devices count, and then says who shares a network", async () => {
			await button("Count new devices too").click();
			await admin.page.getByText("3 offered · 3 installed · 0 failed · 0 not reported yet").waitFor();
			await admin.page
				.getByText(
					"8 devices run 2.4.0. 3 of 9 that were offered it count towards health: 6 share a network with 3 others.",
				)
				.waitFor();
			await admin.page
				.getByText("0 of 3 devices failed (0 %). Allowing for chance, at most 57 % fail. The limit is 5 %.")
				.waitFor();
			expect(await button("Count new devices too").count()).toBe(0);
		});

		test("has its settings beside it, to read and to change", async () => {
			await button("Rollout settings").click();
			await expectSound(admin);
			const field = (label: string) => inDialog().getByLabel(label);
			expect(await field("Count new devices").isChecked()).toBe(true);
			await field("Devices that count per network").fill("");
			await field("Steps, in %").fill("10, 5");
			await inDialog().getByText("Write growing numbers from 0.01 to 100").waitFor();
			expect(await button("Save").isDisabled()).toBe(true);
			await field("Steps, in %").fill("5, 50, 100 %");
			await field("Minutes that each step lasts at least").fill("15");
			await field("Devices that must report in each step").fill("4");
			await field("Devices that may fail, in %").fill("2.5");
			await field("When more fail").selectOption("rollback");
			await button("Save").click();
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
			await admin.page.getByText("Settings of rollouts on this channel").click();
			await admin.page.getByText("5, 50, 100 %").waitFor();
			await admin.page.getByText("At least 15 minutes and 4 reporting devices").waitFor();
			await expectSound(admin);
			const phone = await stage.admin({ width: PHONE_WIDTH });
			await openCard(phone);
			await button("Rollout settings", phone).click();
			await expectSound(phone);
			phone.leave();
		});

		test("says of the next step when it comes and what it waits for", async () => {
			await setChannel({ rolloutPercentage: 50, rolloutStepMinutes: 60 }, "production", FIRST_DAY);
			await admin.page.reload();
			await admin.page
				.getByText(
					/^Next step \(100 %\) in \d+ min, if \d+ more devices report and the failure rate stays below 2\.5 %\. The failure rate is above that so far\.$/,
				)
				.waitFor();
		});

		test("offers to count new devices before a rollout starts, and says how many are new", async () => {
			await setChannel({ rollback: true, rolloutCountNewDevices: false, rolloutSteps: null }, "production", FIRST_DAY);
			await openCard();
			await button("Promote a bundle").click();
			await choose("2.4.0");
			await admin.page.getByLabel(/^In steps of 1, 5, 25 and 100 %/).check();
			await admin.page.getByText("9 of 9 devices of this channel were first seen today.").waitFor();
			await admin.page.getByLabel("Count new devices towards the health of the rollout").check();
			await inDialog()
				.getByText(/will change version$/)
				.waitFor();
			await expectSound(admin);
			await button("Start the rollout").click();
			await closed();
			expect(await channelNamed("production", FIRST_DAY)).toMatchObject({
				rolloutCountNewDevices: true,
				rolloutSteps: [1, 5, 25, 100],
				rolloutPercentageBps: 100,
			});
		});
	});

	test("the dialog fits a phone", async () => {
		const phone = await stage.admin({ width: PHONE_WIDTH });
		await setChannel({ version: "1.0.0", rolloutVersion: "1.1.0", rolloutEnabled: true, rolloutPercentage: 50 });
		await openPromotion("production", phone);
		await choose("1.3.0", phone);
		await phone.page.getByText(/will change version$/).waitFor();
		await expectSound(phone);
		phone.leave();
	});

	test("somebody who may only look reads the card and its settings, and is offered no change", async () => {
		const member = await stage.member("org_member", "reader@example.com");
		await member.open(`/apps/${FIRST_DAY}/channels/production`, "production");
		await member.page.getByText(/ offered · /).waitFor();
		await member.page.getByText("Settings of rollouts on this channel").click();
		await member.page.getByText("All count").waitFor();
		for (const name of ["Rollout settings", "Change share", "Pause", "Count new devices too"]) {
			expect(await button(name, member).count(), name).toBe(0);
		}
		await expectSound(member);
		member.leave();
	});
});
