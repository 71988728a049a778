/**
 * Deliveries of a webhook: what was sent, what the receiver answered, replays and tests. Answers of
 * receivers are text of strangers, of which a bounded part is kept (src/domain/webhooks/answers.ts)
 * and shown to those alone who may set the webhook's address.
 */
import * as v from "valibot";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { attemptsOf } from "../../db/webhook-attempts";
import {
	type DeliveryRow,
	deliveriesOf,
	deliveryById,
	deliveryCanRun,
	deliveryWaits,
	replayDelivery,
	stopDelivery,
	testDelivery,
} from "../../db/webhook-deliveries";
import { webhookById, webhookIs } from "../../db/webhooks";
import { DELIVERY_DAYS } from "../../domain/defaults";
import { keptAnswer, MOST_ANSWER_BYTES } from "../../domain/webhooks/answers";
import { eventSentence } from "../../domain/webhooks/events";
import { ApiError } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { countFetch } from "../../http/limits/requests";
import { pageBounds, pageReply } from "../../http/paging";
import { nullableRfc3339, nullableTime, optional, pageNumber, rfc3339, text, time, uuid } from "../../http/schemas";
import { linkOf, shownRequest, testEventData } from "./formats";
import {
	auditedApp,
	deliveryNotFound,
	EXAMPLE_ORG_ID,
	EXAMPLE_WEBHOOK,
	type Format,
	TAG,
	webhookNotFound,
} from "./record";
import { webhookChanged } from "./routes";
import { deliveryAccess, webhookAccess } from "./scope";

const STATES = ["pending", "delivered", "failed", "stopped"] as const;

const deliverySchema = v.strictObject({
	id: v.string(),
	event_id: v.string(),
	type: v.string(),
	summary: v.string(),
	at: time,
	state: v.picklist(STATES),
	attempts: v.number(),
	next_attempt_at: nullableTime,
	last_attempt_at: nullableTime,
	status_code: v.nullable(v.number()),
	duration_ms: v.nullable(v.number()),
	error: v.nullable(v.string()),
});

function deliveryAnswer(row: DeliveryRow): v.InferOutput<typeof deliverySchema> {
	return {
		id: row.id,
		event_id: row.event_id,
		type: row.type,
		summary: eventSentence(row),
		at: rfc3339(row.at_ms),
		state: row.state,
		attempts: row.attempts,
		next_attempt_at: nullableRfc3339(row.next_attempt_at_ms),
		last_attempt_at: nullableRfc3339(row.last_attempt_at_ms),
		status_code: row.status_code,
		duration_ms: row.duration_ms,
		error: row.error,
	};
}

const EXAMPLE_DELIVERY = {
	id: "7c8f2b64d1a04b0e9c0e0f6f3f1c7a10",
	event_id: "msg_2b1f7a5264d14b0e9c0e0f6f3f1c7a10",
	type: "channel.promoted",
	summary: "1.4.0 was released to production by Releases (com.example.app)",
	at: "2026-11-21T08:00:00.000Z",
	state: "delivered" as const,
	attempts: 1,
	next_attempt_at: null,
	last_attempt_at: "2026-11-21T08:00:01.000Z",
	status_code: 204,
	duration_ms: 120,
	error: null,
};

const webhookDisabled = () =>
	new ApiError("webhook_disabled", "The webhook is disabled; enable it with PUT /webhook and enabled: true.");

/** Tests and replays, because both send on request. */
const TOO_MANY = "Too many tests and replays of this webhook were requested";

