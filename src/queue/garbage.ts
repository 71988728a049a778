/**
 * Removes garbage objects from R2. `garbage_objects` lists them, so a failed removal does no harm:
 * the consumer of the Queue removes them within seconds, and the clean-up what is left. Everything
 * is removed twice, a day apart: an upload that was given up while its bytes arrived may store them
 * after the first removal, and no upload lasts a day.
 */
import { sql } from "kysely";
import { jsonList, openDb, query } from "../db/client";
import type { Deps } from "../deps";
import { DAY_MS } from "../domain/time";
import { causeText } from "../errors";
import { removeAll, removeObjects } from "../storage/objects";

/** Time between the first and the second removal. */
const SECOND_REMOVAL_MS = DAY_MS;
/** Per run, to stay within a Worker's limits; the next run continues. */
const MOST_ROWS = 200;

/** Asks the consumer to remove garbage. */
export async function collectGarbageSoon(deps: Pick<Deps, "events" | "log">): Promise<void> {
	try {
		await deps.events.send({ kind: "collect_garbage" });
	} catch (error) {
		deps.log("warn", "queue_send_failed", { kind: "collect_garbage", cause: causeText(error) });
	}
}

/** Removes the bytes of deleted bundles before the answer, and asks the consumer for the rest. */
export async function removeBytes(
	deps: Pick<Deps, "events" | "log" | "bundles">,
	bundles: readonly { readonly object_key: string | null }[],
	waitUntil: (work: Promise<unknown>) => void,
): Promise<void> {
	const keys = bundles.flatMap((bundle) => (bundle.object_key === null ? [] : [bundle.object_key]));
	if (keys.length === 0) return;
	try {
		await removeObjects(deps.bundles, keys);
	} catch (error) {
		deps.log("warn", "object_removal_failed", { cause: causeText(error) });
	}
	waitUntil(collectGarbageSoon(deps));
}

/**
 * Removes what is due: the object first and its row second, so that a crash between the two is
 * repeated.
 * @returns whether more garbage may be waiting
 * @throws {Error} when some objects could not be removed; the others were
 */
export async function collectGarbage(deps: Deps): Promise<boolean> {
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [garbage] = await db.batch([
		query
			.selectFrom("garbage_objects")
			.select("object_prefix")
			.where("due_at_ms", "<=", nowMs)
			.orderBy("due_at_ms")
			.limit(MOST_ROWS)
			.compile(),
	]);
	const removed: string[] = [];
	let failure: unknown;
	for (const { object_prefix } of garbage.rows) {
		try {
			await removeAll(deps.bundles, object_prefix);
			removed.push(object_prefix);
		} catch (error) {
			failure = error;
		}
	}
	if (removed.length > 0) {
		const thoseRemoved = sql`object_prefix IN ${jsonList(JSON.stringify(removed))} AND due_at_ms <= ${nowMs}`;
		await db.batch([
			sql`DELETE FROM garbage_objects WHERE ${thoseRemoved} AND due_at_ms > created_at_ms`.compile(query),
			sql`UPDATE garbage_objects SET due_at_ms = ${nowMs + SECOND_REMOVAL_MS} WHERE ${thoseRemoved}`.compile(query),
		]);
	}
	if (failure !== undefined) throw failure;
	return removed.length === MOST_ROWS;
}
