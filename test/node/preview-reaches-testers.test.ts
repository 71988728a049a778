/**
 * A preview reaches testers on every store build: uploaded by the published CLI with a preview key,
 * received by the published Electron updater and the published Android client, whether the app was
 * built for the channel or its user chose it. Android, which starts a JVM for each app, is met by
 * every store build in `npm run test:proof`.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createCliProject } from "../proof/clients/capgo-cli";
import { IS_PROOF } from "../proof-sample";
import {
	createProductApp,
	createProductKey,
	type Product,
	sharedProduct,
	uploadProductBundle,
} from "./support/product";
import { RECEIVERS, STORE_BUILDS } from "./support/receivers";

const PREVIEW = "1.1.0-pr.128";
/** Updaters that run in this process. */
const INEXPENSIVE = RECEIVERS.filter(([name]) => IS_PROOF || name !== "Android");
let product: Product;
let appId: string;
let pullRequest = 200;
beforeAll(async () => {
	product = await sharedProduct();
	appId = product.newAppId();
	const uuid = await createProductApp(product, appId);
	await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true });
	const key = await createProductKey(product, "app_preview", uuid);
	const project = await createCliProject(product.directory, product.url, appId);
	const upload = ["bundle", "upload", appId, "--bundle", PREVIEW, "--channel", "pr-128", "--self-assign"];
	const { code, output } = await project.run(...upload, "--apikey", key);
	expect(code, output).toBe(0);
});

describe.each(RECEIVERS)("a preview that the stock CLI uploaded, on %s", (name, receive) => {
	const isSampled = name === "Android" && !IS_PROOF;

	test.each(isSampled ? ["0.9.0", "10.0.1"] : STORE_BUILDS)(
		"reaches an app of store build %s that was built for its channel",
		async (build) => {
			expect(await receive(product, { appId, build, defaultChannel: "pr-128" })).toBe(PREVIEW);
		},
	);

	test.each(isSampled ? ["2.3.0"] : STORE_BUILDS)(
		"reaches an app of store build %s whose user chose its channel",
		async (build) => {
			expect(await receive(product, { appId, build, chosenChannel: "pr-128" })).toBe(PREVIEW);
		},
	);
});

describe.each(RECEIVERS)("the preview of a pull request, on %s", (_, receive) => {
	test("reaches a tester, and gives the device back to the public channel when it is closed", async () => {
		pullRequest += 1;
		const channel = `pr-${pullRequest}`;
		const version = `0.0.0-${channel}.1`;
		const request = { app_id: appId, repository: "acme/shop", number: pullRequest };
		expect((await product.api("POST", "/preview", request)).status).toBe(201);
		await uploadProductBundle(product, appId, version);
		await product.api("POST", "/channel", { app_id: appId, channel, version });
		const received = () => receive(product, { appId, build: "2.3.0", chosenChannel: channel });
		expect(await received()).toBe(version);
		const closed = `/preview?app_id=${appId}&repository=acme/shop&number=${pullRequest}`;
		expect((await product.api("DELETE", closed)).body.removed).toMatchObject({ bundles: 1 });
		expect(await receive(product, { appId, build: "2.3.0", defaultChannel: channel })).toBe("builtin");
	});
});

describe.each(INEXPENSIVE)("an ordinary channel, on %s", (_, receive) => {
	test("withholds a bundle that is older than the store build, or of a newer major version", async () => {
		const body = { app_id: appId, channel: "beta", allow_device_self_set: true };
		await product.api("POST", "/channel", body);
		const { body: known } = await product.api("GET", `/bundle?app_id=${appId}&version=2.0.0`);
		if (known.length === 0) await uploadProductBundle(product, appId, "2.0.0");
		await product.api("POST", "/channel", { ...body, version: "2.0.0" });
		const received = (build: string) => receive(product, { appId, build, defaultChannel: "beta" });
		expect(await received("2.3.0")).toBe("builtin");
		expect(await received("1.4.2")).toBe("builtin");
		expect(await received("2.0.0-rc.1")).toBe("2.0.0");
	});
});
