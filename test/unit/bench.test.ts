/**
 * The bench: its arithmetic, its HTTP parser, and that it refuses to count a wrong answer. No test
 * measures time.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CASE_NAMES, casesOf, GOALS } from "../../bench/cases";
import { parseAnswer } from "../../bench/connection";
import { MEASURED } from "../../bench/cost-docs";
import {
	type CostCounts,
	costLines,
	FLEETS,
	messagesPerEvent,
	monthOf,
	partsOf,
	totalOf,
} from "../../bench/cost-model";
import { NOTHING } from "../../bench/counts";
import type { Host, Hosts } from "../../bench/hosts";
import { runLoad } from "../../bench/load";
import { type CaseResult, FULL, type Measured } from "../../bench/measure";
import { parseOptions } from "../../bench/options";
import { dollarsPerMillion, INCLUDED, PRICES } from "../../bench/prices";
import { goalsOf, markdown } from "../../bench/report";
import type { Scenario } from "../../bench/scenarios";
import { median, percentile, ratioOfRounds } from "../../bench/statistics";
import { visibleLines } from "../../bench/visible";
import { URGENT_INSTALLS_AN_HOUR } from "../../src/queue/urgency";

describe("figures", () => {
	test("percentile returns the nearest rank", () => {
		const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
		expect([50, 99, 100].map((percent) => percentile(hundred, percent))).toEqual([50, 99, 100]);
		expect(percentile([7], 99)).toBe(7);
		expect(percentile([1, 2, 3], 50)).toBe(2);
		expect(percentile([], 50)).toBeNaN();
	});

	test("median of an even number of values is the mean of the middle two", () => {
		expect(median([9, 1, 5])).toBe(5);
		expect(median([9, 1, 5, 6])).toBe(5.5);
		expect(median([])).toBeNaN();
	});

	test("ratioOfRounds compares within rounds, so load on both sides has no effect", () => {
		expect(ratioOfRounds([100, 10, 100], [50, 5, 50])).toBe(2);
		// One bad round for only one side does not change the median.
		expect(ratioOfRounds([100, 10, 30], [50, 5, 60])).toBe(2);
	});
});

describe("cost", () => {
	const usage = { ...NOTHING, requests: 1, cpuMs: 0 };

	test("of a check that reads three rows in 2 ms is 0.343 dollars per million", () => {
		expect(dollarsPerMillion({ ...usage, cpuMs: 2, d1RowsRead: 3 })).toBeCloseTo(0.343, 6);
	});

	test("of a check without database queries is its request and its CPU time", () => {
		expect(dollarsPerMillion({ ...usage, cpuMs: 1 })).toBeCloseTo(0.32, 6);
	});

	test("of rows written, messages and objects follows the price list", () => {
		expect(dollarsPerMillion({ ...usage, d1RowsWritten: 3 })).toBeCloseTo(3.3, 6);
		expect(dollarsPerMillion({ ...usage, queueMessages: 1 })).toBeCloseTo(1.5, 6);
		expect(dollarsPerMillion({ ...usage, requests: 3, r2ClassA: 1, r2ClassB: 1 })).toBeCloseTo(5.76, 6);
	});

	test("comes from a dated price list", () => {
		expect(PRICES.asOf).toMatch(/^\d{4}-\d{2}-\d{2}$/);
	});
});

describe("the price of a million checks", () => {
	const rows = (d1RowsWritten: number, d1RowsRead = 0) => ({ d1RowsWritten, d1RowsRead });
	const update = { ...rows(4), batch: rows(6), downloads: 1, reports: 2, cpuMs: 0, r2ClassB: 1, r2ClassBAgain: 0 };
	const counts: CostCounts = {
		checkCpuMs: 0.5,
		pauseSeconds: 20,
		longestSeconds: 120,
		urgentSeconds: 1,
		urgentPerHour: 1e9,
		batchSeconds: 10,
		isolateReports: true,
		checkBatch: rows(2),
		deviceBytes: 700,
		updateBytes: 100,
		firstEver: rows(2),
		returning: rows(1),
		noNews: rows(0),
		question: rows(0, 1),
		sharesQuestions: true,
		zip: update,
		delta: { ...update, downloads: 100, r2ClassB: 100 },
		deltaFiles: 100,
		cold: { ...rows(0, 10), r2ClassA: 0, r2ClassB: 1 },
		cleanUp: { ...rows(0, 5_000), r2ClassA: 0 },
		logLinesPerCheck: 0,
	};
	/** Ten checks per second and isolate. */
	const fleet = { name: "test", devices: 864_000, checksPerDevice: 1, apps: 1, isolates: 1 };
	const part = (name: string, form: "zip" | "delta" = "zip", of = fleet, measured = counts) =>
		partsOf(of, measured, form).find((one) => one.name === name)?.dollars;

	test("follows its arithmetic by hand", () => {
		expect(messagesPerEvent(10, 0, counts)).toBeCloseTo(1 / 140, 9);
		// Twenty seconds without an event hardly happen, so each message is open for two minutes and has
		// 61 events.
		expect(messagesPerEvent(0.5, 0, counts)).toBeCloseTo(1 / 61, 4);
		expect(messagesPerEvent(0.0001, 0, counts)).toBeCloseTo(1, 2);
		// Urgent events end two thirds of the messages.
		expect(messagesPerEvent(0.5, 0.01, counts)).toBeCloseTo((1 - 0.01 * 69.9) / (1 + 0.5 * 69.9), 4);
		expect(part("requests of checks")).toBeCloseTo(0.3, 9);
		expect(part("CPU of checks")).toBeCloseTo(0.01, 9);
		expect(part("messages of checks")).toBeCloseTo(1.2 / 140, 9);
		expect(part("rows of new devices")).toBeCloseTo(0.02 * 2, 9);
		expect(part("rows of returning devices")).toBeCloseTo(0.98, 9);
		expect(part("rows of updates")).toBeCloseTo(4 / 7, 9);
		// Two reports an update; one waits, and of the other there are 10 / 7 a second, buffered for a
		// second.
		const messages = 1 / 140 / 7 + 1 / 7 / (1 + 10 / 7);
		expect(part("reports of updates")).toBeCloseTo((2 / 7) * 0.3 + 1.2 * messages, 9);
		// 0.07 + 0.6 messages a second: batches of seven and a half, each with checks and updates.
		const batches = (1 / 140 + messages) / (1 + 100 * (1 / 140 + messages));
		expect(part("daily figures")).toBeCloseTo(Math.min(batches, 1 / 140) * 2 + batches * 3, 9);
		// 123,429 downloads, of which 300 data centers read R2 once an hour.
		expect(part("downloads")).toBeCloseTo(0.3 / 7 + (7_200 * 0.36) / 864_000, 9);
		expect(part("downloads", "delta")).toBeCloseTo(30 / 7 + (720_000 * 0.36) / 864_000, 9);
		// 1 / (2 s + 0.1 s) questions a second of one row each.
		expect(part("questions for changes")).toBeCloseTo((86_400 / 2.1) * (0.001 / 864_000), 9);
		expect(part("cold isolates")).toBeCloseTo((24 * (10 * 0.001 + 0.36)) / 864_000, 9);
		expect(part("clean-up")).toBeCloseTo((96 * 5_000 * 0.001) / 864_000, 9);
		// 864,000 devices and 180 days of 17,280 new ones, and 30 days of updates, for 25.92 million
		// checks a month.
		const gigabytes = (3_974_400 * 700 + (864_000 / 7) * 30 * 100) / 1e9;
		expect(part("storage of devices")).toBeCloseTo((gigabytes * 0.75) / 25.92, 9);
		expect(part("log lines")).toBe(0);
	});

	test("grows with isolates, and with apps only if each app has its own questions", () => {
		const spread = { ...fleet, isolates: 1_000 };
		// 0.01 checks a second and isolate, and a seventh as many reports that wait.
		const perEvent = messagesPerEvent(0.08 / 7, 0.01 / 7, counts);
		expect(part("messages of checks", "zip", spread)).toBeCloseTo(1.2 * perEvent, 9);
		const many = { ...fleet, apps: 1_000 };
		expect(part("questions for changes", "zip", many)).toBe(part("questions for changes"));
		const own = part("questions for changes", "zip", many, { ...counts, sharesQuestions: false }) ?? 0;
		expect(own).toBeCloseTo(((1_000 * 86_400) / 102) * (0.001 / 864_000), 9);
	});

	test("is at most 0.85 dollars for a million devices with weekly updates, by the last measurement", () => {
		const fleet = FLEETS.find(({ name }) => name === "1 M devices");
		expect(fleet && totalOf(partsOf(fleet, MEASURED, "zip"))).toBeLessThanOrEqual(0.85);
	});

	test("of the measured buffer is that of the product", () => {
		expect(MEASURED).toMatchObject({ urgentPerHour: URGENT_INSTALLS_AN_HOUR, urgentSeconds: 1 });
	});

	test("becomes the bill of a month without what the plan includes", () => {
		const small = monthOf({ name: "", devices: 1_000, checksPerDevice: 1, apps: 1, isolates: 1 }, counts, "zip");
		expect(small.dollars).toBe(INCLUDED.fee);
		const large = { name: "", devices: 1_000_000, checksPerDevice: 1, apps: 1, isolates: 1, updates: 0 };
		const { beyond, dollars } = monthOf(large, { ...counts, deviceBytes: 1_500 }, "zip");
		expect(beyond.requests).toBeCloseTo((30 - 10) * 0.3, 6);
		expect(beyond["CPU time"]).toBe(0);
		// 20,000 new devices of two rows, 980,000 of one, and two for each of the batches.
		expect(beyond["D1 rows written"]).toBe(0);
		// 4.6 M devices of 1,500 bytes.
		expect(beyond["D1 storage"]).toBeCloseTo((6.9 - 5) * 0.75, 6);
		expect(dollars).toBeCloseTo(INCLUDED.fee + Object.values(beyond).reduce((sum, one) => sum + one, 0), 9);
	});

	test("is shown for each fleet with its sum and its goal", () => {
		const text = costLines(counts).join("\n");
		for (const { name } of FLEETS) expect(text).toContain(`| ${name} |`);
		expect(text).toContain("| 1 M devices | 3,000,000 | 330 |");
		expect(text).toMatch(/\(met|\*\*missed\*\* with zip updates\)/);
		expect(costLines(counts, 77).join("\n")).toContain("**hobbyist**, 77 isolates");
	});
});

