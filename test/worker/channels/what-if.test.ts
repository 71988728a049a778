/**
 * POST /channel/what_if predicts what all devices get after the change, and writes nothing.
 */

import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { consume } from "../../../src/consumer";
import { DAY_MS } from "../../../src/domain/time";
import { databaseText } from "../support/database-text";
import { type LeftVersion, tally, versionsLeft } from "../support/left-versions";
import { reportsOf } from "../support/reports";
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

const VERSIONS = ["1.0.1", "1.1.0", "2.0.0"];
const PLATFORMS = ["ios", "android", "electron"] as const;
const ROLLOUT_ID = "00000000-0000-4000-8000-00000000cafe";

interface AskedDevice {
	readonly device_id: string;
	readonly [field: string]: unknown;
}

let world: World;
let app: TestApp;
let fleet: AskedDevice[];
let bundleIds: number[];
beforeAll(async () => {
	world = await createWorld();
	({ app, fleet } = await appWithFleet(60));
	bundleIds = [];
	for (const version of VERSIONS) bundleIds.push(await uploadTestBundle(world, app, version));
});

/** An app with devices of every kind, seen now. */
async function appWithFleet(size: number): Promise<{ app: TestApp; fleet: AskedDevice[] }> {
	const made = await createTestApp(world);
	const devices = Array.from({ length: size }, (_, index) => ({
		device_id: crypto.randomUUID(),
		platform: PLATFORMS[index % 3],
		version_name: ["builtin", "1.0.1", "2.0.0", "9.9.9", ""][index % 5],
		version_build: ["1.0.0", "1.1.0", "3.0.0", "unknown"][index % 4],
		plugin_version: ["8.51.23", "8.51.23", "8.51.23", "6.0.0", "4.1.0"][Math.floor(index / 3) % 5],
		is_emulator: index % 7 === 0,
		is_prod: index % 6 !== 0,
		defaultChannel: ["", "", "beta", "absent"][Math.floor(index / 2) % 4],
	}));
	for (const device of devices) await ask(made, device);
	await deliver();
	return { app: made, fleet: devices };
}

async function deliver(): Promise<void> {
	const messages = world.deps.sent.splice(0).map((message) => ({ body: message }));
	await consume(world.deps, { messages: messages as never });
}

const ask = async (of: TestApp, device: AskedDevice) =>
	(await world.request("POST", "/updates", { body: { app_id: of.appId, ...device } })).body;
const whatIf = (body: object, key = world.adminKey) =>
	world.request("POST", "/channel/what_if", { key, body: { app_id: app.appId, ...body } });
const change = (body: object) =>
	world.request("POST", "/channel", { key: world.adminKey, body: { app_id: app.appId, ...body } });

interface DeviceAnswer {
	readonly outcome: string;
	readonly version: string | null;
	readonly error: string | null;
}
interface Outcome {
	readonly before: DeviceAnswer;
	readonly after: DeviceAnswer;
	readonly changed: boolean;
	readonly devices: number;
	readonly examples: string[];
}

const shown = ({ version, error }: DeviceAnswer) => error ?? version ?? "builtin";

async function answers(): Promise<Map<string, string>> {
	const answers = new Map<string, string>();
	for (const device of fleet) {
		const answer = await ask(app, device);
		answers.set(device.device_id, answer.error ?? answer.version);
	}
	return answers;
}

const choice = <Value>(...values: Value[]) => fc.option(fc.constantFrom(...values), { nil: undefined });
const settings = {
	version: choice<string | null>(...VERSIONS, null),
	public: choice(true, false),
	ios: choice(true, false),
	android: choice(true, false),
	electron: choice(true, false),
	allow_device_self_set: choice(true, false),
	allow_emulator: choice(true, false),
	allow_device: choice(true, true, false),
	allow_prod: choice(true, true, false),
	allow_dev: choice(true, false),
	disableAutoUpdate: choice("major", "minor", "patch", "version_number", "none", "none", "none"),
	disableAutoUpdateUnderNative: choice(true, false),
};
/** One intention about the rollout; two of them contradict each other. */
const intention = fc.oneof(
	fc.record({
		rolloutVersion: choice<string>(...VERSIONS),
		rolloutPercentage: choice(0, 12.5, 50, 100),
		rolloutEnabled: choice(true, true, false),
		rolloutPaused: choice(true, false),
		advanceRollout: choice(true),
	}),
	fc.constant({}),
	fc.constant({ rolloutVersion: null }),
	fc.constant({ rollback: true }),
	fc.constant({ promoteToStable: true }),
	fc.constant({ keep_rollout: true }),
);
const fieldsOfChange = fc.tuple(fc.record(settings), intention).map(([fields, more]) => ({ ...fields, ...more }));

