/**
 * Addresses of objects that do not exist, in a real browser: the screen names what is missing, in
 * the frame of what does exist above it, with similar names and one way on. It offers no action for
 * something that never was, and nothing to try again.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: missing objects, because no Chromium is installed");

const ABSENT_ID = "00000000-0000-4000-8000-0000000000ff";

interface Missing {
	readonly what: string;
	readonly path: (stage: Stage) => string;
	readonly title: (stage: Stage) => string;
	/** The only way on. */
	readonly next: string;
	/** A name that is offered instead. */
	readonly near?: (stage: Stage) => string;
	/** The navigation of an app that does not exist would lead nowhere. */
	readonly isBesideApp?: true;
}

const below = (path: string) => (stage: Stage) => `/apps/${stage.app}/${path}`;
const organization = (path: string) => (stage: Stage) => `/organizations/${stage.product.orgId}/${path}`;
const named = (title: string) => () => title;

const MISSING: readonly Missing[] = [
	{
		what: "an app",
		path: ({ app }) => `/apps/${app}x/releases`,
		title: ({ app }) => `No app ${app}x`,
		next: "All apps",
		near: ({ app }) => app,
		isBesideApp: true,
	},
	{
		what: "a screen of an app that does not exist",
		path: () => "/apps/com.nowhere/devices",
		title: named("No app com.nowhere"),
		next: "All apps",
		isBesideApp: true,
	},
	{
		what: "a channel of an app that does not exist",
		path: () => "/apps/com.nowhere/channels/production",
		title: named("No channel production"),
		next: "All apps",
		isBesideApp: true,
	},
	{
		what: "an organization",
		path: () => `/organizations/${ABSENT_ID}/apps`,
		title: named(`No organization ${ABSENT_ID}`),
		next: "All organizations",
		isBesideApp: true,
	},
	{
		what: "a channel",
		path: below("channels/productoin"),
		title: named("No channel productoin"),
		next: "All channels",
		near: named("production"),
	},
	{
		what: "a bundle",
		path: below("bundles/1.0.00"),
		title: named("No bundle 1.0.00"),
		next: "All bundles",
		near: named("1.0.0"),
	},
	{
		what: "a release",
		path: below("channels/production/releases/999999"),
		title: named("No release 999999 on production"),
		next: "Open the channel",
	},
	{
		what: "a release of a channel that does not exist",
		path: below("channels/nothing/releases/1"),
		title: named("No release 1 on nothing"),
		next: "All releases",
	},
	{
		what: "a device",
		path: below(`devices/${ABSENT_ID}`),
		title: named(`No device ${ABSENT_ID}`),
		next: "All devices",
	},
	{ what: "a device by no id", path: below("devices/Ada"), title: named("No device Ada"), next: "All devices" },
	{
		what: "a key",
		path: organization(`keys/${ABSENT_ID}`),
		title: named(`No API key ${ABSENT_ID}`),
		next: "All keys",
		isBesideApp: true,
	},
	{
		what: "a group",
		path: organization(`groups/${ABSENT_ID}`),
		title: named(`No group ${ABSENT_ID}`),
		next: "All groups",
		isBesideApp: true,
	},
];

describe.skipIf(chromium === undefined)("the screen of", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	test.each(MISSING)("$what that does not exist", async ({ path, title, next, near, isBesideApp, what }) => {
		const { page } = admin;
		await admin.open(path(stage), title(stage));
		const main = page.getByRole("main");
		await main.getByRole("link", { name: next, exact: true }).waitFor();
		expect(await main.getByRole("button").allTextContents(), "no action, and nothing to try again").toEqual([]);
		expect(await page.title()).toBe(`${title(stage)} · Capstan`);
		expect(await page.getByRole("navigation", { name: /^App / }).count()).toBe(isBesideApp ? 0 : 1);
		if (near !== undefined) {
			await main.getByText("Did you mean").waitFor();
			await main.getByRole("link", { name: near(stage), exact: true }).waitFor();
		}
		await expectSound(admin);
		await expectFitsPhone(admin);
		const directory = process.env.CAPSTAN_SCREENSHOTS;
		if (directory !== undefined) {
			await page.screenshot({ path: `${directory}/missing-${what.replaceAll(" ", "-")}.png` });
		}
		await main.getByRole("link", { name: next, exact: true }).click();
		await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).not.toBe(title(stage));
		expect(admin.complaints.splice(0)).toEqual([]);
	});
});
