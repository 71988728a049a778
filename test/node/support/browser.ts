/**
 * Headless Chromium, driven by Playwright: one for each test process, with a separate context for each visitor. Tests that need it are skipped,
 * and a line reports that, on a machine without Chromium.
 */
import { spawnSync } from "node:child_process";
import { type Browser, type BrowserContextOptions, chromium as driver, type Page } from "playwright-core";
import { PATIENCE_MS } from "../../patience";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The program's path; undefined when none is installed. */
export const chromium = NAMES.map((name) => spawnSync("which", [name]).stdout?.toString().trim()).find(Boolean);

let shared: Promise<Browser> | undefined;

/** The browser of this test process, which ends with it. */
export function sharedBrowser(): Promise<Browser> {
	shared ??= driver.launch({
		executablePath: chromium ?? "",
		args: ["--no-sandbox", "--disable-gpu"],
		timeout: PATIENCE_MS,
	});
	return shared;
}

/** A page in a new context, with the patience of the tests. */
export async function openPage(options: BrowserContextOptions = {}): Promise<Page> {
	const context = await (await sharedBrowser()).newContext(options);
	context.setDefaultTimeout(PATIENCE_MS);
	return context.newPage();
}

/** Closes the page without waiting: Chromium sometimes never confirms the close of a page that was about to load another. */
export function leave(page: Page): void {
	page
		.context()
		.close()
		.catch(() => undefined);
}

/** Sends a command of the DevTools protocol to a page. */
export type Send = (method: string, params?: object) => Promise<Record<string, unknown>>;

/** The DevTools of a page, for commands that Playwright has no method for. */
export async function devtoolsOf(page: Page): Promise<Send> {
	const session = await page.context().newCDPSession(page);
	return (method, params) => session.send(method as never, params as never);
}

/** Gives the page an authenticator that holds passkeys and confirms every request; its id. */
export async function addAuthenticator(send: Send): Promise<string> {
	await send("WebAuthn.enable");
	const { authenticatorId } = await send("WebAuthn.addVirtualAuthenticator", {
		options: {
			protocol: "ctap2",
			transport: "internal",
			hasResidentKey: true,
			hasUserVerification: true,
			isUserVerified: true,
			automaticPresenceSimulation: true,
		},
	});
	return String(authenticatorId);
}
