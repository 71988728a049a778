/**
 * Download links to an R2 custom domain (`BUNDLES_URL`). The domain serves each object at its key
 * as it is stored, so what a device gets there is read from the bucket and compared with what the
 * Worker sends.
 */
import { brotliCompressSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config";
import { locationOf, tusCreate, tusPatch } from "../support/bytes";
import {
	createTestApp,
	createWorld,
	setTestChannel,
	sha256Hex,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "../support/world";
import { bundleOf } from "../support/zip";

const BUNDLES = "https://bundles.example.com";
const zip = bundleOf(1000);
const script = Uint8Array.from(brotliCompressSync("CapacitorUpdater.notifyAppReady();".repeat(100)));
const FILES = { "index.html": new TextEncoder().encode("<h1>Hello</h1>"), "app.js.br": script } as const;

let direct: World;
let app: TestApp;
/** The same service without the setting. */
let signed: World;

const check = async ({ request }: World, fields: object = {}) =>
	(
		await request<{ url: string; manifest?: { file_name: string; download_url: string }[] }>("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				version_name: "builtin",
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				...fields,
			},
		})
	).body;

/** The answer of the custom domain. */
async function atDomain(url: string) {
	const { origin, pathname, search } = new URL(url);
	const object = await testEnv.BUNDLES.get(pathname.slice(1));
	const bytes = new Uint8Array((await object?.arrayBuffer()) ?? new ArrayBuffer(0));
	const type = object?.httpMetadata?.contentType;
	return { origin, search, type, encoding: object?.httpMetadata?.contentEncoding, sha256: await sha256Hex(bytes) };
}

beforeAll(async () => {
	direct = await createWorld({ config: { BUNDLES_URL: BUNDLES } });
	signed = await createWorld();
	app = await createTestApp(direct);
	const id = await uploadTestBundle(direct, app, "1.0.1", direct.adminKey, zip);
	for (const [name, bytes] of Object.entries(FILES)) {
		const path = `orgs/${direct.orgId}/apps/${app.appId}/delta/${name}`;
		const location = locationOf(await tusCreate(direct, direct.adminKey, path, bytes.length));
		expect((await tusPatch(direct, direct.adminKey, location, 0, bytes)).status).toBe(204);
		await testEnv.DB.prepare(
			`INSERT INTO bundle_files (bundle_id, app_id, file_name, file_hash, path)
				SELECT ?, app_id, ?, 'abc', path FROM delta_objects WHERE app_id = ? AND path LIKE ?`,
		)
			.bind(id, name, app.uuid, `%${name}`)
			.run();
	}
	await setTestChannel(direct, app, "production", { public: true, version: "1.0.1" });
});

describe("with BUNDLES_URL", () => {
	test("the zip of a check is at the domain, as uploaded, without a signature", async () => {
		// The second check is answered from memory.
		for (const url of [(await check(direct)).url, (await check(direct)).url]) {
			expect(await atDomain(url)).toEqual({
				origin: BUNDLES,
				search: "",
				type: "application/zip",
				encoding: undefined,
				sha256: await sha256Hex(zip),
			});
		}
	});

	test("the domain serves each file of a manifest with the bytes and the type that the Worker sends", async () => {
		const { manifest = [] } = await check(direct);
		const { manifest: ofWorker = [] } = await check(signed);
		expect(manifest.map(({ file_name }) => file_name)).toEqual(["app.js.br", "index.html"]);
		for (const [index, { file_name, download_url }] of manifest.entries()) {
			const sent = await signed.request<ArrayBuffer>("GET", ofWorker[index]?.download_url ?? "");
			expect(sent.status).toBe(200);
			expect(await atDomain(download_url)).toEqual({
				origin: BUNDLES,
				search: "",
				encoding: undefined,
				type: sent.headers.get("content-type"),
				sha256: await sha256Hex(new Uint8Array(sent.body)),
			});
			expect(await sha256Hex(new Uint8Array(sent.body))).toBe(await sha256Hex(FILES[file_name as keyof typeof FILES]));
		}
	});

	test("links from before the setting was changed are served by the Worker", async () => {
		const { url } = await check(signed);
		expect(new URL(url).pathname).toMatch(/^\/files\/download\//);
		expect((await direct.request("GET", url)).status).toBe(200);
	});
});

describe("BUNDLES_URL", () => {
	const parsed = (variables: Record<string, string>) =>
		parseConfig({ CAPSTAN_SECRET: "5e".repeat(32), ...variables }).bundlesUrl;

	test("is an origin, or empty", () => {
		expect(parsed({})).toBeUndefined();
		expect(parsed({ BUNDLES_URL: "" })).toBeUndefined();
		expect(parsed({ BUNDLES_URL: `${BUNDLES}/` })).toBe(BUNDLES);
	});

	test.each(["bundles.example.com", "http://bundles.example.com", `${BUNDLES}/files`, `${BUNDLES}/?a=b`, "https://"])(
		"%s is refused, with the name of the variable",
		(text) => expect(() => parsed({ BUNDLES_URL: text })).toThrow(/BUNDLES_URL must be the https address/),
	);

	test("is refused if it is the address of the Worker", () => {
		expect(() => parsed({ BUNDLES_URL: BUNDLES, PUBLIC_URL: BUNDLES })).toThrow("another address than PUBLIC_URL");
	});
});
