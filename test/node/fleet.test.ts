/**
 * A small fleet with known behaviour against the running product: every number that the product keeps and answers with equals what the
 * devices did, though the Queue delivers again, in another order and twice at once. `npm run fleet` does the same with a large one.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compareFleet } from "../fleet/compare";
import { distinctly, exactly, type Line, table } from "../fleet/comparison";
import { FAULTS } from "../fleet/control";
import { parseOptions } from "../fleet/options";
import { RolloutTruth, wilson } from "../fleet/rollout-truth";
import { type Fleet, simulate } from "../fleet/simulate";
import { AppTruth, DAY_MS, type KnownDevice } from "../fleet/truth";

const quietly = () => undefined;
/** A loaded machine is no defect. */
const LIMIT_MS = 900_000;

const differing = (lines: readonly Line[]) => lines.filter(({ holds }) => !holds).map(({ metric }) => metric);

describe("a fleet of 240 devices over four days", () => {
	let fleet: Fleet;
	let lines: readonly Line[];
	beforeAll(async () => {
		fleet = await simulate({ devices: 240, days: 4, seed: 7, faultShare: 0.3, attack: 0 }, quietly);
		lines = await compareFleet(fleet, quietly);
	}, LIMIT_MS);
	afterAll(() => fleet?.product.stop());

	test("was counted exactly, each number of it", () => {
		expect(differing(lines), table(lines)).toEqual([]);
	});

	test("had something to count of every kind", () => {
		const compared = new Map(lines.map(({ metric, truth }) => [metric, truth]));
		for (const metric of [
			...["get", "install", "fail"].map((figure) => `stored ${figure}, by day and version`),
			...["get", "install", "fail", "bandwidth"].map((figure) => `statistics: ${figure}, running total`),
			"statistics: mau, by day",
			"statistics: mau, different devices since the first day",
			"statistics: storage",
			"installs by bundle and channel: installs",
			"install times: how many",
			"install times: percentile 95, ms",
			"adoption: devices by day and bundle",
			"devices listed",
			"devices by channel",
			"gated rollouts: devices served",
			"gated rollouts: devices installed",
		]) {
			expect(compared.get(metric), metric).toBeGreaterThan(50);
		}
	});

	test("was served rollouts that stepped by themselves, one to everybody and one until devices failed", () => {
		const compared = new Map(lines.map(({ metric, answer }) => [metric, answer]));
		expect(compared.get("gated rollouts: devices failed")).toBeGreaterThan(5);
		expect(compared.get("gated rollouts: told to their end")).toBe(1);
		// Three steps and a stop.
		expect(compared.get("gated rollouts: acts of the service, in the audit log")).toBe(4);
	});

	test("was counted by a consumer that failed in every way", () => {
		for (const fault of FAULTS) expect(fleet.queue.faults[fault], fault).toBeGreaterThan(0);
		expect(fleet.queue.failures).toEqual([]);
	});

	test(
		"is told apart from one with a single install more, a byte less, and a device that was never there",
		async () => {
			const { database } = fleet.product;
			await database.batch(
				[
					"UPDATE daily_counts SET amount = amount + 1 WHERE metric = 'install' AND (app_id, day, version_name, channel_name) = (SELECT app_id, day, version_name, channel_name FROM daily_counts WHERE metric = 'install' LIMIT 1)",
					"UPDATE daily_totals SET bandwidth_bytes = bandwidth_bytes - 1 WHERE (app_id, day) = (SELECT app_id, day FROM daily_totals WHERE bandwidth_bytes > 0 LIMIT 1)",
					"INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms) SELECT id, '00000000-0000-4000-8000-000000000000', 0, 0 FROM apps LIMIT 1",
				].map((sql) => database.prepare(sql)),
			);
			expect(differing(await compareFleet(fleet, quietly))).toEqual(
				expect.arrayContaining([
					"stored install, by day and version",
					"installs in all: installs",
					"statistics: bandwidth, by day",
					"devices listed",
				]),
			);
		},
		LIMIT_MS,
	);
});