describe("POST /channel/what_if", () => {
	test("equals the answers of all devices after the change, for random changes, channels and overrides", async () => {
		const state = fc.record({ production: fieldsOfChange, beta: fieldsOfChange });
		const changes = fc.record({ channel: fc.constantFrom("production", "beta", "new"), fields: fieldsOfChange });
		const overrides = fc.array(
			fc.record({
				device: fc.nat(59),
				channel: choice("production", "beta"),
				bundle: choice(0, 1, 2),
			}),
			{ maxLength: 4 },
		);
		const { newId } = world.deps;
		const refusals = new Set<string>();
		const moves = new Set<string>();
		await fc.assert(
			fc.asyncProperty(state, overrides, changes, async (before, set, { channel, fields }) => {
				await testEnv.DB.batch([
					testEnv.DB.prepare("DELETE FROM channels WHERE app_id = ?").bind(app.uuid),
					testEnv.DB.prepare("DELETE FROM device_overrides WHERE app_id = ?").bind(app.uuid),
				]);
				for (const name of ["production", "beta"] as const) {
					const created = await change({ channel: name, ...before[name] });
					if (created.status !== 201) await change({ channel: name, version: "1.1.0", public: name === "production" });
				}
				for (const { device, channel: forced, bundle } of set) {
					const body = {
						app_id: app.appId,
						device_id: fleet[device]?.device_id,
						channel: forced,
						version_id: bundle === undefined ? undefined : bundleIds[bundle],
					};
					await world.request("POST", "/device", { key: world.adminKey, body });
				}
				// The rollout's id draws the cohort, so both need the same id.
				Object.assign(world.deps, { newId: () => ROLLOUT_ID });
				const foretold = await whatIf({ channel, ...fields });
				const beforeThat = await answers();
				const made = await change({ channel, ...fields });
				Object.assign(world.deps, { newId });
				if (made.status > 201) {
					expect(foretold).toMatchObject({ status: made.status, body: { error: made.body.error } });
					refusals.add(made.body.error);
					return;
				}
				expect(foretold.status, JSON.stringify(foretold.body)).toBe(200);
				const afterThat = await answers();
				const outcomes: Outcome[] = foretold.body.outcomes;
				const predicted = tally(
					outcomes.map((outcome) => [`${shown(outcome.before)} -> ${shown(outcome.after)}`, outcome.devices]),
				);
				const really = tally(
					fleet.map(({ device_id }) => [`${beforeThat.get(device_id)} -> ${afterThat.get(device_id)}`, 1]),
				);
				expect(predicted).toEqual(really);
				const left: LeftVersion[] = foretold.body.from_versions;
				const foretoldLeft = tally(left.map(({ version_name, devices }) => [version_name, devices]));
				expect(foretoldLeft).toEqual(tally(versionsLeft(fleet, VERSIONS, beforeThat, afterThat)));
				expect(foretold.body).toMatchObject({ devices: 60, unjudged: 0, sampled: false, next: null });
				for (const outcome of outcomes) {
					expect(outcome.changed).toBe(JSON.stringify(outcome.before) !== JSON.stringify(outcome.after));
					for (const device of outcome.examples) {
						expect([beforeThat.get(device), afterThat.get(device)]).toEqual([
							shown(outcome.before),
							shown(outcome.after),
						]);
					}
				}
				for (const move of Object.keys(really)) moves.add(move);
			}),
			{ numRuns: 40, seed: 12 },
		);
		Object.assign(world.deps, { newId });
		expect(moves.size, "the cases are all alike").toBeGreaterThan(20);
		expect(refusals.size, "no change was refused").toBeGreaterThan(0);
	});

	test("honours pause, share, platform and policy, each alone", async () => {
		const own = await appWithFleet(0);
		for (const version of VERSIONS) await uploadTestBundle(world, own.app, version);
		const device = { version_name: "builtin", version_build: "1.0.0", platform: "ios", plugin_version: "8.51.23" };
		for (let index = 0; index < 40; index += 1) {
			await ask(own.app, { device_id: crypto.randomUUID(), ...device });
		}
		await deliver();
		await setTestChannel(world, own.app, "production", {
			public: true,
			version: "1.0.1",
			rolloutVersion: "1.1.0",
			rolloutPercentage: 100,
			rolloutEnabled: true,
			disableAutoUpdate: "none",
		});
		const effectOf = async (fields: object) => {
			const { body } = await whatIf({ app_id: own.app.appId, channel: "production", ...fields });
			return tally(
				body.outcomes.map((outcome: Outcome) => [
					`${shown(outcome.before)} -> ${shown(outcome.after)}`,
					outcome.devices,
				]),
			);
		};
		expect(await effectOf({})).toEqual({ "1.1.0 -> 1.1.0": 40 });
		expect(await effectOf({ rolloutPaused: true })).toEqual({ "1.1.0 -> 1.0.1": 40 });
		expect(await effectOf({ ios: false })).toEqual({ "1.1.0 -> no_channel": 40 });
		expect(await effectOf({ version: "2.0.0", rollback: true, disableAutoUpdate: "major" })).toEqual({
			"1.1.0 -> disable_auto_update_to_major": 40,
		});
		const half = await effectOf({ rolloutPercentage: 50 });
		expect((half["1.1.0 -> 1.1.0"] ?? 0) + (half["1.1.0 -> 1.0.1"] ?? 0)).toBe(40);
		expect(Object.keys(half)).toHaveLength(2);
	});
});

