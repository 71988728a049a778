/** The store builds that GET /channel judges channels by are not read again with each request. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { consume } from "../../../src/consumer";
import { MINUTE_MS } from "../../../src/domain/time";
import { countingRows } from "../support/counting";
import { createTestApp, createWorld, requestThrough, testEnv, type World } from "../support/world";

async function appWith(world: World, devices: number): Promise<string> {
	const app = await createTestApp(world);
	for (let device = 0; device < devices; device++) {
		await world.request("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				platform: "ios",
				version_name: "builtin",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
			},
		});
	}
	const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
	await consume(world.deps, { messages: messages.map((body) => ({ body })) });
	return app.appId;
}

test("GET /channel reads those of an app with 100 devices once a minute, and those of fewer once in two seconds", async () => {
	const world = await createWorld();
	const counted = countingRows(testEnv.TELEMETRY);
	const [few, many] = [await appWith(world, 99), await appWith(world, 100)];
	const request = requestThrough(createApp({ ...world.deps, telemetry: { TELEMETRY: counted.d1 } }));
	const readsOfTwo = async (app_id: string) => {
		const before = counted.trips;
		for (let turn = 0; turn < 2; turn++) {
			expect((await request("GET", "/channel", { key: world.adminKey, query: { app_id } })).status).toBe(200);
		}
		return counted.trips - before;
	};
	expect([await readsOfTwo(few), await readsOfTwo(many)]).toEqual([1, 1]);
	world.clock.nowMs += 2_000;
	expect([await readsOfTwo(few), await readsOfTwo(many)]).toEqual([1, 0]);
	world.clock.nowMs += MINUTE_MS;
	expect(await readsOfTwo(many)).toBe(1);
});
