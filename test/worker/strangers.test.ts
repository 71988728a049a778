/**
 * The cost of requests without a key: each attack is made through the HTTP application, D1 and the Queue's messages are counted, and
 * beside each attack stands the legitimate use that must not notice it.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../src/app";
import { mintKey } from "../../src/authz/keys";
import type { Deps, Limiter } from "../../src/deps";
import { consume } from "../../src/events/consumer";
import type { QueueMessage } from "../../src/events/messages";
import wranglerToml from "../../wrangler.toml?raw";
import { beforeEachTrip } from "./support/interleave";
import { OWN_PAGE } from "./support/sessions";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	requestThrough,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
	type WorldOptions,
} from "./support/world";

const OFFICE = "198.51.100.7";
const STRANGER = "203.0.113.9";

let trips = 0;
const countedD1 = () =>
	beforeEachTrip(testEnv.DB, () => {
		trips += 1;
	}).d1;

interface Scene {
	readonly world: World;
	readonly app: TestApp;
}

/** A world whose D1 batches are counted in `trips`, with an app that offers 1.0.1 to everybody. */
async function scene(options: WorldOptions = {}): Promise<Scene> {
	const world = await createWorld({ ...options, bindings: { d1: countedD1(), ...options.bindings } });
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
	world.deps.sent.length = 0;
	return { world, app };
}

let devices = 0;
const newDevice = () => `00000000-0000-4000-8000-${String(++devices).padStart(12, "0")}`;
const deviceList = (count: number) => Array.from({ length: count }, newDevice);
const about = (appId: string, device_id: string, fields: object = {}) => ({
	...{ app_id: appId, device_id, version_name: "builtin", version_build: "1.0.0", platform: "android" },
	...{ plugin_version: "8.51.23", ...fields },
});
const from = (address: string) => ({ "cf-connecting-ip": address });
const check = (world: Pick<World, "request">, appId: string, device: string, address = STRANGER, fields: object = {}) =>
	world.request("POST", "/updates", { body: about(appId, device, fields), headers: from(address) });
const stats = (world: Pick<World, "request">, body: unknown, address = STRANGER) =>
	world.request("POST", "/stats", { body, headers: from(address) });
const install = (appId: string, device: string, fields: object = {}) =>
	about(appId, device, { action: "set", version_name: "1.0.1", timestamp: NOW_MS, ...fields });
const deliver = (world: World) => {
	const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
	return consume(world.deps, { messages: messages.map((body) => ({ body })) });
};
const tripsOf = async (work: () => Promise<unknown>) => {
	const before = trips;
	await work();
	return trips - before;
};
const statistics = async ({ world, app }: Scene) =>
	(await world.request("GET", `/statistics/app/${app.appId}`, { key: world.adminKey })).body.at(-1);
const TOO_MANY = { status: 429, body: { error: "too_many_requests" } };

/** A platform limiter that lets each key through `limit` times. */
function counting(limit: number): Limiter & { readonly seen: Map<string, number> } {
	const seen = new Map<string, number>();
	return {
		seen,
		async limit({ key }) {
			seen.set(key, (seen.get(key) ?? 0) + 1);
			return { success: (seen.get(key) ?? 0) <= limit };
		},
	};
}

