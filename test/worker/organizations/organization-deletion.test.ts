/**
 * Deleting an organization: its dry run, the responses to its keys and devices, its restoration,
 * and the clean-up, which removes all of it and nothing else after thirty days.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { allEndpoints } from "../../../src/endpoints";
import { bundleOf, putBytes, register, rows } from "../support/bytes";
import { databaseText } from "../support/database-text";
import { app, checkUpdate, furnish, prepareOrganization, remove, restore, world } from "../support/deletion-scene";
import { readThenWrite } from "../support/interleave";
import { REQUESTS } from "../support/requests";
import { signIn } from "../support/sessions";
import { createTestApp, createTestKey, createTestMember, createWorld, tokenOf } from "../support/world";

beforeEach(prepareOrganization);

describe("GET /organization?deleted=true", () => {
	const listed = async (caller: object, query: Record<string, string> = {}) => {
		const answer = await world.request("GET", "/organization", { query: { deleted: "true", ...query }, ...caller });
		expect(answer).toMatchObject({ status: 200, trips: 2 });
		return answer.body;
	};

	test("lists organizations that the caller can restore, with the end of that time", async () => {
		const session = await signIn(world);
		const person = { headers: session.headers };
		expect(await listed(person)).toEqual([]);
		await remove();
		const expected = [
			expect.objectContaining({
				id: world.orgId,
				name: "Test",
				deleted_at: "2026-11-21T08:00:00.000Z",
				restorable_until: "2026-12-21T08:00:00.000Z",
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

	test("lists nothing for callers that cannot restore them, of other organizations, or of an app only", async () => {
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

	test("omits organizations that can no longer be restored", async () => {
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

	test("refuses orgId", async () => {
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

describe("a dry run of deleting an organization", () => {
	test("shows what would be deleted and until when it could be restored, and changes nothing", async () => {
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

	test("gives its owners thirty days, even if its keys expire or it has none", async () => {
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

	test("counts nothing of other organizations, and the deletion responds the same", async () => {
		const elsewhere = await createWorld();
		await createTestApp(elsewhere);
		const announced = await remove(world.adminKey, { dry_run: "true" });
		expect(announced.body.removes).toMatchObject({ apps: 1, members: 1, api_keys: 1, bundles: 0, bundle_bytes: 0 });
		expect((await remove()).body).toEqual({ ...announced.body, dry_run: false });
	});
});

describe("a deleted organization", () => {
	test("is deleted with parameters in a JSON body as well, and contradicting ones delete nothing", async () => {
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

	test("requires org.delete", async () => {
		const { text } = await createTestKey(world, "org_admin");
		expect(await remove(text)).toMatchObject({ status: 403, body: { moreInfo: { permission: "org.delete" } } });
		expect((await remove((await createWorld()).adminKey)).status).toBe(404);
	});

	test("answers every key with 404 at every endpoint with a target in it", async () => {
		const preview = await createTestKey(world, "app_preview", app);
		const keys = [world.adminKey, (await createTestKey(world, "org_admin")).text, preview.text];
		const prepared: [string, string, object][] = [];
		for (const endpoint of allEndpoints) {
			const { access, method, path } = endpoint;
			const key = `${method} ${path}`;
			if (!("scope" in access) || path === "/organization/restore") continue;
			// A row that one request deletes must exist again for the next one.
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

	test("keeps its keys valid without any rights", async () => {
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

	test("answers its devices with the error for an unknown app", async () => {
		await furnish();
		expect((await checkUpdate()).body).toMatchObject({ version: "1.0.1" });
		await remove();
		const unknown = await checkUpdate("com.example.nowhere");
		const answer = await checkUpdate();
		expect(answer.status).toBe(200);
		expect(answer.body).toMatchObject({ error: "app_not_found", kind: "failed" });
		expect(answer.body).toEqual(unknown.body);
	});

	test("completes no upload of any kind, and continues them after it is restored", async () => {
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

	test("keeps the ids of its apps", async () => {
		await remove();
		const elsewhere = await createWorld();
		const taken = await elsewhere.request("POST", "/app", {
			key: elsewhere.adminKey,
			body: { app_id: app.appId, name: "taken over", owner_org: elsewhere.orgId },
		});
		expect(taken).toMatchObject({ status: 409, body: { error: "app_id_already_exists" } });
	});

	test("cannot be deleted again, not even concurrently", async () => {
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

	test("removes from a foreign key only what it held there", async () => {
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
