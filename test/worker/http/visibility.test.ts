/**
 * A change of any kind is visible to devices immediately in the isolate that made it, and within
 * four seconds in every other isolate. Two applications over one database stand for two isolates.
 * The tests control the clock, so the bounds are those of the protocol and not of a machine.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	requestThrough,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

const BOUND_MS = 4_000;
const DEVICE = "00000000-0000-4000-8000-000000000001";

interface Scene {
	readonly world: World;
	readonly app: TestApp;
	/**
	 * Another isolate: it shares the database and the clock, and knows nothing of this one's memory.
	 */
	readonly elsewhere: World["request"];
	readonly waits: number[];
}

async function scene(): Promise<Scene> {
	const world = await createWorld();
	const waits: number[] = [];
	const delayed = createApp({
		...world.deps,
		delay: async (ms) => {
			waits.push(ms);
			world.clock.nowMs += ms;
		},
	});
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await uploadTestBundle(world, app, "1.0.2");
	return {
		world: { ...world, request: requestThrough(delayed) },
		app,
		elsewhere: requestThrough(createApp(world.deps)),
		waits,
	};
}

const checkResult = async (request: World["request"], app: TestApp, defaultChannel = ""): Promise<string> => {
	const { body } = await request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: DEVICE,
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			defaultChannel,
		},
	});
	return body.error ?? body.version;
};

interface Kind {
	/** The state from which the change is made, whatever was there. */
	readonly prepare: (scene: Scene) => Promise<void>;
	readonly before: string;
	readonly method: string;
	readonly path: string;
	readonly body: (scene: Scene) => Promise<Record<string, unknown>>;
	readonly after: string;
	readonly defaultChannel?: string;
}

const production = (fields: Record<string, unknown>) => async (scene: Scene) => {
	await setTestChannel(scene.world, scene.app, "production", { public: true, ...fields });
};
const rolling = production({ version: "1.0.1", rolloutVersion: "1.0.2", rolloutPercentage: 100, rolloutEnabled: true });
const channelBody = (fields: Record<string, unknown>) => async (scene: Scene) => ({
	app_id: scene.app.appId,
	channel: "production",
	...fields,
});
const setBeta = async (scene: Scene) => {
	await production({ version: "1.0.1", rollback: true })(scene);
	await setTestChannel(scene.world, scene.app, "beta", { version: "1.0.2", allow_device_self_set: true });
};
const overridden = async (scene: Scene) => {
	await setBeta(scene);
	const body = { app_id: scene.app.appId, device_id: DEVICE, channel: "beta" };
	await scene.world.admin("POST /device", { body });
};
const device = async (scene: Scene) => ({ app_id: scene.app.appId, device_id: DEVICE });
const bundleOverridden = async (scene: Scene) => {
	await production({ version: "1.0.1", rollback: true })(scene);
	const { body } = await scene.world.admin("GET /bundle", { query: { app_id: scene.app.appId, version: "1.0.2" } });
	const set = { ...(await device(scene)), version_id: body[0].id };
	await scene.world.admin("POST /device", { body: set });
};

const KINDS: Readonly<Record<string, Kind>> = {
	publish: {
		prepare: production({ version: "1.0.1" }),
		before: "1.0.1",
		method: "POST",
		path: "/channel",
		body: channelBody({ version: "1.0.2" }),
		after: "1.0.2",
	},
	"roll out": {
		prepare: production({ version: "1.0.1" }),
		before: "1.0.1",
		method: "POST",
		path: "/channel",
		body: channelBody({ rolloutVersion: "1.0.2", rolloutPercentage: 100, rolloutEnabled: true }),
		after: "1.0.2",
	},
	pause: {
		prepare: rolling,
		before: "1.0.2",
		method: "POST",
		path: "/channel",
		body: channelBody({ rolloutPaused: true }),
		after: "1.0.1",
	},
	"roll back": {
		prepare: rolling,
		before: "1.0.2",
		method: "POST",
		path: "/channel",
		body: channelBody({ rollback: true }),
		after: "1.0.1",
	},
	"override with a channel": {
		prepare: setBeta,
		before: "1.0.1",
		method: "POST",
		path: "/device",
		body: async (scene) => ({ ...(await device(scene)), channel: "beta" }),
		after: "1.0.2",
	},
	"take an override away": {
		prepare: overridden,
		before: "1.0.2",
		method: "DELETE",
		path: "/device",
		body: device,
		after: "1.0.1",
	},
	"take a bundle's override away": {
		prepare: bundleOverridden,
		before: "1.0.2",
		method: "DELETE",
		path: "/device",
		body: device,
		after: "1.0.1",
	},
	"delete the device's channel": {
		prepare: setBeta,
		before: "1.0.2",
		method: "DELETE",
		path: "/channel",
		body: async (scene) => ({ app_id: scene.app.appId, channel: "beta" }),
		after: "1.0.1",
		defaultChannel: "beta",
	},
	"delete the only channel": {
		prepare: production({ version: "1.0.1" }),
		before: "1.0.1",
		method: "DELETE",
		path: "/channel",
		body: channelBody({}),
		after: "no_channel",
	},
	"change a setting": {
		prepare: production({ version: "1.0.1" }),
		before: "1.0.1",
		method: "POST",
		path: "/channel",
		body: channelBody({ allow_prod: false }),
		after: "disable_prod_build",
	},
};

