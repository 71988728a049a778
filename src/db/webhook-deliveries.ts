/**
 * Statements about deliveries of events to webhooks. A consumer claims due deliveries before it sends them: the claim leases them, so that
 * another consumer does not send them as well, and a delivery whose consumer crashed is due again when its lease ends.
 */

import { type CompiledQuery, type Selectable, sql } from "kysely";
import type { OrgId } from "../authz/decide";
import { DELIVERY_DAYS } from "../domain/defaults";
import { DAY_MS } from "../domain/time";
import { TEST_EVENT } from "../domain/webhooks/events";
import { type Actor, auditEach } from "./audit/entries";
import { query } from "./client";
import type { WebhookDeliveriesTable, WebhooksTable } from "./schema";

/** Longer than an attempt, with its writes. */
export const LEASE_MS = 90_000;

/** Ids of webhooks with due deliveries, of all organizations, longest waiting first. */
export function dueWebhooks(nowMs: number, limit: number): CompiledQuery<{ webhook_id: string }> {
	return sql<{ webhook_id: string }>`SELECT webhook_id FROM webhook_deliveries
		WHERE state = 'pending' AND next_attempt_at_ms <= ${nowMs}
		GROUP BY webhook_id ORDER BY min(next_attempt_at_ms) LIMIT ${limit}`.compile(query);
}

/** Due deliveries of all organizations, counted up to a limit, and since when the oldest one waits. */
export function dueDeliveries(nowMs: number, most: number): CompiledQuery<{ due: number; oldest_ms: number | null }> {
	return sql<{
		due: number;
		oldest_ms: number | null;
	}>`SELECT count(*) AS due, min(next_attempt_at_ms) AS oldest_ms FROM (
		SELECT next_attempt_at_ms FROM webhook_deliveries WHERE state = 'pending' AND next_attempt_at_ms <= ${nowMs}
		ORDER BY next_attempt_at_ms LIMIT ${most})`.compile(query);
}

/** Ids of webhooks with deliveries that the batch of this time created. */
export function newlyDueWebhooks(nowMs: number, limit: number): CompiledQuery<{ webhook_id: string }> {
	return sql<{ webhook_id: string }>`SELECT DISTINCT webhook_id FROM webhook_deliveries
		WHERE state = 'pending' AND next_attempt_at_ms = ${nowMs} LIMIT ${limit}`.compile(query);
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
	readonly previous_until_ms: number | null;
	readonly failing_since_ms: number | null;
	/** JSON: the events that the webhook chose. */
	readonly events: string;
	readonly user_id: string | null;
}

