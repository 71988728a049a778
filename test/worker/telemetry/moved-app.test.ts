/**
 * An app whose reports have moved to a telemetry database, seen from outside: every answer about its devices is the one from before the move. The
 * telemetry database that fails or hangs keeps messages in the Queue, and delays no update check, no change of a channel and no sign-in.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { BatchFailed, consume } from "../../../src/consumer";
import { bindingFor } from "../../../src/db/telemetry-homes";
import type { Deps } from "../../../src/deps";
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { purgeOrganizations } from "../../../src/features/organizations/purge";
import { moveTelemetry } from "../../../src/features/telemetry/move";
import { nameDevices } from "../../../src/features/telemetry/named";
import { JOBS } from "../../../src/schedule";
import { OWN_PAGE } from "../support/sessions";
import {
	createTestApp,
	createTestKey,
	createWorld,
	requestThrough,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const deviceId = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const { TELEMETRY } = testEnv;
if (TELEMETRY === undefined) throw new Error("wrangler.toml has no telemetry database");
const telemetry: D1Database = TELEMETRY;
const bindings = { telemetry: { TELEMETRY } };

async function deliver(world: World, deps: Deps = world.deps): Promise<void> {
	const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
	await consume(deps, { messages: messages.map((body) => ({ body })) });
}

async function move({ deps, clock }: World, app: TestApp): Promise<void> {
	const others =
		"INSERT OR IGNORE INTO telemetry_homes (app_id, binding, state) SELECT id, 'TELEMETRY', 'settled' FROM apps WHERE id <> ?";
	await testEnv.DB.prepare(others).bind(app.uuid).run();
	await moveTelemetry(deps);
	clock.nowMs += HOUR_MS;
	await moveTelemetry(deps);
	expect(await stateOf(app)).toBe("settled");
}

const stateOf = async ({ uuid }: TestApp) =>
	(await testEnv.DB.prepare("SELECT state FROM telemetry_homes WHERE app_id = ?").bind(uuid).first<{ state: string }>())
		?.state;
const countOf = async (db: D1Database, table: string, { uuid }: TestApp) =>
	(await db.prepare(`SELECT count(*) AS rows FROM ${table} WHERE app_id = ?`).bind(uuid).first<{ rows: number }>())
		?.rows;

const KEY_ID = "MIIBCgKCAQEAqqqqqqqq";
const reportOf = (app: TestApp, number: number, fields: object = {}) => ({
	app_id: app.appId,
	device_id: deviceId(number),
	platform: number % 2 === 0 ? "android" : "ios",
	version_name: number < 3 ? "1.0.0" : "1.1.0",
	version_build: "1.0.0",
	version_os: "15",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	custom_id: number < 3 ? "shared" : `custom ${number}`,
	defaultChannel: "",
	...fields,
});
const checkOf = (world: World, app: TestApp, number: number, fields: object = {}) =>
	world.request("POST", "/updates", { body: reportOf(app, number, fields) });

async function appWithDevices(world: World): Promise<TestApp> {
	const app = await createTestApp(world);
	for (const version of ["1.0.0", "1.1.0", "1.2.0"]) {
		await uploadTestBundle(world, app, version);
		world.clock.nowMs += 1;
	}
	await setTestChannel(world, app, "production", { version: "1.2.0", public: true, disableAutoUpdate: "none" });
	await setTestChannel(world, app, "beta", { version: "1.1.0", allow_device_self_set: true });
	for (let number = 1; number <= 6; number++) {
		await checkOf(world, app, number, number === 6 ? { key_id: KEY_ID, defaultChannel: "beta" } : {});
	}
	for (const action of ["download_zip_start", "download_complete", "set"]) {
		world.clock.nowMs += 1_000;
		const body = reportOf(app, 1, { action, version_name: "1.2.0" });
		await world.request("POST", "/stats", { body });
	}
	await deliver(world);
	for (const [number, channel] of [
		[2, "beta"],
		[50, "beta"],
	] as const) {
		await world.admin("POST /device", { body: { app_id: app.appId, device_id: deviceId(number), channel } });
	}
	return app;
}

/** Every answer about devices and figures, by its request. */
async function answersOf(world: World, { appId }: TestApp): Promise<Record<string, unknown>> {
	const lists = [
		...[
			{},
			{ version: "1.0.0" },
			{ platform: "ios" },
			{ custom_id: "shared" },
			{ key_id: KEY_ID },
			{ channel: "beta" },
		],
		...[{ channel: "production" }, { channel: "production", version: "1.1.0" }, { channel: "none" }],
		...[{ custom_id: "shared", channel: "beta" }, { device_id: deviceId(1) }, { device_id: deviceId(50) }],
		...[{ device_id: deviceId(99) }, { seen_from: "2026-11-21T00:00:00Z" }, { seen_to: "2026-11-20T00:00:00Z" }],
	];
	const range = { from: "2026-11-20", to: "2026-11-22" };
	const requests: (readonly [string, string, Record<string, string>])[] = [
		...lists.map((query) => ["GET", "/device", { app_id: appId, ...query } as Record<string, string>] as const),
		...[`app/${appId}`, "user", `org/${world.orgId}`].flatMap((of) =>
			(["true", "false"] as const).map(
				(noAccumulate) => ["GET", `/statistics/${of}`, { ...range, noAccumulate }] as const,
			),
		),
		["GET", `/statistics/org/${world.orgId}`, { ...range, breakdown: "true" }],
		["GET", `/statistics/app/${appId}/bundle_usage`, range],
		["GET", `/statistics/app/${appId}/installs`, range],
		["GET", "/bundle", { app_id: appId }],
		["GET", "/channel", { app_id: appId }],
		["GET", "/device/explain", { app_id: appId, device_id: deviceId(1) }],
		["GET", "/device/key", { app_id: appId }],
		["DELETE", "/bundle", { app_id: appId, version: "1.0.0", dry_run: "true" }],
		["DELETE", "/bundle", { app_id: appId, all: "true", dry_run: "true" }],
		["DELETE", "/channel", { app_id: appId, channel: "beta", delete_bundle: "true", dry_run: "true" }],
	];
	const answers: Record<string, unknown> = {};
	for (const [method, path, query] of requests) {
		const { status, body } = await world.request(method, path, { key: world.adminKey, query, mostTrips: 4 });
		// The id of a request is in answers with an error.
		const { requestId: _, ...rest } = Array.isArray(body) ? { body } : body;
		answers[`${method} ${path} ${JSON.stringify(query)}`] = { status, body: rest };
	}
	const what = await world.request("POST", "/channel/what_if", {
		key: world.adminKey,
		body: { app_id: appId, channel: "production", version: "1.0.0", days: 30 },
		mostTrips: 4,
	});
	return { ...answers, what_if: { status: what.status, body: what.body } };
}

