/**
 * Sends due deliveries of one webhook. A run claims a few of them, sends them side by side, and
 * writes what became of each; the webhook is woken again for the others. Deliveries happen at least
 * once: a run that crashes leaves claimed ones, which are due again when their lease ends, and
 * receivers drop repetitions by `webhook-id`.
 *
 * The consumer does not wait for a run (`queue_consumer_no_wait_for_wait_until` in wrangler.toml),
 * so a slow receiver occupies only its own run. A Worker's invocation has six connections; each run
 * is an invocation of its own (`max_batch_size = 1`).
 */

import { AUDIT_READERS } from "../../authz/member-roles";
import { type Actor, systemActor } from "../../db/audit/entries";
import { openDb } from "../../db/client";
import { mailRecipient } from "../../db/event-mails";
import { insertAttempt, type WebhookAttempt } from "../../db/webhook-attempts";
import {
	type AttemptResult,
	type ClaimedDelivery,
	claimDeliveries,
	disableWebhook,
	noteFailing,
	settleDelivery,
} from "../../db/webhook-deliveries";
import type { Deps } from "../../deps";
import { DAY_MS, HOUR_MS } from "../../domain/time";
import { DISABLED_AFTER_MS, RETRY_DELAYS_MS, retryDelayMs } from "../../domain/webhooks/delivery";
import { eventSentence } from "../../domain/webhooks/events";
import { choosesRecords } from "../../domain/webhooks/records";
import { causeText } from "../../errors";
import { sendMail } from "../../mail";
import type { WebhookDue } from "../../messages";
import { wakeWebhooks } from "../../queue/webhook-wake";
import { noticeOfDisabled } from "./disabled-mail";
import { linkOf, outgoingRequest } from "./formats";
import { type Format, secretsAt, unseal } from "./record";
import { type Answer, failed, sendTo } from "./sending";

/** Deliveries of one run. */
const MOST_AT_ONCE = 5;
/** The Queue delays no message for longer; clean-up wakes webhooks after longer delays. */
const LONGEST_DELAY_MS = 12 * HOUR_MS;
/** The receiver asks to be sent nothing more. */
const GONE = 410;
const LONGEST_SUBJECT = 150;

/** @throws {ApiError} `service_unavailable`; the Queue delivers the message again */
export async function deliverDue(deps: Deps, { webhookId }: WebhookDue): Promise<void> {
	const db = openDb(deps.d1, "first-primary");
	const claim = deps.newId();
	const [, claimed] = await db.batch(claimDeliveries(webhookId, claim, deps.now(), MOST_AT_ONCE));
	const [first] = claimed.rows;
	if (first === undefined) return;
	const attempts = await Promise.all(claimed.rows.map((delivery) => attempt(deps, delivery)));
	const nowMs = deps.now();
	const results = attempts.map(({ result }) => result);
	const isGone = attempts.some(({ answer }) => answer.statusCode === GONE);
	const isFailing = results.every(({ error }) => error !== null);
	const failingSinceMs = isFailing ? (first.failing_since_ms ?? nowMs) : null;
	const isDisabled = isGone || (failingSinceMs !== null && nowMs - failingSinceMs >= DISABLED_AFTER_MS);
	const explanation = isGone
		? "the receiver answered 410 Gone"
		: `every attempt failed for ${Math.floor(DISABLED_AFTER_MS / DAY_MS)} days`;
	await db.batch([
		...attempts.flatMap(({ kept }) => (kept === undefined ? [] : [insertAttempt(kept)])),
		...results.map((result) => settleDelivery(claim, result)),
		noteFailing(webhookId, failingSinceMs),
		...(isDisabled ? disableWebhook(clerkOf(deps), nowMs, webhookId, isGone ? "gone" : "failing", explanation) : []),
	]);
	if (isDisabled) {
		if (first.format !== "mail") await noticeOfDisabled(deps, first, explanation);
		return;
	}
	const nextMs = results.flatMap(({ nextAttemptAtMs }) => (nextAttemptAtMs === null ? [] : [nextAttemptAtMs - nowMs]));
	const mayBeMore = claimed.rows.length === MOST_AT_ONCE;
	if (mayBeMore) await wakeWebhooks(deps, [webhookId]);
	for (const delayMs of new Set(nextMs)) {
		if (delayMs <= LONGEST_DELAY_MS) await wakeWebhooks(deps, [webhookId], Math.ceil(delayMs / 1000));
	}
}

