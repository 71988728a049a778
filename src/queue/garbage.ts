/**
 * Requests removal of garbage objects. All of it may fail without harm: `garbage_objects` lists the objects, and the queue consumer and
 * clean-up remove them.
 */
import type { Deps } from "../deps";
import { causeText } from "../errors";
import { removeObjects } from "../storage/objects";

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
