/**
 * POST /channel/rollback, checked on devices: it returns to the previous live bundle or a named
 * one, ends a rollout, is refused after a concurrent change, and its dry run predicts the effect.
 */

import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { rows } from "../support/bytes";
import { readThenWrite } from "../support/interleave";
import { historyViolations } from "../support/invariants";
import { openReports, reportQuery, reportsOf } from "../support/reports";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

const upload = async (...versions: readonly string[]) => {
	for (const version of versions) await uploadTestBundle(world, app, version);
};
const set = async (fields: object, channel = "production") => {
	const { status, body } = await world.request("POST", "/channel", {
		key: world.adminKey,
		body: { app_id: app.appId, channel, ...fields },
	});
	expect(status, JSON.stringify(body)).toBeLessThan(300);
	return (body as { id: number }).id;
};
const live = async (...versions: readonly string[]) => {
	await upload(...versions);
	for (const version of versions) await set({ version, public: true });
};
const rollBack = (fields: object = {}, key = world.adminKey, through: Pick<World, "request"> = world) =>
	through.request("POST", "/channel/rollback", { key, body: { app_id: app.appId, channel: "production", ...fields } });
const remove = (version: string) =>
	world.request("DELETE", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version } });
/** The version that a device gets that runs `running`, or the error. */
async function checks(running: string, build = "1.0.0", device = "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61") {
	const { body } = await world.request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: device,
			version_name: running,
			version_build: build,
			platform: "android",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
		},
	});
	const { version, error } = body as { version?: string; error?: string };
	// A refusal names the version that it refuses.
	return error ?? version;
}
const channelRow = async () => {
	const [row] = await rows(query.selectFrom("channels").selectAll().where("app_id", "=", app.uuid));
	return row;
};
const audited = async () =>
	(
		await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "channel.rollback" },
		})
	).body as object[];
/** The complete answer to a rollback between two versions. */
const answered = (version: string | null, previous_version: string | null, fields: object = {}) => ({
	status: "ok",
	id: expect.any(Number),
	channel: "production",
	version,
	previous_version,
	changed: true,
	was_live: true,
	rollout_ended: null,
	...fields,
});

