/**
 * Statements about deliveries of events to webhooks. A consumer claims due deliveries before it
 * sends them: the claim leases them, so that another consumer does not send them as well, and a
 * delivery whose consumer crashed is due again when its lease ends.
 */

import { type CompiledQuery, type Selectable, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import { DELIVERY_DAYS } from "../domain/defaults";
import { DAY_MS } from "../domain/time";
import { TEST_EVENT } from "../domain/webhooks/events";
import { type Actor, auditEach } from "./audit/entries";
import { deleteFirst, query } from "./client";
import type { WebhookDeliveriesTable, WebhooksTable } from "./schema";

/** Longer than an attempt, with its writes. */
export const LEASE_MS = 90_000;

/** A literal, because the index of due deliveries has this condition. */
const PENDING = sql.lit<"pending">("pending");
const pending = () => query.selectFrom("webhook_deliveries").where("state", "=", PENDING);

/** Ids of webhooks with due deliveries, of all organizations, longest waiting first. */
export function dueWebhooks(nowMs: number, limit: number): CompiledQuery<{ webhook_id: string }> {
	return pending()
		.select("webhook_id")
		.where("next_attempt_at_ms", "<=", nowMs)
		.groupBy("webhook_id")
		.orderBy((eb) => eb.fn.min("next_attempt_at_ms"))
		.limit(limit)
		.compile();
}

/**
 * Due deliveries of all organizations, counted up to a limit, and since when the oldest one waits.
 */
export function dueDeliveries(nowMs: number, most: number): CompiledQuery<{ due: number; oldest_ms: number | null }> {
	return query
		.selectFrom(
			pending()
				.select("next_attempt_at_ms")
				.where("next_attempt_at_ms", "<=", nowMs)
				.orderBy("next_attempt_at_ms")
				.limit(most)
				.as("waiting"),
		)
		.select((eb) => [
			eb.fn.countAll<number>().as("due"),
			eb.fn.min<number | null>("waiting.next_attempt_at_ms").as("oldest_ms"),
		])
		.compile();
}

/** Ids of webhooks with deliveries that the batch of this time created. */
export function newlyDueWebhooks(nowMs: number, limit: number): CompiledQuery<{ webhook_id: string }> {
	return pending().select("webhook_id").distinct().where("next_attempt_at_ms", "=", nowMs).limit(limit).compile();
}

export interface ClaimedDelivery {
	readonly id: string;
	/** The organization of the webhook, so a decided tenant. */
	readonly org_id: OrgId;
	readonly attempts: number;
	readonly event_id: string;
	readonly type: string;
	readonly at_ms: number;
	readonly data: string;
	readonly webhook_id: string;
	readonly format: WebhooksTable["format"];
	readonly description: string;
	readonly sealed: string;
	readonly shown_url: string;
	readonly previous_until_ms: number | null;
	readonly failing_since_ms: number | null;
	/** JSON: the events that the webhook chose. */
	readonly events: string;
	readonly user_id: string | null;
}

/** Claims deliveries of one webhook that are due; the second statement returns them. */
export function claimDeliveries(webhookId: string, claim: string, nowMs: number, most: number) {
	return [
		query
			.updateTable("webhook_deliveries")
			.set((eb) => ({
				claim,
				attempts: eb("attempts", "+", 1),
				next_attempt_at_ms: nowMs + LEASE_MS,
				last_attempt_at_ms: nowMs,
			}))
			.where(
				"id",
				"in",
				query
					.selectFrom("webhook_deliveries as d")
					.innerJoin("webhooks as w", "w.id", "d.webhook_id")
					.select("d.id")
					.where("d.webhook_id", "=", webhookId)
					.where("d.state", "=", PENDING)
					.where("d.next_attempt_at_ms", "<=", nowMs)
					.where("w.disabled_at_ms", "is", null)
					.orderBy("d.next_attempt_at_ms")
					.orderBy("d.created_at_ms")
					.orderBy("d.id")
					.limit(most),
			)
			.compile(),
		query
			.selectFrom("webhook_deliveries as d")
			.innerJoin("webhook_events as e", "e.id", "d.event_id")
			.innerJoin("webhooks as w", "w.id", "d.webhook_id")
			.select(["d.id", "d.attempts", "d.event_id", "d.webhook_id", "e.type", "e.at_ms", "e.data", "w.format"])
			.select(["w.description", "w.sealed", "w.previous_until_ms", "w.failing_since_ms", "w.events", "w.user_id"])
			.select("w.shown_url")
			// The organization of the webhook, so a decided tenant.
			.select((eb) => eb.ref("d.org_id").$castTo<OrgId>().as("org_id"))
			.where("d.webhook_id", "=", webhookId)
			.where("d.claim", "=", claim)
			.orderBy("d.created_at_ms")
			.orderBy("d.id")
			.compile() satisfies CompiledQuery<ClaimedDelivery>,
	] as const;
}

export interface AttemptResult {
	readonly id: string;
	/** Null: no answer. */
	readonly statusCode: number | null;
	readonly durationMs: number;
	/** Null: delivered. */
	readonly error: string | null;
	/** Null: delivered, or given up. */
	readonly nextAttemptAtMs: number | null;
}

/** Writes the result of an attempt, unless the delivery was claimed again or given up meanwhile. */
export function settleDelivery(claim: string, result: AttemptResult): CompiledQuery {
	const { id, statusCode, durationMs, error, nextAttemptAtMs } = result;
	return query
		.updateTable("webhook_deliveries")
		.set({
			state: error === null ? "delivered" : nextAttemptAtMs === null ? "failed" : "pending",
			next_attempt_at_ms: nextAttemptAtMs,
			status_code: statusCode,
			duration_ms: durationMs,
			error,
		})
		.where("id", "=", id)
		.where("claim", "=", claim)
		.where("state", "=", "pending")
		.compile();
}

/**
 * Notes since when the attempts of a webhook fail; null: the last one did not. Costs no row if
 * nothing changes.
 */
export function noteFailing(webhookId: string, sinceMs: number | null): CompiledQuery {
	return query
		.updateTable("webhooks")
		.set({ failing_since_ms: sinceMs })
		.where("id", "=", webhookId)
		.where("failing_since_ms", sinceMs === null ? "is not" : "is", null)
		.compile();
}

/** Disables a webhook that its receiver gave up, with an audit entry; nothing if it is disabled. */
export function disableWebhook(
	actor: Actor,
	nowMs: number,
	webhookId: string,
	reason: "failing" | "gone",
	explanation: string,
): CompiledQuery[] {
	return [
		auditEach(
			actor,
			nowMs,
			{ action: "webhook.disable", targetType: "webhook", ofApps: true, details: { reason: explanation } },
			sql`SELECT w.org_id, w.id AS target_id, w.description AS target_name, NULL AS before, NULL AS after,
				a.id AS app_uuid, a.app_id FROM webhooks w LEFT JOIN apps a ON a.id = w.app_id AND a.owner_org = w.org_id
				WHERE w.id = ${webhookId} AND w.disabled_at_ms IS NULL`,
		),
		query
			.updateTable("webhooks")
			.set({ disabled_at_ms: nowMs, disabled_reason: reason })
			.where("id", "=", webhookId)
			.where("disabled_at_ms", "is", null)
			.compile(),
		giveUpDeliveries(webhookId),
	];
}

/** Deliveries of a webhook that was disabled do not wait for it: somebody replays them. */
export function giveUpDeliveries(webhookId: string): CompiledQuery {
	return query
		.updateTable("webhook_deliveries")
		.set({ state: "failed", next_attempt_at_ms: null, error: "the webhook was disabled" })
		.where("webhook_id", "=", webhookId)
		.where("state", "=", PENDING)
		.where((eb) =>
			eb.exists(
				eb
					.selectFrom("webhooks")
					.select("webhooks.id")
					.where("webhooks.id", "=", webhookId)
					.where("webhooks.disabled_at_ms", "is not", null),
			),
		)
		.compile();
}

export type DeliveryRow = Selectable<WebhookDeliveriesTable> & {
	readonly type: string;
	readonly at_ms: number;
	readonly data: string;
	/** The webhook's description, format and app. */
	readonly description: string;
	readonly format: WebhooksTable["format"];
	readonly app_id: string | null;
	readonly public_app_id: string | null;
};

const deliveries = (orgId: string) =>
	query
		.selectFrom("webhook_deliveries as d")
		.innerJoin("webhook_events as e", "e.id", "d.event_id")
		.innerJoin("webhooks as w", "w.id", "d.webhook_id")
		.leftJoin("apps as a", (join) => join.onRef("a.id", "=", "w.app_id").onRef("a.owner_org", "=", "w.org_id"))
		.selectAll("d")
		.select(["e.type", "e.at_ms", "e.data", "w.description", "w.format", "w.app_id", "a.app_id as public_app_id"])
		.where("d.org_id", "=", orgId)
		.where("w.org_id", "=", orgId)
		.where("w.user_id", "is", null);

/**
 * Newest first.
 * @param states empty: all of them
 */
export function deliveriesOf(
	orgId: string,
	webhookId: string,
	states: readonly DeliveryRow["state"][],
	limit: number,
	offset: number,
): CompiledQuery<DeliveryRow> {
	return deliveries(orgId)
		.where("d.webhook_id", "=", webhookId)
		.$if(states.length > 0, (rows) => rows.where("d.state", "in", states))
		.orderBy("d.created_at_ms", "desc")
		.orderBy("d.id", "desc")
		.limit(limit)
		.offset(offset)
		.compile();
}

/**
 * Deliveries of a webhook since a time, by their state, those that were stopped with the failed
 * ones; no more than `most` of each are counted.
 */
export function deliveryCounts(
	orgId: string,
	webhookId: string,
	sinceMs: number,
	most: number,
): CompiledQuery<{ delivered: number; failed: number; pending: number }> {
	const count = (...states: DeliveryRow["state"][]) =>
		query
			.selectFrom(
				query
					.selectFrom("webhook_deliveries")
					.select("id")
					.where("org_id", "=", orgId)
					.where("webhook_id", "=", webhookId)
					.where("created_at_ms", ">=", sinceMs)
					.where("state", "in", states)
					.limit(most)
					.as("counted"),
			)
			.select((eb) => eb.fn.countAll<number>().as("deliveries"));
	return query
		.selectNoFrom((eb) => [
			eb.fn.coalesce(count("delivered"), sql<number>`0`).as("delivered"),
			eb.fn.coalesce(count("failed", "stopped"), sql<number>`0`).as("failed"),
			eb.fn.coalesce(count("pending"), sql<number>`0`).as("pending"),
		])
		.compile();
}

export function deliveryById(orgId: string, id: string): CompiledQuery<DeliveryRow> {
	return deliveries(orgId).where("d.id", "=", id).compile();
}

/** Starts the attempts of a delivery again. The receiver sees the same `webhook-id`. */
export function replayDelivery(orgId: OrgId, id: string, nowMs: number): CompiledQuery {
	return query
		.updateTable("webhook_deliveries")
		.set({ state: "pending", attempts: 0, next_attempt_at_ms: nowMs, claim: null, error: null })
		.where("org_id", "=", orgId)
		.where("id", "=", id)
		.compile();
}

/**
 * Ends the attempts of a delivery. One that runs goes on, and `settleDelivery` leaves the state.
 */
export function stopDelivery(orgId: OrgId, id: string): CompiledQuery {
	return query
		.updateTable("webhook_deliveries")
		.set({ state: "stopped", next_attempt_at_ms: null })
		.where("org_id", "=", orgId)
		.where("id", "=", id)
		.where("state", "=", PENDING)
		.compile();
}

/** For guards: the delivery waits for an attempt. */
export function deliveryWaits(orgId: OrgId, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM webhook_deliveries WHERE id = ${id} AND org_id = ${orgId} AND state = 'pending')`;
}

/** For guards: the delivery exists and its webhook takes events. */
export function deliveryCanRun(orgId: OrgId, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM webhook_deliveries d INNER JOIN webhooks w ON w.id = d.webhook_id
		WHERE d.id = ${id} AND d.org_id = ${orgId} AND w.org_id = ${orgId} AND w.disabled_at_ms IS NULL)`;
}

