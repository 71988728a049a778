/**
 * The fast path of update checks compared with the endpoint: both give the same answer to any
 * request, and a plain check of an app in memory takes the fast path. Requests without a length
 * never take it, which is how these tests reach the endpoint.
 */
import fc from "fast-check";
import * as v from "valibot";
import { beforeAll, describe, expect, test } from "vitest";
import { UPDATE_PACKAGES } from "../../../src/domain/updates/package";
import { readDeviceBody } from "../../../src/features/updates/device-body";
import { deviceBody } from "../../../src/features/updates/device-request";
import { warmUp } from "../../../src/warm-up";
import { addTestFiles } from "../support/delta-files";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
const DEVICE = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";
const OTHER_DEVICE = "d5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";
const OVERRIDDEN = "c5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["1.0.1", "2.0.0"]) await uploadTestBundle(world, app, version);
	const forced = await uploadTestBundle(world, app, "1.0.2");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1", disableAutoUpdate: "major" });
	await setTestChannel(world, app, "beta", { version: "2.0.0", allow_device_self_set: true, allow_emulator: false });
	await setTestChannel(world, app, "empty", { allow_device_self_set: true });
	const withFiles = await uploadTestBundle(world, app, "1.0.3");
	await addTestFiles(app, withFiles, ["index.html", "app.js"]);
	for (const updatePackage of UPDATE_PACKAGES) {
		await setTestChannel(world, app, updatePackage, { version: "1.0.3", allow_device_self_set: true, updatePackage });
	}
	await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { expose_metadata: true } });
	const put = await world.request("POST", "/device", {
		key: world.adminKey,
		body: { app_id: app.appId, device_id: OVERRIDDEN, version_id: forced },
	});
	expect(put.status, JSON.stringify(put.body)).toBe(200);
});

