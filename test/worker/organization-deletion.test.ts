/**
 * Deleting an organization: what is announced, what every key and every device gets from then on, how it is undone, and that the sweep
 * removes all of it, and nothing else, when thirty days are over.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { allEndpoints } from "../../src/app";
import { query } from "../../src/db/client";
import { sweep } from "../../src/events/sweep";
import { bundleOf, putBytes, register, rows, run, storedKeys } from "./support/bytes";
import { databaseText, tableNames } from "./support/database-text";
import { withFault } from "./support/faults";
import { readThenWrite } from "./support/interleave";
import { violations } from "./support/invariants";
import { REQUESTS } from "./support/requests";
import { signIn } from "./support/sessions";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	tokenOf,
	uploadTestBundle,
	type World,
} from "./support/world";

const DAY_MS = 86_400_000;
const THIRTY_DAYS_MS = 30 * DAY_MS;

let world: World;
let app: TestApp;
beforeEach(async () => {
	// What other tests deleted would take its turn in the sweep.
	await run(query.deleteFrom("organizations").where("deleted_at_ms", "is not", null));
	world = await createWorld({ isOperator: false });
	app = await createTestApp(world);
});

const remove = (key = world.adminKey, fields: Record<string, string> = {}, orgId = world.orgId) =>
	world.request("DELETE", "/organization", { key, query: { orgId, ...fields } });
const restore = (key = world.adminKey, orgId = world.orgId, via: Pick<World, "request"> = world) =>
	via.request("POST", "/organization/restore", { key, body: { orgId } });
const checkUpdate = (appId = app.appId) =>
	world.request("POST", "/updates", {
		body: {
			app_id: appId,
			device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
		},
	});

/** An organization with one of everything, whose production channel serves a bundle. */
async function furnish(): Promise<void> {
	await uploadTestBundle(world, app, "1.0.1", world.adminKey, bundleOf(824));
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await uploadTestBundle(world, app, "1.1.0", world.adminKey, bundleOf(200));
	await createTestMember(world, "org_member");
	await world.request("POST", "/organization/members", {
		key: world.adminKey,
		body: { orgId: world.orgId, email: "pending@example.com", role: "org_member" },
	});
}

describe("the list of deleted organizations", () => {
	const DAY_MS = 24 * 60 * 60 * 1000;
	const listed = async (caller: object, query: Record<string, string> = {}) => {
		const answer = await world.request("GET", "/organization", { query: { deleted: "true", ...query }, ...caller });
		expect(answer).toMatchObject({ status: 200, trips: 2 });
		return answer.body;
	};

	test("shows a person and a key that may restore it the organization, and when it is gone", async () => {
		const session = await signIn(world);
		const person = { headers: session.headers };
		expect(await listed(person)).toEqual([]);
		await remove();
		const expected = [
			expect.objectContaining({
				...{ id: world.orgId, name: "Test" },
				...{ deleted_at: "2026-11-21T08:00:00.000Z", restorable_until: "2026-12-21T08:00:00.000Z" },
			}),
		];
		expect(await listed(person)).toEqual(expected);
		expect(await listed({ key: world.adminKey })).toEqual(expected);
		expect(await listed(person, { page: "1" })).toEqual([]);
		expect((await world.request("GET", "/organization", person)).body).toEqual([]);
		const restored = await world.request("POST", "/organization/restore", { ...person, body: { orgId: world.orgId } });
		expect(restored.status).toBe(200);
		expect(await listed(person)).toEqual([]);
	});

	test("shows nobody else anything: who may not restore it, who is of another one, who is only of an app", async () => {
		const member = await createTestMember(world, "org_admin");
		const callers = [
			{ headers: (await signIn(world, member.email)).headers },
			{ key: (await createTestKey(world, "org_admin")).text },
			{ key: (await createTestKey(world, "app_admin", app)).text },
			{ key: (await createWorld()).adminKey },
		];
		await remove();
		for (const caller of callers) expect(await listed(caller)).toEqual([]);
	});

	test("ends with the time in which it can be restored", async () => {
		await remove();
		const restore = () =>
			world.request("POST", "/organization/restore", { key: world.adminKey, body: { orgId: world.orgId } });
		world.clock.nowMs += 30 * DAY_MS;
		expect(await listed({ key: world.adminKey })).toEqual([]);
		expect((await restore()).status).toBe(404);
		world.clock.nowMs -= 1;
		expect(await listed({ key: world.adminKey })).toHaveLength(1);
		expect((await restore()).status).toBe(200);
	});

	test("is no question about one organization", async () => {
		const answer = await world.request("GET", "/organization", {
			key: world.adminKey,
			query: { orgId: world.orgId, deleted: "true" },
		});
		expect(answer).toMatchObject({ status: 400, body: { moreInfo: { issues: [{ path: "deleted" }] } } });
		const living = await world.request("GET", "/organization", {
			key: world.adminKey,
			query: { orgId: world.orgId, deleted: "false" },
		});
		expect(living).toMatchObject({ status: 200, body: { id: world.orgId } });
	});
});

