/**
 * The cost of requests without a key: each attack goes through the HTTP application, D1 and messages
 * are counted, and beside each attack stands the legitimate use that must not notice it.
 */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { mintKey } from "../../../src/authz/secrets";
import { consume } from "../../../src/consumer";
import type { Deps } from "../../../src/deps";
import type { QueueMessage } from "../../../src/messages";
import wranglerToml from "../../../wrangler.toml?raw";
import { beforeEachTrip } from "../support/interleave";
import {
	about,
	check,
	counting,
	deviceList,
	from,
	install,
	newDevice,
	OFFICE,
	type Scene,
	STRANGER,
	scene,
	statistics,
	stats,
	TOO_MANY,
	tripsOf,
} from "../support/stranger-scene";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	requestThrough,
	setTestChannel,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

describe("unknown app ids", () => {
	test("in one /stats are refused before D1 is read if more than four, and cost one read otherwise", async () => {
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

	test("of one address cost a limited number of reads per minute, and do not affect devices of real apps", async () => {
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

	test("are cached: devices of a deleted app are answered from memory", async () => {
		const { world } = await scene();
		const cost = await tripsOf(async () => {
			for (const device of deviceList(200)) {
				const { status, body } = await check(world, "com.example.retired", device, OFFICE);
				expect([status, body.error, body.kind]).toEqual([200, "app_not_found", "failed"]);
			}
		});
		expect(cost).toBe(1);
	});

	test("displace no cached app", async () => {
		const { world, app } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0" } });
		const device = newDevice();
		await check(world, app.appId, device);
		for (let number = 0; number < 40; number += 1) await check(world, `com.example.displacing.n${number}`, newDevice());
		expect(await tripsOf(() => check(world, app.appId, device))).toBe(0);
	});

	test("are limited for preview links and manifest sizes as well", async () => {
		const { world } = await scene();
		const cost = await tripsOf(async () => {
			for (let number = 0; number < 400; number += 1) {
				await world.as()("GET /preview/channel", {
					query: { appId: `com.example.madeup.p${number}`, channel: "beta" },
					headers: from(STRANGER),
				});
				await world.as()("POST /updates/manifest_size", {
					body: { app_id: `com.example.madeup.m${number}`, version: "1.0.1" },
					headers: from(STRANGER),
				});
			}
		});
		// One budget for devices, one for previews.
		expect(cost).toBe(240);
	});
});

describe("concurrent cache misses of one app", () => {
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

	test("load separately when the first load does not end", async () => {
		let hangs = true;
		const { d1 } = beforeEachTrip(testEnv.DB, () => (hangs ? new Promise(() => undefined) : undefined));
		const { world, app } = await scene();
		// Otherwise the stored snapshot answers.
		await testEnv.BUNDLES.delete(`snapshots/${app.appId}`);
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

test("a hanging D1 delays a check with a cached snapshot by at most half a second", async () => {
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
	waited.length = 0;
	world.clock.nowMs += 60_000;
	const asked = new Request("https://updates.example.com/updates", {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify(about(app.appId, newDevice())),
	});
	// The question goes on after the answer, and nobody waits for it.
	const ctx = { waitUntil: () => undefined, passThroughOnException: () => undefined, props: {} };
	const answer = await hanging.fetch(asked, testEnv, ctx as unknown as ExecutionContext);
	expect(await answer.json()).toMatchObject({ version: "1.0.1" });
	expect(answer.headers.get("x-capstan-snapshot-age")).toBe("60");
	expect(waited).toEqual([500]);
});

test("a check that misses the cache counts once as a request of its address", async () => {
	const { world } = await scene({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
	const statuses: number[] = [];
	for (let request = 1; request <= 301; request += 1) {
		statuses.push((await check(world, "com.example.retired", newDevice())).status);
	}
	expect(statuses.indexOf(429)).toBe(300);
});

test("an address without reads left downloads existing bundles, and none of a deleted organization", async () => {
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
	await lost.world.admin("DELETE /organization", { query: { orgId: lost.world.orgId } });
	const config = { ...lost.world.deps.config, addressLimitScale: 0.05 };
	// A twentieth of the real waits; each still ends after the reads that it waits beside.
	const delay = (ms: number) => new Promise<void>((done) => setTimeout(done, ms / 20));
	const request = requestThrough(createApp({ ...lost.world.deps, config, delay }));
	const get = async (link: string, address = STRANGER) =>
		(await request("GET", link, { headers: from(address) })).status;
	const used: number[] = [];
	for (let again = 0; again < 10; again += 1) used.push(await get(goneLink));
	expect([used[0], used.at(-1)]).toEqual([410, 429]);
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

	test("with deep nesting or very many values is refused before it is parsed", async () => {
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
				install(appId, newDevice(), { timestamp: NOW_MS + sent + index + 1 }),
			);
			await stats(world, batch, `198.18.${Math.floor(sent / 2_000)}.1`);
		}
	};

	test("keeps the victim's event, and counts lost events in the statistics of the flooded app", async () => {
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

	test("counts a loss once although its message is delivered twice", async () => {
		const { world, app } = await scene();
		const lost = { type: "lost" as const, id: "l1", appId: app.appId, atMs: NOW_MS, events: 7 };
		for (let again = 0; again < 2; again += 1) {
			await consume(world.deps, { messages: [{ body: { kind: "device_events", id: "m", events: [lost] } }] });
		}
		expect(await statistics({ world, app })).toMatchObject({ lost_events: 7 });
	});
});

test("changes of others cost an office none of its reads: its devices report while the service changes all the time", async () => {
	const { world, app } = await scene();
	const { adminKey, orgId } = await createWorld();
	const statuses = new Map<number, number>();
	const device = newDevice();
	for (let change = 0; change < 150; change += 1) {
		const body = { orgId, name: `Name ${change}` };
		expect((await world.as(adminKey)("PUT /organization", { body })).status).toBe(200);
		const { status } = await stats(world, install(app.appId, device), OFFICE);
		statuses.set(status, (statuses.get(status) ?? 0) + 1);
	}
	expect([...statuses]).toEqual([[200, 150]]);
	// Its own reads stay limited.
	const own: number[] = [];
	for (let number = 0; number < 125; number += 1)
		own.push((await check(world, `com.example.madeup.o${number}`, newDevice(), OFFICE)).status);
	expect(own.indexOf(429)).toBe(120);
});

describe("guessed keys", () => {
	test("cost a refused address a bounded number of D1 reads, and do not affect keys that were valid", async () => {
		const { world } = await scene({
			bindings: { requestLimits: { failedAuthentications: { limiter: counting(30), periodSeconds: 60 } } },
		});
		const known = await createTestKey(world, "org_member");
		const ask = (key: string, address = STRANGER) => world.as(key)("GET /app", { headers: from(address) });
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
	test("are not listed to devices and are joined by name; hidden and absent names get the same answer", async () => {
		const { world, app } = await scene();
		const preview = await createTestKey(world, "app_preview", app);
		await uploadTestBundle(world, app, "1.0.2-pr.7", preview.text);
		await setTestChannel(world, app, "pr-7", { version: "1.0.2-pr.7", allow_device_self_set: true }, preview.text);
		await setTestChannel(world, app, "beta", { version: "1.0.1", allow_device_self_set: true });
		await setTestChannel(world, app, "internal", { version: "1.0.1" });
		const listed = async (query: Record<string, string> = {}) => {
			const { body } = await world.as()("GET /channel_self", {
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
		await world.admin("DELETE /apikey/:id", { params: { id: preview.id } });
		expect(await listed(), "after its key is gone").toEqual(["beta", "production"]);
		await setTestChannel(world, app, "pr-7", { public: true });
		await setTestChannel(world, app, "pr-7", { public: false });
		expect(await listed(), "once it was public").toContain("pr-7");
	});
});

test("wrangler.toml repeats the limits of the source", () => {
	const limits = [
		...wranglerToml.matchAll(
			/^name = "(NEW_DEVICES|D1_READS)"\nnamespace_id.+\nsimple = \{ limit = (\d+), period = 60 \}$/gm,
		),
	];
	expect(limits.map(([, name, limit]) => [name, Number(limit)])).toEqual([
		["NEW_DEVICES", 3_000],
		["D1_READS", 120],
	]);
});