describe("the devices of POST /channel/what_if", () => {
	test("were seen in those days; devices without enough facts are counted apart", async () => {
		const own = await appWithFleet(6);
		const [reporting, old, named] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
		const report = { app_id: own.app.appId, device_id: reporting, action: "app_moved_to_foreground" };
		await world.request("POST", "/stats", { body: report });
		// Seven days more, because a device that changes nothing may have been seen so long after its row
		// says.
		world.clock.nowMs -= 13 * DAY_MS;
		await ask(own.app, { ...(fleet[0] as AskedDevice), device_id: old });
		world.clock.nowMs += 13 * DAY_MS;
		await deliver();
		await setTestChannel(world, own.app, "production");
		const override = { app_id: own.app.appId, device_id: named, channel: "production" };
		await world.request("POST", "/device", { key: world.adminKey, body: override });
		const counted = async (days?: number) =>
			(await whatIf({ app_id: own.app.appId, channel: "production", days })).body;
		expect(await counted(5)).toMatchObject({ devices: 7, unjudged: 1 });
		expect(await counted(6)).toMatchObject({ devices: 8, unjudged: 1 });
		expect(await counted()).toMatchObject({ devices: 8, unjudged: 1 });
	});

	test("are counted by channel, by first sight today and by kind of answer", async () => {
		const own = await appWithFleet(0);
		for (const version of VERSIONS) await uploadTestBundle(world, own.app, version);
		const device = (fields: object = {}) => ({
			device_id: crypto.randomUUID(),
			platform: "ios",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			...fields,
		});
		const beta = { defaultChannel: "beta" };
		await setTestChannel(world, own.app, "production", { public: true, version: "1.0.1" });
		await setTestChannel(world, own.app, "beta", { version: "1.0.1", allow_device_self_set: true });
		for (const one of [device(), device(), device(beta)]) await ask(own.app, one);
		world.clock.nowMs += DAY_MS;
		const young = [device(), device({ version_build: "3.0.0" }), device({ version_name: "1.1.0" }), device(beta)];
		for (const one of young) await ask(own.app, one);
		await deliver();
		const { body } = await whatIf({ app_id: own.app.appId, channel: "production", version: "1.1.0" });
		expect(body).toMatchObject({ devices: 7, changed: 4, channel_devices: 5, first_seen_today: 3 });
		const kinds = tally(
			body.outcomes
				.filter(({ after }: { after: { channel: string } }) => after.channel === "production")
				.map(({ after, devices }: { after: DeviceAnswer & { kind: string | null }; devices: number }) => [
					`${after.kind} ${shown(after)}`,
					devices,
				]),
		);
		expect(kinds).toEqual({
			"null 1.1.0": 3,
			"blocked disable_auto_update_under_native": 1,
			"up_to_date no_new_version_available": 1,
		});
		await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: own.app.appId, channel: "production", version: "1.1.0" },
		});
		const answers = await Promise.all(young.slice(0, 3).map((one) => ask(own.app, one)));
		expect(answers.map(({ kind }) => kind)).toEqual([undefined, "blocked", "up_to_date"]);
		world.clock.nowMs -= DAY_MS;
	});

	test("are read in pages of 5,000, and the pages add up", async () => {
		const { app: large } = await appWithFleet(0);
		await setTestChannel(world, large, "production", { public: true });
		const reports = await reportsOf(large.uuid);
		await reports
			.prepare(
				`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5003)
			INSERT INTO devices (app_id, device_id, platform, version_name, version_build, plugin_version, is_prod, is_emulator,
				last_seen_at_ms, created_at_ms, updated_at_ms)
			SELECT ?, printf('00000000-0000-4000-8000-%012d', i), 'ios', 'builtin', '1.0.0', '8.51.23', 1, 0, ?, 0, 0 FROM n`,
			)
			.bind(large.uuid, world.clock.nowMs)
			.run();
		const page = async (after?: string) =>
			(await whatIf({ app_id: large.appId, channel: "production", ios: false, after })).body;
		const first = await page();
		expect(first).toMatchObject({ devices: 5000, changed: 5000, sampled: true });
		expect(first.outcomes).toEqual([
			{
				before: {
					outcome: "none",
					version: null,
					error: "already_on_builtin",
					kind: "up_to_date",
					channel: "production",
					package: null,
					pinned: false,
				},
				after: {
					outcome: "none",
					version: null,
					error: "no_channel",
					kind: "failed",
					channel: null,
					package: null,
					pinned: false,
				},
				changed: true,
				devices: 5000,
				examples: [1, 2, 3, 4, 5].map((number) => `00000000-0000-4000-8000-00000000000${number}`),
			},
		]);
		expect(await page(first.next)).toMatchObject({ devices: 3, changed: 3, sampled: true, next: null });
	});
});

