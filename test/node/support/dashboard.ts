/**
 * The running product with a filled scene, and visitors that look at it in Chromium, signed in with any role and at any width. Every complaint
 * of the page, such as a style or script that its Content-Security-Policy refuses, is collected and fails the test that looks.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import type { BrowserContext, Page } from "playwright-core";
import { PATIENCE_MS } from "../../patience";
import { devtoolsOf as devtoolsOfPage, leave, openPage, type Send } from "./browser";
import { createProductApp, type Product, startProduct, uploadProductBundle } from "./product";

export const APP = "com.example.shop";
/** A page that shows names as markup instead of text runs this. */
export const HOSTILE = `<img src=x onerror="document.title='taken'">`;

export interface Visitor {
	readonly page: Page;
	readonly context: BrowserContext;
	/** Errors that the browser reported. */
	readonly complaints: string[];
	/** Opens a screen and waits for its heading. */
	open(path: string, heading: string | RegExp): Promise<void>;
	/** Closes the page without waiting for it. */
	leave(): void;
}

export interface Stage {
	readonly product: Product;
	/** With a host name, because WebAuthn accepts no address. */
	readonly origin: string;
	readonly appUuid: string;
	/** Each visitor has a separate browser context. */
	visitor(options?: { readonly width?: number; readonly dark?: boolean }): Promise<Visitor>;
	admin(options?: { readonly width?: number; readonly dark?: boolean }): Promise<Visitor>;
	/** A person who accepted an invitation. */
	member(role: string, email: string): Promise<Visitor>;
}

/** Only who started a stage may stop it. */
export interface OwnStage extends Stage {
	stop(): Promise<void>;
}

const DEVICES = 6;
const LOOK_MS = 25;
const LOOKS = 80;

let shared: Promise<Stage> | undefined;

/** The stage of this test process, for files that depend on nothing that another file changes. */
export function sharedStage(): Promise<Stage> {
	shared ??= startStage();
	return shared;
}

export async function startStage(): Promise<OwnStage> {
	const product = await startProduct({ unlimitedRequests: true });
	const origin = new URL(product.running.signInLink ?? "").origin;
	const appUuid = await createScene(product);
	const admin = await signedInAdmin(product, origin);
	return {
		product,
		origin,
		appUuid,
		visitor: (options) => visit(origin, options),
		async admin(options) {
			const visitor = await visit(origin, options);
			await visitor.context.addCookies(admin);
			return visitor;
		},
		async member(role, email) {
			const { body } = await product.api("POST", "/organization/members", { orgId: product.orgId, email, role });
			const visitor = await visit(origin);
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
		stop: product.stop,
	};
}

async function visit(
	origin: string,
	options: { readonly width?: number; readonly dark?: boolean } = {},
): Promise<Visitor> {
	const page = await openPage(options);
	const complaints: string[] = [];
	page.on("pageerror", (error) => complaints.push(String(error)));
	page.on("console", (message) => {
		// The page shows errors of the API; they are no complaint.
		if (message.type() === "error" && !message.text().includes("Failed to load resource"))
			complaints.push(message.text());
	});
	return {
		page,
		context: page.context(),
		complaints,
		async open(path, heading) {
			await page.goto(`${origin}/dashboard${path}`);
			// Playwright looks again after half a second only, and most screens need a third of one.
			for (let look = 0; look < LOOKS && !(await page.evaluate("document.querySelector('h1') !== null")); look++)
				await page.waitForTimeout(LOOK_MS);
			await page.getByRole("heading", { level: 1, name: heading }).waitFor();
		},
		leave: () => leave(page),
	};
}

async function signedInAdmin(product: Product, origin: string) {
	const visitor = await visit(origin);
	const { page, context } = visitor;
	await page.goto(product.running.signInLink ?? "");
	await page.waitForURL((url) => url.pathname.startsWith("/dashboard/"));
	const cookies = await context.cookies();
	visitor.leave();
	return cookies;
}

/** An app with bundles, channels of every kind, devices and entries in its audit log. */
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
	// The API refuses such a name; the page must not depend on that.
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
	for (let index = 0; index < DEVICES; index++) {
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
	// The Queue brings them a second later.
	const listed = async () => (await product.api("GET", `/device/list?app_id=${APP}`)).body.total;
	for (let look = 0; (await listed()) < DEVICES; look++) {
		if (look * LOOK_MS > PATIENCE_MS) throw new Error("the devices of the scene do not arrive");
		await sleep(LOOK_MS);
	}
	return appUuid;
}

export const deviceId = (index: number) => `b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d6${index}`;

/** The DevTools of the visitor's page, for commands that Playwright has no method for. */
export const devtoolsOf = ({ page }: Visitor): Promise<Send> => devtoolsOfPage(page);

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Finding {
	readonly id: string;
	readonly impact: string;
	readonly help: string;
	readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** Findings of axe that are serious or critical. */
export async function seriousFindings({ page }: Visitor): Promise<string[]> {
	// Playwright's evaluation is not subject to the page's Content-Security-Policy.
	await page.evaluate(AXE);
	// No rule that is on by default needs the style sheets that axe would fetch again.
	const options = '{ resultTypes: ["violations"], preload: false }';
	const violations = (await page.evaluate(
		`axe.run(document, ${options}).then(({ violations }) => violations)`,
	)) as Finding[];
	return violations
		.filter(({ impact }) => impact === "serious" || impact === "critical")
		.map(
			({ id, help, nodes }) =>
				`${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(" | ")}`,
		);
}

/** Pixels by which the page is wider than its screen. */
export function overflowOf({ page }: Visitor): Promise<number> {
	return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
}
