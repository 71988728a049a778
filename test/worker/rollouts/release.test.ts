/**
 * GET /release: its figures are those of devices that asked and reported, each with its population,
 * and names are only for readers of the audit log.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { HOUR_MS } from "../../../src/domain/time";
import {
	app,
	begin,
	change,
	check,
	deliver,
	fleetAsks,
	known,
	later,
	NEW,
	prepareRollout,
	report,
	STABLE,
	world,
} from "../support/rollout-scene";
import { createTestKey } from "../support/world";

beforeEach(prepareRollout);

const query = () => ({ app_id: app.appId, channel: "production" });
const newest = async (): Promise<string> => {
	const { body } = await world.request("GET", "/channel/history", { key: world.adminKey, query: query() });
	return String(body[0].release_id);
};
const release = async (id?: string, key = world.adminKey) =>
	world.request("GET", "/release", { key, query: { ...query(), id: id ?? (await newest()) } });
const shown = async (id?: string) => {
	const { status, body } = await release(id);
	expect(status, JSON.stringify(body)).toBe(200);
	return body;
};

describe("GET /release of a rollout", () => {
	test("counts devices by their last report, and those of each step apart", async () => {
		const fleet = await known(40);
		const running = new Map<string, string>();
		await begin({ rolloutSteps: null, rolloutPercentage: 50, rolloutDevicesPerNetwork: null });
		const first = await fleetAsks(fleet, running);
		later(HOUR_MS);
		await change({ rolloutPercentage: 100 });
		later(1000);
		const rest = fleet.filter((id) => !first.includes(id));
		const failing = rest.slice(0, 3);
		await fleetAsks(failing, running, "update_fail");
		await fleetAsks(rest.slice(3, -2), running);
		// These two are offered the bundle and do not report.
		for (const id of rest.slice(-2)) await check(id);
		await deliver();
		const answer = await shown();
		expect(answer).toMatchObject({
			version: NEW,
			state: "ready_to_finish",
			percentage_bps: 10_000,
			before: { version: STABLE },
			after: null,
			devices: { offered: 40, running: 35, failed: 3, not_reported: 2, counted: 40, complete: true },
			failures: { population: "devices", release: { failed: 3, of: 38 }, before: null },
		});
		expect(answer.steps).toMatchObject([
			{ percentage_bps: 5000, failed: 0, of: first.length },
			{ percentage_bps: 10_000, failed: 3, of: 38 - first.length, until: null },
		]);

		await change({ promoteToStable: true });
		const finished = await shown();
		expect(finished).toMatchObject({ id: answer.id, state: "live", failures: { release: { failed: 3, of: 38 } } });
		expect(finished.steps[1].until).toBe(finished.live_at);
	});

	test("is paused by the service or by a person", async () => {
		const fleet = await known(60);
		await begin({ rolloutSteps: null, rolloutPercentage: 100, autoPauseEnabled: true, autoPauseMinFailures: 5 });
		await change({ rolloutPaused: true });
		expect(await shown()).toMatchObject({ state: "paused", paused_by: "person", pause_reason: null });
		await change({ rolloutPaused: false });
		later(1000);
		await fleetAsks(fleet, new Map(), "update_fail");
		const paused = await shown();
		expect(paused).toMatchObject({ state: "paused", paused_by: "service" });
		expect(paused.pause_reason).toContain("devices failed");
		expect(paused.entries.map(({ action }: { action: string }) => action)).toEqual([
			"rollout_paused",
			"rollout_resumed",
			"rollout_paused",
			"rollout_started",
		]);
	});
});

describe("GET /release of a bundle for every device", () => {
	test("counts installs, and those of the release before in the same population", async () => {
		const fleet = await known(10);
		await change({ version: NEW });
		later(1000);
		for (const id of fleet.slice(0, 7)) await report(id, "set");
		for (const id of fleet.slice(7, 9)) await report(id, "update_fail");
		await deliver();
		expect(await shown()).toMatchObject({
			state: "live",
			devices: null,
			steps: [],
			failures: { population: "installs", release: { failed: 2, of: 9 }, before: null },
		});
	});
});

test("hides names of people and keys from a caller without app.read_audit", async () => {
	await change({ version: NEW });
	const id = await newest();
	const key = await createTestKey(world, "app_preview", app);
	const { body } = await release(id, key.text);
	expect(body.actor).toMatchObject({ type: "api_key", name: null });
	expect(body.entries[0].actor.name).toBeNull();
	expect((await shown(id)).actor.name).not.toBeNull();
});

test("is found by its version, of which it is the newest release", async () => {
	const first = await newest();
	expect((await shown(STABLE)).id).toBe(Number(first));
	await change({ version: NEW });
	later(1000);
	await world.request("POST", "/channel/rollback", { key: world.adminKey, body: query() });
	const again = await shown(STABLE);
	expect(again).toMatchObject({ state: "live", before: { version: NEW } });
	expect(again.id).toBeGreaterThan(Number(first));
	expect(await shown(first)).toMatchObject({ id: Number(first), state: "replaced" });
	expect(await shown(NEW)).toMatchObject({ state: "rolled_back", after: { id: again.id, version: STABLE } });
});

test("a release of another channel, or of none, is not found", async () => {
	const id = await newest();
	await world.request("POST", "/channel", { key: world.adminKey, body: { app_id: app.appId, channel: "beta" } });
	const other = { app_id: app.appId, channel: "beta", id };
	expect(await world.request("GET", "/release", { key: world.adminKey, query: other })).toMatchObject({
		status: 404,
		body: { error: "release_not_found" },
	});
	expect((await release("999999999")).status).toBe(404);
	expect((await release("9.9.9")).status).toBe(404);
	expect((await release("")).status).toBe(400);
});
