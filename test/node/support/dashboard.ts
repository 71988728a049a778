/**
 * The running product with a scene worth looking at, and a Chromium that has it open: as whoever is signed in, at any width. Whatever the
 * page complains about, a style or script that its Content-Security-Policy refuses among it, is collected and fails the test that looks.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContext, chromium as driver, type Page } from "playwright-core";
import { PATIENCE_MS } from "../../patience";
import { chromium, type Send } from "./browser";
import { createProductApp, type Product, startProduct, uploadProductBundle } from "./product";

export const APP = "com.example.shop";
/** Whoever shows names as markup instead of text runs this. */
export const HOSTILE = `<img src=x onerror="document.title='taken'">`;

export interface Visitor {
	readonly page: Page;
	readonly context: BrowserContext;
	/** What the browser complained about. */
	readonly complaints: string[];
	/** Opens a screen and waits for its heading. */
	open(path: string, heading: string | RegExp): Promise<void>;
	/** Closes the page without waiting for it: Chromium sometimes never answers that it closed one that was about to load another. */
	leave(): void;
}

export interface Stage {
	readonly product: Product;
	/** Of a name, so that passkeys would work. */
	readonly origin: string;
	readonly appUuid: string;
	/** A browser of its own for each visitor. */
	visitor(options?: { readonly width?: number; readonly dark?: boolean }): Promise<Visitor>;
	admin(options?: { readonly width?: number; readonly dark?: boolean }): Promise<Visitor>;
	/** Somebody who came by an invitation. */
	member(role: string, email: string): Promise<Visitor>;
	stop(): Promise<void>;
}

const HEIGHT = 900;

export async function startStage(): Promise<Stage> {
	const product = await startProduct({ unlimitedRequests: true });
	const origin = new URL(product.running.signInLink ?? "").origin;
	const browser = await driver.launch({
		executablePath: await programPath(),
		args: ["--no-sandbox", "--disable-gpu"],
		timeout: PATIENCE_MS,
	});
	const appUuid = await createScene(product);
	const admin = await signedInAdmin(product, browser, origin);
	return {
		product,
		origin,
		appUuid,
		visitor: (options) => visit(browser, origin, options),
		async admin(options) {
			const visitor = await visit(browser, origin, options);
			await visitor.context.addCookies(admin);
			return visitor;
		},
		async member(role, email) {
			const { body } = await product.api("POST", "/organization/members", { orgId: product.orgId, email, role });
			const visitor = await visit(browser, origin);
			const token = String(body.link).replace(/.*token=/, "");
			await visitor.page.goto(`${origin}/invitation`);
			const status = await visitor.page.evaluate(async (sent) => {
				const response = await fetch("/invitation/accept", {
					method: "POST",
					headers: { "content-type": "application/json" },
					body: JSON.stringify({ token: sent, sign_in: true }),
				});
				return response.status;
			}, token);
			if (status !== 201) throw new Error(`the invitation was answered with ${status}`);
			visitor.complaints.length = 0;
			return visitor;
		},
		async stop() {
			await browser.close();
			await product.stop();
		},
	};
}

async function programPath(): Promise<string> {
	const { spawnSync } = await import("node:child_process");
	return spawnSync("which", [chromium ?? ""])
		.stdout.toString()
		.trim();
}

async function visit(
	browser: Browser,
	origin: string,
	{ width = 1280, dark = false }: { readonly width?: number; readonly dark?: boolean } = {},
): Promise<Visitor> {
	const context = await browser.newContext({
		viewport: { width, height: HEIGHT },
		colorScheme: dark ? "dark" : "light",
		reducedMotion: "reduce",
		timezoneId: "Europe/Berlin",
		locale: "en-GB",
	});
	context.setDefaultTimeout(PATIENCE_MS);
	const page = await context.newPage();
	const complaints: string[] = [];
	page.on("pageerror", (error) => complaints.push(String(error)));
	page.on("console", (message) => {
		// What the API refuses is the page's to show, and no complaint.
		if (message.type() === "error" && !message.text().includes("Failed to load resource"))
			complaints.push(message.text());
	});
	return {
		page,
		context,
		complaints,
		async open(path, heading) {
			await page.goto(`${origin}/dashboard${path}`);
			await page.getByRole("heading", { level: 1, name: heading }).waitFor();
		},
		leave() {
			context.close().catch(() => {});
		},
	};
}

async function signedInAdmin(product: Product, browser: Browser, origin: string) {
	const { page, context, leave } = await visit(browser, origin);
	await page.goto(product.running.signInLink ?? "");
	await page.waitForURL((url) => url.pathname.startsWith("/dashboard/"));
	const cookies = await context.cookies();
	leave();
	return cookies;
}

/** An app with two bundles, channels of every kind, devices, and a few days' work in its audit log. */
async function createScene(product: Product): Promise<string> {
	const appUuid = await createProductApp(product, APP);
	const done = async (method: string, path: string, body: unknown) => {
		const answer = await product.api(method, path, body);
		if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
	};
	await uploadProductBundle(product, APP, "1.0.0");
	await uploadProductBundle(product, APP, "1.1.0");
	await uploadProductBundle(product, APP, "1.2.0-pr.128");
	await done("POST", "/channel", { app_id: APP, channel: "production", version: "1.0.0", public: true });
	await done("POST", "/channel", {
		app_id: APP,
		channel: "pr-128",
		version: "1.2.0-pr.128",
		allow_device_self_set: true,
	});
	await done("POST", "/channel", { app_id: APP, channel: "hostile", allow_device_self_set: true });
	// The API lets nobody give such a name; the page must not depend on that.
	const db = await product.running.miniflare.getD1Database("DB");
	await db.prepare("UPDATE channels SET name = ? WHERE name = 'hostile'").bind(HOSTILE).run();
	await done("POST", "/channel", {
		app_id: APP,
		channel: "beta",
		version: "1.0.0",
		allow_device_self_set: true,
		rolloutVersion: "1.1.0",
		rolloutEnabled: true,
		rolloutPercentage: 25,
	});
	await done("PUT", `/app/${APP}`, { name: "Example shop" });
	for (let index = 0; index < 6; index++) {
		const device = {
			app_id: APP,
			device_id: deviceId(index),
			platform: index % 2 === 0 ? "android" : "ios",
			version_name: index < 4 ? "1.0.0" : "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			version_os: "17",
			is_prod: true,
			is_emulator: false,
		};
		await done("POST", "/updates", device);
		await done("POST", "/stats", { ...device, action: "set" });
	}
	return appUuid;
}

export const deviceId = (index: number) => `b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d6${index}`;

/** The DevTools of the visitor's page, for what the driver has no method for. */
export async function devtoolsOf({ context, page }: Visitor): Promise<Send> {
	const session = await context.newCDPSession(page);
	return (method, params) => session.send(method as never, params as never);
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Finding {
	readonly id: string;
	readonly impact: string;
	readonly help: string;
	readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** What axe finds that is serious or critical. */
export async function seriousFindings({ page }: Visitor): Promise<string[]> {
	// By the driver, which the page's policy does not concern.
	await page.evaluate(AXE);
	const violations = (await page.evaluate("axe.run(document).then(({ violations }) => violations)")) as Finding[];
	return violations
		.filter(({ impact }) => impact === "serious" || impact === "critical")
		.map(
			({ id, help, nodes }) =>
				`${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(" | ")}`,
		);
}

/** By how many pixels the page is wider than its screen. */
export function overflowOf({ page }: Visitor): Promise<number> {
	return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
}