describe("made-up app ids", () => {
	test("in one /stats: more than four are refused before D1 is asked, and four cost one question", async () => {
		const { world, app } = await scene();
		const named = (count: number) =>
			Array.from({ length: count }, (_, index) => install(`com.example.absent.n${index}`, newDevice()));
		let answer = await stats(world, []);
		expect(await tripsOf(async () => (answer = await stats(world, named(500))))).toBe(0);
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "app_id" }] } } });
		expect(
			await tripsOf(async () => (answer = await stats(world, [...named(3), install(app.appId, newDevice())]))),
		).toBe(1);
		expect(answer.body.results.map(({ status, error }: { status: string; error?: string }) => error ?? status)).toEqual(
			[...Array.from({ length: 3 }, () => "app_not_found"), "ok"],
		);
	});

	test("of one address cost so many questions a minute and no more; devices of real apps go on there", async () => {
		const { world, app } = await scene();
		const steady = newDevice();
		await check(world, app.appId, steady, STRANGER);
		const statuses = new Map<number, number>();
		const cost = await tripsOf(async () => {
			for (let number = 0; number < 300; number += 1) {
				const { status } = await check(world, `com.example.madeup.n${number}`, newDevice());
				statuses.set(status, (statuses.get(status) ?? 0) + 1);
			}
		});
		expect([cost, statuses.get(200), statuses.get(429)]).toEqual([120, 120, 180]);
		const refused = await check(world, "com.example.madeup.more", newDevice());
		expect(refused).toMatchObject(TOO_MANY);
		expect(refused.headers.get("retry-after")).toBe("60");
		expect((await check(world, app.appId, steady, STRANGER)).body.version).toBe("1.0.1");
		expect((await check(world, "com.example.madeup.more", newDevice(), OFFICE)).body.error).toBe("app_not_found");
	});

	test("are not asked about again and again: devices of a deleted app are answered from memory", async () => {
		const { world } = await scene();
		const cost = await tripsOf(async () => {
			for (const device of deviceList(200)) {
				const { status, body } = await check(world, "com.example.retired", device, OFFICE);
				expect([status, body.error, body.kind]).toEqual([200, "app_not_found", "failed"]);
			}
		});
		expect(cost).toBe(1);
	});

	test("displace no app from memory", async () => {
		const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0" } });
		const device = newDevice();
		await check(world, app.appId, device);
		for (let number = 0; number < 40; number += 1) await check(world, `com.example.displacing.n${number}`, newDevice());
		expect(await tripsOf(() => check(world, app.appId, device))).toBe(0);
	});

	test("cost the preview links and the sizes of manifests no more", async () => {
		const { world } = await scene();
		const cost = await tripsOf(async () => {
			for (let number = 0; number < 400; number += 1) {
				await world.request("GET", "/preview/channel", {
					query: { appId: `com.example.madeup.p${number}`, channel: "beta" },
					headers: from(STRANGER),
				});
				await world.request("POST", "/updates/manifest_size", {
					body: { app_id: `com.example.madeup.m${number}`, version: "1.0.1" },
					headers: from(STRANGER),
				});
			}
		});
		// One budget for devices, one for previews.
		expect(cost).toBe(240);
	});
});

describe("requests that miss the same app at once", () => {
	test("share one load", async () => {
		const { world, app } = await scene();
		const cold = createApp(world.deps);
		const request = requestThrough(cold);
		const cost = await tripsOf(async () => {
			const answers = await Promise.all(deviceList(50).map((device) => check({ request }, app.appId, device, OFFICE)));
			for (const { body } of answers) expect(body.version).toBe("1.0.1");
		});
		expect(cost).toBe(1);
	});

	test("load by themselves when the request that loads does not end", async () => {
		let hangs = true;
		const { d1 } = beforeEachTrip(testEnv.DB, () => (hangs ? new Promise(() => undefined) : undefined));
		const { world, app } = await scene();
		const passed: number[] = [];
		const deadline = async (ms: number) => void passed.push(ms);
		const request = requestThrough(createApp({ ...world.deps, d1, deadline }));
		void check({ request }, app.appId, newDevice());
		await Promise.resolve();
		hangs = false;
		expect((await check({ request }, app.appId, newDevice())).body.version).toBe("1.0.1");
		expect(passed).toContain(5_000);
	});
});

test("a D1 that hangs makes no check wait longer than half a second while there is a snapshot", async () => {
	let hangs = false;
	const { d1 } = beforeEachTrip(testEnv.DB, () => (hangs ? new Promise(() => undefined) : undefined));
	const waited: number[] = [];
	const deadline = (ms: number) => {
		waited.push(ms);
		return hangs ? Promise.resolve() : new Promise<void>(() => undefined);
	};
	const { world, app } = await scene();
	const hanging = createApp({ ...world.deps, d1, deadline });
	await check({ request: requestThrough(hanging) }, app.appId, newDevice());
	hangs = true;
	world.clock.nowMs += 60_000;
	const asked = new Request("https://updates.example.com/updates", {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify(about(app.appId, newDevice())),
	});
	// The question goes on behind the answer, and nobody waits for it.
	const ctx = { waitUntil: () => undefined, passThroughOnException: () => undefined, props: {} };
	const answer = await hanging.fetch(asked, testEnv, ctx as unknown as ExecutionContext);
	expect(await answer.json()).toMatchObject({ version: "1.0.1" });
	expect(answer.headers.get("x-capstan-snapshot-age")).toBe("60");
	expect(waited).toEqual([500]);
});

