/**
 * The typed client: what the compiler knows of every endpoint, and what goes over the wire. The
 * types are checked by `tsc -p test`; the requests run against the application itself.
 */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { createApp } from "../../../src/app";
import {
	type AnswerOf,
	type CapstanClient,
	CapstanError,
	createClient,
	type EndpointKey,
} from "../../../src/client/client";
import { createTestApp, createWorld, type TestApp, testEnv, uploadTestBundle, type World } from "../support/world";

const BASE_URL = "https://updates.example.com";
let world: World;
let app: TestApp;
let capstan: CapstanClient;

function clientOf(of: World, key: string | undefined = of.adminKey): CapstanClient {
	const application = createApp(of.deps);
	return createClient({
		baseUrl: BASE_URL,
		...(key === undefined ? {} : { key }),
		fetch: async (url, init) => {
			const context = createExecutionContext();
			const response = await application.fetch(new Request(url, init), testEnv, context);
			await waitOnExecutionContext(context);
			return response;
		},
	});
}

/** A client whose every request is answered by the same response, and what it sent. */
function clientAnsweredBy(response: () => Response) {
	const sent: { url: string; init: RequestInit }[] = [];
	const client = createClient({
		baseUrl: BASE_URL,
		fetch: async (url, init) => {
			sent.push({ url, init });
			return response();
		},
	});
	return { client, sent };
}

const failureOf = async (request: Promise<unknown>): Promise<CapstanError> => {
	const failure = await request.catch((error: unknown) => error);
	if (!(failure instanceof CapstanError)) throw new Error(`no CapstanError: ${String(failure)}`);
	return failure;
};

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	capstan = clientOf(world);
});

describe("the types of the client", () => {
	test("accept every endpoint by method and path, and no other", () => {
		expectTypeOf<"POST /channel">().toExtend<EndpointKey>();
		expectTypeOf<"GET /app/:app_id">().toExtend<EndpointKey>();
		expectTypeOf<"POST /updates">().toExtend<EndpointKey>();
		expectTypeOf<"POST /nothing">().not.toExtend<EndpointKey>();
		expectTypeOf<"PATCH /channel">().not.toExtend<EndpointKey>();
		expectTypeOf<string>().not.toExtend<EndpointKey>();
	});

	test("declare the answer of each endpoint", () => {
		expectTypeOf<AnswerOf<"GET /app/:app_id">["owner_org"]>().toEqualTypeOf<string>();
		expectTypeOf<AnswerOf<"GET /app">[number]["retention"]>().toEqualTypeOf<number>();
		expectTypeOf<AnswerOf<"POST /channel">["id"]>().toEqualTypeOf<number>();
		expectTypeOf<AnswerOf<"POST /apikey">["key"]>().toEqualTypeOf<string>();
		expectTypeOf<AnswerOf<"GET /files/download/:app/:upload/:part">>().toEqualTypeOf<Response>();
		// The assertions above would also pass for `any`.
		expectTypeOf<AnswerOf<"GET /app/:app_id">>().not.toBeAny();
		expectTypeOf<AnswerOf<"POST /channel">>().not.toBeAny();
	});

	test("require the input and its types", () => {
		// Never called: the compiler alone reads it.
		const refused = () => [
			// @ts-expect-error The path has a parameter.
			capstan("GET /app/:app_id"),
			// @ts-expect-error It is called app_id.
			capstan("GET /app/:app_id", { params: { id: "com.example.app" } }),
			// @ts-expect-error The query names an app.
			capstan("GET /channel", { query: {} }),
			// @ts-expect-error The body has no channel.
			capstan("POST /channel", { body: { app_id: "com.example.app" } }),
			// @ts-expect-error A flag is no text.
			capstan("POST /channel", { body: { app_id: "com.example.app", channel: "beta", public: "yes" } }),
			// @ts-expect-error There is no such endpoint.
			capstan("POST /nothing", {}),
		];
		const accepted = () => [
			capstan("GET /ok"),
			capstan("GET /app"),
			capstan("GET /app", { query: { page: "1" } }),
			capstan("GET /ok", { signal: new AbortController().signal }),
			capstan("POST /channel", { body: { app_id: "com.example.app", channel: "beta", version: null } }),
		];
		expect([refused, accepted]).toHaveLength(2);
	});
});

