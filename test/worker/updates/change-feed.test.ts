/**
 * Several isolates over one database: a change reaches them by the change feed, for all apps with
 * one question in two seconds; a restored database, an outage and a hanging database are survived.
 * Each isolate is a separate application with its own memory.
 */
import { describe, expect, test } from "vitest";
import { STORED_WAIT_MS } from "../../../src/snapshots/freshness";
import { publishChanged } from "../../../src/snapshots/publish";
import { addTestFiles } from "../support/delta-files";
import { addOverrides, ask, isolate, loads, offered, publish, scene } from "../support/isolates";
import { type TestApp, testEnv, uploadTestBundle, type World } from "../support/world";

async function deltaBundle(world: World, app: TestApp, version: string): Promise<void> {
	const id = await uploadTestBundle(world, app, version);
	await addTestFiles(app, id, ["index.html", "a.js"]);
}

describe("a change in another isolate", () => {
	test("is asked for once for all apps, and only the changed one is read again", async () => {
		const { world, one, two, three } = await scene();
		const other = isolate(world);
		for (const app of [one, two, three]) await ask(other, app);
		other.asked();
		await publish(world, two, "1.0.2");
		world.clock.nowMs += 4_000;
		const versions = [await offered(other, one), await offered(other, two), await offered(other, three)];
		expect(versions).toEqual(["1.0.1", "1.0.2", "1.0.1"]);
		const asked = other.asked();
		expect(asked, "the feed; the app is read from R2").toHaveLength(1);
		expect(asked[0]).toHaveLength(1);
	});

	test.each([
		["costs no load from D1, because the request that made it published the app", false, [0, 0, 0, 0, 0]],
		[
			"costs one load from D1 after a pause, if the isolate that made it died before it published",
			true,
			[1, 0, 0, 0, 0],
		],
	])("%s", async (_, isLost, expected) => {
		const { world, one } = await scene();
		const pauses: number[] = [];
		// Longer ones are those of buffered events and of snapshots that are stored later.
		const delay = async (ms: number) => void (ms < 1_000 && pauses.push(ms));
		const others = Array.from({ length: 5 }, () => isolate(world, { delay }));
		for (const other of others) await ask(other, one);
		pauses.length = 0;
		await publish(world, one, "1.0.2");
		if (isLost) await testEnv.BUNDLES.delete(`snapshots/${one.appId}`);
		world.clock.nowMs += 4_000;
		for (const other of others) other.asked();
		for (const other of others) expect(await offered(other, one)).toBe("1.0.2");
		expect(others.map((other) => loads(other.asked()))).toEqual(expected);
		expect(pauses).toHaveLength(isLost ? 1 : 0);
		for (const ms of pauses) expect(ms).toBeLessThan(300);
	});

	test("whose stored snapshot cannot be read is loaded from D1, and stored again", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await ask(other, one);
		await publish(world, one, "1.0.2");
		const key = `snapshots/${one.appId}`;
		const stored = await testEnv.BUNDLES.head(key);
		await testEnv.BUNDLES.put(key, "not a snapshot", { customMetadata: stored?.customMetadata ?? {} });
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.2");
		expect(await (await testEnv.BUNDLES.get(key))?.text()).toContain("1.0.2");
	});

	test("is seen by an isolate whose clock was set back", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await ask(other, one);
		await publish(world, one, "1.0.2");
		world.clock.nowMs -= 60_000;
		expect(await offered(other, one)).toBe("1.0.2");
	});

	test("by a job is published by the job", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await ask(other, one);
		await testEnv.DB.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(one.uuid).run();
		await publishChanged(world.deps, 5);
		world.clock.nowMs += 4_000;
		other.asked();
		expect(await offered(other, one)).toBe("1.0.1");
		expect(loads(other.asked())).toBe(0);
	});

	test("of an organization drops no app, and its deletion ends its apps alone", async () => {
		const { world, one } = await scene();
		const stranger = await scene();
		const other = isolate(world);
		await ask(other, one);
		await ask(other, stranger.one);
		other.asked();
		const renamed = await other.request("POST", "/organization", {
			key: stranger.world.adminKey,
			body: { orgId: stranger.world.orgId, name: "Renamed" },
		});
		expect(renamed.status).toBe(200);
		other.asked();
		expect(await offered(other, one)).toBe("1.0.1");
		expect(await offered(other, stranger.one)).toBe("1.0.1");
		expect(loads(other.asked()), "nothing is read again").toBe(0);
		await stranger.world.request("DELETE", "/organization", {
			key: stranger.world.adminKey,
			query: { orgId: stranger.world.orgId },
		});
		world.clock.nowMs += 4_000;
		expect((await ask(other, stranger.one)).body).toMatchObject({ error: "app_not_found" });
		other.asked();
		expect(await offered(other, one)).toBe("1.0.1");
		expect(other.asked()).toEqual([]);
	});

	test("is a new app that did not exist before, and one with the id of a deleted app", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		const later = { appId: `com.example.later.t${crypto.randomUUID().slice(0, 8)}`, uuid: "" };
		expect((await ask(other, later)).body).toMatchObject({ error: "app_not_found" });
		expect(await offered(other, one)).toBe("1.0.1");
		const create = (appId: string) =>
			world.request("POST", "/app", {
				key: world.adminKey,
				body: { app_id: appId, name: "x", owner_org: world.orgId },
			});
		await create(later.appId);
		await world.request("DELETE", `/app/${one.appId}`, { key: world.adminKey });
		world.clock.nowMs += 4_000;
		expect((await ask(other, later)).body).toMatchObject({ error: "no_channel" });
		expect((await ask(other, one)).body).toMatchObject({ error: "app_not_found" });
		await create(one.appId);
		world.clock.nowMs += 4_000;
		expect((await ask(other, one)).body).toMatchObject({ error: "no_channel" });
	});

	test("by a Worker that writes no feed is in it, because triggers write it", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await ask(other, one);
		await testEnv.DB.batch([
			testEnv.DB.prepare(
				"UPDATE channels SET version_id = (SELECT id FROM bundles WHERE app_id = channels.app_id AND name = '1.0.2') WHERE app_id = ?",
			).bind(one.uuid),
			testEnv.DB.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(one.uuid),
		]);
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.2");
	});

	test("is seen by the first isolate after the migration, which installs the feed", async () => {
		const { world, one } = await scene();
		const { results } = await testEnv.DB.prepare(
			"SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '*_change_*'",
		).all<{ name: string }>();
		await testEnv.DB.batch([
			...results.map(({ name }) => testEnv.DB.prepare(`DROP TRIGGER ${name}`)),
			testEnv.DB.prepare("DELETE FROM changes"),
			testEnv.DB.prepare("UPDATE apps SET revision_token = NULL"),
		]);
		const other = isolate(world);
		// Once in the life of a database a check reads which triggers it has, and installs those that are
		// missing.
		await ask({ request: (method, path, options) => other.request(method, path, { ...options, mostTrips: 3 }) }, one);
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.1");
		other.asked();
		await publish(world, one, "1.0.2");
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.2");
		expect(other.asked()[0], "the feed alone").toHaveLength(1);
	});
});

