/**
 * One failing call in every flow (support/crashes.ts), and proofs that the checker reports each
 * violation.
 */
import { describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { collectGarbage } from "../../../src/queue/garbage";
import { runJobs } from "../../../src/schedule";
import { downloadUrl, register, rows, run } from "../support/bytes";
import { describeCrashes } from "../support/crashes";
import { violations } from "../support/invariants";
import { createTestApp, createWorld, setTestChannel, testEnv, uploadTestBundle } from "../support/world";

const VERSION = "1.0.0";
const CHANNEL = "pr-1";

describeCrashes("refused");
describeCrashes("answer lost");

describe("the checker detects", () => {
	async function stageWithBundle() {
		const world = await createWorld();
		const app = await createTestApp(world);
		const id = await uploadTestBundle(world, app, VERSION);
		await setTestChannel(world, app, CHANNEL, { version: VERSION });
		const [row] = await rows(query.selectFrom("bundles").selectAll().where("id", "=", id));
		expect(await violations(app.uuid)).toEqual([]);
		return { world, app, id, objectKey: row?.object_key ?? "" };
	}

	test("an object that no row names", async () => {
		const { app } = await stageWithBundle();
		await testEnv.BUNDLES.put(`${app.uuid}/orphan/object`, "x");
		expect(await violations(app.uuid)).toEqual([`object ${app.uuid}/orphan/object is unknown to D1`]);
	});

	test("an object removed before its row, also through its link", async () => {
		const { app, objectKey, world } = await stageWithBundle();
		await testEnv.BUNDLES.delete(objectKey);
		expect(await violations(app.uuid)).toEqual([`ready bundle ${VERSION} lost its object`]);
		expect((await world.request("GET", await downloadUrl(world, objectKey))).status).toBe(410);
	});

	test("bytes that differ from the row", async () => {
		const { app, objectKey } = await stageWithBundle();
		const size = (await testEnv.BUNDLES.head(objectKey))?.size ?? 0;
		await testEnv.BUNDLES.put(objectKey, new Uint8Array(size));
		expect(await violations(app.uuid)).toEqual([`ready bundle ${VERSION} has other bytes than its SHA-256`]);
	});

	test("a channel whose bundle is not ready", async () => {
		const { app, id } = await stageWithBundle();
		await run(query.updateTable("bundles").set({ status: "pending" }).where("id", "=", id));
		const found = await violations(app.uuid);
		expect(found).toContain(`channel ${CHANNEL} points to a bundle that is not ready`);
		expect(found).toContain(`pending bundle ${VERSION} points to an object`);
	});

	test("an object in use that is garbage as well", async () => {
		const { app, objectKey } = await stageWithBundle();
		await run(query.insertInto("garbage_objects").values({ object_prefix: objectKey, created_at_ms: 0, due_at_ms: 0 }));
		expect(await violations(app.uuid)).toEqual([`object ${objectKey} is in use and garbage`]);
		await run(query.deleteFrom("garbage_objects").where("object_prefix", "=", objectKey));
	});

	test("the remains of a crash until garbage collection has run", async () => {
		const { app, world } = await stageWithBundle();
		const registered = await register(world, app, "2.0.0", world.adminKey);
		expect(registered.status).toBe(201);
		expect(await violations(app.uuid, { settled: true })).toContain("pending bundle 2.0.0 remains");
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
		await collectGarbage(world.deps);
		expect(await violations(app.uuid)).toEqual([]);
	});
});