export const listDeliveries = endpoint({
	method: "GET",
	path: "/webhook/delivery",
	tag: TAG,
	summary: "List the deliveries of a webhook, newest first",
	description: [
		`Deliveries are kept for ${DELIVERY_DAYS} days.`,
		"`status_code`, `duration_ms` and `error` are those of the last attempt.",
		"`event_id` is the header `webhook-id`, the same in every attempt and replay.",
	],
	access: webhookAccess("query"),
	query: v.object({
		orgId: uuid,
		id: uuid,
		state: optional(v.picklist(STATES, `must be one of ${STATES.join(", ")}`)),
		page: pageNumber,
	}),
	response: v.array(deliverySchema),
	errors: ["webhook_not_found"],
	example: { query: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_WEBHOOK.id }, response: [EXAMPLE_DELIVERY] },
	load: ({ query }) => {
		const { limit, offset } = pageBounds(query.page);
		return {
			webhook: webhookById(query.orgId, query.id),
			deliveries: deliveriesOf(query.orgId, query.id, query.state === undefined ? [] : [query.state], limit, offset),
		};
	},
	async handle(context) {
		const { webhook, deliveries } = context.loaded;
		if (webhook[0] === undefined) throw webhookNotFound();
		return pageReply(context, context.input.query.page, deliveries, deliveryAnswer);
	},
});

const attemptSchema = v.strictObject({
	number: v.number(),
	at: time,
	request: v.strictObject({
		method: v.literal("POST"),
		url: v.string(),
		headers: v.record(v.string(), v.string()),
		body: v.string(),
	}),
	status_code: v.nullable(v.number()),
	duration_ms: v.number(),
	error: v.nullable(v.string()),
	response: v.nullable(keptAnswer),
});

export const listAttempts = endpoint({
	method: "GET",
	path: "/webhook/delivery/attempts",
	tag: TAG,
	summary: "List the attempts of a delivery with request and response, oldest first",
	description: [
		"Attempts are kept as long as their delivery; after a replay they replace those of the same number.",
		"`request` has no signatures, and `url` is shown as in GET /webhook.",
		`\`response\` has a few headers and the first ${MOST_ANSWER_BYTES} bytes of the body, in which parts`,
		"of the webhook's address, signatures and private addresses are replaced by `*`; it is null if the",
		"receiver did not answer.",
	],
	access: deliveryAccess("query"),
	query: v.object({ orgId: uuid, id: text(64) }),
	response: v.strictObject({ delivery: deliverySchema, attempts: v.array(attemptSchema) }),
	errors: ["delivery_not_found"],
	example: {
		query: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_DELIVERY.id },
		response: {
			delivery: EXAMPLE_DELIVERY,
			attempts: [
				{
					number: 1,
					at: "2026-11-21T08:00:01.000Z",
					request: {
						method: "POST" as const,
						url: "https://hooks.example.com/…",
						headers: { "content-type": "application/json", "webhook-id": EXAMPLE_DELIVERY.event_id },
						body: '{"type":"channel.promoted"}',
					},
					status_code: 204,
					duration_ms: 120,
					error: null,
					response: { headers: {}, body: "", truncated: false },
				},
			],
		},
	},
	load: ({ query }) => ({
		delivery: deliveryById(query.orgId, query.id),
		attempts: attemptsOf(query.orgId, query.id),
	}),
	async handle({ deps, loaded }) {
		const row = loaded.delivery[0];
		if (row === undefined) throw deliveryNotFound();
		const event = { id: row.event_id, type: row.type, atMs: row.at_ms, data: row.data };
		const link = linkOf(event, deps.config.publicUrl);
		return {
			delivery: deliveryAnswer(row),
			attempts: loaded.attempts.map((attempt) => {
				const shape = { link, isOfRecords: attempt.is_of_records === 1 };
				const { headers, body } = shownRequest(row.format as Format, event, attempt.at_ms, shape);
				return {
					number: attempt.number,
					at: rfc3339(attempt.at_ms),
					request: { method: "POST" as const, url: attempt.shown_url, headers: { ...headers }, body },
					status_code: attempt.status_code,
					duration_ms: attempt.duration_ms,
					error: attempt.error,
					response: attempt.answer === null ? null : v.parse(keptAnswer, JSON.parse(attempt.answer)),
				};
			}),
		};
	},
});

const startedSchema = v.strictObject({ status: v.literal("ok"), delivery_id: v.string() });

