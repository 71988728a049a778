/**
 * The health gate and what the plugin reports of a running bundle: a crashing and a hanging bundle
 * stop, a noisy one reaches every device, and nobody but devices that run the bundle has a say.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import {
	about,
	addressOf,
	audited,
	begin,
	check,
	deliver,
	deviceIds,
	known,
	later,
	NEW,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";

beforeEach(prepareRollout);

const RULES = {
	rolloutSteps: [50, 100],
	rolloutStepMinDevices: 5,
	autoPauseFailureRateBps: 2_000,
	autoPauseCrashRateBps: 2_000,
	autoPauseMinAttempts: 10,
	autoPauseMinFailures: 5,
};

const signal = (
	device: string,
	action: string,
	metadata: object = {},
	fields: object = {},
	address = addressOf(device),
) =>
	world.request("POST", "/stats", {
		body: about(device, { action, version_name: NEW, timestamp: world.clock.nowMs, metadata, ...fields }),
		headers: { "cf-connecting-ip": address },
	});

/** All ask, and those that are offered the bundle install it and then do something. */
async function live(ids: readonly string[], then: (device: string) => Promise<unknown>): Promise<string[]> {
	const offered: string[] = [];
	for (const id of ids) {
		if ((await check(id)).version !== NEW) continue;
		offered.push(id);
		await report(id, "set");
		later(10);
		await then(id);
	}
	await deliver();
	later(HOUR_MS);
	await runJobs(world.deps);
	return offered;
}

describe("the health gate and health signals", () => {
	test.each([
		["crashes", "app_crash_native"],
		["hangs", "app_anr"],
	])("stops a bundle that %s, and gives the reason", async (_, action) => {
		const ids = await known(80);
		await begin(RULES);
		const crash = (device: string) =>
			signal(device, action, { exit_timestamp: String(world.clock.nowMs - 5), pid: "7" });
		const offered = await live(ids, crash);
		const state = await show();
		expect(state).toMatchObject({ state: "paused", signals: { crashed: offered.length, errored: 0 } });
		expect(state.pauseReason).toMatch(
			new RegExp(
				`^${offered.length} of ${offered.length} devices crashed or stopped responding: .* the limit is 20 %\\.$`,
			),
		);
		expect(await audited("channel.rollout_pause")).toHaveLength(1);
	});

	test("lets a noisy but healthy bundle reach every device", async () => {
		const ids = await known(80);
		await begin(RULES);
		const offered = await live(ids, async (device) => {
			for (let index = 0; index < 3; index++) await signal(device, "webview_javascript_error", { message: `${index}` });
			await signal(device, "app_launch_ready", { duration_ms: "900" });
		});
		const state = await show();
		expect(state).toMatchObject({ state: "running", percentageBps: 10_000 });
		expect(state.signals).toEqual({ crashed: 0, errored: offered.length });
	});

	test("does not blame the bundle for a crash from before it was set", async () => {
		const ids = await known(4);
		await begin({ ...RULES, rolloutSteps: [100] });
		const [before = "", after = "", late = ""] = ids;
		for (const id of ids) await check(id);
		later(MINUTE_MS);
		const setAtMs = world.clock.nowMs;
		for (const id of [before, after]) await report(id, "set");
		later(MINUTE_MS);
		await signal(before, "app_crash_native", { exit_timestamp: String(setAtMs - 1_000) });
		await signal(after, "app_crash_native", { exit_timestamp: String(setAtMs + 1_000) });
		// The plugin reports the crash first, and then the bundle that it had set before the crash.
		await signal(late, "app_crash_native", { exit_timestamp: String(setAtMs + 2_000) });
		await world.request("POST", "/stats", {
			body: about(late, { action: "set", version_name: NEW, timestamp: setAtMs }),
			headers: { "cf-connecting-ip": addressOf(late) },
		});
		await deliver();
		expect(await show()).toMatchObject({ devices: { installed: 3, silent: 1 }, signals: { crashed: 2 } });
	});

	test("counts the crashes of devices that a script reported before", async () => {
		const ids = await known(20);
		await begin({ ...RULES, rolloutSteps: [100], autoPauseMinAttempts: 1_000 });
		for (const device of ids) await signal(device, "app_crash", {}, {}, "203.0.113.9");
		await live(ids, (device) => signal(device, "app_crash"));
		expect(await show()).toMatchObject({ devices: { installed: 20 }, signals: { crashed: 20 } });
	});

	test("ignores reports about devices that were never offered the bundle, and limits those from other networks", async () => {
		const ids = await known(20);
		// More devices than there are, so that the rollout does not finish.
		await begin({ ...RULES, rolloutSteps: [100], rolloutStepMinDevices: 30 });
		await live(ids, async () => undefined);
		for (const device of [...deviceIds(30), ...ids]) await signal(device, "app_crash", {}, {}, "203.0.113.9");
		for (const device of ids) await signal(device, "app_crash", {}, { version_name: STABLE });
		await deliver();
		later(HOUR_MS);
		await runJobs(world.deps);
		expect(await show()).toMatchObject({ state: "running", devices: { installed: 20 }, signals: { crashed: 3 } });
	});
});