/** The actor in the audit log. */
const clerkOf = (deps: Deps): Actor => systemActor(deps.newId(), "Capstan");

async function attempt(
	deps: Deps,
	delivery: ClaimedDelivery,
): Promise<{
	readonly result: AttemptResult;
	readonly answer: Answer;
	/** Undefined: a mail, whose deliveries nobody lists. */
	readonly kept: WebhookAttempt | undefined;
}> {
	const startMs = deps.now();
	const answer = await send(deps, delivery).catch((error: unknown): Answer => {
		deps.log("error", "webhook_not_sent", { delivery: delivery.id, cause: causeText(error) });
		return { statusCode: null, error: "the delivery could not be prepared", retryAfterMs: 0 };
	});
	const nowMs = deps.now();
	const [byte = 0] = deps.randomBytes(1);
	const delayMs = retryDelayMs(delivery.attempts, byte / 255, answer.retryAfterMs);
	const isLast =
		answer.error === null ||
		answer.isFinal === true ||
		delayMs === undefined ||
		delivery.attempts > RETRY_DELAYS_MS.length;
	const result = {
		id: delivery.id,
		statusCode: answer.statusCode,
		error: answer.error,
		durationMs: (answer.answeredAtMs ?? nowMs) - startMs,
		nextAttemptAtMs: isLast ? null : nowMs + (delayMs ?? 0),
	};
	if (delivery.format === "mail") return { answer, result, kept: undefined };
	const kept = {
		delivery_id: delivery.id,
		number: delivery.attempts,
		at_ms: startMs,
		shown_url: delivery.shown_url,
		is_of_records: choosesRecords(JSON.parse(delivery.events)) ? (1 as const) : (0 as const),
		duration_ms: result.durationMs,
		status_code: result.statusCode,
		error: result.error,
		answer: answer.kept === undefined ? null : JSON.stringify(answer.kept),
	};
	return { answer, result, kept };
}

async function send(deps: Deps, delivery: ClaimedDelivery): Promise<Answer> {
	if (delivery.format === "mail") return sendEventMail(deps, delivery);
	const nowMs = deps.now();
	const sealed = await unseal({ id: delivery.webhook_id, sealed: delivery.sealed }, deps);
	const secrets = secretsAt(sealed, delivery.previous_until_ms, nowMs);
	const event = { id: delivery.event_id, type: delivery.type, atMs: delivery.at_ms, data: delivery.data };
	const link = linkOf(event, deps.config.publicUrl);
	const isOfRecords = choosesRecords(JSON.parse(delivery.events));
	const shape = { link, isOfRecords };
	const request = await outgoingRequest(delivery.format as Format, event, secrets, nowMs, shape);
	return sendTo(deps, sealed.url, request, { delivery: delivery.id });
}

/** A mail to a person who chose the event, and may still read it. */
async function sendEventMail(deps: Deps, { org_id, user_id, type, at_ms, data }: ClaimedDelivery): Promise<Answer> {
	if (deps.config.mail === undefined) return { ...failed(null, "this server sends no mail"), isFinal: true };
	const [{ rows }] = await openDb(deps.d1, "first-primary").batch([
		mailRecipient(user_id ?? "", org_id, AUDIT_READERS, deps.now()),
	]);
	const [recipient] = rows;
	if (recipient === undefined) return { ...failed(null, "the person may not read these events"), isFinal: true };
	const sentence = eventSentence({ type, data });
	const link = linkOf({ data }, deps.config.publicUrl);
	const settings = deps.config.publicUrl === undefined ? "your account" : `${deps.config.publicUrl}/dashboard/account`;
	const text = [
		`${sentence}.`,
		`${recipient.organization}, ${new Date(at_ms).toISOString()}${link === undefined ? "" : `\n${link}`}`,
		`You chose mails about ${type}. Change that in ${settings}.`,
	].join("\n\n");
	// A subject is one line.
	const subject = sentence.replace(/\s+/g, " ").slice(0, LONGEST_SUBJECT);
	const isSent = await sendMail(deps, { to: recipient.email, subject, text });
	return isSent ? { statusCode: null, error: null, retryAfterMs: 0 } : failed(null, "the mail could not be sent");
}
