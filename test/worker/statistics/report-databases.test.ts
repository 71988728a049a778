/**
 * The telemetry database of an app: chosen when the app is created, used from its first report to
 * the last, and emptied after the app. One that fails or hangs keeps messages in the Queue, and
 * delays no update check, no change of a channel and no sign-in.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../src/app";
import { BatchFailed, consume } from "../../../src/consumer";
import { bindingFor } from "../../../src/db/telemetry-databases";
import type { Deps } from "../../../src/deps";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { nameDevices } from "../../../src/features/devices/named";
import { purgeOrganizations } from "../../../src/features/organizations/purge";
import { removeReports } from "../../../src/features/statistics/removed-apps";
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
const { TELEMETRY, SECOND_DB, TELEMETRY_MIGRATIONS } = testEnv as typeof testEnv & {
	readonly SECOND_DB: D1Database;
	readonly TELEMETRY_MIGRATIONS: readonly { readonly queries: readonly string[] }[];
};
beforeAll(async () => {
	const statements = TELEMETRY_MIGRATIONS.flatMap(({ queries }) => queries);
	await SECOND_DB.batch(statements.map((statement) => SECOND_DB.prepare(statement)));
});

async function deliver(world: Pick<World, "deps">, deps: Deps = world.deps): Promise<void> {
	const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
	await consume(deps, { messages: messages.map((body) => ({ body })) });
}

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
const checkOf = (world: Pick<World, "request">, app: TestApp, number: number, fields: object = {}) =>
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

describe("an app with two telemetry databases", () => {
	test("keeps the one that its creation chose, whatever databases are added", async () => {
		const world = await createWorld({ bindings: { telemetry: { TELEMETRY } } });
		const old = await createTestApp(world);
		const both = { ...world, deps: { ...world.deps, telemetry: { TELEMETRY, TELEMETRY_1: SECOND_DB } } };
		const grown = { ...both, request: requestThrough(createApp(both.deps)) };
		const added = [];
		for (let number = 0; number < 20; number++) added.push(await createTestApp(grown));
		const databaseOf = ({ uuid }: TestApp) =>
			({ TELEMETRY, TELEMETRY_1: SECOND_DB })[bindingFor(uuid, both.deps.telemetry)];
		for (const [number, app] of [old, ...added].entries()) await checkOf(grown, app, number);
		await deliver(grown);
		expect([await countOf(TELEMETRY, "devices", old), await countOf(SECOND_DB, "devices", old)]).toEqual([1, 0]);
		for (const app of added) {
			const own = databaseOf(app);
			const rows = [await countOf(TELEMETRY, "devices", app), await countOf(SECOND_DB, "devices", app)];
			expect(rows).toEqual(own === TELEMETRY ? [1, 0] : [0, 1]);
		}
		expect(new Set(added.map(databaseOf)).size).toBe(2);
		const key = world.adminKey;
		const range = { from: "2026-11-21", to: "2026-11-21", noAccumulate: "true" };
		const { body } = await grown.request("GET", `/statistics/org/${world.orgId}`, { key, query: range });
		expect(body[0].mau).toBe(21);
		expect((await grown.request("GET", "/statistics/apps", { key })).body).toHaveLength(21);
	});

	test("is not created without any", async () => {
		const world = await createWorld({ bindings: { telemetry: {} } });
		const body = { owner_org: world.orgId, app_id: "com.example.none", name: "None" };
		const refused = await world.request("POST", "/app", { key: world.adminKey, body });
		expect([refused.status, refused.body]).toMatchObject([503, { error: "service_unavailable" }]);
	});
});

describe("the reports of an app", () => {
	let world: World;
	let app: TestApp;
	beforeAll(async () => {
		world = await createWorld();
		app = await appWithDevices(world);
	});

	test("count versions that were registered after the first one by their name", async () => {
		await uploadTestBundle(world, app, "1.3.0");
		await checkOf(world, app, 8, { version_name: "1.3.0" });
		await deliver(world);
		const day = new Date(world.clock.nowMs).toISOString().slice(0, 10);
		const { body } = await world.request("GET", `/statistics/app/${app.appId}/bundle_usage`, {
			key: world.adminKey,
			query: { from: day, to: day },
		});
		const labels = body.datasets.map(({ label }: { label: string }) => label);
		expect(labels).toContain("1.3.0");
		expect(labels).not.toContain("unknown");
	});

	test("are stored again some minutes after the database was set back to a time before the app", async () => {
		const own = await createTestApp(world);
		await checkOf(world, own, 1);
		await deliver(world);
		expect(await countOf(TELEMETRY, "devices", own)).toBe(1);
		await TELEMETRY.prepare("DELETE FROM apps WHERE id = ?").bind(own.uuid).run();
		world.clock.nowMs += 10 * MINUTE_MS;
		await checkOf(world, own, 2);
		await deliver(world);
		expect(await countOf(TELEMETRY, "devices", own)).toBe(1);
	});

	test("have a row for a device that is only named, and get it later if the database failed", async () => {
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

	test("keep bundles that devices run, and devices with an override", async () => {
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
		const { results } = await TELEMETRY.prepare("SELECT device_id FROM devices WHERE app_id = ?").bind(app.uuid).all();
		expect(results.map(({ device_id }) => device_id).sort()).toEqual([deviceId(2), deviceId(50)]);
	});

	test("go after the app, and later ones are not stored", async () => {
		await checkOf(world, app, 1);
		const stale = world.deps.sent.splice(0);
		await world.admin("DELETE /app/:app_id", { params: { app_id: app.appId } });
		world.clock.nowMs += 31 * DAY_MS;
		for (let run = 0; run < 3; run++) await purgeOrganizations(world.deps);
		await removeReports(world.deps);
		// A consumer that knows the app may still write.
		expect(await countOf(TELEMETRY, "devices", app)).toBeGreaterThan(0);
		world.clock.nowMs += HOUR_MS;
		// Those of another database, which fails, are older and more than one run removes.
		const lost = Array.from({ length: 60 }, (_, number) => `lost-${number}`);
		const note = testEnv.DB.prepare("INSERT INTO report_removals VALUES (?, 'TELEMETRY_9', 1)");
		await testEnv.DB.batch(lost.map((id) => note.bind(id)));
		for (let run = 0; run < 3; run++) await expect(removeReports(world.deps, 5)).rejects.toThrow();
		await testEnv.DB.prepare("DELETE FROM report_removals WHERE telemetry_binding = 'TELEMETRY_9'").run();
		world.deps.sent.push(...stale);
		await deliver(world);
		for (const table of ["devices", "daily_totals", "bundles"])
			expect(await countOf(TELEMETRY, table, app), table).toBe(0);
		expect(await TELEMETRY.prepare("SELECT 1 FROM apps WHERE id = ?").bind(app.uuid).first()).toBeNull();
		expect(
			await testEnv.DB.prepare("SELECT 1 FROM report_removals WHERE app_id = ?").bind(app.uuid).first(),
		).toBeNull();
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
		world = await createWorld();
		app = await appWithDevices(world);
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

	test("keeps its messages for another try, and those of other databases are consumed", async () => {
		const telemetry = { TELEMETRY, TELEMETRY_1: SECOND_DB };
		const grown = { ...world, deps: { ...world.deps, telemetry } };
		const request = requestThrough(createApp(grown.deps));
		let other: TestApp;
		do other = await createTestApp({ ...grown, request });
		while (bindingFor(other.uuid, telemetry) !== "TELEMETRY_1");
		await checkOf(world, app, 20);
		await checkOf(world, other, 21);
		const messages = world.deps.sent.splice(0).filter(({ kind }) => kind === "device_events");
		const batch = () => ({ messages: messages.map((body) => ({ body })) });
		const broken = { ...grown.deps, telemetry: { ...telemetry, TELEMETRY: throwing() } };
		const error = await consume(broken, batch()).catch((thrown: unknown) => thrown);
		expect(error).toBeInstanceOf(BatchFailed);
		expect([await countOf(SECOND_DB, "devices", other), await countOf(TELEMETRY, "devices", app)]).toEqual([1, 7]);
		await consume(grown.deps, batch());
		expect([await countOf(SECOND_DB, "devices", other), await countOf(TELEMETRY, "devices", app)]).toEqual([1, 8]);
	});
});

test("the database of an app depends on its UUID alone", () => {
	const databases = { TELEMETRY_0: TELEMETRY, TELEMETRY_1: TELEMETRY, TELEMETRY_2: TELEMETRY };
	const uuids = Array.from({ length: 300 }, (_, index) => `00000000-0000-4000-8000-${index}`);
	const chosen = Map.groupBy(uuids, (uuid) => bindingFor(uuid, databases));
	expect([...chosen.keys()].sort()).toEqual(["TELEMETRY_0", "TELEMETRY_1", "TELEMETRY_2"]);
	for (const apps of chosen.values()) expect(apps.length).toBeGreaterThan(60);
});
