/**
 * Statements about one or two bundles read rows of these only, however many bundles and channels
 * the app has. SQLite may turn an EXISTS into a join, which it then tests once for each row of
 * another table.
 */
import { beforeEach, expect, test } from "vitest";
import type { AppId } from "../../../src/authz/decide";
import { bundlesPage } from "../../../src/db/bundle-list";
import { shownOnProtectedChannel } from "../../../src/db/bundles";
import { changedFiles } from "../../../src/db/preview-pages";
import { manifestDifference } from "../../../src/db/proposals";
import { createTestApp, createWorld, type TestApp, testEnv } from "../support/world";

const BUNDLES = 40;
const FILES = 30;
const CHANNELS = 300;

let app: TestApp;
let ids: number[];
beforeEach(async () => {
	app = await createTestApp(await createWorld());
	const numbers = (count: number) => JSON.stringify([...Array(count).keys()]);
	const execute = (text: string, ...values: unknown[]) => testEnv.DB.prepare(text).bind(...values);
	await testEnv.DB.batch([
		execute(
			`INSERT INTO bundles (app_id, name, status, storage_provider, created_by, created_at_ms, updated_at_ms)
				SELECT ?, '1.0.' || value, 'ready', 'r2', 'x', value, value FROM json_each(?)`,
			app.uuid,
			numbers(BUNDLES),
		),
		execute(
			"INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms) VALUES (?, 'p', 'k', 1, 0)",
			app.uuid,
		),
		execute(
			`INSERT INTO bundle_files (bundle_id, app_id, file_name, file_hash, path)
				SELECT b.id, b.app_id, value, value || b.name, 'p' FROM bundles b, json_each(?) WHERE b.app_id = ?`,
			numbers(FILES),
			app.uuid,
		),
		execute(
			`INSERT INTO channels (app_id, name, version_id, protected, created_by, created_at_ms, updated_at_ms)
				SELECT ?, 'c' || value, (SELECT max(id) FROM bundles WHERE app_id = ?), 1, 'x', 0, 0 FROM json_each(?)`,
			app.uuid,
			app.uuid,
			numbers(CHANNELS),
		),
	]);
	const { results } = await execute("SELECT id FROM bundles WHERE app_id = ? ORDER BY id DESC", app.uuid).all<{
		id: number;
	}>();
	ids = results.map(({ id }) => id);
});

async function rowsRead({ sql, parameters }: { readonly sql: string; readonly parameters: readonly unknown[] }) {
	const { results, meta } = await testEnv.DB.prepare(sql)
		.bind(...parameters)
		.all();
	return { answered: results.length, read: meta.rows_read };
}

test.each([
	["of a promotion", manifestDifference],
	["of a preview", changedFiles],
] as const)("the changed files %s are read from the files of two bundles", async (_, statement) => {
	const [after = 0, before = 0] = ids;
	const { answered, read } = await rowsRead(statement(app.uuid as AppId, before, after, 100));
	expect(answered).toBe(FILES);
	expect(read).toBeLessThan(10 * FILES);
});

test("no channel is read to learn whether an app without exposed notes shows those of a bundle", async () => {
	const { answered, read } = await rowsRead(shownOnProtectedChannel(app.appId, "1.0.0"));
	expect(answered).toBe(0);
	expect(read).toBeLessThan(10);
});

test("a page reads its bundles in every order", async () => {
	const page = { limit: 5, offset: 0 };
	const newest = await rowsRead(bundlesPage(app.appId, {}, {}, page));
	const sorted = await rowsRead(bundlesPage(app.appId, {}, { sort: "size" }, page));
	expect([newest.answered, sorted.answered]).toEqual([5, 5]);
	// All channels of this app use one bundle.
	expect(newest.read).toBeLessThan(CHANNELS + 100);
	expect(sorted.read).toBeLessThan(CHANNELS + 100);
});