describe("a request of the client", () => {
	test("sends path, query and body, and parses the answer", async () => {
		const created = await capstan("POST /channel", { body: { app_id: app.appId, channel: "feat/a b" } });
		expect(created).toEqual({ status: "ok", id: expect.any(Number), public: false });
		const shown = await capstan("GET /channel", { query: { app_id: app.appId, channel: "feat/a b" } });
		expect(shown).toMatchObject({ id: created.id, name: "feat/a b" });
		expect(await capstan("GET /app/:app_id", { params: { app_id: app.appId } })).toMatchObject({ id: app.uuid });
		expect(await capstan("DELETE /channel", { query: { app_id: app.appId, channel: "feat/a b" } })).toEqual({
			status: "ok",
		});
	});

	test("needs no input for an endpoint without input", async () => {
		expect(await capstan("GET /ok")).toMatchObject({ status: "ok" });
		expect((await capstan("GET /app")).map((item) => item.app_id)).toContain(app.appId);
	});

	test("encodes path parameters completely, so that none can reach another path", async () => {
		const { client, sent } = clientAnsweredBy(() => Response.json({}));
		await client("GET /app/:app_id", { params: { app_id: "a/../b?c#d é" } });
		expect(sent[0]?.url).toBe(`${BASE_URL}/app/a%2F..%2Fb%3Fc%23d%20%C3%A9`);
		// These three would be taken out of the path by every URL parser, and another endpoint would
		// answer.
		for (const app_id of ["", ".", ".."]) {
			await expect(client("DELETE /app/:app_id", { params: { app_id } })).rejects.toThrow("app_id");
		}
		expect(sent).toHaveLength(1);
	});

	test("keeps slashes in a parameter that allows them", async () => {
		const path = `orgs/${world.orgId}/apps/${app.appId}/delta/not there`;
		const failure = await failureOf(capstan("GET /files/read/attachments/:path{.+}", { params: { path } }));
		expect(failure).toMatchObject({ status: 404, code: "not_found" });
	});

	test("encodes query values and leaves out undefined and null", async () => {
		const { client, sent } = clientAnsweredBy(() => Response.json([]));
		await client("GET /channel", { query: { app_id: "a&b=c d", channel: null, page: undefined } });
		expect([...new URL(sent[0]?.url ?? "").searchParams]).toEqual([["app_id", "a&b=c d"]]);
	});

	test("sends no content type without a body, and no key without a key", async () => {
		const { client, sent } = clientAnsweredBy(() => Response.json({ status: "ok" }));
		await client("GET /ok");
		expect(sent[0]?.init).toEqual({ method: "GET", headers: {} });
	});

	test("returns null for an empty answer", async () => {
		await uploadTestBundle(world, app, "7.0.0");
		const answer = await capstan("PATCH /compat/capgo-cli/rest/v1/app_versions", {
			query: { app_id: `eq.${app.appId}`, name: "eq.7.0.0" },
			body: { deleted: true },
		});
		expect(answer).toBeNull();
	});

	test("returns the response itself if it is not JSON", async () => {
		const { client } = clientAnsweredBy(
			() => new Response("bytes", { headers: { "content-type": "application/zip" } }),
		);
		const answer = await client("GET /files/download/:app/:upload/:part", {
			params: { app: "a", upload: "b", part: "c" },
			query: { expires: "1", signature: "s" },
		});
		expect(await answer.text()).toBe("bytes");
	});

	test("rejects with the reason of the abort signal", async () => {
		const controller = new AbortController();
		const client = createClient({
			baseUrl: BASE_URL,
			fetch: async (_, init) => {
				init.signal?.throwIfAborted();
				return Response.json({ status: "ok" });
			},
		});
		expect(await client("GET /ok", { signal: controller.signal })).toEqual({ status: "ok" });
		controller.abort(new Error("enough"));
		await expect(client("GET /ok", { signal: controller.signal })).rejects.toThrow("enough");
	});
});

describe("a failure of the client", () => {
	test("has the code, the details and the request id of the answer", async () => {
		const elsewhere = await createWorld();
		const hidden = await failureOf(clientOf(elsewhere)("GET /app/:app_id", { params: { app_id: app.appId } }));
		expect(hidden).toMatchObject({ status: 404, code: "app_not_found", moreInfo: {} });
		expect(hidden.requestId).toMatch(/^[0-9a-f-]{36}$/);
		expect(hidden.message).toMatch(/app_id/);

		const invalid = await failureOf(capstan("POST /channel", { body: { app_id: app.appId, channel: "builtin" } }));
		expect(invalid).toMatchObject({
			status: 400,
			code: "invalid_request",
			moreInfo: { issues: [{ path: "channel" }] },
		});

		const anonymous = createClient({ baseUrl: BASE_URL, fetch: async (url, init) => answerOf(url, init) });
		expect(await failureOf(anonymous("GET /app"))).toMatchObject({ status: 401, code: "missing_api_key" });
	});

	test.each<[string, string]>([
		["a page of something in between", "<html>Bad gateway</html>"],
		["nothing at all", ""],
		["JSON that is no error of the service", '{"detail":"Bad gateway"}'],
		["JSON that is no object", '"Bad gateway"'],
		["JSON null", "null"],
	])("%s is an error with a code all the same", async (_, text) => {
		const { client } = clientAnsweredBy(() => new Response(text, { status: 502 }));
		const failure = await failureOf(client("GET /app"));
		expect(failure).toMatchObject({ status: 502, code: "unreadable_answer", moreInfo: {}, requestId: "" });
		expect(failure.message).toContain(text.slice(0, 10));
	});

	test("is never retried", async () => {
		const { client, sent } = clientAnsweredBy(() => new Response("", { status: 503, headers: { "retry-after": "1" } }));
		await failureOf(client("GET /app"));
		expect(sent).toHaveLength(1);
	});
});

async function answerOf(url: string, init: RequestInit): Promise<Response> {
	const context = createExecutionContext();
	const response = await createApp(world.deps).fetch(new Request(url, init), testEnv, context);
	await waitOnExecutionContext(context);
	return response;
}
