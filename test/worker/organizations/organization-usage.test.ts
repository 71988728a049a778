/** GET /organization/usage: each quota of an organization and its apps with its limit and usage. */
import { describe, expect, test } from "vitest";
import { DEFAULT_QUOTAS } from "../../../src/domain/quotas";
import { register } from "../support/bytes";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	uploadTestBundle,
	type World,
} from "../support/world";
import { testBundle } from "../support/zip";

describe("GET /organization/usage", () => {
	const usage = (world: World, key = world.adminKey, orgId = world.orgId) =>
		world.as(key)("GET /organization/usage", { query: { orgId } });

	test("shows every quota of the organization and its apps with its usage", async () => {
		const world = await createWorld({ config: { QUOTAS: "channels_per_app=7, apps_per_organization=9" } });
		const [app, empty] = [await createTestApp(world), await createTestApp(world)];
		await uploadTestBundle(world, app, "1.0.0");
		await setTestChannel(world, app, "production");
		await register(world, app, "1.0.1", world.adminKey);
		const size = testBundle("1.0.0").length;
		const limits = DEFAULT_QUOTAS;
		expect(await usage(world)).toMatchObject({
			status: 200,
			trips: 1,
			body: {
				quotas: [
					{ name: "storage_bytes_per_organization", limit: limits.storage_bytes_per_organization, used: size },
					{ name: "apps_per_organization", limit: 9, used: 2 },
					{ name: "api_keys_per_organization", limit: limits.api_keys_per_organization, used: 1 },
					{ name: "invitations_per_organization", limit: limits.invitations_per_organization, used: 0 },
					{ name: "open_uploads_per_organization", limit: limits.open_uploads_per_organization, used: 1 },
				],
				apps: [
					{
						id: app.uuid,
						app_id: app.appId,
						storage_bytes: size,
						quotas: [
							{ name: "channels_per_app", limit: 7, used: 1 },
							{ name: "bundles_per_app", limit: limits.bundles_per_app, used: 2 },
							{ name: "open_uploads_per_app", limit: limits.open_uploads_per_app, used: 1 },
						],
					},
					{ id: empty.uuid, storage_bytes: 0 },
				],
				more: false,
			},
		});
	});

	test("is restricted to members of the organization", async () => {
		const [world, stranger] = [await createWorld(), await createWorld()];
		const member = await createTestKey(world, "org_member");
		expect((await usage(world, member.text)).status, "the control").toBe(200);
		expect(await usage(world, stranger.adminKey)).toMatchObject({ status: 404 });
		const reader = await createTestKey(world, "app_reader", await createTestApp(world));
		expect((await usage(world, reader.text)).status).toBeGreaterThanOrEqual(403);
	});
});