describe("a fleet of 60 devices with a staged rollout, and a stranger with 3,000 made-up devices from 50 addresses", () => {
	test(
		"is judged and counted as if the stranger were not there, and statistics grow by no more than what was accepted",
		async () => {
			const fleet = await simulate({ devices: 60, days: 4, seed: 11, faultShare: 0.3, attack: 3_000 }, quietly);
			try {
				const lines = await compareFleet(fleet, quietly);
				expect(differing(lines), table(lines)).toEqual([]);
				const compared = new Map(lines.map(({ metric, answer }) => [metric, answer]));
				expect(compared.get("gated rollouts: acts of the service, in the audit log")).toBe(4);
				expect(compared.get("attack: made-up devices that were answered")).toBeGreaterThan(1_000);
				expect(compared.get("attack: statistics between the fleet's own and what was accepted")).toBe(4);
			} finally {
				await fleet.product.stop();
			}
		},
		LIMIT_MS,
	);
});

describe("the comparison", () => {
	const pair = (truth: number, answer: number | undefined) => ({ of: "it", truth, answer });

	test("an exact number may not be off by one, nor be missing", () => {
		expect(exactly("m", [pair(5, 5), pair(0, 0)])).toMatchObject({ holds: true, truth: 5, answer: 5, compared: 2 });
		expect(exactly("m", [pair(5, 6), pair(6, 5)])).toMatchObject({
			holds: false,
			differences: ["it: 5, answered 6", "it: 6, answered 5"],
		});
		expect(exactly("m", [pair(0, undefined)]).holds).toBe(false);
		expect(exactly("m", [pair(0, 1)]).holds).toBe(false);
		expect(exactly("m", [pair(1, Number.NaN)]).holds).toBe(false);
	});

	test("distinct devices are exact up to a thousand and within 2 % above", () => {
		expect(distinctly("m", [pair(1_000, 1_001)]).holds).toBe(false);
		expect(distinctly("m", [pair(1_001, 1_021)]).holds).toBe(true);
		expect(distinctly("m", [pair(1_001, 1_022)]).holds).toBe(false);
		expect(distinctly("m", [pair(100_000, 98_000)]).holds).toBe(true);
		expect(distinctly("m", [pair(100_000, 97_999)]).holds).toBe(false);
	});

	test("the table names what differs", () => {
		const text = table([exactly("installs", [pair(2_000, 2_000)]), exactly("downloads", [pair(7, 8)])]);
		expect(text).toMatch(/installs +1 +2,000 +2,000 +exact +holds/);
		expect(text).toMatch(/downloads +1 +7 +8 +exact +DIFFERS/);
		expect(text).toContain("downloads: it: 7, answered 8");
	});
});

describe("the truth", () => {
	const device = (deviceId: string): KnownDevice => ({
		deviceId,
		platform: "android",
		versionName: "",
		versionBuild: "",
		osVersion: "",
		pluginVersion: "",
		isProd: true,
		isEmulator: false,
		customId: "",
		channelId: null,
		lastSeenDay: -1,
	});

	test("a device that is there on many days is one device", () => {
		const truth = new AppTruth("app", "uuid", "org");
		const numbers = Array.from({ length: 2_000 }, (_, index) => truth.enter(device(String(index))));
		for (const number of numbers)
			for (const day of [1, 2, 9]) if (number % 2 === 0 || day === 2) truth.seen(number, day * DAY_MS);
		expect([truth.distinct(1, 1), truth.distinct(2, 2), truth.distinct(1, 9), truth.distinct(3, 8)]).toEqual([
			1_000, 2_000, 2_000, 0,
		]);
	});

	test("a report without a time counts once a day, one with a time as often as it is told", () => {
		const truth = new AppTruth("app", "uuid", "org");
		truth.versions.add("1.0.1");
		const number = truth.enter(device("a"));
		const timeless = { action: "set", versionName: "1.0.1", timestamp: undefined };
		truth.reported(number, timeless, 5 * DAY_MS, "beta");
		truth.reported(number, timeless, 5 * DAY_MS + 1, "beta");
		truth.reported(number, timeless, 6 * DAY_MS, "beta");
		// The day before is not forgotten at once.
		truth.reported(number, timeless, 5 * DAY_MS + 2, "beta");
		for (const timestamp of [1, 2]) truth.reported(number, { ...timeless, timestamp }, 6 * DAY_MS, "");
		const installs = (wanted: object) => truth.counts.sum({ metric: "install", ...wanted });
		expect([
			installs({ day: 5 }),
			installs({ day: 6 }),
			installs({ channel: "beta" }),
			installs({ version: "" }),
		]).toEqual([1, 3, 2, 0]);
	});
});

