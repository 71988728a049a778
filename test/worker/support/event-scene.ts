/** An app with a released bundle, and messages of counted events for the consumer. */

import { beforeEach } from "vitest";
import type { CountedEvent, DeviceEvent, DeviceEvents } from "../../../src/messages";
import { databaseOf, REPORTS } from "./reports";
import { countedEvent } from "./sent-events";
import {
	createTestApp,
	createWorld,
	NOW_MS,
	setTestChannel,
	type TestApp,
	testEnv,
	uploadTestBundle,
	type World,
} from "./world";

export let world: World;
export let app: TestApp;

/** Prepares the scene for the tests of a file. */
export function prepareEventScene(): void {
	beforeEach(async () => {
		world = await createWorld();
		app = await createTestApp(world);
		await uploadTestBundle(world, app, "1.0.1");
		await setTestChannel(world, app, "production", { version: "1.0.1", public: true });
		world.deps.sent.length = 0;
		for (const table of ["counted_ids", "dead_messages"]) await databaseOf(table).prepare(`DELETE FROM ${table}`).run();
		for (const db of [testEnv.DB, REPORTS]) await db.prepare("DELETE FROM job_positions").run();
	});
}
let events = 0;

export const counted = (fields: Partial<CountedEvent> = {}) =>
	countedEvent({
		id: `event-${++events}`,
		appId: app.appId,
		deviceId: `device-${events}`,
		versionName: "1.0.1",
		atMs: NOW_MS,
		...fields,
	});

export const message = (...list: readonly DeviceEvent[]): DeviceEvents => ({
	kind: "device_events",
	id: crypto.randomUUID(),
	events: list,
});

export const installs = async () => {
	const row = await REPORTS.prepare("SELECT sum(install_count) AS installs FROM daily_totals WHERE app_id = ?")
		.bind(app.uuid)
		.first<{ installs: number | null }>();
	return row?.installs ?? 0;
};

export const rowsOf = async (table: string, where = "true") =>
	(await databaseOf(table).prepare(`SELECT * FROM ${table} WHERE ${where}`).all()).results;
