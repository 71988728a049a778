/**
 * Attacks on isolation that were published against services of this kind, each as a case of its
 * name: another organization's things by their ids, names taken over, a small key in a large place,
 * policies passed by a side door, headers and parameters that pretend. The matrix
 * (isolation-matrix.test.ts) holds for every endpoint; these are the combinations that no single
 * request shows.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { createTenant, expectRefused, REST, type Request, type Tenant } from "../support/isolation-scene";
import { createTestKey, type RequestOptions, setTestChannel, type TestApp, type World } from "../support/world";

/** The version that a fresh device of the app is given; undefined when it is given none. */
async function served(world: World, app: TestApp, defaultChannel = ""): Promise<string | undefined> {
	const { version, url } = await update(world, app, defaultChannel);
	return url === undefined ? undefined : version;
}

async function update(world: World, app: TestApp, defaultChannel = ""): Promise<Record<string, string>> {
	const { body } = await world.as()("POST /updates", {
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

	test("ids of another organization's bundles and channels are refused beside the caller's app", async () => {
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
		const promoted = await world.admin("PUT /bundle", {
			body: { app_id, version_id: bundleId, channel_id: channelId },
		});
		expect(promoted.status, "the control: one's own ids do").toBe(200);
	});

	test("a key gets no binding in another organization, for any organization in the request", async () => {
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
		const stored = await theirs.world.admin("POST /files/upload/attachments", { headers: create(theirFile).headers });
		expect(stored.status).toBe(201);
		const upload = new URL(stored.headers.get("location") ?? "").pathname;
		await world.admin("POST /bundle", { body: { app_id: app.appId, version: "2.0.0" } });
		const manifest = (s3_path: string) => ({
			method: "POST",
			path: "/private/set_manifest",
			body: {
				app_id: app.appId,
				name: "2.0.0",
				manifest: [{ file_name: "a.js", s3_path, file_hash: "ab".repeat(32) }],
			},
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

	test("a device gets no bundle of another app, for any channel", async () => {
		await setTestChannel(theirs.world, theirs.app, "theirs-alone", { version: "1.6.6" });
		expect(await served(ours.world, ours.app, "theirs-alone")).toBe("1.5.0");
	});
});

describe("name-collision take-over", () => {
	test("an app id belongs to its owner, and another organization learns only that it is taken", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const { world } = ours;
		const body = { app_id: theirs.app.appId, name: "mine now", owner_org: world.orgId };
		const [answer] = await expectRefused(world, world.adminKey, [{ method: "POST", path: "/app", body }], [409]);
		const text = JSON.stringify(answer?.body);
		for (const trace of [theirs.world.orgId, theirs.world.userId, theirs.app.uuid]) expect(text).not.toContain(trace);
		expect(await served(theirs.world, theirs.app)).toBe("1.5.0");
	});

	test("channels and bundles of the same name in two apps are separate", async () => {
		const [ours, theirs] = [await createTenant(), await createTenant()];
		const { world, app } = ours;
		const request = async (method: string, path: string, options: RequestOptions) => {
			const answer = await world.request(method, path, { key: world.adminKey, ...options });
			expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
		};
		const before = await theirs.world.admin("GET /channel", { query: { app_id: theirs.app.appId } });
		await request("POST", "/channel", { body: { app_id: app.appId, channel: "production", public: false } });
		await request("DELETE", "/channel", { query: { app_id: app.appId, channel: "production" } });
		await request("DELETE", "/bundle", { query: { app_id: app.appId, version: "1.5.0" } });
		const after = await theirs.world.admin("GET /channel", { query: { app_id: theirs.app.appId } });
		expect(after.body).toEqual(before.body);
		expect(await served(theirs.world, theirs.app)).toBe("1.5.0");
	});

	test("an id registered again by another organization has no old data and grants old keys nothing", async () => {
		const [before, after] = [await createTenant(), await createTenant()];
		const { app } = before;
		const oldKeys = [
			before.world.adminKey,
			(await createTestKey(before.world, "app_admin", app)).text,
			(await createTestKey(before.world, "app_preview", app)).text,
		];
		const oldDownload = (await update(before.world, app)).url ?? "";
		expect((await before.world.request("GET", oldDownload)).status).toBe(200);
		const pending = await before.world.admin("POST /bundle", { body: { app_id: app.appId, version: "3.0.0" } });
		const file = `orgs/${before.world.orgId}/apps/${app.appId}/delta/old`;
		const stored = await before.world.admin("POST /files/upload/attachments", {
			headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(file)}` },
		});
		expect(stored.status).toBe(201);
		await before.world.admin("DELETE /app/:app_id", { params: { app_id: app.appId } });
		await before.world.admin("DELETE /app/reservation", { query: { app_id: app.appId } });

		const { world } = after;
		const made = await world.admin("POST /app", {
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
		expect((await world.admin("POST /bundle", { body: again })).status).toBe(201);

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
		const bundles = await world.admin("GET /bundle", { query: { app_id: app.appId } });
		expect(bundles.body.map((bundle: { name: string }) => bundle.name)).not.toContain("3.0.0");
	});
});
