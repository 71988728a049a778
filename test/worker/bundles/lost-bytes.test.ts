/**
 * A bundle whose object the bucket lost: devices get 410, the operator sees it, and the same bytes
 * can be stored again.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { query } from "../../../src/db/client";
import { downloadUrl, rows } from "../support/bytes";
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

let world: World;
let app: TestApp;
let key: string;
let url: string;
const bytes = bundleOf(500, 3);
const VERSION = "1.0.0";

const registerAgain = async (checksum?: string) =>
	world.request("POST", "/bundle", {
		key: world.adminKey,
		body: { app_id: app.appId, version: VERSION, ...(checksum === undefined ? {} : { checksum }) },
	});
const put = (uploadUrl: string, body: Uint8Array) =>
	world.request("PUT", uploadUrl.replace(/^https?:\/\/[^/]*/, ""), {
		rawBody: body,
		headers: { "content-length": String(body.length) },
	});
const status = async () => (await world.request("GET", "/service/status", { key: world.adminKey })).body;

beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
	const id = await uploadTestBundle(world, app, VERSION, world.adminKey, bytes);
	await setTestChannel(world, app, "production", { version: VERSION });
	const [row] = await rows(query.selectFrom("bundles").selectAll().where("id", "=", id));
	key = row?.object_key ?? "";
	url = await downloadUrl(world, key);
});

describe("a live bundle without its bytes", () => {
	test("keeps its version while the bytes are there", async () => {
		expect(await registerAgain(await sha256Hex(bytes))).toMatchObject({
			status: 409,
			body: { error: "bundle_already_exists" },
		});
	});

	test("answers devices with 410, for good", async () => {
		await testEnv.BUNDLES.delete(key);
		for (const headers of [{}, { range: "bytes=0-1" }]) {
			const answer = await world.request("GET", url, { headers });
			expect(answer).toMatchObject({ status: 410, body: { error: "bytes_lost" } });
			expect(answer.headers.get("retry-after")).toBeNull();
		}
		expect((await world.request("HEAD", url)).status).toBe(410);
	});

	test("is named to the operator", async () => {
		expect((await status()).live_bundles.lost).toContain(`${app.appId} ${VERSION}`);
	});

	test("takes the same bytes again, and no others", async () => {
		expect((await registerAgain()).status).toBe(409);
		expect((await registerAgain(await sha256Hex(bundleOf(500, 4)))).status).toBe(409);
		const again = await registerAgain(await sha256Hex(bytes));
		expect(again).toMatchObject({ status: 201, body: { name: VERSION } });
		expect(await put(again.body.upload_url, bundleOf(500, 4))).toMatchObject({ status: 409 });
		expect((await world.request("GET", url)).status).toBe(410);
		expect((await put(again.body.upload_url, bytes)).status).toBe(200);
		expect((await put(again.body.upload_url, bytes)).status).toBe(200);
		expect((await world.request("GET", url)).status).toBe(200);
		expect((await status()).live_bundles.lost).not.toContain(`${app.appId} ${VERSION}`);
		expect((await registerAgain(await sha256Hex(bytes))).status).toBe(409);
	});
});
