/**
 * Attacks on isolation that were published against services of this kind, each as a case of its name: another organization's things by
 * their ids, names taken over, a small key in a large place, policies passed by a side door, headers and parameters that pretend.
 * The matrix (isolation-matrix.test.ts) holds for every endpoint; these are the combinations that no single request shows.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { AnyEndpoint } from "../../src/api/endpoint";
import { allEndpoints } from "../../src/app";
import { databaseText } from "./support/database-text";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createTestMember,
	createWorld,
	type RequestOptions,
	setTestChannel,
	type TestApp,
	type TestKey,
	uploadTestBundle,
	type World,
} from "./support/world";

const REST = "/compat/capgo-cli/rest/v1";

interface Tenant {
	readonly world: World;
	readonly app: TestApp;
	readonly bundleId: number;
	readonly channelId: number;
}

/** An organization with an app that has the version 1.5.0, or the one given, on the channel "production". */
async function createTenant(version = "1.5.0"): Promise<Tenant> {
	const world = await createWorld();
	const app = await createTestApp(world);
	const bundleId = await uploadTestBundle(world, app, version);
	const channelId = await setTestChannel(world, app, "production", { version, public: true });
	return { world, app, bundleId, channelId };
}

type Request = RequestOptions & { readonly method: string; readonly path: string };

async function expectRefused(by: World, key: string, requests: readonly Request[], statuses: readonly number[]) {
	const before = await databaseText();
	const answers: Answer[] = [];
	for (const { method, path, ...options } of requests) {
		const answer = await by.request(method, path, { key, ...options });
		const hint = `${method} ${path} ${JSON.stringify(options)}: ${JSON.stringify(answer.body)}`;
		expect(statuses, hint).toContain(answer.status);
		answers.push(answer);
	}
	expect(await databaseText(), "a refused request changed something").toBe(before);
	return answers;
}

/** The version that a fresh device of the app is given; undefined when it is given none. */
async function served(world: World, app: TestApp, defaultChannel = ""): Promise<string | undefined> {
	const { version, url } = await update(world, app, defaultChannel);
	return url === undefined ? undefined : version;
}

async function update(world: World, app: TestApp, defaultChannel = ""): Promise<Record<string, string>> {
	const { body } = await world.request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: crypto.randomUUID(),
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			defaultChannel,
		},
	});
	return body;
}