describe("a POST /channel/what_if request", () => {
	test("writes nothing, in every state and when repeated", async () => {
		await change({ channel: "production", public: true });
		const before = await databaseText();
		expect((await whatIf({ channel: "production", version: "1.0.1", rolloutVersion: "2.0.0" })).status).toBe(200);
		expect((await whatIf({ channel: "not-there-yet", public: true })).status).toBe(200);
		expect(await databaseText()).toBe(before);
	});

	test("keeps the cached snapshot: the next check reads no database", async () => {
		await change({ channel: "production", public: true, version: "1.0.1", rollback: true });
		const check = async () => {
			const body = { app_id: app.appId, ...(fleet[0] as AskedDevice) };
			return (await world.request("POST", "/updates", { body })).headers.get("server-timing");
		};
		await check();
		expect(await check()).toContain("trips=0");
		expect((await whatIf({ channel: "production", version: "2.0.0" })).status).toBe(200);
		expect(await check()).toContain("trips=0");
		await change({ channel: "production", version: "2.0.0" });
		// The isolate that made the change published the app, and read the feed with it.
		expect(await check()).toMatch(/trips=0(?!, memory)/);
	});

	test("needs permission to read the devices and the channel, not to change it", async () => {
		await change({ channel: "production" });
		const reader = await createTestKey(world, "app_reader", app);
		expect((await whatIf({ channel: "production", version: "2.0.0" }, reader.text)).status).toBe(200);
		const preview = await createTestKey(world, "app_preview", app);
		for (const channel of ["production", "not-there"]) {
			expect(await whatIf({ channel }, preview.text)).toMatchObject({
				status: 403,
				body: { moreInfo: { permission: "app.read_devices", scope: "app" } },
			});
		}
	});

	test.each([
		[{ version: "7.7.7" }, 404, "bundle_not_found"],
		[{ days: 0 }, 400, "invalid_request"],
		[{ days: 366 }, 400, "invalid_request"],
		[{ after: "x" }, 400, "invalid_request"],
	])("is refused for %j with %i %s", async (fields, status, error) => {
		expect(await whatIf({ channel: "production", ...fields })).toMatchObject({ status, body: { error } });
	});
});
