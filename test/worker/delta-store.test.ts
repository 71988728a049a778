/**
 * The delta store between keys of different trust: what a preview key stores is used in its own bundles and nowhere else, while it may
 * use what trusted keys stored.
 */
import { beforeAll, expect, test } from "vitest";
import {
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	type TestApp,
	type TestKey,
	type World,
} from "./support/world";

let world: World;
let app: TestApp;
let ci: TestKey;
let otherCi: TestKey;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	ci = await createTestKey(world, "app_preview", app);
	otherCi = await createTestKey(world, "app_preview", app);
});

const pathOf = (name: string) => `orgs/${world.orgId}/apps/${app.appId}/delta/abc_${name}`;
const exists = async (key: string, name: string) =>
	(await world.request("GET", `/files/read/attachments/${pathOf(name)}`, { key })).status;

async function store(key: string, name: string, content: string): Promise<void> {
	const tus = { "tus-resumable": "1.0.0" };
	const { headers, status } = await world.request("POST", "/files/upload/attachments", {
		key,
		headers: { ...tus, "upload-length": String(content.length), "upload-metadata": `filename ${btoa(pathOf(name))}` },
	});
	expect(status).toBe(201);
	const sent = await world.request("PATCH", new URL(headers.get("location") ?? "").pathname, {
		key,
		headers: { ...tus, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
		rawBody: content,
	});
	expect(sent.status).toBe(204);
}

/** Uploads a bundle that is a manifest of this one file, and the bytes that a device then gets. */
async function servedThrough(key: string, version: string, name: string): Promise<string> {
	const app_id = app.appId;
	await world.request("POST", "/bundle", { key, body: { app_id, version } });
	const manifest = [{ file_name: "index.html", s3_path: pathOf(name), file_hash: "abc" }];
	expect(
		(await world.request("POST", "/private/set_manifest", { key, body: { app_id, name: version, manifest } })).status,
	).toBe(200);
	expect(
		(await world.request("POST", "/private/finalize_bundle_upload", { key, body: { app_id, name: version } })).status,
	).toBe(200);
	const channel = `channel-${version}`;
	await setTestChannel(world, app, channel, { version, allow_device_self_set: true }, key);
	const answer = await world.request("POST", "/updates", {
		body: {
			app_id,
			device_id: crypto.randomUUID(),
			version_name: "builtin",
			version_build: "1.0.0",
			platform: "android",
			plugin_version: "8.51.23",
			defaultChannel: channel,
		},
	});
	expect(answer.body.version, JSON.stringify(answer.body)).toBe(version);
	return new TextDecoder().decode((await world.request("GET", answer.body.manifest[0].download_url)).body);
}

test("a file that a preview key stores is found by that key alone", async () => {
	await store(ci.text, "own.js", "own");
	expect(await exists(ci.text, "own.js")).toBe(200);
	expect(await exists(otherCi.text, "own.js")).toBe(404);
	expect(await exists(world.adminKey, "own.js")).toBe(404);
});

test("a file is looked for in the app that its path names, and in no other of the organization", async () => {
	await store(world.adminKey, "placed.js", "placed");
	const at = (orgId: string, appId: string) =>
		world.request("GET", `/files/read/attachments/orgs/${orgId}/apps/${appId}/delta/abc_placed.js`, {
			key: world.adminKey,
		});
	expect((await at(world.orgId, app.appId)).status).toBe(200);
	const hidden = { status: 404, body: { error: "app_not_found" } };
	expect(await at((await createWorld()).orgId, app.appId)).toMatchObject(hidden);
	expect(await at(world.orgId, "com.example.absent")).toMatchObject(hidden);
	expect(await at(world.orgId, (await createTestApp(world)).appId)).toMatchObject({ body: { error: "not_found" } });
});

test("a file that a trusted key stores is found by all keys of the app", async () => {
	await store(world.adminKey, "shared.js", "shared");
	expect(await exists(ci.text, "shared.js")).toBe(200);
	expect(await servedThrough(ci.text, "1.0.1", "shared.js")).toBe("shared");
});

test("wrong bytes that a preview key stored first never reach a device through another key's bundle", async () => {
	await store(ci.text, "app.js", "poison");
	await store(world.adminKey, "app.js", "right");
	expect(await servedThrough(world.adminKey, "1.0.2", "app.js")).toBe("right");
	expect(await servedThrough(ci.text, "1.0.3", "app.js")).toBe("poison");
});

test("a manifest that names a file which the key does not find is refused and says which", async () => {
	await store(ci.text, "hidden.js", "hidden");
	await world.request("POST", "/bundle", { key: otherCi.text, body: { app_id: app.appId, version: "1.0.4" } });
	const refused = await world.request("POST", "/private/set_manifest", {
		key: otherCi.text,
		body: {
			app_id: app.appId,
			name: "1.0.4",
			manifest: [{ file_name: "index.html", s3_path: pathOf("hidden.js"), file_hash: "abc" }],
		},
	});
	expect(refused).toMatchObject({
		status: 400,
		body: { error: "missing_delta_files", moreInfo: { files: [pathOf("hidden.js")] } },
	});
});

test("during the overlap of a regenerated key its old secret finds the key's own files, and no longer", async () => {
	const key = await createTestKey(world, "app_preview", app);
	await store(key.text, "rotated.js", "rotated");
	const { body, status } = await world.request("PUT", `/apikey/${key.id}`, {
		key: world.adminKey,
		body: { regenerate: true, overlap_seconds: 3600 },
	});
	expect(status).toBe(200);
	expect(await exists(body.key, "rotated.js")).toBe(200);
	expect(await exists(key.text, "rotated.js")).toBe(200);
	expect(await servedThrough(key.text, "1.0.5", "rotated.js")).toBe("rotated");
	expect(await exists(otherCi.text, "rotated.js")).toBe(404);
});
