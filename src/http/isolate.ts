/**
 * The environment of a request: its bindings, and the state in the memory of its isolate, such as
 * caches, buffers and counters.
 */
import type { Hono, Context as HonoContext } from "hono";
import type { Deps } from "../deps";
import { createDeniedReports } from "../queue/access-denied";
import { SchemaVersion } from "../snapshots/schema-version";
import { createEdgeCache, type EdgeCache } from "../storage/edge-cache";
import { createDeviceState, type DeviceState } from "./device-state";
import { createMemory, type Memory } from "./limits/memory";
import { createKeyUsage } from "./pipeline/last-used";

/** Set for every request before the router. */
export interface RequestBindings {
	requestId: string;
	/** The limit of requests by address has already counted this one. */
	isCounted?: boolean;
}

export type CapstanApp = Hono<{ Bindings: RequestBindings }>;
export type RequestContext = HonoContext<{ Bindings: RequestBindings }>;

export interface Isolate extends DeviceState {
	readonly noteKeyUse: ReturnType<typeof createKeyUsage>;
	readonly edgeCache: EdgeCache;
	readonly schemaVersion: SchemaVersion;
	readonly memory: Memory;
	readonly reportDenied: ReturnType<typeof createDeniedReports>;
}

/** One per isolate. */
export function createIsolate(deps: Deps, devices: DeviceState = createDeviceState(deps)): Isolate {
	return {
		...devices,
		noteKeyUse: createKeyUsage(deps),
		edgeCache: createEdgeCache(deps),
		schemaVersion: new SchemaVersion(deps),
		memory: createMemory(deps),
		reportDenied: createDeniedReports(deps),
	};
}
