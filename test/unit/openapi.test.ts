/**
 * openapi.json is what the endpoints say, its examples are what they take and answer, and nothing
 * that makes it is in the Worker.
 */
import { Validator } from "@seriousme/openapi-schema-validator";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { EVENT_TYPES } from "../../src/domain/webhooks/event-types";
import { allEndpoints } from "../../src/endpoints";
import { ERROR_STATUS } from "../../src/errors";
import { type AnyEndpoint, isRaw, permissionsOf } from "../../src/http/endpoint";
import { openApiDocument } from "../../src/http/openapi";
import { buildWorker } from "../../src/operator/build";
import { apiSurface, openApiText } from "../../src/operator/openapi";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;

const endpoints: readonly AnyEndpoint[] = allEndpoints;

interface Operation {
	readonly operationId: string;
	readonly description: string;
	readonly security: readonly unknown[];
	readonly parameters: readonly { name: string; required: boolean; example?: unknown }[];
	readonly responses: Readonly<Record<string, { description: string } | undefined>>;
	readonly "x-capstan-permission": unknown;
}

/** Generated once; each test gets a copy. */
const documentText = openApiText();
const documented = () => JSON.parse(documentText);

/** Operations by the method and path that their endpoints have. */
function operationsByKey(): ReadonlyMap<string, Operation> {
	const { paths }: { paths: Record<string, Record<string, Operation>> } = documented();
	const byKey = new Map<string, Operation>();
	for (const endpoint of endpoints) {
		const path = endpoint.path.replace(/\{.+?\}$/, "").replace(/:(\w+)/g, "{$1}");
		const operation = paths[path]?.[endpoint.method.toLowerCase()];
		if (operation !== undefined) byKey.set(keyOf(endpoint), operation);
	}
	const written = Object.values(paths).reduce((sum, path) => sum + Object.keys(path).length, 0);
	expect(written, "operations that no endpoint has").toBe(byKey.size);
	return byKey;
}

const needsBody = (endpoint: AnyEndpoint) => endpoint.body !== undefined && !v.safeParse(endpoint.body, {}).success;

