/**
 * Publishing on write: the request or job that changed what devices of an app are offered stores
 * the app's new snapshot in R2, after its answer. Changes are recognized by their statements, so no
 * place that makes one can forget it.
 */
import type { AppId } from "../authz/decide";
import { changedLately, changesFrom } from "../db/changes";
import { type Database, openDb, type Statement } from "../db/client";
import { SNAPSHOT_FORMAT } from "../db/snapshot-load";
import type { Deps } from "../deps";
import { readContent } from "./entry";
import { createSnapshotObjects } from "./objects";

const raisesRevision = ({ sql }: Statement) => /^\s*update "?apps"? set [^;]*\brevision"? = revision \+ 1/i.test(sql);

/**
 * The database of a handler; calls back after a batch that raised the revision of an app, with its
 * UUID if the statement names it.
 */
export function notingChanges(db: Database, changed: (appId: AppId | undefined) => void): Database {
	const batch: Database["batch"] = async (statements, guards) => {
		const results = await db.batch(statements, guards);
		for (const [index, statement] of statements.entries()) {
			if (raisesRevision(statement) && results[index]?.changes !== 0) changed(statement.changedApp);
		}
		return results;
	};
	return Object.create(db, { batch: { value: batch } });
}

/** Apps that one run of a job publishes; others load the rest from D1. */
const MOST_PUBLISHED = 20;

/**
 * For jobs: publishes the apps that changed in the last minutes, by whatever request or job, and
 * are not published. Other isolates load from D1 what it leaves out.
 */
export async function publishChanged(
	deps: Pick<Deps, "d1" | "bundles" | "log" | "now">,
	minutes: number,
): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const objects = createSnapshotObjects(deps, SNAPSHOT_FORMAT);
	const [changed] = await db.batch([changedLately(minutes, MOST_PUBLISHED)]);
	for (const { app_id, token } of changed.rows) {
		if ((await objects.storedToken(app_id)) === token) continue;
		const stored = await objects.read(app_id);
		const feed = changesFrom(Number.MAX_SAFE_INTEGER);
		const { value: content } = await readContent(db, app_id, stored, feed, deps.now());
		if (content !== null) await objects.store(app_id, content);
	}
}
