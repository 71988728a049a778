/**
 * The short way of an update check against the endpoint: whatever is sent, both answer the same, and a plain check of a warm app takes
 * the short way. A request without a length is never plain, which is how the endpoint is asked here.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./support/world";

let world: World;
let app: TestApp;
const DEVICE = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";
const OVERRIDDEN = "c5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["1.0.1", "2.0.0"]) await uploadTestBundle(world, app, version);
	const forced = await uploadTestBundle(world, app, "1.0.2");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1", disableAutoUpdate: "major" });
	await setTestChannel(world, app, "beta", { version: "2.0.0", allow_device_self_set: true, allow_emulator: false });
	await setTestChannel(world, app, "empty", { allow_device_self_set: true });
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
const wasShort = ({ headers }: { headers: Headers }) => headers.get("server-timing")?.includes("memory") === true;

function same({ status, body }: { status: number; body: unknown }) {
	const { requestId: _, ...rest } = body as Record<string, unknown>;
	return { status, body: rest };
}

describe("the short way", () => {
	test("is taken by a plain check of an app that is in memory, without a database, under a request id of its own", async () => {
		await ask(encoded(plain()));
		const answers = [await ask(encoded(plain())), await ask(encoded(plain()))];
		for (const answer of answers) {
			expect(answer).toMatchObject({ status: 200, trips: 0, body: { version: "1.0.1" } });
			expect(wasShort(answer)).toBe(true);
			expect(answer.headers.get("cache-control")).toBe("private, no-store");
			expect(answer.headers.get("content-type")).toBe("application/json");
		}
		expect(new Set(answers.map(({ headers }) => headers.get("x-request-id"))).size).toBe(2);
	});

	test("is not taken by the first check, nor by one when memory is too old to be believed", async () => {
		const other = await createTestApp(world);
		const check = () => ask(encoded(plain({ app_id: other.appId })));
		expect(wasShort(await check())).toBe(false);
		expect(wasShort(await check())).toBe(true);
		world.clock.nowMs += 2_000;
		expect(wasShort(await check())).toBe(false);
	});

	test("tells the fleet's records the same as the endpoint", async () => {
		const told = async (send: typeof ask, deviceId: string) => {
			world.deps.sent.length = 0;
			await send(encoded(plain({ device_id: deviceId, custom_id: "c", version_os: "14", defaultChannel: "beta" })));
			return JSON.parse(JSON.stringify(world.deps.sent).replaceAll(deviceId, ""));
		};
		await ask(encoded(plain()));
		const [short, long] = [
			await told(ask, "10000000-0000-4000-8000-000000000000"),
			await told(askEndpoint, "20000000-0000-4000-8000-000000000000"),
		];
		const events = (messages: { events?: unknown }[]) => messages.map((message) => message.events);
		expect(events(short)).toEqual(events(long));
		expect(events(short)).toHaveLength(1);
	});

	test("answers what the endpoint answers, whatever is sent", async () => {
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
		/** Mostly what a device would send. */
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
			defaultChannel: mostly("", "beta", "production", "empty", "none", undefined, null),
			key_id: mostly("", "abcd", undefined, null),
			custom_id: mostly("", "me", "x".repeat(600), undefined),
			install_source: mostly("", "play", undefined),
			version_os: mostly("14", undefined),
			version_code: mostly("1", undefined),
			unknown_field: mostly(undefined),
		});
		const body = fc.oneof({ weight: 20, arbitrary: fields }, { weight: 1, arbitrary: fc.json() });
		await ask(encoded(plain()));
		let short = 0;
		await fc.assert(
			fc.asyncProperty(body, async (sent) => {
				const answer = await ask(encoded(sent));
				expect(same(answer)).toEqual(same(await askEndpoint(encoded(sent))));
				if (wasShort(answer)) short += 1;
			}),
			{ numRuns: 600 },
		);
		expect(short, "the control: plain ones were among them").toBeGreaterThan(100);
	});

	test("leaves to the endpoint what is no JSON in UTF-8, too long, of another type, or elsewhere", async () => {
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
		expect(answer.status).toBe(200);
		expect(wasShort(answer)).toBe(false);
		for (const path of ["/updates/", "/updates?x=1", "/a/updates"]) {
			const elsewhere = await world.request("POST", path, {
				rawBody: encoded(plain()),
				headers: { "content-length": "300" },
			});
			expect(wasShort(elsewhere), path).toBe(false);
		}
	});

	test("is not for the pages of other origins, which are answered as CORS_ALLOWED_ORIGINS says", async () => {
		const minded = await createWorld({ config: { CORS_ALLOWED_ORIGINS: "https://app.example.com" } });
		const own = await createTestApp(minded);
		const bytes = encoded(plain({ app_id: own.appId }));
		for (let check = 0; check < 2; check += 1) {
			const { headers } = await minded.request("POST", "/updates", {
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
