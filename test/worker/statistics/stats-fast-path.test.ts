/**
 * The fast path of reports compared with the endpoint: both give the same answer to any body, and
 * buffer the same events. Requests without a length never take the fast path, which is how these
 * tests reach the endpoint.
 */
import fc from "fast-check";
import * as v from "valibot";
import { beforeAll, describe, expect, test } from "vitest";
import { eventSchema } from "../../../src/features/statistics/ingest";
import { LONGEST_REPORT_TEXTS, readReport } from "../../../src/features/statistics/report-body";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
const DEVICE = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61";

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
});

const plain = (fields: Record<string, unknown> = {}): Record<string, unknown> => ({
	app_id: app.appId,
	device_id: DEVICE,
	platform: "android",
	version_name: "1.0.1",
	version_build: "1.0.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	action: "set",
	timestamp: NOW_MS,
	...fields,
});
const encoded = (body: unknown) => new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
const report = (bytes: Uint8Array, headers: Record<string, string> = {}) =>
	world.request("POST", "/stats", {
		rawBody: bytes,
		headers: { "content-type": "application/json", "content-length": String(bytes.length), ...headers },
	});
const reportToEndpoint = (bytes: Uint8Array) =>
	world.request("POST", "/stats", { rawBody: bytes, headers: { "content-type": "application/json" } });
const tookFastPath = ({ headers }: { headers: Headers }) => headers.get("server-timing")?.includes("memory") === true;

function same({ status, body, headers }: { status: number; body: unknown; headers: Headers }) {
	const { requestId: _, ...rest } = body as Record<string, unknown>;
	// As text, because the order of fields counts.
	return { status, text: JSON.stringify(rest), type: headers.get("content-type") };
}

