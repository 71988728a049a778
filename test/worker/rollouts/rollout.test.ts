/**
 * Rollouts that people control: shares, pauses, promotions, settings and the end of a rollout,
 * checked by the answers to devices.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import {
	app,
	audited,
	begin,
	change,
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
import { testEnv, uploadTestBundle } from "../support/world";

beforeEach(prepareRollout);

describe("a rollout that people control", () => {
	test("keeps its devices when the share grows, and has the same ones after lowering and raising it", async () => {
		const ids = deviceIds(200);
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const cohort = async (share: number) => {
			await change({ rolloutPercentage: share });
			const inside: string[] = [];
			for (const id of ids) if ((await check(id)).version === NEW) inside.push(id);
			return inside;
		};
		const five = await cohort(5);
		const twenty = await cohort(20);
		expect(five.length).toBeGreaterThan(0);
		expect(twenty.length).toBeGreaterThan(five.length);
		expect(five.filter((id) => !twenty.includes(id))).toEqual([]);
		expect(await cohort(5)).toEqual(five);
		expect(await cohort(20)).toEqual(twenty);
	});

	test("changes the next check on pause, resume, promotion and rollback, with audit entries", async () => {
		const [device = ""] = deviceIds(1);
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 100 });
		expect((await check(device)).version).toBe(NEW);
		await change({ rolloutPaused: true, rolloutPauseReason: "looking" });
		expect((await check(device)).kind).toBe("up_to_date");
		expect(await show()).toMatchObject({ state: "paused", pauseReason: "looking", next: null });
		await change({ rolloutPaused: false });
		expect((await check(device)).version).toBe(NEW);
		await change({ rollback: true });
		expect((await check(device, NEW)).version).toBe(STABLE);
		expect(await show()).toMatchObject({ state: "none", previous: { endedAs: "rolled_back" } });
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 1 });
		later(1_000);
		await change({ promoteToStable: true });
		expect((await check(device)).version).toBe(NEW);
		expect(await show()).toMatchObject({ state: "none", stableVersion: NEW, previous: { endedAs: "promoted" } });
		expect((await audited("channel.update")).length).toBe(6);
	});

	test("is followed by no older release, through any door, and is never one of the stable bundle", async () => {
		const between = await uploadTestBundle(world, app, "1.0.5");
		await uploadTestBundle(world, app, "1.2.0");
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 50 });
		const send = (method: string, path: string, body: object) =>
			world.request(method, path, { key: world.adminKey, body: { app_id: app.appId, ...body } });
		const { id: channel_id } = (await send("POST", "/channel", { channel: "production", ios: true })).body;
		for (const refused of [
			await send("POST", "/channel", { channel: "production", version: "1.0.5" }),
			await send("PUT", "/bundle", { version_id: between, channel_id }),
		]) {
			expect(refused).toMatchObject({ status: 409, body: { error: "rollout_running" } });
			expect(refused.body.message).toContain("keep_rollout");
		}
		expect((await change({ version: "1.0.5", keep_rollout: true })).status).toBe(200);
		later(1_000);
		expect((await change({ version: "1.2.0" })).body.rollout_ended).toMatchObject({ version: NEW });
		expect(await show()).toMatchObject({ state: "none", previous: { version: NEW, endedAs: "replaced" } });
		const refused = await change({ rolloutVersion: "1.2.0", rolloutEnabled: true });
		expect(refused).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "rolloutVersion" }] } } });
	});

	test("ends as promoted by PUT /bundle with its bundle, and as replaced by another rollout version", async () => {
		const other = await uploadTestBundle(world, app, "1.2.0");
		await change({ rolloutVersion: NEW, rolloutEnabled: false });
		later(1_000);
		await change({ rolloutVersion: "1.2.0", rolloutEnabled: true });
		expect(await show()).toMatchObject({ version: "1.2.0", previous: { version: NEW, endedAs: "replaced" } });
		const { body } = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		later(1_000);
		await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: other, channel_id: body.id },
		});
		expect(await show()).toMatchObject({ state: "none", previous: { version: "1.2.0", endedAs: "promoted" } });
	});

	test("continues from a share that a person sets between two steps, with a new step", async () => {
		await known(1);
		await begin();
		later(30 * MINUTE_MS);
		await change({ rolloutPercentage: 7 });
		const state = await show();
		expect(state.next.percentageBps).toBe(2_500);
		expect(Date.parse(state.next.at)).toBe(world.clock.nowMs + HOUR_MS);
	});

	test("accepts its settings in both spellings, shows them on the channel, and refuses wrong ones with the reason", async () => {
		await change({
			rollout_steps: [2.5, 50],
			auto_pause_confidence: 0.99,
			autoPauseAction: "rollback",
			auto_pause_action: "pause",
		});
		const { body } = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		expect(body).toMatchObject({ rolloutSteps: [2.5, 50], autoPauseConfidence: 0.99, autoPauseAction: "rollback" });
		await change({ rolloutSteps: null, rolloutDevicesPerNetwork: null, autoPauseWindowMinutes: 60 });
		const shown = await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		expect(shown.body).toMatchObject({
			rolloutSteps: null,
			rolloutDevicesPerNetwork: null,
			autoPauseWindowMinutes: 60,
		});
		for (const [fields, path] of [
			[{ rolloutSteps: [5, 5] }, "rolloutSteps"],
			[{ rolloutSteps: [0, 5] }, "rolloutSteps"],
			[{ rolloutSteps: [] }, "rolloutSteps"],
			[{ autoPauseConfidence: 1 }, "autoPauseConfidence"],
			[{ autoPauseAction: "explode" }, "autoPauseAction"],
		] as const) {
			const refused = await change(fields);
			expect(refused.status).toBe(400);
			expect(refused.body.moreInfo.issues[0].path).toBe(path);
		}
	});

	test("is kept for thirty days after its end, with its samples", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		await check(device);
		await deliver();
		await change({ rollback: true });
		later(30 * 24 * HOUR_MS - 1);
		await runJobs(world.deps);
		expect((await show()).previous).toMatchObject({ version: NEW });
		later(1);
		await runJobs(world.deps);
		expect((await show()).previous).toBe(null);
		const left = await testEnv.DB.prepare("SELECT 1 FROM rollout_devices WHERE device_id = ?").bind(device).all();
		expect(left.results).toEqual([]);
	});

	test("is deleted after that, for any number of rollouts and devices", async () => {
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
			INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms,
				judged_from_ms, ended_at_ms, ended_as)
			SELECT c.app_id || i, c.app_id, c.id, 0, 'old', 100, 0, ?1, ?1, ?1, ?1, 'replaced' FROM n, channels c WHERE c.app_id = ?2`,
		)
			.bind(world.clock.nowMs, app.uuid)
			.run();
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
			INSERT INTO rollout_devices (rollout_id, device_id, first_served_at_ms) SELECT ?1, 'd' || i, 0 FROM n`,
		)
			.bind(`${app.uuid}1`)
			.run();
		later(30 * 24 * HOUR_MS);
		await runJobs(world.deps);
		const left = await testEnv.DB.prepare("SELECT count(*) AS n FROM rollouts WHERE app_id = ?")
			.bind(app.uuid)
			.first<{ n: number }>();
		expect(left?.n).toBe(0);
	});

	test("ignores reports from before its window", async () => {
		const ids = await known(2);
		await begin({ rolloutSteps: [100], autoPauseWindowMinutes: 60 });
		for (const id of ids) await check(id);
		await report(ids[0] ?? "", "update_fail");
		await deliver();
		later(61 * MINUTE_MS);
		await report(ids[1] ?? "", "set");
		await deliver();
		expect((await show()).devices).toEqual({ served: 2, installed: 1, failed: 0, silent: 0 });
	});
});
