/**
 * Events that webhooks and mails report: their types, and the body that Standard Webhooks sends. A type is never renamed, because receivers
 * compare its text. src/db/webhook-triggers.ts says which audit entry is which event.
 */

import { releaseKind, releaseOf } from "../words/release-changes";
import { plainSentence, SERVICE_NAME } from "../words/releases";

/** Each type, and what it says to a person who chooses events. */
const EVENT_TEXTS = {
	"channel.promoted": "a bundle was promoted to a channel",
	"channel.rolled_back": "a channel was rolled back",
	"rollout.started": "a rollout began",
	"rollout.advanced": "a rollout took a step",
	"rollout.paused": "a rollout was paused, by a person or by its health gate",
	"rollout.rolled_back": "the health gate rolled a rollout back",
	"rollout.failing": "a rollout fails, and its channel is set to notify only",
	"bundle.first_device": "the first device runs a bundle",
	"preview.opened": "a preview was opened",
	"preview.closed": "a preview was closed",
	"proposal.created": "a promotion waits for approval",
	"proposal.approved": "a promotion was approved",
	"proposal.rejected": "a promotion was rejected",
	"key.created": "an API key was created",
	"key.deleted": "an API key was deleted",
	"member.added": "a member was added",
	"member.removed": "a member was removed",
	"webhook.disabled": "an endpoint was disabled after failures",
} as const;

export type EventType = keyof typeof EVENT_TEXTS;
export const EVENT_TYPES = Object.keys(EVENT_TEXTS) as EventType[];

/** Events about no app, which only webhooks of the organization get. */
export const ORGANIZATION_EVENTS: readonly EventType[] = [
	"key.created",
	"key.deleted",
	"member.added",
	"member.removed",
];

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

/** The body of every attempt: equal text for equal events. Larger changes are left out, and `truncated` says so. */
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
 * Events about releases, in the kinds of the release timeline. One change may be several events, so the type says which one is meant; null: the
 * change itself says it.
 */
const RELEASES: Readonly<Partial<Record<EventType, string | null>>> = {
	"channel.promoted": "promotion",
	"channel.rolled_back": null,
	"rollout.started": "rollout_started",
	"rollout.advanced": null,
	"rollout.paused": "rollout_paused",
	"rollout.rolled_back": "rollout_rolled_back",
	"rollout.failing": "rollout_failing",
	"proposal.created": "proposal_created",
	"proposal.approved": "proposal_approved",
	"proposal.rejected": "proposal_rejected",
};

/**
 * One sentence about the event, for chats, mails and the list of deliveries: that of the dashboard, with the app and the reason. Its parts are
 * names that people chose: escape them.
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
	if (target !== undefined && Object.hasOwn(RELEASES, type)) {
		const entry = { action, target, before, after, details };
		const kind = RELEASES[type as EventType] ?? releaseKind(entry) ?? "promotion";
		const isWaiting = type === "proposal.created" ? ", which waits for approval" : "";
		return `${who} ${plainSentence(releaseOf(kind, entry))}${isWaiting}${where}${reason}`;
	}
	const by = actor === undefined ? "" : ` by ${actor.name}`;
	const sentences: Readonly<Record<string, string>> = {
		"bundle.first_device": `The first device runs ${name}${where}`,
		"preview.opened": `${who} opened preview ${name}${where}`,
		"preview.closed": `${who} closed preview ${name}${where}`,
		"key.created": `${who} created API key ${name}`,
		"key.deleted": `${who} deleted API key ${name}`,
		"member.added": `${name} became a member${by}`,
		"member.removed": `${name} was removed${by}`,
		"webhook.disabled": `The webhook ${name} was disabled${reason}`,
		[TEST_EVENT]: `This is a test from Capstan${by}`,
	};
	return Object.hasOwn(sentences, type) ? (sentences[type] ?? type) : type;
}