describe("openapi.json", () => {
	test("has the operations of test/api-surface.txt", async () => {
		await expect(apiSurface(documentText)).toMatchFileSnapshot("../api-surface.txt");
	});

	test("lists the events of webhooks and mails, and how many a list may have", () => {
		for (const [path, method] of [
			["/webhook", "post"],
			["/webhook", "put"],
			["/account/mails", "put"],
		] as const) {
			const { schema } = documented().paths[path][method].requestBody.content["application/json"];
			const { events } = schema.properties;
			const list = events.anyOf?.[0] ?? events;
			expect(list, path).toEqual({
				type: "array",
				maxItems: EVENT_TYPES.length,
				items: { type: "string", enum: EVENT_TYPES },
			});
		}
	});

	test("is valid OpenAPI 3.1, by a validator that refuses a broken one", async () => {
		const validator = new Validator();
		expect(await validator.validate(documented())).toEqual({ valid: true });
		expect(validator.version).toBe("3.1");
		const broken = { ...documented(), paths: { "/app": { get: { responses: { ok: {} } } } } };
		expect((await new Validator().validate(broken)).valid).toBe(false);
	});

	test("has every operation once, with its permission or the reason for none", () => {
		const operations = operationsByKey();
		expect(operations.size).toBe(endpoints.length);
		expect(new Set([...operations.values()].map((operation) => operation.operationId)).size).toBe(endpoints.length);
		for (const endpoint of endpoints) {
			const { access } = endpoint;
			const operation = operations.get(keyOf(endpoint));
			const reason =
				"public" in access
					? access.public
					: "anyKey" in access
						? access.anyKey
						: "ownSession" in access
							? access.ownSession
							: undefined;
			const permissions = "globalPermission" in access ? [access.globalPermission] : permissionsOf(access);
			const words = { public: "public", anyKey: "any key", ownSession: "own session" };
			const word = Object.entries(words).find(([name]) => name in access)?.[1];
			const needed = word ?? permissions;
			expect(operation?.["x-capstan-permission"], keyOf(endpoint)).toEqual(needed);
			for (const text of reason === undefined ? permissions : [reason]) {
				expect(operation?.description, keyOf(endpoint)).toContain(text);
			}
			expect(operation?.security, keyOf(endpoint)).toHaveLength(
				// Five headers, and the cookie of a session.
				"public" in access ? 0 : "ownSession" in access ? 1 : endpoint.keyOnly === true ? 5 : 6,
			);
		}
	});

	test("declares each status of every operation, the error envelope and Retry-After", () => {
		const operations = operationsByKey();
		for (const endpoint of endpoints) {
			const responses = operations.get(keyOf(endpoint))?.responses ?? {};
			for (const status of endpoint.status ?? [200]) expect(responses, keyOf(endpoint)).toHaveProperty(String(status));
			for (const code of endpoint.errors) {
				expect(responses[ERROR_STATUS[code]]?.description, keyOf(endpoint)).toContain(`\`${code}\``);
			}
			for (const status of ["400", "500", "503", ...("public" in endpoint.access ? [] : ["401"])]) {
				expect(JSON.stringify(responses[status]), `${keyOf(endpoint)} ${status}`).toContain(
					"#/components/schemas/Error",
				);
			}
			expect(responses["503"], keyOf(endpoint)).toHaveProperty("headers.Retry-After");
			const declares401 = endpoint.errors.some((code) => ERROR_STATUS[code] === 401);
			if ("public" in endpoint.access && !declares401) {
				expect(Object.keys(responses), keyOf(endpoint)).not.toContain("401");
			}
		}
	});

	test("has an example of every required field", () => {
		const operations = operationsByKey();
		const lacking = endpoints.flatMap((endpoint) => {
			const operation = operations.get(keyOf(endpoint));
			const parameters = operation?.parameters ?? [];
			return [
				...parameters.filter(({ required, example }) => required && example === undefined).map(({ name }) => name),
				...(endpoint.body !== undefined && endpoint.example.body === undefined && needsBody(endpoint) ? ["body"] : []),
				// The stock CLI documents the responses of its endpoints.
				...(!isRaw(endpoint.response) && endpoint.tag !== "Stock CLI" && endpoint.example.response === undefined
					? ["response"]
					: []),
			].map((part) => `${keyOf(endpoint)}: ${part}`);
		});
		expect(lacking, "add it to the endpoint's example, or to PATH_EXAMPLES in src/http/openapi.ts").toEqual([]);
	});

	test("fails to generate if a schema cannot be expressed", () => {
		const [endpoint] = endpoints.filter(({ path, method }) => path === "/app" && method === "POST");
		if (endpoint === undefined) throw new Error("no endpoint");
		const lossy = { ...endpoint, body: v.object({ name: v.pipe(v.string(), v.regex(/^a/i)) }) };
		expect(() => openApiDocument([lossy])).toThrow("flags");
	});

	test.each(allEndpoints.map((endpoint) => [keyOf(endpoint), endpoint] as const))(
		"the example of %s is true",
		(_, endpoint) => {
			const { example } = endpoint;
			if (endpoint.query !== undefined) v.parse(endpoint.query, example.query ?? {});
			if (endpoint.body !== undefined) v.parse(endpoint.body, example.body ?? {});
			if (!isRaw(endpoint.response) && "response" in example) v.parse(endpoint.response, example.response);
		},
	);

	test("is not part of the Worker, which stays below 470 kB compressed, below 60 kB for a check, without certificate libraries", async () => {
		const { modules, devicePath } = await buildWorker({ minify: true });
		const textOf = (part: typeof modules) => part.map(({ contents }) => contents).join("\n");
		const script = textOf(modules);
		expect(script).not.toContain("to-json-schema");
		expect(script).not.toContain("x-capstan-permission");
		const prose = allEndpoints.flatMap(({ description = "" }) => (typeof description === "string" ? [] : description));
		expect(prose.length).toBeGreaterThan(100);
		// The few that several endpoints share, or that a form of another client adds, are left.
		const kept = prose.filter((sentence) => script.includes(JSON.stringify(sentence)));
		expect(kept.length).toBeLessThan(prose.length / 10);
		// The object identifier of RSA keys, which any reader of certificates knows.
		expect(script).not.toContain("1.2.840.113549.1.1.1");
		const { gzipSync } = await import("node:zlib");
		expect(gzipSync(script).length).toBeLessThan(470_000);
		expect(gzipSync(textOf(devicePath)).length).toBeLessThan(60_000);
		for (const library of ["Kysely", "hono", "valibot"]) expect(textOf(devicePath)).not.toContain(library);
	});
});
