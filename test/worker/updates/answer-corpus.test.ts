/**
 * Answers to devices, to the byte: test/device-answers.txt holds that to each combination of a
 * device and a channel, and to odd requests. It is reviewed like code, so that no change of the
 * rooms behind these endpoints changes an answer unseen.
 */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { addTestFiles, removeTestZip } from "../support/delta-files";
import {
	createTestApp,
	createWorld,
	ORIGIN,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
let send: (method: string, path: string, body?: string) => Promise<string>;
const lines: string[] = [];

const CHANNELS: Readonly<Record<string, Record<string, unknown>>> = {
	production: { public: true, version: "1.0.1" },
	beta: { version: "1.1.0", allow_device_self_set: true },
	files: { version: "1.2.0", allow_device_self_set: true },
	both: { version: "1.2.1", allow_device_self_set: true },
	empty: { version: null, allow_device_self_set: true },
	closed: { version: "1.1.0" },
	older: { version: "0.9.0", allow_device_self_set: true },
	back: { version: "0.9.0", allow_device_self_set: true, disableAutoUpdateUnderNative: false },
	major: { version: "2.0.0", allow_device_self_set: true, disableAutoUpdate: "major" },
	minor: { version: "1.1.0", allow_device_self_set: true, disableAutoUpdate: "minor" },
	patch: { version: "1.0.2", allow_device_self_set: true, disableAutoUpdate: "patch" },
	any: { version: "2.0.0", allow_device_self_set: true, disableAutoUpdate: "none" },
	metadata: { version: "1.3.0", allow_device_self_set: true, disableAutoUpdate: "version_number" },
	phones: { version: "1.1.0", allow_device_self_set: true, electron: false, ios: false },
	people: { version: "1.1.0", allow_device_self_set: true, allow_emulator: false, allow_dev: false },
	whole: { version: "1.0.1", allow_device_self_set: true },
	begun: { version: "1.0.1", allow_device_self_set: true },
	paused: { version: "1.0.1", allow_device_self_set: true },
};

const NATIVE = { version_name: "builtin", version_build: "1.0.0", platform: "android", plugin_version: "8.51.23" };
const DEVICES: Readonly<Record<string, object>> = {
	"a new install": NATIVE,
	"on 1.0.1": { ...NATIVE, version_name: "1.0.1" },
	"on 1.1.0": { ...NATIVE, version_name: "1.1.0" },
	"on an unknown bundle": { ...NATIVE, version_name: "1.0.77" },
	"store build 1.5.0": { ...NATIVE, version_build: "1.5.0" },
	"store build 2": { ...NATIVE, version_build: "2" },
	"store build beta": { ...NATIVE, version_build: "beta" },
	ios: { ...NATIVE, platform: "ios" },
	electron: { ...NATIVE, platform: "electron", plugin_version: "1.0.0" },
	emulator: { ...NATIVE, is_emulator: true },
	"development build": { ...NATIVE, is_prod: false },
	"plugin 6.2.0": { ...NATIVE, plugin_version: "6.2.0" },
	"plugin 4.2.0": { ...NATIVE, plugin_version: "4.2.0" },
	"with a key": { ...NATIVE, key_id: "AAAA" },
};
const DEVICE_ID = "5e1f0d3c-8f5a-4f43-93d3-1b0f6a4c9e21";

const REPORT = { ...NATIVE, version_name: "1.0.1", action: "set", device_id: DEVICE_ID };

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	for (const version of ["0.9.0", "1.0.1", "1.0.2", "1.1.0", "2.0.0"]) await uploadTestBundle(world, app, version);
	const files = await uploadTestBundle(world, app, "1.2.0");
	await addTestFiles(app, files, ["index.html", "assets/app.js", "assets/ü b.css"]);
	await removeTestZip(files);
	await addTestFiles(app, await uploadTestBundle(world, app, "1.2.1"), ["index.html"]);
	await uploadTestBundle(world, app, "1.3.0", world.adminKey, undefined, { min_update_version: "1.2.0" });
	for (const [name, fields] of Object.entries(CHANNELS)) await setTestChannel(world, app, name, fields);
	for (const [channel, fields] of [
		["whole", { rollout_version: "1.1.0", rollout_percentage_bps: 10_000, rollout_enabled: true }],
		["begun", { rollout_version: "1.1.0", rollout_percentage_bps: 0, rollout_enabled: true }],
		["paused", { rollout_version: "1.1.0", rollout_percentage_bps: 10_000, rollout_enabled: true }],
	] as const) {
		await setTestChannel(world, app, channel, fields);
	}
	await world.admin("POST /channel", {
		body: { app_id: app.appId, channel: "paused", rollout_paused: true, rollout_pause_reason: "a look" },
	});
	const api = createApp(world.deps);
	send = async (method, path, body) => {
		const ctx = createExecutionContext();
		const headers = body === undefined ? {} : { "content-type": "application/json" };
		const request = new Request(ORIGIN + path, { method, headers, ...(body === undefined ? {} : { body }) });
		const response = await api.fetch(request, testEnv, ctx);
		const text = await response.text();
		await waitOnExecutionContext(ctx);
		const retry = response.headers.get("retry-after");
		return `${response.status}${retry === null ? "" : ` (again after ${retry} s)`} ${text}`;
	};
});