describe("cross-tenant control", () => {
	let ours: Tenant;
	let theirs: Tenant;
	beforeAll(async () => {
		ours = await createTenant("1.5.0");
		theirs = await createTenant("1.6.6");
	});

	test("no id of another organization's bundle or channel works beside an app of one's own", async () => {
		const { world, app, bundleId, channelId } = ours;
		const app_id = app.appId;
		await expectRefused(
			world,
			world.adminKey,
			[
				{ method: "PUT", path: "/bundle", body: { app_id, version_id: theirs.bundleId, channel_id: channelId } },
				{ method: "PUT", path: "/bundle", body: { app_id, version_id: bundleId, channel_id: theirs.channelId } },
				{
					method: "PUT",
					path: "/bundle",
					body: { app_id: theirs.app.appId, version_id: bundleId, channel_id: channelId },
				},
				{ method: "POST", path: "/channel", body: { app_id, channel: "production", version: "1.6.6" } },
				{ method: "POST", path: "/bundle/complete", body: { app_id, version: "1.6.6" } },
				{ method: "DELETE", path: "/bundle", query: { app_id, version: "1.6.6" } },
				{
					method: "PATCH",
					path: `${REST}/channels`,
					query: { app_id: `eq.${app_id}`, name: "eq.production" },
					body: { app_id, name: "production", version: theirs.bundleId },
				},
				{
					method: "PATCH",
					path: `${REST}/app_versions`,
					query: { id: `eq.${theirs.bundleId}`, app_id: `eq.${app_id}` },
					body: { deleted: true },
				},
				{
					method: "PATCH",
					path: `${REST}/app_versions`,
					query: { id: `eq.${theirs.bundleId}` },
					body: { deleted: true },
				},
				{
					method: "POST",
					path: `${REST}/rpc/get_channel_current_bundle_rbac`,
					body: { p_app_id: app_id, p_channel_id: theirs.channelId },
				},
			],
			[400, 404],
		);
		expect(await served(theirs.world, theirs.app)).toBe("1.6.6");
		const promoted = await world.request("PUT", "/bundle", {
			key: world.adminKey,
			body: { app_id, version_id: bundleId, channel_id: channelId },
		});
		expect(promoted.status, "the control: one's own ids do").toBe(200);
	});

	test("a key is bound to nothing of another organization, whichever organization the request names", async () => {
		const { world, app } = ours;
		const key = await createTestKey(world, "app_reader", app);
		const bindings = [
			{ role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: theirs.app.uuid },
			{ role_name: "app_reader", scope_type: "app", org_id: theirs.world.orgId, app_id: theirs.app.uuid },
			{ role_name: "app_reader", scope_type: "app", org_id: theirs.world.orgId, app_id: app.uuid },
			{ role_name: "org_member", scope_type: "org", org_id: theirs.world.orgId },
		];
		const requests = bindings.flatMap((binding): Request[] => [
			{ method: "POST", path: "/apikey", body: { name: "spy", bindings: [binding] } },
			{
				method: "POST",
				path: "/apikey",
				query: { org_id: world.orgId },
				body: { name: "spy", bindings: [{ role_name: "org_member", scope_type: "org", org_id: world.orgId }, binding] },
			},
			{ method: "PUT", path: `/apikey/${key.id}`, body: { bindings: [binding] } },
		]);
		await expectRefused(world, world.adminKey, requests, [400, 403, 404]);
	});

	test("no upload, file or manifest reaches into another organization by its id or its path", async () => {
		const { world, app } = ours;
		const tus = { "tus-resumable": "1.0.0" };
		const create = (path: string) => ({
			method: "POST",
			path: "/files/upload/attachments",
			headers: { ...tus, "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
		});
		const theirFile = `orgs/${theirs.world.orgId}/apps/${theirs.app.appId}/delta/secret`;
		const stored = await theirs.world.request("POST", "/files/upload/attachments", {
			key: theirs.world.adminKey,
			headers: create(theirFile).headers,
		});
		expect(stored.status).toBe(201);
		const upload = new URL(stored.headers.get("location") ?? "").pathname;
		await world.request("POST", "/bundle", {
			key: world.adminKey,
			body: { app_id: app.appId, version: "2.0.0" },
		});
		const manifest = (s3_path: string) => ({
			method: "POST",
			path: "/private/set_manifest",
			body: { app_id: app.appId, name: "2.0.0", manifest: [{ file_name: "a.js", s3_path, file_hash: "ab" }] },
		});
		await expectRefused(
			world,
			world.adminKey,
			[
				create(`orgs/${world.orgId}/apps/${theirs.app.appId}/delta/a`),
				create(`orgs/${theirs.world.orgId}/apps/${app.appId}/delta/a`),
				{ method: "GET", path: upload, headers: tus },
				{
					method: "PATCH",
					path: upload,
					headers: { ...tus, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
					rawBody: "x",
				},
				{ method: "GET", path: `/files/read/attachments/${theirFile}` },
				manifest(theirFile),
				manifest(theirFile.replace(theirs.app.appId, app.appId)),
				manifest(theirFile.replace(theirs.world.orgId, world.orgId)),
			],
			[400, 404],
		);
		// A name in one's own app, whatever it looks like.
		const climbing = create(`orgs/${world.orgId}/apps/${app.appId}/delta/../../${theirs.app.appId}/delta/a`);
		await world.request("POST", climbing.path, { key: world.adminKey, headers: climbing.headers });
		const reached = `/files/read/attachments/orgs/${theirs.world.orgId}/apps/${theirs.app.appId}/delta/a`;
		expect((await theirs.world.request("GET", reached, { key: theirs.world.adminKey })).status).toBe(404);
	});

	test("a device of one app is served nothing of another, whatever channel it asks for", async () => {
		await setTestChannel(theirs.world, theirs.app, "theirs-alone", { version: "1.6.6" });
		expect(await served(ours.world, ours.app, "theirs-alone")).toBe("1.5.0");
	});
});

describe("name-collision take-over", () => {
	test("the id of an app is its owner's: who asks for it as well is told that it is taken, and nothing else", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const { world } = ours;
		const body = { app_id: theirs.app.appId, name: "mine now", owner_org: world.orgId };
		const [answer] = await expectRefused(world, world.adminKey, [{ method: "POST", path: "/app", body }], [409]);
		const text = JSON.stringify(answer?.body);
		for (const trace of [theirs.world.orgId, theirs.world.userId, theirs.app.uuid]) expect(text).not.toContain(trace);
		expect(await served(theirs.world, theirs.app)).toBe("1.5.0");
	});

	test("the same names of channels and bundles in two apps are two things", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const { world, app } = ours;
		const request = async (method: string, path: string, options: RequestOptions) => {
			const answer = await world.request(method, path, { key: world.adminKey, ...options });
			expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		};
		const before = await theirs.world.request("GET", "/channel", {
			key: theirs.world.adminKey,
			query: { app_id: theirs.app.appId },
		});
		await request("POST", "/channel", { body: { app_id: app.appId, channel: "production", public: false } });
		await request("DELETE", "/channel", { query: { app_id: app.appId, channel: "production" } });
		await request("DELETE", "/bundle", { query: { app_id: app.appId, version: "1.5.0" } });
		const after = await theirs.world.request("GET", "/channel", {
			key: theirs.world.adminKey,
			query: { app_id: theirs.app.appId },
		});
		expect(after.body).toEqual(before.body);
		expect(await served(theirs.world, theirs.app)).toBe("1.5.0");
	});

	test("an id that was deleted and registered by another brings nothing old with it, and old keys no way in", async () => {
		const [before, after] = [await createTenant(), await createTenant()];
		const { app } = before;
		const oldKeys = [
			before.world.adminKey,
			(await createTestKey(before.world, "app_admin", app)).text,
			(await createTestKey(before.world, "app_preview", app)).text,
		];
		const oldDownload = (await update(before.world, app)).url ?? "";
		expect((await before.world.request("GET", oldDownload)).status).toBe(200);
		const pending = await before.world.request("POST", "/bundle", {
			key: before.world.adminKey,
			body: { app_id: app.appId, version: "3.0.0" },
		});
		const file = `orgs/${before.world.orgId}/apps/${app.appId}/delta/old`;
		const stored = await before.world.request("POST", "/files/upload/attachments", {
			key: before.world.adminKey,
			headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(file)}` },
		});
		expect(stored.status).toBe(201);
		await before.world.request("DELETE", `/app/${app.appId}`, { key: before.world.adminKey });
		await before.world.request("DELETE", "/app/reservation", {
			key: before.world.adminKey,
			query: { app_id: app.appId },
		});

		const { world } = after;
		const made = await world.request("POST", "/app", {
			key: world.adminKey,
			body: { app_id: app.appId, name: "new owner", owner_org: world.orgId },
		});
		expect(made.status).toBe(201);
		expect(made.body.id).not.toBe(app.uuid);
		for (const path of ["/channel", "/bundle"]) {
			const list = await world.request("GET", path, { key: world.adminKey, query: { app_id: app.appId } });
			expect(list.body, path).toEqual([]);
		}
		expect(await served(world, app, "production")).toBeUndefined();
		const again = { app_id: app.appId, version: "1.5.0" };
		expect((await world.request("POST", "/bundle", { key: world.adminKey, body: again })).status).toBe(201);

		const own = `orgs/${world.orgId}/apps/${app.appId}/delta/old`;
		await expectRefused(
			world,
			world.adminKey,
			[file, own].map((path) => ({ method: "GET", path: `/files/read/attachments/${path}` })),
			[400, 404],
		);
		for (const key of oldKeys) {
			await expectRefused(
				before.world,
				key,
				[
					{ method: "GET", path: `/app/${app.appId}` },
					{ method: "GET", path: "/bundle", query: { app_id: app.appId } },
					{ method: "POST", path: "/bundle", body: { app_id: app.appId, version: "1.6.6" } },
					{ method: "POST", path: "/channel", body: { app_id: app.appId, channel: "production", public: true } },
					{ method: "DELETE", path: `/app/${app.appId}` },
				],
				[404],
			);
		}
		const late = await before.world.request("PUT", pending.body.upload_url, {
			rawBody: "late",
			headers: { "content-length": "4" },
		});
		expect(late.status).toBeGreaterThanOrEqual(400);
		const bundles = await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId } });
		expect(bundles.body.map((bundle: { name: string }) => bundle.name)).not.toContain("3.0.0");
	});
});

describe("an app-scoped key", () => {
	let tenant: Tenant;
	let key: TestKey;
	let sibling: TestApp;
	beforeAll(async () => {
		tenant = await createTenant();
		key = await createTestKey(tenant.world, "app_admin", tenant.app);
		sibling = await createTestApp(tenant.world, "sibling");
	});

	test("reads and changes nothing of its organization: not its record, members, keys, nor other apps", async () => {
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

	test("finds in lists its own app and itself, whatever the filter says", async () => {
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

	test("gives nobody a binding, not to its own app and not to another", async () => {
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
	test("open nothing any more: the member's, its secret before the last, those it made, and links and invitations of theirs", async () => {
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
		for (const key of keys) expect((await world.request("GET", "/app", { key })).status, "the control").toBe(200);
		const removed = await world.request("DELETE", "/organization/members", {
			key: world.adminKey,
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

describe("policy downgrade by a side door", () => {
	test("with every policy on, no door lets out a key that breaks one", async () => {
		const world = await createWorld();
		const old = await createTestKey(world, "org_admin", undefined, {
			hashed: true,
			expires_at: "2026-11-25T08:00:00Z",
		});
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-26T08:00:00Z" });
		const policies = { enforce_hashed_api_keys: true, require_apikey_expiration: true, max_apikey_expiration_days: 7 };
		const set = await world.request("POST", "/organization", {
			key: admin.text,
			body: { orgId: world.orgId, ...policies },
		});
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
		const kept = await world.request("PUT", `/apikey/${old.id}`, {
			key: admin.text,
			body: { expires_at: null, regenerate: true },
		});
		expect(kept.status, JSON.stringify(kept.body)).toBe(200);
		const shown = await world.request("GET", `/apikey/${old.id}`, { key: admin.text });
		expect(shown.body).toMatchObject({ is_hashed_key: true, expires_at: "2026-11-25T08:00:00.000Z" });

		const invited = await world.request("POST", "/organization/members", {
			key: admin.text,
			body: { orgId: world.orgId, email: `late.${crypto.randomUUID()}@example.com`, role: "org_member" },
		});
		const token = new URLSearchParams(new URL(invited.body.link).hash.slice(1)).get("token");
		const accepted = await world.request("POST", "/invitation/accept", { body: { token } });
		const lifeMs = Date.parse(accepted.body.api_key.expires_at) - world.clock.nowMs;
		expect(lifeMs).toBeLessThanOrEqual(7 * 24 * 60 * 60 * 1000);
		const key = accepted.body.api_key.key;
		expect((await world.request("GET", "/organization", { key, query: { orgId: world.orgId } })).status).toBe(200);
	});

	test("a key that a policy stops switches no policy off, here or through another organization's key", async () => {
		const world = await createWorld();
		const admin = await createTestKey(world, "org_super_admin", undefined, { expires_at: "2026-11-26T08:00:00Z" });
		const on = await world.request("POST", "/organization", {
			key: admin.text,
			body: { orgId: world.orgId, require_apikey_expiration: true },
		});
		expect(on.status).toBe(200);
		const off = { orgId: world.orgId, require_apikey_expiration: false };
		await expectRefused(world, world.adminKey, [{ method: "POST", path: "/organization", body: off }], [401]);
		const elsewhere = await createWorld();
		await expectRefused(world, elsewhere.adminKey, [{ method: "POST", path: "/organization", body: off }], [404]);
		expect((await world.request("POST", "/organization", { key: admin.text, body: off })).status).toBe(200);
	});
});

describe("header tricks", () => {
	let ours: Tenant;
	let theirs: Tenant;
	beforeAll(async () => {
		ours = await createTenant();
		theirs = await createTenant();
	});

	test("of two keys none is chosen, wherever they stand", async () => {
		const { world, app } = ours;
		const names = ["authorization", "capstankey", "servicekey", "capgkey"];
		const pairs = names.flatMap((one) => names.filter((other) => other !== one).map((other) => [one, other] as const));
		for (const [one, other] of pairs) {
			const answer = await world.request("GET", `/app/${app.appId}`, {
				headers: { [one]: world.adminKey, [other]: theirs.world.adminKey },
			});
			expect(answer, `${one} and ${other}`).toMatchObject({ status: 400, body: { error: "ambiguous_api_key" } });
		}
		for (const value of [
			`${world.adminKey}, ${theirs.world.adminKey}`,
			`Bearer ${world.adminKey}, Bearer ${theirs.world.adminKey}`,
			`Basic ${btoa(`x:${world.adminKey}`)}`,
			`Bearer Bearer ${world.adminKey}`,
		]) {
			expect((await world.request("GET", `/app/${app.appId}`, { headers: { authorization: value } })).status).toBe(401);
		}
	});

	test("a key counts in no query, cookie or body", async () => {
		const { world, app } = ours;
		const key = world.adminKey;
		const tries: RequestOptions[] = [
			{ query: { key, apikey: key, authorization: key, capstankey: key } },
			{ headers: { cookie: `authorization=${key}; capstankey=${key}` } },
			{ headers: { "x-api-key": key, apikey: key, "x-authorization": key, "proxy-authorization": key } },
		];
		for (const options of tries) {
			expect((await world.request("GET", `/app/${app.appId}`, options)).status).toBe(401);
		}
		const body = { app_id: app.appId, channel: "by-body", capstankey: key, authorization: key };
		expect((await world.request("POST", "/channel", { body })).status).toBe(401);
	});

	test("a header makes no key another one", async () => {
		const { world, app } = theirs;
		for (const name of ["x-limited-key-id", "x-user-id", "x-org-id", "x-key-id", "x-capgo-spoof-admin-authorization"]) {
			for (const value of [world.adminKeyId, world.userId, world.orgId, "1"]) {
				const answer = await world.request("GET", `/app/${app.appId}`, {
					key: ours.world.adminKey,
					headers: { [name]: value },
				});
				expect(answer.status, `${name}: ${value}`).toBe(404);
			}
		}
	});

	test("a header makes no method or path another one", async () => {
		const { world, app } = ours;
		const before = await databaseText();
		for (const name of ["x-http-method-override", "x-http-method", "x-method-override"]) {
			const headers = { [name]: "DELETE" };
			const read = await world.request("GET", `/app/${app.appId}`, { key: world.adminKey, headers });
			expect(read.body, name).toMatchObject({ app_id: app.appId });
			const posted = await world.request("POST", `/app/${app.appId}`, { key: world.adminKey, headers, body: {} });
			expect(posted.status, name).toBe(405);
		}
		const query = { _method: "DELETE", method: "DELETE" };
		expect((await world.request("GET", `/app/${app.appId}`, { key: world.adminKey, query })).status).toBe(200);
		for (const name of ["x-original-url", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-prefix"]) {
			const headers = { [name]: `/app/${theirs.app.appId}` };
			const read = await world.request("GET", `/app/${app.appId}`, { key: world.adminKey, headers });
			expect(read.body, name).toMatchObject({ app_id: app.appId });
			const open = await world.request("GET", "/ok", { headers: { [name]: `/app/${app.appId}` } });
			expect(JSON.stringify(open.body), name).not.toContain(app.appId);
		}
		expect(await databaseText()).toBe(before);
	});

	test("a forwarded address opens no address list, and the log names the address that the platform saw", async () => {
		const { world, app } = ours;
		const key = await createTestKey(world, "app_admin", app, { ip_allow_list: ["192.0.2.0/24"] });
		const forwarded = {
			"x-forwarded-for": "192.0.2.1",
			"x-real-ip": "192.0.2.1",
			"true-client-ip": "192.0.2.1",
			"x-client-ip": "192.0.2.1",
			"cf-connecting-ipv6": "192.0.2.1",
			forwarded: "for=192.0.2.1",
		};
		const from = (headers: Record<string, string>) =>
			world.request("GET", `/app/${app.appId}`, { key: key.text, headers });
		expect((await from(forwarded)).status).toBe(403);
		expect((await from({ ...forwarded, "cf-connecting-ip": "198.51.100.1" })).status).toBe(403);
		expect((await from({ "cf-connecting-ip": "192.0.2.1" })).status).toBe(200);
	});

	test("no host that a request claims gets into a link where the address of the service is configured", async () => {
		const world = await createWorld({ config: { PUBLIC_URL: "https://updates.example.com" } });
		const app = await createTestApp(world);
		const evil = "evil.example.net";
		const answer = await world.request("POST", `https://${evil}/bundle`, {
			key: world.adminKey,
			body: { app_id: app.appId, version: "1.5.0" },
			headers: { "x-forwarded-host": evil, "x-forwarded-proto": "http", "x-host": evil, forwarded: `host=${evil}` },
		});
		expect(answer.status).toBe(201);
		expect(JSON.stringify(answer.body)).not.toContain(evil);
		expect(answer.body.upload_url).toMatch(/^https:\/\/updates\.example\.com\//);
		const unconfigured = await ours.world.request("POST", "/bundle", {
			key: ours.world.adminKey,
			body: { app_id: ours.app.appId, version: "5.0.0" },
			headers: { "x-forwarded-host": evil, "x-forwarded-proto": "http", forwarded: `host=${evil}` },
		});
		expect(JSON.stringify(unconfigured.body)).not.toContain(evil);
	});
});

