/**
 * A rollout after its channel, bundle or organization is deleted or restored, beside another
 * channel with the same bundle, the rows that it costs, and the entries that its automatic steps
 * write to the channel's history.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS } from "../../../src/domain/time";
import { recordSamples } from "../../../src/features/rollouts/samples";
import { isRolloutEvent, rolloutDeviceKey } from "../../../src/messages";
import { runJobs } from "../../../src/schedule";
import { historyViolations } from "../support/invariants";
import {
	app,
	audited,
	begin,
	change,
	check,
	deliver,
	fleetAsks,
	known,
	later,
	messages,
	NEW,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";
import { setTestChannel, testEnv } from "../support/world";

beforeEach(prepareRollout);

const rowsOf = async (table: "rollouts" | "rollout_devices") => {
	const of =
		table === "rollouts"
			? "SELECT id FROM rollouts WHERE app_id = ?"
			: "SELECT device_id FROM rollout_devices JOIN rollouts ON rollouts.id = rollout_id WHERE app_id = ?";
	return (await testEnv.DB.prepare(of).bind(app.uuid).all()).results.length;
};

describe("an active rollout", () => {
	test("keeps its bundle from deletion, and is deleted with its channel, samples included", async () => {
		const ids = await known(5);
		await begin({ rolloutSteps: [100] });
		await fleetAsks(ids, new Map());
		const query = { app_id: app.appId };
		const remove = (path: string, fields: Record<string, string>) =>
			world.request("DELETE", path, { key: world.adminKey, query: { ...query, ...fields } });
		expect(await remove("/bundle", { version: NEW })).toMatchObject({ body: { error: "bundle_in_use" } });
		await remove("/bundle", { all: "true" });
		expect((await check(ids[0] ?? "", STABLE)).version).toBe(NEW);
		expect([await rowsOf("rollouts"), await rowsOf("rollout_devices")]).toEqual([1, 5]);

		expect((await remove("/channel", { channel: "production" })).status).toBe(200);
		expect([await rowsOf("rollouts"), await rowsOf("rollout_devices")]).toEqual([0, 0]);
		// Messages still in the Queue are about the deleted channel.
		await deliver();
		await runJobs(world.deps);
		expect((await remove("/bundle", { version: NEW })).status).toBe(200);
	});

	test("continues with keep_rollout beside a new stable bundle, which its devices get after a rollback", async () => {
		const [device = ""] = await known(1);
		await begin({ rolloutSteps: [100] });
		const { rollout_id } = await show();
		await change({ version: null, keep_rollout: true });
		expect((await show()).rollout_id).toBe(rollout_id);
		later(10_000);
		expect((await check(device, NEW)).error).toBe("no_new_version_available");
		await change({ rollback: true });
		later(10_000);
		expect(await check(device, NEW)).toEqual({ version: "builtin" });
		// The bundle may be deleted now, and the end of the rollout is still known.
		const removed = await world.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: NEW },
		});
		expect(removed.status).toBe(200);
		expect((await show()).previous).toMatchObject({ version: NEW, endedAs: "rolled_back" });
	});

	test("waits while its organization is deleted, and continues after it is restored", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100] });
		await fleetAsks(ids, new Map());
		await testEnv.DB.prepare("UPDATE organizations SET deleted_at_ms = ? WHERE id = ?")
			.bind(world.clock.nowMs, world.orgId)
			.run();
		later(HOUR_MS);
		await runJobs(world.deps);
		const share = async () =>
			(
				await testEnv.DB.prepare("SELECT percentage_bps AS bps FROM rollouts WHERE app_id = ?")
					.bind(app.uuid)
					.first<{ bps: number }>()
			)?.bps;
		expect(await share()).toBe(9_000);
		await testEnv.DB.prepare("UPDATE organizations SET deleted_at_ms = NULL WHERE id = ?").bind(world.orgId).run();
		await runJobs(world.deps);
		expect(await share()).toBe(10_000);
		expect((await audited("channel.rollout_advance")).length).toBe(1);
	});

	test("returns its devices when it is turned off, and has the same ones when it is turned on", async () => {
		const ids = await known(60);
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 30 });
		const cohort = async (running: string) => {
			later(10_000);
			const inside: string[] = [];
			for (const id of ids) if ((await check(id, running)).version === NEW) inside.push(id);
			return inside;
		};
		const before = await cohort(STABLE);
		await change({ rolloutEnabled: false });
		later(10_000);
		for (const id of before) expect((await check(id, NEW)).version).toBe(STABLE);
		expect((await show()).state).toBe("off");
		await change({ rolloutEnabled: true });
		expect(await cohort(STABLE)).toEqual(before);
	});
});

test("a report counts for the rollout that offered the bundle, not for another channel's rollout of the same bundle", async () => {
	const ids = await known(4);
	await begin({ rolloutSteps: [100] });
	await setTestChannel(world, app, "beta", {
		version: STABLE,
		rolloutVersion: NEW,
		rolloutEnabled: true,
		rolloutPercentage: 100,
	});
	await fleetAsks(ids, new Map(), "update_fail");
	const beta = await world.request("GET", "/channel/rollout", {
		key: world.adminKey,
		query: { app_id: app.appId, channel: "beta" },
	});
	expect((await show()).devices).toMatchObject({ served: 4, failed: 4 });
	expect(beta.body.devices).toEqual({ served: 0, installed: 0, failed: 0, silent: 0 });
});

test("a device costs a few written rows in a rollout, for any number of messages", async () => {
	const ids = await known(50);
	await begin({ rolloutSteps: [100] });
	let written = 0;
	const { d1 } = world.deps;
	const counting = {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				async batch(statements: D1PreparedStatement[]) {
					const results = await session.batch(statements);
					for (const { meta } of results) written += meta.rows_written;
					return results;
				},
			};
		},
	} as unknown as D1Database;
	const rolloutEvents = () =>
		messages()
			.flatMap((message) => (message.kind === "device_events" ? message.events : []))
			.filter(isRolloutEvent);
	const costOf = async (events: ReturnType<typeof rolloutEvents>) => {
		written = 0;
		const knownSince = new Map(events.map((event) => [rolloutDeviceKey(event), 1]));
		await recordSamples({ ...world.deps, d1: counting }, events, knownSince);
		return written;
	};
	for (const id of ids) await check(id);
	const served = rolloutEvents();
	later(1_000);
	for (const id of ids) await report(id, "set");
	const reported = rolloutEvents();
	for (const id of ids) await check(id, NEW);
	const running = rolloutEvents();
	const costs = {
		served: await costOf(served),
		servedAgain: await costOf(served),
		reported: await costOf(reported),
		reportedAgain: await costOf(reported),
		running: await costOf(running),
	};
	// First the row and its index entry by network, then only the row.
	expect(costs).toEqual({ served: 100, servedAgain: 0, reported: 50, reportedAgain: 0, running: 0 });
});

describe("the automatic steps of a rollout", () => {
	const entries = async (): Promise<{ readonly reason: string | null }[]> =>
		(
			await world.request("GET", "/channel/history", {
				key: world.adminKey,
				query: { app_id: app.appId, channel: "production" },
			})
		).body ?? [];

	test("are entries by the service, with the reason", async () => {
		const ids = await known(60);
		await begin({ rolloutSteps: [90, 100], rolloutStepMinDevices: 10 });
		const running = new Map<string, string>();
		await fleetAsks(ids, running);
		later(HOUR_MS);
		await runJobs(world.deps);
		const [raised] = await entries();
		expect(raised).toMatchObject({
			action: "rollout_raised",
			version: NEW,
			previous_version: STABLE,
			rollout_percentage_bps: 10_000,
			actor: { type: "system", id: null },
		});
		expect(raised?.reason).toBeTruthy();
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test.each([
		["pause", "rollout_paused"],
		["rollback", "rollout_rolled_back"],
	])("are entries of the health gate for the action %s", async (autoPauseAction, action) => {
		const ids = await known(60);
		await begin({
			rolloutSteps: [100],
			autoPauseEnabled: true,
			autoPauseAction,
			autoPauseMinAttempts: 5,
			autoPauseMinFailures: 5,
		});
		await fleetAsks(ids, new Map(), "set_fail");
		await runJobs(world.deps);
		const [last] = await entries();
		expect(last).toMatchObject({ action, version: NEW, actor: { type: "system" } });
		expect(last?.reason).toBeTruthy();
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("are no entries while the rollout holds", async () => {
		await begin();
		const before = await entries();
		await runJobs(world.deps);
		expect(await entries()).toEqual(before);
	});
});
