/**
 * Choosing a zip in the dashboard, in a real browser: the messages before anything is uploaded,
 * what the service received, and the link from the new bundle to a channel.
 */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { strToU8, type Zippable, zipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { newStage, type Stage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound } from "./support/dashboard-checks";
import { makeZip } from "./support/product";

if (chromium === undefined) console.log("skipped: choosing a zip in the dashboard, because no Chromium is installed");

const CALL = "CapacitorUpdater.notifyAppReady();";
const WARNING = "No call of notifyAppReady() was found";

describe.skipIf(chromium === undefined)("the upload dialog", () => {
	let stage: Stage;
	let admin: Visitor;
	let directory: string;
	/** Paths of the page's requests with a body. */
	const sent: string[] = [];
	beforeAll(async () => {
		stage = await newStage();
		admin = await stage.admin();
		directory = await mkdtemp(join(tmpdir(), "capstan-zip-"));
		admin.page.on("request", (request) => {
			if (request.method() !== "GET") sent.push(new URL(request.url()).pathname);
		});
	});
	afterAll(async () => {
		admin?.leave();
		await rm(directory, { recursive: true, force: true });
	});

	const button = (name: string | RegExp) => admin.page.getByRole("button", { name, exact: true });
	const submit = () => admin.page.getByRole("dialog").getByRole("button", { name: "Upload bundle" });
	const bundle = async (version: string) =>
		(await stage.product.api("GET", `/bundle?app_id=${stage.app}&version=${version}`)).body[0];
	const choose = (bytes: Uint8Array, name = "app.zip") =>
		admin.page
			.locator("input[type=file]")
			.setInputFiles({ name, mimeType: "application/zip", buffer: Buffer.from(bytes) });
	/** Opens the dialog, unless the test before left it open with a file that was not uploaded. */
	async function open(version: string): Promise<void> {
		if ((await admin.page.getByRole("dialog").count()) === 0) {
			await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
			await button("Upload bundle").click();
		}
		await admin.page.getByLabel("Version").fill(version);
		sent.length = 0;
	}
	/** Error shown at the file field. */
	const fieldError = () => admin.page.locator(".mantine-FileInput-error").innerText();
	const zip = (files: Zippable) => zipSync(files, { mtime: new Date("2026-11-21T08:00:00Z") });

	test.each<[string, () => Uint8Array, RegExp]>([
		["a text file named .zip", () => strToU8("hello"), /^The file is not a zip archive\. Upload a zip/],
		[
			"a zip of the folder instead of its contents",
			() => zip({ dist: { "index.html": strToU8("<html>"), "app.js": strToU8(CALL) } }),
			/^index\.html is in the folder "dist" and not at the top.+cd "dist" && zip -r \.\.\/bundle\.zip \.$/,
		],
		["a zip without index.html", () => zip({ "app.js": strToU8(CALL) }), /^There is no index\.html at the top/],
		["a zip that was cut off", () => makeZip("1").slice(0, -40), /^The zip is damaged: it was cut off/],
		[
			"a zip whose script cannot be unpacked",
			() => {
				const bytes = zip({ "index.html": strToU8("x".repeat(5000)), "app.js": strToU8(CALL) });
				return bytes.fill(0xff, 45, 55);
			},
			/^The zip is damaged: "index\.html" cannot be unpacked/,
		],
	])("refuses %s at the field, and sends nothing", async (_name, bytes, message) => {
		await open("4.0.0");
		await choose(bytes());
		await expect.poll(fieldError).toMatch(message);
		expect(await submit().isDisabled()).toBe(true);
		expect(sent).toEqual([]);
		expect(await bundle("4.0.0")).toBeUndefined();
		await expectSound(admin);
		await expectFitsPhone(admin);
		// Another file clears the error.
		await choose(makeZip("4.0.0"));
		await expect.poll(() => submit().isEnabled()).toBe(true);
		expect(await admin.page.locator(".mantine-FileInput-error").count()).toBe(0);
	});

	test("warns when no script calls notifyAppReady, and uploads such a zip after a confirmation", async () => {
		await open("4.1.0");
		await choose(zip({ "index.html": strToU8("<html>"), "app.js": strToU8("run()"), "readme.txt": strToU8(CALL) }));
		await admin.page.getByRole("alert").getByText(WARNING).waitFor();
		await admin.page.getByText("Devices would roll this bundle back").waitFor();
		expect(await submit().count()).toBe(0);
		expect(sent).toEqual([]);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await choose(makeZip("4.1.0"));
		await submit().waitFor();
		expect(await admin.page.getByText(WARNING).count()).toBe(0);
		await choose(zip({ "index.html": strToU8("<html>") }));
		await button("Upload anyway").click();
		await admin.page.getByRole("heading", { level: 1, name: "4.1.0" }).waitFor();
		expect(await bundle("4.1.0")).toMatchObject({ name: "4.1.0" });
	});

	const script = (at: number) => strToU8(`${"/".repeat(at)}${CALL}`);
	test.each<[string, Zippable]>([
		["a packed script in a folder", { assets: { "main-4f.js": script(100_000) } }],
		["a stored script", { "main.js": [script(10), { level: 0 }] }],
		["a module", { "main.mjs": script(0) }],
		["the page itself", { "index.html": strToU8(`<script>${CALL}</script>`) }],
		// The call is found across any two chunks of the stream.
		...[65_530, 65_536, 131_060].map((at): [string, Zippable] => [
			`a script at byte ${at}`,
			{ "main.js": [script(at), { level: 0 }] },
		]),
		["the last of many scripts", { "a.js": strToU8("a()"), "b.js": strToU8("b()"), "c.js": script(5) }],
	])("finds the call in %s", async (_name, files) => {
		await open("4.2.0");
		await choose(zip({ "index.html": strToU8("<html>") }));
		await admin.page.getByText(WARNING).waitFor();
		await choose(zip({ "index.html": strToU8("<html>"), ...files }));
		await expect.poll(() => submit().isEnabled()).toBe(true);
		expect(await admin.page.getByText(WARNING).count()).toBe(0);
	});

	test("stays responsive while it checks a zip of 150 MB", async () => {
		const content = randomBytes(25_000_000);
		const files = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`part-${index}.js`, content]));
		// One compressed script: decompression is the work that could block the page.
		const packed = { "packed.js": Buffer.alloc(60_000_000, "run();") };
		const path = join(directory, "large.zip");
		const stored = Object.fromEntries(
			Object.entries(files).map(([name, bytes]) => [name, [bytes, { level: 0 }] as const]),
		);
		await writeFile(path, zip({ "index.html": strToU8("<html>"), ...stored, ...packed } as Zippable));
		await open("4.3.0");
		// Turns of the page's event loop during the check: one long task would leave none.
		await admin.page.evaluate(`
			window.turns = 0;
			window.counting = setInterval(() => {
				if (document.body.textContent.includes("Checking the zip…")) window.turns += 1;
			}, 1);
		`);
		await admin.page.locator("input[type=file]").setInputFiles(path);
		await admin.page.getByRole("status").getByText("Checking the zip…").waitFor();
		await admin.page.getByText(WARNING).waitFor();
		await admin.page.evaluate("clearInterval(window.counting)");
		expect(await admin.page.evaluate("window.turns")).toBeGreaterThan(5);
		expect(sent).toEqual([]);
	});

	test("shows an error that only the service can detect", async () => {
		await open("4.4.0");
		await admin.page.route("**/files/upload/attachments/*", (route) =>
			route.fulfill({
				status: 422,
				contentType: "application/json",
				body: JSON.stringify({
					error: "bundle_invalid",
					message: "The zip unpacks to more than 1000 bytes. Leave out.",
				}),
			}),
		);
		await choose(makeZip("4.4.0"));
		await submit().click();
		await admin.page.getByRole("alert").getByText("The zip unpacks to more than 1000 bytes.").waitFor();
		await admin.page.unroute("**/files/upload/attachments/*");
	});

	test("the audit log of the organization names why an upload was refused", async () => {
		const { product } = stage;
		const { body } = await product.api("POST", "/bundle", { app_id: stage.app, version: "4.4.1" });
		const refused = await fetch(body.upload_url, { method: "PUT", body: "hello" });
		expect(refused.status).toBe(422);
		await admin.open(`/apps/${stage.app}/changes`, /./);
		await admin.page.getByText("The upload was rejected: The file is not a zip archive.").waitFor();
	});

	test("links the new bundle to the channel that releases it", async () => {
		await open("4.5.0");
		await choose(makeZip("4.5.0"));
		await submit().click();
		await admin.page.getByRole("heading", { level: 1, name: "4.5.0" }).waitFor();
		await button("Release").click();
		const dialog = admin.page.getByRole("dialog");
		await dialog.getByRole("heading", { name: "Release to production" }).waitFor();
		await expectSound(admin);
		expect(await dialog.getByRole("combobox", { name: "Bundle" }).inputValue()).toBe("4.5.0");
		await dialog.getByRole("button", { name: "Release 4.5.0 to production" }).click();
		const live = async () =>
			(await stage.product.api("GET", `/channel?app_id=${stage.app}&channel=production`)).body.version.name;
		await expect.poll(live).toBe("4.5.0");
		await admin.page.getByRole("link", { name: "production" }).first().waitFor();
	});

	test("a bundle's link is a link when it is a web address, and text otherwise", async () => {
		const { product } = stage;
		const link = "https://example.com/pr/7?a=1";
		const fields = { app_id: stage.app, version: "4.6.0", link };
		const { body } = await product.api("POST", "/bundle", fields);
		expect((await fetch(body.upload_url, { method: "PUT", body: makeZip("4.6.0") as BodyInit })).status).toBe(200);
		await admin.open(`/apps/${stage.app}/bundles/4.6.0`, "4.6.0");
		const anchor = admin.page.getByRole("link", { name: link });
		expect(await anchor.getAttribute("href")).toBe(link);
		expect(await anchor.getAttribute("rel")).toContain("noopener");
		// A row from before links were checked.
		const db = await product.running.miniflare.getD1Database("DB");
		await db.prepare("UPDATE bundles SET link = 'javascript:alert(1)' WHERE id = ?").bind(body.id).run();
		await admin.open(`/apps/${stage.app}/bundles/4.6.0`, "4.6.0");
		await admin.page.getByText("javascript:alert(1)").waitFor();
		expect(await admin.page.locator("a[href^='javascript']").count()).toBe(0);
		await expectSound(admin);
	});

	test("a bundle's page downloads it, edits its notes, and shows its packages, files and channels", async () => {
		const { product } = stage;
		const camera = { name: "@capacitor/camera", version: "7.0.2" };
		for (const [version, native_packages] of [
			["4.7.0", [camera]],
			["4.8.0", [{ ...camera, version: "7.1.0" }]],
		] as const) {
			const { body } = await product.api("POST", "/bundle", { app_id: stage.app, version, native_packages });
			await fetch(body.upload_url, { method: "PUT", body: makeZip(version) as BodyInit });
		}
		const rule = { app_id: stage.app, channel: "fits", version: "4.7.0" };
		await product.api("POST", "/channel", rule);
		await product.api("POST", "/channel", { ...rule, requireCompatibleBundle: true });
		const { page } = admin;

		await admin.open(`/apps/${stage.app}/bundles/4.7.0`, "4.7.0");
		await page.getByRole("region", { name: "Where it was live" }).getByText("Live now").waitFor();
		await page.getByRole("region", { name: "Files", exact: true }).getByText("index.html").waitFor();
		await button("Add notes").click();
		await page.getByLabel("Notes (optional)").fill("Better pictures");
		await page.getByLabel("Link (optional)").fill("javascript:alert(1)");
		await button("Save notes").click();
		await page.getByText("Must be an http or https address").waitFor();
		await expectSound(admin);
		await page.getByLabel("Link (optional)").fill("https://example.com/c/47");
		await button("Save notes").click();
		await page.getByRole("link", { name: "https://example.com/c/47" }).waitFor();
		expect(await bundle("4.7.0")).toMatchObject({ comment: "Better pictures", link: "https://example.com/c/47" });
		const [download] = await Promise.all([page.waitForEvent("download"), button("Download").click()]);
		expect(download.suggestedFilename()).toBe(`${stage.app}-4.7.0.zip`);
		expect(readFileSync(await download.path())).toEqual(Buffer.from(makeZip("4.7.0")));

		await admin.open(`/apps/${stage.app}/bundles/4.8.0?channel=fits`, "4.8.0");
		const packages = page.getByRole("region", { name: "Native packages" });
		await packages.getByText("Other version").waitFor();
		await page.getByText("fits refuses this bundle").waitFor();
		await expectSound(admin);
		await button("Release").click();
		await page.getByRole("dialog").getByLabel("Channel").selectOption("fits");
		await page.getByRole("dialog").getByText("@capacitor/camera 7.1.0 (live: 7.0.2)").waitFor();
		expect(await page.getByRole("dialog").getByRole("button", { name: "Release 4.8.0 to fits" }).isDisabled()).toBe(
			true,
		);
		await page.getByLabel(/^Release it anyway/).check();
		await page.getByRole("dialog").getByRole("button", { name: "Release 4.8.0 to fits" }).click();
		const channel = async () => (await product.api("GET", `/channel?app_id=${stage.app}&channel=fits`)).body;
		await expect.poll(async () => (await channel()).version.name).toBe("4.8.0");
		expect((await channel()).requireCompatibleBundle).toBe(false);
	});

	test("the list of bundles finds and sorts them, in the address", async () => {
		const { page } = admin;
		const versions = async () => {
			const cells = page.getByRole("region", { name: "Bundles", exact: true }).locator("tbody td:first-child a");
			return cells.allInnerTexts();
		};
		await admin.open(`/apps/${stage.app}/bundles`, "Bundles");
		await page.getByLabel("Find bundles").fill("better PICT");
		await expect.poll(versions).toEqual(["4.7.0"]);
		await page.getByText("1 bundle", { exact: true }).waitFor();
		await page.getByLabel("Find bundles").fill("4.");
		await button(/^Live/).click();
		await expect.poll(versions).toContain("4.8.0");
		await button("Version").click();
		await button("Version").click();
		await expect.poll(async () => (await versions()).at(-1)).toBe("4.8.0");
		expect(new URL(page.url()).search).toMatch(/search=4\..*state=live.*sort=version/);
		await page.reload();
		await expect.poll(async () => (await versions()).at(-1)).toBe("4.8.0");
		await expectSound(admin);
	});
});