/** Whether the endpoint is a list of pages. */
const isPaged = ({ method, query }: AnyEndpoint) =>
	method === "GET" && query !== undefined && "entries" in query && Object.hasOwn(query.entries as object, "page");

describe("injection by paging parameters", () => {
	let ours: Tenant;
	let theirs: Tenant;
	beforeAll(async () => {
		ours = await createTenant();
		theirs = await createTenant("1.6.6");
	});
	const lists = (): readonly (readonly [string, Record<string, string>])[] => [
		["/app", {}],
		["/apikey", {}],
		["/organization", {}],
		["/organization/members", { orgId: ours.world.orgId }],
		["/channel", { app_id: ours.app.appId }],
		["/bundle", { app_id: ours.app.appId }],
	];

	test("a page is a whole number from 0, and nothing more can be said with it", async () => {
		const { world } = ours;
		const before = await databaseText();
		const paged = new Set<string>(allEndpoints.filter(isPaged).map(({ path }) => path));
		expect(paged.size).toBeGreaterThanOrEqual(5);
		const bad = ["-1", "1.5", "1e1", "0x1", "", " 1", "1;drop table apps", "0 union select key_hash from api_keys"];
		for (const [path, query] of lists()) {
			const first = await world.request("GET", path, { key: world.adminKey, query });
			const same = await world.request("GET", path, { key: world.adminKey, query: { ...query, page: "0" } });
			expect(same.body, path).toEqual(first.body);
			if (!paged.has(path)) continue;
			for (const page of [...bad, "1--", "'1'", "٣", "NaN", "9".repeat(40)]) {
				const answer = await world.request("GET", path, { key: world.adminKey, query: { ...query, page } });
				expect(answer.status, `${path}?page=${page}: ${JSON.stringify(answer.body)}`).toBe(400);
			}
		}
		expect(await databaseText()).toBe(before);
	});

	test("limits, orders, offsets, selections and operators are not known, and change no answer", async () => {
		const { world } = ours;
		const tricks: Record<string, string> = {
			limit: "1000",
			offset: "-50",
			order: "key_hash.desc",
			select: "*,api_keys(*)",
			or: `(owner_org.eq.${theirs.world.orgId})`,
			and: "(1.eq.1)",
			"owner_org.eq": theirs.world.orgId,
			"app_id[]": theirs.app.appId,
			"app_id[neq]": "x",
			sort: "1;drop table apps",
			range: "0-1000",
		};
		for (const [path, query] of lists()) {
			const plain = await world.request("GET", path, { key: world.adminKey, query });
			for (const [name, value] of Object.entries(tricks)) {
				const answer = await world.request("GET", path, { key: world.adminKey, query: { ...query, [name]: value } });
				expect([answer.status, answer.body], `${path}?${name}=${value}`).toEqual([plain.status, plain.body]);
			}
			const range = { range: "items=0-1000", prefer: "count=exact" };
			const answer = await world.request("GET", path, { key: world.adminKey, query, headers: range });
			expect(answer.body, `${path} with headers`).toEqual(plain.body);
		}
	});

	test("an id is a text to compare with, in every place that takes one", async () => {
		const { world } = ours;
		const injections = [
			"' or '1'='1",
			`${theirs.app.appId}' --`,
			"%",
			"com.example.%",
			"*",
			`x"); drop table apps; --`,
		];
		await expectRefused(
			world,
			world.adminKey,
			injections.flatMap((text): Request[] => [
				{ method: "GET", path: `/app/${encodeURIComponent(text)}` },
				{ method: "GET", path: "/channel", query: { app_id: text } },
				{ method: "GET", path: `/apikey/${encodeURIComponent(text)}` },
				{ method: "GET", path: "/organization", query: { orgId: text } },
				{ method: "DELETE", path: "/channel", query: { app_id: ours.app.appId, channel: text } },
				{ method: "DELETE", path: "/bundle", query: { app_id: ours.app.appId, version: text } },
			]),
			[400, 404],
		);
	});

	test("no operator of the stock CLI's filters is a query: what is not the one known shape is refused", async () => {
		const { world } = ours;
		const eq = { app_id: `eq.${ours.app.appId}` };
		const of = (table: string, query: Record<string, string>): Request => ({
			method: "GET",
			path: `${REST}/${table}`,
			query,
		});
		const theirId = theirs.app.appId;
		const known = await world.request("GET", `${REST}/channels`, {
			key: world.adminKey,
			query: { select: "id,version", ...eq },
		});
		expect(known.status, "the control").toBe(200);
		await expectRefused(
			world,
			world.adminKey,
			[
				of("channels", { select: "id,version", app_id: "neq.x" }),
				of("channels", { select: "id,version", app_id: "like.*" }),
				of("channels", { select: "id,version", app_id: `in.(${ours.app.appId},${theirId})` }),
				of("channels", { select: "id,version", app_id: `not.eq.${theirId}` }),
				of("channels", { select: "id,version", app_id: `eq.${theirId}` }),
				of("channels", { select: "id,version", ...eq, or: `(app_id.eq.${theirId})` }),
				of("channels", { select: "id,version", ...eq, limit: "1000", offset: "0" }),
				of("channels", { select: "id,version,apps(*)", ...eq }),
				of("channels", { select: "id,version,owner_org", ...eq }),
				of("app_versions", { select: "*", ...eq }),
				of("app_versions", { select: "name,session_key", ...eq, order: "created_at.desc", limit: "1" }),
				of("apps", { select: "*", ...eq }),
				of("orgs", { select: "*", id: `eq.${ours.world.orgId}` }),
				of("orgs", { select: "name,enforcing_2fa", id: `neq.${ours.world.orgId}` }),
				of("apikeys", { select: "*" }),
			],
			[400, 404],
		);
	});
});
