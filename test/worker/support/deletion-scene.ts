/**
 * An organization with one app, to delete and to restore, and the check of one of its devices.
 */
import { query } from "../../../src/db/client";
import { bundleOf, run } from "./bytes";
import {
	createTestApp,
	createTestMember,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "./world";

export let world: World;
export let app: TestApp;

export async function prepareOrganization(): Promise<void> {
	// The clean-up would also purge organizations that other tests deleted.
	await run(query.deleteFrom("organizations").where("deleted_at_ms", "is not", null));
	world = await createWorld({ isOperator: false });
	app = await createTestApp(world);
}

export const remove = (key = world.adminKey, fields: Record<string, string> = {}, orgId = world.orgId) =>
	world.request("DELETE", "/organization", { key, query: { orgId, ...fields } });

export const restore = (key = world.adminKey, orgId = world.orgId, via: Pick<World, "request"> = world) =>
	via.request("POST", "/organization/restore", { key, body: { orgId } });

export const checkUpdate = (appId = app.appId) =>
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
export async function furnish(): Promise<void> {
	await uploadTestBundle(world, app, "1.0.1", world.adminKey, bundleOf(824));
	await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
	await uploadTestBundle(world, app, "1.1.0", world.adminKey, bundleOf(200));
	await createTestMember(world, "org_member");
	await world.request("POST", "/organization/members", {
		key: world.adminKey,
		body: { orgId: world.orgId, email: "pending@example.com", role: "org_member" },
	});
}
