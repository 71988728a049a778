/** An app with two preview keys, and previews as CI creates them through channels. */
import { beforeAll, expect } from "vitest";
import {
	createTestApp,
	createTestKey,
	createWorld,
	type TestApp,
	type TestKey,
	uploadTestBundle,
	type World,
} from "./world";

export let world: World;
export let app: TestApp;
export let ci: TestKey;
export let otherCi: TestKey;

/** Prepares the scene for the tests of a file. */
export function preparePreviewScene(): void {
	beforeAll(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		ci = await createTestKey(world, "app_preview", app);
		otherCi = await createTestKey(world, "app_preview", app);
	});
}

export const createChannel = (key: string, channel: string, fields: Record<string, unknown> = {}) =>
	world.request("POST", "/channel", { key, body: { app_id: app.appId, channel, ...fields } });

export const showChannel = (channel: string) =>
	world.request("GET", "/channel", { key: world.adminKey, query: { app_id: app.appId, channel } });

export const promote = (key: string, versionId: number, channelId: number) =>
	world.request("PUT", "/bundle", {
		key,
		body: { app_id: app.appId, version_id: versionId, channel_id: channelId },
	});

export const cleanUp = (key: string, channel: string) =>
	world.request("DELETE", "/channel", { key, query: { app_id: app.appId, channel, delete_bundle: "true" } });

export const showBundle = async (version: string) =>
	(await world.request("GET", "/bundle", { key: world.adminKey, query: { app_id: app.appId, version } })).body;

/** A preview as CI creates it: a channel, a bundle, the promotion. */
export async function makePreview(key: TestKey, name: string) {
	const version = `1.0.0-${name}`;
	const channel = `pr-${name}`;
	const channelId = (await createChannel(key.text, channel)).body.id as number;
	const bundleId = await uploadTestBundle(world, app, version, key.text);
	const promoted = await promote(key.text, bundleId, channelId);
	expect(promoted.status).toBe(200);
	return { channel, version, channelId, bundleId };
}
