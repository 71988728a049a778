/**
 * Bundles that the clean-up keeps: those in use at any age, even if the use begins during the
 * clean-up, and the last ones that were live on a channel, to which it can be rolled back.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { JOBS, runJobs } from "../../../src/schedule";
import { storedKeys } from "../support/bytes";
import { beforeSecondTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import { setTestChannel, testEnv } from "../support/world";
import {
	app,
	changeApp,
	DEVICE,
	KEPT_DAYS,
	prepareRetention,
	readyOf,
	rowsReadByCleanUp,
	runs,
	UNCERTAIN_DAYS,
	upload,
	world,
} from "./retention-scene";

beforeEach(prepareRetention);

describe("a bundle in use is kept at any age:", () => {
	const uses: readonly [string, (id: number, version: string) => Promise<unknown>][] = [
		["by a channel", (_, version) => setTestChannel(world, app, "production", { version })],
		[
			"by a rollout",
			(_, rolloutVersion) => setTestChannel(world, app, "production", { rolloutVersion, rolloutEnabled: false }),
		],
		[
			"by a device that an operator set it for",
			(version_id) =>
				world.request("POST", "/device", {
					key: world.adminKey,
					body: { app_id: app.appId, device_id: DEVICE, version_id },
				}),
		],
		["by a device that was seen running it", (_, version) => runs(version)],
		[
			"by a channel on which it was live before",
			async (_, version) => {
				for (const live of [version, "2.0.0"]) await setTestChannel(world, app, "production", { version: live });
			},
		],
	];

	test.each(uses)("%s", async (_, use) => {
		const [id = 0] = await upload("1.0.0", "1.1.0", "2.0.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await use(id, "1.0.0");
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "2.0.0"]);
	});

	// Reports of devices reach their database seconds later in any case.
	const atomic = uses.filter(([name]) => name !== "by a device that was seen running it");
	test.each(atomic)("%s, even if that begins between the read and the deletion", async (_, use) => {
		const [id = 0] = await upload("1.0.0", "1.1.0", "2.0.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const racing = beforeSecondTrip(testEnv.DB, async () => void (await use(id, "1.0.0")));
		await JOBS["expired bundles"]?.({ ...world.deps, d1: racing.d1 });
		expect(racing.trips).toBe(2);
		// The bundle that came into use is kept, and the other one deleted.
		expect(await readyOf()).toEqual(["1.0.0", "2.0.0"]);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(3);
		expect(await violations(app.uuid)).toEqual([]);
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "2.0.0"]);
	});

	test("an app with a longer retention, even if that is set between the read and the deletion", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		const racing = beforeSecondTrip(testEnv.DB, () => changeApp({ retention: 63_113_904 }));
		await JOBS["expired bundles"]?.({ ...world.deps, d1: racing.d1 });
		expect(racing.trips).toBe(2);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
	});

	test("one that devices still ran when it was replaced, for the app's retention", async () => {
		await upload("1.0.0", "1.1.0");
		world.clock.nowMs += 2 * KEPT_DAYS * DAY_MS;
		await runs("1.0.0");
		world.clock.nowMs += (KEPT_DAYS + UNCERTAIN_DAYS) * DAY_MS - 1;
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.0.0", "1.1.0"]);
		world.clock.nowMs += 1;
		await runJobs(world.deps);
		expect(await readyOf()).toEqual(["1.1.0"]);
	});

	test("but a promotion of a just deleted bundle is refused", async () => {
		const [id = 0] = await upload("1.0.0", "2.0.0");
		await setTestChannel(world, app, "production", { version: "2.0.0" });
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await runJobs(world.deps);
		const { status, body } = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: app.appId, channel: "production", version: "1.0.0" },
		});
		expect([status, body.error]).toEqual([404, "bundle_not_found"]);
		expect(id).toBeGreaterThan(0);
	});
});

describe("the last bundles that were live on a channel", () => {
	const remove = (fields: Record<string, string>) =>
		world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, ...fields } });
	const live = async (channel: string, ...versions: readonly string[]) => {
		for (const version of versions) await setTestChannel(world, app, channel, { version });
	};
	const versions = (count: number) => Array.from({ length: count }, (_, index) => `1.${index}.0`);

	test("are the five before the present one, each counted once, and no clean-up deletes them", async () => {
		await upload(...versions(9));
		// 1.6.0 and 1.5.0 alternate, and 1.3.0 was live twice: only the last time counts.
		await live("production", ...versions(7), "1.5.0", "1.6.0", "1.5.0", "1.3.0", "1.6.0", "1.7.0");
		const dryRun = await remove({ all: "true", dry_run: "true" });
		expect(dryRun.body).toMatchObject({ kept_for_rollback: 5, removes: { bundles: 3 } });
		const kept = ["1.2.0", "1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"];
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await runJobs(world.deps);
		expect(await readyOf(), "the newest stays as well").toEqual([...kept, "1.8.0"]);
		expect((await remove({ all: "true" })).status).toBe(200);
		expect(await readyOf()).toEqual(kept);
		expect(await violations(app.uuid)).toEqual([]);
		// The channel can be rolled back to each of them.
		for (const version of kept) {
			const { body } = await world.request("POST", "/channel/rollback", {
				key: world.adminKey,
				body: { app_id: app.appId, channel: "production", version },
			});
			expect(body).toMatchObject({ version, was_live: true });
		}
	});

	test("are as many as keep_live_bundles for each channel, and shared ones are kept while one channel keeps them", async () => {
		await upload(...versions(5));
		await changeApp({ keep_live_bundles: 1 });
		await live("production", "1.0.0", "1.1.0", "1.2.0", "1.3.0");
		await live("beta", "1.1.0", "1.4.0");
		await remove({ all: "true" });
		expect(await readyOf()).toEqual(["1.1.0", "1.2.0", "1.3.0", "1.4.0"]);
		await changeApp({ keep_live_bundles: 0 });
		await remove({ all: "true" });
		expect(await readyOf()).toEqual(["1.3.0", "1.4.0"]);
		for (const keep_live_bundles of [-1, 51, 1.5, "5"]) {
			const { status, body } = await world.request("PUT", `/app/${app.appId}`, {
				key: world.adminKey,
				body: { keep_live_bundles },
			});
			expect([status, body.moreInfo.issues[0].path]).toEqual([400, "keep_live_bundles"]);
		}
	});

	test("are deleted by version, with a dry run that names the effect, and with their channel", async () => {
		await upload(...versions(4));
		await live("production", "1.0.0", "1.1.0", "1.2.0");
		await runs("1.0.0");
		const { body } = await remove({ version: "1.0.0", dry_run: "true" });
		expect(body).toMatchObject({
			removes: { bundles: 1, devices: 1 },
			bundles: [{ version: "1.0.0", devices: 1, rollback_target_of: ["production"] }],
		});
		expect((await remove({ version: "1.0.0" })).status).toBe(200);
		const channel = { app_id: app.appId, channel: "production" };
		expect((await world.request("DELETE", "/channel", { key: world.adminKey, query: channel })).status).toBe(200);
		await remove({ all: "true" });
		expect(await readyOf()).toEqual([]);
	});

	test("are found by index: many bundles and a long history of others cost no row", async () => {
		await upload("1.0.0", "1.1.0", "2.0.0");
		await live("production", "1.0.0", "1.1.0", "2.0.0");
		const other = await setTestChannel(world, app, "other");
		world.clock.nowMs += KEPT_DAYS * DAY_MS;
		await rowsReadByCleanUp();
		const before = await rowsReadByCleanUp();
		await testEnv.DB.prepare(
			`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
			INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, actor_type, actor_name, rollback_target)
			SELECT ?, ?, 0, 'promotion', -i, 'system', 'x', i % 2 FROM n`,
		)
			.bind(app.uuid, other)
			.run();
		expect(await rowsReadByCleanUp()).toBe(before);
	});
});
