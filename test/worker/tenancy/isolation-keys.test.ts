/**
 * Isolation of keys: app-scoped keys, keys of removed members, and keys that an organization's
 * policies suspend.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createTenant, expectRefused, REST, type Tenant } from "../support/isolation-scene";
import {
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type TestApp,
	type TestKey,
} from "../support/world";

describe("an app-scoped key", () => {
	let tenant: Tenant;
	let key: TestKey;
	let sibling: TestApp;
	beforeAll(async () => {
		tenant = await createTenant();
		key = await createTestKey(tenant.world, "app_admin", tenant.app);
		sibling = await createTestApp(tenant.world, "sibling");
	});

	test("neither reads nor changes its organization's record, members, keys and other apps", async () => {
		const { world } = tenant;
		const member = await createTestMember(world, "org_member");
		const orgId = world.orgId;
		await expectRefused(
			world,
			key.text,
			[
				{ method: "GET", path: "/organization", query: { orgId } },
				{ method: "POST", path: "/organization", body: { orgId, name: "taken" } },
				{ method: "DELETE", path: "/organization", query: { orgId } },
				{ method: "GET", path: "/organization/members", query: { orgId } },
				{ method: "POST", path: "/organization/members", body: { orgId, email: "x@example.com", role: "org_member" } },
				{ method: "PUT", path: "/organization/members", body: { orgId, email: member.email, role: "org_admin" } },
				{ method: "DELETE", path: "/organization/members", query: { orgId, email: member.email } },
				{ method: "GET", path: `/apikey/${world.adminKeyId}`, query: { reveal: "true" } },
				{ method: "GET", path: `/apikey/${key.id}` },
				{ method: "PUT", path: `/apikey/${key.id}`, body: { name: "renamed" } },
				{ method: "DELETE", path: `/apikey/${world.adminKeyId}` },
				{ method: "POST", path: "/app", body: { app_id: "com.example.more", name: "more", owner_org: orgId } },
				{ method: "GET", path: `${REST}/orgs`, query: { select: "name,enforcing_2fa", id: `eq.${orgId}` } },
			],
			[403, 400],
		);
		await expectRefused(
			world,
			key.text,
			[
				{ method: "GET", path: `/app/${sibling.appId}` },
				{ method: "DELETE", path: `/app/${sibling.appId}` },
				{ method: "GET", path: "/channel", query: { app_id: sibling.appId } },
				{ method: "GET", path: "/bundle", query: { app_id: sibling.appId } },
			],
			[404],
		);
	});

	test("finds only its app and itself in lists, with any filter", async () => {
		const { world, app } = tenant;
		const list = async (path: string, query: Record<string, string> = {}) =>
			(await world.request("GET", path, { key: key.text, query })).body;
		for (const query of [{}, { org_id: world.orgId }] as Record<string, string>[]) {
			expect((await list("/app", query)).map((row: { app_id: string }) => row.app_id)).toEqual([app.appId]);
			expect((await list("/apikey", query)).map((row: { id: string }) => row.id)).toEqual([key.id]);
		}
		expect(await list("/organization")).toEqual([]);
		const organizations = await world.request("POST", `${REST}/rpc/get_orgs_v7`, { key: key.text, body: {} });
		expect(organizations.body).toEqual([]);
	});

	test("cannot create a binding, on its app or another", async () => {
		const { world, app } = tenant;
		const bindings = [
			{ role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: app.uuid },
			{ role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: sibling.uuid },
			{ role_name: "org_member", scope_type: "org", org_id: world.orgId },
		];
		await expectRefused(
			world,
			key.text,
			bindings.flatMap((binding) => [
				{ method: "POST", path: "/apikey", body: { name: "more", bindings: [binding] } },
				{ method: "PUT", path: `/apikey/${key.id}`, body: { bindings: [binding] } },
			]),
			[403],
		);
	});
});

describe("keys of removed members", () => {
	test("grant nothing: current and replaced secrets, keys that they created, links and invitations", async () => {
		const { world, app } = await createTenant();
		const member = await createTestMember(world, "org_super_admin");
		const by = (method: string, path: string, body: object, key = member.key.text) =>
			world.request(method, path, { key, body });
		const made = await by("POST", "/apikey", {
			name: "made",
			expires_at: "2027-06-01T00:00:00Z",
			bindings: [{ role_name: "org_admin", scope_type: "org", org_id: world.orgId }],
		});
		const rotated = await by("PUT", `/apikey/${member.key.id}`, { regenerate: true, overlap_seconds: 86_400 });
		const invited = await by(
			"POST",
			"/organization/members",
			{ orgId: world.orgId, email: `back.door.${crypto.randomUUID()}@example.com`, role: "org_admin" },
			rotated.body.key,
		);
		const bundle = await by("POST", "/bundle", { app_id: app.appId, version: "6.6.6" }, made.body.key);
		const keys: string[] = [member.key.text, rotated.body.key, made.body.key];
		for (const key of keys) expect((await world.as(key)("GET /app")).status, "the control").toBe(200);
		const removed = await world.admin("DELETE /organization/members", {
			query: { orgId: world.orgId, email: member.email },
		});
		expect(removed.status).toBe(200);
		for (const key of keys) {
			await expectRefused(
				world,
				key,
				[
					{ method: "GET", path: "/app" },
					{ method: "GET", path: `/app/${app.appId}` },
					{ method: "GET", path: "/organization" },
					{ method: "POST", path: "/apikey", query: { org_id: world.orgId }, body: { name: "again" } },
					{ method: "POST", path: "/organization", body: { orgId: world.orgId, name: "Mine" } },
					{ method: "POST", path: "/channel", body: { app_id: app.appId, channel: "production", version: "builtin" } },
				],
				[401],
			);
		}
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		expect((await world.request("POST", "/invitation/accept", { body: { token } })).status).toBe(404);
		const content = new TextEncoder().encode("late");
		const headers = { "content-length": String(content.length) };
		const uploaded = await world.request("PUT", bundle.body.upload_url, { rawBody: content, headers });
		expect(uploaded.status).toBeGreaterThanOrEqual(400);
		expect(uploaded.status).toBeLessThan(500);
	});
});

describe("policy downgrade by another path", () => {
	test("with every policy on, no endpoint returns a key that violates one", async () => {
		const world = await createWorld();
		const old = await createTestKey(world, "org_admin", undefined, {
			hashed: true,
			expires_at: "2026-11-25T08:00:00Z",
		});
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-26T08:00:00Z" });
		const policies = { enforce_hashed_api_keys: true, require_apikey_expiration: true, max_apikey_expiration_days: 7 };
		const set = await world.as(admin.text)("POST /organization", { body: { orgId: world.orgId, ...policies } });
		expect(set.status, JSON.stringify(set.body)).toBe(200);
		const binding = { role_name: "org_member", scope_type: "org", org_id: world.orgId };
		await expectRefused(
			world,
			admin.text,
			[
				{
					method: "POST",
					path: "/apikey",
					body: { name: "plain", hashed: false, expires_at: "2026-11-22T08:00:00Z", bindings: [binding] },
				},
				{ method: "POST", path: "/apikey", body: { name: "endless", hashed: true, bindings: [binding] } },
				{
					method: "POST",
					path: "/apikey",
					body: { name: "long", hashed: true, expires_at: "2027-11-22T08:00:00Z", bindings: [binding] },
				},
				{ method: "PUT", path: `/apikey/${old.id}`, body: { regenerate: true, hashed: false } },
				{ method: "PUT", path: `/apikey/${old.id}`, body: { expires_at: "2027-11-22T08:00:00Z" } },
			],
			[400],
		);
		// null says nothing, and takes nothing away.
		const kept = await world.as(admin.text)("PUT /apikey/:id", {
			params: { id: old.id },
			body: { expires_at: null, regenerate: true },
		});
		expect(kept.status, JSON.stringify(kept.body)).toBe(200);
		const shown = await world.as(admin.text)("GET /apikey/:id", { params: { id: old.id } });
		expect(shown.body).toMatchObject({ is_hashed_key: true, expires_at: "2026-11-25T08:00:00.000Z" });

		const invited = await world.as(admin.text)("POST /organization/members", {
			body: { orgId: world.orgId, email: `late.${crypto.randomUUID()}@example.com`, role: "org_member" },
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const accepted = await world.request("POST", "/invitation/accept", { body: { token } });
		const lifeMs = Date.parse(accepted.body.api_key.expires_at) - world.clock.nowMs;
		expect(lifeMs).toBeLessThanOrEqual(7 * 24 * 60 * 60 * 1000);
		const key = accepted.body.api_key.key;
		expect((await world.as(key)("GET /organization", { query: { orgId: world.orgId } })).status).toBe(200);
	});

	test("a suspended key cannot switch a policy off, directly or through another organization's key", async () => {
		const world = await createWorld();
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-26T08:00:00Z" });
		const on = await world.as(admin.text)("POST /organization", {
			body: { orgId: world.orgId, require_apikey_expiration: true },
		});
		expect(on.status).toBe(200);
		const off = { orgId: world.orgId, require_apikey_expiration: false };
		await expectRefused(world, world.adminKey, [{ method: "POST", path: "/organization", body: off }], [401]);
		const elsewhere = await createWorld();
		await expectRefused(world, elsewhere.adminKey, [{ method: "POST", path: "/organization", body: off }], [404]);
		expect((await world.as(admin.text)("POST /organization", { body: off })).status).toBe(200);
	});
});
