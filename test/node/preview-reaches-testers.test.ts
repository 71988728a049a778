/**
 * A preview reaches testers on every store build: uploaded by the published CLI with a preview key, received by the published Electron
 * updater and the published Android client, whether the app was built for the channel or its user chose it.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCliProject } from "../clients/capgo-cli";
import { createProductApp, createProductKey, type Product, startProduct, uploadProductBundle } from "./support/product";
import { RECEIVERS, STORE_BUILDS } from "./support/receivers";

const APP = "com.example.testers";
const PREVIEW = "1.1.0-pr.128";
let product: Product;
beforeAll(async () => {
	product = await startProduct();
	const uuid = await createProductApp(product, APP);
	await product.api("POST", "/channel", { app_id: APP, channel: "production", public: true });
	const key = await createProductKey(product, "app_preview", uuid);
	const project = await createCliProject(product.directory, product.url, APP);
	const upload = ["bundle", "upload", APP, "--bundle", PREVIEW, "--channel", "pr-128", "--self-assign"];
	const { code, output } = await project.run(...upload, "--apikey", key);
	expect(code, output).toBe(0);
});
afterAll(() => product?.stop());

describe.each(RECEIVERS)("a preview that the stock CLI uploaded, on %s", (_, receive) => {
	test.each(STORE_BUILDS)("reaches an app of store build %s that was built for its channel", async (build) => {
		expect(await receive(product, { appId: APP, build, defaultChannel: "pr-128" })).toBe(PREVIEW);
	});

	test.each(STORE_BUILDS)("reaches an app of store build %s whose user chose its channel", async (build) => {
		expect(await receive(product, { appId: APP, build, chosenChannel: "pr-128" })).toBe(PREVIEW);
	});
});

describe.each(RECEIVERS)("an ordinary channel, on %s", (_, receive) => {
	test("keeps what is older than the store build, or of a newer major version, away", async () => {
		const body = { app_id: APP, channel: "beta", allow_device_self_set: true };
		await product.api("POST", "/channel", body);
		const { body: known } = await product.api("GET", `/bundle?app_id=${APP}&version=2.0.0`);
		if (known.length === 0) await uploadProductBundle(product, APP, "2.0.0");
		await product.api("POST", "/channel", { ...body, version: "2.0.0" });
		const received = (build: string) => receive(product, { appId: APP, build, defaultChannel: "beta" });
		expect(await received("2.3.0")).toBe("builtin");
		expect(await received("1.4.2")).toBe("builtin");
		expect(await received("2.0.0-rc.1")).toBe("2.0.0");
	});
});
