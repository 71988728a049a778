/**
 * The requests that devices send most, each with its fast path (src/http/fast-path.ts). The entry
 * loads these without the router, so nothing here may import a schema or an endpoint.
 */
import { fastReport } from "./features/statistics/fast-path";
import { fastCheck } from "./features/updates/fast-path";

export const FAST_ENDPOINTS = [fastCheck, fastReport] as const;
