/**
 * What requests do about objects that were let go of. Everything here may fail without harm: `garbage_objects` names the objects, and
 * the queue consumer and the scheduled sweep do the same work again.
 */
import type { Deps } from "../deps";
import { causeText } from "../errors";
import { removeObjects } from "../storage/objects";

/** Asks the consumer to remove what was let go of. */
export async function collectGarbageSoon(deps: Pick<Deps, "events" | "log">): Promise<void> {
	try {
		await deps.events.send({ kind: "collect_garbage" });
	} catch (error) {
		deps.log("warn", "queue_send_failed", { kind: "collect_garbage", cause: causeText(error) });
	}
}

/** Removes the bytes of deleted bundles before the answer says so; the rows that remember them go through the queue. */
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
