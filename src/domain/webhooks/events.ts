/**
 * The body of an event that Standard Webhooks sends, and its sentence. The events are those of
 * event-types.ts.
 */

import { releaseKind, releaseOf } from "../words/release-changes";
import { plainSentence, SERVICE_NAME } from "../words/releases";
import { knownEvent } from "./event-types";

/** Sent by the test button, to one endpoint. */
export const TEST_EVENT = "webhook.test";

/** `data` of an event; the facts of an audit entry without the address of its actor. */
export interface EventData {
	readonly organization_id?: string;
	readonly app_id?: string | null;
	readonly action?: string;
	readonly actor?: { readonly type: string; readonly id: string | null; readonly name: string };
	readonly target?: { readonly type: string; readonly id: string; readonly name: string | null };
	readonly before?: Readonly<Record<string, unknown>> | null;
	readonly after?: Readonly<Record<string, unknown>> | null;
	readonly details?: Readonly<Record<string, unknown>>;
}

export interface WebhookEvent {
	readonly type: string;
	readonly atMs: number;
	/** JSON of `EventData`. */
	readonly data: string;
}

/** The limit that Standard Webhooks recommends. */
const MOST_BODY_BYTES = 20_000;

/**
 * The body of every attempt: equal text for equal events. Larger changes are left out, and
 * `truncated` says so.
 */
export function eventBody({ type, atMs, data }: WebhookEvent): string {
	const whole = bodyOf(type, atMs, JSON.parse(data));
	if (new TextEncoder().encode(whole).length <= MOST_BODY_BYTES) return whole;
	const { before: _before, after: _after, details: _details, ...rest }: EventData = JSON.parse(data);
	return bodyOf(type, atMs, { ...rest, truncated: true });
}

function bodyOf(type: string, atMs: number, data: object): string {
	return JSON.stringify({ type, timestamp: new Date(atMs).toISOString(), data });
}

/**
 * One sentence about the event, for chats, mails and the list of deliveries: that of the dashboard,
 * with the app and the reason. Its parts are names that people chose: escape them.
 */
export function eventSentence({ type, data }: Pick<WebhookEvent, "type" | "data">): string {
	const {
		action = type,
		actor,
		target,
		app_id,
		before = null,
		after = null,
		details = {},
	}: EventData = JSON.parse(data);
	const where = app_id == null ? "" : ` (${app_id})`;
	const reason = typeof details.reason === "string" ? `: ${details.reason}` : "";
	const who = actor === undefined || actor.type === "system" ? SERVICE_NAME : actor.name;
	const name = target?.name ?? target?.id ?? "";
	const by = actor === undefined ? "" : ` by ${actor.name}`;
	if (type === TEST_EVENT) return `This is a test from Capstan${by}`;
	const sentence = knownEvent(type)?.sentence;
	if (typeof sentence === "function") return sentence({ who, name, where, by, reason });
	if (sentence === undefined || target === undefined) return type;
	const entry = { action, target, before, after, details };
	const kind = sentence.release ?? releaseKind(entry) ?? "promotion";
	return `${who} ${plainSentence(releaseOf(kind, entry))}${sentence.more}${where}${reason}`;
}
