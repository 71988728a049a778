/**
 * The age of a screen's figures, in a real browser with a clock that the test moves: the oldest
 * answer decides, every figure is asked again, and a part that the server does not answer is named
 * until it does.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";

const LIVE_MS = 30_000;

describe.skipIf(chromium === undefined)("the age of a screen", () => {
	let stage: Stage;
	beforeAll(async () => {
		stage = await sharedStage();
	});

	const reads = ({ page }: Visitor) =>
		expect.poll(
			async () =>
				(await page
					.locator(".freshness")
					.textContent({ timeout: 1_000 })
					.catch(() => "")) ?? "",
		);
	const openHome = async () => {
		const visitor = await stage.admin();
		await visitor.page.clock.install();
		await visitor.open(`/apps/${stage.app}/releases`, /./);
		await visitor.page.waitForLoadState("networkidle");
		await visitor.page.clock.runFor(1_000);
		return visitor;
	};

	test("is that of its oldest answer", async () => {
		const visitor = await openHome();
		const { page, leave } = visitor;
		await reads(visitor).toMatch(/^Updated \d+ s ago$/);
		// One figure is not answered any more; all others are.
		await page.route("**/bundle_usage?**", () => new Promise(() => undefined));
		for (let passed = 0; passed < 3 * LIVE_MS; passed += 10_000) {
			await page.clock.runFor(10_000);
			await page.waitForLoadState("networkidle").catch(() => undefined);
		}
		await reads(visitor).toBe("Updated 1 min ago");
		expect(await page.locator(".freshness .dot").getAttribute("class")).toContain("warn");
		leave();
	});

	test("stays below a minute, because every figure is asked again", async () => {
		const visitor = await openHome();
		const { page, leave } = visitor;
		const figures = new Map<string, number>();
		page.on("request", (request) => {
			const { pathname } = new URL(request.url());
			figures.set(pathname, (figures.get(pathname) ?? 0) + 1);
		});
		for (let passed = 0; passed < 3 * LIVE_MS; passed += 5_000) {
			await page.clock.runFor(5_000);
			await reads(visitor).toMatch(/^(Updated \d+ s ago|Loading)$/);
		}
		const ofApp = `/statistics/app/${stage.app}`;
		for (const path of [ofApp, `${ofApp}/installs`, `${ofApp}/bundle_usage`, `/app/${stage.app}/releases`])
			expect(figures.get(path), path).toBeGreaterThanOrEqual(2);
		leave();
	});

	test("names a part that the server does not answer, and recovers by itself", async () => {
		const visitor = await openHome();
		const { page, leave } = visitor;
		const broken = `**/statistics/app/${stage.app}/installs?**`;
		await page.route(broken, (route) =>
			route.fulfill({ status: 503, json: { error: "service_unavailable", message: "Try again.", moreInfo: {} } }),
		);
		// With the attempts that follow a failure.
		for (let passed = 0; passed < 2 * LIVE_MS; passed += 5_000) await page.clock.runFor(5_000);
		await reads(visitor).toBe("Not all is loaded");
		expect(await page.getByRole("heading", { name: "Releases" }).count(), "the other parts stay").toBeGreaterThan(0);
		await page.unroute(broken);
		for (let passed = 0; passed < 2 * LIVE_MS; passed += 5_000) await page.clock.runFor(5_000);
		await reads(visitor).toMatch(/^Updated \d+ s ago$/);
		leave();
	});

	test("keeps the figures and the releases when the server does not answer the channels", async () => {
		const visitor = await stage.admin();
		const { page, leave } = visitor;
		await page.clock.install();
		await page.route(`**/channel?app_id=${stage.app}**`, (route) =>
			route.fulfill({ status: 503, json: { error: "service_unavailable", message: "Try again.", moreInfo: {} } }),
		);
		await visitor.open(`/apps/${stage.app}/releases`, /./);
		for (let passed = 0; passed < LIVE_MS; passed += 1_000) await page.clock.runFor(1_000);
		await page.getByText("Channels could not be loaded").waitFor();
		await page.getByText("Active devices").waitFor();
		await page.getByText("The channels are not loaded").waitFor();
		await page.getByRole("list", { name: "Releases" }).getByText("created production with 1.0.0").waitFor();
		leave();
	});
});
