/** Faults of D1, R2 and the Queue in the background work and in the Worker's entry points. */

import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { consume } from "../../../src/consumer";
import { openDb, query } from "../../../src/db/client";
import type { Deps, Env } from "../../../src/deps";
import { DAY_MS } from "../../../src/domain/time";
import type { QueueMessage } from "../../../src/messages";
import { JOBS, runJobs } from "../../../src/schedule";
import worker from "../../../src/worker";
import { IS_PROOF } from "../../proof-sample";
import {
	deltaName,
	locationOf,
	patterned,
	register,
	run,
	storedKeys,
	tusCreate,
	tusPatch,
	zipName,
} from "../support/bytes";
import { changesBetween, databaseText, emptyDatabase } from "../support/database-text";
import { FAULT_MARK, type FaultKind, type FaultyService, withFault } from "../support/faults";
import { violations } from "../support/invariants";
import { openReports, reportQuery, reportsOf } from "../support/reports";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;

/** Shared by the endpoints that do not delete the app. */
let app: TestApp;

// The ledger of `wrangler d1 migrations apply`.
beforeAll(() => testEnv.DB.exec("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)"));
afterAll(() => testEnv.DB.exec("DROP TABLE d1_migrations"));

beforeEach(async () => {
	await emptyDatabase();
	world = await createWorld();
	app = await createTestApp(world);
});

/** The one body of every fault. */
const UNAVAILABLE = {
	error: "service_unavailable",
	message: "A storage service did not answer; try again after the seconds in Retry-After.",
	moreInfo: { retryAfterSeconds: 5 },
	status: "KO",
	requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
};

