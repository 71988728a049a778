/**
 * `Idempotency-Key`: for every endpoint that creates something, a repetition gets the first answer
 * and changes nothing. A key belongs to one caller and one request.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { allEndpoints } from "../../../src/endpoints";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { takesIdempotencyKey } from "../../../src/http/pipeline/idempotency";
import { runJobs } from "../../../src/schedule";
import { databaseText } from "../support/database-text";
import { keyOf } from "../support/isolation-cast";
import { REQUESTS } from "../support/requests";
import {
	createTestApp,
	createTestKey,
	createWorld,
	makeOperator,
	type RequestOptions,
	type TestApp,
	testEnv,
	type World,
} from "../support/world";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	await makeOperator(world);
});

const endpoints: readonly AnyEndpoint[] = allEndpoints;
// The request for POST /organization changes one.
const creations = endpoints.filter((one) => takesIdempotencyKey(one) && keyOf(one) !== "POST /organization");
const newKey = () => crypto.randomUUID();
const send = (path: string, idempotencyKey: string, options: RequestOptions = {}, method = "POST", of = world) =>
	of.request(method, path, {
		// One more than the endpoint needs, which stores the answer.
		mostTrips: 4,
		key: of.adminKey,
		...options,
		headers: { "idempotency-key": idempotencyKey, ...options.headers },
	});
const createApiKey = (idempotencyKey: string, name = "CI", options: RequestOptions = {}) =>
	send("/apikey", idempotencyKey, { query: { org_id: world.orgId }, body: { name }, ...options });
const replayedOf = ({ headers }: { readonly headers: Headers }) => headers.get("idempotency-replayed");

describe("a repetition", () => {
	test("is for every endpoint that answers 201", () => {
		expect(creations.map(keyOf)).toEqual(
			expect.arrayContaining(["POST /app", "POST /apikey", "POST /bundle", "POST /channel", "PUT /organization"]),
		);
	});

	test.each(creations.map((endpoint) => [keyOf(endpoint), endpoint] as const))(
		"of %s gets the first answer, and changes nothing",
		async (name, endpoint) => {
			const prepared = await REQUESTS[name]?.(world, app);
			if (prepared === undefined) throw new Error(`no request for ${name}`);
			const { path, query, body, headers = {} } = prepared;
			const key = newKey();
			const request = () => send(path, key, { query, body, headers } as RequestOptions, endpoint.method);
			const first = await request();
			expect([200, 201, 202], JSON.stringify(first.body)).toContain(first.status);
			expect(replayedOf(first)).toBeNull();
			const before = await databaseText();
			const second = await request();
			expect([second.status, second.body, replayedOf(second)]).toEqual([first.status, first.body, "true"]);
			expect(await databaseText()).toBe(before);
		},
	);

	test("at the same time creates once", async () => {
		const key = newKey();
		const name = `Twice ${key}`;
		const answers = await Promise.all(Array.from({ length: 4 }, () => createApiKey(key, name)));
		for (const { status, body } of answers) {
			if (status !== 201) expect([status, body.error]).toEqual([409, "idempotency_key_in_use"]);
		}
		const made = await world.request("GET", "/apikey", { key: world.adminKey, query: { limit: "1000" } });
		expect(made.body.filter((one: { name: string }) => one.name === name)).toHaveLength(1);
	});

	test("of a refused request is tried again", async () => {
		const key = newKey();
		const refused = await createApiKey(key, "");
		expect(refused.status).toBe(400);
		expect((await createApiKey(key, "Now named")).status).toBe(201);
	});
});

describe("a key", () => {
	test("belongs to one request", async () => {
		const key = newKey();
		expect((await createApiKey(key, "One")).status).toBe(201);
		const other = await createApiKey(key, "Another");
		expect([other.status, other.body.error]).toEqual([422, "idempotency_key_reused"]);
	});

	test("belongs to one caller, who must still have the right", async () => {
		const key = newKey();
		const first = await createApiKey(key);
		const colleague = (await createTestKey(world, "org_admin")).text;
		const second = await createApiKey(key, "CI", { key: colleague });
		expect([second.status, second.body.id === first.body.id]).toEqual([201, false]);
		const reader = await createTestKey(world, "app_reader", app);
		expect((await createApiKey(key, "CI", { key: reader.text })).status).toBe(403);
	});

	test("is a short printable text, and has no effect where nothing is created", async () => {
		for (const key of ["a b", "x".repeat(256)]) {
			const { status, body } = await createApiKey(key);
			expect([status, body.moreInfo.issues[0].path]).toEqual([400, "idempotency-key"]);
		}
		const change = () => send("/organization", "same", { body: { orgId: world.orgId, name: "Named" } });
		for (let time = 0; time < 2; time++) expect(replayedOf(await change())).toBeNull();
	});

	test("is stored with no secret in clear, for a day", async () => {
		const key = newKey();
		const { body } = await createApiKey(key);
		const rows = JSON.stringify((await testEnv.DB.prepare("SELECT * FROM idempotency_keys").all()).results);
		for (const secret of [body.key, key, world.adminKey]) expect(rows).not.toContain(secret);
		world.clock.nowMs += 24 * 3_600_000;
		expect(replayedOf(await createApiKey(key))).toBeNull();
		world.clock.nowMs += 24 * 3_600_000;
		await runJobs(world.deps);
		expect(await testEnv.DB.prepare("SELECT count(*) AS n FROM idempotency_keys").first("n")).toBe(0);
	});
});
