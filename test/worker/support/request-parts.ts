/**
 * Parts of the requests of the authorization tests: their shape, names that nothing else has, and
 * the bundles, channels and previews that they are about. They are created with the keys in
 * `creators`, because some endpoints are for the creator alone.
 */
import { type RequestOptions, type Scene, setTestChannel, type TestApp, uploadTestBundle } from "./scene";

export interface PreparedRequest extends Omit<RequestOptions, "key"> {
	/** The path with its parameters filled in. */
	readonly path: string;
	/** The target of the request, unless that is the whole app or organization. */
	readonly thing?: Thing;
}

/** Something that can be deleted. */
export interface Thing {
	/** How the request names it. */
	readonly name: string | number;
	/** The request by which an administrator deletes it. */
	readonly removal: Omit<RequestOptions, "key"> & { readonly method: string; readonly path: string };
}

/** The keys that create the bundles and files, and the channels, that a request is about. */
interface Creators {
	readonly bundle: string;
	readonly channel: string;
}

/** Without creators the administrator creates everything. */
export type Prepare = (world: Scene, app: TestApp, creators?: Creators) => Promise<PreparedRequest>;

export const byAdmin = (world: Scene): Creators => ({ bundle: world.adminKey, channel: world.adminKey });

let counter = 0;

export const fresh = (name: string) => `${name}-${++counter}`;

export const freshVersion = () => `1.0.${++counter}`;

export const nextNumber = () => ++counter;

export const channelThing = (app: TestApp, name: string | number, channel = String(name)): Thing => ({
	name,
	removal: { method: "DELETE", path: "/channel", query: { app_id: app.appId, channel } },
});

export const bundleThing = (app: TestApp, name: string | number, version = String(name)): Thing => ({
	name,
	removal: { method: "DELETE", path: "/bundle", query: { app_id: app.appId, version } },
});

export const tusHeaders = (world: Scene, app: TestApp, version: string, length: number) => ({
	"tus-resumable": "1.0.0",
	"upload-length": String(length),
	"upload-metadata": `filename ${btoa(`orgs/${world.orgId}/apps/${app.appId}/${version}.zip`)}`,
});

export async function registered(world: Scene, app: TestApp, creators = byAdmin(world)): Promise<string> {
	const version = freshVersion();
	const { status, body } = await world.request("POST", "/bundle", {
		key: creators.bundle,
		body: { app_id: app.appId, version },
	});
	if (status !== 201) throw new Error(`bundle not registered: ${JSON.stringify(body)}`);
	return version;
}

export async function uploaded(
	world: Scene,
	app: TestApp,
	creators = byAdmin(world),
): Promise<{ id: number; version: string }> {
	const version = freshVersion();
	return { id: await uploadTestBundle(world, app, version, creators.bundle), version };
}

export async function madeChannel(
	world: Scene,
	app: TestApp,
	name: string,
	creators = byAdmin(world),
): Promise<number> {
	return setTestChannel(world, app, name, {}, creators.channel);
}

/** The number of an open preview. */
export async function openedPreview(
	world: Scene,
	app: TestApp,
	creators = byAdmin(world),
): Promise<{ readonly number: string; readonly channel: string }> {
	const number = ++counter;
	const { status, body } = await world.request("POST", "/preview", {
		key: creators.channel,
		body: { app_id: app.appId, repository: "acme/shop", number },
	});
	if (status !== 201) throw new Error("preview not opened");
	return { number: String(number), channel: body.channel };
}

export async function previewHook(
	world: Scene,
	app: TestApp,
	provider = "github",
): Promise<{ id: string; secret: string }> {
	const body = { app_id: app.appId, provider };
	const { status, body: created } = await world.request("POST", "/preview/hook", { key: world.adminKey, body });
	if (status !== 201) throw new Error(`webhook not created: ${JSON.stringify(created)}`);
	return created;
}

/** Fields of an update check that the app's public channel has a bundle for. */
export async function deviceOf(world: Scene, app: TestApp) {
	const { version } = await uploaded(world, app);
	await setTestChannel(world, app, fresh("production"), { version, public: true });
	return {
		app_id: app.appId,
		device_id: crypto.randomUUID(),
		version_name: "builtin",
		version_build: "1.0.0",
		platform: "android",
		plugin_version: "8.51.23",
		is_emulator: false,
		is_prod: true,
	};
}

export const registeredProcedure =
	(path: string): Prepare =>
	async (world, app, creators) => {
		const name = await registered(world, app, creators);
		return { path, body: { app_id: app.appId, name }, thing: bundleThing(app, name) };
	};
