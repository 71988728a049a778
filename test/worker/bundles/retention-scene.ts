/**
 * An app whose unused bundles the clean-up deletes: uploads an hour apart, devices that run a
 * version, and the rows that the clean-up's query reads. All state belongs to the running test.
 */

import { expect } from "vitest";
import { expiredBundlesOfApps } from "../../../src/db/bundles";
import { query } from "../../../src/db/client";
import { HOUR_MS } from "../../../src/domain/time";
import { rows, run } from "../support/bytes";
import { openReports, reportQuery, reportsOf } from "../support/reports";
import { createTestApp, createWorld, type TestApp, testEnv, uploadTestBundle, type World } from "../support/world";

/** The default of an app. */
export const KEPT_DAYS = 30;
/** A device that changes nothing may have been seen this long after its row says. */
export const UNCERTAIN_DAYS = 7;
export const DEVICE = "0f9b0a3e-43cf-4d1f-8a07-6a1c3b1f7e01";

export let world: World;
export let app: TestApp;
/** For `beforeEach`. */
export async function prepareRetention(): Promise<void> {
	world = await createWorld();
	app = await createTestApp(world);
}

/** Another app, to which the following uploads and devices belong. */
export async function startApp(): Promise<TestApp> {
	app = await createTestApp(world);
	return app;
}

export const readyOf = async (of = app) =>
	(
		await rows(
			query
				.selectFrom("bundles")
				.select("name")
				.where("app_id", "=", of.uuid)
				.where("status", "=", "ready")
				.orderBy("name"),
		)
	).map(({ name }) => name);
export const revisionOf = async () =>
	(await rows(query.selectFrom("apps").select("revision").where("id", "=", app.uuid)))[0]?.revision;
export const changeApp = async (body: object, of = app) => {
	const { status } = await world.request("PUT", `/app/${of.appId}`, { key: world.adminKey, body });
	expect(status).toBe(200);
};
export const deletions = async () => {
	const { body } = await world.request("GET", "/organization/audit", {
		key: world.adminKey,
		query: { orgId: world.orgId, action: "bundle.delete" },
	});
	return body as { actor: object; target: object; details: object }[];
};

/** Uploads these versions an hour apart, the last one now. */
export async function upload(...versions: readonly string[]): Promise<number[]> {
	const ids: number[] = [];
	for (const version of versions) {
		world.clock.nowMs += HOUR_MS;
		ids.push(await uploadTestBundle(world, app, version));
	}
	return ids;
}

/** Rows that the clean-up's query reads. */
export async function rowsReadByCleanUp(): Promise<number> {
	const { sql, parameters } = expiredBundlesOfApps(world.clock.nowMs, 50, 200);
	const { meta } = await testEnv.DB.prepare(sql)
		.bind(...parameters)
		.all();
	return meta.rows_read;
}

/** More bundles than one run deletes. */
export async function manyOld(): Promise<string[]> {
	const many = Array.from({ length: 60 }, (_, index) => `1.0.${index}`);
	const old = { app_id: app.uuid, status: "ready" as const, storage_provider: "external" as const, created_by: "x" };
	await run(
		...many.map((name, index) =>
			query.insertInto("bundles").values({ ...old, name, created_at_ms: index, updated_at_ms: index } as never),
		),
	);
	return many;
}

export async function runs(version: string, device_id = DEVICE): Promise<void> {
	const nowMs = world.clock.nowMs;
	await reportsOf(app.uuid);
	await openReports().batch([
		reportQuery
			.insertInto("devices")
			.values({
				app_id: app.uuid,
				device_id,
				version_name: version,
				last_seen_at_ms: nowMs,
				created_at_ms: nowMs,
				updated_at_ms: nowMs,
			} as never)
			.compile(),
	]);
}
