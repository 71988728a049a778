/**
 * Rows that a change of a large app costs: the request that makes it, the first check in the
 * isolate that made it, and in another one. They read what changed, and not the app's channels and
 * bundles.
 */
import { expect, test } from "vitest";
import { mainRows } from "../../../bench/growth-fill";
import { createApp } from "../../../src/app";
import { countingRows } from "../support/counting";
import { withinLimits } from "../support/d1-limits";
import { ask } from "../support/isolates";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	requestThrough,
	setTestChannel,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const CHANNELS = 1_500;
const SIZE = { apps: 1, channels: CHANNELS, bundles: CHANNELS, devices: 1, members: 1, auditEntries: 1 };
/** Other statements of the request are the subject of growth.test.ts. */
const OF_SNAPSHOT = /changed_items|AS page_id|AS has_manifest|FROM changes|bundle_files f INNER/;
const MOST_ROWS_OF_CHANGE = 200;
const MOST_ROWS_OF_CHECK = 100;

test("a change of a large app costs the rows that changed, in every isolate", { timeout: 300_000 }, async () => {
	const own = countingRows(withinLimits(testEnv.DB), 4_000);
	const foreign = countingRows(withinLimits(testEnv.DB));
	const cold = countingRows(withinLimits(testEnv.DB));
	const world = await createWorld({ bindings: { d1: own.d1 } });
	const app = await createTestApp(world);
	await uploadTestBundle(world, app, "1.0.1");
	await uploadTestBundle(world, app, "1.0.2");
	await setTestChannel(world, app, "production", { public: true, version: "1.0.1" });
	const ids = { orgId: world.orgId, userId: world.userId, app: app.uuid, appId: app.appId };
	const scene = { ...ids, telemetryBinding: "TELEMETRY", nowMs: NOW_MS };
	for (const text of mainRows(scene, SIZE)) await testEnv.DB.prepare(text).run();
	// As if the app had grown long ago.
	await testEnv.DB.prepare("UPDATE apps SET revision = revision + 1 WHERE id = ?").bind(app.uuid).run();
	await testEnv.DB.prepare("DELETE FROM changed_items").run();
	const isolateOf = (d1: D1Database) => ({ request: requestThrough(createApp({ ...world.deps, d1 })) });
	// A large app that is not stored yet takes a third trip.
	const offered = async (of: Pick<World, "request">) => {
		const request: World["request"] = (method, path, options) => of.request(method, path, { ...options, mostTrips: 3 });
		return (await ask({ request }, app)).body.version;
	};
	const rowsOf = async (counted: { readonly read: number }, work: () => Promise<unknown>) => {
		const before = counted.read;
		const startMs = performance.now();
		const result = await work();
		return { rows: counted.read - before, result, ms: performance.now() - startMs };
	};
	const other = isolateOf(foreign.d1);
	for (const isolate of [world, other]) {
		const { rows, ms } = await rowsOf(isolate === world ? own : foreign, () => offered(isolate));
		console.log(`${CHANNELS} channels: the first load reads ${rows} rows, ${Math.round(ms)} ms`);
	}
	for (const version of ["1.0.2", "1.0.1", "1.0.2"]) {
		own.begin();
		const change = await rowsOf(own, () => setTestChannel(world, app, "production", { version }));
		const loaded = own.statements.filter(({ text }) => OF_SNAPSHOT.test(text));
		world.clock.nowMs += 4_000;
		const checks = [
			await rowsOf(own, () => offered(world)),
			await rowsOf(foreign, () => offered(other)),
			await rowsOf(cold, () => offered(isolateOf(cold.d1))),
		];
		const text = (of: { readonly rows: number; readonly ms: number }) => `${of.rows} rows in ${Math.round(of.ms)} ms`;
		console.log(
			`${CHANNELS} channels: the change reads ${text(change)}; checks in the same isolate, in another and in a new one read ${checks.map(text).join(", ")}`,
		);
		const published = loaded.reduce((sum, { read }) => sum + read, 0);
		expect(published, JSON.stringify(loaded)).toBeLessThanOrEqual(MOST_ROWS_OF_CHANGE);
		for (const { rows, result } of checks) expect(result, String(rows)).toBe(version);
		for (const { rows } of checks.slice(0, 2)) expect(rows, "a warm isolate").toBeLessThanOrEqual(MOST_ROWS_OF_CHECK);
	}
});
