/**
 * The running product with a filled scene, and visitors that look at it in Chromium, signed in with
 * any role and at any width. Every complaint of the page, such as a style or script that its
 * Content-Security-Policy refuses, is collected and fails the test that looks.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { Response } from "miniflare";
import type { APIRequestContext, BrowserContext, Page } from "playwright-core";
import { createSignInLink } from "../../../src/operator/local-database";
import { PATIENCE_MS } from "../../patience";
import { devtoolsOf as devtoolsOfPage, leave, openPage, type Send } from "./browser";
import { repositoryAnswer } from "./local-issuer";
import { createProductApp, type Product, startProduct, uploadProductBundle } from "./product";

export const APP = "com.example.shop";
/** The name of the first organization of an installation. */
const ORGANIZATION = "My organization";
/** A page that shows names as markup instead of text runs this. */
export const HOSTILE = `<img src=x onerror="document.title='taken'">`;

export interface Visitor {
	readonly page: Page;
	readonly context: BrowserContext;
	/** Errors that the browser reported. */
	readonly complaints: string[];
	/** Opens a screen and waits for its heading. */
	open(path: string, heading: string | RegExp): Promise<void>;
	/** Posts what a page of the service would post, without loading the page. */
	send(path: string, body: object): Promise<void>;
	/** Closes the page without waiting for it. */
	leave(): void;
}

export interface Stage {
	readonly product: Product;
	/** With a host name, because WebAuthn accepts no address. */
	readonly origin: string;
	readonly app: string;
	readonly appUuid: string;
	/** Each visitor has a separate browser context. */
	visitor(options?: { readonly width?: number; readonly dark?: boolean }): Promise<Visitor>;
	/**
	 * The operator, who has just signed in: a session of a file before may be too old to confirm
	 * settings with.
	 */
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

/** Without timers, because a page's clock may stand still. */
const HAS_HEADING = `new Promise((found) => {
	const look = () => document.querySelector("h1") !== null && found();
	new MutationObserver(look).observe(document, { childList: true, subtree: true });
	look();
})`;

let shared: Promise<Stage> | undefined;

/** The stage of this test process, for files that depend on nothing that another file changes. */
export function sharedStage(): Promise<Stage> {
	shared ??= startStage();
	return shared;
}

/**
 * Another organization with the same scene, in the product of this test process, for files that
 * change the scene or count what is there.
 */
export async function newStage(): Promise<Stage> {
	const { product, origin } = await sharedStage();
	const { body } = await product.api("PUT", "/organization", { name: ORGANIZATION });
	return stageOf({ ...product, orgId: body.id }, product.newAppId(), origin);
}

/**
 * A product with nothing but the scene, for files that depend on what the whole installation or the
 * operator's account holds.
 */
export async function startStage(): Promise<OwnStage> {
	const product = await startProduct({
		unlimitedRequests: true,
		// No test of a screen reaches the internet.
		outboundService({ url }) {
			const repository = repositoryAnswer(url);
			return repository === undefined ? new Response(null, { status: 404 }) : Response.json(repository);
		},
	});
	const { origin } = new URL(product.running.signInLink ?? "");
	return { ...(await stageOf(product, APP, origin)), stop: product.stop };
}

async function stageOf(product: Product, app: string, origin: string): Promise<Stage> {
	return {
		product,
		origin,
		app,
		appUuid: await createScene(product, app),
		visitor: (options) => visit(origin, options),
		async admin(options) {
			const visitor = await visit(origin, options);
			const db = await product.running.miniflare.getD1Database("DB");
			const link = await createSignInLink(db, origin, undefined);
			await visitor.send("/sign-in/link", { token: link?.replace(/.*#token=/, "") });
			return visitor;
		},
		async member(role, email) {
			const { body } = await product.api("POST", "/organization/members", { orgId: product.orgId, email, role });
			const visitor = await visit(origin);
			const token = String(body.link).replace(/.*token=/, "");
			await visitor.send("/invitation/accept", { token, sign_in: true });
			return visitor;
		},
	};
}

async function post(visitor: APIRequestContext, origin: string, path: string, data: object): Promise<void> {
	// A connection that was kept may have ended.
	const response = await visitor.post(origin + path, { data, headers: { origin }, maxRetries: 1 });
	if (!response.ok()) throw new Error(`${path} was answered with ${response.status()}: ${await response.text()}`);
}

async function visit(
	origin: string,
	options: { readonly width?: number; readonly dark?: boolean } = {},
): Promise<Visitor> {
	const page = await openPage(options);
	const complaints: string[] = [];
	// A test that opens another screen leaves what it typed, as a person who confirms that.
	page.on("dialog", (dialog) => void dialog.accept().catch(() => undefined));
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
			const title = page.getByRole("heading", { level: 1, name: heading });
			// A locator looks again after half a second only, and most screens need a third of one.
			await Promise.race([page.evaluate(HAS_HEADING).catch(() => undefined), title.waitFor()]);
			await title.waitFor();
		},
		send: (path, body) => post(page.context().request, origin, path, body),
		leave: () => leave(page),
	};
}

/** An app with bundles, channels of every kind, devices and entries in its audit log. */
async function createScene(product: Product, app: string): Promise<string> {
	const appUuid = await createProductApp(product, app);
	const done = async (method: string, path: string, body: unknown) => {
		const answer = await product.api(method, path, body);
		if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
	};
	await uploadProductBundle(product, app, "1.0.0");
	await uploadProductBundle(product, app, "1.1.0");
	await uploadProductBundle(product, app, "1.2.0-pr.128");
	await done("POST", "/channel", { app_id: app, channel: "production", version: "1.0.0", public: true });
	await done("POST", "/channel", {
		app_id: app,
		channel: "pr-128",
		version: "1.2.0-pr.128",
		allow_device_self_set: true,
	});
	await done("POST", "/channel", { app_id: app, channel: "hostile", allow_device_self_set: true });
	// The API refuses such a name; the page must not depend on that.
	const db = await product.running.miniflare.getD1Database("DB");
	await db.prepare("UPDATE channels SET name = ? WHERE name = 'hostile'").bind(HOSTILE).run();
	await done("POST", "/channel", {
		app_id: app,
		channel: "beta",
		version: "1.0.0",
		allow_device_self_set: true,
		rolloutVersion: "1.1.0",
		rolloutEnabled: true,
		rolloutPercentage: 25,
	});
	await done("PUT", `/app/${app}`, { name: "Example shop" });
	for (let index = 0; index < DEVICES; index++) {
		const device = {
			app_id: app,
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
	const listed = async () => (await product.api("GET", `/device?totals=true&app_id=${app}`)).body.total;
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
	// Playwright's evaluation is not subject to the page's Content-Security-Policy. The script stays
	// as long as the document.
	if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
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
