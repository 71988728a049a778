/**
 * Row types of webhooks, their events and their deliveries (src/db/schema.ts).
 */
import type { Flag } from "../../authz/principal";

export interface WebhooksTable {
	id: string;
	org_id: string;
	app_id: string | null;
	user_id: string | null;
	format: "standard" | "slack" | "discord" | "teams" | "mail";
	description: string;
	shown_url: string;
	sealed: string;
	public_key: string | null;
	previous_until_ms: number | null;
	events: string;
	failing_since_ms: number | null;
	disabled_at_ms: number | null;
	disabled_reason: "requested" | "failing" | "gone" | null;
	created_at_ms: number;
	updated_at_ms: number;
}

export interface WebhookEventsTable {
	id: string;
	org_id: string;
	app_id: string | null;
	type: string;
	at_ms: number;
	data: string;
}

export interface WebhookDeliveriesTable {
	id: string;
	org_id: string;
	webhook_id: string;
	event_id: string;
	state: "pending" | "delivered" | "failed" | "stopped";
	attempts: number;
	next_attempt_at_ms: number | null;
	claim: string | null;
	status_code: number | null;
	duration_ms: number | null;
	error: string | null;
	last_attempt_at_ms: number | null;
	created_at_ms: number;
}

export interface WebhookAttemptsTable {
	delivery_id: string;
	number: number;
	at_ms: number;
	shown_url: string;
	is_of_records: Flag;
	duration_ms: number;
	status_code: number | null;
	error: string | null;
	answer: string | null;
}