/** A test event for one webhook, and its delivery. */
export function testDelivery(
	orgId: OrgId,
	webhookId: string,
	ids: { readonly event: string; readonly delivery: string },
	nowMs: number,
	data: string,
): CompiledQuery[] {
	return [
		query
			.insertInto("webhook_events")
			.values({ id: ids.event, org_id: orgId, app_id: null, type: TEST_EVENT, at_ms: nowMs, data })
			.compile(),
		query
			.insertInto("webhook_deliveries")
			.values({
				id: ids.delivery,
				org_id: orgId,
				webhook_id: webhookId,
				event_id: ids.event,
				state: "pending",
				attempts: 0,
				next_attempt_at_ms: nowMs,
				claim: null,
				status_code: null,
				duration_ms: null,
				error: null,
				last_attempt_at_ms: null,
				created_at_ms: nowMs,
			})
			.compile(),
	];
}

export const DELIVERIES_KEPT_MS = DELIVERY_DAYS * DAY_MS;
/** With their deliveries, per run of the clean-up. */
const MOST_OLD_EVENTS = 1_000;

/** Deletes old events with their deliveries, oldest first. */
export function deleteOldWebhookEvents(nowMs: number): CompiledQuery {
	return deleteFirst(
		"webhook_events",
		query
			.selectFrom("webhook_events")
			.select("id")
			.where("at_ms", "<", nowMs - DELIVERIES_KEPT_MS)
			.orderBy("at_ms")
			.limit(MOST_OLD_EVENTS),
	);
}
