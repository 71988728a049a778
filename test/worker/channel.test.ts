import { beforeAll, describe, expect, test } from "vitest";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

describe("POST /channel", () => {
	test("creates with 201 and the same shape whether or not a version is given", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const bare = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "bare" },
		});
		expect(bare).toMatchObject({ status: 201, body: { status: "ok", public: false } });
		const full = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "full", version: "1.0.0", public: true },
		});
		expect(full).toMatchObject({ status: 201, body: { status: "ok", public: true } });
		const shown = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "full" },
		});
		expect(shown.body).toMatchObject({ name: "full", public: true, version: { name: "1.0.0" } });
	});
});
void createTestKey;
void setTestChannel;