describe("options", () => {
	test("select all cases by default", () => {
		expect(parseOptions([])).toEqual({ json: false, quick: false, only: CASE_NAMES, isolates: undefined });
		expect(parseOptions(["--quick", "--json", "--only", "check", "--only", "upload,channel-get"])).toEqual({
			json: true,
			quick: true,
			only: ["check", "upload", "channel-get"],
			isolates: undefined,
			delivery: undefined,
		});
	});

	test.each([
		[["--only", "cheek"], /Unknown case "cheek"[\s\S]*Cases: check, /],
		[["--fast"], /--fast[\s\S]*npm run bench/],
		[["check"], /npm run bench/],
		[["--isolates", "many"], /--isolates must be a whole number/],
	])("%j prints the usage", (argv, message) => {
		expect(() => parseOptions(argv)).toThrow(message);
	});

	test("name existing cases, and every goal compares two contenders of one case", () => {
		const host = { name: "none" } as Host<never>;
		const hosts: Hosts = {
			capstan10: host,
			capstan1000: host,
			capstanApps: host,
			capstanReports: host,
			raw: host,
			hono: host,
			alike: host,
			hotUpdater10: host,
			hotUpdater1000: host,
		};
		const cases = casesOf(hosts, 1);
		const alone = [
			"visible",
			"isolates",
			"memory",
			"neighbours",
			"consumers",
			"cost",
			"cold",
			"delivery",
			"growth",
			"overload",
		];
		expect([...cases.map(({ name }) => name), ...alone]).toEqual([...CASE_NAMES]);
		for (const { caseName, ours, theirs } of GOALS) {
			const labels = cases.find(({ name }) => name === caseName)?.contenders.map(({ label }) => label);
			expect(labels).toEqual(expect.arrayContaining([ours, theirs]));
		}
	});
});