describe("an app whose reports have moved", () => {
	let world: World;
	let app: TestApp;
	beforeAll(async () => {
		world = await createWorld({ bindings });
		app = await appWithDevices(world);
	});

	test("has the answers from before the move, and its rows in the telemetry database alone", async () => {
		const before = await answersOf(world, app);
		expect(before[`GET /device {"app_id":"${app.appId}"}`]).toMatchObject({ status: 200 });
		for (const [request, answer] of Object.entries(before)) {
			expect((answer as { status: number }).status, request).toBe(request.includes(deviceId(99)) ? 404 : 200);
		}
		const hour = world.clock.nowMs;
		await move(world, app);
		world.clock.nowMs = hour;
		expect(await answersOf(world, app)).toEqual(before);
		for (const table of ["daily_totals", "daily_counts", "device_sketches"]) {
			expect([table, await countOf(testEnv.DB, table, app)]).toEqual([table, 0]);
			expect(await countOf(telemetry, table, app), table).toBeGreaterThan(0);
		}
		// Two have an override.
		expect([await countOf(testEnv.DB, "devices", app), await countOf(telemetry, "devices", app)]).toEqual([2, 7]);
	});

	test("counts further reports there, and repeated ones from before the move not at all", async () => {
		await checkOf(world, app, 7);
		await checkOf(world, app, 1, { version_name: "1.1.0" });
		await deliver(world);
		expect([await countOf(testEnv.DB, "devices", app), await countOf(telemetry, "devices", app)]).toEqual([2, 8]);
		const { body } = await world.admin("GET /device", {
			query: { app_id: app.appId, device_id: deviceId(1) },
			mostTrips: 4,
		});
		expect(body).toMatchObject({ version_name: "1.1.0", channel: "production" });
	});

	test("counts versions that were registered since by their name", async () => {
		await uploadTestBundle(world, app, "1.3.0");
		await checkOf(world, app, 8, { version_name: "1.3.0" });
		await deliver(world);
		const day = new Date(world.clock.nowMs).toISOString().slice(0, 10);
		const query = { from: day, to: day };
		const { body } = await world.request("GET", `/statistics/app/${app.appId}/bundle_usage`, {
			key: world.adminKey,
			query,
		});
		expect(body.datasets.map(({ label }: { label: string }) => label)).toContain("1.3.0");
		expect(body.datasets.map(({ label }: { label: string }) => label)).not.toContain("unknown");
	});

	test("gets and loses overrides; the row of a device that was only named is created again", async () => {
		const named = { app_id: app.appId, device_id: deviceId(60) };
		const read = async () =>
			(await world.admin("GET /device", { query: { app_id: app.appId, channel: "beta" }, mostTrips: 4 })).body.map(
				(device: { device_id: string }) => device.device_id,
			);
		const failing = { ...world.deps, telemetry: { TELEMETRY: throwing() } };
		const request = requestThrough(createApp(failing));
		const set = await request("POST", "/device", { key: world.adminKey, body: { ...named, channel: "beta" } });
		expect(set.status).toBe(200);
		expect(await read()).not.toContain(deviceId(60));
		expect((await world.admin("GET /device", { query: named, mostTrips: 4 })).body.override_channel).toBe("beta");
		await nameDevices(world.deps);
		expect(await read()).toContain(deviceId(60));
		// Another isolate has set it.
		world.clock.nowMs += 5_000;
		const { body: offer } = await checkOf(world, app, 60, { version_name: "1.0.0" });
		expect(offer.version).toBe("1.1.0");
		expect((await world.admin("DELETE /device", { query: named })).status).toBe(200);
		expect(await read()).not.toContain(deviceId(60));
	});

	test("keeps bundles that its devices run, and devices with an override", async () => {
		await testEnv.DB.prepare("UPDATE apps SET retention = 86400 WHERE id = ?").bind(app.uuid).run();
		const names = async () =>
			(await world.admin("GET /bundle", { query: { app_id: app.appId } })).body.map(
				({ name }: { name: string }) => name,
			);
		world.clock.nowMs += 2 * DAY_MS;
		await JOBS["expired bundles"]?.(world.deps);
		expect(await names()).toContain("1.0.0");
		world.clock.nowMs += 20 * DAY_MS;
		await JOBS["expired bundles"]?.(world.deps);
		expect(await names()).not.toContain("1.0.0");
		world.clock.nowMs += 400 * DAY_MS;
		await JOBS["old devices"]?.(world.deps);
		const { results } = await telemetry.prepare("SELECT device_id FROM devices WHERE app_id = ?").bind(app.uuid).all();
		expect(results.map(({ device_id }) => device_id).sort()).toEqual([deviceId(2), deviceId(50)]);
	});

	test("is purged in the telemetry database after the app, and later reports are not stored", async () => {
		await checkOf(world, app, 1);
		const stale = world.deps.sent.splice(0);
		await world.admin("DELETE /app/:app_id", { params: { app_id: app.appId } });
		world.clock.nowMs += 31 * DAY_MS;
		for (let run = 0; run < 3; run++) await purgeOrganizations(world.deps);
		expect(await stateOf(app)).toBe("removed");
		await moveTelemetry(world.deps);
		expect(await stateOf(app)).toBeUndefined();
		world.deps.sent.push(...stale);
		await deliver(world);
		for (const db of [testEnv.DB, telemetry]) expect(await countOf(db, "devices", app)).toBe(0);
	});
});

