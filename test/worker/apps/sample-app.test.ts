/**
 * The sample app: what its screens read agrees with itself, nothing but the app tells of it, and
 * its removal leaves nothing. Each organization has one, and only who may create apps adds it.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { checkBundleArchive } from "../../../src/domain/bundles/archive";
import { DAY_MS, MINUTE_MS } from "../../../src/domain/time";
import { TABLES_OF_APP } from "../../../src/features/organizations/purge";
import { runJobs } from "../../../src/schedule";
import type { AnyAnswer } from "../support/actors";
import { rows, run, storedBytes, storedKeys } from "../support/bytes";
import { violations } from "../support/invariants";
import { openReports, reportQuery } from "../support/reports";
import { addWebhook, createScene, deliveriesOf } from "../support/webhook-scene";
import { createTestApp, createTestKey, createWorld, NOW_MS, testEnv, type World } from "../support/world";

const CLEAN_UP_MS = 15 * 60_000;

const devicesOf = async (uuid: string) =>
	(await openReports().batch([reportQuery.selectFrom("devices").selectAll().where("app_id", "=", uuid).compile()]))[0]
		.rows;

const add = (world: World, key = world.adminKey): Promise<AnyAnswer> =>
	world.as(key)("POST /app/sample", { body: { owner_org: world.orgId }, mostTrips: 3 });

describe("a sample app", () => {
	let world: World;
	let app_id: string;
	let uuid: string;
	const get = async (path: string, more: Record<string, string> = {}) => {
		const { status, body } = await world.request("GET", path, { key: world.adminKey, query: more });
		expect(status, `${path}: ${JSON.stringify(body)}`).toBe(200);
		return body;
	};

	/** Events of a kind in the log; a page of it has those among its last rows. */
	const countOf = async (kind: string): Promise<number> => {
		let [count, before]: [number, string | null] = [0, ""];
		while (before !== null) {
			const query: Record<string, string> = before === "" ? {} : { before };
			const page = await get("/device/events", { app_id, kind, ...query });
			count += page.events.length;
			before = page.next;
		}
		return count;
	};

	beforeAll(async () => {
		world = await createWorld();
		const { status, body } = await add(world);
		expect({ status, body }).toMatchObject({ status: 201, body: { name: "Sample shop", retention: 0 } });
		({ app_id, id: uuid } = body);
		expect(app_id).toMatch(/^sample\.capstan\.[0-9a-f]{12}$/);
	});

	test("satisfies the invariants of every app, and its bundles are valid zips", async () => {
		expect(await violations(uuid, { settled: true })).toEqual([]);
		const bundles = await get("/bundle", { app_id });
		expect(bundles).toHaveLength(9);
		for (const bundle of bundles) expect(bundle).toMatchObject({ comment: expect.any(String), expires_at: null });
		const stored = await rows(query.selectFrom("bundles").select(["object_key"]).where("app_id", "=", uuid));
		for (const { object_key } of stored) {
			const bytes = (await storedBytes(object_key ?? "")) ?? new Uint8Array();
			const read = async (offset: number, length: number) => bytes.slice(offset, offset + length);
			const rules = { mostUncompressedBytes: 10_000_000 };
			expect((await checkBundleArchive({ sizeBytes: bytes.length, read }, rules)).entries).toBeGreaterThan(4);
		}
		const compared = await get("/bundle/difference", { app_id, version: "2.3.1", base: "2.3.0" });
		expect(compared.difference.files.map(({ file }: { file: string }) => file)).toEqual([
			"assets/app.js",
			"assets/wishlist.js",
			"index.html",
		]);
	});

	test("has a running rollout, a rollout paused by the health gate, a rollback and a preview in its timeline", async () => {
		const channels = await get("/channel", { app_id });
		expect(channels).toMatchObject([
			{ name: "beta", version: { name: "2.3.1" }, rollout_version_info: { name: "2.4.0-beta.1" } },
			{ name: "production", version: { name: "2.3.1" }, rolloutPercentageBps: 2500, rolloutPausedAt: null },
			{ name: "pr-52", version: { name: "2.4.0-pr.52.1" }, public: false },
		]);
		for (const { misconfigured } of channels) expect(misconfigured).toEqual([]);
		const running = await get("/channel/rollout", { app_id, channel: "production" });
		expect(running).toMatchObject({ state: "running", verdict: "hold", version: "2.4.0" });
		expect(running.devices.served).toBeGreaterThan(15);
		const paused = await get("/channel/rollout", { app_id, channel: "beta" });
		const { failed, installed } = paused.devices;
		expect(paused.pauseReason).toMatch(new RegExp(`^${failed} of ${failed + installed} devices failed: `));
		expect(paused.state).toBe("paused");
		expect(paused.health.lowerBound).toBeGreaterThan(paused.health.limit);
		const releases = await get(`/app/${app_id}/releases`, { limit: "50" });
		const actions = releases.map(({ action }: { action: string }) => action);
		expect(actions.slice(0, 3)).toEqual(["rollout_raised", "rollout_started", "created"]);
		expect(actions).toEqual(expect.arrayContaining(["rollback", "rollout_paused", "promotion"]));
		const live = releases.filter(({ is_live }: { is_live: boolean }) => is_live);
		expect(
			live.map(({ channel, version }: { channel: { name: string }; version: string }) => [channel.name, version]),
		).toEqual([
			["pr-52", "2.4.0-pr.52.1"],
			["production", "2.3.1"],
			["beta", "2.3.1"],
		]);
		const target = await world.admin("POST /channel/rollback", {
			body: { app_id, channel: "production", dry_run: true },
		});
		// Production's rollout of 2.4.0 is what a rollback takes back; its stable bundle stays.
		expect(target).toMatchObject({ status: 200, body: { version: "2.3.1" } });
	});

	test("has figures that match the stories of its devices", async () => {
		const from = new Date(NOW_MS - 30 * DAY_MS).toISOString();
		const installs = await get(`/statistics/app/${app_id}/installs`, { from });
		const days = await get(`/statistics/app/${app_id}`, { from, noAccumulate: "true" });
		const sum = (metric: string) =>
			days.reduce((total: number, day: Record<string, number>) => total + (day[metric] ?? 0), 0);
		const devices = await devicesOf(uuid);
		const stories = devices.flatMap(({ recent_reports }) => JSON.parse(recent_reports ?? "{}").story.events);
		const counted = (kind: number) => stories.filter((event) => event[1] === kind).length;
		expect(devices.length).toBeGreaterThan(190);
		expect([sum("install"), sum("fail"), sum("get")]).toEqual([counted(3), counted(4), counted(2)]);
		expect(installs.total).toMatchObject({ install: counted(3), fail: counted(4), timed: counted(3) });
		const health = await get(`/statistics/app/${app_id}/health`, { from });
		expect(health.total).toMatchObject({ crash: counted(5), js_error: counted(7), launches: counted(3) });
		expect(health.total.crash).toBeGreaterThan(2);
		const usage = await get(`/statistics/app/${app_id}/bundle_usage`, { from });
		for (const [index, { mau }] of days.entries()) {
			const counts = usage.datasets.map(({ metaCounts }: { metaCounts: number[] }) => metaCounts[index]);
			expect(counts.reduce((total: number, count: number) => total + count, 0)).toBe(mau);
		}
		// A Saturday has fewer devices than the Friday before it.
		expect(days.at(-1).mau).toBeLessThan(days.at(-2).mau);
		const [, monday] = days.slice(-7);
		expect(monday.mau).toBeGreaterThan(70);
	});

	test("explains each device as the service would decide", async () => {
		const devices = await devicesOf(uuid);
		const upToDate = devices.filter(({ recent_reports }) => {
			const { decision } = JSON.parse(recent_reports ?? "{}").story;
			return decision.startsWith("no_new_version_available 2.3.1");
		});
		const refused = devices.filter(({ version_build }) => version_build === "1.9.2");
		expect(upToDate.length).toBeGreaterThan(20);
		for (const { device_id } of [...upToDate.slice(0, 5), ...refused.slice(0, 3)]) {
			const explained = await get("/device/explain", { app_id, device_id });
			const { events } = await get("/device/events", { app_id, device_id });
			expect(events.length).toBeGreaterThan(1);
			const isOld = refused.some((device) => device.device_id === device_id);
			if (isOld) expect(explained.answer).toMatchObject({ error: "disable_auto_update_to_major" });
		}
		const set = await get("/device", { app_id, version: "2.2.1" });
		expect(set).toEqual(expect.arrayContaining([expect.objectContaining({ override_version: "2.2.1" })]));
		for (const kind of ["check", "download", "install", "fail"]) expect(await countOf(kind), kind).toBeGreaterThan(0);
	});

	test("is refused a second time in its organization, and stores no bytes", async () => {
		const before = await testEnv.BUNDLES.list();
		expect(await add(world)).toMatchObject({
			status: 409,
			body: { error: "app_id_already_exists", message: expect.stringContaining("DELETE /app/:app_id") },
		});
		expect((await testEnv.BUNDLES.list()).objects.length).toBe(before.objects.length);
	});
});

