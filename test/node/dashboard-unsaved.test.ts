/**
 * Unsaved changes of every kind of form, and every way out of the page, in a real browser: typed
 * text is asked about before it is lost, stays when the person stays, and a form without changes,
 * or one that was saved, lets everybody go.
 */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: unsaved changes in the dashboard, because no Chromium is installed");

interface Form {
	readonly name: string;
	readonly path: (stage: Stage) => string;
	readonly heading: string;
	open?(page: Page): Promise<void>;
	/** The label of a field of the form. */
	readonly field: string;
}

const FORMS: readonly Form[] = [
	{
		name: "a card of settings",
		path: ({ app }) => `/apps/${app}/settings`,
		heading: "Settings",
		field: "Default upload channel",
	},
	{
		name: "a dialog",
		path: ({ app }) => `/apps/${app}/channels`,
		heading: "Channels",
		open: (page) => page.getByRole("button", { name: "New channel" }).click(),
		field: "Name",
	},
	{
		name: "a form that replaces what it edits",
		path: ({ app }) => `/apps/${app}/bundles/1.0.0`,
		heading: "1.0.0",
		open: (page) => page.getByRole("button", { name: "Add notes" }).click(),
		field: "Notes (optional)",
	},
];

/** Without the pointer, because a dialog covers the links of the page. */
const followLink = (page: Page) =>
	page.evaluate('document.querySelector(\'nav a[href$="/previews"], a[href$="/previews"]\').click()');

const BACK = (page: Page) => page.evaluate("history.back()");

const WAYS = [
	{ way: "a link", go: followLink, arrives: "Previews", again: followLink },
	{ way: "the browser's back", go: BACK, arrives: "Devices", again: BACK },
	{ way: "two steps back", go: (page: Page) => page.evaluate("history.go(-2)"), arrives: "Statistics", again: BACK },
] as const;

describe.skipIf(chromium === undefined)("unsaved changes in the dashboard", () => {
	let stage: Stage;
	let admin: Visitor;
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
	});
	afterAll(() => admin?.leave());

	const title = (name: string) => admin.page.getByRole("heading", { level: 1, name, exact: true });
	const question = () => admin.page.getByRole("dialog", { name: "Discard what you entered?" });

	/** Opens the form as the last of three pages of the same document, so that back stays in it. */
	const openForm = async ({ path, heading, open, field }: Form) => {
		const { page } = admin;
		await admin.open(`/apps/${stage.app}/statistics`, "Statistics");
		for (const [to, name] of [
			[`/apps/${stage.app}/devices`, "Devices"],
			[path(stage), heading],
		] as const) {
			await page.evaluate(`history.pushState(null, "", ${JSON.stringify(`/dashboard${to}`)})`);
			await title(name).waitFor();
		}
		await open?.(page);
		return page.getByRole("textbox", { name: field, exact: true }).first();
	};

	describe.each(FORMS)("$name", (form) => {
		test.each(WAYS)("asks when somebody leaves by $way, and keeps what was typed", async ({ go, again, arrives }) => {
			const field = await openForm(form);
			await field.fill("typed");
			const address = admin.page.url();
			await go(admin.page);
			await question().waitFor();
			expect(admin.page.url(), "the address is that of the form").toBe(address);
			await expectSound(admin);
			await question().getByRole("button", { name: "Keep editing" }).click();
			await question().waitFor({ state: "detached" });
			expect(await field.inputValue()).toBe("typed");
			// The page that was asked for is now the one before.
			await again(admin.page);
			await question().getByRole("button", { name: "Discard" }).click();
			await title(arrives).waitFor();
			await question().waitFor({ state: "detached" });
			expect(admin.complaints).toEqual([]);
		});

		test.each(WAYS)("lets somebody go by $way when nothing differs", async ({ go, arrives }) => {
			const field = await openForm(form);
			const before = await field.inputValue();
			await field.fill("typed");
			await field.fill(before);
			await go(admin.page);
			await title(arrives).waitFor();
			expect(await question().count()).toBe(0);
		});

		test("asks before a reload", async () => {
			const field = await openForm(form);
			await field.fill("typed");
			const asked = admin.page.waitForEvent("dialog");
			const reload = admin.page.reload();
			expect((await asked).type()).toBe("beforeunload");
			await reload;
		});
	});

	test("Escape, Cancel and the close button of a dialog ask the same question", async () => {
		const { page } = admin;
		for (const close of [
			() => page.keyboard.press("Escape"),
			() => page.getByRole("button", { name: "Cancel" }).click(),
			() => page.getByRole("button", { name: "Close", exact: true }).click(),
		]) {
			await admin.open(`/apps/${stage.app}/channels`, "Channels");
			await page.getByRole("button", { name: "New channel" }).click();
			await page.getByRole("textbox", { name: "Name", exact: true }).fill("typed");
			await close();
			await question().waitFor();
			await page.keyboard.press("Escape");
			await question().waitFor({ state: "detached" });
			expect(await page.getByRole("textbox", { name: "Name", exact: true }).inputValue()).toBe("typed");
			await close();
			await question().getByRole("button", { name: "Discard" }).click();
			await page.getByRole("dialog").waitFor({ state: "detached" });
		}
	});

	test("a change that is saved moves on without a question, and so does a deletion beside one that is not", async () => {
		const { page } = admin;
		await admin.open(`/apps/${stage.app}/channels`, "Channels");
		await page.getByRole("button", { name: "New channel" }).click();
		await page.getByRole("textbox", { name: "Name", exact: true }).fill("made-here");
		await page.getByRole("button", { name: "Create channel" }).click();
		await title("made-here").waitFor();
		expect(await question().count()).toBe(0);

		const app = stage.product.newAppId();
		await stage.product.api("POST", "/app", { app_id: app, name: "Going", owner_org: stage.product.orgId });
		await admin.open(`/apps/${app}/settings`, "Settings");
		await page.getByLabel("Default upload channel").fill("typed");
		await page.getByRole("button", { name: "Delete Going" }).click();
		await page.getByLabel(`Type ${app} to confirm`).fill(app);
		await page.getByRole("button", { name: "Delete app" }).click();
		await title("Apps").waitFor();
		expect(await question().count()).toBe(0);
	});
});
