/**
 * A snapshot that follows the changes of its app is the same as one that is read whole, after any
 * history: in an isolate that reads each change, in one that misses most of them, and in R2.
 * Changes are requests where there are some, and statements with a new revision otherwise.
 */
import { describe, expect, test } from "vitest";
import { type Database, openDb } from "../../../src/db/batch";
import { serviceUnavailable } from "../../../src/errors";
import type { AppSnapshot } from "../../../src/snapshots/app-snapshot";
import { SnapshotCache } from "../../../src/snapshots/cache";
import { createTestApp, createWorld, type TestApp, testEnv, uploadTestBundle, type World } from "../support/world";

const STEPS = 50;
const VERSIONS = ["1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.2.0"];
const CHANNELS = ["production", "beta", "pr-1", "qa", "electron"];
const DEVICES = Array.from({ length: 4 }, (_, index) => `d0000000-0000-4000-8000-00000000000${index}`);

function random(seed: number) {
	let state = seed;
	const next = () => {
		state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
		return state / 2 ** 32;
	};
	return { next, of: <Item>(items: readonly Item[]) => items[Math.floor(next() * items.length)] as Item };
}
type Random = ReturnType<typeof random>;

/** Everything that a check reads of it. */
function contents(snapshot: AppSnapshot | null) {
	if (snapshot === null) return null;
	const sorted = <Value>(of: ReadonlyMap<string | number, Value> | null) =>
		of === null ? null : [...of].sort(([one], [other]) => (one < other ? -1 : 1));
	return {
		app: snapshot.app,
		channels: sorted(snapshot.channelsById),
		names: sorted(snapshot.channelsByName)?.map(([name]) => name),
		open: snapshot.publicChannels,
		bundles: sorted(snapshot.bundles),
		hasRollout: snapshot.hasRollout,
		overrides: sorted(snapshot.overrides),
		zipOnly: sorted(snapshot.zipOnly),
		ready: VERSIONS.map((version) => snapshot.readyVersions.get(version)),
	};
}

const run = (text: string, ...values: unknown[]) => testEnv.DB.prepare(text).bind(...values);
const bump = (app: TestApp) => run("UPDATE apps SET revision = revision + 1 WHERE id = ?", app.uuid);
/** Before or after the change, as the batches of the product. */
const changed = (app: TestApp, { next }: Random, ...statements: D1PreparedStatement[]) =>
	testEnv.DB.batch(next() < 0.5 ? [bump(app), ...statements] : [...statements, bump(app)]);

type Step = (world: World, app: TestApp, random: Random) => Promise<unknown>;
const post =
	(path: string, body: (random: Random) => object): Step =>
	(world, app, random) =>
		world.request("POST", path, { key: world.adminKey, body: { app_id: app.appId, ...body(random) } });
const remove =
	(path: string, query: (random: Random) => Record<string, string>): Step =>
	(world, app, random) =>
		world.request("DELETE", path, { key: world.adminKey, query: { app_id: app.appId, ...query(random) } });
const promote = post("/channel", (by) => ({ channel: by.of(CHANNELS), version: by.of(VERSIONS) }));

const serve: Step = (_, app, by) =>
	changed(
		app,
		by,
		run(
			`UPDATE channels SET version_id = (SELECT id FROM bundles b WHERE b.app_id = channels.app_id AND b.name = ? AND b.status = 'ready')
				WHERE app_id = ? AND name = ?`,
			by.of(VERSIONS),
			app.uuid,
			by.of(CHANNELS),
		),
	);

/**
 * The effect of Time Travel: what happened meanwhile is gone, and the same numbers are given again.
 */
const restore: Step = async (world, app, by) => {
	const all = (text: string) => run(text, app.uuid).all<Record<string, unknown>>();
	const [channels, items] = [
		await all("SELECT id, version_id FROM channels WHERE app_id = ?"),
		await all("SELECT app_id, revision, kind, item FROM changed_items WHERE app_id = ?"),
	];
	const known = await run("SELECT revision, revision_token FROM apps WHERE id = ?", app.uuid).first();
	const seq = await run("SELECT max(seq) AS seq FROM changes").first("seq");
	const cache = new SnapshotCache(world.deps);
	await serve(world, app, by);
	await serve(world, app, by);
	await cache.publish({ publicId: app.appId });
	await testEnv.DB.batch([
		...channels.results.map(({ id, version_id }) =>
			run("UPDATE channels SET version_id = ? WHERE id = ?", version_id, id),
		),
		run("UPDATE apps SET revision = ? WHERE id = ?", known?.revision, app.uuid),
		run("UPDATE apps SET revision_token = ? WHERE id = ?", known?.revision_token, app.uuid),
		run("DELETE FROM changed_items WHERE app_id = ?", app.uuid),
		...items.results.map((of) =>
			run("INSERT INTO changed_items (app_id, revision, kind, item) VALUES (?, ?, ?, ?)", ...Object.values(of)),
		),
		run("DELETE FROM changes WHERE seq > ?", seq),
		run("UPDATE sqlite_sequence SET seq = ? WHERE name = 'changes'", seq),
	]);
	await serve(world, app, by);
};

