/**
 * Checks of `npm run doctor` on work that the Worker does later: the Queue, its dead messages, webhooks and the clean-up. Each is one finding with the
 * remedy.
 */
import { MINUTE_MS } from "../domain/time";
import type { DoctorOptions, Finding, Status } from "./doctor-types";

/** The clean-up runs every 15 minutes. */
const OLD_SWEEP_MS = 45 * MINUTE_MS;
const OLD_MESSAGE_MS = 5 * MINUTE_MS;

export function queue({ nowMs }: DoctorOptions, { queue: backlog }: Status): Finding {
	const check = "queue";
	if (backlog === null) return { check, state: "skipped", detail: "the runtime does not report the backlog" };
	const ageMs = backlog.oldest_at === null ? 0 : nowMs() - Date.parse(backlog.oldest_at);
	const detail = `${backlog.backlog === 1 ? "1 message waits" : `${backlog.backlog} messages wait`}${ageMs > 0 ? `, the oldest for ${Math.round(ageMs / 1000)} s` : ""}`;
	if (ageMs <= OLD_MESSAGE_MS || backlog.backlog === 0) return { check, state: "ok", detail };
	const remedy =
		"Statistics are late. Look for step_failed and consume errors in npx wrangler tail; nothing is lost for four days.";
	return { check, state: "failed", detail, remedy };
}

export function deadMessages({ dead_messages: dead }: Status): Finding {
	if (dead === 0) return { check: "dead messages", state: "ok", detail: "none" };
	const remedy = "List them with npm run dead-messages, and send them again or drop them.";
	return { check: "dead messages", state: "failed", detail: `${dead} failed in every attempt`, remedy };
}

export function webhooks({ nowMs }: DoctorOptions, { webhooks: deliveries }: Status): Finding {
	const check = "webhooks";
	if (deliveries === undefined) return { check, state: "skipped", detail: "this release does not report them" };
	const ageMs = deliveries.oldest_at === null ? 0 : Math.max(0, nowMs() - Date.parse(deliveries.oldest_at));
	const { due } = deliveries;
	const detail = `${due === 1 ? "1 delivery is due" : `${due} deliveries are due`}${due > 0 ? `, the oldest for ${Math.round(ageMs / 1000)} s` : ""}`;
	if (ageMs <= OLD_SWEEP_MS) return { check, state: "ok", detail };
	const remedy =
		"The clean-up wakes deliveries that wait. Check its finding, and look for step_failed and webhook errors in npx wrangler tail.";
	return { check, state: "failed", detail, remedy };
}

export function cleanUp({ nowMs, isLocal }: DoctorOptions, { last_sweep_at: last }: Status): Finding {
	const check = "clean-up";
	if (last === undefined) return { check, state: "skipped", detail: "this release does not report it" };
	const remedy = isLocal
		? "It runs every ten minutes while npm start runs. Repeat this command later."
		: "It runs every 15 minutes. Check that the Worker has its cron trigger (npm run deploy sets it), and look for step_failed and other errors in npx wrangler tail.";
	if (last === null) return { check, state: "warning", detail: "has not run yet", remedy };
	const ageMs = nowMs() - Date.parse(last);
	const minutes = Math.max(0, Math.round(ageMs / MINUTE_MS));
	const detail = `ran ${minutes} ${minutes === 1 ? "minute" : "minutes"} ago`;
	if (ageMs <= OLD_SWEEP_MS) return { check, state: "ok", detail };
	return { check, state: isLocal ? "warning" : "failed", detail, remedy };
}