describe("a database that does not answer", () => {
	const down = () => {
		throw new Error("D1 DB is overloaded.");
	};

	test("leaves a cold isolate the app's last snapshot, with its age and its manifest", async () => {
		const { world, one } = await scene(deltaBundle);
		await ask(world, one);
		world.clock.nowMs += 60_000;
		const cold = isolate(world);
		cold.before = down;
		const answer = await ask(cold, one);
		expect(answer).toMatchObject({ status: 200, body: { version: "1.0.1" } });
		expect(answer.body.manifest.length).toBeGreaterThan(0);
		expect(answer.headers.get("x-capstan-snapshot-age")).toBe("60");
		cold.asked();
		await ask(cold, one);
		expect(cold.asked(), "it is left alone for a while").toEqual([]);
		cold.before = () => undefined;
		world.clock.nowMs += 15_000;
		expect((await ask(cold, one)).headers.has("x-capstan-snapshot-age")).toBe(false);
	});

	test("is asked again after pauses that double up to 15 seconds", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await ask(other, one);
		world.clock.nowMs += 4_000;
		other.before = down;
		other.asked();
		const askedAtMs: number[] = [];
		const startMs = world.clock.nowMs;
		for (let second = 0; second < 50; second++) {
			await ask(other, one);
			if (other.asked().length > 0) askedAtMs.push(world.clock.nowMs - startMs);
			world.clock.nowMs += 1_000;
		}
		expect(askedAtMs).toEqual([0, 1_000, 3_000, 7_000, 15_000, 30_000, 45_000]);
	});

	test("is asked once by a hundred checks, and delays none beyond half a second", async () => {
		const { world, one } = await scene();
		const waits: number[] = [];
		const other = isolate(world, {
			deadline: async (ms) => void waits.push(ms),
		});
		await ask(other, one);
		world.clock.nowMs += 60_000;
		other.asked();
		waits.length = 0;
		const wakes: (() => void)[] = [];
		other.before = () => new Promise((resolve) => void wakes.push(resolve));
		const answers = Promise.all(Array.from({ length: 100 }, () => offered(other, one)));
		await expect.poll(() => wakes.length).toBeGreaterThan(0);
		for (const wake of wakes) wake();
		expect(new Set(await answers)).toEqual(new Set(["1.0.1"]));
		expect(other.asked()).toHaveLength(1);
		expect(Math.max(...waits)).toBe(500);
	});

	/**
	 * An isolate that records how long a check waits once `hang` is called: for the statements that it
	 * names, for all by default.
	 */
	function hanging(world: World) {
		const waits: number[] = [];
		const ends: (() => void)[] = [];
		let hangs: RegExp | undefined;
		let isAnswered = false;
		const other = isolate(world, {
			deadline: (ms) => {
				// R2 answers.
				if (hangs === undefined || ms === STORED_WAIT_MS) return new Promise(() => undefined);
				waits.push(ms);
				world.clock.nowMs += ms;
				return Promise.resolve();
			},
		});
		other.before = async (texts) => {
			if (!texts.some((text) => hangs?.test(text))) return;
			// The hang ends with an error, so that the test does not wait for it.
			if (!isAnswered) await new Promise<void>((end) => void ends.push(end));
			throw new Error("D1 DB is overloaded.");
		};
		return {
			other,
			hang(named: RegExp = /./) {
				hangs = named;
			},
			/** Milliseconds that a check waited for D1, and its answer. */
			async waited(app: TestApp, fields?: object) {
				waits.length = 0;
				isAnswered = false;
				const answered = () => {
					isAnswered = true;
					for (const end of ends.splice(0)) end();
				};
				const answer = await ask(other, app, fields, answered);
				return { answer, waitedMs: waits.reduce((sum, ms) => sum + ms, 0) };
			},
		};
	}

	test("delays no check of a changed app beyond half a second, whatever it still needs", async () => {
		const { world, one } = await scene(deltaBundle);
		const { other, hang, waited } = hanging(world);
		await ask(other, one);
		await publish(world, one, "1.0.2");
		world.clock.nowMs += 4_000;
		hang(/FROM channels/);
		expect(await waited(one), "the load").toMatchObject({ waitedMs: 500, answer: { body: { version: "1.0.1" } } });
		hang();
		world.clock.nowMs += 4_000;
		expect(await waited(one), "the feed, and the load").toMatchObject({ waitedMs: 500, answer: { status: 200 } });
		expect(await waited(one), "known to hang").toMatchObject({ waitedMs: 0, answer: { status: 200 } });
	});

	test("delays no check of an app with many overrides, and no device gets a bundle that may not be its own", async () => {
		const { world, one } = await scene();
		await addOverrides(one, 5_001);
		const { other, hang, waited } = hanging(world);
		const known = crypto.randomUUID();
		await ask(other, one, { device_id: known });
		hang();
		const current = { version_name: "1.0.1" };
		expect(await waited(one), "may have an override").toMatchObject({ waitedMs: 500, answer: { status: 503 } });
		expect(await waited(one, current), "needs nothing").toMatchObject({ waitedMs: 500, answer: { status: 200 } });
		expect(await waited(one, { device_id: known })).toMatchObject({
			waitedMs: 0,
			answer: { body: { version: "1.0.1" } },
		});
		world.clock.nowMs += 4_000;
		expect(await waited(one, current), "the feed, and the override").toMatchObject({
			waitedMs: 500,
			answer: { status: 200, body: { error: "no_new_version_available" } },
		});
		other.asked();
		expect(await waited(one), "known to hang").toMatchObject({ waitedMs: 0, answer: { status: 503 } });
		expect(other.asked(), "it is left alone").toEqual([]);
	});

	test("delays a cold isolate two seconds, and half a second once it is known to hang", async () => {
		const { world, one, two } = await scene();
		for (const app of [one, two]) await ask(world, app);
		const { hang, waited } = hanging(world);
		hang();
		expect(await waited(one)).toMatchObject({ waitedMs: 2_000, answer: { body: { version: "1.0.1" } } });
		expect(await waited(two)).toMatchObject({ waitedMs: 500, answer: { body: { version: "1.0.1" } } });
	});

	test("delays no check longer than 0.75 seconds more if R2 hangs as well, which then has no answer", async () => {
		const { world, one } = await scene();
		const waits: number[] = [];
		const bundles = new Proxy(testEnv.BUNDLES, {
			get: (bucket, name) =>
				name === "get" ? () => new Promise(() => undefined) : Reflect.get(bucket, name).bind(bucket),
		});
		const other = isolate(world, {
			bundles,
			async deadline(ms) {
				waits.push(ms);
			},
		});
		other.before = () => Promise.reject(new Error("D1 DB is overloaded."));
		expect((await ask(other, one)).status).toBe(503);
		expect(waits).toEqual([2_000, STORED_WAIT_MS]);
	});

	test("does not lose a manifest that is stored: it comes after half a second, and at once if D1 is known to hang", async () => {
		const { world, one } = await scene(deltaBundle);
		await ask(world, one);
		const { other, hang, waited } = hanging(world);
		// An app without its manifests.
		await ask(other, one, { platform: "electron", plugin_version: "0.0.1" });
		hang(/f\.file_name/);
		const first = await waited(one);
		expect({ ...first, files: first.answer.body.manifest.length }).toMatchObject({ waitedMs: 500, files: 2 });
		hang();
		world.clock.nowMs += 4_000;
		const later = await waited(one);
		expect({ ...later, files: later.answer.body.manifest.length }).toMatchObject({ waitedMs: 500, files: 2 });
	});
});
