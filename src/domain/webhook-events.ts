/**
 * Events that webhooks and mails report: their types, and the body that Standard Webhooks sends. A type is never renamed, because receivers
 * compare its text. src/db/webhook-triggers.ts says which audit entry is which event.
 */

/** Each type, and what it says to a person who chooses events. */
export const EVENT_TEXTS = {
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
export const MOST_BODY_BYTES = 20_000;

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

/** One sentence about the event, for chats, mails and the list of deliveries. Its parts are names that people chose: escape them. */
export function eventSentence({ type, data }: Pick<WebhookEvent, "type" | "data">): string {
	const { actor, target, app_id, after, details }: EventData = JSON.parse(data);
	const by = actor === undefined ? "" : ` by ${actor.name}`;
	const where = app_id == null ? "" : ` (${app_id})`;
	const name = target?.name ?? target?.id ?? "";
	const version = textOf(after?.version) ?? textOf(after?.rolloutVersion) ?? textOf(details?.version);
	const bundle = version === undefined ? "the store build" : version;
	const share = typeof after?.rolloutPercentageBps === "number" ? after.rolloutPercentageBps / 100 : undefined;
	const reason = textOf(details?.reason);
	const because = reason === undefined ? "" : `: ${reason}`;
	const sentences: Readonly<Record<EventType | typeof TEST_EVENT, string>> = {
		"channel.promoted": `${bundle} was promoted to ${name}${by}${where}`,
		"channel.rolled_back": `${name} was rolled back to ${bundle}${by}${where}${because}`,
		"rollout.started": `The rollout of ${bundle} on ${name} began${by}${where}`,
		"rollout.advanced": `The rollout on ${name} now reaches ${share ?? 0} %${by}${where}${because}`,
		"rollout.paused": `The rollout on ${name} was paused${by}${where}${because}`,
		"rollout.rolled_back": `The rollout of ${bundle} on ${name} was rolled back${by}${where}${because}`,
		"rollout.failing": `The rollout of ${bundle} on ${name} fails${where}${because}`,
		"bundle.first_device": `The first device runs ${name}${where}`,
		"preview.opened": `Preview ${name} was opened${by}${where}`,
		"preview.closed": `Preview ${name} was closed${by}${where}`,
		"proposal.created": `A promotion to ${name} waits for approval${by}${where}`,
		"proposal.approved": `The promotion to ${name} was approved${by}${where}`,
		"proposal.rejected": `The promotion to ${name} was rejected${by}${where}`,
		"key.created": `API key ${name} was created${by}`,
		"key.deleted": `API key ${name} was deleted${by}`,
		"member.added": `${name} became a member${by}`,
		"member.removed": `${name} was removed${by}`,
		"webhook.disabled": `The webhook ${name} was disabled${because}`,
		[TEST_EVENT]: `This is a test from Capstan${by}`,
	};
	return Object.hasOwn(sentences, type) ? sentences[type as EventType] : type;
}

const textOf = (value: unknown) => (typeof value === "string" ? value : undefined);
