/**
 * The time of a report, in every spelling that clients send: the report is counted once, or its
 * answer says that it is not.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { REPORTS } from "../support/reports";
import { createTestApp, createWorld, NOW_MS, type TestApp, uploadTestBundle, type World } from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.0");
	world.deps.sent.length = 0;
});

const DAY_MS = 86_400_000;
let counter = 0;
const event = (timestamp: unknown) => ({
	app_id: app.appId,
	device_id: `0b6f3f0e-5d0c-4d3e-9a53-${String(++counter).padStart(12, "0")}`,
	platform: "android",
	version_name: "1.0.0",
	version_build: "0.9.0",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	action: "set",
	...(timestamp === undefined ? {} : { timestamp }),
});
/** Counts all reports so far, each message twice. */
const installs = async (): Promise<number> => {
	const messages = world.deps.sent.filter((message) => message.kind === "device_events");
	await consume(world.deps, { messages: [...messages, ...messages].map((body) => ({ body })) as never });
	world.deps.sent.length = 0;
	const row = await REPORTS.prepare("SELECT sum(install_count) AS installs FROM daily_totals WHERE app_id = ?")
		.bind(app.uuid)
		.first<{ installs: number | null }>();
	return row?.installs ?? 0;
};

const SECONDS = Math.floor(NOW_MS / 1000);
const CASES: readonly (readonly [what: string, timestamp: unknown, remark: object])[] = [
	["milliseconds", NOW_MS, {}],
	["milliseconds as text", String(NOW_MS), {}],
	["seconds", SECONDS, {}],
	["seconds as text", String(SECONDS), {}],
	["seconds with a fraction", SECONDS + 0.25, {}],
	["seconds of yesterday", SECONDS - 86_400, {}],
	["a date and time", new Date(NOW_MS).toISOString(), {}],
	["no time", undefined, {}],
	["text that is no time", "soon", {}],
	["an empty text", "", {}],
	["zero", 0, {}],
	["a negative number", -5, {}],
	["a number before 2000 in every unit", 12_345, {}],
	["an hour ahead", NOW_MS + 3_600_000, {}],
	["two days ahead", NOW_MS + 2 * DAY_MS, { note: "in_the_future" }],
	["a thousand years ahead", NOW_MS + 365_000 * DAY_MS, { note: "in_the_future" }],
	["microseconds", NOW_MS * 1000, { note: "in_the_future" }],
	["years ago", NOW_MS - 1_000 * DAY_MS, { not_counted: "too_old" }],
	["years ago in seconds", SECONDS - 1_000 * 86_400, { not_counted: "too_old" }],
	["the year 2000", Date.UTC(2000, 0, 2), { not_counted: "too_old" }],
];

describe("a report with", () => {
	test.each(CASES)("%s is counted, or its answer says that it is not", async (_, timestamp, remark) => {
		const message = Object.keys(remark).length === 0 ? {} : { message: expect.stringMatching(/^timestamp: .+\.$/) };
		const isCounted = !("not_counted" in remark);
		for (const isBatch of [false, true]) {
			const before = await installs();
			const report = event(timestamp);
			for (let repeated = 0; repeated < 2; repeated++) {
				const { status, body } = await world.request("POST", "/stats", { body: isBatch ? [report] : report });
				expect(status).toBe(200);
				const answer = { status: "ok", ...remark, ...message };
				expect(body).toEqual(isBatch ? { status: "ok", results: [{ index: 0, ...answer }] } : answer);
			}
			expect((await installs()) - before).toBe(isCounted ? 1 : 0);
		}
	});
});
