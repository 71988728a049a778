/**
 * Devices in the networks of Google's and Apple's app review are robots that would inflate
 * statistics and may stop a rollout. If an app blocks them (`block_provider_infra_requests`), they
 * get no update and are not counted. Cloudflare names the network of a request by its autonomous
 * system; `REVIEW_NETWORKS` lists the numbers of review. Loads no schema.
 */
import type { Config } from "../../config";
import type { AppSnapshot } from "../../snapshots/app-snapshot";

/** The code of the answer to a blocked device, from the service whose clients we serve. */
export const BLOCKED = "provider_infrastructure_request_blocked";

/** Reads `cf` only if the app blocks review networks, because reading it costs time. */
export function isBlocked({ reviewNetworks }: Config, { app }: AppSnapshot, request: Request): boolean {
	if (!app.blocksReviewNetworks) return false;
	const asn = request.cf?.asn;
	return typeof asn === "number" && reviewNetworks.has(asn);
}