function throwing(): D1Database {
	return {
		withSession: () => {
			throw new Error("D1_ERROR: database is full");
		},
	} as unknown as D1Database;
}

function hanging(): D1Database {
	const statement = { bind: () => statement };
	return {
		withSession: () => ({ prepare: () => statement, batch: () => new Promise(() => undefined) }),
	} as unknown as D1Database;
}

describe("a telemetry database that does not work", () => {
	let world: World;
	let app: TestApp;
	beforeEach(async () => {
		world = await createWorld({ bindings });
		app = await appWithDevices(world);
		await move(world, app);
	});

	test.each([
		["fails", throwing],
		["hangs", hanging],
	])("and %s delays no update check, no change of a channel, no list of channels and no sign-in", async (_, broken) => {
		const deps = { ...world.deps, telemetry: { TELEMETRY: broken() }, deadline: async () => undefined };
		const request = requestThrough(createApp(deps));
		const key = world.adminKey;
		const check = await request("POST", "/updates", { body: reportOf(app, 1) });
		expect([check.status, check.body]).toMatchObject([200, { version: "1.2.0" }]);
		const body = { app_id: app.appId, channel: "production", version: "1.1.0" };
		expect((await request("POST", "/channel", { key, body })).status).toBe(200);
		expect((await request("POST", "/channel", { key, body: { app_id: app.appId, channel: "new" } })).status).toBe(201);
		for (const path of ["/channel", "/bundle"]) {
			expect((await request("GET", path, { key, query: { app_id: app.appId } })).status, path).toBe(200);
		}
		const signIn = await request("POST", "/sign-in/code", {
			body: { email: world.adminEmail },
			headers: OWN_PAGE,
		});
		expect(signIn.status).toBeLessThan(300);
		const preview = await createTestKey(world, "app_preview", app);
		const refused = await request("POST", "/channel", {
			key: preview.text,
			body: { app_id: app.appId, channel: "pr-1" },
		});
		expect([refused.status, refused.body]).toMatchObject([503, { error: "service_unavailable" }]);
	});

	test("keeps its messages for another try, and those of other apps are consumed", async () => {
		const other = await createTestApp(world);
		await checkOf(world, app, 20);
		await checkOf(world, other, 21);
		const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
		const batch = () => ({ messages: messages.map((body) => ({ body })) });
		const broken = { ...world.deps, telemetry: { TELEMETRY: throwing() } };
		const error = await consume(broken, batch()).catch((thrown: unknown) => thrown);
		expect(error).toBeInstanceOf(BatchFailed);
		expect([await countOf(testEnv.DB, "devices", other), await countOf(telemetry, "devices", app)]).toEqual([1, 7]);
		await consume(world.deps, batch());
		expect([await countOf(testEnv.DB, "devices", other), await countOf(telemetry, "devices", app)]).toEqual([1, 8]);
	});
});