const plain = (fields: Record<string, unknown> = {}): Record<string, unknown> => ({
	app_id: app.appId,
	device_id: DEVICE,
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
const encoded = (body: unknown) => new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
const ask = (bytes: Uint8Array, headers: Record<string, string> = {}) =>
	world.request("POST", "/updates", {
		rawBody: bytes,
		headers: { "content-type": "application/json", "content-length": String(bytes.length), ...headers },
	});
const askEndpoint = (bytes: Uint8Array) =>
	world.request("POST", "/updates", { rawBody: bytes, headers: { "content-type": "application/json" } });
const tookFastPath = ({ headers }: { headers: Headers }) => headers.get("server-timing")?.includes("memory") === true;

function same({ status, body }: { status: number; body: unknown }) {
	const { requestId: _, ...rest } = body as Record<string, unknown>;
	return { status, body: rest };
}

describe("the fast path", () => {
	test("answers a plain check of an app in memory without a database call", async () => {
		await ask(encoded(plain()));
		const answer = await ask(encoded(plain()));
		expect(answer).toMatchObject({ status: 200, trips: 0, body: { version: "1.0.1" } });
		expect(tookFastPath(answer)).toBe(true);
		expect(answer.headers.get("cache-control")).toBe("private, no-store");
		expect(answer.headers.get("content-type")).toBe("application/json");
	});

	test("answers the first check of an isolate, and checks of a stale snapshot, from the database", async () => {
		const other = await createTestApp(world);
		const check = () => ask(encoded(plain({ app_id: other.appId })));
		expect(tookFastPath(await check())).toBe(false);
		expect(tookFastPath(await check())).toBe(true);
		world.clock.nowMs += 2_000;
		expect(tookFastPath(await check())).toBe(false);
	});

	test("buffers the same events as the endpoint", async () => {
		const eventsBy = async (send: typeof ask, deviceId: string) => {
			world.deps.sent.length = 0;
			await send(encoded(plain({ device_id: deviceId, custom_id: "c", version_os: "14", defaultChannel: "beta" })));
			return JSON.parse(JSON.stringify(world.deps.sent).replaceAll(deviceId, ""));
		};
		await ask(encoded(plain()));
		const [fast, slow] = [
			await eventsBy(ask, "10000000-0000-4000-8000-000000000000"),
			await eventsBy(askEndpoint, "20000000-0000-4000-8000-000000000000"),
		];
		const events = (messages: { events?: unknown }[]) => messages.map((message) => message.events);
		expect(events(fast)).toEqual(events(slow));
		expect(events(fast)).toHaveLength(1);
	});

	test("reads exactly the bodies that the endpoint's schema accepts, and leaves unusual ones to it", () => {
		const long = (length: number) => "x".repeat(length);
		const values: Readonly<Record<string, readonly unknown[]>> = {
			app_id: ["com.example.app", "a.b-c_d", "com", "a..b", ".a.b", "a.b.", `a.${long(126)}`, `a.${long(127)}`, "ä.b"],
			device_id: [DEVICE, DEVICE.toUpperCase(), DEVICE.slice(1), `${DEVICE}0`, DEVICE.replace("b", "g")],
			version_name: ["builtin", "", long(128), long(129)],
			version_build: ["1", "", long(128), long(129)],
			platform: ["ios", "android", "electron", "web", "IOS", "constructor"],
			plugin_version: ["8.51.23", "5", "", "x", long(129), `1.${long(126)}`],
			is_emulator: [true, false, "true", 0],
			is_prod: [true, false, "true", 1],
			defaultChannel: ["", long(512), long(513)],
			key_id: ["", long(20), long(21)],
			custom_id: ["", long(128), long(129)],
			install_source: ["", long(64), long(65)],
			version_os: ["", long(64), long(65)],
			version_code: ["", long(64), long(65)],
			unknown_field: [1, "x", null],
		};
		let read = 0;
		for (const [name, own] of Object.entries(values)) {
			for (const value of [...own, undefined, null, 1, true, {}, []]) {
				const text = JSON.stringify(plain({ [name]: value }));
				const reference = v.safeParse(deviceBody, JSON.parse(text));
				const found = readDeviceBody(text);
				const isNested = typeof value === "object" && value !== null;
				expect(found !== undefined, `${name}: ${JSON.stringify(value)}`).toBe(reference.success && !isNested);
				if (found === undefined) continue;
				expect(found, name).toEqual(reference.output);
				read += 1;
			}
		}
		expect(read, "the control: plain bodies were among them").toBeGreaterThan(50);
		for (const text of ["", "1", "null", "[]", "{}", '"a"', "{", `[${JSON.stringify(plain())}]`]) {
			expect(readDeviceBody(text), text).toBeUndefined();
		}
	});

	test("is warmed up at the start of an isolate by made-up checks, which are answered like any other", async () => {
		const offer = { version: "1.0.1", url: expect.stringContaining("&signature=") };
		expect((await warmUp()).map((text) => JSON.parse(text))).toMatchObject([offer, offer]);
	});

	test("gives the answer of the endpoint to any body", async () => {
		const value = fc.oneof(
			fc.constantFrom<unknown>(
				null,
				true,
				1,
				"",
				[],
				{},
				"x".repeat(600),
				"builtin",
				"1.0.0",
				"unknown",
				"\uFFFD",
				"a\0b",
			),
			fc.string({ unit: "grapheme" }),
		);
		/** Mostly values that devices send. */
		const mostly = (...usual: unknown[]) =>
			fc.oneof({ weight: 14, arbitrary: fc.constantFrom(...usual) }, { weight: 1, arbitrary: value });
		const fields = fc.record({
			app_id: mostly(app.appId),
			device_id: mostly(DEVICE, OVERRIDDEN, DEVICE.toUpperCase()),
			version_name: mostly("builtin", "", "1.0.0", "1.0.1", "1.0.2", "2.0.0", "9.9.9"),
			version_build: mostly("1.0.0", "1", "1.2", "2.0.0", "builtin", "unknown", "x"),
			platform: mostly("android", "ios", "electron"),
			plugin_version: mostly("8.51.23", "7.0.0", "6.1.0", "4.9.0", "5", "x"),
			is_emulator: mostly(true, false, undefined, null),
			is_prod: mostly(true, false, undefined, null),
			defaultChannel: mostly("", "beta", "production", "empty", "none", undefined, null, ...UPDATE_PACKAGES),
			key_id: mostly("", "abcd", undefined, null),
			custom_id: mostly("", "me", "x".repeat(600), undefined),
			install_source: mostly("", "play", undefined),
			version_os: mostly("14", undefined),
			version_code: mostly("1", undefined),
			unknown_field: mostly(undefined),
		});
		const body = fc.oneof({ weight: 20, arbitrary: fields }, { weight: 1, arbitrary: fc.json() });
		await ask(encoded(plain()));
		let fast = 0;
		await fc.assert(
			fc.asyncProperty(body, async (sent) => {
				// Three devices send the same text except for their ids.
				for (const device_id of [undefined, OTHER_DEVICE, OVERRIDDEN]) {
					const isObject = typeof sent === "object" && sent !== null && !Array.isArray(sent);
					const body = encoded(isObject && device_id !== undefined ? { ...sent, device_id } : sent);
					const answer = await ask(body);
					expect(same(answer)).toEqual(same(await askEndpoint(body)));
					if (tookFastPath(answer)) fast += 1;
				}
			}),
			{ numRuns: 300 },
		);
		expect(fast, "the control: plain checks were among them").toBeGreaterThan(100);
	});

	describe("for a body that another device sent before", () => {
		const eventsOf = async (send: () => Promise<unknown>) => {
			world.deps.sent.length = 0;
			await send();
			const messages = world.deps.sent as { events?: { type: string; deviceId: string; atMs: number }[] }[];
			return messages.flatMap(({ events = [] }) => events);
		};
		const seenBy = async (device: string, send: () => Promise<unknown>) =>
			(await eventsOf(send)).filter(({ deviceId }) => deviceId === device);
		const id = (number: number) => `${String(number).padStart(8, "0")}-aaaa-4000-8000-000000000000`;

		test("gives the same answer, and buffers one event per device and day", async () => {
			const fields = { version_os: "15", defaultChannel: "beta" };
			const first = await ask(encoded(plain({ ...fields, device_id: id(1) })));
			await ask(encoded(plain({ ...fields, device_id: id(1) })));
			const send = () => ask(encoded(plain({ ...fields, device_id: id(2) })));
			const events = await seenBy(id(2), async () => expect(same(await send())).toEqual(same(first)));
			expect(events).toMatchObject([
				{ type: "seen", osVersion: "15", atMs: world.clock.nowMs, defaultChannel: "beta" },
			]);
			expect(await seenBy(id(2), send)).toEqual([]);
			world.clock.nowMs += 24 * 60 * 60 * 1000;
			await send();
			expect(await seenBy(id(3), () => ask(encoded(plain({ ...fields, device_id: id(3) }))))).toMatchObject([
				{ atMs: world.clock.nowMs },
			]);
			expect((await send()).status).toBe(200);
			world.clock.nowMs += 24 * 60 * 60 * 1000;
			expect(await seenBy(id(2), send)).toHaveLength(1);
		});

		test("gives links that expire as late as those of other answers", async () => {
			const send = (device: string) => ask(encoded(plain({ device_id: device, version_os: "16" })));
			const expiry = async (device: string) =>
				Number(new URL((await send(device)).body.url).searchParams.get("expires"));
			await expiry(id(4));
			const before = await expiry(id(5));
			world.clock.nowMs += 3 * 60 * 60 * 1000;
			await expiry(id(4));
			expect(await expiry(id(6))).toBeGreaterThan(before);
		});

		test("gives links to the origin of the request", async () => {
			const send = async (device: string, origin: string) => {
				const bytes = encoded(plain({ device_id: device, version_os: "17" }));
				const headers = { "content-type": "application/json", "content-length": String(bytes.length) };
				const { body } = await world.request("POST", `${origin}/updates`, { rawBody: bytes, headers });
				return new URL(body.url).origin;
			};
			for (const origin of [
				"https://updates.example.com",
				"https://other.example.com",
				"https://updates.example.com",
			]) {
				expect([await send(id(10), origin), await send(id(11), origin)]).toEqual([origin, origin]);
			}
		});

		test("gives the channel's new bundle after a promotion", async () => {
			const own = await createTestApp(world);
			for (const version of ["1.0.1", "1.0.2"]) await uploadTestBundle(world, own, version);
			for (const version of ["1.0.1", "1.0.2"]) {
				await setTestChannel(world, own, "production", { public: true, version });
				for (const device of [7, 8, 9]) {
					const answer = await ask(encoded(plain({ app_id: own.appId, device_id: id(device) })));
					expect(answer.body.version).toBe(version);
				}
			}
		});

		test.each([
			["zip", { hasZip: true, files: undefined }],
			["delta", { hasZip: false, files: 1 }],
			["all", { hasZip: true, files: 1 }],
		])("offers the form of the channel's update package: %s", async (updatePackage, form) => {
			const own = await createTestApp(world);
			await addTestFiles(own, await uploadTestBundle(world, own, "1.0.1"), ["index.html"]);
			await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
			const send = (device: number) => ask(encoded(plain({ app_id: own.appId, device_id: id(device) })));
			for (const device of [1, 2, 3]) await send(device);
			await setTestChannel(world, own, "production", { updatePackage });
			for (const device of [1, 2, 3]) {
				const answer = await send(device);
				const { url, manifest } = answer.body;
				expect({ hasZip: !url.endsWith("/files/no-zip"), files: manifest?.length }).toEqual(form);
				if (device > 2) expect(tookFastPath(answer), "the control: it took the fast path").toBe(true);
			}
		});

		test("decides by device id in a rollout, and applies the override of a device", async () => {
			const own = await createTestApp(world);
			await uploadTestBundle(world, own, "1.0.1");
			const next = await uploadTestBundle(world, own, "1.0.2");
			await setTestChannel(world, own, "production", { public: true, version: "1.0.1" });
			const send = (device: number) => encoded(plain({ app_id: own.appId, device_id: id(device) }));
			const versions = async (how: typeof ask) =>
				Promise.all(Array.from({ length: 40 }, async (_, device) => (await how(send(device))).body.version));
			expect(new Set(await versions(ask))).toEqual(new Set(["1.0.1"]));
			const override = { app_id: own.appId, device_id: id(5), version_id: next };
			await world.request("POST", "/device", { key: world.adminKey, body: override });
			expect((await versions(ask)).flatMap((version, device) => (version === "1.0.2" ? device : []))).toEqual([5]);
			await setTestChannel(world, own, "production", {
				rolloutVersion: "1.0.2",
				rolloutPercentageBps: 5000,
				rolloutEnabled: true,
			});
			await ask(send(0));
			const given = await versions(ask);
			expect(new Set(given)).toEqual(new Set(["1.0.1", "1.0.2"]));
			expect(given).toEqual(await versions(askEndpoint));
		});
	});

	test("leaves bodies that are not JSON in UTF-8 or too long, other types and other paths to the endpoint", async () => {
		await ask(encoded(plain()));
		const [start, end] = [encoded('{"custom_id":"'), encoded(`",${JSON.stringify(plain()).slice(1)}`)];
		for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80]]) {
			const broken = new Uint8Array([...start, ...bytes, ...end]);
			expect(await ask(broken), String(bytes)).toMatchObject({ status: 400, body: { error: "invalid_request" } });
		}
		expect((await ask(encoded("{"))).status).toBe(400);
		expect((await ask(encoded(plain()), { "content-type": "text/plain" })).status).toBe(415);
		const long = encoded(plain({ unknown_field: "x".repeat(20_000) }));
		const answer = await ask(long);
		expect(answer.status).toBe(413);
		expect(tookFastPath(answer)).toBe(false);
		for (const path of ["/updates/", "/updates?x=1", "/a/updates"]) {
			const elsewhere = await world.request("POST", path, {
				rawBody: encoded(plain()),
				headers: { "content-length": "300" },
			});
			expect(tookFastPath(elsewhere), path).toBe(false);
		}
	});

	test("leaves requests with an Origin to the endpoint when CORS is configured", async () => {
		const withCors = await createWorld({ config: { CORS_ALLOWED_ORIGINS: "https://app.example.com" } });
		const own = await createTestApp(withCors);
		const bytes = encoded(plain({ app_id: own.appId }));
		for (let check = 0; check < 2; check += 1) {
			const { headers } = await withCors.request("POST", "/updates", {
				rawBody: bytes,
				headers: {
					"content-type": "application/json",
					"content-length": String(bytes.length),
					origin: "https://app.example.com",
				},
			});
			expect(headers.get("access-control-allow-origin")).toBe("https://app.example.com");
		}
	});
});