test("POST /app/sample creates one app for two simultaneous requests, and the clean-up removes the bytes of the other", async () => {
	const world = await createWorld();
	const answers = await Promise.all([add(world), add(world)]);
	expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
	const apps = await rows(query.selectFrom("apps").selectAll().where("owner_org", "=", world.orgId));
	expect(apps).toHaveLength(1);
	const others = async () => {
		const { objects } = await testEnv.BUNDLES.list();
		const garbage = await rows(query.selectFrom("garbage_objects").selectAll());
		return objects.filter(({ key }) => garbage.some(({ object_prefix }) => key.startsWith(object_prefix)));
	};
	world.clock.nowMs += 2 * 3_600_000;
	await runJobs(world.deps);
	expect(await others()).toEqual([]);
	expect(await violations(apps[0]?.id ?? "", { settled: true })).toEqual([]);
});

test("POST /app/sample needs few statements, and its history depends only on the app and the time", async () => {
	let statements = 0;
	const counted = (d1: D1Database) => ({
		withSession(constraint: D1SessionConstraint) {
			const session = d1.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				batch(list: D1PreparedStatement[]) {
					statements += list.length;
					return session.batch(list);
				},
			};
		},
	});
	const uuid = "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10";
	const history = async () => {
		// The first id is that of the app.
		const ids = [uuid];
		const world = await createWorld({
			bindings: { d1: counted(testEnv.DB) as unknown as D1Database, newId: () => ids.shift() ?? crypto.randomUUID() },
		});
		statements = 0;
		expect((await add(world)).status).toBe(201);
		// A request of the free plan may run fifty.
		expect(statements).toBeGreaterThan(20);
		expect(statements).toBeLessThanOrEqual(50);
		const devices = await devicesOf(uuid);
		await world.admin("DELETE /app/:app_id", { params: { app_id: "sample.capstan.3f1b8a5264d1" } });
		for (let runs = 0; runs < 6; runs++) await runJobs(world.deps);
		return devices.map(({ channel_id: _, ...device }) => device);
	};
	expect(await history()).toEqual(await history());
});

