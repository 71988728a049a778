/**
 * The endpoints that devices call, without a key.
 */
import { checkUpdate, updatesHealth } from "./updates";

export const deviceEndpoints = [updatesHealth, checkUpdate] as const;
