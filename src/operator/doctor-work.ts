/**
 * Checks of `npm run doctor` on work that the Worker does later: the queues and their consumers,
 * dead messages, webhooks and the clean-up. Each is one finding with the remedy.
 */
import { CLEAN_UP_MINUTES } from "../domain/defaults";
import { MINUTE_MS } from "../domain/time";
import type { AccountFacts, DoctorOptions, Finding, Status } from "./doctor-types";
import { npmCommand } from "./options";

/** After two clean-ups that did not run. */
const OLD_CLEAN_UP_MS = 3 * CLEAN_UP_MINUTES * MINUTE_MS;
const OLD_MESSAGE_MS = 5 * MINUTE_MS;

export function queue({ nowMs }: DoctorOptions, { queue: backlog }: Status): Finding {
	const check = "queue";
	if (backlog === null) return { check, state: "skipped", detail: "the runtime does not report the backlog" };
	const ageMs = backlog.oldest_at === null ? 0 : nowMs() - Date.parse(backlog.oldest_at);
	const detail = `${backlog.backlog === 1 ? "1 message waits" : `${backlog.backlog} messages wait`}${ageMs > 0 ? `, the oldest for ${Math.round(ageMs / 1000)} s` : ""}`;
	if (ageMs <= OLD_MESSAGE_MS || backlog.backlog === 0) return { check, state: "ok", detail };
	const remedy =
		"Statistics are late. Look for step_failed and consume errors in npx wrangler tail; nothing is lost for four days (on the free plan, for 24 hours).";
	return { check, state: "failed", detail, remedy };
}

/**
 * The account knows who consumes a queue; where the runtime counts no backlog, nothing else shows
 * that nobody does.
 */
export function consumers({ option }: DoctorOptions, account: AccountFacts | undefined): Finding {
	const check = "consumers";
	if (account === undefined) {
		const remedy = "Run npx wrangler login, or set CLOUDFLARE_API_TOKEN.";
		return { check, state: "skipped", detail: "wrangler cannot list them", remedy };
	}
	const { worker, consumers: byQueue } = account;
	const queues = Object.entries(byQueue);
	const wrong = queues.filter(([, workers]) => workers?.includes(worker) !== true);
	if (wrong.length === 0) return { check, state: "ok", detail: `${worker} consumes its ${queues.length} queues` };
	const texts = wrong.map(([queue, workers]) => {
		if (workers === undefined) return `the queue ${queue} does not exist`;
		return workers[0] === undefined ? `nothing consumes ${queue}` : `${workers[0]} consumes ${queue}`;
	});
	const remedy = `Run ${npmCommand("deploy", option)}: it creates what is missing, and says how to remove another consumer.`;
	return { check, state: "failed", detail: texts.join("; "), remedy };
}

export function deadMessages({ option }: DoctorOptions, { dead_messages: dead }: Status): Finding {
	if (dead === 0) return { check: "dead messages", state: "ok", detail: "none" };
	const remedy = `List them with ${npmCommand("dead-messages", option)}, and send them again or drop them.`;
	return { check: "dead messages", state: "failed", detail: `${dead} failed in every attempt`, remedy };
}

export function webhooks({ nowMs }: DoctorOptions, { webhooks: deliveries }: Status): Finding {
	const check = "webhooks";
	if (deliveries === undefined) return { check, state: "skipped", detail: "this release does not report them" };
	const ageMs = deliveries.oldest_at === null ? 0 : Math.max(0, nowMs() - Date.parse(deliveries.oldest_at));
	const { due } = deliveries;
	const detail = `${due === 1 ? "1 delivery is due" : `${due} deliveries are due`}${due > 0 ? `, the oldest for ${Math.round(ageMs / 1000)} s` : ""}`;
	if (ageMs <= OLD_CLEAN_UP_MS) return { check, state: "ok", detail };
	const remedy =
		"The clean-up wakes deliveries that wait. Check its finding, and look for step_failed and webhook errors in npx wrangler tail.";
	return { check, state: "failed", detail, remedy };
}

export function cleanUp({ nowMs, isLocal, option }: DoctorOptions, { last_clean_up_at: last }: Status): Finding {
	const check = "clean-up";
	if (last === undefined) return { check, state: "skipped", detail: "this release does not report it" };
	const remedy = isLocal
		? "It runs every ten minutes while npm start runs. Repeat this command later."
		: `It runs every ${CLEAN_UP_MINUTES} minutes. Check that the Worker has its cron trigger (${npmCommand("deploy", option)} sets it), and look for step_failed and other errors in npx wrangler tail.`;
	if (last === null) return { check, state: "warning", detail: "has not run yet", remedy };
	const ageMs = nowMs() - Date.parse(last);
	const minutes = Math.max(0, Math.round(ageMs / MINUTE_MS));
	const detail = `ran ${minutes} ${minutes === 1 ? "minute" : "minutes"} ago`;
	if (ageMs <= OLD_CLEAN_UP_MS) return { check, state: "ok", detail };
	return { check, state: isLocal ? "warning" : "failed", detail, remedy };
}
