/**
 * The published @capgo/electron-updater against the running product: an Electron app from its first
 * check to its return to the store build.
 */
import { once } from "node:events";
import { mkdtemp, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { checkOnItsOwn, startElectronApp } from "../proof/clients/electron-app";
import { createProductApp, makeZip, type Product, sha256, sharedProduct, uploadProductBundle } from "./support/product";

let product: Product;
beforeAll(async () => {
	product = await sharedProduct();
});

async function newApp(channel: Record<string, unknown> = {}) {
	const appId = product.newAppId();
	await createProductApp(product, appId);
	await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true, ...channel });
	const userDirectory = await mkdtemp(join(product.directory, "user-"));
	return { appId, open: (defaultChannel?: string) => open(appId, userDirectory, defaultChannel) };
}

const open = (appId: string, userDirectory: string, defaultChannel?: string) =>
	startElectronApp({
		url: product.url,
		appId,
		version: "1.0.0",
		userDirectory,
		...(defaultChannel === undefined ? {} : { defaultChannel }),
	});

const setVersion = (appId: string, version: string | null, channel = "production") =>
	product.api("POST", "/channel", { app_id: appId, channel, version });

describe("@capgo/electron-updater 0.0.6", () => {
	test("checks, downloads, restarts into the bundle, reports that it is ready and is up to date", async () => {
		const { appId, open: start } = await newApp();
		await uploadProductBundle(product, appId, "1.0.1");
		await setVersion(appId, "1.0.1");

		const first = await start();
		const latest = await first.updater.getLatest();
		expect(latest).toMatchObject({ version: "1.0.1", checksum: sha256(makeZip("1.0.1")) });
		const bundle = await first.updater.download({
			url: latest.url ?? "",
			version: latest.version,
			checksum: latest.checksum ?? "",
		});
		await first.updater.next({ id: bundle.id });

		const second = await start();
		expect((await second.updater.current()).bundle.version).toBe("1.0.1");
		await second.updater.notifyAppReady();
		expect(await second.updater.getLatest()).toMatchObject({ error: "no_new_version_available" });
	});

	test("set switches immediately, reset returns to the store build", async () => {
		const { appId, open: start } = await newApp();
		await uploadProductBundle(product, appId, "1.0.2");
		await setVersion(appId, "1.0.2");
		const app = await start();
		const latest = await app.updater.getLatest();
		const bundle = await app.updater.download({
			url: latest.url ?? "",
			version: latest.version,
			checksum: latest.checksum ?? "",
		});
		await app.updater.set({ id: bundle.id });
		expect((await app.updater.current()).bundle.version).toBe("1.0.2");
		expect(await readFile(app.loaded.at(-1) ?? "", "utf8")).toContain("1.0.2");
		await app.updater.reset();
		expect((await app.updater.current()).bundle.id).toBe("builtin");
	});

	test("the automatic check installs the update at the next start, and then finds no update", async () => {
		const { appId, open: start } = await newApp();
		await uploadProductBundle(product, appId, "1.0.5");
		await setVersion(appId, "1.0.5");
		await checkOnItsOwn(await start());
		const second = await start();
		expect((await second.updater.current()).bundle.version).toBe("1.0.5");
		await second.updater.notifyAppReady();
		await checkOnItsOwn(second);
		const versions = (await second.updater.list()).bundles.map((bundle) => bundle.version);
		expect(versions.filter((version) => version === "1.0.5")).toHaveLength(1);
	});

	test("a channel rolled back to the store build answers builtin until the app runs it", async () => {
		const { appId, open: start } = await newApp();
		await uploadProductBundle(product, appId, "1.0.6");
		await setVersion(appId, "1.0.6");
		await checkOnItsOwn(await start());
		const app = await start();
		expect((await app.updater.current()).bundle.version).toBe("1.0.6");
		await setVersion(appId, null);
		expect(await app.updater.getLatest()).toEqual({ version: "builtin" });
		// This updater leaves it to the app to act on the answer.
		await app.updater.reset();
		expect((await app.updater.current()).bundle.id).toBe("builtin");
		expect(await app.updater.getLatest()).toMatchObject({ error: "already_on_builtin", kind: "up_to_date" });
	});

	test("a download whose bytes do not match the checksum is refused", async () => {
		const { appId, open: start } = await newApp();
		await uploadProductBundle(product, appId, "1.0.3");
		await setVersion(appId, "1.0.3");
		const app = await start();
		const latest = await app.updater.getLatest();
		const stored = Buffer.from(makeZip("1.0.3"));
		const altered = Buffer.from(makeZip("1.0.3 with something else"));
		const mirror = createServer((request, response) => {
			response.end(request.url === "/stored.zip" ? stored : altered);
		}).listen(0, "127.0.0.1");
		await once(mirror, "listening");
		const fetched = (name: string) =>
			app.updater.download({
				url: `http://127.0.0.1:${(mirror.address() as AddressInfo).port}/${name}`,
				version: latest.version,
				checksum: latest.checksum ?? "",
			});
		try {
			await expect(fetched("altered.zip")).rejects.toThrow(/checksum/i);
			expect((await fetched("stored.zip")).version).toBe("1.0.3");
		} finally {
			mirror.close();
		}
	});

	test("a tester's app on a preview channel receives the preview, and after the clean-up the public bundle", async () => {
		const { appId, open: start } = await newApp();
		await uploadProductBundle(product, appId, "1.1.0");
		await uploadProductBundle(product, appId, "1.2.0-pr.7");
		await setVersion(appId, "1.1.0");
		await product.api("POST", "/channel", {
			app_id: appId,
			channel: "pr-7",
			version: "1.2.0-pr.7",
			allow_device_self_set: true,
		});
		const tester = await start("pr-7");
		expect((await tester.updater.getLatest()).version).toBe("1.2.0-pr.7");
		expect((await product.api("DELETE", `/channel?app_id=${appId}&channel=pr-7&delete_bundle=true`)).status).toBe(200);
		expect((await tester.updater.getLatest()).version).toBe("1.1.0");
	});

	test("an encrypted bundle comes with the SHA-256 of the stored bytes, which is what this client checks", async () => {
		const { appId, open: start } = await newApp();
		const stored = makeZip("1.0.4");
		const opaque = "ab".repeat(256);
		await uploadProductBundle(product, appId, "1.0.4", {
			zip: stored,
			fields: { checksum: opaque, session_key: "aXY=:a2V5", key_id: "MIIBCgKCAQEAx1234567" },
		});
		await setVersion(appId, "1.0.4");
		const app = await start();
		expect(await app.updater.getLatest()).toMatchObject({ checksum: sha256(stored), sessionKey: "aXY=:a2V5" });
	});
});