/** Claims deliveries of one webhook that are due; the second statement returns them. */
export function claimDeliveries(webhookId: string, claim: string, nowMs: number, most: number) {
	return [
		sql`UPDATE webhook_deliveries SET claim = ${claim}, attempts = attempts + 1, next_attempt_at_ms = ${nowMs + LEASE_MS},
				last_attempt_at_ms = ${nowMs}
			WHERE id IN (SELECT d.id FROM webhook_deliveries d INNER JOIN webhooks w ON w.id = d.webhook_id
				WHERE d.webhook_id = ${webhookId} AND d.state = 'pending' AND d.next_attempt_at_ms <= ${nowMs} AND w.disabled_at_ms IS NULL
				ORDER BY d.next_attempt_at_ms, d.created_at_ms, d.id LIMIT ${most})`.compile(query),
		sql<ClaimedDelivery>`SELECT d.id, d.org_id, d.attempts, d.event_id, e.type, e.at_ms, e.data, d.webhook_id, w.format, w.description,
				w.sealed, w.previous_until_ms, w.failing_since_ms, w.events, w.user_id
			FROM webhook_deliveries d INNER JOIN webhook_events e ON e.id = d.event_id INNER JOIN webhooks w ON w.id = d.webhook_id
			WHERE d.webhook_id = ${webhookId} AND d.claim = ${claim} ORDER BY d.created_at_ms, d.id`.compile(query),
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

/** Notes since when the attempts of a webhook fail; null: the last one did not. Costs no row if nothing changes. */
export function noteFailing(webhookId: string, sinceMs: number | null): CompiledQuery {
	return sql`UPDATE webhooks SET failing_since_ms = ${sinceMs}
		WHERE id = ${webhookId} AND (failing_since_ms IS NULL) <> (${sinceMs} IS NULL)`.compile(query);
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
		sql`UPDATE webhooks SET disabled_at_ms = ${nowMs}, disabled_reason = ${reason}
			WHERE id = ${webhookId} AND disabled_at_ms IS NULL`.compile(query),
		giveUpDeliveries(webhookId),
	];
}

/** Deliveries of a webhook that was disabled do not wait for it: somebody replays them. */
export function giveUpDeliveries(webhookId: string): CompiledQuery {
	return sql`UPDATE webhook_deliveries SET state = 'failed', next_attempt_at_ms = NULL, error = 'the webhook was disabled'
		WHERE webhook_id = ${webhookId} AND state = 'pending'
			AND EXISTS (SELECT 1 FROM webhooks WHERE id = ${webhookId} AND disabled_at_ms IS NOT NULL)`.compile(query);
}

export type DeliveryRow = Selectable<WebhookDeliveriesTable> & {
	readonly type: string;
	readonly at_ms: number;
	readonly data: string;
	/** The webhook's description and app. */
	readonly description: string;
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
		.select(["e.type", "e.at_ms", "e.data", "w.description", "w.app_id", "a.app_id as public_app_id"])
		.where("d.org_id", "=", orgId)
		.where("w.org_id", "=", orgId)
		.where("w.user_id", "is", null);

/** Newest first. */
export function deliveriesOf(
	orgId: string,
	webhookId: string,
	state: DeliveryRow["state"] | undefined,
	limit: number,
	offset: number,
): CompiledQuery<DeliveryRow> {
	return deliveries(orgId)
		.where("d.webhook_id", "=", webhookId)
		.$if(state !== undefined, (rows) => rows.where("d.state", "=", state ?? "pending"))
		.orderBy("d.created_at_ms", "desc")
		.orderBy("d.id", "desc")
		.limit(limit)
		.offset(offset)
		.compile();
}

/** Deliveries of a webhook since a time, by their state; no more than `most` of each are counted. */
export function deliveryCounts(
	orgId: string,
	webhookId: string,
	sinceMs: number,
	most: number,
): CompiledQuery<{ delivered: number; failed: number; pending: number }> {
	const count = (state: DeliveryRow["state"]) => sql<number>`(SELECT count(*) FROM (SELECT 1 FROM webhook_deliveries
		WHERE org_id = ${orgId} AND webhook_id = ${webhookId} AND created_at_ms >= ${sinceMs} AND state = ${state} LIMIT ${most}))`;
	return sql<{ delivered: number; failed: number; pending: number }>`SELECT ${count("delivered")} AS delivered,
		${count("failed")} AS failed, ${count("pending")} AS pending`.compile(query);
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
				...{ id: ids.delivery, org_id: orgId, webhook_id: webhookId, event_id: ids.event, state: "pending" },
				...{ attempts: 0, next_attempt_at_ms: nowMs, claim: null, status_code: null, duration_ms: null, error: null },
				...{ last_attempt_at_ms: null, created_at_ms: nowMs },
			})
			.compile(),
	];
}

export const DELIVERIES_KEPT_MS = DELIVERY_DAYS * DAY_MS;
/** With their deliveries, per run of the clean-up. */
const MOST_OLD_EVENTS = 1_000;

/** Deletes old events with their deliveries, oldest first. */
export function deleteOldWebhookEvents(nowMs: number): CompiledQuery {
	return sql`DELETE FROM webhook_events WHERE id IN (
		SELECT id FROM webhook_events WHERE at_ms < ${nowMs - DELIVERIES_KEPT_MS} ORDER BY at_ms LIMIT ${MOST_OLD_EVENTS})`.compile(
		query,
	);
}
