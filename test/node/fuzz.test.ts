/**
 * Malformed requests against the running product: a small part of what `npm run test:fuzz` sends,
 * and proof that the judge of the answers detects faults.
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { prepareOf } from "../proof/fuzz/base-requests";
import { type ApiDocument, type Operation, readDocument } from "../proof/fuzz/document";
import { createOracle, type Oracle } from "../proof/fuzz/oracle";
import { randomOf } from "../proof/fuzz/random";
import type { RawAnswer, RawRequest } from "../proof/fuzz/raw-http";
import type { FuzzResult } from "../proof/fuzz/report";
import { reportOf } from "../proof/fuzz/report";
import { fuzz } from "../proof/fuzz/run";
import { Fields, jsonOf, Raw, treeOf } from "../proof/fuzz/values";
import { type Product, startProduct } from "./support/product";

const LEAST_PER_OPERATION = 8;
/** A machine that is busy with other tests takes several times as long. */
const TIME_LIMIT_MS = 900_000;

describe("malformed requests", () => {
	let result: FuzzResult;
	beforeAll(async () => {
		result = await fuzz({
			seed: 1,
			requests: 700,
			leastPerOperation: LEAST_PER_OPERATION,
			failureDirectory: fileURLToPath(new URL("../../dist/fuzz", import.meta.url)),
		});
	}, TIME_LIMIT_MS);

	test("cause no internal error, reveal no secret and nothing undeclared, and change no other organization", () => {
		expect(result.failures.length + result.aftermath.length, reportOf(result)).toBe(0);
	});

	test("reach every operation, and most pass its authorization", () => {
		const refused = (statuses: Record<string, number>) => (statuses["401"] ?? 0) + (statuses["403"] ?? 0);
		for (const { name, requests, reached, statuses } of result.operations) {
			expect(requests, name).toBeGreaterThanOrEqual(LEAST_PER_OPERATION);
			expect(reached, name).toBeGreaterThanOrEqual(requests / 2);
			expect(refused(statuses), name).toBeLessThan(reached);
		}
		const all = result.operations.reduce((sum, { statuses }) => sum + refused(statuses), 0);
		expect(all).toBeLessThan(result.requests / 4);
	});
});