describe("device ids that were never seen", () => {
	test("of one address and app are limited before anything is kept of them; known devices and other addresses go on", async () => {
		const { world, app } = await scene();
		const office = deviceList(20);
		for (const device of office) await check(world, app.appId, device, STRANGER);
		let refused = 0;
		for (const device of deviceList(3_200)) {
			const answer = await check(world, app.appId, device);
			if (answer.status !== 429) continue;
			refused += 1;
			expect(answer.headers.get("retry-after")).toBe("60");
		}
		expect(refused).toBe(220);
		await deliver(world);
		const { count } = (await testEnv.DB.prepare("SELECT count(*) AS count FROM devices WHERE app_id = ?")
			.bind(app.uuid)
			.first<{ count: number }>()) ?? { count: 0 };
		expect(count).toBe(3_000);
		expect(await stats(world, install(app.appId, newDevice()))).toMatchObject(TOO_MANY);
		for (const device of office) expect((await check(world, app.appId, device, STRANGER)).status).toBe(200);
		expect((await stats(world, install(app.appId, office[0] ?? ""))).status).toBe(200);
		expect((await check(world, app.appId, newDevice(), OFFICE)).status).toBe(200);
	});

	test("in one /stats count each", async () => {
		const { world, app } = await scene();
		const batch = () => deviceList(500).map((device) => ({ app_id: app.appId, device_id: device, action: "set" }));
		const statuses: number[] = [];
		for (let request = 0; request < 8; request += 1) statuses.push((await stats(world, batch())).status);
		expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
	});

	test("are counted by the platform from a tenth of the limit on, and its refusal is believed for a while", async () => {
		const newDevices = counting(10);
		const { world, app } = await scene({
			bindings: { requestLimits: { newDevices: { limiter: newDevices, periodSeconds: 60 } } },
		});
		const statuses = [];
		for (const device of deviceList(330)) statuses.push((await check(world, app.appId, device, OFFICE)).status);
		expect(statuses.indexOf(429)).toBe(310);
		expect([...newDevices.seen]).toEqual([[`${app.appId} ${OFFICE}`, 11]]);
		world.clock.nowMs += 5_000;
		await check(world, app.appId, newDevice(), OFFICE);
		expect(newDevices.seen.get(`${app.appId} ${OFFICE}`)).toBe(12);
	});

	test("are limited by the binding of wrangler.toml for real", async () => {
		const { world, app } = await scene({
			bindings: { requestLimits: { newDevices: { limiter: testEnv.NEW_DEVICES, periodSeconds: 60 } } },
		});
		const address = `2001:db8:${Math.floor(Math.random() * 0xffff).toString(16)}::1`;
		const key = `${app.appId} ${address.replace(/::1$/, "::/64")}`;
		// Other isolates of the data center have let these through. The platform counts in fixed windows, so twice the limit.
		for (let taken = 0; taken < 6_000; taken += 500) {
			await Promise.all(Array.from({ length: 500 }, () => testEnv.NEW_DEVICES.limit({ key })));
		}
		const statuses = new Set<number>();
		for (const device of deviceList(320)) statuses.add((await check(world, app.appId, device, address)).status);
		expect([...statuses]).toEqual([200, 429]);
	});
});