describe("parseAnswer", () => {
	const read = (text: string) => parseAnswer(Buffer.from(text));

	test("reads length and chunked encoding, however the bytes are split", () => {
		for (const text of [
			"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nX: y\r\n\r\nhé llo",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhé\r\n4\r\n llo\r\n0\r\n\r\n",
		]) {
			const bytes = Buffer.from(text);
			for (let end = 0; end < bytes.length; end += 1) expect(parseAnswer(bytes.subarray(0, end))).toBeUndefined();
			expect(parseAnswer(bytes)).toEqual({ answer: { status: 200, body: "hé llo" }, end: bytes.length });
		}
	});

	test("reads an answer without a body", () => {
		expect(read("HTTP/1.1 204 No Content\r\nA: b\r\n\r\n")?.answer).toEqual({ status: 204, body: "" });
	});

	test("throws for anything else", () => {
		expect(() => read("SSH-2.0-server\r\n\r\n")).toThrow("not an HTTP answer");
		expect(() => read("HTTP/1.1 200 OK\r\n\r\n")).toThrow("without a length");
	});
});

describe("load", () => {
	let origin: string;
	const seen: string[] = [];
	const server = createServer((request, response) => {
		seen.push(request.url ?? "");
		if (request.url === "/slow-down") response.writeHead(429).end("slow down");
		else if (request.url === "/gone") request.socket.destroy();
		else response.end(JSON.stringify({ path: request.url }));
	});
	beforeAll(async () => {
		await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
		origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	});
	afterAll(() => server.close());

	const run = (scenario: Scenario) =>
		runLoad({ origin, scenario, connections: 2, durationMs: 60_000, mostOperations: 20, firstNumber: 5 });
	const get = (path: string, contains: readonly string[] = []): Scenario => ({
		kind: "numbered",
		question: { method: "GET", path },
		status: 200,
		contains,
	});

	test("runs the ordered number of operations, each with a unique number", async () => {
		expect(await run(get("/item-:n", ['"path":"/item-']))).toMatchObject({ latenciesMs: { length: 20 } });
		expect(new Set(seen.filter((path) => path.startsWith("/item-"))).size).toBe(20);
	});

	test("ends the run on a refusal, a wrong body or a broken connection, and counts none of them", async () => {
		expect(await run(get("/slow-down"))).toEqual({ failure: expect.stringMatching(/wrong answer: 429 slow down/) });
		expect(await run(get("/item-:n", ["another"]))).toEqual({ failure: expect.stringMatching(/wrong answer: 200/) });
		expect(await run(get("/gone"))).toEqual({ failure: expect.stringMatching(/closed the connection/) });
	});
});