const STEP: Readonly<Record<string, Step>> = {
	"release a bundle": promote,
	"release another": serve,
	"change a channel": post("/channel", (by) => ({
		channel: by.of(CHANNELS),
		public: by.next() < 0.4,
		ios: by.next() < 0.5,
		electron: by.next() < 0.5,
		allow_device_self_set: by.next() < 0.5,
		disable_auto_update: by.of(["major", "minor", "none"]),
	})),
	"begin a rollout": post("/channel", (by) => ({
		channel: by.of(CHANNELS),
		rolloutVersion: by.of(VERSIONS),
		rolloutEnabled: true,
		rolloutPercentage: by.of([5, 25, 50]),
	})),
	"step a rollout": (_, app, by) =>
		changed(
			app,
			by,
			run("UPDATE channels SET rollout_percentage_bps = 7500 WHERE app_id = ? AND name = ?", app.uuid, by.of(CHANNELS)),
		),
	"end a rollout": post("/channel", (by) => ({
		channel: by.of(CHANNELS),
		rolloutEnabled: false,
		rolloutVersion: null,
	})),
	"roll back": post("/channel/rollback", (by) => ({ channel: by.of(CHANNELS), version: by.of(VERSIONS) })),
	"create a channel": post("/channel", (by) => ({ channel: `${by.of(CHANNELS)}-${by.of(["a", "b"])}` })),
	"rename a channel": (_, app, by) =>
		changed(
			app,
			by,
			run(
				"UPDATE channels SET name = name || '-x' WHERE app_id = ? AND name = ?",
				app.uuid,
				`${by.of(CHANNELS)}-${by.of(["a", "b"])}`,
			),
		),
	"delete a channel": remove("/channel", (by) => ({ channel: `${by.of(CHANNELS)}-${by.of(["a", "b"])}` })),
	"upload a bundle": (world, app, by) => uploadTestBundle(world, app, by.of(VERSIONS)).catch(() => undefined),
	"delete a bundle": remove("/bundle", (by) => ({ version: by.of(VERSIONS) })),
	"describe a bundle": (world, app, by) =>
		changed(
			app,
			by,
			run("UPDATE bundles SET comment = ? WHERE app_id = ? AND name = ?", world.orgId, app.uuid, by.of(VERSIONS)),
		),
	"override a device": async (_, app, by) =>
		changed(
			app,
			by,
			run(
				`INSERT INTO device_overrides (app_id, device_id, channel_id, version_id, created_by, created_at_ms, updated_at_ms)
					SELECT ?1, ?2, (SELECT id FROM channels WHERE app_id = ?1 AND name = ?3),
						(SELECT id FROM bundles WHERE app_id = ?1 AND name = ?4 AND status = 'ready'), 'test', 0, 0
					FROM bundles WHERE app_id = ?1 AND name = ?4 AND status = 'ready'
					ON CONFLICT (app_id, device_id) DO UPDATE SET channel_id = excluded.channel_id, version_id = excluded.version_id`,
				app.uuid,
				by.of(DEVICES),
				by.of(CHANNELS),
				by.of(VERSIONS),
			),
		),
	"override by request": post("/device", (by) => ({ device_id: by.of(DEVICES), channel: by.of(CHANNELS) })),
	"remove an override": remove("/device", (by) => ({ device_id: by.of(DEVICES) })),
	"mark a device": (_, app, by) =>
		changed(
			app,
			by,
			run(
				`INSERT INTO zip_only_devices (app_id, device_id, version_id, network, known_since_ms, marked_at_ms)
					SELECT app_id, ?2, id, 'n', 0, 0 FROM bundles WHERE app_id = ?1 AND name = ?3 AND status = 'ready'
					ON CONFLICT DO UPDATE SET version_id = excluded.version_id, ended_at_ms = iif(ended_at_ms IS NULL, 1, NULL)`,
				app.uuid,
				by.of(DEVICES),
				by.of(VERSIONS),
			),
		),
	"open a preview": post("/preview", (by) => ({ repository: "acme/shop", number: by.of([1, 2]) })),
	"upload to a preview": async (world, app, by) => {
		const { body } = await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: app.appId } });
		const channels = (body.previews ?? body).filter?.((of: { channel: unknown }) => of.channel !== null) ?? [];
		if (channels.length === 0) return;
		await changed(
			app,
			by,
			run(
				`UPDATE bundles SET preview_id = (SELECT id FROM previews WHERE app_id = ?1 AND state = 'open') WHERE app_id = ?1 AND name = ?2`,
				app.uuid,
				by.of(VERSIONS),
			),
		);
	},
	"close a preview": (world, app, by) =>
		remove("/preview", () => ({ repository: "acme/shop", number: String(by.of([1, 2])) }))(world, app, by),
	"change the app": (world, app, by) =>
		world.request("PUT", `/app/${app.appId}`, {
			key: world.adminKey,
			body: { expose_metadata: by.next() < 0.5, preview_channel_prefix: by.of(["pr-", "qa", "beta"]) },
		}),
	"restore the database": restore,
	"lose the records": (_, app) => run("DELETE FROM changed_items WHERE app_id = ?", app.uuid).run(),
	"lose the feed": () => run("DELETE FROM changes WHERE seq < (SELECT max(seq) FROM changes)").run(),
	"change too much": (_, app, by) =>
		changed(
			app,
			by,
			run(
				`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)
					INSERT INTO device_overrides (app_id, device_id, channel_id, created_by, created_at_ms, updated_at_ms)
					SELECT ?1, 'many-' || i, (SELECT min(id) FROM channels WHERE app_id = ?1), 'test', 0, 0 FROM n
					WHERE true ON CONFLICT DO UPDATE SET channel_id = excluded.channel_id`,
				app.uuid,
			),
		),
};

