/**
 * The snapshot cache: at most four seconds old while the database answers, the last good snapshot
 * with its age when it does not, and never a state from before a change of this isolate.
 * change-feed.test.ts has what several isolates see.
 */
import { describe, expect, test } from "vitest";
import { type Database, openDb } from "../../../src/db/client";
import { allEndpoints } from "../../../src/endpoints";
import { SnapshotCache } from "../../../src/snapshots/cache";
import { withFault } from "../support/faults";
import { beforeEachTrip } from "../support/interleave";
import { addOverrides } from "../support/isolates";
import { PUBLIC_REQUESTS } from "../support/public-requests";
import { REQUESTS } from "../support/requests";
import { SESSION_REQUESTS } from "../support/session-requests";
import {
	changedElsewhere,
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

async function scene(options: Parameters<typeof createWorld>[0] = {}): Promise<{ world: World; app: TestApp }> {
	const world = await createWorld(options);
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await uploadTestBundle(world, app, "1.0.2");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
	return { world, app };
}

const check = (world: World, app: TestApp, device_id: string = crypto.randomUUID(), mostTrips = 2) =>
	world.request("POST", "/updates", {
		mostTrips,
		body: {
			app_id: app.appId,
			device_id,
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
		},
	});

/** A promotion in another isolate, which knows nothing of this one's memory. */
async function promoteElsewhere(world: World, app: TestApp): Promise<void> {
	await changedElsewhere(
		world,
		app,
		"UPDATE channels SET version_id = (SELECT id FROM bundles WHERE app_id = channels.app_id AND name = '1.0.2') WHERE app_id = ?",
		app.uuid,
	);
	world.clock.nowMs -= 4_000;
}

describe("a snapshot", () => {
	test("is used for two seconds, refreshed in the background until four, and before the answer from then on", async () => {
		const { world, app } = await scene();
		const versions: string[] = [];
		await check(world, app);
		await promoteElsewhere(world, app);
		for (const afterMs of [1_999, 2_000, 2_001]) {
			const before = world.clock.nowMs;
			world.clock.nowMs += afterMs;
			versions.push((await check(world, app)).body.version);
			world.clock.nowMs = before;
		}
		// The second of them asked after its answer, so the third has the news.
		expect(versions).toEqual(["1.0.1", "1.0.1", "1.0.2"]);
		const idle = await scene();
		await check(idle.world, idle.app);
		await promoteElsewhere(idle.world, idle.app);
		idle.world.clock.nowMs += 4_000;
		expect((await check(idle.world, idle.app)).body.version).toBe("1.0.2");
	});

	test("that holds too many overrides to keep asks for the device's own, and gives no other device's", async () => {
		const { world, app } = await scene();
		const [set, plain] = [crypto.randomUUID(), crypto.randomUUID()];
		const bundleId = await uploadTestBundle(world, app, "1.0.3");
		await addOverrides(app, 5_001);
		// After a change: the feed, the app, and the override.
		const asked = async (device_id: string) => (await check(world, app, device_id, 3)).body.version;
		expect(await asked(plain)).toBe("1.0.1");
		const override = { app_id: app.appId, device_id: set, version_id: bundleId };
		const made = await world.request("POST", "/device", { key: world.adminKey, body: override });
		expect(made.status, JSON.stringify(made.body)).toBeLessThan(300);
		expect([await asked(set), await asked(plain)]).toEqual(["1.0.3", "1.0.1"]);
	});

	test("counts for the address that reads it again soon after an eviction; a changed one does not", async () => {
		const { world, app } = await scene();
		let refunds = 0;
		let limited = 0;
		const unlimited = openDb(world.deps.d1, "first-primary");
		const db: Database = {
			trips: 0,
			unlimited,
			refund() {
				refunds += 1;
			},
			batch(statements, guards) {
				limited += 1;
				return unlimited.batch(statements, guards);
			},
		};
		const cache = new SnapshotCache(world.deps);
		const waiter = { waitUntil: () => undefined };
		const asked = async () => {
			[refunds, limited] = [0, 0];
			const { snapshot } = await cache.read(db, app.appId, waiter);
			if (snapshot === null) throw new Error("there is no app");
			await cache.manifest(db, snapshot, 1, waiter);
			return { loads: limited, refunds };
		};
		// As if other apps filled the memory.
		const displace = () => cache.clear();
		expect(await asked(), "the first time").toEqual({ loads: 1, refunds: 1 });
		displace();
		expect(await asked(), "at once again").toEqual({ loads: 2, refunds: 0 });
		displace();
		await testEnv.DB.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(app.uuid).run();
		expect(await asked(), "changed").toEqual({ loads: 1, refunds: 1 });
		displace();
		world.clock.nowMs += 10_000;
		expect(await asked(), "ten seconds later").toEqual({ loads: 1, refunds: 1 });
	});

	test("costs one statement if it is still current", async () => {
		const statements: string[] = [];
		const withSession = (constraint: D1SessionConstraint) => {
			const session = testEnv.DB.withSession(constraint);
			const prepare = (text: string) => {
				statements.push(text);
				return session.prepare(text);
			};
			return { prepare, batch: session.batch.bind(session) };
		};
		const { world, app } = await scene({ bindings: { d1: { withSession } as unknown as D1Database } });
		await check(world, app);
		world.clock.nowMs += 60_000;
		statements.length = 0;
		expect((await check(world, app)).trips).toBe(1);
		expect(statements).toHaveLength(1);
	});

	test("answers with its age when the database does not, and retries a second later", async () => {
		let down = false;
		const { d1 } = beforeEachTrip(testEnv.DB, () => {
			if (down) throw new Error("D1 DB is overloaded.");
		});
		const { world, app } = await scene({ bindings: { d1 } });
		await check(world, app);
		down = true;
		world.clock.nowMs += 10 * 60_000;
		const old = await check(world, app);
		expect(old).toMatchObject({ status: 200, body: { version: "1.0.1" } });
		expect(old.headers.get("x-capstan-snapshot-age")).toBe("600");
		expect((await check(world, app)).trips, "it is left alone for a second").toBe(0);
		const cold = await world.request("POST", "/updates", {
			body: {
				app_id: "com.example.cold",
				device_id: crypto.randomUUID(),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "ios",
				plugin_version: "8.0.0",
			},
		});
		expect(cold).toMatchObject({ status: 503 });
		expect(cold.headers.get("retry-after")).toBe("5");
		down = false;
		world.clock.nowMs += 1_000;
		const back = await check(world, app);
		expect(back.headers.has("x-capstan-snapshot-age")).toBe(false);
	});

	test("belongs to the new app after one was deleted and created again", async () => {
		const { world, app } = await scene();
		await check(world, app);
		await world.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
		expect((await check(world, app)).body).toMatchObject({ error: "app_not_found", kind: "failed" });
		await world.request("POST", "/app", {
			key: world.adminKey,
			body: { app_id: app.appId, name: "again", owner_org: world.orgId },
		});
		expect((await check(world, app)).body).toMatchObject({ error: "no_channel" });
	});

	test("caches an app that does not exist as long as one that does", async () => {
		const world = await createWorld();
		const absent = { appId: `com.example.later.t${crypto.randomUUID().slice(0, 8)}`, uuid: "" };
		expect((await check(world, absent)).trips).toBe(1);
		expect((await check(world, absent)).trips).toBe(0);
		await world.request("POST", "/app", {
			key: world.adminKey,
			body: { app_id: absent.appId, name: "x", owner_org: world.orgId },
		});
		expect((await check(world, absent)).body).toMatchObject({ error: "no_channel" });
	});
});

describe("a change that landed while its request failed", () => {
	test("is what the isolate's next check answers with", async () => {
		const { world, app } = await scene();
		const live = async () =>
			(
				await testEnv.DB.prepare(
					"SELECT b.name FROM channels c JOIN bundles b ON b.id = c.version_id WHERE c.app_id = ? AND c.name = 'production'",
				)
					.bind(app.uuid)
					.first<{ name: string }>()
			)?.name;
		let landed = 0;
		for (let failAt = 2; failAt < 12; failAt++) {
			const service = withFault(world, failAt, "answer lost");
			const own = { ...world, request: service.request };
			await check(own, app);
			const version = (await live()) === "1.0.1" ? "1.0.2" : "1.0.1";
			const body = { app_id: app.appId, channel: "production", version };
			const { status } = await own.request("POST", "/channel", { key: world.adminKey, body, mostTrips: 9 });
			if (status >= 500 && (await live()) === version) landed += 1;
			expect((await check(own, app, undefined, 9)).body.version, service.failed).toBe(await live());
		}
		expect(landed).toBeGreaterThan(0);
	});
});

describe("an app's revision", () => {
	const offered = async (app: TestApp) =>
		JSON.stringify(
			(
				await testEnv.DB.batch(
					[
						"SELECT * FROM channels WHERE app_id = ?",
						"SELECT * FROM device_overrides WHERE app_id = ?",
						"SELECT id, name, checksum, external_url, session_key FROM bundles WHERE app_id = ? AND status = 'ready'",
						"SELECT expose_metadata FROM apps WHERE id = ?",
					].map((statement) => testEnv.DB.prepare(statement).bind(app.uuid)),
				)
			).map((result) => result.results),
		);
	const revision = (app: TestApp) =>
		testEnv.DB.prepare("SELECT revision FROM apps WHERE id = ?").bind(app.uuid).first("revision");

	const currentToken = (app: TestApp) =>
		testEnv.DB.prepare("SELECT revision_token FROM apps WHERE id = ?").bind(app.uuid).first("revision_token");
	const publishedToken = async (app: TestApp) =>
		(await testEnv.BUNDLES.head(`snapshots/${app.appId.toLowerCase()}`))?.customMetadata?.token;

	test("rises with every request that changes the answers to the app's devices, and the request publishes the app", async () => {
		const world = await createWorld();
		const changing: string[] = [];
		for (const endpoint of allEndpoints.filter(({ method }) => method !== "GET")) {
			const name = `${endpoint.method} ${endpoint.path}`;
			// Signing in and one's own account have no app.
			if (SESSION_REQUESTS[name] !== undefined) continue;
			const app = await createTestApp(world);
			const prepared = await { ...REQUESTS, ...PUBLIC_REQUESTS }[name]?.(world, app);
			if (prepared === undefined) throw new Error(`no request for ${name}`);
			const { path, thing: _, ...options } = prepared;
			const [before, revisionBefore] = [await offered(app), await revision(app)];
			await world.request(endpoint.method, path, { ...options, key: world.adminKey });
			if (before === (await offered(app)) || (await revision(app)) === null) continue;
			changing.push(name);
			expect(await revision(app), `add bumpRevision to the batch of ${name}`).not.toBe(revisionBefore);
			expect(await publishedToken(app), `${name} publishes the app`).toBe(await currentToken(app));
		}
		expect(changing).toEqual(
			expect.arrayContaining(["POST /channel", "PUT /bundle", "POST /device", "DELETE /bundle"]),
		);
	});
});