describe("the report", () => {
	const [goal] = GOALS;
	if (goal === undefined) throw new Error("there are no goals");
	const measured = (label: string, rates: number[], cpuMs: number): Measured => ({
		label,
		rates,
		operationsPerSecond: median(rates),
		p50Ms: 1.25,
		p99Ms: 9,
		cpuMs,
		cpuMsOfRounds: rates.map(() => cpuMs),
		requests: 1,
		counts: { ...NOTHING, d1Trips: 1, d1RowsRead: 16 },
		dollarsPerMillion: 0.32,
	});
	const cases: CaseResult[] = [
		{
			name: goal.caseName,
			title: "A case",
			way: "load",
			rounds: 3,
			contenders: [measured(goal.ours, [80, 8, 81], 0.1), measured(goal.theirs, [100, 10, 100], 0.09)],
		},
	];

	test("compares goals with the ratios of rounds, and omits goals that were not measured", () => {
		expect(goalsOf(cases)).toEqual([
			{
				title: goal.title,
				atLeast: goal.atLeast,
				measured: 0.8,
				measuredByCpu: expect.closeTo(0.9),
				verdict: "missed",
			},
		]);
	});

	test("judges no goal if the ratios of the rounds lie apart", () => {
		const verdictOf = (rates: number[]) => {
			const contenders = [measured(goal.ours, rates, 1), measured(goal.theirs, [100, 100, 100, 100], 1)];
			return goalsOf([{ name: goal.caseName, title: "A case", way: "load", rounds: 4, contenders }])[0]?.verdict;
		};
		expect(verdictOf([91, 90, 95, 92])).toBe("met");
		expect(verdictOf([71, 70, 75, 72])).toBe("missed");
		expect(verdictOf([91, 40, 150, 92])).toBe("too noisy to judge");
	});

	test("shows p50, p99 and the longest stale answer of each kind of change, and the goal", () => {
		const elsewhereMs = Array.from({ length: 200 }, (_, index) => (index < 198 ? index * 10 : 5_100));
		const lines = (extraMs: readonly number[]) =>
			visibleLines({
				isolates: 3,
				changes: 100,
				answers: 9_000,
				durationMs: 60_000,
				kinds: [{ title: "publish", hereMs: [0, 0], elsewhereMs: [...elsewhereMs, ...extraMs] }],
			}).join("\n");
		expect(lines([])).toContain("| publish | 2 | 0.99 s | 1.97 s | 5.10 s | 0 |");
		expect(lines([])).toContain("p99 within 5 s (met)");
		expect(lines([5_100])).toContain("p99 within 5 s (missed)");
	});

	test("shows every row with its ratio", () => {
		const text = markdown({
			command: "npm run bench",
			machine: { cores: 2, load: [0.5, 1], platform: "linux x64", node: "20.0.0", workerd: "1.2.3" },
			effort: FULL,
			prices: PRICES,
			workers: [{ name: "Capstan", bytes: 450_000, gzipBytes: 120_000 }],
			cases,
			goals: goalsOf(cases),
			visible: undefined,
			isolates: undefined,
			delivery: undefined,
			growth: undefined,
			overload: undefined,
			memory: undefined,
			neighbours: undefined,
			consumers: undefined,
			cost: undefined,
			costIsolates: undefined,
			cold: undefined,
			leftOut: undefined,
		});
		expect(text).toContain("| Capstan, 10 bundles and channels | 80 | 1.25 | 9.00 | 0.100 | 1 | 16 / 0 | 0.32 |  |");
		expect(text).toContain("| 0.80 × |");
		expect(text).toContain("| Capstan | 450.0 kB | 120.0 kB |");
		const columns = text.split("\n").filter((line) => line.startsWith("| ") && line.split("|").length > 7);
		expect(new Set(columns.map((line) => line.split("|").length))).toEqual(new Set([11]));
	});
});