describe("an office of 500 devices behind one address", () => {
	test("is never refused: all check at once on a cold isolate, each launches three times, reports and asks for channels", async () => {
		const { world, app } = await scene();
		const request = requestThrough(createApp(world.deps));
		const office = deviceList(500);
		const statuses = new Map<string, number>();
		const note = (what: string, { status }: { status: number }) =>
			statuses.set(`${what} ${status}`, (statuses.get(`${what} ${status}`) ?? 0) + 1);
		for (let launch = 0; launch < 3; launch += 1) {
			for (const device of office) {
				note("check", await check({ request }, app.appId, device, OFFICE));
				note("stats", await stats({ request }, [install(app.appId, device, { timestamp: NOW_MS + launch })], OFFICE));
				note(
					"channels",
					await request("PUT", "/channel_self", { body: about(app.appId, device), headers: from(OFFICE) }),
				);
			}
		}
		expect([...statuses]).toEqual([
			["check 200", 1_500],
			["stats 200", 1_500],
			["channels 200", 1_500],
		]);
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ mau: 500, install: 1_500 });
		expect(await statistics({ world, app })).not.toHaveProperty("lost_events");
	});

	test("is never refused where the app has too many overrides to hold, whatever it asks first", async () => {
		const { world, app } = await scene();
		const many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)";
		await testEnv.DB.batch([
			testEnv.DB.prepare(`${many} INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms)
				SELECT ?, 'd' || i, 1, 1 FROM n`).bind(app.uuid),
			testEnv.DB.prepare(`${many} INSERT INTO device_overrides
				(app_id, device_id, version_id, created_by, created_at_ms, updated_at_ms)
				SELECT ?1, 'd' || i, (SELECT id FROM bundles WHERE app_id = ?1), ?2, 1, 1 FROM n`).bind(app.uuid, world.userId),
		]);
		const request = requestThrough(createApp(world.deps));
		const asked = { app_id: app.appId, platform: "electron", version_name: "builtin", version_build: "1.0.0" };
		const ask = async (device: string) => [
			await request("PUT", "/channel_self", { body: about(app.appId, device), headers: from(OFFICE) }),
			await request("POST", "/channel_self", {
				body: about(app.appId, device, { channel: "production" }),
				headers: from(OFFICE),
			}),
			await request("GET", "/channel_self", { query: { ...asked, device_id: device }, headers: from(OFFICE) }),
			await check({ request }, app.appId, device, OFFICE),
		];
		const statuses = new Set<number>();
		for (const device of deviceList(500)) for (const { status } of await ask(device)) statuses.add(status);
		expect([...statuses]).toEqual([200]);
		let refused = 0;
		const config = { ...world.deps.config, addressLimitScale: 0.1 };
		const narrow = requestThrough(createApp({ ...world.deps, config }));
		const flood = await tripsOf(async () => {
			for (const device of deviceList(310)) {
				const answer = await narrow("PUT", "/channel_self", {
					body: about(app.appId, device),
					headers: from(STRANGER),
				});
				if (answer.status === 429) refused += 1;
			}
		});
		// One more loads the app.
		expect([flood, refused]).toEqual([301, 10]);
	});

	test("is not refused when it comes to three isolates at once", async () => {
		const newDevices = counting(3_000);
		const questions = counting(120);
		const { world, app } = await scene({
			bindings: {
				requestLimits: {
					newDevices: { limiter: newDevices, periodSeconds: 60 },
					questions: { limiter: questions, periodSeconds: 60 },
				},
			},
		});
		const isolates = [1, 2, 3].map(() => requestThrough(createApp(world.deps)));
		const office = deviceList(500);
		for (const request of isolates) {
			for (const device of office) expect((await check({ request }, app.appId, device, OFFICE)).status).toBe(200);
		}
	});
});

describe("ADDRESS_LIMIT_SCALE", () => {
	test("widens the limits, and 0 switches them off", async () => {
		const newDevices = counting(310);
		const wide = await scene({
			bindings: { requestLimits: { newDevices: { limiter: newDevices, periodSeconds: 60 } } },
			config: { ADDRESS_LIMIT_SCALE: "2" },
		});
		// Twice the tenth that is free, and two counters of the platform's.
		for (const device of deviceList(1_200)) {
			expect((await check(wide.world, wide.app.appId, device)).status).toBe(200);
		}
		expect(newDevices.seen.size).toBe(2);
		const off = await scene({ config: { ADDRESS_LIMIT_SCALE: "0" } });
		for (const device of deviceList(3_100)) expect((await check(off.world, off.app.appId, device)).status).toBe(200);
	});

	test("refuses what is no scale", async () => {
		for (const text of ["-1", "x", "1001", " "]) {
			await expect(createWorld({ config: { ADDRESS_LIMIT_SCALE: text } })).rejects.toThrow("ADDRESS_LIMIT_SCALE");
		}
	});
});

test("one address sends so many requests in ten seconds, whatever they ask for; another one and the next window are free", async () => {
	const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
	const device = newDevice();
	let answer = await check(world, app.appId, device);
	for (let request = 2; request <= 300; request += 1) answer = await check(world, app.appId, device);
	expect(answer.status).toBe(200);
	answer = await check(world, app.appId, device);
	expect(answer).toMatchObject(TOO_MANY);
	expect(answer.headers.get("retry-after")).toBe("10");
	expect(await world.request("GET", "/updates", { headers: from(STRANGER) })).toMatchObject(TOO_MANY);
	const link = new URL((await check(world, app.appId, newDevice(), OFFICE)).body.url);
	expect((await world.request("GET", link.pathname + link.search, { headers: from(STRANGER) })).status).toBe(429);
	expect((await world.request("GET", link.pathname + link.search, { headers: from(OFFICE) })).status).toBe(200);
	world.clock.nowMs += 10_000;
	expect((await check(world, app.appId, device)).status).toBe(200);
});