/** Counts the batches that read whole apps. */
function counting(db: Database) {
	const counted = { loads: 0, whole: 0 };
	const batch: Database["batch"] = (statements, guards) => {
		if (statements.some(({ sql }) => /revision_token/.test(sql) && /expose_metadata/.test(sql))) counted.loads += 1;
		if (statements.some(({ sql }) => /FROM channels WHERE app_id = [^;]* LIMIT \?2$/.test(sql))) counted.whole += 1;
		return db.batch(statements, guards);
	};
	return { db: Object.create(db, { batch: { value: batch } }) as Database, counted };
}

describe("a snapshot that follows the changes of its app", () => {
	test.each([1, 2, 3])("is the same as one that is read whole, history %i", { timeout: 300_000 }, async (seed) => {
		const by = random(seed);
		const world = await createWorld();
		const app = await createTestApp(world);
		for (const version of VERSIONS) await uploadTestBundle(world, app, version);
		for (const channel of CHANNELS) await post("/channel", () => ({ channel, version: "1.0.1" }))(world, app, by);
		const db = openDb(testEnv.DB, "first-primary");
		const { db: followed, counted } = counting(db);
		const nothing = { get: async () => null, head: async () => null, put: async () => null } as unknown as R2Bucket;
		const [each, some] = [new SnapshotCache(world.deps), new SnapshotCache(world.deps)];
		for (const cache of [each, some]) await cache.readNow(db, app.appId);
		const taken: string[] = [];
		for (let step = 0; step < STEPS; step++) {
			const [name, take] = by.of(Object.entries(STEP));
			taken.push(name);
			await take(world, app, by);
			const whole = contents(await new SnapshotCache({ ...world.deps, bundles: nothing }).readNow(db, app.appId));
			expect(contents(await each.readNow(followed, app.appId)), taken.join()).toEqual(whole);
			if (by.next() < 0.2) {
				expect(contents(await some.readNow(db, app.appId)), taken.join()).toEqual(whole);
				await some.publish({ publicId: app.appId });
				const stored = new SnapshotCache(world.deps);
				const down = { batch: () => Promise.reject(serviceUnavailable(new Error("down"))) } as unknown as Database;
				await stored
					.read(down, app.appId, { waitUntil: () => undefined, deadlineMs: world.clock.nowMs + 1_000 })
					.then(({ snapshot }) => expect(contents(snapshot), taken.join()).toEqual(whole));
			}
		}
		expect(counted.loads - counted.whole, "most changes are followed").toBeGreaterThan(STEPS / 2);
	});
});
