/**
 * An organization with a registered signing key, the key pair of its bundles and a key of CI:
 * uploads and promotions of signed and unsigned bundles.
 */
import { putBytes, register } from "./bytes";
import { createSigner, type Signer } from "./signing";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	type TestApp,
	type TestKey,
	type World,
	type WorldOptions,
} from "./world";
import { testBundle } from "./zip";

export let world: World;
export let app: TestApp;
export let ci: TestKey;
export let signer: Signer;
export let keyId: string;

export const admin = (method: "GET" | "POST" | "PUT" | "DELETE", path: string, options: object = {}) =>
	world.request(method, path, { key: world.adminKey, ...options });

export const registerKey = (publicKey: string, key = world.adminKey, name = "Release key") =>
	world.request("POST", "/organization/signing_key", {
		key,
		body: { orgId: world.orgId, name, public_key: publicKey },
	});

export const removeKey = (id: string, fields: object = {}) =>
	admin("DELETE", "/organization/signing_key", { query: { orgId: world.orgId, id, ...fields } });

export const requireSigned = (require_signed_bundles = true, fields: object = {}) =>
	admin("POST", "/organization", { body: { orgId: world.orgId, require_signed_bundles, ...fields } });

export async function prepareSigning(options: WorldOptions = {}): Promise<void> {
	world = await createWorld(options);
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_developer", app);
	signer ??= await createSigner();
	keyId = (await registerKey(signer.publicKey)).body.id;
}

/** The last answer of an upload with this content and these fields. */
export async function send(version: string, bytes: Uint8Array, fields: object): Promise<Answer> {
	const registered = await register(world, app, version, ci.text, { ...fields });
	return registered.status === 201 ? putBytes(world, registered.body.upload_url, bytes) : registered;
}

export async function sendSigned(version: string, by = signer, zip = testBundle(version)): Promise<Answer> {
	const { bytes, fields } = await by.encrypt(zip);
	return send(version, bytes, fields);
}

/** A check of a device that runs the store build. */
export const device = (fields: object = {}) => ({
	app_id: app.appId,
	device_id: crypto.randomUUID(),
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	...fields,
});
/** The version that such a device is offered. */
export const served = async () => (await world.request("POST", "/updates", { body: device() })).body.version;

/** A promotion that is refused at first reads the bundles and is repeated. */
export const promote = (version: string, channel = "production", fields: object = {}, mostTrips = 4) =>
	world.request("POST", "/channel", {
		mostTrips,
		key: ci.text,
		body: { app_id: app.appId, channel, version, ...fields },
	});

export const bundle = async (version: string) =>
	(await admin("GET", "/bundle", { query: { app_id: app.appId, version } })).body[0];

export const refused = (status: number, error: string, reason?: string) => ({
	status,
	body: { error, ...(reason === undefined ? {} : { moreInfo: { reason } }) },
});
