/**
 * A small fleet with known behaviour against the running product: every number in the database and
 * in answers equals what the devices did, though the Queue delivers repeatedly, in another order
 * and twice at the same time. `npm run test:fleet` does the same with a large one.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/time";
import { compareFleet } from "./compare";
import { distinctly, exactly, type Line, table } from "./comparison";
import { FAULTS } from "./control";
import { parseOptions } from "./options";
import { RolloutTruth, wilson } from "./rollout-truth";
import { type Fleet, simulate } from "./simulate";
import { AppTruth, type KnownDevice } from "./truth";

const quietly = () => undefined;
/** A loaded machine is no defect. */
const LIMIT_MS = 900_000;

const differing = (lines: readonly Line[]) => lines.filter(({ holds }) => !holds).map(({ metric }) => metric);

describe("a fleet of 240 devices over four days", () => {
	let fleet: Fleet;
	let lines: readonly Line[];
	beforeAll(async () => {
		fleet = await simulate({ devices: 240, days: 4, seed: 7, faultShare: 0.3, attack: 0, signals: 240 }, quietly);
		lines = await compareFleet(fleet, quietly);
	}, LIMIT_MS);
	afterAll(() => fleet?.product.stop());

	test("every number is counted exactly", () => {
		expect(differing(lines), table(lines)).toEqual([]);
	});

	test("every kind of number occurs", () => {
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

	test("automatic rollouts reach every device, or stop when devices fail", () => {
		const compared = new Map(lines.map(({ metric, answer }) => [metric, answer]));
		expect(compared.get("gated rollouts: devices failed")).toBeGreaterThan(5);
		expect(compared.get("gated rollouts: followed to their end")).toBe(1);
		// Three steps and a stop.
		expect(compared.get("gated rollouts: acts of the service, in the audit log")).toBe(4);
	});

	test("rollouts judged by crashes, hangs and errors stop at the right step or reach every device, and false signals count nowhere", () => {
		const compared = new Map(lines.map(({ metric, answer }) => [metric, answer]));
		const of = (figure: string) => compared.get(`rollouts gated on signals: ${figure}`);
		expect(of("followed to their end")).toBe(1);
		// The hanging bundle takes a step, the noisy one two; the crashing and the hanging one stop.
		expect(of("acts of the service, in the audit log")).toBe(5);
		expect(of("devices crashed")).toBeGreaterThan(20);
		expect(of("devices errored")).toBeGreaterThan(20);
		expect(of("devices served after the stop")).toBe(0);
	});

	test("the consumer fails in every way", () => {
		for (const fault of FAULTS) expect(fleet.queue.faults[fault], fault).toBeGreaterThan(0);
		expect(fleet.queue.failures).toEqual([]);
	});

	test(
		"the comparison finds one additional install, one missing byte, and a device that never existed",
		async () => {
			const { telemetry } = fleet.product;
			await telemetry.batch(
				[
					"UPDATE daily_counts SET amount = amount + 1 WHERE metric = 'install' AND (app_id, day, version_name, channel_name) = (SELECT app_id, day, version_name, channel_name FROM daily_counts WHERE metric = 'install' LIMIT 1)",
					"UPDATE daily_totals SET bandwidth_bytes = bandwidth_bytes - 1 WHERE (app_id, day) = (SELECT app_id, day FROM daily_totals WHERE bandwidth_bytes > 0 LIMIT 1)",
					"INSERT INTO devices (app_id, device_id, created_at_ms, updated_at_ms) SELECT id, '00000000-0000-4000-8000-000000000000', 0, 0 FROM apps LIMIT 1",
				].map((sql) => telemetry.prepare(sql)),
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

describe("a fleet of 60 devices with a staged rollout, and a stranger with 900 made-up devices from 50 addresses", () => {
	test(
		"rollouts proceed as without the stranger, and statistics grow by at most the accepted reports",
		async () => {
			const fleet = await simulate(
				{ devices: 60, days: 4, seed: 11, faultShare: 0.3, attack: 900, signals: 0 },
				quietly,
			);
			try {
				const lines = await compareFleet(fleet, quietly);
				expect(differing(lines), table(lines)).toEqual([]);
				const compared = new Map(lines.map(({ metric, answer }) => [metric, answer]));
				expect(compared.get("gated rollouts: acts of the service, in the audit log")).toBe(4);
				expect(compared.get("attack: made-up devices that were answered")).toBeGreaterThan(300);
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

	test("refuses an exact number that is off by one or missing", () => {
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

	test("a device that is active on many days is one device", () => {
		const truth = new AppTruth("app", "uuid", "org");
		const numbers = Array.from({ length: 2_000 }, (_, index) => truth.enter(device(String(index))));
		for (const number of numbers)
			for (const day of [1, 2, 9]) if (number % 2 === 0 || day === 2) truth.seen(number, day * DAY_MS);
		expect([truth.distinct(1, 1), truth.distinct(2, 2), truth.distinct(1, 9), truth.distinct(3, 8)]).toEqual([
			1_000, 2_000, 2_000, 0,
		]);
	});

	test("a report without a timestamp counts once a day, one with a timestamp each time", () => {
		const truth = new AppTruth("app", "uuid", "org");
		truth.versions.add("1.0.1");
		const number = truth.enter(device("a"));
		const timeless = { action: "set", versionName: "1.0.1", timestamp: undefined };
		truth.reported(number, timeless, 5 * DAY_MS, "beta");
		truth.reported(number, timeless, 5 * DAY_MS + 1, "beta");
		truth.reported(number, timeless, 6 * DAY_MS, "beta");
		// The previous day is still open for a while.
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
			rollout.reports(device, "installed", 5 * DAY_MS + 1);
			if (device < failing) rollout.reports(device, "failed", 5 * DAY_MS + 2);
		}
		return rollout;
	};

	test("grows when healthy, stops when failing, and waits in between", () => {
		expect(
			[rolloutOf(2, 0), rolloutOf(20, 0), rolloutOf(20, 4), rolloutOf(20, 12)].map(({ verdict }) => verdict),
		).toEqual(["waits", "grows", "waits", "stops"]);
		const grown = rolloutOf(20, 0);
		grown.grow(6 * DAY_MS);
		expect([grown.percent, grown.verdict, grown.figures.inStep]).toEqual([100, "at the end", 0]);
	});

	test("counts devices that were known before its day, by their last report", () => {
		const rollout = rolloutOf(4, 2);
		rollout.serves(90, 5);
		rollout.reports(90, "failed", 5 * DAY_MS + 3);
		rollout.reports(91, "failed", 5 * DAY_MS + 3);
		rollout.serves(92, 4);
		rollout.runs(0, 5 * DAY_MS + 4);
		expect(rollout.figures).toEqual({
			served: 5,
			installed: 3,
			failed: 1,
			crashed: 0,
			errored: 0,
			silent: 1,
			inStep: 4,
		});
	});

	test("uses the Wilson interval", () => {
		expect(wilson(0, 0)).toEqual([0, 1]);
		// At its bounds the observed share is as many deviations away as 80 % requires.
		for (const bound of wilson(3, 30)) {
			expect(Math.abs(0.1 - bound) / Math.sqrt((bound * (1 - bound)) / 30)).toBeCloseTo(1.2816, 4);
		}
	});
});

describe("options", () => {
	test("are a small fleet by default", () => {
		expect(parseOptions([])).toEqual({
			devices: 300,
			days: 5,
			seed: 1,
			faultShare: 0.3,
			attack: 0,
			signals: 300,
			json: false,
		});
		expect(
			parseOptions([
				"--devices",
				"100000",
				"--days",
				"366",
				"--seed",
				"9",
				"--faults",
				"0",
				"--attack",
				"9",
				"--signals",
				"0",
				"--json",
			]),
		).toEqual({
			devices: 100_000,
			days: 366,
			seed: 9,
			faultShare: 0,
			attack: 9,
			signals: 0,
			json: true,
		});
	});

	test.each([
		[["--devices", "100001"], /--devices must be a whole number from 1 to 100000[\s\S]*npm run test:fleet/],
		[["--days", "0"], /--days must be/],
		[["--seed", "x"], /--seed must be/],
		[["--device", "3"], /npm run test:fleet/],
	])("%j is refused with what may be written", (argv, message) => {
		expect(() => parseOptions(argv)).toThrow(message);
	});
});