test("a check that memory cannot answer counts once among the requests of its address", async () => {
	const { world } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
	const statuses: number[] = [];
	for (let request = 1; request <= 301; request += 1) {
		statuses.push((await check(world, "com.example.retired", newDevice())).status);
	}
	expect(statuses.indexOf(429)).toBe(300);
});

test("an address that has used up its questions downloads what exists, and nothing whose organization was deleted", async () => {
	const [lost, kept] = [await scene(), await scene()];
	const linkOf = async ({ world, app }: Scene) => {
		const { pathname, search } = new URL((await check(world, app.appId, newDevice(), OFFICE)).body.url);
		return pathname + search;
	};
	const [lostLink, keptLink] = [await linkOf(lost), await linkOf(kept)];
	const gone = await createTestApp(kept.world, "gone");
	await uploadTestBundle(kept.world, gone, "1.0.1");
	await setTestChannel(kept.world, gone, "production", { public: true, version: "1.0.1" });
	const goneLink = await linkOf({ world: kept.world, app: gone });
	const { objects } = await testEnv.BUNDLES.list({ prefix: gone.uuid });
	await testEnv.BUNDLES.delete(objects.map(({ key }) => key));
	await lost.world.request("DELETE", "/organization", {
		key: lost.world.adminKey,
		query: { orgId: lost.world.orgId },
	});
	const config = { ...lost.world.deps.config, addressLimitScale: 0.05 };
	const delay = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));
	const request = requestThrough(createApp({ ...lost.world.deps, config, delay }));
	const get = async (link: string, address = STRANGER) =>
		(await request("GET", link, { headers: from(address) })).status;
	const used: number[] = [];
	for (let again = 0; again < 10; again += 1) used.push(await get(goneLink));
	expect([used[0], used.at(-1)]).toEqual([503, 429]);
	expect([await get(keptLink), await get(lostLink), await get(lostLink, OFFICE)]).toEqual([200, 404, 404]);
});

describe("a body", () => {
	const send = (path: string, rawBody: BodyInit, headers: Record<string, string> = {}) => {
		const ready = createWorld();
		return ready.then((world) =>
			world.request("POST", path, { rawBody, headers: { "content-type": "application/json", ...headers } }),
		);
	};
	const padded = (body: object, bytes: number) => {
		const text = JSON.stringify({ ...body, padding: "" });
		return JSON.stringify({ ...body, padding: "x".repeat(bytes - text.length) });
	};
	const stream = (text: string) =>
		new ReadableStream({
			start(controller) {
				controller.enqueue(new TextEncoder().encode(text));
				controller.close();
			},
		});

	test.each([
		["/updates", 16, about("com.example.absent", newDevice())],
		["/channel_self", 16, about("com.example.absent", newDevice())],
		["/updates/manifest_size", 64, { app_id: "com.example.absent" }],
		["/stats", 256, install("com.example.absent", newDevice())],
	])("of %s has at most %i kB, whatever its headers say", async (path, kilobytes, body) => {
		const fits = padded(body, kilobytes * 1024);
		expect((await send(path, fits, { "content-length": String(fits.length) })).status).toBe(200);
		const long = padded(body, kilobytes * 1024 + 1);
		for (const headers of [{}, { "content-length": String(long.length) }, { "content-length": "100" }]) {
			const answer = await send(path, stream(long), headers as Record<string, string>);
			expect(answer, JSON.stringify(headers)).toMatchObject({ status: 413, body: { error: "payload_too_large" } });
		}
	});

	test("that nests deeply or is made of very many values is refused before it is parsed", async () => {
		const deep = `{"app_id":"com.example.absent","x":${"[".repeat(60_000)}`;
		expect(await send("/updates/manifest_size", deep)).toMatchObject({
			status: 400,
			body: { message: expect.stringContaining("32 levels") },
		});
		const wide = `[${Array.from({ length: 80_000 }, () => "{}").join()}]`;
		expect(await send("/stats", wide)).toMatchObject({
			status: 400,
			body: { message: expect.stringContaining("32768 values") },
		});
		const quoted = padded({ app_id: "com.example.absent", x: '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[,,,,"{{{{' }, 2_000);
		expect((await send("/updates/manifest_size", quoted)).status).toBe(200);
	});
});

