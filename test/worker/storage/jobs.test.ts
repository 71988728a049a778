/**
 * The scheduled clean-up and the queue consumer: what nobody finished is given up, what nobody uses is
 * removed, and what is alive stays. Both may fail, be repeated and overlap.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { query } from "../../../src/db/client";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import type { QueueMessage } from "../../../src/messages";
import { collectGarbage } from "../../../src/queue/garbage";
import { runJobs } from "../../../src/schedule";
import { removeAll } from "../../../src/storage/objects";
import {
	deltaName,
	locationOf,
	patterned,
	putBytes,
	register,
	rows,
	run,
	storedKeys,
	tusCreate,
	tusPatch,
	zipName,
} from "../support/bytes";
import { withFault } from "../support/faults";
import { violations } from "../support/invariants";
import { createTestApp, createWorld, type TestApp, testEnv, uploadTestBundle, type World } from "../support/world";
import { bundleOf } from "../support/zip";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const namesOf = async (status: string) =>
	(
		await rows(
			query
				.selectFrom("bundles")
				.select("name")
				.where("app_id", "=", app.uuid)
				.where("status", "=", status as "ready")
				.orderBy("name"),
		)
	).map((row) => row.name);
const garbageOf = (uuid = app.uuid) =>
	rows(query.selectFrom("garbage_objects").selectAll().where("object_prefix", "like", `${uuid}/%`));

/** A registration with half its bytes. */
async function beginHalf(version: string): Promise<string> {
	await register(world, app, version, world.adminKey);
	const location = locationOf(await tusCreate(world, world.adminKey, zipName(world, app, version), 200));
	await tusPatch(world, world.adminKey, location, 0, bundleOf(200).slice(0, 100));
	return location;
}

async function storeFile(file: string): Promise<void> {
	const location = locationOf(await tusCreate(world, world.adminKey, deltaName(world, app, file), 10));
	expect((await tusPatch(world, world.adminKey, location, 0, patterned(10))).status).toBe(204);
}

const filesOf = async () =>
	(await rows(query.selectFrom("delta_objects").select("path").where("app_id", "=", app.uuid).orderBy("path"))).map(
		(row) => row.path.split("/").at(-1),
	);

describe("an upload or registration that expired", () => {
	test("is deleted to the millisecond with rows, bytes and name; ready and open ones stay", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await beginHalf("2.0.0");
		await register(world, app, "2.0.1", world.adminKey);
		world.clock.nowMs += 1;
		const later = await beginHalf("3.0.0");
		world.clock.nowMs += DAY_MS - 2;
		await runJobs(world.deps);
		expect(await namesOf("pending")).toEqual(["2.0.0", "2.0.1", "3.0.0"]);

		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await namesOf("pending")).toEqual(["3.0.0"]);
		expect(await namesOf("ready")).toEqual(["1.0.0"]);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(2);
		expect(await violations(app.uuid)).toEqual([]);

		expect((await tusPatch(world, world.adminKey, later, 100, bundleOf(200).slice(100))).status).toBe(204);
		expect(await namesOf("ready")).toEqual(["1.0.0", "3.0.0"]);
		await uploadTestBundle(world, app, "2.0.0");
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("a registration lives as long as its latest upload", async () => {
		await register(world, app, "1.0.0", world.adminKey);
		world.clock.nowMs += DAY_MS - HOUR_MS;
		const location = await beginHalf("1.0.0");
		world.clock.nowMs += DAY_MS - HOUR_MS;
		await runJobs(world.deps);
		expect((await tusPatch(world, world.adminKey, location, 100, bundleOf(200).slice(100))).status).toBe(204);
		expect(await namesOf("ready")).toEqual(["1.0.0"]);
	});

	test("more than one run can delete is deleted by the next runs, and a repeated run changes nothing", async () => {
		const uploads = Array.from({ length: 250 }, (_, index) => ({
			id: crypto.randomUUID(),
			app_id: app.uuid,
			bundle_id: null,
			delta_path: `orgs/x/apps/y/delta/${index}`,
			object_prefix: `${app.uuid}/many-${index}/`,
			length_bytes: 5,
			created_by: world.userId,
			created_by_key: world.adminKeyId,
			completed_at_ms: null,
			expires_at_ms: world.clock.nowMs,
			created_at_ms: 0,
		}));
		await run(...uploads.map((upload) => query.insertInto("uploads").values(upload)));
		await Promise.all(
			uploads.map(({ object_prefix }) => testEnv.BUNDLES.put(`${object_prefix}segment-0000000000000`, "x")),
		);
		const left = async () =>
			(await rows(query.selectFrom("uploads").select("id").where("app_id", "=", app.uuid))).length;
		await runJobs(world.deps);
		expect(await left()).toBe(50);
		expect(await violations(app.uuid)).toEqual([]);
		await runJobs(world.deps);
		expect(await left()).toBe(0);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		const before = await garbageOf();
		await runJobs(world.deps);
		expect(await garbageOf()).toEqual(before);
		for (let run = 0; run < 2; run++) {
			world.clock.nowMs += DAY_MS;
			await runJobs(world.deps);
		}
		expect(await violations(app.uuid, { settled: true })).toEqual([]);
	});
});

