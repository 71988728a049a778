/**
 * The size of a preview whose bundles have no zip, as `--delta-only` uploads them: in the list, in
 * the answer of its end and on its page.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addTestFiles, removeTestZip, shareTestFiles } from "../support/delta-files";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let ci: string;
let number = 100;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = (await createTestKey(world, "app_preview", app)).text;
	const live = await uploadTestBundle(world, app, "1.0.0");
	await addTestFiles(app, live, ["index.html"]);
	await setTestChannel(world, app, "production", { public: true, version: "1.0.0" });
	await removeTestZip(live);
});
beforeEach(() => {
	number += 1;
});

const open = async () =>
	(await world.request("POST", "/preview", { key: ci, body: { app_id: app.appId, repository: "acme/shop", number } }))
		.body;
const query = () => ({ app_id: app.appId, repository: "acme/shop", number: String(number) });
const list = async () => (await world.request("GET", "/preview", { key: ci, query: query() })).body[0];
const show = async ({ page_url }: { page_url: string }) =>
	(await world.request("POST", "/preview/show", { body: { token: page_url.split("#")[1] ?? "" }, mostTrips: 2 })).body;
const upload = async (run: number) => {
	const version = `0.0.0-pr-${number}.${run}`;
	const id = await uploadTestBundle(world, app, version, ci);
	await setTestChannel(world, app, `pr-${number}`, { version }, ci);
	return id;
};
/** A bundle of these files, of one byte each. */
const uploadFiles = async (run: number, files: readonly string[]) => {
	const id = await upload(run);
	await addTestFiles(app, id, files);
	await removeTestZip(id);
	return id;
};

describe("the size of a preview", () => {
	test("counts the files of bundles without a zip, in the list, on its page and at its end", async () => {
		const opened = await open();
		await uploadFiles(1, ["index.html", "main.js"]);
		expect(await list()).toMatchObject({ bundles: 1, size: 2 });
		expect(await show(opened)).toMatchObject({ size: 2, changes: { live_version: "1.0.0", live_size: 1 } });
		const closed = await world.request("DELETE", "/preview", { key: ci, query: query() });
		expect(closed.body.removed).toEqual({ bundles: 1, bundle_bytes: 2 });
		expect(await list()).toMatchObject({ state: "closed", bundles: 0, size: 0 });
	});

	test("is not compared with the live bundle if only one of the two has a zip", async () => {
		const opened = await open();
		await addTestFiles(app, await upload(1), ["main.js"]);
		const page = await show(opened);
		expect(page).toMatchObject({ size: expect.any(Number), changes: { live_version: "1.0.0", live_size: null } });
	});

	test("counts a file once that several bundles have, beside the zips of others", async () => {
		await open();
		await addTestFiles(app, await upload(1), ["index.html"]);
		const zip = (await list()).size;
		expect(zip).toBeGreaterThan(1);
		const second = await uploadFiles(2, ["index.html", "main.js"]);
		await shareTestFiles(second, await uploadFiles(3, ["new.js"]));
		expect(await list()).toMatchObject({ bundles: 3, size: zip + 3 });
	});

	test("is unknown on its page until the files of the bundle are", async () => {
		const opened = await open();
		await removeTestZip(await upload(1));
		expect(await list()).toMatchObject({ bundles: 1, size: 0 });
		expect(await show(opened)).toMatchObject({ size: null });
	});
});