/** Random parts of an answer, by their place. */
function steady(text: string): string {
	const ids = new Map<string, string>();
	return text
		.replaceAll(app.appId, "<app>")
		.replaceAll(DEVICE_ID, "<device>")
		.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, (id) => {
			const known = ids.get(id) ?? `<id ${ids.size + 1}>`;
			ids.set(id, known);
			return known;
		})
		.replaceAll(/"id":\d+/g, '"id":<number>')
		.replaceAll(/signature=[\w-]+/g, "signature=<signature>")
		.replaceAll(/\/delta\/\d+\//g, "/delta/<bundle>/")
		.replaceAll(/\b[0-9a-f]{64}\b/g, "<sha256>");
}

const note = (what: string, answer: string) => lines.push(`${what}\n\t${steady(answer)}`);

describe("the answers of POST /updates", () => {
	test.each(Object.keys(CHANNELS))("on channel %s are recorded", async (channel) => {
		for (const [device, fields] of Object.entries(DEVICES)) {
			const body = { app_id: app.appId, device_id: DEVICE_ID, defaultChannel: channel, ...fields };
			note(`${channel}: ${device}`, await send("POST", "/updates", JSON.stringify(body)));
		}
	});

	test("to odd requests are recorded", async () => {
		const whole: Record<string, unknown> = { app_id: app.appId, device_id: DEVICE_ID, ...NATIVE };
		for (const field of Object.keys(whole)) {
			const { [field]: _, ...rest } = whole;
			note(`without ${field}`, await send("POST", "/updates", JSON.stringify(rest)));
			for (const odd of [null, "", 7, [], {}, "x".repeat(600)]) {
				const text = JSON.stringify(odd).slice(0, 20);
				note(`${field} ${text}`, await send("POST", "/updates", JSON.stringify({ ...whole, [field]: odd })));
			}
		}
		for (const text of ["", "[]", "null", "{", "7", '"x"']) note(`body ${text}`, await send("POST", "/updates", text));
		note("an unknown app", await send("POST", "/updates", JSON.stringify({ ...whole, app_id: "com.example.absent" })));
		note(
			"more fields",
			await send("POST", "/updates", JSON.stringify({ ...whole, extra: { a: [1] }, custom_id: "me" })),
		);
	});
});

describe("the answers of POST /stats", () => {
	test("are recorded", async () => {
		const whole: Record<string, unknown> = { app_id: app.appId, ...REPORT };
		for (const action of ["set", "set_fail", "get", "download_complete", "ping", "app_crash", "invented"]) {
			note(`event ${action}`, await send("POST", "/stats", JSON.stringify({ ...whole, action })));
		}
		for (const field of Object.keys(whole)) {
			const { [field]: _, ...rest } = whole;
			note(`event without ${field}`, await send("POST", "/stats", JSON.stringify(rest)));
			for (const odd of [null, "", 7, [], "x".repeat(600)]) {
				const text = JSON.stringify(odd).slice(0, 20);
				note(`event with ${field} ${text}`, await send("POST", "/stats", JSON.stringify({ ...whole, [field]: odd })));
			}
		}
		const list = [whole, { ...whole, action: "invented" }, { ...whole, app_id: "com.example.absent" }, 7];
		note("a list", await send("POST", "/stats", JSON.stringify(list)));
		note("an empty list", await send("POST", "/stats", "[]"));
		for (const text of ["", "null", "{", "7"]) note(`event body ${text}`, await send("POST", "/stats", text));
	});
});

describe("the answers of /channel_self", () => {
	test("are recorded", async () => {
		const about = { app_id: app.appId, device_id: DEVICE_ID, ...NATIVE };
		const query = new URLSearchParams(Object.entries(about).map(([name, value]) => [name, String(value)]));
		note("list", await send("GET", `/channel_self?${query}`));
		note("ask", await send("PUT", "/channel_self", JSON.stringify(about)));
		for (const channel of ["beta", "closed", "absent", "production", ""]) {
			note(`set ${channel}`, await send("POST", "/channel_self", JSON.stringify({ ...about, channel })));
			note(`ask after ${channel}`, await send("PUT", "/channel_self", JSON.stringify(about)));
		}
		note("unset", await send("DELETE", `/channel_self?${query}`));
		note("ask at the end", await send("PUT", "/channel_self", JSON.stringify(about)));
	});
});

test("are what test/device-answers.txt says", async () => {
	expect(lines.length, "the list is not whole: run the whole file").toBeGreaterThan(300);
	await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("../../device-answers.txt");
});
