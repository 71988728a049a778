/**
 * The delta store between keys of different trust: files of a preview key are used only in its own
 * bundles, while it may use shared files.
 */
import { brotliCompressSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { locationOf, patterned, tusCreate, tusPatch } from "../support/bytes";
import { violations } from "../support/invariants";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	setTestChannel,
	sha256Hex,
	type TestApp,
	type TestKey,
	type World,
} from "../support/world";

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

/** The hash in the path of a file, by file name, as the stock CLI computes it. */
const hashes = new Map<string, string>();
const pathOf = (name: string) => `orgs/${world.orgId}/apps/${app.appId}/delta/${hashes.get(name) ?? "abc"}_${name}`;
async function hashPath(name: string, content: string): Promise<void> {
	const text = new TextEncoder();
	hashes.set(name, await sha256Hex(text.encode(await sha256Hex(text.encode(content)))));
}
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

/**
 * Uploads a bundle with a manifest of this one file.
 * @returns the bytes that a device then gets
 */
async function servedThrough(key: string, version: string, name: string): Promise<string> {
	const app_id = app.appId;
	await world.request("POST", "/bundle", { key, body: { app_id, version } });
	const manifest = [{ file_name: "index.html", s3_path: pathOf(name), file_hash: "ab".repeat(32) }];
	expect(
		(await world.request("POST", "/private/set_manifest", { key, body: { app_id, name: version, manifest } })).status,
	).toBe(200);
	expect(
		(await world.request("POST", "/private/finalize_bundle_upload", { key, body: { app_id, name: version } })).status,
	).toBe(200);
	const channel = `pr-${version}`;
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

test("a file of a preview key is visible only to that key", async () => {
	await store(ci.text, "own.js", "own");
	expect(await exists(ci.text, "own.js")).toBe(200);
	expect(await exists(otherCi.text, "own.js")).toBe(404);
	expect(await exists(world.adminKey, "own.js")).toBe(404);
});

test("a lookup finds a file only in the app of its path", async () => {
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

test("a file of an uploader key is visible to all keys of the app", async () => {
	await hashPath("shared.js", "shared");
	await store(world.adminKey, "shared.js", "shared");
	expect(await exists(ci.text, "shared.js")).toBe(200);
	expect(await servedThrough(ci.text, "1.0.1", "shared.js")).toBe("shared");
});

test("wrong bytes of a preview key never reach a device through another key's bundle", async () => {
	await store(ci.text, "app.js", "poison");
	await store(world.adminKey, "app.js", "right");
	expect(await servedThrough(world.adminKey, "1.0.2", "app.js")).toBe("right");
	expect(await servedThrough(ci.text, "1.0.3", "app.js")).toBe("poison");
});

test("a manifest with a missing file is refused with the path of that file", async () => {
	await store(ci.text, "hidden.js", "hidden");
	await world.request("POST", "/bundle", { key: otherCi.text, body: { app_id: app.appId, version: "1.0.4" } });
	const refused = await world.request("POST", "/private/set_manifest", {
		key: otherCi.text,
		body: {
			app_id: app.appId,
			name: "1.0.4",
			manifest: [{ file_name: "index.html", s3_path: pathOf("hidden.js"), file_hash: "ab".repeat(32) }],
		},
	});
	expect(refused).toMatchObject({
		status: 400,
		body: { error: "missing_delta_files", moreInfo: { files: [pathOf("hidden.js")] } },
	});
});

test("the previous secret of a regenerated key finds the key's private files until it expires", async () => {
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

describe("a file whose path holds a hash", () => {
	const bytesOf = (text: string) => new TextEncoder().encode(text);
	const send = async (name: string, bytes: Uint8Array, key = world.adminKey): Promise<Answer> => {
		const created = await tusCreate(world, key, pathOf(name), bytes.length);
		return created.status === 201 && bytes.length > 0 ? tusPatch(world, key, locationOf(created), 0, bytes) : created;
	};
	const MISMATCH = { status: 422, body: { error: "delta_hash_mismatch" } };

	test("is refused with other bytes, and its path stays free for the right bytes", async () => {
		await hashPath("taken.js", "right");
		expect(await send("taken.js", bytesOf("wrong"))).toMatchObject(MISMATCH);
		expect(await exists(world.adminKey, "taken.js")).toBe(404);
		expect(await violations(app.uuid)).toEqual([]);
		expect((await send("taken.js", bytesOf("right"))).status).toBe(204);
		expect(await servedThrough(world.adminKey, "1.2.0", "taken.js")).toBe("right");
	});

	test("is refused if it is empty, unless its hash is that of an empty file", async () => {
		await hashPath("full.txt", "full");
		expect(await send("full.txt", new Uint8Array())).toMatchObject(MISMATCH);
		await hashPath("empty.txt", "");
		expect((await send("empty.txt", new Uint8Array())).status).toBe(201);
		expect(await exists(ci.text, "empty.txt")).toBe(200);
	});

	test("is unpacked before the check if its name ends with .br", async () => {
		const content = "CapacitorUpdater.notifyAppReady();".repeat(1000);
		await hashPath("big.js.br", content);
		const packed = Uint8Array.from(brotliCompressSync(content));
		expect(await send("big.js.br", bytesOf(content))).toMatchObject(MISMATCH);
		expect(await send("big.js.br", packed.slice(0, -4))).toMatchObject(MISMATCH);
		expect(await send("big.js.br", Uint8Array.from(brotliCompressSync(`${content} `)))).toMatchObject(MISMATCH);
		expect((await send("big.js.br", packed)).status).toBe(204);
	});

	test("is checked for preview keys, and after its segments are joined", async () => {
		const bytes = patterned(8 * 1024 * 1024 + 5);
		const text = new TextEncoder();
		hashes.set("large.bin", await sha256Hex(text.encode(await sha256Hex(bytes))));
		const altered = bytes.slice();
		altered[9_000_000 % altered.length] = 7;
		expect(await send("large.bin", altered, ci.text)).toMatchObject(MISMATCH);
		expect((await send("large.bin", bytes, ci.text)).status).toBe(204);
		expect(await violations(app.uuid)).toEqual([]);
	});

	test("is accepted under its own SHA-256, the path that older CLIs use", async () => {
		hashes.set("older.js", await sha256Hex(bytesOf("older")));
		expect(await send("older.js", bytesOf("younger"))).toMatchObject(MISMATCH);
		expect((await send("older.js", bytesOf("older"))).status).toBe(204);
	});
});

test("a file without a hash in its path is private to the key that stored it", async () => {
	const developers = [
		await createTestKey(world, "app_developer", app),
		await createTestKey(world, "app_developer", app),
	] as const;
	await store(developers[0].text, "sealed.js", "poison");
	await store(developers[1].text, "sealed.js", "right");
	expect(await servedThrough(developers[1].text, "1.2.1", "sealed.js")).toBe("right");
	expect(await exists(world.adminKey, "sealed.js")).toBe(404);
});