describe("the fast path of POST /stats", () => {
	test("answers a plain report of an app in memory without a database call", async () => {
		await report(encoded(plain()));
		for (const action of ["set", "app_moved_to_foreground", "a_new_one", undefined]) {
			const answer = await report(encoded(plain({ action })));
			expect(answer).toMatchObject({ status: 200, trips: 0, body: { status: "ok" } });
			expect(tookFastPath(answer)).toBe(true);
		}
	});

	test("leaves batches, nested values, unknown lengths and the Origin of a browser to the endpoint", async () => {
		await report(encoded(plain()));
		for (const body of [[plain()], plain({ metadata: { any: "thing" } }), plain({ version_os: "\uFFFD" })]) {
			const answer = await report(encoded(body));
			expect(answer.status, JSON.stringify(body)).toBe(200);
			expect(tookFastPath(answer)).toBe(false);
		}
		expect(tookFastPath(await reportToEndpoint(encoded(plain())))).toBe(false);
	});

	test("reads exactly the bodies that the endpoint's schema accepts", () => {
		const long = (length: number) => "x".repeat(length);
		const values: Readonly<Record<string, readonly unknown[]>> = {
			app_id: ["com.example.app", "com", "a..b", `a.${"x".repeat(126)}`, `a.${"x".repeat(127)}`],
			device_id: [DEVICE, DEVICE.toUpperCase(), DEVICE.slice(1), `${DEVICE}0`],
			is_emulator: [true, false, "true", 0],
			is_prod: [true, false, "true", 1],
			timestamp: [0, -1, 1.5, NOW_MS, String(NOW_MS), "2026-11-22T08:00:00Z", "soon", ""],
			unknown_field: [1, "x"],
			...Object.fromEntries(
				Object.entries(LONGEST_REPORT_TEXTS).map(([name, longest]) => [
					name,
					["", "a", long(longest), long(longest + 1)],
				]),
			),
		};
		let read = 0;
		for (const [name, own] of Object.entries(values)) {
			for (const value of [...own, undefined, null, 1, true, {}, []]) {
				const text = JSON.stringify(plain({ [name]: value }));
				const reference = v.safeParse(eventSchema, JSON.parse(text));
				const found = readReport(text);
				const isNested = typeof value === "object" && value !== null;
				expect(found !== undefined, `${name}: ${JSON.stringify(value)}`).toBe(reference.success && !isNested);
				if (found === undefined) continue;
				expect(found, name).toEqual(reference.output);
				read += 1;
			}
		}
		expect(read, "the control: plain bodies were among them").toBeGreaterThan(80);
		for (const text of ["", "1", "null", "[]", "{}", '"a"', "{", `[${JSON.stringify(plain())}]`]) {
			expect(readReport(text), text).toBeUndefined();
		}
	});

	test("gives the answer of the endpoint to any body, and buffers the same events", async () => {
		const value = fc.oneof(
			fc.constantFrom<unknown>(null, true, 1, "", [], {}, "x".repeat(600), "1.0.1", "\uFFFD", "a\0b"),
			fc.string({ unit: "grapheme" }),
		);
		/** Mostly values that devices send. */
		const mostly = (...usual: unknown[]) =>
			fc.oneof({ weight: 14, arbitrary: fc.constantFrom(...usual) }, { weight: 1, arbitrary: value });
		const body = fc.oneof(
			{
				weight: 20,
				arbitrary: fc.record({
					app_id: mostly(app.appId, app.appId, app.appId.toUpperCase(), "com.example.absent"),
					device_id: mostly(DEVICE, DEVICE.toUpperCase()),
					action: mostly("set", "set_fail", "download_complete", "ping", "toString", undefined),
					version_name: mostly("1.0.1", "1.0.1:index.html", "builtin", "", undefined),
					old_version_name: mostly("1.0.0", undefined),
					version_build: mostly("1.0.0", undefined),
					platform: mostly("android", "electron", "web", undefined),
					plugin_version: mostly("8.51.23", undefined),
					is_emulator: mostly(true, false, undefined, null),
					is_prod: mostly(true, false, undefined, null),
					custom_id: mostly("", "me", undefined),
					defaultChannel: mostly("", "production", undefined, null),
					timestamp: mostly(NOW_MS, NOW_MS - 1, String(NOW_MS), "2026-11-22T08:00:00Z", 1, undefined),
				}),
			},
			{ weight: 1, arbitrary: fc.json() },
		);
		let [number, fast, counted] = [0, 0, 0];
		/** The answer and the events, of a device that reports for the first time. */
		const outcomeOf = async (send: typeof report, sent: unknown) => {
			const device = `${String(++number).padStart(8, "0")}-aaaa-4000-8000-000000000000`;
			world.deps.sent.length = 0;
			const isDevice = (sent as { device_id?: unknown } | null)?.device_id === DEVICE;
			const answer = await send(encoded(isDevice ? { ...(sent as object), device_id: device } : sent));
			if (tookFastPath(answer)) fast += 1;
			const events = world.deps.sent.flatMap((message) => (message.kind === "device_events" ? message.events : []));
			counted += events.filter(({ type }) => type === "count").length;
			const ofDevice = events.filter((event) => JSON.stringify(event).includes(device));
			const text = JSON.stringify(ofDevice)
				.replaceAll(device, "")
				.replaceAll(/"id":"[0-9a-f]{32}"/g, '"id":"…"');
			return { ...same(answer), events: isDevice ? text : "" };
		};
		await report(encoded(plain()));
		await fc.assert(
			fc.asyncProperty(body, async (sent) => {
				expect(await outcomeOf(report, sent)).toEqual(await outcomeOf(reportToEndpoint, sent));
			}),
			{ numRuns: 300 },
		);
		expect(fast, "the control: plain reports were among them").toBeGreaterThan(80);
		expect(counted, "the control: counted events were among them").toBeGreaterThan(50);
	});

	test("gives an event the id that the endpoint gives it, so that a repeated report counts once", async () => {
		const idOf = async (send: typeof report) => {
			world.deps.sent.length = 0;
			// The device of the random reports may have reached the limit of a day.
			await send(encoded(plain({ timestamp: NOW_MS - 5, device_id: DEVICE.replace("b5", "c6") })));
			const events = world.deps.sent.flatMap((message) => (message.kind === "device_events" ? message.events : []));
			return events.find((event) => event.type === "count")?.id;
		};
		const id = await idOf(report);
		expect(id).toMatch(/^[0-9a-f]{32}$/);
		expect(await idOf(reportToEndpoint)).toBe(id);
	});

	test("limits the address as the endpoint does", async () => {
		const own = await createWorld({ config: { ADDRESS_LIMIT_SCALE: "0.01" } });
		const ownApp = await createTestApp(own);
		const send = (
			device: number,
			bytes = encoded(plain({ app_id: ownApp.appId, device_id: `${10_000_000 + device}-aaaa-4000-8000-000000000000` })),
		) =>
			own.request("POST", "/stats", {
				rawBody: bytes,
				headers: {
					"content-type": "application/json",
					"content-length": String(bytes.length),
					"cf-connecting-ip": "192.0.2.7",
				},
			});
		const statuses: number[] = [];
		for (let device = 0; device < 32; device += 1) statuses.push((await send(device)).status);
		expect(statuses[0]).toBe(200);
		expect(statuses.at(-1)).toBe(429);
	});
});
