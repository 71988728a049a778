/**
 * The published @capgo/electron-updater against the device endpoints beside the update check:
 * channels in its own format, and statistics one at a time.
 */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { PATIENCE_MS } from "../patience";
import { startElectronApp } from "../proof/clients/electron-app";
import { startRecorder } from "../proof/clients/recorder";
import { createProductApp, type Product, sharedProduct, uploadProductBundle } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

/**
 * An app whose public channel has 1.1.0; pr-7 has 1.2.0-pr.7 and may be chosen, internal may not.
 */
async function newApp() {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	for (const version of ["1.1.0", "1.2.0-pr.7"]) await uploadProductBundle(product, appId, version);
	for (const channel of [
		{ channel: "production", public: true, version: "1.1.0" },
		{ channel: "pr-7", allow_device_self_set: true, version: "1.2.0-pr.7" },
		{ channel: "internal" },
		{ channel: "phones", allow_device_self_set: true, electron: false },
	]) {
		await product.api("POST", "/channel", { app_id: appId, ...channel });
	}
	const userDirectory = await mkdtemp(join(product.directory, "user-"));
	const options = { appId, version: "1.0.0", userDirectory };
	return { appId, open: (url = product.url) => startElectronApp({ ...options, url, statsUrl: `${url}/stats` }) };
}

describe("@capgo/electron-updater 0.0.6 beside the update check", () => {
	test("an app that chooses a channel gets its bundle, keeps it after a restart, and can leave it", async () => {
		const { open } = await newApp();
		const first = await open();
		expect(await first.updater.setChannel({ channel: "pr-7" })).toMatchObject({ status: "ok", error: undefined });
		const second = await open();
		expect(await second.updater.getChannel()).toMatchObject({ channel: "pr-7" });
		expect((await second.updater.getLatest()).version).toBe("1.2.0-pr.7");
		await second.updater.unsetChannel({});
		expect(await second.updater.getChannel()).toMatchObject({ channel: "production", status: "default" });
		expect((await second.updater.getLatest()).version).toBe("1.1.0");
	});

	test.each([
		["internal", "channel_not_found"],
		["nowhere", "channel_not_found"],
	])("a channel that is refused is not stored: %s", async (channel, error) => {
		const { open } = await newApp();
		const { updater } = await open();
		expect(await updater.setChannel({ channel })).toMatchObject({ status: "error", error });
		expect(await updater.getChannel()).toMatchObject({ channel: "production" });
		expect((await updater.getLatest()).version).toBe("1.1.0");
	});

	test("the list has the channels that this app may choose", async () => {
		const { open } = await newApp();
		const { channels } = await (await open()).updater.listChannels();
		expect(channels.map(({ name }) => name).sort()).toEqual(["pr-7", "production"]);
		expect(channels.find(({ name }) => name === "pr-7")).toMatchObject({ public: false, allow_self_set: true });
	});

	test("its reports, one event at a time, are accepted", async () => {
		const { open } = await newApp();
		const network = await startRecorder(product.url);
		try {
			const { updater } = await open(network.url);
			const latest = await updater.getLatest();
			const given = { url: latest.url ?? "", version: latest.version, checksum: latest.checksum ?? "" };
			await expect(updater.download({ ...given, checksum: "0".repeat(64) })).rejects.toThrow(/checksum/i);
			await updater.set({ id: (await updater.download(given)).id });
			await updater.notifyAppReady();
			const reports = () => network.requests.filter(({ path }) => path === "/stats");
			await vi.waitFor(
				() =>
					expect(reports().map(({ body }) => JSON.parse(body).action)).toEqual(
						expect.arrayContaining(["download_fail", "download_complete", "set"]),
					),
				PATIENCE_MS,
			);
			for (const { status, answer } of reports()) {
				expect(status).toBe(200);
				expect(JSON.parse(answer)).toMatchObject({ status: "ok" });
			}
		} finally {
			await network.stop();
		}
	});
});
