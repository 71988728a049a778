/**
 * An app with a public channel that one organization offers to another one, and the requests of
 * both. All state belongs to the running test.
 */
import { expect } from "vitest";
import { query } from "../../../src/db/client";
import { DAY_MS } from "../../../src/domain/time";
import { purgeOrganizations } from "../../../src/features/organizations/purge";
import { rows } from "../support/bytes";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
	type World,
} from "../support/world";

export let giver: World;
export let receiver: World;
export let app: TestApp;

/** For `beforeEach`. */
export async function prepareTransfer(): Promise<void> {
	giver = await createWorld();
	receiver = await createWorld();
	app = await createTestApp(giver);
	await uploadTestBundle(giver, app, "1.0.1");
	await setTestChannel(giver, app, "production", { version: "1.0.1", public: true });
}

export const offer = (
	options: { key?: string; to?: string; dry_run?: boolean; through?: Pick<World, "request"> } = {},
) =>
	(options.through ?? giver).request("POST", "/app/transfer", {
		key: options.key ?? giver.adminKey,
		body: {
			app_id: app.appId,
			to_org: options.to ?? receiver.orgId,
			...(options.dry_run === undefined ? {} : { dry_run: options.dry_run }),
		},
	});
export const accept = (
	world = receiver,
	key = world.adminKey,
	more: object = {},
	through: Pick<World, "request"> = world,
) => through.request("POST", "/app/transfer/accept", { key, body: { app_id: app.appId, ...more } });
export const decline = (world = receiver) =>
	world.request("POST", "/app/transfer/decline", { key: world.adminKey, body: { app_id: app.appId } });
export const withdraw = (world = giver, key = world.adminKey) =>
	world.request("DELETE", "/app/transfer", { key, query: { app_id: app.appId } });
export const offers = (world: World, key = world.adminKey) =>
	world.request("GET", "/app/transfer", { key, query: { orgId: world.orgId } });
export const show = (world: World, key = world.adminKey) => world.request("GET", `/app/${app.appId}`, { key });
export const ownerOf = async () =>
	(await rows(query.selectFrom("apps").select("owner_org").where("id", "=", app.uuid)))[0]?.owner_org;
export const check = () =>
	receiver.request("POST", "/updates", {
		body: {
			app_id: app.appId,
			device_id: crypto.randomUUID(),
			platform: "android",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
		},
	});
export async function removeGiver(): Promise<void> {
	await giver.request("DELETE", "/organization", { key: giver.adminKey, query: { orgId: giver.orgId } });
	giver.clock.nowMs += 31 * DAY_MS;
	await purgeOrganizations(giver.deps);
	expect(await rows(query.selectFrom("organizations").select("id").where("id", "=", giver.orgId))).toEqual([]);
}
export const NOT_FOUND = { status: 404, body: { error: "transfer_not_found" } };
