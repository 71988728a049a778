/**
 * A fleet with known behaviour sends real requests. Its messages reach the real consumer several
 * times, out of order and in parallel, with a database that fails before and after its writes; in
 * one run, the reports move to the telemetry database meanwhile, and the Worker of the release
 * before consumes as well. In the end every figure of every answer equals the true one.
 */
import { describe, expect, test } from "vitest";
import { BatchFailed, consume } from "../../../src/consumer";
import { DAY_MS } from "../../../src/domain/time";
import type { QueueMessage } from "../../../src/messages";
import { withFault } from "../support/faults";
import { createTestApp, createWorld, NOW_MS, setTestChannel, type TestApp, uploadTestBundle } from "../support/world";
import { bundleOf } from "../support/zip";

const DAYS = 4;
const DEVICES = 24;
const VERSIONS = ["1.0.1", "1.0.2"];

/** Mulberry32. */
function draws(seed: number): () => number {
	let state = seed;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
	};
}

interface DayTruth {
	devices: Map<string, string>;
	get: number;
	install: number;
	fail: number;
	bandwidth: number;
	durations: number[];
}

async function liveThrough(seed: number) {
	const draw = draws(seed);
	const chance = (share: number) => draw() < share;
	const world = await createWorld();
	const app: TestApp = await createTestApp(world);
	for (const version of VERSIONS) await uploadTestBundle(world, app, version, undefined, bundleOf(1000 + seed));
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await setTestChannel(world, app, "beta", { version: "1.0.2", allow_device_self_set: true });
	world.deps.sent.length = 0;
	const truth: DayTruth[] = [];
	const outcomes = new Map<string, { install: number; fail: number }>();
	const fleet = Array.from({ length: DEVICES }, (_, index) => ({
		id: `00000000-0000-4000-8000-${String(seed * 1000 + index).padStart(12, "0")}`,
		channel: index % 3 === 0 ? "beta" : "production",
		runs: "builtin",
	}));
	for (let day = 0; day < DAYS; day++) {
		world.clock.nowMs = NOW_MS + day * DAY_MS;
		const today: DayTruth = { devices: new Map(), get: 0, install: 0, fail: 0, bandwidth: 0, durations: [] };
		truth.push(today);
		for (const device of fleet) {
			if (chance(0.3)) continue;
			const body = (fields: object = {}) => ({
				app_id: app.appId,
				device_id: device.id,
				platform: "android",
				version_name: device.runs,
				version_build: "1.0.0",
				version_os: "15",
				plugin_version: "8.51.23",
				is_emulator: false,
				is_prod: true,
				defaultChannel: device.channel === "beta" ? "beta" : "",
				...fields,
			});
			const pass = (ms: number) => {
				world.clock.nowMs += ms;
			};
			const report = async (action: string, version: string, fields: object = {}) => {
				const sent = body({ action, version_name: version, timestamp: world.clock.nowMs, ...fields });
				for (let times = chance(0.2) ? 3 : 1; times > 0; times--) {
					const answer = await world.request("POST", "/stats", { body: chance(0.5) ? [sent] : sent });
					expect(answer.status).toBe(200);
				}
				pass(1);
			};
			today.devices.set(device.id, device.runs);
			const { body: offer } = await world.request("POST", "/updates", { body: body() });
			pass(10);
			if (typeof offer.url !== "string" || chance(0.2)) continue;
			const version: string = offer.version;
			const startedAtMs = world.clock.nowMs;
			await report("download_zip_start", version, { timestamp: undefined });
			const range: Record<string, string> = chance(0.3) ? { range: "bytes=0-99" } : {};
			const download = await world.request<ArrayBuffer>("GET", offer.url, { headers: range });
			today.bandwidth += download.body.byteLength;
			pass(100 + Math.floor(draw() * 60_000));
			const outcome = outcomes.get(`${version} ${device.channel}`) ?? { install: 0, fail: 0 };
			outcomes.set(`${version} ${device.channel}`, outcome);
			if (chance(0.25)) {
				await report("download_fail", version);
				today.fail += 1;
				outcome.fail += 1;
				continue;
			}
			await report("download_complete", version);
			today.get += 1;
			const setAtMs = world.clock.nowMs;
			await report("set", version);
			today.install += 1;
			outcome.install += 1;
			today.durations.push(setAtMs - startedAtMs);
			device.runs = version;
			today.devices.set(device.id, version);
			if (chance(0.3)) {
				await report("reset", "builtin");
				device.runs = "builtin";
				today.devices.set(device.id, "builtin");
			}
		}
	}
	return { world, app, truth, outcomes, draw };
}

/** How far messages are out of order. */
type Reach = "day" | "all";

type Lived = Awaited<ReturnType<typeof liveThrough>>;