describe("an announcement", () => {
	test("says what would go and until when it could be undone, and changes nothing", async () => {
		await furnish();
		const before = await databaseText();
		const { status, body } = await remove(world.adminKey, { dry_run: "true" });
		expect(status).toBe(200);
		expect(body).toEqual({
			status: "ok",
			dry_run: true,
			id: world.orgId,
			name: "Test",
			removes: { apps: 1, channels: 1, bundles: 2, bundle_bytes: 1024, members: 2, api_keys: 2, invitations: 1 },
			other_organizations: { known: [], others: 0 },
			restorable_until: "2026-12-21T08:00:00.000Z",
		});
		expect(await databaseText()).toBe(before);
	});

	test("gives its owners thirty days, whatever becomes of its keys, and also where there is none", async () => {
		const last = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-22T08:00:00.000Z" });
		const until = { body: { restorable_until: "2026-12-21T08:00:00.000Z" } };
		expect(await remove(last.text, { dry_run: "true" })).toMatchObject(until);

		const session = await signIn(world);
		const made = await world.request("PUT", "/organization", { headers: session.headers, body: { name: "Keyless" } });
		const query = { orgId: made.body.id };
		const asked = (rest: object) =>
			world.request("DELETE", "/organization", { headers: session.headers, query: { ...query, ...rest } });
		expect(await asked({ dry_run: "true" })).toMatchObject(until);
		expect(await asked({})).toMatchObject({ status: 200, ...until });
		const restored = await world.request("POST", "/organization/restore", { headers: session.headers, body: query });
		expect(restored.status).toBe(200);
	});

	test("counts nothing of other organizations, and the deletion answers the same", async () => {
		const elsewhere = await createWorld();
		await createTestApp(elsewhere);
		const announced = await remove(world.adminKey, { dry_run: "true" });
		expect(announced.body.removes).toMatchObject({ apps: 1, members: 1, api_keys: 1, bundles: 0, bundle_bytes: 0 });
		expect((await remove()).body).toEqual({ ...announced.body, dry_run: false });
	});
});