describe("a buffer that another app floods", () => {
	const flood = async (world: World, appId: string, events: number) => {
		for (let sent = 0; sent < events; sent += 300) {
			const batch = Array.from({ length: 300 }, (_, index) =>
				install(appId, newDevice(), { timestamp: sent + index + 1 }),
			);
			await stats(world, batch, `198.18.${Math.floor(sent / 2_000)}.1`);
		}
	};

	test("keeps the victim's event, and counts what the flood lost in its own statistics", async () => {
		let isDown = true;
		const delivered: QueueMessage[] = [];
		const { world, app } = await scene({
			bindings: {
				events: {
					send: async (message: QueueMessage) => {
						if (isDown) throw new Error("Queue is overloaded.");
						delivered.push(message);
					},
				} as unknown as Deps["events"],
			},
		});
		const victim = await createTestApp(world, "victim");
		await uploadTestBundle(world, victim, "1.0.1");
		const device = newDevice();
		expect((await stats(world, install(victim.appId, device, { action: "set_fail" }), OFFICE)).status).toBe(200);
		await flood(world, app.appId, 9_000);
		isDown = false;
		delivered.length = 0;
		await check(world, app.appId, newDevice(), OFFICE);
		const messages = delivered.filter(({ kind }) => kind === "device_events");
		const bytes = messages.reduce((sum, message) => sum + JSON.stringify(message).length, 0);
		expect(bytes).toBeGreaterThan(3_000_000);
		expect(bytes).toBeLessThan(4_400_000);
		await consume(world.deps, { messages: messages.map((body) => ({ body })) });
		expect(await statistics({ world, app: victim })).toMatchObject({ mau: 1, fail: 1 });
		expect(await statistics({ world, app: victim })).not.toHaveProperty("lost_events");
		const flooded = await statistics({ world, app });
		expect(flooded.lost_events).toBeGreaterThan(1_000);
		expect(flooded.lost_events + flooded.install).toBeGreaterThanOrEqual(9_000);
	});

	test("counts a loss once, though its message comes again", async () => {
		const { world, app } = await scene();
		const lost = { type: "lost" as const, id: "l1", appId: app.appId, atMs: NOW_MS, events: 7 };
		for (let again = 0; again < 2; again += 1) {
			await consume(world.deps, { messages: [{ body: { kind: "device_events", id: "m", events: [lost] } }] });
		}
		expect(await statistics({ world, app })).toMatchObject({ lost_events: 7 });
	});
});

describe("one device", () => {
	test("adds at most a hundred installs and failures a day to the statistics; the others are counted as lost", async () => {
		const { world, app } = await scene();
		const device = newDevice();
		for (let request = 0; request < 3; request += 1) {
			const reports = Array.from({ length: 100 }, (_, index) =>
				install(app.appId, device, { timestamp: request * 100 + index + 1 }),
			);
			expect((await stats(world, reports)).status).toBe(200);
		}
		const honest = newDevice();
		await stats(world, [install(app.appId, honest)]);
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ mau: 2, install: 101, lost_events: 200 });
		world.clock.nowMs += 24 * 3_600_000;
		await stats(world, install(app.appId, device, { timestamp: NOW_MS * 2 }));
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ install: 102, lost_events: 200 });
	});
});

describe("NEW_DEVICES_PER_DAY", () => {
	test("caps what an app adds, and its other devices, other apps and the next day do not notice", async () => {
		const { world, app } = await scene({ config: { NEW_DEVICES_PER_DAY: "30" } });
		const other = await createTestApp(world, "other");
		const known = deviceList(20);
		for (const device of known) await check(world, app.appId, device);
		await deliver(world);
		for (const device of deviceList(40)) await check(world, app.appId, device);
		for (const device of deviceList(30)) await stats(world, install(app.appId, device));
		for (const device of known) await stats(world, install(app.appId, device));
		for (const device of deviceList(10)) await check(world, other.appId, device);
		await deliver(world);
		const item = await statistics({ world, app });
		expect(item).toMatchObject({ mau: 30, install: 20, refused_devices: 60, lost_events: 30 });
		const other1 = await statistics({ world, app: other });
		expect(other1).toMatchObject({ mau: 10 });
		expect(other1).not.toHaveProperty("refused_devices");
		world.clock.nowMs += 24 * 3_600_000;
		await check(world, app.appId, newDevice());
		await deliver(world);
		expect(await statistics({ world, app })).toMatchObject({ mau: 31 });
	});
});

