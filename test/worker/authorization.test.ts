/**
 * Authorization, derived from the endpoint list. Coverage: every endpoint refuses whoever has no right to it and changes nothing, and
 * lets an administrator through with the very same request. Matrix: what every role gets at every endpoint, as one table to review.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { permissionsOf } from "../../src/api/endpoint";
import { allEndpoints } from "../../src/app";
import { mintKey } from "../../src/authz/keys";
import { ROLE_NAMES, ROLES } from "../../src/authz/permissions";
import { openDb, query } from "../../src/db/client";
import matrixFile from "../role-matrix.txt?raw";
import { type PreparedRequest, PUBLIC_ENDPOINTS, REQUESTS } from "./support/requests";
import { createTestApp, createTestKey, createWorld, type TestApp, testEnv, type World } from "./support/world";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;
const isPublic = (endpoint: (typeof allEndpoints)[number]) => "public" in endpoint.access;
const guarded = allEndpoints.filter((endpoint) => !isPublic(endpoint));

const send = (world: World, method: string, request: PreparedRequest, key?: string) => {
	const { path, ...options } = request;
	return world.request(method, path, { ...options, key });
};

/** It may do what belongs to no organization. */
const ADMINISTRATOR_ELSEWHERE = "a key of another organization";

/** Every row of every table, but for what reading may touch. */
async function dump(): Promise<string> {
	const tables = [
		"users",
		"organizations",
		"apps",
		"api_keys",
		"invitations",
		"channels",
		"bundles",
		"delta_objects",
		"bundle_files",
		"uploads",
		"garbage_objects",
		"role_bindings",
		"audit_log",
	] as const;
	const results = await openDb(testEnv.DB, "first-primary").batch(
		tables.map((table) => query.selectFrom(table).selectAll().compile()),
	);
	return JSON.stringify(results.map((result) => result.rows));
}

