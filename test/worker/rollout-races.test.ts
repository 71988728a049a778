/**
 * A rollout that two hold at once: a person and the service, two persons, and a consumer whose messages have nothing to do with the
 * rollout that cannot be stepped. Who comes second never does what was asked of another rollout.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../src/events/consumer";
import { stepRollouts } from "../../src/events/rollout-steps";
import { beforeSecondTrip, readThenWrite } from "./support/interleave";
import {
	app,
	audited,
	begin,
	change,
	check,
	deliver,
	fleetAsks,
	HOUR_MS,
	known,
	later,
	MINUTE_MS,
	messages,
	NEW,
	newId,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "./support/rollout-scene";
import { uploadTestBundle } from "./support/world";

beforeEach(prepareRollout);

const channel = async () =>
	(
		await world.request("GET", "/channel", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		})
	).body;
const changeWhile = (fields: Record<string, unknown>, between: () => ReturnType<typeof change>) =>
	readThenWrite(
		world,
		(racing) =>
			racing.request("POST", "/channel", {
				key: world.adminKey,
				body: { app_id: app.appId, channel: "production", ...fields },
			}),
		between,
	);

describe("a person whose rollout ends between the reading and the writing", () => {
	test.each([
		["promoting", { promoteToStable: true }],
		["setting the share", { rolloutPercentage: 50 }],
		["pausing", { rolloutPaused: true }],
	])("is told when %s, and nothing of it happens", async (_, fields) => {
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const answer = await changeWhile(fields, () => change({ rollback: true }));
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect(await channel()).toMatchObject({
			version: { name: STABLE },
			rolloutPercentageBps: 0,
			rolloutPausedAt: null,
		});
	});

	test("is told when promoting its bundle by PUT /bundle", async () => {
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const { id } = await channel();
		const answer = await readThenWrite(
			world,
			(racing) =>
				racing.request("PUT", "/bundle", {
					key: world.adminKey,
					body: { app_id: app.appId, version_id: newId, channel_id: id },
				}),
			() => change({ rollback: true }),
		);
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect((await show()).stableVersion).toBe(STABLE);
	});

	test("does not give the share of one rollout to another that was begun meanwhile", async () => {
		await uploadTestBundle(world, app, "1.2.0");
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const answer = await changeWhile({ rolloutPercentage: 100 }, () => change({ rolloutVersion: "1.2.0" }));
		expect(answer.status).toBe(409);
		expect(await show()).toMatchObject({ version: "1.2.0", percentageBps: 500 });
	});

	test("of two who begin the same rollout at once the second is told, and the devices of the first stay the ones", async () => {
		const rollout = { rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 };
		let first = "";
		const answer = await changeWhile(rollout, async () => {
			const begun = await change(rollout);
			first = (await show()).rollout_id;
			return begun;
		});
		expect(answer.status).toBe(409);
		expect((await show()).rollout_id).toBe(first);
	});
});

test("rollback and promoteToStable in one request are refused: the one is the opposite of the other", async () => {
	await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
	const answer = await change({ rollback: true, promoteToStable: true });
	expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
	expect(answer.body.moreInfo.issues[0].path).toBe("rollback");
	expect(await show()).toMatchObject({ state: "running", stableVersion: STABLE });
});

test.each([
	["turns the steps off", { rolloutSteps: null }],
	["asks for more devices", { rolloutStepMinDevices: 1_000 }],
	["lowers the limit", { autoPauseFailureRateBps: 10 }],
])("a person who %s while the service judges is not overruled", async (_, fields) => {
	const ids = await known(60);
	await begin({ rolloutSteps: [90, 100] });
	await fleetAsks(ids, new Map());
	later(HOUR_MS);
	const overtaken = beforeSecondTrip(world.deps.d1, () => change(fields));
	await stepRollouts({ ...world.deps, d1: overtaken.d1 });
	expect(overtaken.trips).toBe(2);
	expect((await show()).percentageBps).toBe(9_000);
	expect(await audited("channel.rollout_advance")).toEqual([]);
});

test("messages are done when the rollouts cannot be stepped: another app's rollout keeps nobody's events", async () => {
	const [device = ""] = await known(1);
	await begin({ rolloutSteps: [100] });
	later(2 * MINUTE_MS);
	await check(device);
	await report(device, "update_fail");
	const { d1 } = world.deps;
	let failed = 0;
	const failing = {
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare(text: string) {
					// The look for rollouts that are due.
					if (text.includes("checked_at_ms") && text.trimStart().startsWith("SELECT")) {
						failed += 1;
						throw new Error("D1_ERROR: too much of it");
					}
					return session.prepare(text);
				},
				batch: (statements: D1PreparedStatement[]) => session.batch(statements),
			};
		},
	} as unknown as D1Database;
	await consume({ ...world.deps, d1: failing }, { messages: messages().map((body) => ({ body })) });
	expect(failed).toBe(1);
	await deliver();
	expect((await show()).devices).toMatchObject({ served: 1, failed: 1 });
});
