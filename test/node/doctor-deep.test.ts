/**
 * `npm run doctor -- --deep` on a running product: rows and objects are compared in both
 * directions, and only old objects without a row are removed.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deepFindings, liveBundles } from "../../src/operator/doctor-bytes";
import { databaseFindings } from "../../src/operator/doctor-database";
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

test("tables, indexes and rows that the databases lost are named", async () => {
	const checked = async (from: Parameters<typeof databaseFindings>[0] = place) =>
		(await databaseFindings(from)).map(({ check, state, detail, remedy }) => [
			check,
			state,
			remedy === undefined ? detail : [detail, remedy],
		]);
	const whole = await checked();
	expect(whole.map(([check, state]) => [check, state])).toEqual([
		["tables of DB", "ok"],
		["references of DB", "ok"],
		["tables of TELEMETRY", "ok"],
		["references of TELEMETRY", "ok"],
	]);

	const indexes = await place.query<{ name: string; sql: string }>(
		"DB",
		"SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name",
	);
	for (const { name } of indexes) await place.execute("DB", `DROP INDEX ${name}`);
	const [[, state, texts] = []] = await checked();
	expect(state).toBe("failed");
	for (const { name, sql } of indexes) {
		expect(texts?.[0]).toContain(`the ${sql.startsWith("CREATE UNIQUE") ? "unique " : ""}index ${name}`);
	}
	// The remedy has the statements that bring them back.
	const [, statements = ""] = /^Create it again with npx wrangler d1 execute: (.*)$/.exec(String(texts?.[1])) ?? [];
	for (const statement of statements.split("; ")) await place.execute("DB", statement);
	expect(await checked()).toEqual(whole);

	await place.execute("TELEMETRY", "ALTER TABLE daily_health RENAME TO lost");
	expect((await checked())[2]).toEqual([
		"tables of TELEMETRY",
		"failed",
		["the database lacks the table daily_health", expect.stringContaining("Time Travel")],
	]);
	await place.execute("TELEMETRY", "ALTER TABLE lost RENAME TO daily_health");

	const orphans = [
		{ table: "channels", parent: "apps" },
		{ table: "channels", parent: "apps" },
	];
	const query: typeof place.query = async (binding, sql) =>
		sql.startsWith("PRAGMA") ? (orphans as never) : place.query(binding, sql);
	expect((await checked({ ...place, query }))[1]).toEqual([
		"references of DB",
		"failed",
		["2 rows: channels without their row of apps", expect.stringContaining("restore a backup")],
	]);
	const older: typeof place.query = async (binding, sql) =>
		sql.includes("max(name)") ? ([{ name: "0000_older.sql" }] as never) : place.query(binding, sql);
	expect((await checked({ ...place, query: older }))[0]).toEqual([
		"tables of DB",
		"skipped",
		"the database has another schema",
	]);
});
