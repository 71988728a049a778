/**
 * The pieces that the bench's figures are made of: its arithmetic, its reading of HTTP, and that it refuses to count a wrong answer. No
 * test here asks how long anything took.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CASE_NAMES, casesOf, GOALS } from "../../bench/cases";
import { parseAnswer } from "../../bench/connection";
import { NOTHING } from "../../bench/counts";
import type { Host, Hosts } from "../../bench/hosts";
import { runLoad } from "../../bench/load";
import { type CaseResult, FULL, type Measured } from "../../bench/measure";
import { parseOptions } from "../../bench/options";
import { dollarsPerMillion, PRICES } from "../../bench/prices";
import { goalsOf, markdown } from "../../bench/report";
import type { Scenario } from "../../bench/scenarios";
import { median, percentile, ratioOfRounds } from "../../bench/statistics";
import { visibleLines } from "../../bench/visible";

describe("figures", () => {
	test("a percentile is the smallest value that so many do not exceed", () => {
		const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
		expect([50, 99, 100].map((percent) => percentile(hundred, percent))).toEqual([50, 99, 100]);
		expect(percentile([7], 99)).toBe(7);
		expect(percentile([1, 2, 3], 50)).toBe(2);
		expect(percentile([], 50)).toBeNaN();
	});

	test("the median of an even number of values is the mean of the middle two", () => {
		expect(median([9, 1, 5])).toBe(5);
		expect(median([9, 1, 5, 6])).toBe(5.5);
		expect(median([])).toBeNaN();
	});

	test("a ratio compares rounds, so a slow spell that hits both sides does not show", () => {
		expect(ratioOfRounds([100, 10, 100], [50, 5, 50])).toBe(2);
		// One round that was unlucky for one side alone decides nothing.
		expect(ratioOfRounds([100, 10, 30], [50, 5, 60])).toBe(2);
	});
});

describe("cost", () => {
	const usage = { ...NOTHING, requests: 1, cpuMs: 0 };

	test("a check that reads three rows in 2 ms costs 0.343 dollars a million", () => {
		expect(dollarsPerMillion({ ...usage, cpuMs: 2, d1RowsRead: 3 })).toBeCloseTo(0.343, 6);
	});

	test("a check that touches no database costs its request and its CPU time", () => {
		expect(dollarsPerMillion({ ...usage, cpuMs: 1 })).toBeCloseTo(0.32, 6);
	});

	test("rows written, messages and objects cost what the list says", () => {
		expect(dollarsPerMillion({ ...usage, d1RowsWritten: 3 })).toBeCloseTo(3.3, 6);
		expect(dollarsPerMillion({ ...usage, queueMessages: 1 })).toBeCloseTo(1.5, 6);
		expect(dollarsPerMillion({ ...usage, requests: 3, r2ClassA: 1, r2ClassB: 1 })).toBeCloseTo(5.76, 6);
	});

	test("the list has its date", () => {
		expect(PRICES.asOf).toMatch(/^\d{4}-\d{2}-\d{2}$/);
	});
});

describe("options", () => {
	test("all cases run unless some are named", () => {
		expect(parseOptions([])).toEqual({ json: false, quick: false, only: CASE_NAMES });
		expect(parseOptions(["--quick", "--json", "--only", "check", "--only", "upload,channel-get"])).toEqual({
			json: true,
			quick: true,
			only: ["check", "upload", "channel-get"],
		});
	});

	test.each([
		[["--only", "cheek"], /There is no case "cheek"[\s\S]*Cases: check, /],
		[["--fast"], /--fast[\s\S]*npm run bench/],
		[["check"], /npm run bench/],
	])("%j is refused with what may be written", (argv, message) => {
		expect(() => parseOptions(argv)).toThrow(message);
	});

	test("every name is a case, and every goal compares two contenders of one", () => {
		const host = { name: "none" } as Host<never>;
		const hosts: Hosts = {
			capstan10: host,
			capstan1000: host,
			capstanFresh: host,
			hono: host,
			hotUpdater10: host,
			hotUpdater1000: host,
		};
		const cases = casesOf(hosts, 1);
		expect([...cases.map(({ name }) => name), "visible", "memory"]).toEqual([...CASE_NAMES]);
		for (const { caseName, ours, theirs } of GOALS) {
			const labels = cases.find(({ name }) => name === caseName)?.contenders.map(({ label }) => label);
			expect(labels).toEqual(expect.arrayContaining([ours, theirs]));
		}
	});
});

describe("reading answers", () => {
	const read = (text: string) => parseAnswer(Buffer.from(text));

	test("by length and by chunks, whatever the bytes are split into", () => {
		for (const text of [
			"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nX: y\r\n\r\nhé llo",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhé\r\n4\r\n llo\r\n0\r\n\r\n",
		]) {
			const bytes = Buffer.from(text);
			for (let end = 0; end < bytes.length; end += 1) expect(parseAnswer(bytes.subarray(0, end))).toBeUndefined();
			expect(parseAnswer(bytes)).toEqual({ answer: { status: 200, body: "hé llo" }, end: bytes.length });
		}
	});

	test("an answer without a body", () => {
		expect(read("HTTP/1.1 204 No Content\r\nA: b\r\n\r\n")?.answer).toEqual({ status: 204, body: "" });
	});

	test("anything else is a fault", () => {
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

	test("as many operations as were ordered, each with a number of its own", async () => {
		expect(await run(get("/item-:n", ['"path":"/item-']))).toMatchObject({ latenciesMs: { length: 20 } });
		expect(new Set(seen.filter((path) => path.startsWith("/item-"))).size).toBe(20);
	});

	test("a refusal, a wrong body and a broken connection end the run: none is counted as speed", async () => {
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
		{ name: "upload", title: "Another case", skipped: "there is no such thing yet" },
	];

	test("goals are held to the ratio of the rounds, and those that were not measured say nothing", () => {
		expect(goalsOf(cases)).toEqual([
			{ title: goal.title, atLeast: goal.atLeast, measured: 0.8, measuredByCpu: expect.closeTo(0.9), met: true },
		]);
	});

	test("of what was visible when, the Markdown has p50, p99 and the longest stale answer of each kind, and the goal", () => {
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

	test("the Markdown has every row, its ratio, and what was skipped and why", () => {
		const text = markdown({
			command: "npm run bench",
			machine: { cores: 2, load: [0.5, 1], platform: "linux x64", node: "20.0.0", workerd: "1.2.3" },
			effort: FULL,
			prices: PRICES,
			workers: [{ name: "Capstan", bytes: 450_000, gzipBytes: 120_000 }],
			cases,
			goals: goalsOf(cases),
			visible: undefined,
			memory: undefined,
			leftOut: undefined,
		});
		expect(text).toContain("| Capstan, 10 bundles and channels | 80 | 1.25 | 9.00 | 0.100 | 1 | 16 / 0 | 0.32 |  |");
		expect(text).toContain("| 0.80 × |");
		expect(text).toContain("| **Another case** | skipped: there is no such thing yet |");
		expect(text).toContain("| Capstan | 450.0 kB | 120.0 kB |");
		const columns = text.split("\n").filter((line) => line.startsWith("| ") && line.split("|").length > 6);
		expect(new Set(columns.map((line) => line.split("|").length))).toEqual(new Set([11]));
	});
});