describe("the background work", () => {
	const garbageAt = (nowMs: number) =>
		run(
			query
				.insertInto("garbage_objects")
				.values({ object_prefix: `${app.uuid}/gone/`, created_at_ms: nowMs, due_at_ms: nowMs }),
		);

	/**
	 * A secret that signs from forty days on, when `prepareWork` is done: what is sealed before that
	 * is sealed again.
	 */
	const ROTATING = { CAPSTAN_SECRET_2: `${"a7".repeat(32)}@${(NOW_MS + DAY_MS) / 1000}` };
	beforeEach(async () => {
		world = await createWorld({ config: ROTATING });
		app = await createTestApp(world);
	});

	/**
	 * Something to do for every step that is named here; a step without is only held to leave the
	 * others alone.
	 */
	async function prepareWork(): Promise<void> {
		const { adminKey } = world;
		await register(world, app, "2.0.0", adminKey);
		const half = locationOf(await tusCreate(world, adminKey, zipName(world, app, "2.0.0"), 100));
		await tusPatch(world, adminKey, half, 0, patterned(50));
		const file = locationOf(await tusCreate(world, adminKey, deltaName(world, app, "aa_main.js"), 10));
		await tusPatch(world, adminKey, file, 0, patterned(10));
		await uploadTestBundle(world, app, "0.9.0");
		await uploadTestBundle(world, app, "1.0.0");
		await run(query.updateTable("bundles").set({ delete_marked_at_ms: world.clock.nowMs }).where("name", "=", "1.0.0"));
		await garbageAt(world.clock.nowMs);
		await testEnv.BUNDLES.put(`${app.uuid}/gone/object`, "x");
		const { adminKey: key } = world;
		await world.request("POST", "/organization/members", {
			key,
			body: { orgId: world.orgId, email: "guest@example.com", role: "org_member" },
		});
		for (let count = 0; count < 2; count++) {
			const made = await world.request("PUT", "/organization", { key, body: { name: "doomed" } });
			await world.request("DELETE", "/organization", { key, query: { orgId: made.body.id } });
		}
		await world.request("POST", "/apikey", {
			key,
			body: { name: "sealed", hashed: false, bindings: [] },
			query: { org_id: world.orgId },
		});
		world.clock.nowMs += 40 * DAY_MS;
		const old = { app_id: app.uuid, day: 1 };
		const device = { app_id: app.uuid, device_id: "d", version_name: "1.0.0" };
		const atMs = world.clock.nowMs;
		await reportsOf(app.uuid);
		await openReports().batch(
			[
				reportQuery.insertInto("counted_ids").values({ period: 1, ids: " a " }),
				reportQuery
					.insertInto("daily_counts")
					.values({ ...old, version_name: "", channel_name: "", metric: "get", amount: 1 }),
				reportQuery
					.insertInto("devices")
					.values({ ...device, last_seen_at_ms: 1, created_at_ms: 1, updated_at_ms: 1 } as never),
			].map((statement) => statement.compile()),
		);
		await run(
			query.insertInto("dead_messages").values({
				id: crypto.randomUUID(),
				kind: "collect_garbage",
				body: '{"kind":"collect_garbage"}',
				sent_at_ms: atMs,
				died_at_ms: atMs,
				resend: 1,
			}),
		);
	}

	test.each([
		"unfinished uploads",
		"clean-up marks",
		"unused delta files",
		"expired invitations",
		"deleted organizations",
		"expired bundles",
		"garbage",
		"storage",
		"old events",
		"old statistics",
		"old devices",
		"keys sealed by an older secret",
		"dead messages",
	])("has something to do in these tests for a job of the clean-up: %s", async (step) => {
		await prepareWork();
		const before = await databaseText();
		await JOBS[step]?.(world.deps);
		expect(await databaseText()).not.toBe(before);
	});

	/** In turn for the first call of each job; in test:proof each of them for every call. */
	const waysToFail: readonly (readonly FaultKind[])[] = IS_PROOF
		? [["refused"], ["answer lost"]]
		: [["refused", "answer lost"]];
	/**
	 * Calls of a job that fail in turn, and how many failures there are from one look at the other
	 * jobs to the next.
	 */
	const [mostCalls, looksEvery] = IS_PROOF ? [30, 1] : [1, 4];

	test.each(waysToFail)(
		"of the clean-up: a step that fails (%s) keeps no other from its turn, and the run has failed",
		async (...kinds) => {
			const failedSteps = new Set<string>();
			let failures = 0;
			for (const [step, job] of Object.entries(JOBS)) {
				for (let failAt = 1; failAt <= mostCalls; failAt++) {
					await emptyDatabase();
					world = await createWorld({ config: ROTATING });
					app = await createTestApp(world);
					await prepareWork();
					const log: string[] = [];
					let faulty: FaultyService | undefined;
					const deps: Deps = { ...world.deps, log: (...line) => log.push(JSON.stringify(line)) };
					// Only this job sees the fault, and its statements share the round trips of the others.
					const failing = (given: Deps) => {
						const kind = kinds[failures % kinds.length] ?? "refused";
						faulty = withFault({ ...world, deps: { ...world.deps, ...given } }, failAt, kind, failAt);
						return job(faulty.deps);
					};
					const outcome = await runJobs(deps, { [step]: failing }).then(
						() => "done",
						(error: Error) => error.message,
					);
					if (faulty?.failed === undefined) {
						expect(outcome).toBe("done");
						break;
					}
					const facts = { work: "jobs", step, cause: expect.stringContaining(FAULT_MARK) };
					expect(log.map((line) => JSON.parse(line))).toEqual([["error", "step_failed", facts]]);
					expect(outcome).toBe(`jobs failed: ${step}`);
					failedSteps.add(step);
					failures += 1;
					if (failures % looksEvery > 0) continue;
					const after = await databaseText();
					for (const [name, again] of Object.entries(JOBS)) if (name !== step) await again(world.deps);
					expect(await databaseText(), `a job was not done, because ${step} failed at call ${failAt}`).toBe(after);
					await runJobs(world.deps);
					expect(await violations(app.uuid)).toEqual([]);
				}
			}
			expect([...failedSteps]).toEqual(Object.keys(JOBS));
		},
	);

	test.each(["refused", "answer lost"] as const)(
		"of the clean-up: a round trip of many jobs that fails (%s) is repeated by each of them alone",
		async (kind) => {
			await prepareWork();
			// The first one is that of the triggers.
			const faulty = withFault(world, 2, kind);
			await runJobs(faulty.deps);
			expect(faulty.failed).toBe("d1.batch");
			const after = await databaseText();
			for (const again of Object.values(JOBS)) await again(world.deps);
			expect(await databaseText()).toBe(after);
			expect(await violations(app.uuid)).toEqual([]);
		},
	);

	test("of the clean-up: a statement that fails stops no other of its round trip", async () => {
		await prepareWork();
		const broken = ({ d1 }: Deps) => openDb(d1, "first-primary").batch([sql`SELECT missing`.compile(query)]);
		const failed = runJobs(world.deps, { "change feed": broken, "old sign-ins": broken });
		await expect(failed).rejects.toThrow("jobs failed: change feed, old sign-ins");
		const after = await databaseText();
		for (const again of Object.values(JOBS)) await again(world.deps);
		expect(await databaseText()).toBe(after);
	});

	const messages = (): QueueMessage[] => [
		{ kind: "collect_garbage" },
		{ kind: "key_used", keyId: world.adminKeyId, orgId: world.orgId, atMs: world.clock.nowMs },
	];
	const batchOf = (bodies: readonly QueueMessage[]) =>
		createMessageBatch<QueueMessage>(
			"capstan-events",
			bodies.map((body, index) => ({ id: String(index), timestamp: new Date(0), body, attempts: 1 })),
		);

	test.each(["refused", "answer lost"] as const)(
		"of the Queue: whatever call fails (%s), the batch is delivered again, the rest of it was done, and the next delivery does it all",
		async (kind) => {
			const prepareMessages = async () => {
				await emptyDatabase();
				world = await createWorld();
				app = await createTestApp(world);
				await garbageAt(0);
				await testEnv.BUNDLES.put(`${app.uuid}/gone/object`, "x");
				return databaseText();
			};
			const before = await prepareMessages();
			const unharmed = withFault(world, 0, kind);
			await consume(unharmed.deps, batchOf(messages()));
			const whole = await changesBetween(before, await databaseText());
			expect(whole).toHaveLength(2);
			expect(unharmed.calls).toContain("r2.delete");

			for (const [index, call] of unharmed.calls.entries()) {
				const start = await prepareMessages();
				const faulty = withFault(world, index + 1, kind, index);
				await expect(consume(faulty.deps, batchOf(messages()))).rejects.toThrow(
					/^[12] of the batch's messages failed$/,
				);
				expect(faulty.failed).toBe(call);
				expect(faulty.log.join("\n")).toContain(FAULT_MARK);
				expect((await changesBetween(start, await databaseText())).length, call).toBeGreaterThanOrEqual(1);
				await consume(world.deps, batchOf(messages()));
				expect(await changesBetween(start, await databaseText()), call).toEqual(whole);
				expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
			}
		},
	);
});

