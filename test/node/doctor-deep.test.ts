/**
 * `npm run doctor -- --deep` on a running product: rows and objects are compared in both
 * directions, and only old objects without a row are removed.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deepFindings, liveBundles } from "../../src/operator/doctor-bytes";
import type { Finding, Status } from "../../src/operator/doctor-types";
import type { LocalPlace } from "../../src/operator/local-place";
import { openState } from "../../src/operator/places";
import { createProductApp, type Product, startProduct, uploadProductBundle } from "./support/product";

const DAY_MS = 24 * 60 * 60 * 1000;
let product: Product;
let place: LocalPlace;
let app: string;
let keys: string[];

const deep = async (more: { repair?: boolean; afterDays?: number } = {}) => {
	const nowMs = () => Date.now() + (more.afterDays ?? 0) * DAY_MS;
	const findings = await deepFindings({ place, nowMs, repair: more.repair === true, onProgress: () => undefined });
	return Object.fromEntries(findings.map((one): [string, Finding] => [one.check, one]));
};

beforeAll(async () => {
	product = await startProduct({ unlimitedRequests: true });
	app = product.newAppId();
	await createProductApp(product, app);
	for (const version of ["1.0.0", "1.1.0", "1.2.0"]) await uploadProductBundle(product, app, version);
	await product.api("POST", "/channel", { app_id: app, channel: "production", version: "1.1.0", public: true });
	place = await openState(join(product.directory, "state"));
	const rows = await place.query<{ object_key: string }>("DB", "SELECT object_key FROM bundles ORDER BY id");
	keys = rows.map(({ object_key }) => object_key);
});
afterAll(async () => {
	await place?.close();
	await product?.stop();
});

test("an installation that is whole has no findings", async () => {
	expect(Object.values(await deep()).map(({ state }) => state)).toEqual(["ok", "ok", "ok"]);
});

test("names lost and changed bytes with the channels that serve them", async () => {
	const [, live = "", other = ""] = keys;
	const kept = Buffer.from((await (await place.bucket.get(live))?.arrayBuffer()) ?? []);
	await place.bucket.delete(live);
	await place.bucket.put(other, "other bytes");
	const findings = await deep();
	expect(findings["bytes of all rows"]).toMatchObject({
		state: "failed",
		detail: `1 lost: ${app} 1.1.0, live on production`,
		remedy: expect.stringContaining("--missing-objects"),
	});
	expect(findings["sizes of all objects"]?.detail).toContain(`${app} 1.2.0 (11 bytes instead of`);
	const { body } = await product.api("GET", "/service/status");
	expect(liveBundles({ isLocal: true, option: "" }, body as Status)).toMatchObject({
		state: "failed",
		detail: `the bytes of 1 of the newest 1 are lost: ${app} 1.1.0`,
	});
	await place.bucket.put(live, kept);
	expect((await deep())["bytes of all rows"]?.state).toBe("ok");
});

test("objects without a row are removed by --repair when they are old, those of uploads never", async () => {
	const { body } = await product.api("POST", "/bundle", { app_id: app, version: "2.0.0", size: 10 });
	const [upload] = await place.query<{ object_prefix: string }>(
		"DB",
		"SELECT object_prefix FROM uploads WHERE completed_at_ms IS NULL",
	);
	expect(body.upload_url).toBeDefined();
	const orphan = `${keys[0]?.split("/")[0]}/11111111-0000-4000-8000-000000000000/object`;
	const segment = `${upload?.object_prefix}segment-0000000000000`;
	await place.bucket.put(orphan, "orphan");
	await place.bucket.put(segment, "segment");
	const orphans = async (more: Parameters<typeof deep>[0]) => (await deep(more))["objects without a row"];
	expect(await orphans({ repair: true })).toMatchObject({ state: "ok", detail: expect.stringContaining("1 younger") });
	expect(await place.bucket.head(orphan)).not.toBeNull();
	expect(await orphans({ afterDays: 4 })).toMatchObject({ state: "warning", detail: expect.stringContaining(orphan) });
	expect(await orphans({ afterDays: 4, repair: true })).toMatchObject({ detail: expect.stringContaining("removed 1") });
	expect(await place.bucket.head(orphan)).toBeNull();
	expect(await place.bucket.head(segment)).not.toBeNull();
	expect(await place.bucket.head(keys[0] ?? "")).not.toBeNull();
});
