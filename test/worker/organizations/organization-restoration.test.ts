/** POST /organization/restore, and the clean-up that ends the time for a restoration. */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { runJobs } from "../../../src/schedule";
import { rows, run, storedKeys } from "../support/bytes";
import { databaseText, tableNames } from "../support/database-text";
import { app, checkUpdate, furnish, prepareOrganization, remove, restore, world } from "../support/deletion-scene";
import { withFault } from "../support/faults";
import { readThenWrite } from "../support/interleave";
import { violations } from "../support/invariants";
import { createTestApp, createTestKey, createWorld, NOW_MS, testEnv, uploadTestBundle } from "../support/world";

const THIRTY_DAYS_MS = 30 * DAY_MS;
beforeEach(prepareOrganization);

describe("POST /organization/restore", () => {
	test("restores everything unchanged, with both steps in the audit log", async () => {
		await furnish();
		const withoutAudit = async () =>
			(JSON.parse(await databaseText()) as [string, unknown][]).filter(
				([name]) => name !== "audit_log" && name !== "changes",
			);
		const before = await withoutAudit();
		await remove();
		expect(await withoutAudit()).not.toEqual(before);
		expect(await restore()).toMatchObject({ status: 200, body: { status: "ok" } });
		expect(await withoutAudit()).toEqual(before);
		expect((await checkUpdate()).body).toMatchObject({ version: "1.0.1" });
		const entries = await rows(
			query.selectFrom("audit_log").selectAll().where("org_id", "=", world.orgId).orderBy("id", "desc").limit(2),
		);
		expect(entries.map((entry) => [entry.action, entry.target_name, entry.actor_id])).toEqual([
			["organization.restore", "Test", world.adminKeyId],
			["organization.delete", "Test", world.adminKeyId],
		]);
		expect(JSON.parse(entries[1]?.details ?? "")).toMatchObject({ removes: { apps: 1, bundles: 2 } });
	});

	test("requires org.delete, and returns 404 to any other key", async () => {
		const admin = await createTestKey(world, "org_admin");
		const onApp = await createTestKey(world, "app_admin", app);
		await remove();
		expect(await restore(admin.text)).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.delete" } } });
		expect((await restore(onApp.text)).status).toBe(403);
		expect((await restore((await createWorld()).adminKey)).status).toBe(404);
		expect((await restore()).status).toBe(200);
	});

	test("returns 404 for an existing organization, and for a concurrent second restore", async () => {
		expect((await restore()).status).toBe(404);
		await remove();
		const answer = await readThenWrite(
			world,
			(racing) => restore(world.adminKey, world.orgId, racing),
			() => restore(),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
	});

	test("succeeds until the last millisecond of the thirty days, purged or not", async () => {
		await remove();
		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS - 1;
		await runJobs(world.deps);
		expect((await restore()).status).toBe(200);
		world.clock.nowMs = NOW_MS;
		await remove();
		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS;
		const late = await restore();
		expect(late).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
		const never = await restore(world.adminKey, crypto.randomUUID());
		expect(late.body.message).toBe(never.body.message);
	});
});

/** The database, with a callback before every batch that receives the bound values. */
function withHook(before: (values: readonly unknown[]) => Promise<void>): D1Database {
	return {
		withSession(constraint: D1SessionConstraint) {
			const session = testEnv.DB.withSession(constraint);
			return {
				prepare: (text: string) => ({
					bind: (...values: unknown[]) => ({ values, statement: session.prepare(text).bind(...values) }),
				}),
				async batch(statements: { values: unknown[]; statement: D1PreparedStatement }[]) {
					await before(statements.flatMap(({ values }) => values));
					return session.batch(statements.map(({ statement }) => statement));
				},
			};
		},
	} as unknown as D1Database;
}

describe("the clean-up", () => {
	/** Rows of every table that name one of the ids. */
	async function rowsNaming(...ids: string[]): Promise<string[]> {
		const tables = JSON.parse(await databaseText()) as [string, unknown[]][];
		return tables.flatMap(([name, found]) =>
			found.filter((row) => ids.some((id) => JSON.stringify(row).includes(id))).map(() => name),
		);
	}

	test("removes every row and object of the organization after thirty days, and nothing of others", async () => {
		await furnish();
		const elsewhere = await createWorld();
		const neighbour = await createTestApp(elsewhere);
		await uploadTestBundle(elsewhere, neighbour, "1.0.0");
		// Uploads end after a day.
		const lasting = async () => (await rowsNaming(elsewhere.orgId)).filter((table) => table !== "uploads").length;
		const kept = await lasting();
		const objectsKept = await storedKeys(`${neighbour.uuid}/`);
		await remove();
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(2);
		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS - 1;
		await runJobs(world.deps);
		expect(await rowsNaming(world.orgId)).not.toEqual([]);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(2);

		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS;
		await runJobs(world.deps);
		expect(await rowsNaming(world.orgId), "only its app's id is kept").toEqual(["app_reservations"]);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		// Only the second listing of its object prefix is left, and the change feed of the last day.
		const left = await rowsNaming(app.uuid);
		expect(left.filter((table) => table !== "changes")).toEqual(["garbage_objects", "report_removals"]);
		world.clock.nowMs += DAY_MS;
		await run(query.updateTable("changes").set({ at_ms: 0 }));
		await runJobs(world.deps);
		expect(await rowsNaming(app.uuid)).toEqual([]);
		expect(await lasting()).toBe(kept);
		expect(await storedKeys(`${neighbour.uuid}/`)).toEqual(objectsKept);
		expect(await tableNames()).toContain("invitations");
	});

	test("keeps the ids of its apps reserved, and makes its keys invalid", async () => {
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		await runJobs(world.deps);
		expect(await world.request("GET", "/app", { key: world.adminKey })).toMatchObject({
			status: 401,
			body: { error: "invalid_api_key" },
		});
		const elsewhere = await createWorld();
		const taken = await elsewhere.request("POST", "/app", {
			key: elsewhere.adminKey,
			body: { app_id: app.appId, name: "taken", owner_org: elsewhere.orgId },
		});
		expect(taken).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
	});

	test("keeps a restored organization, and one that was deleted again for its full thirty days", async () => {
		await remove();
		world.clock.nowMs += 20 * DAY_MS;
		await restore();
		world.clock.nowMs += 20 * DAY_MS;
		await runJobs(world.deps);
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
		await remove();
		world.clock.nowMs += 20 * DAY_MS;
		await runJobs(world.deps);
		expect((await restore()).status).toBe(200);
	});

	test("removes a bounded number of rows of a large organization per run, and continues in the next run", async () => {
		const apps = [app];
		while (apps.length < 23) apps.push(await createTestApp(world, "many"));
		const last = apps.at(-1) ?? app;
		for (const each of [app, last]) await uploadTestBundle(world, each, "1.0.0");
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		const left = async () =>
			(await rows(query.selectFrom("apps").select("id").where("owner_org", "=", world.orgId))).length;
		await runJobs(world.deps);
		expect(await left()).toBe(3);
		expect((await restore()).status, "half of it is gone, its keys among it").toBe(401);
		expect(await rowsNaming(world.orgId)).not.toEqual([]);
		await runJobs(world.deps);
		expect(await left()).toBe(0);
		expect(await rowsNaming(world.orgId)).toEqual(apps.map(() => "app_reservations"));
		world.clock.nowMs += DAY_MS;
		await runJobs(world.deps);
		for (const each of [app, last]) expect(await violations(each.uuid, { settled: true })).toEqual([]);
	});

	test("may fail at any call without leaving an object that no row names", async () => {
		for (const kind of ["refused", "answer lost"] as const) {
			for (let failAt = 1; failAt <= 12; failAt++) {
				const own = await createWorld();
				const ownApp = await createTestApp(own);
				await uploadTestBundle(own, ownApp, "1.0.0");
				await own.request("DELETE", "/organization", { key: own.adminKey, query: { orgId: own.orgId } });
				own.clock.nowMs += THIRTY_DAYS_MS;
				const faulty = withFault(own, failAt, kind);
				await runJobs(faulty.deps).catch(() => undefined);
				expect(await violations(ownApp.uuid), `${kind} ${failAt} ${faulty.failed}`).toEqual([]);
				await runJobs(own.deps);
				own.clock.nowMs += DAY_MS;
				await runJobs(own.deps);
				expect(await violations(ownApp.uuid, { settled: true }), `${kind} ${failAt} ${faulty.failed}`).toEqual([]);
				expect(await storedKeys(`${ownApp.uuid}/`)).toEqual([]);
				if (faulty.failed === undefined) break;
			}
		}
	});

	test("removes nothing of an organization that is restored between reading and writing", async () => {
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		const bring = query.updateTable("organizations").set({ deleted_at_ms: null }).where("id", "=", world.orgId);
		const d1 = withHook(async (values) => {
			if (values.includes(world.orgId)) await run(bring);
		});
		await runJobs({ ...world.deps, d1 });
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
	});

	test("removes the other organizations if one fails", async () => {
		await remove();
		const other = await createWorld();
		await other.request("DELETE", "/organization", { key: other.adminKey, query: { orgId: other.orgId } });
		world.clock.nowMs += THIRTY_DAYS_MS;
		const d1 = withHook(async (values) => {
			if (values.includes(world.orgId)) throw new Error("refused");
		});
		await expect(runJobs({ ...world.deps, d1 })).rejects.toThrow("jobs failed: deleted organizations");
		const left = await rows(query.selectFrom("organizations").select("id").where("deleted_at_ms", "is not", null));
		expect(left.map(({ id }) => id)).toContain(world.orgId);
		expect(left.map(({ id }) => id)).not.toContain(other.orgId);
		await run(query.deleteFrom("organizations").where("id", "=", world.orgId));
	});

	test("deletes expired invitations and no others", async () => {
		const invite = (email: string) =>
			world.request("POST", "/organization/members", {
				key: world.adminKey,
				body: { orgId: world.orgId, email, role: "org_member" },
			});
		await invite("first@example.com");
		world.clock.nowMs += DAY_MS;
		await invite("second@example.com");
		world.clock.nowMs += 6 * DAY_MS;
		await runJobs(world.deps);
		const left = await rows(query.selectFrom("invitations").select("email").where("org_id", "=", world.orgId));
		expect(left).toEqual([{ email: "second@example.com" }]);
	});
});
