/**
 * Purging a deleted organization in steps: each step is bounded, a crash between steps loses
 * nothing, the tables of an app are searched by indexes, and organizations that lose a key or a
 * binding get audit entries.
 */

import type { CompiledQuery } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import { auditBindingsOfApp } from "../../../src/db/audit/bindings";
import { openDb, query } from "../../../src/db/client";
import { deleteApp } from "../../../src/db/deleted-apps";
import { purgeOrganizations, purgeStatements, TABLES_OF_APP } from "../../../src/features/organizations/purge";
import { runJobs } from "../../../src/schedule";
import { rows, run, storedKeys } from "../support/bytes";
import { tableNames } from "../support/database-text";
import { beforeEachTrip, beforeSecondTrip } from "../support/interleave";
import { violations } from "../support/invariants";
import { plansOf, scansIn } from "../support/plans";
import {
	createTestApp,
	createTestKey,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";

const THIRTY_DAYS_MS = 30 * 86_400_000;
const MOST_ROWS = 1000;
const MOST_KEYS = 100;

let world: World;
let app: TestApp;
beforeEach(async () => {
	// The clean-up would also purge organizations that other tests deleted.
	await run(query.deleteFrom("organizations").where("deleted_at_ms", "is not", null));
	world = await createWorld();
	app = await createTestApp(world);
});

const remove = (of: World = world) =>
	of.request("DELETE", "/organization", { key: of.adminKey, query: { orgId: of.orgId } });

async function addDays(count: number): Promise<void> {
	await testEnv.DB.prepare(
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO daily_storage (app_id, day, size_bytes) SELECT ?, i, 1 FROM n`,
	)
		.bind(count, app.uuid)
		.run();
}

const count = async (table: string) =>
	(
		await testEnv.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE app_id = ?`)
			.bind(app.uuid)
			.first<{ n: number }>()
	)?.n ?? 0;
const isThere = async (orgId = world.orgId) =>
	(await rows(query.selectFrom("organizations").select("id").where("id", "=", orgId))).length === 1;

/**
 * D1 that counts writing batches and the devices that each removed, and fails from the given batch
 * on.
 */
function counting(refuseFrom = Number.POSITIVE_INFINITY) {
	const removed: number[] = [];
	const d1 = {
		withSession(constraint: D1SessionConstraint) {
			const session = testEnv.DB.withSession(constraint);
			return {
				prepare: (text: string) => session.prepare(text),
				async batch(statements: D1PreparedStatement[]) {
					if (statements.length === 1) return session.batch(statements);
					if (removed.length >= refuseFrom) throw new Error("D1_ERROR: Network connection lost.");
					const before = await count("daily_storage");
					const results = await session.batch(statements);
					removed.push(before - (await count("daily_storage")));
					return results;
				},
			};
		},
	} as unknown as D1Database;
	return { d1, removed };
}

describe("a large organization", () => {
	test("is purged by statements of at most a thousand rows, twenty steps per run, its own row last", async () => {
		await addDays(20 * MOST_ROWS + 1);
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production", { version: "1.0.0", public: true });
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		const first = counting();
		await purgeOrganizations({ ...world.deps, d1: first.d1 });
		expect(first.removed).toEqual(Array.from({ length: 20 }, () => MOST_ROWS));
		expect([await count("daily_storage"), await count("bundles"), await count("channels")]).toEqual([1, 1, 1]);
		// Objects become garbage together with the rows that name them, after all rows of earlier tables.
		expect(
			await rows(query.selectFrom("garbage_objects").selectAll().where("object_prefix", "=", `${app.uuid}/`)),
		).toEqual([]);
		expect(await isThere()).toBe(true);
		expect(await violations(app.uuid)).toEqual([]);
		const second = counting();
		await purgeOrganizations({ ...world.deps, d1: second.d1 });
		expect(second.removed).toEqual([1]);
		expect(await isThere()).toBe(false);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("is purged further after a crash between two steps, without an object that no row names", async () => {
		await addDays(3 * MOST_ROWS);
		await uploadTestBundle(world, app, "1.0.0");
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		await expect(purgeOrganizations({ ...world.deps, d1: counting(2).d1 })).rejects.toThrow();
		expect(await count("daily_storage")).toBe(MOST_ROWS);
		expect(await isThere()).toBe(true);
		expect(await violations(app.uuid)).toEqual([]);
		await runJobs(world.deps);
		expect([await isThere(), await count("daily_storage"), await count("bundles")]).toEqual([false, 0, 0]);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
	});

	test("does not delay a small one", async () => {
		await addDays(25 * MOST_ROWS);
		await remove();
		const small = await createWorld();
		await createTestApp(small);
		await remove(small);
		world.clock.nowMs += THIRTY_DAYS_MS;
		await purgeOrganizations(world.deps);
		expect([await isThere(), await isThere(small.orgId)]).toEqual([true, false]);
	});
});

describe("one of several due organizations", () => {
	test("stays whole if it was restored meanwhile, and the other is purged", async () => {
		const [one, other] = [await createWorld(), await createWorld()];
		for (const each of [one, other]) await remove(each);
		one.clock.nowMs += THIRTY_DAYS_MS;
		const restore = () =>
			run(query.updateTable("organizations").set({ deleted_at_ms: null }).where("id", "=", one.orgId));
		// After the query for due organizations, before the first step.
		const racing = beforeSecondTrip(testEnv.DB, restore);
		await purgeOrganizations({ ...one.deps, d1: racing.d1 });
		expect([await isThere(one.orgId), await isThere(other.orgId)]).toEqual([true, false]);
		const keys = query.selectFrom("api_keys").select("id").where("org_id", "=", one.orgId);
		expect(await rows(keys)).toEqual([{ id: one.adminKeyId }]);
	});

	test("takes no more steps after it is purged", async () => {
		const [one, other] = [await createWorld(), await createWorld()];
		for (const each of [one, other]) await remove(each);
		one.clock.nowMs += THIRTY_DAYS_MS;
		const watched = beforeEachTrip(testEnv.DB, () => undefined);
		await purgeOrganizations({ ...one.deps, d1: watched.d1 });
		// The query for due organizations, and one step for each.
		expect([await isThere(one.orgId), await isThere(other.orgId), watched.trips]).toEqual([false, false, 3]);
	});
});

describe("the row of an organization", () => {
	const NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)";
	/** One row more than a step removes of each table. */
	const FILLED: readonly (readonly [table: string, rows: number, insert: string])[] = [
		[
			"api_keys",
			MOST_KEYS + 1,
			`(id, org_id, user_id, name, key_hash, key_hint, created_at_ms, updated_at_ms)
			SELECT ?1 || '-' || i, ?1, ?2, 'key', ?1 || '-' || i, '', 1, 1 FROM n`,
		],
		[
			"role_bindings",
			MOST_ROWS + 1,
			`(id, user_id, role_name, scope_type, org_id, created_at_ms)
			SELECT ?1 || '-' || i, ?2, 'role-' || i, 'org', ?1, 1 FROM n`,
		],
		[
			"invitations",
			MOST_ROWS + 1,
			`(id, org_id, email, role_name, token_hash, invited_by, expires_at_ms, created_at_ms)
			SELECT ?1 || '-' || i, ?1, i || '@example.com', 'org_member', ?1 || '-' || i, ?2, 1, 1 FROM n`,
		],
		[
			"audit_log",
			MOST_ROWS + 1,
			`(org_id, at_ms, actor_type, actor_id, actor_name, action, target_type, target_id, request_id)
			SELECT ?1, 1, 'user', ?2, '', 'x', 'x', 'x', 'x' FROM n`,
		],
	];

	test.each(FILLED)("is deleted after all rows of its %s", async (table, amount, insert) => {
		const { orgId, userId } = await createWorld();
		await testEnv.DB.batch([
			testEnv.DB.prepare("DELETE FROM role_bindings WHERE org_id = ?").bind(orgId),
			testEnv.DB.prepare(`${NUMBERS} INSERT INTO ${table} ${insert}`).bind(orgId, userId, amount),
		]);
		const step = () => openDb(testEnv.DB, "first-primary").batch(purgeStatements(orgId, crypto.randomUUID(), NOW_MS));
		await step();
		expect(await isThere(orgId)).toBe(true);
		await step();
		expect(await isThere(orgId)).toBe(false);
	});
});

describe("TABLES_OF_APP", () => {
	const foreignKeys = async () => {
		const found: { table: string; parent: string; columns: string[] }[] = [];
		for (const table of await tableNames()) {
			const { results } = await testEnv.DB.prepare(`PRAGMA foreign_key_list(${table})`).all<{
				id: number;
				table: string;
				from: string;
			}>();
			for (const id of new Set(results.map((row) => row.id))) {
				const parts = results.filter((row) => row.id === id);
				found.push({ table, parent: parts[0]?.table ?? "", columns: parts.map((row) => row.from) });
			}
		}
		return found;
	};

	test("lists every table that references apps or one of these tables, except role_bindings", async () => {
		const keys = await foreignKeys();
		const emptied: string[] = TABLES_OF_APP.map(({ name }) => name);
		const pointing = keys.filter(({ parent }) => parent === "apps" || emptied.includes(parent));
		expect([...new Set(pointing.map(({ table }) => table))].sort()).toEqual([...emptied, "role_bindings"].sort());
	});

	test("has an index for every foreign key, except those to accounts", async () => {
		const scanned: string[] = [];
		const keys = (await foreignKeys()).filter(({ parent }) => parent !== "users");
		for (const { table, columns } of keys) {
			const condition = columns.map((column) => `${column} = 'x'`).join(" AND ");
			const plan = await testEnv.DB.prepare(`EXPLAIN QUERY PLAN SELECT 1 FROM ${table} WHERE ${condition}`).all<{
				detail: string;
			}>();
			for (const { detail } of plan.results) if (detail.startsWith("SCAN")) scanned.push(`${table}: ${detail}`);
		}
		expect(scanned).toEqual([]);
		expect(keys.length).toBeGreaterThan(15);
	});

	test("is emptied without full table scans, by the deletion of an app and the purge of its organization", async () => {
		const appId = app.uuid as never;
		const actor = { type: "system", id: null, name: "test", requestId: "r", ipAddress: null } as const;
		const deletion = [
			auditBindingsOfApp(actor, NOW_MS, world.orgId as never, { uuid: appId, id: app.appId }),
			...deleteApp(world.orgId as never, appId, crypto.randomUUID(), "test", NOW_MS),
		];
		const details = await plansOf([...deletion, ...purgeStatements(world.orgId, "r", NOW_MS)]);
		expect(scansIn(details)).toEqual([]);
		expect(details.length).toBeGreaterThan(40);
		const control = { sql: "DELETE FROM bundles WHERE comment = ?", parameters: ["x"] } as unknown as CompiledQuery;
		expect(scansIn(await plansOf([control])), "the control").not.toEqual([]);
	});
});

describe("other organizations", () => {
	const entriesOf = async (orgId: string) =>
		(
			await rows(
				query.selectFrom("audit_log").selectAll().where("org_id", "=", orgId).where("action", "=", "binding.delete"),
			)
		).map(({ actor_name, target_id, before, details, ip_address }) => ({
			actor_name,
			target_id,
			before: JSON.parse(before ?? "null"),
			details: JSON.parse(details),
			ip_address,
		}));

	test("get audit entries for the purged keys, and for the bindings that their own keys lose", async () => {
		// The key of `away` loses its binding in `world`; `away` loses the key of `world` that created
		// it.
		const away = await world.request("PUT", "/organization", { key: world.adminKey, body: { name: "Away" } });
		const other = await createWorld();
		const guest = await createTestKey(other, "org_member");
		const bindingId = crypto.randomUUID();
		await run(
			query.insertInto("role_bindings").values({
				id: bindingId,
				api_key_id: guest.id,
				user_id: null,
				role_name: "app_reader",
				scope_type: "app",
				org_id: world.orgId,
				app_id: app.uuid,
				channel_id: null,
				parent_binding_id: null,
				expires_at_ms: null,
				created_at_ms: NOW_MS,
			}),
		);
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		await runJobs(world.deps);
		expect(await isThere()).toBe(false);
		const byCleanUp = { actor_name: "Automatic clean-up", ip_address: null };
		const details = { reason: "organization_removed", other_organization: true };
		expect(await entriesOf(away.body.id)).toMatchObject([
			{
				...byCleanUp,
				target_id: world.adminKeyId,
				before: { role_name: "org_super_admin", org_id: away.body.id },
				details,
			},
		]);
		expect(await entriesOf(other.orgId)).toMatchObject([
			{
				...byCleanUp,
				target_id: guest.id,
				before: { id: bindingId, role_name: "app_reader", org_id: world.orgId },
				details,
			},
		]);
		await runJobs(world.deps);
		expect(await entriesOf(away.body.id)).toHaveLength(1);
	});

	test("keep org.create only in a key that still has an administering role in another organization", async () => {
		const other = await createWorld();
		const bindAs = (keyId: string, role: string) =>
			run(
				query.insertInto("role_bindings").values({
					id: crypto.randomUUID(),
					api_key_id: keyId,
					user_id: null,
					role_name: role,
					scope_type: "org",
					org_id: world.orgId,
					app_id: null,
					channel_id: null,
					parent_binding_id: null,
					expires_at_ms: null,
					created_at_ms: NOW_MS,
				}),
			);
		const holder = async (roleAtHome: string, roleHere: string) => {
			const key = await createTestKey(other, roleAtHome);
			await run(query.updateTable("api_keys").set({ global_permissions: '["org.create"]' }).where("id", "=", key.id));
			await bindAs(key.id, roleHere);
			return key.id;
		};
		const ids = [
			await holder("org_member", "org_admin"),
			await holder("org_admin", "org_admin"),
			await holder("org_member", "org_member"),
		];
		const globals = async () =>
			Promise.all(
				ids.map(async (id) => {
					const [row] = await rows(query.selectFrom("api_keys").select("global_permissions").where("id", "=", id));
					return row?.global_permissions;
				}),
			);
		await remove();
		expect(await globals()).toEqual(['["org.create"]', '["org.create"]', '["org.create"]']);
		world.clock.nowMs += THIRTY_DAYS_MS;
		await runJobs(world.deps);
		expect(await globals()).toEqual(["[]", '["org.create"]', '["org.create"]']);
		const found = await rows(
			query
				.selectFrom("audit_log")
				.select(["target_id", "actor_name", "before", "after", "ip_address"])
				.where("org_id", "=", other.orgId)
				.where("action", "=", "api_key.update"),
		);
		expect(found).toEqual([
			{
				target_id: ids[0],
				actor_name: "Automatic clean-up",
				ip_address: null,
				before: '{"global_permissions":["org.create"]}',
				after: '{"global_permissions":[]}',
			},
		]);
	});
});
