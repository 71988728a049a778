/**
 * Devices in the networks of Google's and Apple's app review: robots that would inflate statistics and may stop a rollout. An app may
 * refuse them (`block_provider_infra_requests`); then they get no update and nothing of them is counted. Cloudflare names the network of
 * each request by its autonomous system; `REVIEW_NETWORKS` lists the ones that count as review.
 */
import type { Config } from "../config";
import type { AppSnapshot } from "../db/snapshot-cache";

/** How a blocked device is answered; the wording of the service whose clients we serve. */
export const BLOCKED = {
	error: "provider_infrastructure_request_blocked",
	message: "This app answers no requests from the review networks of app stores.",
} as const;

/** Asks for the network only where the app blocks some: reading `cf` costs every check of every app otherwise. */
export function isBlocked({ reviewNetworks }: Config, { app }: AppSnapshot, request: Request): boolean {
	if (app.block_provider_infra_requests === 0) return false;
	const asn = request.cf?.asn;
	return typeof asn === "number" && reviewNetworks.has(asn);
}
