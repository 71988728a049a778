/**
 * The scene of tests about update checks and reports: one app with bundles 1.0.1 and 1.0.2, and a
 * public channel that serves the first.
 */
import { createTestApp, createWorld, setTestChannel, type TestApp, uploadTestBundle, type World } from "./world";

export let world: World;
export let app: TestApp;

/** Creates the world and its app; for `beforeAll`. */
export async function prepareUpdates(): Promise<void> {
	world = await createWorld();
	app = await newApp();
}

/** Another app like it; `fields` are settings of its channel. */
export async function newApp(of = world, fields: Record<string, unknown> = {}): Promise<TestApp> {
	const made = await createTestApp(of);
	await uploadTestBundle(of, made, "1.0.1");
	await uploadTestBundle(of, made, "1.0.2");
	await setTestChannel(of, made, "production", { public: true, version: "1.0.1", ...fields });
	return made;
}

export const body = (fields: object = {}) => ({
	app_id: app.appId,
	device_id: crypto.randomUUID(),
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	...fields,
});
export const check = async (fields: object = {}, of = world) =>
	(await of.request("POST", "/updates", { body: body(fields) })).body;
