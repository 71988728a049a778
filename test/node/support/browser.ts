/**
 * Headless Chromium, driven by Playwright: one for each test process, with a separate context for
 * each visitor. Tests that need it are skipped, and a line reports that, on a machine without
 * Chromium.
 */
import { spawnSync } from "node:child_process";
import { type Browser, type BrowserContextOptions, chromium as driver, type Page } from "playwright-core";
import { PATIENCE_MS } from "../../patience";

/** The shell has no windows; a run of browser tests takes four fifths of the CPU time with it. */
const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

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

interface PageOptions {
	readonly width?: number;
	readonly dark?: boolean;
}

const HEIGHT = 900;
const CONTEXT: BrowserContextOptions = { reducedMotion: "reduce", timezoneId: "Europe/Berlin", locale: "en-GB" };

/**
 * Pages that somebody left, without cookies or storage. A new context starts a process, which takes
 * longer than a screen.
 */
const left: Page[] = [];
/** Pages that a test changed in a way that cannot be taken back. */
const changed = new WeakSet<Page>();

/** A page of a visitor without cookies, with the patience of the tests. */
export async function openPage({ width = 1280, dark = false }: PageOptions = {}): Promise<Page> {
	const page = left.pop() ?? (await newPage());
	await page.setViewportSize({ width, height: HEIGHT });
	await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
	return page;
}

async function newPage(): Promise<Page> {
	const context = await (await sharedBrowser()).newContext(CONTEXT);
	context.setDefaultTimeout(PATIENCE_MS);
	const page = await context.newPage();
	closeAfter(page, page, ["addInitScript", "exposeBinding", "exposeFunction", "setExtraHTTPHeaders"]);
	closeAfter(page, page.clock, ["install", "pauseAt", "setFixedTime", "setSystemTime"]);
	closeAfter(page, context, ["addInitScript", "exposeBinding", "exposeFunction", "setExtraHTTPHeaders"]);
	closeAfter(page, context, ["grantPermissions", "setGeolocation", "setOffline", "newCDPSession", "route"]);
	return page;
}

/** A page on which one of the methods was called is not kept: none of them can be taken back. */
function closeAfter<Target extends object>(page: Page, target: Target, methods: readonly (keyof Target)[]): void {
	for (const method of methods) {
		const original = target[method];
		if (typeof original !== "function") throw new TypeError(`${String(method)} is no method`);
		const marking = (...parameters: unknown[]) => {
			changed.add(page);
			return original.apply(target, parameters);
		};
		target[method] = marking as Target[keyof Target];
	}
}

/**
 * Keeps the page for the next visitor, or closes it, without waiting: Chromium sometimes never
 * confirms the close of a page.
 */
export function leave(page: Page): void {
	const close = () => page.context().close();
	(changed.has(page) ? close() : forget(page).catch(close)).catch(() => undefined);
}

async function forget(page: Page): Promise<void> {
	page.removeAllListeners();
	await page.unrouteAll({ behavior: "ignoreErrors" });
	await page.evaluate("localStorage.clear(); sessionStorage.clear()").catch(() => undefined);
	await page.goto(restingPage(page.url()));
	await page.context().clearCookies();
	left.push(page);
}

/**
 * A page without scripts at the same host. On its way from about:blank, Chromium starts a process,
 * which takes longer than most screens.
 */
export const restingPage = (url: string) => new URL("/favicon.svg", url).href;

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
