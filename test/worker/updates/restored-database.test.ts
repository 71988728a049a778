/** Change feed after a restore of the database, and stored snapshots of deleted apps. */
import { describe, expect, test } from "vitest";
import { runJobs } from "../../../src/schedule";
import { ask, isolate, loads, offered, publish, scene } from "../support/isolates";
import { type TestApp, testEnv, uploadTestBundle, type World } from "../support/world";

describe("a database that was restored", () => {
	/**
	 * The effect of Time Travel on one app: everything is as it was, and the numbers are given again.
	 */
	async function restoring(world: World, app: TestApp) {
		const row = await testEnv.DB.prepare("SELECT revision, revision_token FROM apps WHERE id = ?")
			.bind(app.uuid)
			.first<{ revision: number; revision_token: string }>();
		const channel = await testEnv.DB.prepare("SELECT version_id FROM channels WHERE app_id = ?")
			.bind(app.uuid)
			.first<{ version_id: number }>();
		const seq = await testEnv.DB.prepare("SELECT max(seq) AS seq FROM changes").first<number>("seq");
		return async () => {
			await testEnv.DB.batch([
				testEnv.DB.prepare("UPDATE channels SET version_id = ? WHERE app_id = ?").bind(channel?.version_id, app.uuid),
				testEnv.DB.prepare("UPDATE apps SET revision = ? WHERE id = ?").bind(row?.revision, app.uuid),
				testEnv.DB.prepare("UPDATE apps SET revision_token = ? WHERE id = ?").bind(row?.revision_token, app.uuid),
				testEnv.DB.prepare("DELETE FROM changes WHERE seq > ?").bind(seq),
				testEnv.DB.prepare("UPDATE sqlite_sequence SET seq = ? WHERE name = 'changes'").bind(seq),
			]);
			world.clock.nowMs += 4_000;
		};
	}

	test("is noticed when the revision goes back", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await ask(other, one);
		const restore = await restoring(world, one);
		await publish(world, one, "1.0.2");
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.2");
		await restore();
		expect(await offered(other, one)).toBe("1.0.1");
	});

	test("is noticed when other changes got the same revision and the same position", async () => {
		const { world, one } = await scene();
		const other = isolate(world);
		await uploadTestBundle(world, one, "1.0.3");
		await ask(other, one);
		const restore = await restoring(world, one);
		await publish(world, one, "1.0.2");
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.2");
		const revisions = async () =>
			testEnv.DB.prepare("SELECT revision, (SELECT max(seq) FROM changes) AS seq FROM apps WHERE id = ?")
				.bind(one.uuid)
				.first();
		const before = await revisions();
		await restore();
		await publish(world, one, "1.0.3");
		world.clock.nowMs += 4_000;
		expect(await revisions()).toEqual(before);
		expect(await offered(other, one)).toBe("1.0.3");
	});

	test("is treated like a feed whose rows were deleted: everything is read again", async () => {
		const { world, one, two } = await scene();
		const other = isolate(world);
		await ask(other, one);
		await ask(other, two);
		await publish(world, two, "1.0.2");
		await testEnv.DB.prepare("DELETE FROM changes WHERE seq < (SELECT max(seq) FROM changes)").run();
		world.clock.nowMs += 4_000;
		other.asked();
		expect([await offered(other, one), await offered(other, two)]).toEqual(["1.0.1", "1.0.2"]);
		expect(loads(other.asked())).toBeGreaterThanOrEqual(2);
	});
});

describe("the stored snapshot of a deleted app", () => {
	test("is removed by the next clean-up, so that no cold isolate offers its bundle", async () => {
		const { world, one, two } = await scene();
		for (const app of [one, two]) await ask(world, app);
		await world.request("DELETE", `/app/${one.appId}`, { key: world.adminKey });
		await runJobs(world.deps);
		const cold = isolate(world);
		cold.before = () => {
			throw new Error("D1 DB is overloaded.");
		};
		expect((await ask(cold, one)).status).toBe(503);
		expect((await ask(cold, two)).body).toMatchObject({ version: "1.0.1" });
	});

	test("of another app or revision is not taken for the wanted one", async () => {
		const { world, one, two } = await scene();
		for (const app of [one, two]) await ask(world, app);
		const other = isolate(world);
		await ask(other, one);
		await publish(world, one, "1.0.2");
		const key = (app: TestApp) => `snapshots/${app.appId.toLowerCase()}`;
		const wrong = await testEnv.BUNDLES.get(key(two));
		if (wrong === null) throw new Error("the second app was stored");
		await testEnv.BUNDLES.put(key(one), await wrong.text(), { customMetadata: wrong.customMetadata ?? {} });
		world.clock.nowMs += 4_000;
		expect(await offered(other, one)).toBe("1.0.2");
		const cold = isolate(world);
		const again = await testEnv.BUNDLES.get(key(two));
		await testEnv.BUNDLES.put(key(one), (await again?.text()) ?? "", { customMetadata: wrong.customMetadata ?? {} });
		cold.before = () => {
			throw new Error("D1 DB is overloaded.");
		};
		expect((await ask(cold, one)).status).toBe(503);
	});
});