test("one address adds so many devices to an app in a day; known devices, other addresses and the next day do not notice", async () => {
	const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
	const known = newDevice();
	await check(world, app.appId, known, OFFICE);
	await deliver(world);
	const madeUp = deviceList(150);
	for (const [index, device] of madeUp.entries()) {
		if (index % 30 === 0) world.clock.nowMs += 60_000;
		expect((await check(world, app.appId, device)).body.version).toBe("1.0.1");
	}
	await deliver(world);
	expect(await statistics({ world, app })).toMatchObject({ mau: 101, refused_devices: 50 });
	// A later report of one of them adds no device either.
	for (const device of madeUp.slice(-10)) await stats(world, install(app.appId, device));
	await stats(world, install(app.appId, known));
	await check(world, app.appId, newDevice(), OFFICE);
	await deliver(world);
	expect(await statistics({ world, app })).toMatchObject({ mau: 102, install: 1, refused_devices: 60 });
	world.clock.nowMs += 24 * 3_600_000;
	await check(world, app.appId, newDevice());
	await deliver(world);
	expect(await statistics({ world, app })).toMatchObject({ mau: 103 });
});

describe("a database that is nearly full, or a Queue that fails", () => {
	const managementWorks = async ({ world, app }: Scene) => {
		expect((await check(world, app.appId, newDevice(), OFFICE)).body.version).toBe("1.0.1");
		const signIn = await world.request("POST", "/sign-in/code", {
			body: { email: world.adminEmail },
			headers: OWN_PAGE,
		});
		expect(signIn.status, JSON.stringify(signIn.body)).toBeLessThan(300);
		await uploadTestBundle(world, app, "1.0.2");
		await setTestChannel(world, app, "production", { version: "1.0.2" });
		expect((await check(world, app.appId, newDevice(), OFFICE)).body.version).toBe("1.0.2");
		const back = await world.request("POST", "/channel/rollback", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "production" },
		});
		expect(back.status, JSON.stringify(back.body)).toBe(200);
		expect((await check(world, app.appId, newDevice(), OFFICE)).body.version).toBe("1.0.1");
	};

	test("stores no new device and no event, counts the loss, and lets people sign in, publish and roll back", async () => {
		const { world, app } = await scene();
		const known = newDevice();
		await check(world, app.appId, known);
		await deliver(world);
		const full = createApp({ ...world.deps, config: { ...world.deps.config, telemetryMaxBytes: 1 } });
		Object.assign(world.deps, { config: { ...world.deps.config, telemetryMaxBytes: 1 } });
		const limited = { world: { ...world, request: requestThrough(full) }, app };
		await check(limited.world, app.appId, newDevice());
		await stats(limited.world, install(app.appId, known));
		await deliver(world);
		expect(await statistics(limited)).toMatchObject({ mau: 1, install: 0, refused_devices: 1, lost_events: 1 });
		await managementWorks(limited);
	});

	test("is no reason to fail for anybody whose request sends events", async () => {
		const broken = await scene({
			bindings: { events: { send: () => Promise.reject(new Error("down")) } as unknown as Deps["events"] },
		});
		await managementWorks(broken);
	});
});

describe("keys that are guessed", () => {
	test("cost an address that is refused a bounded number of questions to D1; keys that were good go on", async () => {
		const { world } = await scene({
			bindings: { requestLimits: { failedAuthentications: { limiter: counting(30), periodSeconds: 60 } } },
		});
		const known = await createTestKey(world, "org_member");
		const ask = (key: string, address = STRANGER) => world.request("GET", "/app", { key, headers: from(address) });
		expect((await ask(known.text)).status).toBe(200);
		const cost = await tripsOf(async () => {
			for (let guess = 0; guess < 500; guess += 1) {
				const { status } = await ask(mintKey(world.deps.randomBytes).text);
				expect(status).toBe(guess < 30 ? 401 : 429);
			}
		});
		expect(cost).toBeLessThan(80);
		expect((await ask(known.text)).status).toBe(200);
		expect((await ask(mintKey(world.deps.randomBytes).text, OFFICE)).status).toBe(401);
	});
});