test("a sample app causes no webhook and no mail, and POST /app gives its id to no other app", async () => {
	const { world, deliver } = await createScene();
	const hook = await addWebhook(world);
	const { body: app } = await add(world);
	for (let runs = 0; runs < 3; runs++) {
		world.clock.nowMs += CLEAN_UP_MS;
		await runJobs(world.deps);
		await deliver();
	}
	await world.admin("DELETE /app/:app_id", { params: { app_id: app.app_id } });
	await deliver();
	expect(await deliveriesOf(world, hook.id)).toEqual([]);
	expect(world.deps.printed).toEqual([]);
	for (const app_id of ["sample.capstan.mine", "Sample.Capstan.mine"]) {
		const body = { app_id, name: "Mine", owner_org: world.orgId };
		const { status, body: answer } = await world.admin("POST /app", { body });
		expect({ status, issues: answer.moreInfo.issues }).toMatchObject({ status: 400, issues: [{ path: "app_id" }] });
	}
});

test("DELETE /app/:app_id of a sample app removes every row and object with the next clean-up, and frees its id", async () => {
	await run(query.deleteFrom("organizations").where("deleted_at_ms", "is not", null));
	const world = await createWorld();
	const { body: app } = await add(world);
	const named = { params: { app_id: app.app_id } };
	const announced = await world.admin("DELETE /app/:app_id", { ...named, query: { dry_run: "true" } });
	expect(announced.body).toMatchObject({
		removes: { bundles: 9, channels: 3 },
		restorable_until: "2026-11-21T08:00:00.000Z",
	});
	expect(await world.admin("DELETE /app/:app_id", named)).toMatchObject({ status: 200, trips: 2 });
	expect(await world.admin("GET /app", {})).toMatchObject({ body: [] });
	expect(await world.admin("GET /app", { query: { deleted: "true" } })).toMatchObject({ body: [] });
	expect(await world.admin("GET /app/reservation", { query: { orgId: world.orgId } })).toMatchObject({ body: [] });
	expect((await world.admin("POST /app/restore", { body: { app_id: app.app_id } })).status).toBe(404);
	for (let runs = 0; runs < 6; runs++) await runJobs(world.deps);
	for (const { name, ...table } of TABLES_OF_APP) {
		if ("through" in table) continue;
		const left = await testEnv.DB.prepare(`SELECT count(*) AS n FROM ${name} WHERE app_id = ?`).bind(app.id).first();
		expect({ name, ...left }).toEqual({ name, n: 0 });
	}
	expect(await storedKeys(`${app.id}/`)).toEqual([]);
	expect((await add(world)).status).toBe(201);
});

test("a key that may create apps adds and removes a sample app; readers, other organizations and full quotas are refused", async () => {
	const world = await createWorld();
	const stranger = await createWorld();
	const reader = await createTestKey(world, "app_admin", await createTestApp(world));
	expect((await add(world, reader.text)).body).toMatchObject({ error: "permission_denied" });
	const member = await createTestKey(world, "org_member");
	expect((await add(world, stranger.adminKey)).status).toBe(404);
	expect((await world.as()("POST /app/sample", { body: { owner_org: world.orgId } })).status).toBe(401);
	const { status, body } = await add(world, member.text);
	expect(status, JSON.stringify(body)).toBe(201);
	const gone = await world.as(member.text)("DELETE /app/:app_id", { params: { app_id: body.app_id } });
	expect(gone.status).toBe(200);
	const full = await createWorld({ config: { QUOTAS: "apps_per_organization=0" } });
	expect(await add(full)).toMatchObject({ status: 409, body: { error: "quota_exceeded", moreInfo: { used: 0 } } });
	const { results } = await testEnv.DB.prepare("SELECT due_at_ms FROM report_removals WHERE due_at_ms > ?")
		.bind(full.clock.nowMs + 20 * MINUTE_MS)
		.all();
	expect(results, "nothing was stored").toEqual([]);
	expect(
		(await world.request("POST", "/app/sample", { key: world.adminKey, body: { owner_org: 7 } })).body,
	).toMatchObject({
		moreInfo: { issues: [{ path: "owner_org" }] },
	});
});