export const testWebhook = endpoint({
	method: "POST",
	path: "/webhook/test",
	tag: TAG,
	summary: "Send a test event to a webhook",
	description: "The event has the type `webhook.test`. GET /webhook/delivery shows what became of it.",
	access: webhookAccess("body"),
	body: v.object({ orgId: uuid, id: uuid }),
	status: [202],
	response: startedSchema,
	errors: ["webhook_not_found", "webhook_changed", "webhook_disabled"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_WEBHOOK.id },
		response: { status: "ok", delivery_id: EXAMPLE_DELIVERY.id },
	},
	load: ({ body }) => ({ webhook: webhookById(body.orgId, body.id) }),
	async handle({ db, deps, scope, loaded, nowMs, actor }) {
		const row = loaded.webhook[0];
		if (row === undefined) throw webhookNotFound();
		if (row.disabled_at_ms !== null) throw webhookDisabled();
		await countFetch(deps, `webhook ${row.id}`, TOO_MANY);
		const ids = { event: `msg_${deps.newId().replaceAll("-", "")}`, delivery: deps.newId() };
		const target = { type: "webhook", id: row.id, name: row.description };
		const data = testEventData(actor, scope.orgId, row.public_app_id, target);
		await db.batch([
			guard(webhookIs(scope.orgId, row), webhookChanged),
			...testDelivery(scope.orgId, row.id, ids, nowMs, data),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.test",
				target,
				...auditedApp(row),
				details: { delivery: ids.delivery },
			}),
		]);
		return new Reply(202, { status: "ok" as const, delivery_id: ids.delivery });
	},
});

export const replayWebhook = endpoint({
	method: "POST",
	path: "/webhook/delivery/replay",
	tag: TAG,
	summary: "Send an event again to its webhook",
	description:
		"The `webhook-id` stays the same, so a receiver that got the event already can tell. The attempts start again.",
	access: deliveryAccess("body"),
	body: v.object({ orgId: uuid, id: text(64) }),
	status: [202],
	response: startedSchema,
	errors: ["delivery_not_found", "webhook_disabled"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_DELIVERY.id },
		response: { status: "ok", delivery_id: EXAMPLE_DELIVERY.id },
	},
	load: ({ body }) => ({ delivery: deliveryById(body.orgId, body.id) }),
	async handle({ db, deps, scope, loaded, nowMs, actor }) {
		const row = loaded.delivery[0];
		if (row === undefined) throw deliveryNotFound();
		await countFetch(deps, `webhook ${row.webhook_id}`, TOO_MANY);
		await db.batch([
			guard(deliveryCanRun(scope.orgId, row.id), webhookDisabled),
			replayDelivery(scope.orgId, row.id, nowMs),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.replay",
				target: { type: "webhook", id: row.webhook_id, name: row.description },
				...auditedApp(row),
				details: { event: row.event_id, type: row.type },
			}),
		]);
		return new Reply(202, { status: "ok" as const, delivery_id: row.id });
	},
});

const deliveryNotWaiting = () =>
	new ApiError(
		"delivery_not_waiting",
		"The delivery waits for no further attempt: it was delivered, has failed, or was stopped before.",
	);

export const stopWebhookDelivery = endpoint({
	method: "POST",
	path: "/webhook/delivery/stop",
	tag: TAG,
	summary: "End the attempts of a delivery",
	description: "Its state becomes `stopped`. An attempt that runs already may still reach the receiver.",
	access: deliveryAccess("body"),
	body: v.object({ orgId: uuid, id: text(64) }),
	response: v.strictObject({ delivery: deliverySchema }),
	errors: ["delivery_not_found", "delivery_not_waiting"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_DELIVERY.id },
		response: {
			delivery: { ...EXAMPLE_DELIVERY, state: "stopped", status_code: 503, error: "the receiver answered 503" },
		},
	},
	load: ({ body }) => ({ delivery: deliveryById(body.orgId, body.id) }),
	async handle({ db, scope, loaded, nowMs, actor }) {
		const row = loaded.delivery[0];
		if (row === undefined) throw deliveryNotFound();
		await db.batch([
			guard(deliveryWaits(scope.orgId, row.id), deliveryNotWaiting),
			stopDelivery(scope.orgId, row.id),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.stop",
				target: { type: "webhook", id: row.webhook_id, name: row.description },
				...auditedApp(row),
				details: { event: row.event_id, type: row.type },
			}),
		]);
		return { delivery: { ...deliveryAnswer(row), state: "stopped" as const, next_attempt_at: null } };
	},
});
