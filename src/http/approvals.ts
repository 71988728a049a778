/**
 * Proposals that wait for the caller, in the answers that a screen asks for anyway: so that nobody
 * has to look for them, and nothing more is read for them.
 */
import * as v from "valibot";
import type { Target } from "../authz/decide";
import type { Principal } from "../authz/principal";
import { mayApprove } from "../authz/promoters";
import type { WaitingApprovalRow } from "../db/proposals";

export const approvalsSchema = v.array(
	v.strictObject({ id: v.string(), channel: v.string(), version: v.nullable(v.string()) }),
);

export function approvalsOf(
	principal: Principal,
	waiting: readonly WaitingApprovalRow[],
	app: Target,
): v.InferOutput<typeof approvalsSchema> {
	return waiting
		.filter((row) => mayApprove(principal, row, app))
		.map(({ id, channel_name, version_name }) => ({ id, channel: channel_name, version: version_name }));
}
