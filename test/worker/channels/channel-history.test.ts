/**
 * The history of channels: each path that changes the bundle of a channel writes an entry in the
 * same batch, and no other path does. `historyViolations` compares the end of a history with the
 * channel itself, so it detects every path that wrote no entry.
 */
import { type CompiledQuery, sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import type { AppId, ChannelId } from "../../../src/authz/decide";
import {
	dropRollbackTargets,
	MOST_ENTRIES,
	recordChannelChange,
	recordNewChannel,
} from "../../../src/db/channel-history";
import { openDb, query } from "../../../src/db/client";
import { RESTORABLE_MS } from "../../../src/db/organizations";
import { HOUR_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { rows } from "../support/bytes";
import { historyViolations } from "../support/invariants";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeEach(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

interface Item {
	readonly id: number;
	readonly at: string;
	readonly action: string;
	readonly version: string | null;
	readonly previous_version: string | null;
	readonly bundle_deleted: boolean;
	readonly can_roll_back: boolean;
	readonly rollout_percentage_bps: number | null;
	readonly actor: { readonly type: string; readonly id: string | null; readonly name: string | null };
	readonly reason: string | null;
}

const upload = async (...versions: readonly string[]) => {
	const ids: number[] = [];
	for (const version of versions) ids.push(await uploadTestBundle(world, app, version));
	return ids;
};
const ask = (channel = "production", fields: Record<string, string> = {}, key = world.adminKey, of = app) =>
	world.request("GET", "/channel/history", { key, query: { app_id: of.appId, channel, ...fields } });
async function history(channel?: string, of = app, key = world.adminKey): Promise<Item[]> {
	const { status, body } = await ask(channel, {}, key, of);
	expect(status, JSON.stringify(body)).toBe(200);
	return body as Item[];
}
/** Each entry as a few words, newest first. */
const listed = async (channel?: string, of = app) =>
	(await history(channel, of)).map(({ action, version, previous_version, rollout_percentage_bps }) =>
		[
			action,
			version ?? "store build",
			...(previous_version === null ? [] : [`after ${previous_version}`]),
			...(rollout_percentage_bps === null ? [] : [`${rollout_percentage_bps / 100} %`]),
		].join(" "),
	);
const set = async (fields: object, key = world.adminKey) => {
	const { status, body } = await world.request("POST", "/channel", {
		key,
		body: { app_id: app.appId, channel: "production", ...fields },
	});
	expect(status, JSON.stringify(body)).toBeLessThan(300);
	return (body as { id: number }).id;
};
const remove = (path: string, fields: Record<string, string>) =>
	world.request("DELETE", path, { key: world.adminKey, query: { app_id: app.appId, ...fields } });
const rollBack = (fields: object = {}) =>
	world.request("POST", "/channel/rollback", {
		key: world.adminKey,
		body: { app_id: app.appId, channel: "production", ...fields },
	});

describe("GET /channel/history", () => {
	test("shows each live bundle with its time and key, and the targets of a rollback", async () => {
		const [first] = await upload("1.0.0", "1.1.0");
		const channelId = await set({ version: "1.0.0" });
		world.clock.nowMs += 1000;
		await set({ version: "1.1.0" });
		const actor = { type: "api_key", id: world.adminKeyId, name: "admin" };
		const common = { bundle_deleted: false, rollout_percentage_bps: null, actor, proposed_by: null, reason: null };
		const [id0, id1] = (await history()).map(({ id }) => id);
		expect(await history()).toEqual([
			{
				...common,
				id: id0,
				release_id: id0,
				at: new Date(world.clock.nowMs).toISOString(),
				action: "promotion",
				version: "1.1.0",
				previous_version: "1.0.0",
				can_roll_back: false,
			},
			{
				...common,
				id: id1,
				release_id: id1,
				at: new Date(world.clock.nowMs - 1000).toISOString(),
				action: "created",
				version: "1.0.0",
				previous_version: null,
				can_roll_back: true,
			},
		]);
		await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version_id: first, channel_id: channelId },
		});
		expect((await history()).map(({ version, can_roll_back }) => [version, can_roll_back])).toEqual([
			["1.0.0", false],
			["1.1.0", true],
			["1.0.0", false],
		]);
	});

	test("shows a deleted bundle as deleted, even after its version is uploaded again", async () => {
		await upload("1.0.0", "1.1.0");
		await set({ version: "1.0.0" });
		await set({ version: "1.1.0" });
		expect((await remove("/bundle", { version: "1.0.0" })).status).toBe(200);
		const deleted = { version: "1.0.0", bundle_deleted: true, can_roll_back: false };
		expect((await history())[1]).toMatchObject(deleted);
		await uploadTestBundle(world, app, "1.0.0", world.adminKey, undefined, { reuse_version: true });
		expect((await history())[1]).toMatchObject(deleted);
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("has pages of fifty with a Link; a channel keeps a bounded number of entries, and every rollback target", async () => {
		await upload("0.9.0", "1.0.0", "1.1.0");
		const channelId = await set({ version: "0.9.0" });
		await set({ version: "1.0.0" });
		await testEnv.DB.prepare(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MOST_ENTRIES + 20})
			INSERT INTO channel_history (app_id, channel_id, at_ms, action, actor_type, actor_name)
			SELECT ?, ?, i, 'rollout_raised', 'system', 'x' FROM n`,
		)
			.bind(app.uuid, channelId)
			.run();
		await set({ version: "1.1.0" });
		const [counted] = await rows(
			query
				.selectFrom("channel_history")
				.select((eb) => eb.fn.countAll<number>().as("entries"))
				.where("channel_id", "=", channelId),
		);
		expect(counted?.entries).toBe(MOST_ENTRIES + 2);
		const first = await ask();
		expect(first.body).toHaveLength(50);
		expect(first.headers.get("link")).toMatch(/page=1.*rel="next"/);
		const last = await ask("production", { page: "20" });
		expect((last.body as Item[]).map(({ version }) => version)).toEqual(["1.0.0", "0.9.0"]);
		expect(last.headers.get("link")).toBeNull();
		expect((await ask("production", { page: "21" })).body).toEqual([]);
		expect((await rollBack({ dry_run: true })).body).toMatchObject({ version: "1.0.0" });
	});

	test("answers 404 for a channel of another app, of another organization, and for an absent one", async () => {
		const other = await createTestApp(world);
		const stranger = await createWorld();
		await setTestChannel(world, other, "production");
		for (const answer of [
			await ask("absent"),
			await ask("production"),
			await ask("production", {}, (await createTestKey(world, "app_reader", other)).text),
			await ask("production", {}, stranger.adminKey, other),
		]) {
			expect(answer.status).toBe(404);
		}
		expect((await ask("absent")).body.error).toBe("channel_not_found");
	});

	test("hides names of people and keys from a caller without app.read_audit", async () => {
		await upload("1.0.0");
		await set({ version: "1.0.0" });
		const preview = await createTestKey(world, "app_preview", app);
		expect((await history("production", app, preview.text))[0]?.actor).toEqual({
			type: "api_key",
			id: world.adminKeyId,
			name: null,
		});
		const reader = await createTestKey(world, "app_reader", app);
		expect((await history("production", app, reader.text))[0]?.actor.name).toBe("admin");
	});
});

describe("every path that changes what a channel serves writes its history", () => {
	test("POST /channel: creation, promotion and the store build; settings and repeated requests write no entry", async () => {
		await upload("1.0.0", "1.1.0");
		await set({});
		await set({ version: "1.0.0" });
		await set({ version: "1.0.0" });
		await set({ public: true, disableAutoUpdate: "none" });
		await set({ version: "1.1.0", public: false });
		await set({ version: null });
		expect(await listed()).toEqual([
			"promotion store build after 1.1.0",
			"promotion 1.1.0 after 1.0.0",
			"promotion 1.0.0",
			"created store build",
		]);
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("POST /channel: a rollout from its preparation to each of its ends", async () => {
		await upload("1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0");
		await set({ version: "1.0.0" });
		const steps: [object, string[]][] = [
			[{ rolloutVersion: "1.1.0", rolloutPercentage: 5 }, ["rollout_prepared 1.1.0 after 1.0.0 5 %"]],
			[{ rolloutEnabled: true }, ["rollout_started 1.1.0 after 1.0.0 5 %"]],
			[{ rolloutPercentage: 25 }, ["rollout_raised 1.1.0 after 1.0.0 25 %"]],
			[{ rolloutPercentage: 10 }, ["rollout_lowered 1.1.0 after 1.0.0 10 %"]],
			[{ rolloutPaused: true, rolloutPauseReason: "Crashes" }, ["rollout_paused 1.1.0 after 1.0.0 10 %"]],
			[{ rolloutPaused: false, rolloutPercentage: 20 }, ["rollout_resumed 1.1.0 after 1.0.0 20 %"]],
			[{ rolloutEnabled: false }, ["rollout_stopped 1.1.0 after 1.0.0 20 %"]],
			[
				{ rolloutVersion: "1.2.0", rolloutEnabled: true },
				["rollout_started 1.2.0 after 1.0.0 20 %", "rollout_replaced 1.1.0 after 1.0.0 20 %"],
			],
			[{ rollback: true }, ["rollout_rolled_back 1.2.0 after 1.0.0 20 %"]],
			[
				{ rolloutVersion: "1.1.0", rolloutPercentage: 50, rolloutEnabled: true },
				["rollout_started 1.1.0 after 1.0.0 50 %"],
			],
			[{ promoteToStable: true }, ["rollout_finished 1.1.0 after 1.0.0"]],
			[
				{ version: "1.0.0", rolloutVersion: "1.2.0", rolloutPercentage: 1, rolloutEnabled: true },
				["rollout_started 1.2.0 after 1.0.0 1 %", "promotion 1.0.0 after 1.1.0"],
			],
			[{ version: "1.3.0" }, ["promotion 1.3.0 after 1.0.0", "rollout_replaced 1.2.0 after 1.0.0 1 %"]],
			[
				{ rolloutVersion: "1.4.0", rolloutPercentage: 1, rolloutEnabled: true },
				["rollout_started 1.4.0 after 1.3.0 1 %"],
			],
			[{ version: "1.4.0" }, ["rollout_finished 1.4.0 after 1.3.0"]],
		];
		let expected = ["created 1.0.0"];
		for (const [fields, entries] of steps) {
			await set(fields);
			expected = [...entries, ...expected];
			expect(await listed(), JSON.stringify(fields)).toEqual(expected);
			expect(await historyViolations(app.uuid), JSON.stringify(fields)).toEqual([]);
		}
		expect((await history()).find(({ action }) => action === "rollout_paused")?.reason).toBe("Crashes");
	});

	test("PUT /bundle: a promotion, and a promotion that finishes a rollout", async () => {
		const [first, second] = await upload("1.0.0", "1.1.0");
		const channel_id = await set({});
		const promote = (version_id: number | undefined) =>
			world.request("PUT", "/bundle", { key: world.adminKey, body: { app_id: app.appId, version_id, channel_id } });
		await promote(first);
		await promote(first);
		await set({ rolloutVersion: "1.1.0", rolloutPercentage: 5, rolloutEnabled: true });
		await promote(second);
		expect(await listed()).toEqual([
			"rollout_finished 1.1.0 after 1.0.0",
			"rollout_started 1.1.0 after 1.0.0 5 %",
			"promotion 1.0.0",
			"created store build",
		]);
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("the stock CLI's `bundle upload --channel` and `--self-assign`", async () => {
		const [id] = await upload("1.0.0");
		await set({});
		const { status } = await world.request("PATCH", "/compat/capgo-cli/rest/v1/channels", {
			key: world.adminKey,
			query: { app_id: `eq.${app.appId}`, name: "eq.production" },
			body: { app_id: app.appId, name: "production", version: id, allow_device_self_set: true },
		});
		expect(status).toBe(200);
		expect(await listed()).toEqual(["promotion 1.0.0", "created store build"]);
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("POST /channel/rollback", async () => {
		await upload("1.0.0", "1.1.0");
		await set({ version: "1.0.0" });
		await set({ version: "1.1.0" });
		await rollBack({ reason: "Login loop on Android 9" });
		expect(await listed()).toEqual(["rollback 1.0.0 after 1.1.0", "promotion 1.1.0 after 1.0.0", "created 1.0.0"]);
		expect((await history())[0]?.reason).toBe("Login loop on Android 9");
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("deleting a channel with its bundle removes the bundle from the rollback targets of every channel", async () => {
		await upload("1.0.0", "1.1.0");
		await setTestChannel(world, app, "pr-1", { version: "1.0.0" });
		await set({ version: "1.0.0" });
		await set({ version: "1.1.0" });
		expect((await remove("/channel", { channel: "pr-1", delete_bundle: "true" })).status).toBe(200);
		expect((await history())[1]).toMatchObject({ version: "1.0.0", bundle_deleted: true, can_roll_back: false });
		expect((await ask("pr-1")).status).toBe(404);
		expect((await rollBack()).body.error).toBe("nothing_to_roll_back_to");
		expect(await historyViolations(app.uuid)).toEqual([]);
		await setTestChannel(world, app, "pr-1");
		expect(await listed("pr-1"), "a channel of the same name begins without the past of the other one").toEqual([
			"created store build",
		]);
	});

	test("the stock CLI's two-call deletion of a channel with its bundle", async () => {
		await upload("1.0.0", "1.1.0");
		await setTestChannel(world, app, "pr-1", { version: "1.0.0" });
		await set({ version: "1.0.0" });
		await set({ version: "1.1.0" });
		await world.request("PATCH", "/compat/capgo-cli/rest/v1/app_versions", {
			key: world.adminKey,
			query: { app_id: `eq.${app.appId}`, name: "eq.1.0.0" },
			body: { deleted: true },
		});
		expect((await history())[1]).toMatchObject({ version: "1.0.0", bundle_deleted: false });
		await remove("/channel", { channel: "pr-1" });
		expect((await history())[1]).toMatchObject({ version: "1.0.0", bundle_deleted: true, can_roll_back: false });
		expect(await historyViolations(app.uuid)).toEqual([]);
	});

	test("retention, which the audit log names as the clean-up", async () => {
		await upload("1.0.0", "1.1.0", "1.2.0");
		await world.request("PUT", `/app/${app.appId}`, { key: world.adminKey, body: { keep_live_bundles: 0 } });
		await set({ version: "1.0.0" });
		await set({ version: "1.1.0" });
		world.clock.nowMs += 31 * 24 * HOUR_MS;
		await runJobs(world.deps);
		expect((await history())[1]).toMatchObject({ version: "1.0.0", bundle_deleted: true, can_roll_back: false });
		const { body } = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "bundle.delete" },
		});
		expect(body).toMatchObject([{ actor: { type: "system", name: "Automatic clean-up" }, target: { name: "1.0.0" } }]);
	});
});

describe("the history of a channel", () => {
	test("is deleted with its app", async () => {
		await upload("1.0.0");
		await set({ version: "1.0.0" });
		await world.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });
		world.clock.nowMs += RESTORABLE_MS;
		await runJobs(world.deps);
		const left = await rows(query.selectFrom("channel_history").select("id").where("app_id", "=", app.uuid));
		expect(left).toEqual([]);
	});

	test("is written and changed by statements that name their tenant", async () => {
		await upload("1.0.0", "1.1.0");
		const mine = (await set({ version: null })) as ChannelId;
		await set({ version: "1.0.0" });
		const [owner, stranger] = [app.uuid as AppId, (await createTestApp(world)).uuid as AppId];
		const actor = { type: "system", id: null, name: "x", requestId: "r", ipAddress: null } as const;
		const [bundle] = await rows(query.selectFrom("bundles").select("id").where("app_id", "=", app.uuid));
		const entries = () =>
			rows(query.selectFrom("channel_history").selectAll().where("app_id", "=", app.uuid).orderBy("id"));
		const before = await entries();
		const write = (...statements: CompiledQuery[]) => openDb(testEnv.DB, "first-primary").batch(statements);
		const promotion = (of: AppId) =>
			recordChannelChange(actor, 1, of, mine, { version_id: null }, { isRollback: true });
		const removal = (of: AppId) => dropRollbackTargets(of, sql`= ${bundle?.id}`);
		await write(...promotion(stranger), ...recordNewChannel(actor, 1, stranger, "production"), removal(stranger));
		expect(await entries()).toEqual(before);
		await write(...promotion(owner), removal(owner));
		expect(await entries()).toMatchObject([
			{ action: "created", version_id: null, rollback_target: 0 },
			{ version_id: bundle?.id, rollback_target: 0, rolled_back: 1 },
			{ action: "rollback", version_id: null, rollback_target: 1, rolled_back: 0 },
		]);
	});
});