describe("coverage", () => {
	let world: World;
	let app: TestApp;
	const strangers: Record<string, { key: string | undefined; statuses: number[] }> = {};

	beforeAll(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		const elsewhere = await createWorld();
		const sibling = await createTestApp(world, "sibling");
		const expired = await createTestKey(world, "org_super_admin", undefined, {
			expires_at: "2026-11-21T08:00:00.001Z",
		});
		world.clock.nowMs += 1;
		const bare = await world.request("POST", "/apikey", {
			key: world.adminKey,
			query: { org_id: world.orgId },
			body: { name: "no bindings", hashed: true },
		});
		Object.assign(strangers, {
			"no key": { key: undefined, statuses: [401] },
			"a malformed key": { key: "cap_nonsense", statuses: [401] },
			"an unknown key": { key: mintKey(world.deps.randomBytes).text, statuses: [401] },
			"an expired key": { key: expired.text, statuses: [401] },
			[ADMINISTRATOR_ELSEWHERE]: { key: elsewhere.adminKey, statuses: [404] },
			"a key of a sibling app": { key: (await createTestKey(world, "app_admin", sibling)).text, statuses: [403, 404] },
			"a key without bindings": { key: bare.body.key, statuses: [404] },
		});
	});

	test("every endpoint that needs a key has a request here, and the public ones are the reviewed ones", () => {
		expect(allEndpoints.filter(isPublic).map(keyOf).sort(), "review the new public endpoint in requests.ts").toEqual(
			[...PUBLIC_ENDPOINTS].sort(),
		);
		const missing = guarded.map(keyOf).filter((key) => REQUESTS[key] === undefined);
		expect(missing, "add a request for these to test/worker/support/requests.ts").toEqual([]);
		const unused = Object.keys(REQUESTS).filter((key) => !guarded.some((endpoint) => keyOf(endpoint) === key));
		expect(unused, "these have no endpoint any more; remove them").toEqual([]);
	});

	test.each(guarded.map((endpoint) => [keyOf(endpoint), endpoint] as const))(
		"%s refuses strangers, changes nothing, and lets an administrator through",
		async (key, endpoint) => {
			const target = key.startsWith("DELETE /app/") ? await createTestApp(world, "doomed") : app;
			const request = await REQUESTS[key]?.(world, target);
			if (request === undefined) throw new Error("no request");
			const before = await dump();
			for (const [who, { key: secret, statuses }] of Object.entries(strangers)) {
				if ("globalPermission" in endpoint.access && who === ADMINISTRATOR_ELSEWHERE) continue;
				const answer = await send(world, endpoint.method, request, secret);
				const hint = `${who}: ${JSON.stringify(answer.body)}`;
				// Where any key may ask, what matters is that a stranger is told nothing of others; see the tests below.
				if ("anyKey" in endpoint.access && !statuses.includes(401)) continue;
				// What belongs to no organization is refused to everyone alike.
				expect("globalPermission" in endpoint.access ? [401, 403] : statuses, hint).toContain(answer.status);
				if (answer.status === 404) expect(answer.body.error, hint).toMatch(/_not_found$/);
			}
			expect(await dump(), "a refused request changed something").toBe(before);
			const allowed = await send(world, endpoint.method, request, world.adminKey);
			expect(allowed.status, JSON.stringify(allowed.body)).toBeLessThan(300);
		},
	);

	test("a broken request tells a stranger nothing of its schema, and its sender what is wrong", async () => {
		for (const endpoint of guarded) {
			if (endpoint.body === undefined || permissionsOf(endpoint.access).length === 0) continue;
			const request = await REQUESTS[keyOf(endpoint)]?.(world, app);
			if (request === undefined) throw new Error("no request");
			const broken = {
				...request,
				body: { ...(request.body as object), name: 7, version: [], channel: {}, version_id: "x" },
			};
			const stranger = await send(world, endpoint.method, broken, strangers[ADMINISTRATOR_ELSEWHERE]?.key);
			expect([404, 400], keyOf(endpoint)).toContain(stranger.status);
			if (stranger.status === 400) expect(stranger.body.moreInfo.issues[0].path).toMatch(/channel|name/);
			const nobody = await send(world, endpoint.method, broken);
			expect(nobody.status, keyOf(endpoint)).toBe(401);
		}
	});

	test("lists that any key may ask for show nothing of others", async () => {
		const elsewhere = await createWorld();
		const [apps, keys, organizations] = await Promise.all([
			world.request("GET", "/app", { key: elsewhere.adminKey }),
			world.request("GET", "/apikey", { key: elsewhere.adminKey }),
			world.request("GET", "/organization", { key: elsewhere.adminKey }),
		]);
		expect(apps.body).toEqual([]);
		expect(keys.body.map((row: { id: string }) => row.id)).toEqual([elsewhere.adminKeyId]);
		expect(organizations.body.map((row: { id: string }) => row.id)).toEqual([elsewhere.orgId]);
		const hidden = await world.request("GET", "/organization", {
			key: elsewhere.adminKey,
			query: { orgId: world.orgId },
		});
		expect(hidden).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
	});
});

/** Some four hundred requests, and what each of them needs. */
const MATRIX_TIME_LIMIT_MS = 60_000;

describe("matrix", () => {
	const roles = ROLE_NAMES.filter((name) => ROLES[name].assignable);

	test("what each role gets at each endpoint is what test/role-matrix.txt says", {
		timeout: MATRIX_TIME_LIMIT_MS,
	}, async () => {
		const world = await createWorld();
		const apps = new Map<string, { app: TestApp; key: string }>();
		const rows: string[][] = [["", ...roles]];
		for (const endpoint of guarded) {
			const cells: string[] = [];
			for (const role of roles) {
				let holder = apps.get(role);
				if (holder === undefined || endpoint.path === "/app/:app_id") {
					const app = await createTestApp(world);
					const key = await createTestKey(world, role, ROLES[role].scopeType === "app" ? app : undefined);
					holder = { app, key: key.text };
					if (endpoint.method !== "DELETE") apps.set(role, holder);
				}
				const request = await REQUESTS[keyOf(endpoint)]?.(world, holder.app);
				if (request === undefined) throw new Error("no request");
				cells.push(String((await send(world, endpoint.method, request, holder.key)).status));
			}
			rows.push([keyOf(endpoint), ...cells]);
		}
		const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
		const table = rows.map((row) =>
			row
				.map((cell, column) => cell.padEnd(widths[column] ?? 0))
				.join("  ")
				.trimEnd(),
		);
		expect(table, `the matrix changed; review it and write it to test/role-matrix.txt:\n${table.join("\n")}\n`).toEqual(
			matrixFile.trimEnd().split("\n"),
		);
	});
});