describe("the judge", () => {
	let product: Product;
	let api: ApiDocument;
	let oracle: Oracle;
	let getApp: Operation;
	beforeAll(async () => {
		product = await startProduct();
		api = readDocument((await (await fetch(`${product.url}/openapi.json`)).json()) as object);
		oracle = createOracle(api, product.url, { never: [product.adminKey] });
		getApp = api.operations.find(({ name }) => name === "GET /app") as Operation;
	});
	afterAll(async () => {
		await product.stop();
	});

	const request: RawRequest = { method: "GET", target: "/app", headers: [], body: undefined };
	const answer = (status: number, body: unknown, more: [string, string][] = []): RawAnswer => ({
		status,
		headers: [["content-type", "application/json"], ["cache-control", "no-store"], ["x-request-id", "r"], ...more],
		body: Buffer.from(JSON.stringify(body)),
	});
	const error = (code: string, more: object = {}) => ({
		error: code,
		message: "Send less.",
		moreInfo: {},
		status: "KO",
		requestId: "r",
		...more,
	});
	const faults = (given: RawAnswer, of: RawRequest = request) => oracle.judge(of, given).faults.join("; ");

	test("finds nothing wrong with good answers", async () => {
		expect(faults(answer(200, []))).toBe("");
		expect(faults(answer(400, error("invalid_request")))).toBe("");
		expect(faults(answer(404, error("not_found")), { ...request, target: "/nothing" })).toBe("");
	});

	test.each<[string, () => RawAnswer, string]>([
		["a failure of ours", () => answer(500, error("internal_error")), "status 500"],
		["a field that is not declared", () => answer(200, [{ surprise: 1 }]), "outside the schema"],
		["a missing field", () => answer(200, [{}]), "outside the schema"],
		["a status that is not declared", () => answer(418, error("teapot")), "does not declare the status 418"],
		["a code of another status", () => answer(400, error("app_not_found")), "not declared for 400"],
		["another shape of errors", () => answer(400, { ...error("invalid_request"), stack: "" }), "fields stack"],
		["an error without its id", () => answer(400, error("invalid_request", { requestId: "q" })), "requestId"],
		["no JSON", () => ({ ...answer(200, []), body: Buffer.from("<html>") }), "no JSON"],
		[
			"text that is not UTF-8",
			() => ({ ...answer(200, []), body: Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]) }),
			"no JSON",
		],
		["a known secret", () => answer(400, error("invalid_request", { message: product.adminKey })), "a secret"],
		["a secret in a header", () => answer(200, [], [["link", product.adminKey]]), "a secret"],
		[
			"the text of any key",
			() => answer(400, error("invalid_request", { message: `cap_${"x".repeat(38)}` })),
			"text of a key",
		],
		[
			"a stack trace",
			() => answer(400, error("invalid_request", { message: "x\n    at handle (worker.js:1:2)" })),
			"stack trace",
		],
		["text of the database", () => answer(400, error("invalid_request", { message: "SQLITE_ERROR" })), "database"],
		[
			"a path of this machine",
			() => answer(400, error("invalid_request", { message: "/usr/lib/node" })),
			"file system",
		],
		[
			"an error of the language",
			() => answer(400, error("invalid_request", { message: "x is not a function" })),
			"language",
		],
		["a header that the request brought", () => answer(200, [], [["x-injected", "1"]]), "add a header"],
		["too many round trips", () => answer(200, [], [["server-timing", 'd1;desc="trips=4"']]), "round trips"],
		["an answer from elsewhere", () => ({ ...answer(200, []), headers: [] }), "other than the service"],
	])("finds %s", (_, given, found) => {
		expect(faults(given())).toContain(found);
	});

	test("reports a missing answer, unless the request was no HTTP", () => {
		expect(oracle.judge(request, "timeout").faults).toEqual(["no answer: timeout"]);
		expect(oracle.judge(request, "closed").faults).toEqual(["no answer: closed"]);
		expect(oracle.judge({ ...request, unsound: true }, "closed").faults).toEqual([]);
	});

	test("knows which operation a path addresses, as the service does", () => {
		const at = (method: string, target: string) => api.resolve(method, target, product.url).operation?.name;
		expect(at("GET", "/app")).toBe(getApp.name);
		expect(at("HEAD", "/%61pp/")).toBe("GET /app");
		expect(at("GET", "/x/../app")).toBe("GET /app");
		expect(at("GET", "/x/%2e%2e/app")).toBe(undefined);
		expect(at("GET", "/files/read/attachments/a/b/c")).toBe("GET /files/read/attachments/{path}");
		expect(at("GET", "/app/a/b")).toBe(undefined);
		expect(at("GET", "/app/a\\b")).toBe("GET /app/{app_id}");
		expect(at("GET", "//%2e%2e/app")).toBe(undefined);
	});

	test("an operation without a known request stops the run, and the error says where to add it", () => {
		const unknown = { ...getApp, name: "POST /new", bodySchema: { type: "object" } };
		expect(() => prepareOf(unknown)).toThrow("POST /new; add one to REQUESTS in test/worker/support/requests.ts");
		expect(() => prepareOf({ ...unknown, takesKey: false })).toThrow(
			"to PUBLIC_REQUESTS in test/worker/support/requests.ts",
		);
	});
});

test("the same seed draws the same requests, another one does not", () => {
	const draw = (name: string) => Array.from({ length: 5 }, randomOf(name).number);
	expect(draw("1/getApp/7")).toEqual(draw("1/getApp/7"));
	expect(draw("2/getApp/7")).not.toEqual(draw("1/getApp/7"));
});

test("writes JSON that no JavaScript object can hold", () => {
	const tree = treeOf({ a: [1, null] });
	if (!(tree instanceof Fields)) throw new Error("no object");
	tree.entries.push(["a", new Raw("1e999")], ["__proto__", "\ud800"]);
	expect(jsonOf(tree)).toBe('{"a":[1,null],"a":1e999,"__proto__":"\\ud800"}');
});
