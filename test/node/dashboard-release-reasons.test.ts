/**
 * Reasons of the release dialog why devices do not get a bundle, in a real browser: each leads to
 * the place where it is changed, and with those that get it the numbers add up.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { PATIENCE_MS } from "../patience";
import { chromium } from "./support/browser";
import { type Stage, sharedStage, type Visitor } from "./support/dashboard";
import { expectFitsPhone, expectSound, takePictures } from "./support/dashboard-checks";
import { createProductApp, makeZip, sha256, uploadProductBundle } from "./support/product";

if (chromium === undefined) console.log("skipped: reasons of the release dialog, because no Chromium is installed");

/** By the text of the group, the label of its link. */
const GROUPS = {
	"a bundle is set for the device itself": "Open the device",
	"the channel is off for emulators": "Change settings of production",
	"the channel is off for development builds": "Change settings of production",
	"the bundle needs a newer store build": "Open bundle 1.1.0",
};
const DEVICES = [{}, {}, { is_emulator: true }, { is_prod: false }, { version_build: "0.9.0" }];

describe.skipIf(chromium === undefined)("the reasons of the release dialog", () => {
	let stage: Stage;
	let admin: Visitor;
	let app: string;
	beforeAll(async () => {
		stage = await sharedStage();
		admin = await stage.admin();
		app = await prepared();
	});
	afterAll(() => admin?.leave());

	const api = async (method: string, path: string, body?: unknown) => {
		const answer = await stage.product.api(method, path, body);
		expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		return answer.body;
	};
	const idOf = (index: number) => `d5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d1${index}`;
	const prepared = async () => {
		const made = stage.product.newAppId();
		await createProductApp(stage.product, made);
		await uploadProductBundle(stage.product, made, "1.0.0");
		const uploadFor = (version: string) => {
			const zip = makeZip(version);
			const fields = { checksum: sha256(zip), size: zip.length, min_update_version: "1.0.0" };
			return uploadProductBundle(stage.product, made, version, { zip, fields });
		};
		const id = await uploadFor("1.1.1");
		await api("POST", "/channel", { app_id: made, channel: "production", version: "1.0.0", public: true });
		for (const [index, fields] of DEVICES.entries()) {
			const device = {
				app_id: made,
				device_id: idOf(index),
				platform: "android",
				version_name: "1.0.0",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
				is_prod: true,
				is_emulator: false,
				...fields,
			};
			await api("POST", "/updates", device);
			await api("POST", "/stats", { ...device, action: "set" });
		}
		const listed = async () => (await api("GET", `/device?totals=true&app_id=${made}`)).total;
		await vi.waitFor(async () => expect(await listed()).toBe(DEVICES.length), { timeout: PATIENCE_MS });
		await api("POST", "/device", { app_id: made, device_id: idOf(1), version_id: id });
		await uploadFor("1.1.0");
		const rules = { allow_emulator: false, allow_dev: false, disableAutoUpdate: "metadata" };
		await api("POST", "/channel", { app_id: made, channel: "production", ...rules });
		return made;
	};
	const dialog = () => admin.page.getByRole("dialog");
	const read = async () => {
		const { page } = admin;
		await admin.open(`/apps/${app}/channels/production`, "production");
		await page.getByRole("main").getByRole("button", { name: "Release", exact: true }).click();
		await dialog().getByRole("combobox", { name: "Bundle" }).fill("1.1.0");
		await page.getByRole("option", { name: "1.1.0" }).first().click();
		const counts = dialog().locator(".release-counts");
		await counts.getByText("Devices on production").waitFor();
		return counts;
	};

	test("add up with the devices that get the bundle", async () => {
		const counts = await read();
		await expect.poll(() => counts.locator(".sum .num").innerText()).toBe(String(DEVICES.length));
		const numbersOf = async (list: number) => {
			const texts = await counts.getByRole("list").nth(list).locator("li:not(.sum) .num").allInnerTexts();
			return texts.reduce((total, text) => total + Number(text), 0);
		};
		// The first list has those that get it, by the version that they run.
		expect([await numbersOf(0), await numbersOf(-1)]).toEqual([1, 4]);
		await expectSound(admin);
		await expectFitsPhone(admin);
		await takePictures(admin, "reasons");
		await admin.page.keyboard.press("Escape");
	});

	test.each(Object.entries(GROUPS))("%s: %s", async (text, label) => {
		const counts = await read();
		await counts
			.getByRole("listitem")
			.filter({ hasText: text })
			.getByRole("link", { name: label, exact: true })
			.click();
		const place = label.startsWith("Change")
			? dialog().getByRole("heading", { name: "Edit production" })
			: admin.page.getByRole("heading", { level: 1, name: label.startsWith("Open bundle") ? "1.1.0" : "Device" });
		await place.waitFor();
		if (label.startsWith("Change")) await admin.page.keyboard.press("Escape");
		await dialog().waitFor({ state: "detached" });
	});
});
