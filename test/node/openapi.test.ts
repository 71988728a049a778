/**
 * openapi.json is what the endpoints say, its examples are what they take and answer, and nothing that makes it is in the Worker.
 */
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { isRaw } from "../../src/api/endpoint";
import { openApiDocument } from "../../src/api/openapi";
import { allEndpoints } from "../../src/app";
import { buildWorker } from "../../src/cli/build";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;

describe("openapi.json", () => {
	test("is current; `npm run openapi` writes it", () => {
		const written = JSON.parse(readFileSync(new URL("../../src/docs/openapi.json", import.meta.url), "utf8"));
		expect(written).toEqual(JSON.parse(JSON.stringify(openApiDocument(allEndpoints))));
	});

	test("has every operation once, with its permission and the error envelope", () => {
		const { paths } = openApiDocument(allEndpoints) as {
			paths: Record<string, Record<string, Record<string, unknown>>>;
		};
		const operations = Object.values(paths).flatMap((path) => Object.values(path));
		expect(operations).toHaveLength(allEndpoints.length);
		expect(new Set(operations.map((operation) => operation.operationId)).size).toBe(allEndpoints.length);
		for (const operation of operations) expect(operation).toHaveProperty("x-capstan-permission");
	});

	test.each(allEndpoints.map((endpoint) => [keyOf(endpoint), endpoint] as const))(
		"the example of %s is true",
		(_, endpoint) => {
			const { example } = endpoint;
			if (endpoint.query !== undefined && example.query !== undefined) v.parse(endpoint.query, example.query);
			if (endpoint.body !== undefined) v.parse(endpoint.body, example.body ?? {});
			if (!isRaw(endpoint.response) && "response" in example) v.parse(endpoint.response, example.response);
		},
	);

	test("costs the Worker nothing, and the Worker stays under 150 kB compressed", async () => {
		const { script } = await buildWorker({ minify: true });
		expect(script).not.toContain("to-json-schema");
		expect(script).not.toContain("x-capstan-permission");
		const { gzipSync } = await import("node:zlib");
		expect(gzipSync(script).length).toBeLessThan(150_000);
	});
});