/** Asks the other isolate, so that it knows the state before, and then makes the change here. */
async function change(scene: Scene, kind: Kind, headers: Record<string, string> = {}): Promise<void> {
	await kind.prepare(scene);
	scene.world.clock.nowMs += 2 * BOUND_MS;
	expect(await checkResult(scene.elsewhere, scene.app, kind.defaultChannel)).toBe(kind.before);
	const body = await kind.body(scene);
	const answer = await scene.world.request(kind.method, kind.path, { key: scene.world.adminKey, body, headers });
	expect(answer.status, JSON.stringify(answer.body)).toBe(200);
}

describe.each(Object.entries(KINDS))("%s", (_, kind) => {
	test("is visible in its isolate immediately", async () => {
		const there = await scene();
		await change(there, kind);
		expect(await checkResult(there.world.request, there.app, kind.defaultChannel)).toBe(kind.after);
	});

	test("is visible in every idle isolate after four seconds", async () => {
		const there = await scene();
		await change(there, kind);
		there.world.clock.nowMs += BOUND_MS - 1;
		expect(await checkResult(there.elsewhere, there.app, kind.defaultChannel), "it does not ask sooner").toBe(
			kind.before,
		);
		const idle = await scene();
		await change(idle, kind);
		idle.world.clock.nowMs += BOUND_MS;
		expect(await checkResult(idle.elsewhere, idle.app, kind.defaultChannel)).toBe(kind.after);
	});

	test("is visible in every busy isolate after two seconds and one more check", async () => {
		const there = await scene();
		await change(there, kind);
		there.world.clock.nowMs += 2_000;
		await checkResult(there.elsewhere, there.app, kind.defaultChannel);
		expect(await checkResult(there.elsewhere, there.app, kind.defaultChannel)).toBe(kind.after);
	});

	test("is visible everywhere at the next check when the request waits", async () => {
		const there = await scene();
		await change(there, kind, { "x-capstan-wait": "visible" });
		expect(there.waits.filter((ms) => ms === BOUND_MS)).toHaveLength(1);
		expect(await checkResult(there.elsewhere, there.app, kind.defaultChannel)).toBe(kind.after);
	});
});

describe("a request that waits", () => {
	test("is refused with another header value before anything is written", async () => {
		const { world, app, waits } = await scene();
		const answer = await world.admin("POST /channel", {
			body: { app_id: app.appId, channel: "production" },
			headers: { "x-capstan-wait": "5" },
		});
		expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		expect(answer.body.message).toContain("x-capstan-wait");
		expect(waits).toEqual([]);
		const channels = await world.admin("GET /channel", { query: { app_id: app.appId } });
		expect(channels.body).toEqual([]);
	});

	test("waits again when it is repeated", async () => {
		const { world, app, waits } = await scene();
		const again = () =>
			world.admin("POST /channel", {
				body: { app_id: app.appId, channel: "production", version: "1.0.1" },
				headers: { "x-capstan-wait": "visible" },
			});
		expect([(await again()).status, (await again()).status]).toEqual([201, 200]);
		expect(waits.filter((ms) => ms === BOUND_MS)).toHaveLength(2);
	});
});

describe("at any time", () => {
	let there: Scene;
	beforeAll(async () => {
		there = await scene();
		await production({ version: "1.0.1" })(there);
	});

	test("no update check is answered from a state older than four seconds", async () => {
		const step = fc.record({
			afterMs: fc.constantFrom(0, 1, 700, 1_999, 2_000, 3_999, 4_000),
			act: fc.constantFrom("ask", "publish"),
		});
		await fc.assert(
			fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 24 }), async (steps) => {
				const { world, app, elsewhere } = there;
				// The version since each point in time; an answer must have been current at some moment of the
				// last four seconds.
				const history = [{ fromMs: NOW_MS, version: "1.0.1" }];
				world.clock.nowMs += 10 * BOUND_MS;
				await setTestChannel(world, app, "production", { version: "1.0.1" });
				history.push({ fromMs: world.clock.nowMs, version: "1.0.1" });
				world.clock.nowMs += 2 * BOUND_MS;
				for (const { afterMs, act } of steps) {
					world.clock.nowMs += afterMs;
					if (act === "publish") {
						const version = history.at(-1)?.version === "1.0.1" ? "1.0.2" : "1.0.1";
						await setTestChannel(world, app, "production", { version });
						history.push({ fromMs: world.clock.nowMs, version });
						expect(await checkResult(world.request, app)).toBe(version);
						continue;
					}
					const sinceMs = world.clock.nowMs - BOUND_MS;
					const allowed = history
						.filter((_, index) => (history[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY) > sinceMs)
						.map(({ version }) => version);
					expect(allowed).toContain(await checkResult(elsewhere, app));
				}
			}),
			{ numRuns: 20, seed: 4 },
		);
	});
});