describe("garbage", () => {
	test("stays until R2 has removed it, and is retried by every run", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const kept = await storedKeys(`${app.uuid}/`);
		const down = { ...world.deps, bundles: failing(["delete"]) };
		const deleting = withFault({ ...world, deps: { ...down, sent: [] } }, 0, "refused");
		const deleted = await deleting.request("DELETE", "/bundle", {
			key: world.adminKey,
			query: { app_id: app.appId, version: "1.0.0" },
		});
		expect(deleted.status).toBe(200);
		for (const bundles of [failing(["delete"]), failing(["list"])]) {
			await expect(runJobs({ ...world.deps, bundles })).rejects.toThrow("jobs failed: garbage");
			expect(await storedKeys(`${app.uuid}/`)).toEqual(kept);
			expect(await violations(app.uuid)).toEqual([]);
		}
		await runJobs(world.deps);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
	});

	test("one prefix that R2 fails to remove does not delay the others", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		await uploadTestBundle(world, app, "1.0.1");
		const [stubborn] = await storedKeys(`${app.uuid}/`);
		await run(
			...(await storedKeys(`${app.uuid}/`)).map((object_prefix) =>
				query.insertInto("garbage_objects").values({ object_prefix, created_at_ms: 0, due_at_ms: 0 }),
			),
		);
		const bundles = failing(["list"], (given) => given.prefix === stubborn);
		await expect(collectGarbage({ ...world.deps, bundles })).rejects.toThrow();
		expect(await storedKeys(`${app.uuid}/`)).toEqual([stubborn]);
		expect((await garbageOf()).find((row) => row.object_prefix === stubborn)?.due_at_ms).toBe(0);
	});

	test("is checked a second time a day later, and then deleted", async () => {
		await beginHalf("1.0.0");
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
		const [row] = await garbageOf();
		expect(row?.due_at_ms).toBe(world.clock.nowMs + DAY_MS);
		// A request that was still sending stores its piece now.
		await testEnv.BUNDLES.put(`${row?.object_prefix}segment-0000000000050`, "late");
		world.clock.nowMs += DAY_MS - 1;
		await runJobs(world.deps);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(1);
		expect(await violations(app.uuid)).toEqual([]);
		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		expect(await garbageOf()).toEqual([]);
	});

	test("of an app with more objects than R2 lists or deletes at once is removed whole", async () => {
		const keys = Array.from({ length: 1100 }, (_, index) => `${app.uuid}/many/${index}`);
		for (let start = 0; start < keys.length; start += 100) {
			await Promise.all(keys.slice(start, start + 100).map((key) => testEnv.BUNDLES.put(key, "")));
		}
		const calls: number[] = [];
		const bundles = {
			list: (options: R2ListOptions) => testEnv.BUNDLES.list(options),
			delete: async (given: string[]) => {
				calls.push(given.length);
				// R2 itself refuses this; the local stand-in takes any number.
				if (given.length > 1000) throw new Error("delete: too many keys (10013)");
				await testEnv.BUNDLES.delete(given);
			},
		} as unknown as R2Bucket;
		await removeAll(bundles, `${app.uuid}/`);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		expect(calls).toEqual([1000, 100]);
	});
});

describe("files of the delta store", () => {
	test("unused for a day are deleted with their bytes; used and recently claimed ones stay", async () => {
		await storeFile("aa_unused.js");
		await storeFile("bb_used.js");
		await tusCreate(world, world.adminKey, deltaName(world, app, "00_empty"), 0);
		world.clock.nowMs += 1;
		await storeFile("cc_claimed.js");
		const bundleId = await uploadTestBundle(world, app, "1.0.0");
		await run(
			query.insertInto("bundle_files").values({
				bundle_id: bundleId,
				app_id: app.uuid,
				file_name: "main.js",
				file_hash: "bb",
				path: `${world.adminKeyId}:${deltaName(world, app, "bb_used.js")}`,
			}),
		);
		world.clock.nowMs += DAY_MS - 2;
		await runJobs(world.deps);
		expect(await filesOf()).toEqual(["00_empty", "aa_unused.js", "bb_used.js", "cc_claimed.js"]);
		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await filesOf()).toEqual(["bb_used.js", "cc_claimed.js"]);
		expect(await violations(app.uuid)).toEqual([]);
		// An empty one that is stored again while the garbage of the first is due has its object.
		await tusCreate(world, world.adminKey, deltaName(world, app, "00_empty"), 0);
		world.clock.nowMs += DAY_MS - 1;
		await runJobs(world.deps);
		expect(await filesOf()).toEqual(["00_empty", "bb_used.js"]);
		expect(await violations(app.uuid)).toEqual([]);
	});
});