describe("POST /channel/rollback without a version", () => {
	test("returns to the previous live bundle, on devices and in the audit log", async () => {
		await live("1.0.0", "1.1.0");
		expect(await checks("1.0.0")).toBe("1.1.0");
		const { status, body } = await rollBack({ reason: "Login loop" });
		expect([status, body]).toEqual([200, answered("1.0.0", "1.1.0")]);
		expect(await checks("1.1.0")).toBe("1.0.0");
		expect(await audited()).toMatchObject([
			{
				actor: { id: world.adminKeyId },
				target: { type: "channel", name: "production" },
				before: { version: "1.1.0" },
				after: { version: "1.0.0" },
				details: { reason: "Login loop" },
			},
		]);
	});

	test("goes further back when it is called again, never to a bundle that a rollback replaced", async () => {
		await live("1.0.0", "1.1.0", "1.2.0");
		expect((await rollBack()).body).toMatchObject({ version: "1.1.0" });
		expect((await rollBack()).body).toMatchObject({ version: "1.0.0" });
		const { status, body } = await rollBack();
		expect([status, body.error]).toEqual([409, "nothing_to_roll_back_to"]);
		expect(body.message).toMatch(/name one that was uploaded/);
		// A bundle that is promoted again is the previous one of the next bundle.
		await set({ version: "1.1.0" });
		await set({ version: "1.2.0" });
		expect((await rollBack()).body).toMatchObject({ version: "1.1.0" });
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("returns to the previous bundle again after a rollback was undone", async () => {
		await live("1.0.0", "1.1.0");
		expect((await rollBack()).body).toEqual(answered("1.0.0", "1.1.0"));
		expect((await rollBack({ version: "1.1.0" })).body).toEqual(answered("1.1.0", "1.0.0"));
		expect((await rollBack()).body).toEqual(answered("1.0.0", "1.1.0"));
	});

	test("returns to the bundle that a never-live one replaced", async () => {
		await live("1.0.0", "1.1.0");
		await upload("1.2.0");
		expect((await rollBack({ version: "1.2.0" })).body).toEqual(answered("1.2.0", "1.1.0", { was_live: false }));
		expect((await rollBack()).body).toEqual(answered("1.1.0", "1.2.0"));
	});

	test("skips the live bundle and deleted ones", async () => {
		await live("1.0.0", "1.1.0", "1.2.0");
		await set({ version: "1.1.0" });
		await set({ version: "1.2.0" });
		expect((await remove("1.1.0")).status).toBe(200);
		expect((await rollBack()).body).toMatchObject({ version: "1.0.0", previous_version: "1.2.0" });
	});

	test("returns to the store build if that was live before, and so do devices", async () => {
		await set({ public: true });
		await upload("1.1.0");
		await set({ version: "1.1.0" });
		expect((await rollBack()).body).toEqual(answered(null, "1.1.0"));
		expect(await checks("1.1.0")).toBe("builtin");
	});

	test("is refused without an earlier bundle, and changes nothing", async () => {
		await live("1.0.0");
		const before = await channelRow();
		for (const dry_run of [true, false]) {
			const { status, body } = await rollBack({ dry_run });
			expect([status, body.error]).toEqual([409, "nothing_to_roll_back_to"]);
		}
		expect(await channelRow()).toEqual(before);
	});

	test("ends an active rollout and reports it", async () => {
		await live("1.0.0", "1.1.0");
		await upload("1.2.0");
		await set({ rolloutVersion: "1.2.0", rolloutPercentage: 100, rolloutEnabled: true });
		expect(await checks("1.1.0")).toBe("1.2.0");
		expect((await rollBack()).body).toEqual(
			answered("1.1.0", "1.1.0", { rollout_ended: { version: "1.2.0", percentage_bps: 10_000 } }),
		);
		expect(await checks("1.2.0"), "the stable bundle, which was never in doubt").toBe("1.1.0");
		expect(await channelRow()).toMatchObject({ rollout_id: null, rollout_version_id: null, rollout_enabled: 0 });
		const { body } = await world.request("GET", "/channel/rollout", {
			key: world.adminKey,
			query: { app_id: app.appId, channel: "production" },
		});
		expect(body).toMatchObject({ state: "none", previous: { version: "1.2.0", endedAs: "rolled_back" } });
		expect(await historyViolations(app.uuid)).toEqual([]);
	});
});

describe("POST /channel/rollback with a version", () => {
	test("returns to the bundle of that version or id, and answers whether it was live there", async () => {
		await upload("0.9.0");
		await live("1.0.0", "1.1.0", "1.2.0");
		expect((await rollBack({ version: "1.0.0" })).body).toEqual(answered("1.0.0", "1.2.0"));
		const id = await uploadTestBundle(world, app, "0.9.1");
		expect((await rollBack({ version: id })).body).toEqual(answered("0.9.1", "1.0.0", { was_live: false }));
		expect((await rollBack({ version: "builtin" })).body).toEqual(answered(null, "0.9.1", { was_live: false }));
		// A named rollback may return to a bundle that a rollback replaced.
		expect((await rollBack({ version: "1.2.0" })).body).toEqual(answered("1.2.0", null));
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("changes nothing for the live bundle, apart from ending a rollout", async () => {
		await live("1.0.0", "1.1.0");
		const history = async () =>
			(await rows(query.selectFrom("channel_history").select("action").where("app_id", "=", app.uuid))).length;
		const before = await history();
		expect((await rollBack({ version: "1.1.0" })).body).toMatchObject({ changed: false });
		expect([await history(), await audited()]).toEqual([before, []]);
		await upload("1.2.0");
		await set({ rolloutVersion: "1.2.0", rolloutPercentage: 5, rolloutEnabled: true });
		expect((await rollBack({ version: "1.1.0" })).body).toEqual(
			answered("1.1.0", "1.1.0", { rollout_ended: { version: "1.2.0", percentage_bps: 500 } }),
		);
		// No rollback replaced the bundle that stayed live, so the next rollback returns to it.
		await upload("1.3.0");
		await set({ version: "1.3.0" });
		expect((await rollBack()).body).toMatchObject({ version: "1.1.0" });
	});

	test("is refused for a bundle that is absent, not ready or of another app, and for an absent channel", async () => {
		await live("1.0.0");
		const other = await createTestApp(world);
		const foreign = await uploadTestBundle(world, other, "7.0.0");
		await world.request("POST", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version: "3.0.0" } });
		for (const [fields, status, error] of [
			[{ version: "9.9.9" }, 404, "bundle_not_found"],
			[{ version: foreign }, 404, "bundle_not_found"],
			[{ version: "7.0.0" }, 404, "bundle_not_found"],
			[{ version: "3.0.0" }, 409, "bundle_not_ready"],
			[{ version: "1.0.0", channel: "absent" }, 404, "channel_not_found"],
			[{ version: true }, 400, "invalid_request"],
		] as const) {
			const answer = await rollBack(fields);
			expect([answer.status, answer.body.error], JSON.stringify(fields)).toEqual([status, error]);
		}
	});
});

describe("POST /channel/rollback is for", () => {
	test.each([
		["app_reader", 403],
		["app_uploader", 200],
		["app_developer", 200],
	] as const)("%s: %i", async (role, status) => {
		await live("1.0.0", "1.1.0");
		const { text } = await createTestKey(world, role, app);
		expect((await rollBack({}, text)).status).toBe(status);
		expect((await rollBack({ dry_run: true, version: "1.1.0" }, text)).status).toBe(status);
	});

	test("a preview key with its own channel and bundles; its dry run shows no devices", async () => {
		await live("1.0.0");
		const { text } = await createTestKey(world, "app_preview", app);
		for (const version of ["1.0.0-pr.1", "1.0.0-pr.2"]) {
			await uploadTestBundle(world, app, version, text);
			await setTestChannel(world, app, "pr-1", { version }, text);
		}
		expect((await rollBack({}, text)).status).toBe(404);
		expect((await rollBack({ channel: "pr-1", version: "1.0.0" }, text)).body.error).toBe("permission_denied");
		expect((await rollBack({ channel: "pr-1", dry_run: true }, text)).body).toMatchObject({
			version: "1.0.0-pr.1",
			devices: null,
			devices_changed: null,
			refused: null,
			outcomes: null,
		});
		expect((await rollBack({ channel: "pr-1" }, text)).body).toMatchObject({ version: "1.0.0-pr.1" });
	});
});

describe("POST /channel/rollback beside another request", () => {
	/** The response to a rollback when `between` runs between its read and its write. */
	async function refusedIn(fields: object, between: () => Promise<Answer>) {
		const { status, body } = await readThenWrite(world, (racing) => rollBack(fields, world.adminKey, racing), between);
		return { status, body: body as { readonly error: string; readonly message: string } };
	}

	test("is refused if another bundle was promoted, a rollout started, or the channel deleted", async () => {
		await live("1.0.0", "1.1.0");
		await upload("1.2.0", "1.3.0");
		const admin = { key: world.adminKey };
		const post = (fields: object) =>
			world.request("POST", "/channel", { ...admin, body: { app_id: app.appId, channel: "production", ...fields } });
		for (const between of [
			() => post({ version: "1.2.0" }),
			() => post({ rolloutVersion: "1.3.0", rolloutPercentage: 5, rolloutEnabled: true }),
			() => post({ rollback: true }),
		]) {
			const { status, body } = await refusedIn({}, between);
			expect([status, body.error]).toEqual([409, "channel_changed"]);
		}
		expect(await audited()).toEqual([]);
		const deleted = await refusedIn({}, () =>
			world.request("DELETE", "/channel", { ...admin, query: { app_id: app.appId, channel: "production" } }),
		);
		expect([deleted.status, deleted.body.error]).toEqual([404, "channel_not_found"]);
	});

	test("is refused if its target was deleted, and can be repeated", async () => {
		await live("0.9.0", "1.0.0", "1.1.0");
		const race = (version: string, fields: object) => refusedIn(fields, () => remove(version));
		const unnamed = await race("1.0.0", {});
		expect([unnamed.status, unnamed.body.error]).toEqual([409, "channel_changed"]);
		expect(unnamed.body.message).toContain("1.0.0");
		const named = await race("0.9.0", { version: "0.9.0" });
		expect([named.status, named.body.error]).toEqual([404, "bundle_not_found"]);
		expect(await channelRow()).toMatchObject({ version_id: expect.any(Number) });
		expect(await historyViolations(app.uuid)).toEqual([]);
	});
});

describe("POST /channel/rollback with dry_run", () => {
	const device = async (number: number, fields: object) => {
		const id = `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
		const row = {
			app_id: app.uuid,
			device_id: id,
			platform: "android",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			is_prod: 1,
			is_emulator: 0,
			last_seen_at_ms: world.clock.nowMs,
			created_at_ms: world.clock.nowMs,
			updated_at_ms: world.clock.nowMs,
			...fields,
		};
		await reportsOf(app.uuid);
		await openReports().batch([
			reportQuery
				.insertInto("devices")
				.values(row as never)
				.compile(),
		]);
		return id;
	};

	test("counts the devices that change version and the refused ones by reason, shows the end of the rollout, and changes nothing", async () => {
		await live("1.0.0", "1.1.0");
		await upload("1.2.0");
		await set({ rolloutVersion: "1.2.0", rolloutPercentage: 5, rolloutEnabled: true, rolloutPaused: true });
		for (const [number, running] of ["1.1.0", "1.1.0", "1.0.0"].entries())
			await device(number, { version_name: running });
		// The older bundle is below the store build of this device.
		await device(9, { version_name: "1.1.0", version_build: "1.0.5" });
		const before = await channelRow();
		const { status, body } = await rollBack({ version: "1.0.0", dry_run: true });
		expect(status).toBe(200);
		expect(body).toEqual({
			...answered("1.0.0", "1.1.0", { rollout_ended: { version: "1.2.0", percentage_bps: 500 } }),
			dry_run: true,
			devices: 4,
			devices_changed: 2,
			unjudged: 0,
			sampled: false,
			refused: [{ error: "disable_auto_update_under_native", devices: 1 }],
			outcomes: expect.any(Array),
		});
		expect(await channelRow()).toEqual(before);
		expect(await audited()).toEqual([]);
		// The devices then get the predicted answers.
		await rollBack({ version: "1.0.0" });
		expect(await checks("1.1.0")).toBe("1.0.0");
		expect(await checks("1.0.0")).toBe("no_new_version_available");
		expect(await checks("1.1.0", "1.0.5")).toBe("disable_auto_update_under_native");
	});

	test("has the refusals of the rollback", async () => {
		await live("1.0.0");
		for (const fields of [{}, { version: "9.9.9" }, { channel: "absent" }]) {
			const [dry, real] = [await rollBack({ ...fields, dry_run: true }), await rollBack(fields)];
			expect([dry.status, dry.body.error]).toEqual([real.status, real.body.error]);
			expect(dry.status).toBeGreaterThanOrEqual(400);
		}
	});
});
