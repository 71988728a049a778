/**
 * The memory of an isolate that requests of devices use: snapshots, buffered events and limits. It
 * loads neither the router nor the query builder; isolate.ts adds what management requests need.
 */
import type { Deps } from "../deps";
import { createFailedFiles, type FailedFiles } from "../domain/updates/failed-files";
import { createEventBuffer, type EventBuffer } from "../queue/event-buffer";
import { SnapshotCache } from "../snapshots/cache";
import { type CallerLimits, createCallerLimits } from "./limits/callers";

export interface DeviceState {
	readonly deps: Deps;
	readonly snapshots: SnapshotCache;
	readonly eventBuffer: EventBuffer;
	readonly callerLimits: CallerLimits;
	readonly failedFiles: FailedFiles;
}

/** One per isolate. */
export function createDeviceState(deps: Deps): DeviceState {
	return {
		deps,
		snapshots: new SnapshotCache(deps),
		eventBuffer: createEventBuffer(deps),
		callerLimits: createCallerLimits(deps),
		failedFiles: createFailedFiles(),
	};
}
