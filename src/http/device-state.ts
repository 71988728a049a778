/**
 * The memory of an isolate that requests of devices use: snapshots, buffered events and limits. It loads neither the router nor the query
 * builder; isolate.ts adds what management requests need.
 */
import { SNAPSHOT_FORMAT } from "../db/snapshot-load";
import type { Deps } from "../deps";
import { createFailedFiles, type FailedFiles } from "../domain/failed-files";
import { createEventBuffer, type EventBuffer } from "../queue/event-buffer";
import { createSnapshotCache, type SnapshotCache } from "../snapshots/cache";
import { type ChangeFeed, createChangeFeed } from "../snapshots/feed";
import { createSnapshotObjects } from "../snapshots/objects";
import { createStrangerLimits, type StrangerLimits } from "./stranger-limits";

export interface DeviceState {
	readonly deps: Deps;
	readonly feed: ChangeFeed;
	readonly snapshots: SnapshotCache;
	readonly eventBuffer: EventBuffer;
	readonly strangers: StrangerLimits;
	readonly failedFiles: FailedFiles;
}

/** An app that was loaded for one check is stored a little later, so that the check does not pay for it. */
const STORE_AFTER_MS = 1_000;

/** One per isolate. */
export function createDeviceState(deps: Deps): DeviceState {
	// Addresses in the cache of the data center. No endpoint has them.
	const cacheAddress = `${deps.config.publicUrl ?? "https://capstan.invalid"}/edge-cache`;
	const feed = createChangeFeed(deps);
	const objects = createSnapshotObjects(deps, SNAPSHOT_FORMAT, cacheAddress);
	return {
		deps,
		feed,
		snapshots: createSnapshotCache(deps, feed, { ...objects, pause: () => deps.delay(STORE_AFTER_MS) }),
		eventBuffer: createEventBuffer(deps),
		strangers: createStrangerLimits(deps),
		failedFiles: createFailedFiles(),
	};
}