/** The entry itself; what it starts is kept for the whole isolate, so the settings come first. */
describe("the Worker", () => {
	const request = () => new Request("https://updates.example.com/app", { headers: { authorization: world.adminKey } });
	const fetching = (env: Env) =>
		worker.fetch(request() as Parameters<typeof worker.fetch>[0], env, createExecutionContext());

	test("with invalid settings answers 503 in the common shape, reveals no value, and recovers once they are valid", async () => {
		const lines: string[] = [];
		const error = vi.spyOn(console, "error").mockImplementation((line) => lines.push(String(line)));
		const wrong = { ...testEnv, CAPSTAN_SECRET: "nearly secret" };
		const response = await fetching(wrong);
		const body = await response.text();
		await expect(worker.scheduled({} as ScheduledController, wrong)).rejects.toThrow("CAPSTAN_SECRET");
		error.mockRestore();
		expect([response.status, response.headers.get("retry-after")]).toEqual([503, "60"]);
		expect(response.headers.get("content-type")).toBe("application/json");
		expect(response.headers.get("cache-control")).toBe("private, no-store");
		expect(Object.keys(JSON.parse(body))).toEqual(["error", "message", "moreInfo", "status", "requestId"]);
		expect(JSON.parse(body)).toMatchObject({ error: "service_unavailable", moreInfo: { retryAfterSeconds: 60 } });
		expect(body + lines.join()).not.toContain("nearly secret");
		expect(lines.join()).toContain("CAPSTAN_SECRET");
	});

	test("without a database answers 503, acknowledges no message and reports the clean-up as failed", async () => {
		const faulty = withFault(world, 0, "no session");
		const lines: string[] = [];
		const error = vi.spyOn(console, "error").mockImplementation((line) => lines.push(String(line)));
		const env = { ...testEnv, DB: faulty.deps.d1 };
		const response = await fetching(env);
		expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
		expect(await response.json()).toEqual(UNAVAILABLE);

		const batch = createMessageBatch<QueueMessage>("capstan-events", [
			{ id: "1", timestamp: new Date(0), body: { kind: "collect_garbage" }, attempts: 1 },
		]);
		await worker.queue(batch, env, createExecutionContext());
		const result = await getQueueResult(batch, createExecutionContext());
		expect(result).toMatchObject({
			ackAll: false,
			explicitAcks: [],
			retryMessages: [{ msgId: "1" }],
		});

		await expect(worker.scheduled({} as ScheduledController, env)).rejects.toThrow(/^jobs failed: /);
		error.mockRestore();
		expect(lines.join("\n")).toContain(FAULT_MARK);
	});
});