describe("a deleted organization", () => {
	test("is deleted by parameters in a JSON body as well, and a contradiction deletes nothing", async () => {
		const contradiction = await world.request("DELETE", "/organization", {
			key: world.adminKey,
			query: { orgId: world.orgId, dry_run: "true" },
			body: { orgId: world.orgId, dry_run: false },
		});
		expect(contradiction).toMatchObject({ status: 400, body: { error: "conflicting_parameters" } });
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
		const { status } = await world.request("DELETE", "/organization", {
			key: world.adminKey,
			body: { orgId: world.orgId, dry_run: false },
		});
		expect(status).toBe(200);
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(404);
	});

	test("needs org.delete to go", async () => {
		const { text } = await createTestKey(world, "org_admin");
		expect(await remove(text)).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.delete" } } });
		expect((await remove((await createWorld()).adminKey)).status).toBe(404);
	});

	test("answers every key with 404 at every endpoint that has a target in it", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		const keys = [world.adminKey, (await createTestKey(world, "org_admin")).text, preview.text];
		const prepared: [string, string, object][] = [];
		for (const endpoint of allEndpoints) {
			const { access, method, path } = endpoint;
			const key = `${method} ${path}`;
			if (!("scope" in access) || path === "/organization/restore") continue;
			// What a request deletes must be there for the others.
			const target = key === "DELETE /app/:app_id" ? await createTestApp(world) : app;
			const request = await REQUESTS[key]?.(world, target, { bundle: world.adminKey, channel: world.adminKey });
			if (request === undefined) throw new Error(`no request for ${key}`);
			prepared.push([method, request.path, request]);
		}
		await remove();
		const before = await databaseText();
		const answers: string[] = [];
		for (const [method, path, request] of prepared) {
			for (const key of keys) {
				const { status, body } = await world.request(method, path, { ...request, key });
				if (status !== 404) answers.push(`${method} ${path}: ${status} ${JSON.stringify(body)}`);
			}
		}
		expect(answers).toEqual([]);
		expect(prepared.length).toBeGreaterThan(40);
		expect(await databaseText()).toBe(before);
	});

	test("leaves its keys valid and empty-handed", async () => {
		await furnish();
		await remove();
		const lists = await Promise.all(
			["/organization", "/app"].map((path) => world.request("GET", path, { key: world.adminKey })),
		);
		for (const { status, body } of lists) expect({ status, body }).toEqual({ status: 200, body: [] });
		const created = await world.request("PUT", "/organization", { key: world.adminKey, body: { name: "x" } });
		expect(created.status, "org.create without an organization that it administers").toBe(403);
		expect((await world.request("GET", "/app")).body.error).toBe("missing_api_key");
	});

	test("tells its devices that there is no such app", async () => {
		await furnish();
		expect((await checkUpdate()).body).toMatchObject({ version: "1.0.1" });
		await remove();
		const unknown = await checkUpdate("com.example.nowhere");
		const answer = await checkUpdate();
		expect(answer.status).toBe(200);
		expect(answer.body).toMatchObject({ error: "app_not_found", kind: "failed" });
		expect(answer.body).toEqual(unknown.body);
	});

	test("completes no upload, however it was begun, and goes on with them when it is restored", async () => {
		const { body } = await register(world, app, "2.0.0", world.adminKey);
		await remove();
		const bytes = bundleOf(130);
		const refused = await putBytes(world, body.upload_url, bytes);
		expect(refused.status, JSON.stringify(refused.body)).toBeGreaterThanOrEqual(400);
		expect(refused.status).toBeLessThan(500);
		expect(await rows(query.selectFrom("bundles").select("status").where("app_id", "=", app.uuid))).toEqual([
			{ status: "pending" },
		]);
		await restore();
		expect((await putBytes(world, body.upload_url, bytes)).status).toBe(200);
	});

	test("accepts no invitation", async () => {
		const invited = await world.request("POST", "/organization/members", {
			key: world.adminKey,
			body: { orgId: world.orgId, email: "late@example.com", role: "org_member" },
		});
		const token = tokenOf(invited.body.link);
		await remove();
		for (const path of ["/invitation/show", "/invitation/accept"]) {
			const answer = await world.request("POST", path, { body: { token } });
			expect(answer).toMatchObject({ status: 404, body: { error: "invitation_not_found" } });
		}
		await restore();
		expect((await world.request("POST", "/invitation/accept", { body: { token } })).status).toBe(201);
	});

	test("keeps its apps' ids", async () => {
		await remove();
		const elsewhere = await createWorld();
		const taken = await elsewhere.request("POST", "/app", {
			key: elsewhere.adminKey,
			body: { app_id: app.appId, name: "taken over", owner_org: elsewhere.orgId },
		});
		expect(taken).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
	});

	test("cannot be deleted again, not even at the same moment", async () => {
		const answer = await readThenWrite(
			world,
			(racing) => racing.request("DELETE", "/organization", { key: world.adminKey, query: { orgId: world.orgId } }),
			() => remove(),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
		expect(await remove()).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
		const entries = query.selectFrom("audit_log").select("id").where("action", "=", "organization.delete");
		expect(await rows(entries.where("org_id", "=", world.orgId))).toHaveLength(1);
	});

	test("takes from a key of another organization what it held there, and nothing else", async () => {
		const other = await world.request("PUT", "/organization", { key: world.adminKey, body: { name: "Other" } });
		await remove(world.adminKey, {}, other.body.id);
		const gone = await world.request("GET", "/organization", {
			key: world.adminKey,
			query: { orgId: other.body.id },
		});
		expect(gone.status).toBe(404);
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
	});
});

