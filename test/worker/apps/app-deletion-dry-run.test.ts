/** Deletions by people: the recent sign-in that they require, and their dry runs. */

import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { allEndpoints } from "../../../src/endpoints";
import { rows } from "../support/bytes";
import { databaseText, emptyDatabase } from "../support/database-text";
import { REQUESTS } from "../support/requests";
import { signIn } from "../support/sessions";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { testBundle } from "../support/zip";

const DAYS = 2_500;
let world: World;
let app: TestApp;

beforeEach(async () => {
	// Deleted apps of other tests would delay this one in the clean-up.
	await emptyDatabase();
	world = await createWorld();
	app = await createTestApp(world);
});

const by = (method: string, path: string, options: object = {}): Promise<Answer<never>> =>
	world.request(method, path, { key: world.adminKey, ...options });

const removeApp = (through: Pick<World, "request"> = world) =>
	through.request("DELETE", `/app/${app.appId}`, { key: world.adminKey });

async function fill(): Promise<void> {
	await uploadTestBundle(world, app, "1.0.1");
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await testEnv.DB.prepare(
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO daily_storage (app_id, day, size_bytes) SELECT ?, i, 1 FROM n`,
	)
		.bind(DAYS, app.uuid)
		.run();
}

describe("a person who signed in a while ago", () => {
	test.each<[string, () => Promise<readonly [path: string, query: Record<string, string>]>]>([
		["an app", async () => [`/app/${app.appId}`, {}]],
		["an organization", async () => ["/organization", { orgId: world.orgId }]],
		[
			"the id of a deleted app",
			async () => {
				await removeApp();
				return ["/app/reservation", { app_id: app.appId }];
			},
		],
	])("signs in again to delete %s; a dry run and a key need not", async (_, of) => {
		const [path, parameters] = await of();
		const session = await signIn(world);
		world.clock.nowMs += 16 * 60_000;
		const asPerson = (more: Record<string, string> = {}) =>
			world.request("DELETE", path, { headers: session.headers, query: { ...parameters, ...more } });
		const entries = () => rows(query.selectFrom("audit_log").select("id"));
		const before = await entries();
		expect(await asPerson()).toMatchObject({ status: 403, body: { error: "recent_sign_in_required" } });
		expect(await asPerson({ dry_run: "true" })).toMatchObject({ status: 200, body: { dry_run: true } });
		expect(await entries()).toEqual(before);
		world.clock.nowMs -= 2 * 60_000;
		expect(await asPerson(), "the control").toMatchObject({ status: 200 });
	});

	test("is not needed for a key, as the stock CLI uses it", async () => {
		world.clock.nowMs += 16 * 60_000;
		expect(await removeApp()).toMatchObject({ status: 200 });
	});
});

describe("a dry run", () => {
	test("of an app's deletion shows what would be deleted, and deletes nothing", async () => {
		await fill();
		await createTestKey(world, "app_reader", app);
		const before = await databaseText();
		expect(await by("DELETE", `/app/${app.appId}`, { query: { dry_run: "true" } })).toMatchObject({
			status: 200,
			body: {
				status: "ok",
				dry_run: true,
				id: app.uuid,
				app_id: app.appId,
				removes: { channels: 1, bundles: 1, bundle_bytes: testBundle("1.0.1").length, api_key_bindings: 1 },
			},
		});
		expect(await databaseText()).toBe(before);
		expect(await by("DELETE", `/app/${app.appId}`, { query: { dry_run: "false" } })).toMatchObject({
			status: 200,
			body: { status: "ok" },
		});
		expect(await by("GET", `/app/${app.appId}`)).toMatchObject({ status: 404 });
	});

	test("of a key's deletion shows its bindings, and deletes nothing", async () => {
		const key = await createTestKey(world, "app_reader", app);
		const before = await databaseText();
		const dry = await by("DELETE", `/apikey/${key.id}`, { query: { dry_run: "true" } });
		expect(dry).toMatchObject({
			status: 200,
			body: { status: "ok", dry_run: true, id: key.id, name: "app_reader", removes_key: true },
		});
		expect(dry.body).toMatchObject({ bindings: [{ role_name: "app_reader", app_id: app.uuid }] });
		expect(await databaseText()).toBe(before);
		expect(await by("DELETE", `/apikey/${world.adminKeyId}`, { query: { dry_run: "true" } })).toMatchObject({
			status: 409,
			body: { error: "cannot_delete_own_api_key" },
		});
		expect(await by("DELETE", `/apikey/${key.id}`)).toMatchObject({ status: 200, body: { status: "ok" } });
	});

	const offered = (schema: unknown) =>
		Object.hasOwn((schema as { entries?: object } | undefined)?.entries ?? {}, "dry_run");
	// Endpoints for a person's own session refuse a key before they validate fields.
	const without = allEndpoints.filter(
		({ method, access, query: inQuery, body }) =>
			method !== "GET" && !("public" in access || "ownSession" in access) && !offered(inQuery) && !offered(body),
	);
	test.each(without.map(({ method, path }) => `${method} ${path}`))(
		"is refused by %s, which has none, before anything is done",
		async (name) => {
			const { path, thing: _, ...request } = (await REQUESTS[name]?.(world, app)) ?? { path: "" };
			const before = await databaseText();
			const asked = { ...request, query: { ...request.query, dry_run: "true" } };
			const { status, body } = await world.request(name.split(" ")[0] ?? "", path, { key: world.adminKey, ...asked });
			expect({ status, error: body.error }).toEqual({ status: 400, error: "invalid_request" });
			expect(body.moreInfo.issues).toContainEqual(expect.objectContaining({ path: "dry_run" }));
			expect(await databaseText()).toBe(before);
		},
	);

	test("exists for every deletion of more than one thing", () => {
		const deletions = allEndpoints.filter(({ method, query: inQuery }) => method === "DELETE" && offered(inQuery));
		expect(deletions.map(({ path }) => path).sort()).toEqual([
			"/account",
			"/apikey/:id",
			"/app/:app_id",
			"/app/reservation",
			"/bundle",
			"/channel",
			"/organization",
			"/organization/groups/:id",
			"/organization/groups/:id/bindings/:binding_id",
			"/organization/groups/:id/members/:user_id",
			"/organization/members",
			"/organization/members/bindings",
			"/organization/roles",
			"/organization/signing_key",
			"/private/groups/:id",
			"/private/groups/:id/members/:user_id",
		]);
	});
});