describe("preview channels", () => {
	test("are listed to no device and joined by name; hidden and absent names are answered alike", async () => {
		const { world, app } = await scene();
		const preview = await createTestKey(world, "app_preview", app);
		await uploadTestBundle(world, app, "1.0.2-pr.7", preview.text);
		await setTestChannel(world, app, "pr-7", { version: "1.0.2-pr.7", allow_device_self_set: true }, preview.text);
		await setTestChannel(world, app, "beta", { version: "1.0.1", allow_device_self_set: true });
		await setTestChannel(world, app, "internal", { version: "1.0.1" });
		const listed = async (query: Record<string, string> = {}) => {
			const { body } = await world.request("GET", "/channel_self", {
				query: { app_id: app.appId, platform: "android", ...query },
			});
			return (body.channels ?? body).map(({ name }: { name: string }) => name);
		};
		const choose = async (channel: string) => {
			const { status, body } = await world.request("POST", "/channel_self", {
				body: about(app.appId, newDevice(), { channel }),
			});
			return JSON.stringify([status, body]).replaceAll(channel, "NAME");
		};
		const current = async (defaultChannel: string) => {
			const { status, body } = await world.request("PUT", "/channel_self", {
				body: about(app.appId, newDevice(), { defaultChannel }),
			});
			return JSON.stringify([status, body]);
		};
		expect(await listed()).toEqual(["beta", "production"]);
		expect(await listed({ platform: "electron", action: "list" })).toEqual(["beta", "production"]);
		expect(await choose("internal")).toBe(await choose("absent"));
		expect(await current("internal")).toBe(await current("absent"));
		expect(await choose("pr-7")).toContain('"status":"ok"');
		expect((await check(world, app.appId, newDevice(), OFFICE, { defaultChannel: "pr-7" })).body.version).toBe(
			"1.0.2-pr.7",
		);
		await world.request("DELETE", `/apikey/${preview.id}`, { key: world.adminKey });
		expect(await listed(), "after its key is gone").toEqual(["beta", "production"]);
		await setTestChannel(world, app, "pr-7", { public: true });
		await setTestChannel(world, app, "pr-7", { public: false });
		expect(await listed(), "once it was public").toContain("pr-7");
	});
});

describe("a custom id", () => {
	test("is shown as what it is: not verified, how many devices report it, and since when", async () => {
		const { world, app } = await scene();
		const [alice = "", mallory = ""] = deviceList(2);
		const show = async (device: string) =>
			(
				await world.request("GET", "/device", {
					key: world.adminKey,
					query: { app_id: app.appId, device_id: device },
				})
			).body;
		await stats(world, install(app.appId, alice, { custom_id: "alice@victim.example" }));
		await deliver(world);
		expect(await show(alice)).toMatchObject({ custom_id: "alice@victim.example", custom_id_devices: 1 });
		world.clock.nowMs += 3_600_000;
		await stats(world, install(app.appId, mallory, { custom_id: "mallory" }));
		await deliver(world);
		world.clock.nowMs += 3_600_000;
		await stats(world, install(app.appId, mallory, { custom_id: "alice@victim.example" }));
		await deliver(world);
		expect(await show(mallory)).toMatchObject({
			custom_id: "alice@victim.example",
			custom_id_verified: false,
			custom_id_devices: 2,
			custom_id_first_reported_at: new Date(NOW_MS + 3_600_000).toISOString(),
			custom_id_last_changed_at: new Date(NOW_MS + 7_200_000).toISOString(),
		});
		expect(await show(alice)).toMatchObject({
			custom_id_devices: 2,
			custom_id_first_reported_at: new Date(NOW_MS).toISOString(),
			custom_id_last_changed_at: new Date(NOW_MS).toISOString(),
		});
		const byCustomId = await world.request("POST", "/device", {
			key: world.adminKey,
			body: { app_id: app.appId, custom_id: "alice@victim.example", channel: "production" },
		});
		expect(byCustomId).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "device_id" }] } } });
	});
});

test("the limits that wrangler.toml repeats are those of the source", () => {
	const limits = [
		...wranglerToml.matchAll(
			/^name = "(NEW_DEVICES|QUESTIONS)"\nnamespace_id.+\nsimple = \{ limit = (\d+), period = 60 \}$/gm,
		),
	];
	expect(limits.map(([, name, limit]) => [name, Number(limit)])).toEqual([
		["NEW_DEVICES", 3_000],
		["QUESTIONS", 120],
	]);
});

beforeEach(() => {
	trips = 0;
});
