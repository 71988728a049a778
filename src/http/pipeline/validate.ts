/**
 * Phase 4, validate: refuses what is wrong with the request. Must stay true: it runs after the
 * decision, so that a stranger learns nothing of the schema, and before the handler, which gets
 * valid input only.
 */
import { invalidRequest } from "../../errors";
import type { Incoming } from "./incoming";
import type { Loaded } from "./load";
import { wantsToWait } from "./wait-visible";

export interface Valid {
	readonly input: unknown;
	/** True if the answer waits until every update check sees the change. */
	readonly waits: boolean;
}

/** @throws {ApiError} why the body could not be read, or what is wrong with the request */
export function validateRequest({ c }: Incoming, { endpoint, input, issues, failure }: Loaded): Valid {
	if (failure !== undefined) throw failure;
	if (input === undefined) throw issues.length > 0 ? invalidRequest(issues) : new Error("refused without an issue");
	return { input, waits: wantsToWait(endpoint, c.req.raw.headers) };
}