describe("while an app is copied", () => {
	test("its rows are copied in steps, and each run continues where the one before ended", async () => {
		const world = await createWorld({ bindings });
		const app = await createTestApp(world);
		await testEnv.DB.prepare(
			`WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 1203)
				INSERT INTO devices (app_id, device_id, version_name, last_seen_at_ms, created_at_ms, updated_at_ms, recent_reports)
				SELECT ?, printf('device-%05d', number), '1.0.0', number, number, number, '{"1":["a"]}' FROM numbers`,
		)
			.bind(app.uuid)
			.run();
		const rows = async (db: D1Database) =>
			(await db.prepare("SELECT * FROM devices WHERE app_id = ? ORDER BY device_id").bind(app.uuid).all()).results;
		const before = await rows(testEnv.DB);
		const others =
			"INSERT OR IGNORE INTO telemetry_homes (app_id, binding, state) SELECT id, 'TELEMETRY', 'settled' FROM apps WHERE id <> ?";
		await testEnv.DB.prepare(others).bind(app.uuid).run();
		let runs = 0;
		for (; (await stateOf(app)) !== "moved"; runs++) {
			await moveTelemetry(world.deps, 3);
			expect(await rows(testEnv.DB)).toEqual(before);
		}
		expect(runs).toBeGreaterThan(2);
		expect(await rows(telemetry)).toEqual(before);
	});

	test("its events are sent again later, and the Worker of the release before cannot change its rows", async () => {
		const world = await createWorld({ bindings });
		const app = await appWithDevices(world);
		await testEnv.DB.prepare("INSERT INTO telemetry_homes (app_id, binding, state) VALUES (?, 'TELEMETRY', 'copying')")
			.bind(app.uuid)
			.run();
		await checkOf(world, app, 30);
		const messages = world.deps.sent.splice(0);
		const delays: unknown[] = [];
		const events = {
			...world.deps.events,
			send: async (...sent: unknown[]) => void delays.push(sent),
		} as unknown as Deps["events"];
		await consume({ ...world.deps, events }, { messages: messages.map((body) => ({ body })) });
		expect(delays).toEqual([
			[{ kind: "device_events", id: expect.any(String), events: expect.any(Array) }, { delaySeconds: 60 }],
		]);
		const old = consume({ ...world.deps, telemetry: {} }, { messages: messages.map((body) => ({ body })) });
		await expect(old).rejects.toBeInstanceOf(BatchFailed);
		expect(await countOf(testEnv.DB, "devices", app)).toBe(7);
		const set = { app_id: app.appId, device_id: deviceId(31), channel: "beta" };
		expect((await world.admin("POST /device", { body: set })).status).toBe(200);
		expect((await world.admin("POST /device", { body: { ...set, device_id: deviceId(1) } })).status).toBe(200);
		await moveTelemetry(world.deps);
		await consume(world.deps, { messages: messages.map((body) => ({ body })) });
		expect(await countOf(telemetry, "devices", app)).toBe(9);
	});
});

test("the database of an app depends on its UUID alone", () => {
	const databases = { TELEMETRY_0: telemetry, TELEMETRY_1: telemetry, TELEMETRY_2: telemetry };
	const uuids = Array.from({ length: 300 }, (_, index) => `00000000-0000-4000-8000-${index}`);
	const chosen = Map.groupBy(uuids, (uuid) => bindingFor(uuid, databases));
	expect([...chosen.keys()].sort()).toEqual(["TELEMETRY_0", "TELEMETRY_1", "TELEMETRY_2"]);
	for (const apps of chosen.values()) expect(apps.length).toBeGreaterThan(60);
	expect(bindingFor("any", {})).toBeUndefined();
});