describe("the truth of a rollout", () => {
	const gate = { steps: [1, 100], limitBps: 2_000, stepMinDevices: 3, minAttempts: 10, minFailures: 3 };
	const rolloutOf = (devices: number, failing: number) => {
		const rollout = new RolloutTruth("1.0.1", gate, 5 * DAY_MS, 0);
		for (let device = 0; device < devices; device += 1) {
			rollout.serves(device, 4);
			rollout.told(device, "installed", 5 * DAY_MS + 1);
			if (device < failing) rollout.told(device, "failed", 5 * DAY_MS + 2);
		}
		return rollout;
	};

	test("grows when it is shown to be good, stops when it is shown to be bad, and waits in between", () => {
		expect(
			[rolloutOf(2, 0), rolloutOf(20, 0), rolloutOf(20, 4), rolloutOf(20, 12)].map(({ verdict }) => verdict),
		).toEqual(["waits", "grows", "waits", "stops"]);
		const grown = rolloutOf(20, 0);
		grown.grow(6 * DAY_MS);
		expect([grown.percent, grown.verdict, grown.figures.inStep]).toEqual([100, "at the end", 0]);
	});

	test("counts those who were known before its day, by what came last", () => {
		const rollout = rolloutOf(4, 2);
		rollout.serves(90, 5);
		rollout.told(90, "failed", 5 * DAY_MS + 3);
		rollout.told(91, "failed", 5 * DAY_MS + 3);
		rollout.serves(92, 4);
		rollout.runs(0, 5 * DAY_MS + 4);
		expect(rollout.figures).toEqual({ served: 5, installed: 3, failed: 1, silent: 1, inStep: 4 });
	});

	test("has the interval of Wilson", () => {
		expect(wilson(0, 0)).toEqual([0, 1]);
		// At its bounds the share that was seen is as many deviations away as belong to 80 %.
		for (const bound of wilson(3, 30)) {
			expect(Math.abs(0.1 - bound) / Math.sqrt((bound * (1 - bound)) / 30)).toBeCloseTo(1.2816, 4);
		}
	});
});

describe("options", () => {
	test("are a small fleet unless they say otherwise", () => {
		expect(parseOptions([])).toEqual({ devices: 300, days: 5, seed: 1, faultShare: 0.3, attack: 0, json: false });
		expect(
			parseOptions(["--devices", "100000", "--days", "366", "--seed", "9", "--faults", "0", "--attack", "9", "--json"]),
		).toEqual({
			devices: 100_000,
			days: 366,
			seed: 9,
			faultShare: 0,
			attack: 9,
			json: true,
		});
	});

	test.each([
		[["--devices", "100001"], /--devices must be a whole number from 1 to 100000[\s\S]*npm run fleet/],
		[["--days", "0"], /--days must be/],
		[["--seed", "x"], /--seed must be/],
		[["--device", "3"], /npm run fleet/],
	])("%j is refused with what may be written", (argv, message) => {
		expect(() => parseOptions(argv)).toThrow(message);
	});
});