describe("the mark of a clean-up in two calls", () => {
	test("is removed after an hour, and the bundle stays", async () => {
		const id = await uploadTestBundle(world, app, "1.0.0");
		await run(query.updateTable("bundles").set({ delete_marked_at_ms: world.clock.nowMs }).where("id", "=", id));
		const mark = async () =>
			(await rows(query.selectFrom("bundles").select("delete_marked_at_ms").where("id", "=", id)))[0]
				?.delete_marked_at_ms;
		world.clock.nowMs += HOUR_MS - 1;
		await runJobs(world.deps);
		expect(await mark()).toBe(world.clock.nowMs - HOUR_MS + 1);
		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await mark()).toBeNull();
		expect(await namesOf("ready")).toEqual(["1.0.0"]);
	});
});

describe("the queue consumer", () => {
	const batch = (...kinds: string[]) =>
		({ messages: kinds.map((kind) => ({ body: { kind } })) }) as unknown as MessageBatch<QueueMessage>;

	test("removes garbage once per batch for any number of messages, and never without one", async () => {
		await uploadTestBundle(world, app, "1.0.0");
		const [key = ""] = await storedKeys(`${app.uuid}/`);
		await run(query.insertInto("garbage_objects").values({ object_prefix: key, created_at_ms: 0, due_at_ms: 0 }));
		const service = withFault(world, 0, "refused");
		await consume(service.deps, batch());
		expect(service.calls).toEqual([]);
		await consume(service.deps, batch("collect_garbage", "collect_garbage"));
		expect(service.calls.filter((call) => call === "d1.batch")).toHaveLength(2);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
	});

	test("requests another round if garbage remains", async () => {
		await run(
			...Array.from({ length: 201 }, (_, index) =>
				query
					.insertInto("garbage_objects")
					.values({ object_prefix: `${app.uuid}/many-${index}/`, created_at_ms: 1, due_at_ms: 1 }),
			),
		);
		await consume(world.deps, batch("collect_garbage"));
		expect(world.deps.sent).toEqual([{ kind: "collect_garbage" }]);
		await consume(world.deps, batch("collect_garbage"));
		expect(world.deps.sent).toHaveLength(1);
		expect((await garbageOf()).every((row) => row.due_at_ms === world.clock.nowMs + DAY_MS)).toBe(true);
	});

	test("fails with the database, so the Queue delivers the batch again", async () => {
		const service = withFault(world, 1, "refused");
		await expect(consume(service.deps, batch("collect_garbage"))).rejects.toThrow();
	});
});

test("the clean-up reads by index only", async () => {
	const seen: string[] = [];
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = testEnv.DB.withSession(constraint);
			return {
				prepare: (text: string) => ({
					bind: (...values: unknown[]) => ({ text, values, statement: session.prepare(text).bind(...values) }),
				}),
				async batch(statements: { text: string; values: unknown[]; statement: D1PreparedStatement }[]) {
					for (const { text, values } of statements) {
						const plan = await testEnv.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
							.bind(...values)
							.all<{ detail: string }>();
						seen.push(...plan.results.map((row) => row.detail));
					}
					return session.batch(statements.map(({ statement }) => statement));
				},
			};
		},
	} as unknown as D1Database;
	await runJobs({ ...world.deps, d1 });
	expect(seen.length).toBeGreaterThan(5);
	expect(
		seen.filter((step) =>
			// Open uploads and pending bundles are few, and have an index.
			/^SCAN (?!bundles USING INDEX bundles_pending|uploads USING INDEX uploads_open)(old|uploads|bundles|delta_objects|garbage_objects|bundle_files|organizations|invitations|audit_log|devices|daily_\w+|counted_\w+)/.test(
				step,
			),
		),
	).toEqual([]);
	// Only the clean-up of data with an index per app scans all apps.
	expect(seen.filter((step) => /^SCAN (apps|own)\b/.test(step)).length).toBeLessThanOrEqual(12);
});

test("used and unused links leave nothing after their day", async () => {
	await register(world, app, "1.0.0", world.adminKey);
	const used = await register(world, app, "1.0.1", world.adminKey);
	await putBytes(world, used.body.upload_url, bundleOf(130));
	for (let day = 0; day < 2; day++) {
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
		// The tests before left more than one run's worth.
		while (await collectGarbage(world.deps));
	}
	expect(await namesOf("ready")).toEqual(["1.0.1"]);
	expect(await violations(app.uuid, { settled: true })).toEqual([]);
});

/** A bucket whose named methods fail, all calls or those that `when` picks. */
function failing(methods: string[], when: (given: R2ListOptions) => boolean = () => true): R2Bucket {
	return new Proxy(testEnv.BUNDLES, {
		get(bucket, name) {
			const value: unknown = Reflect.get(bucket, name);
			if (typeof value !== "function") return value;
			return (...given: unknown[]) => {
				if (methods.includes(String(name)) && when(given[0] as R2ListOptions)) {
					return Promise.reject(new Error("We encountered an internal error. Please try again. (10001)"));
				}
				return value.apply(bucket, given);
			};
		},
	});
}
