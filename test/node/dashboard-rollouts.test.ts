/**
 * Rollouts and releases as a person reads them in the dashboard: the count before a public
 * channel changes, and the effect on a running rollout. Each message of the page is compared with
 * what devices get.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: rollouts in the dashboard, because no Chromium is installed");

describe.skipIf(chromium === undefined)("rollouts in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		for (const version of ["1.3.0", "2.0.0"]) await uploadProductBundle(stage.product, stage.app, version);
	});
	afterAll(() => admin?.leave());

	const api = async (method: string, path: string, body?: unknown) => {
		const answer = await stage.product.api(method, path, body);
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return answer.body;
	};
	const rolloutOf = (channel: string, app = stage.app) =>
		api("GET", `/channel/rollout?app_id=${app}&channel=${channel}`);
	const channelNamed = (channel: string, app = stage.app) => api("GET", `/channel?app_id=${app}&channel=${channel}`);
	const setChannel = (fields: object, channel = "production", app = stage.app) =>
		api("POST", "/channel", { app_id: app, channel, ...fields });

	const inDialog = (visitor = admin) => visitor.page.getByRole("dialog");
	const button = (name: string | RegExp, visitor = admin) => visitor.page.getByRole("button", { name, exact: true });
	const releaseButton = (visitor = admin) => inDialog(visitor).getByRole("button", { name: /^Release/ });
	const choose = async (version: string, visitor = admin) => {
		await visitor.page.getByRole("combobox", { name: "Bundle" }).fill(version);
		await visitor.page.getByRole("listbox").getByRole("option", { name: version }).first().click();
	};
	const openRelease = async (channel = "production", visitor = admin) => {
		await visitor.open(`/apps/${stage.app}/channels/${channel}`, channel);
		await button("Release", visitor).click();
		// Steps are preselected until few devices are known to be on the channel.
		await visitor.page.getByRole("radio", { name: "Every device at once" }).check();
	};
	const closed = (visitor = admin) => inDialog(visitor).waitFor({ state: "detached" });
	const WHAT_IF = "**/channel/what_if";

	describe("releasing to a public channel", () => {
		test("waits until the devices are counted, and counts again when the form changes", async () => {
			const { page } = admin;
			/** Counts wait until the returned function is called. */
			const holdCounts = async () => {
				let release: () => void = () => {};
				const released = new Promise<void>((resolve) => {
					release = resolve;
				});
				await page.route(WHAT_IF, (route) => released.then(() => route.continue()));
				return release;
			};
			const release = await holdCounts();
			await openRelease();
			expect(await releaseButton().isDisabled()).toBe(true);
			await choose("1.1.0");
			await page.getByText("Counting the devices that will change version").waitFor();
			expect(await releaseButton().isDisabled()).toBe(true);
			release();
			await page.getByText("6 of 6 devices will change version").waitFor();
			// Four devices run 1.0.0, two the store build.
			await inDialog()
				.getByRole("listitem")
				.filter({ hasText: /^from 1\.0\.04$/ })
				.waitFor();
			await inDialog()
				.getByRole("listitem")
				.filter({ hasText: /^from Store build2$/ })
				.waitFor();
			await page.unroute(WHAT_IF);
			expect(await releaseButton().isDisabled()).toBe(false);
			await expectSound(admin);
			const releaseAgain = await holdCounts();
			await choose("2.0.0");
			expect(await releaseButton().isDisabled()).toBe(true);
			releaseAgain();
			await page.getByText("No device will change version").waitFor();
			await page.unroute(WHAT_IF);
			await inDialog()
				.getByRole("listitem")
				.filter({ hasText: /^the channel allows no new major version.*6$/ })
				.waitFor();
			await inDialog()
				.getByRole("listitem")
				.filter({ hasText: /^Devices on production6$/ })
				.waitFor();
			expect((await channelNamed("production")).version.name).toBe("1.0.0");
			await button("Cancel").click();
		});

		test("can be confirmed when the count fails", async () => {
			const { page } = admin;
			await page.route(WHAT_IF, (route) => route.abort());
			await openRelease();
			await choose("1.1.0");
			await page.getByText("Could not count the devices").waitFor();
			expect(await releaseButton().isDisabled()).toBe(true);
			await expectSound(admin);
			await page.getByLabel("Continue without knowing how many devices will change version").check();
			expect(await releaseButton().isDisabled()).toBe(false);
			// The confirmation for one bundle does not carry over to another.
			await choose("1.3.0");
			await page.getByText("Could not count the devices").waitFor();
			expect(await releaseButton().isDisabled()).toBe(true);
			await page.unroute(WHAT_IF);
			await button("Try again").click();
			await page.getByText("6 of 6 devices will change version").waitFor();
			expect(await releaseButton().isDisabled()).toBe(false);
			await button("Cancel").click();
			admin.complaints.length = 0;
		});

		test("can be confirmed when the count takes long", async () => {
			const visitor = await stage.admin();
			const { page } = visitor;
			await page.clock.install();
			await page.route(WHAT_IF, () => new Promise(() => {}));
			await openRelease("production", visitor);
			await choose("1.1.0", visitor);
			await page.getByText("Counting the devices that will change version").waitFor();
			await page.clock.runFor(9_000);
			await page.getByText("Counting takes longer than usual").waitFor();
			expect(await releaseButton(visitor).isDisabled()).toBe(true);
			await page.getByLabel("Continue without knowing how many devices will change version").check();
			expect(await releaseButton(visitor).isDisabled()).toBe(false);
			visitor.leave();
		});

		test("shows why the change would be refused, and stays disabled", async () => {
			await openRelease();
			await admin.page.getByRole("combobox", { name: "Bundle" }).fill("9.9.9");
			await inDialog().getByRole("alert").getByText("The app has no bundle with this version").waitFor();
			expect(await releaseButton().isDisabled()).toBe(true);
			expect(await admin.page.getByLabel(/^Continue without/).count()).toBe(0);
			await button("Cancel").click();
		});

		test("does not wait on a private channel", async () => {
			await admin.page.route(WHAT_IF, (route) => route.abort());
			await openRelease("beta");
			await choose("1.3.0");
			await expect.poll(() => releaseButton().isDisabled()).toBe(false);
			await admin.page.unroute(WHAT_IF);
			await button("Cancel").click();
			admin.complaints.length = 0;
		});
	});

	describe("a running rollout", () => {
		const start = () =>
			setChannel({ version: "1.0.0", rolloutVersion: "1.1.0", rolloutEnabled: true, rolloutPercentage: 50 });
		const counted = () =>
			inDialog()
				.getByText(/will change version$|^No device/)
				.first()
				.waitFor();
		const title = () => inDialog().getByText("production has a rollout of 1.1.0").waitFor();
		const checks = async () => {
			const answers = await Promise.all(
				Array.from({ length: 20 }, async (_, index) => {
					const device_id = `b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2e${String(index + 10)}`;
					const device = {
						app_id: stage.app,
						device_id,
						platform: "ios",
						version_name: "1.0.0",
						version_build: "1.0.0",
					};
					const { body } = await stage.product.api("POST", "/updates", { ...device, plugin_version: "8.51.23" });
					return body.version ?? body.error;
				}),
			);
			return [...new Set(answers)].sort();
		};
		/** Other isolates see a change after a few seconds at most; this one immediately. */
		const submit = async (action: string | RegExp = /^Release/) => {
			await counted();
			await inDialog().getByRole("button", { name: action, exact: true }).click();
			await closed();
		};

		test("is finished by releasing its own bundle", async () => {
			await start();
			await openRelease();
			await choose("1.1.0");
			await title();
			await admin.page.getByText("This finishes the rollout of 1.1.0: it becomes the live bundle").waitFor();
			await submit();
			expect(await rolloutOf("production")).toMatchObject({
				state: "none",
				stableVersion: "1.1.0",
				previous: { version: "1.1.0", endedAs: "promoted" },
			});
			await expect.poll(checks).toEqual(["1.1.0"]);
		});

		test("ends when another bundle is released, as the dialog says", async () => {
			await start();
			await openRelease();
			await choose("1.3.0");
			await admin.page.getByText("The rollout of 1.1.0 ends: devices that run 1.1.0 get 1.3.0").waitFor();
			await expectSound(admin);
			await expectFitsPhone(admin);
			await submit();
			expect(await rolloutOf("production")).toMatchObject({
				state: "none",
				stableVersion: "1.3.0",
				previous: { version: "1.1.0", endedAs: "replaced" },
			});
			await expect.poll(checks).toEqual(["1.3.0"]);
		});

		test("is not replaced below 100 %, as the dialog says", async () => {
			await start();
			await openRelease();
			await choose("1.3.0");
			await admin.page.getByText("The rollout of 1.1.0 has reached 50 %: finish it or roll it back before").waitFor();
			for (const way of [/^In steps/, /^To a share/]) {
				expect(await admin.page.getByRole("radio", { name: way }).isDisabled(), String(way)).toBe(true);
			}
			await inDialog().getByRole("button", { name: "Cancel" }).click();
			await closed();
			expect(await rolloutOf("production")).toMatchObject({ state: "running", version: "1.1.0", percentageBps: 5_000 });
		});

		test("continues when its own bundle is given another share, and is steered with a count before each step", async () => {
			await start();
			await openRelease();
			await choose("1.1.0");
			await admin.page.getByRole("radio", { name: "To a share of the devices" }).check();
			await admin.page.getByLabel("Share of devices, in %").fill("60");
			await admin.page.getByText("its share changes from 50 % to 60 %.").waitFor();
			const { rollout_id } = await rolloutOf("production");
			await submit();
			expect(await rolloutOf("production")).toMatchObject({ state: "running", percentageBps: 6_000, rollout_id });

			await button("Change share").click();
			expect(await button("Set share").isDisabled()).toBe(true);
			await admin.page.getByLabel("Share of devices, in %").fill("100");
			await submit("Set share");
			await admin.page.getByText("Rolling out 1.1.0 to 100 %").waitFor();
			await admin.page.getByText("Ready to finish").waitFor();
			await button("Finish…").click();
			await counted();
			await inDialog().getByRole("button", { name: "Finish 1.1.0" }).click();
			await closed();
			expect(await rolloutOf("production")).toMatchObject({ state: "none", previous: { endedAs: "promoted" } });

			await start();
			await admin.page.reload();
			await button("Roll back to 1.0.0").click();
			await inDialog().getByText("devices that run 1.1.0 get 1.0.0 again").waitFor();
			await counted();
			await inDialog().getByRole("button", { name: "Roll back to 1.0.0" }).click();
			await admin.page.getByText("Last rollout: 1.1.0, rolled back.").waitFor();
		});
	});
});
