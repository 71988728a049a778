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

/** One per isolate. */
export function createDeviceState(deps: Deps): DeviceState {
	const feed = createChangeFeed(deps);
	return {
		deps,
		feed,
		snapshots: createSnapshotCache(deps, feed, createSnapshotObjects(deps, SNAPSHOT_FORMAT)),
		eventBuffer: createEventBuffer(deps),
		strangers: createStrangerLimits(deps),
		failedFiles: createFailedFiles(),
	};
}