describe("a restoration", () => {
	test("brings back everything as it was, with both steps in the audit log", async () => {
		await furnish();
		const withoutAudit = async () =>
			(JSON.parse(await databaseText()) as [string, unknown][]).filter(([name]) => name !== "audit_log");
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

	test("is for a key that may delete the organization; it is not there for any other", async () => {
		const admin = await createTestKey(world, "org_admin");
		const onApp = await createTestKey(world, "app_admin", app);
		await remove();
		expect(await restore(admin.text)).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.delete" } } });
		expect((await restore(onApp.text)).status).toBe(403);
		expect((await restore((await createWorld()).adminKey)).status).toBe(404);
		expect((await restore()).status).toBe(200);
	});

	test("of an organization that is there is 404, and so is a second one at the same moment", async () => {
		expect((await restore()).status).toBe(404);
		await remove();
		const answer = await readThenWrite(
			world,
			(racing) => restore(world.adminKey, world.orgId, racing),
			() => restore(),
		);
		expect(answer).toMatchObject({ status: 404, body: { error: "organization_not_found" } });
	});

	test("works until the last millisecond of the thirty days, and not in the next, swept or not", async () => {
		await remove();
		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS - 1;
		await sweep(world.deps);
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

/** The database, with something that happens before every batch, which it is told the values of. */
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

describe("the sweep", () => {
	/** Rows of every table that name one of the ids. */
	async function rowsNaming(...ids: string[]): Promise<string[]> {
		const tables = JSON.parse(await databaseText()) as [string, unknown[]][];
		return tables.flatMap(([name, found]) =>
			found.filter((row) => ids.some((id) => JSON.stringify(row).includes(id))).map(() => name),
		);
	}

	test("removes every row and every object of it after thirty days, and leaves its neighbours alone", async () => {
		await furnish();
		const elsewhere = await createWorld();
		const neighbour = await createTestApp(elsewhere);
		await uploadTestBundle(elsewhere, neighbour, "1.0.0");
		const kept = (await rowsNaming(elsewhere.orgId)).length;
		const objectsKept = await storedKeys(`${neighbour.uuid}/`);
		await remove();
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(2);
		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS - 1;
		await sweep(world.deps);
		expect(await rowsNaming(world.orgId)).not.toEqual([]);
		expect(await storedKeys(`${app.uuid}/`)).toHaveLength(2);

		world.clock.nowMs = NOW_MS + THIRTY_DAYS_MS;
		await sweep(world.deps);
		expect(await rowsNaming(world.orgId), "only its app's id is kept").toEqual(["app_reservations"]);
		expect(await storedKeys(`${app.uuid}/`)).toEqual([]);
		// What is left of it is the second look at where its objects were.
		expect(await rowsNaming(app.uuid)).toEqual(["garbage_objects"]);
		world.clock.nowMs += DAY_MS;
		await sweep(world.deps);
		expect(await rowsNaming(app.uuid)).toEqual([]);
		expect(await rowsNaming(elsewhere.orgId)).toHaveLength(kept);
		expect(await storedKeys(`${neighbour.uuid}/`)).toEqual(objectsKept);
		expect(await tableNames()).toContain("invitations");
	});

	test("keeps the ids of its apps from every other organization, and its keys are unknown", async () => {
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		await sweep(world.deps);
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

	test("leaves one alone that was restored, and one that is restored and deleted anew its full thirty days", async () => {
		await remove();
		world.clock.nowMs += 20 * DAY_MS;
		await restore();
		world.clock.nowMs += 20 * DAY_MS;
		await sweep(world.deps);
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
		await remove();
		world.clock.nowMs += 20 * DAY_MS;
		await sweep(world.deps);
		expect((await restore()).status).toBe(200);
	});

	test("does a bounded part of a large one, goes on in the next run, and forgets nothing in between", async () => {
		const apps = [app];
		while (apps.length < 23) apps.push(await createTestApp(world, "many"));
		const last = apps.at(-1) ?? app;
		for (const each of [app, last]) await uploadTestBundle(world, each, "1.0.0");
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		const left = async () =>
			(await rows(query.selectFrom("apps").select("id").where("owner_org", "=", world.orgId))).length;
		await sweep(world.deps);
		expect(await left()).toBe(3);
		expect((await restore()).status, "half of it is gone, its keys among it").toBe(401);
		expect(await rowsNaming(world.orgId)).not.toEqual([]);
		await sweep(world.deps);
		expect(await left()).toBe(0);
		expect(await rowsNaming(world.orgId)).toEqual(apps.map(() => "app_reservations"));
		world.clock.nowMs += DAY_MS;
		await sweep(world.deps);
		for (const each of [app, last]) expect(await violations(each.uuid, { settled: true })).toEqual([]);
	});

	test("may fail at any call and leaves no object that nobody knows", async () => {
		for (const kind of ["refused", "answer lost"] as const) {
			for (let failAt = 1; failAt <= 12; failAt++) {
				const own = await createWorld();
				const ownApp = await createTestApp(own);
				await uploadTestBundle(own, ownApp, "1.0.0");
				await own.request("DELETE", "/organization", { key: own.adminKey, query: { orgId: own.orgId } });
				own.clock.nowMs += THIRTY_DAYS_MS;
				const faulty = withFault(own, failAt, kind);
				await sweep(faulty.deps).catch(() => undefined);
				expect(await violations(ownApp.uuid), `${kind} ${failAt} ${faulty.failed}`).toEqual([]);
				await sweep(own.deps);
				own.clock.nowMs += DAY_MS;
				await sweep(own.deps);
				expect(await violations(ownApp.uuid, { settled: true }), `${kind} ${failAt} ${faulty.failed}`).toEqual([]);
				expect(await storedKeys(`${ownApp.uuid}/`)).toEqual([]);
				if (faulty.failed === undefined) break;
			}
		}
	});

	test("removes nothing of one that is brought back by hand between its reading and its writing", async () => {
		await remove();
		world.clock.nowMs += THIRTY_DAYS_MS;
		const bring = query.updateTable("organizations").set({ deleted_at_ms: null }).where("id", "=", world.orgId);
		const d1 = withHook(async (values) => {
			if (values.includes(world.orgId)) await run(bring);
		});
		await sweep({ ...world.deps, d1 });
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey })).status).toBe(200);
	});

	test("removes the other organizations when one cannot be removed", async () => {
		await remove();
		const other = await createWorld();
		await other.request("DELETE", "/organization", { key: other.adminKey, query: { orgId: other.orgId } });
		world.clock.nowMs += THIRTY_DAYS_MS;
		const d1 = withHook(async (values) => {
			if (values.includes(world.orgId)) throw new Error("refused");
		});
		await expect(sweep({ ...world.deps, d1 })).rejects.toThrow("sweep failed: deleted organizations");
		const left = await rows(query.selectFrom("organizations").select("id").where("deleted_at_ms", "is not", null));
		expect(left.map(({ id }) => id)).toContain(world.orgId);
		expect(left.map(({ id }) => id)).not.toContain(other.orgId);
		await run(query.deleteFrom("organizations").where("id", "=", world.orgId));
	});

	test("forgets invitations that ran out, and no others", async () => {
		const invite = (email: string) =>
			world.request("POST", "/organization/members", {
				key: world.adminKey,
				body: { orgId: world.orgId, email, role: "org_member" },
			});
		await invite("first@example.com");
		world.clock.nowMs += DAY_MS;
		await invite("second@example.com");
		world.clock.nowMs += 6 * DAY_MS;
		await sweep(world.deps);
		const left = await rows(query.selectFrom("invitations").select("email").where("org_id", "=", world.orgId));
		expect(left).toEqual([{ email: "second@example.com" }]);
	});
});
