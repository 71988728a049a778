/**
 * Concurrent changes of a rollout, by a person and the service or by two people: the second request
 * never applies to another rollout. A failure of one rollout does not hold up other events in the
 * consumer.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { stepRollouts } from "../../../src/features/rollouts/steps";
import { beforeSecondTrip, readThenWrite } from "../support/interleave";
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
	newId,
	prepareRollout,
	report,
	STABLE,
	show,
	world,
} from "../support/rollout-scene";
import { uploadTestBundle } from "../support/world";

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

describe("a request whose rollout ends in between", () => {
	test.each([
		["promoting", { promoteToStable: true }],
		["setting the share", { rolloutPercentage: 50 }],
		["pausing", { rolloutPaused: true }],
	])("is refused when %s, and changes nothing", async (_, fields) => {
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const answer = await changeWhile(fields, () => change({ rollback: true }));
		expect(answer).toMatchObject({ status: 409, body: { error: "channel_changed" } });
		expect(await channel()).toMatchObject({
			version: { name: STABLE },
			rolloutPercentageBps: 0,
			rolloutPausedAt: null,
		});
	});

	test("is refused when promoting its bundle by PUT /bundle", async () => {
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

	test("does not apply its share to another rollout that started in between", async () => {
		await uploadTestBundle(world, app, "1.2.0");
		await change({ rolloutVersion: NEW, rolloutEnabled: true, rolloutPercentage: 5 });
		const answer = await changeWhile({ rolloutPercentage: 100 }, () =>
			change({ rolloutVersion: "1.2.0", advanceRollout: true }),
		);
		expect(answer.status).toBe(409);
		expect(await show()).toMatchObject({ version: "1.2.0", percentageBps: 500 });
	});

	test("refuses the second of two concurrent starts, and keeps the cohort of the first", async () => {
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

test("POST /channel refuses rollback together with promoteToStable", async () => {
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
])("the service does not overrule a person who %s while it judges", async (_, fields) => {
	const ids = await known(60);
	await begin({ rolloutSteps: [90, 100] });
	await fleetAsks(ids, new Map());
	later(HOUR_MS);
	const interleaved = beforeSecondTrip(world.deps.d1, () => change(fields));
	await stepRollouts({ ...world.deps, d1: interleaved.d1 });
	expect(interleaved.trips).toBe(2);
	expect((await show()).percentageBps).toBe(9_000);
	expect(await audited("channel.rollout_advance")).toEqual([]);
});

test("the consumer acknowledges events if a rollout cannot be judged", async () => {
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
					// The read of due rollouts.
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
