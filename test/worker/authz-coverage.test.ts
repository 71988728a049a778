/**
 * Coverage of authorization beyond statuses (authorization.test.ts has those): for every endpoint of the list, what each kind of
 * stranger is told, word for word, and that no refusal leaves a trace in any table. Requests come from support/requests.ts.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type AnyEndpoint, permissionsOf } from "../../src/api/endpoint";
import { allEndpoints } from "../../src/app";
import { mintKey } from "../../src/authz/keys";
import { PERMISSIONS, ROLE_NAMES, ROLES } from "../../src/authz/permissions";
import { databaseText, tableNames } from "./support/database-text";
import { type PreparedRequest, REQUESTS } from "./support/requests";
import { type Answer, createTestApp, createTestKey, createWorld, type TestApp, type World } from "./support/world";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;
const endpoints: readonly AnyEndpoint[] = allEndpoints;
const guarded = endpoints.filter((endpoint) => !("public" in endpoint.access));
const named = guarded.map((endpoint) => [keyOf(endpoint), endpoint] as const);

let world: World;
let app: TestApp;
/** Keys that must get a 401, with its code. */
let unauthenticated: readonly (readonly [who: string, key: string | undefined, code: string])[];
/** Keys that are good and have nothing to do with the app. */
let strangers: readonly (readonly [who: string, key: string])[];

const send = (method: string, { path, ...options }: PreparedRequest, key?: string) =>
	world.request(method, path, { ...options, key });

async function prepared(endpoint: AnyEndpoint): Promise<PreparedRequest> {
	const target = endpoint.method === "DELETE" && endpoint.path === "/app/:app_id" ? await createTestApp(world) : app;
	const request = await REQUESTS[keyOf(endpoint)]?.(world, target);
	if (request === undefined) throw new Error(`add ${keyOf(endpoint)} to test/worker/support/requests.ts`);
	return JSON.parse(JSON.stringify(request).replaceAll(target.appId, app.appId)) === undefined ? request : request;
}

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	const elsewhere = await createWorld();
	const sibling = await createTestApp(world, "sibling");
	const expired = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-21T08:00:00.001Z" });
	const revoked = await createTestKey(world, "org_super_admin");
	await world.request("DELETE", `/apikey/${revoked.id}`, { key: world.adminKey });
	world.clock.nowMs += 1;
	const bare = await world.request("POST", "/apikey", {
		key: world.adminKey,
		query: { org_id: world.orgId },
		body: { name: "no bindings", hashed: true },
	});
	unauthenticated = [
		["no key", undefined, "missing_api_key"],
		["a malformed key", "cap_nonsense", "invalid_api_key"],
		["an unknown key", mintKey(world.deps.randomBytes).text, "invalid_api_key"],
		["a revoked key", revoked.text, "invalid_api_key"],
		["an expired key", expired.text, "expired_api_key"],
	];
	strangers = [
		["a key of another organization", elsewhere.adminKey],
		["a key of a sibling app", (await createTestKey(world, "app_admin", sibling)).text],
		["a key without bindings", bare.body.key],
	];
});
