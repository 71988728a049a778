/** GET /bundle/difference: the files between two bundles, for readers of the app only. */
import { beforeEach, describe, expect, test } from "vitest";
import { register } from "../support/bytes";
import { addTestFiles } from "../support/delta-files";
import { createTestApp, createWorld, type TestApp, uploadTestBundle, type World } from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const difference = (version: string, base: string, key = world.adminKey, appId = app.appId) =>
	world.request("GET", "/bundle/difference", { key, query: { app_id: appId, version, base } });

describe("GET /bundle/difference", () => {
	test("names the files that changed from the base to the version", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.1.0");
		const { status, body } = await difference("1.1.0", "1.0.0");
		expect(status).toBe(200);
		expect(body).toEqual({
			version: "1.1.0",
			base: "1.0.0",
			difference: {
				by: "zip",
				added: 0,
				changed: 1,
				removed: 0,
				zip: null,
				files: [{ file: "index.html", change: "changed" }],
			},
			not_compared: null,
		});
		expect((await difference("1.0.0", "1.0.0")).body.difference).toMatchObject({ added: 0, changed: 0, removed: 0 });
	});

	test("says why bundles with different forms are not compared", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await addTestFiles(app, await uploadTestBundle(world, app, "1.1.0"), ["index.html"]);
		expect((await difference("1.1.0", "1.0.0")).body).toMatchObject({ difference: null, not_compared: "forms_differ" });
	});

	test("answers for a pending bundle, another app's bundle and a stranger as for one that does not exist", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await register(world, app, "2.0.0", world.adminKey);
		const other = await createTestApp(world);
		await uploadTestBundle(world, other, "3.0.0");
		for (const version of ["2.0.0", "3.0.0", "9.9.9"]) {
			const { status, body } = await difference(version, "1.0.0");
			expect([status, body.error], version).toEqual([404, "bundle_not_found"]);
		}
		const stranger = await createWorld();
		expect((await difference("1.0.0", "1.0.0", stranger.adminKey)).status).toBe(404);
	});
});