/** Everything arrives, some of it often; whatever the consumer could not do arrives again. */
async function deliverBadly(lived: Lived, messages: readonly QueueMessage[], reach: Reach) {
	const { world, draw } = lived;
	world.deps.sent.length = 0;
	const pick = <Item>(items: Item[]) => items.splice(Math.floor(draw() * items.length), 1)[0] as Item;
	const shuffled = <Item>(items: readonly Item[]) => {
		const left = [...items];
		return Array.from(items, () => pick(left));
	};
	const dayOf = (message: QueueMessage) =>
		message.kind === "device_events" ? Math.floor((message.events[0]?.atMs ?? 0) / DAY_MS) : 0;
	const several = messages.flatMap((message) => (draw() < 0.3 ? [message, message] : [message]));
	const waiting =
		reach !== "day" ? shuffled(several) : shuffled(several).sort((one, other) => dayOf(one) - dayOf(other));
	let failures = 0;
	while (waiting.length > 0) {
		const size = 1 + Math.floor(draw() * 60);
		const sameDay =
			reach !== "day" ? waiting.length : waiting.filter((one) => dayOf(one) === dayOf(waiting[0] as never)).length;
		const batches = [waiting.splice(0, Math.min(size, sameDay))];
		if (draw() < 0.3) batches.push([...(batches[0] as QueueMessage[])].reverse());
		await Promise.all(
			batches.map(async (batch) => {
				const kind = draw() < 0.5 ? "refused" : "answer lost";
				const faulty = draw() < 0.5 ? withFault(world, 1 + Math.floor(draw() * 5), kind).deps : world.deps;
				const delivered = batch.map((body) => ({ body }));
				try {
					await consume(faulty, { messages: delivered });
				} catch (error) {
					if (!(error instanceof BatchFailed)) throw error;
					failures += 1;
					waiting.unshift(...shuffled(delivered.filter((one) => error.failed.has(one)).map(({ body }) => body)));
				}
			}),
		);
	}
	return failures;
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0);

describe.each([1, 2, 3])("the statistics of a fleet (%i)", (seed) => {
	test.each(["day", "all"] as const)("equal its true history, with messages out of order within: %s", async (reach) => {
		const lived = await liveThrough(seed * 2 + (reach === "day" ? 0 : 1));
		const { world, app, truth, outcomes } = lived;
		const messages = world.deps.sent.filter((message) => message.kind === "device_events");
		expect(messages.length).toBeGreaterThan(100);
		expect(await deliverBadly(lived, messages, reach)).toBeGreaterThan(3);

		const day = (offset: number) => new Date(NOW_MS + offset * DAY_MS).toISOString().slice(0, 10);
		const query = { from: day(0), to: day(DAYS - 1) };
		const get = async (path: string, more = {}) => {
			const answer = await world.request("GET", path, { key: world.adminKey, query: { ...query, ...more } });
			expect(answer.status).toBe(200);
			return answer.body;
		};
		const plain = (items: readonly Record<string, unknown>[]) =>
			items.map(({ mau, bandwidth, get, install, fail }) => ({ mau, bandwidth, get, install, fail }));
		const daily = truth.map(({ devices, get, install, fail, bandwidth }) => ({
			mau: devices.size,
			bandwidth,
			get,
			install,
			fail,
		}));
		const paths = [`/statistics/app/${app.appId}`, "/statistics/user", `/statistics/org/${world.orgId}`];
		for (const path of paths) expect(plain(await get(path, { noAccumulate: "true" })), path).toEqual(daily);
		const sum = (of: "bandwidth" | "get" | "install" | "fail", until: number) =>
			daily.slice(0, until + 1).reduce((total, item) => total + item[of], 0);
		const running = daily.map((_, until) => ({
			mau: new Set(truth.slice(0, until + 1).flatMap(({ devices }) => [...devices.keys()])).size,
			bandwidth: sum("bandwidth", until),
			get: sum("get", until),
			install: sum("install", until),
			fail: sum("fail", until),
		}));
		for (const path of paths) expect(plain(await get(path)), path).toEqual(running);

		const usage = await get(`/statistics/app/${app.appId}/bundle_usage`);
		const counted = usage.labels.map((_: string, index: number) =>
			Object.fromEntries(
				usage.datasets
					.map((bundle: { label: string; metaCounts: number[] }) => [bundle.label, bundle.metaCounts[index]])
					.filter(([, devices]: [string, number]) => devices > 0),
			),
		);
		const run = truth.map(({ devices }) => {
			const byVersion: Record<string, number> = {};
			for (const version of devices.values()) byVersion[version] = (byVersion[version] ?? 0) + 1;
			return byVersion;
		});
		if (reach === "day") expect(counted).toEqual(run);
		// A message that arrives after those of later days may count under another version of its day; no
		// device counts twice.
		for (const [index, byVersion] of counted.entries()) {
			const devices = truth[index]?.devices.size ?? 0;
			const wrong = Object.entries(run[index] ?? {}).map(([version, amount]) =>
				Math.abs(amount - (byVersion[version] ?? 0)),
			);
			expect(sumOf(Object.values<number>(byVersion))).toBeLessThanOrEqual(devices);
			expect(sumOf(wrong)).toBeLessThan(Math.max(4, devices / 3));
		}
		for (let index = 0; index < DAYS; index++) {
			const shares = usage.datasets.map((bundle: { data: number[] }) => Math.round((bundle.data[index] ?? 0) * 10));
			expect(shares.reduce((total: number, share: number) => total + share, 0)).toBe(1000);
		}

		const installs = await get(`/statistics/app/${app.appId}/installs`);
		const byBoth = installs.byBundleAndChannel.map((row: Record<string, unknown>) => [
			`${row.version} ${row.channel}`,
			{ install: row.install, fail: row.fail },
		]);
		expect(Object.fromEntries(byBoth)).toEqual(Object.fromEntries(outcomes));
		const durations = truth.flatMap((of) => of.durations).sort((one, other) => one - other);
		expect(installs.total.timed).toBe(durations.length);
		for (const [percent, field] of [
			[50, "p50_ms"],
			[95, "p95_ms"],
		] as const) {
			const exact = durations[Math.ceil((durations.length * percent) / 100) - 1] ?? Number.NaN;
			expect(Math.abs(installs.total[field] / exact - 1), `${field} ${installs.total[field]} ${exact}`).toBeLessThan(
				0.0255,
			);
		}
	});
});
