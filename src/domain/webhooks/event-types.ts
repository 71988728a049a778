/**
 * Every event of webhooks and mails, in one table: when it is sent, its name in a choice, the audit
 * entries that cause it, and its sentence. Schemas, the trigger (src/db/webhook-triggers.ts), the
 * dashboard's choice and the table of /docs/webhooks derive from an entry. A type is never renamed,
 * because receivers compare its text.
 */

/** The facts that the sentence of an event names. */
interface Named {
	/** The person or key, or the name of this service. */
	readonly who: string;
	/** The name of the target. */
	readonly name: string;
	/** ` (com.example.app)`, or empty for an event of the organization. */
	readonly where: string;
	/** ` by ` and the person or key, or empty. */
	readonly by: string;
	/** `: ` and the reason, or empty. */
	readonly reason: string;
}

/**
 * Fields of a change of a channel that are events, in the order in which they decide if one change
 * sets several.
 */
export const PROMOTING_FIELDS = ["version", "rolloutVersion", "rolloutPausedAtMs", "rolloutPercentageBps"] as const;

/** The value that the change sets: `any` includes the removal of the value. */
type SetValue = "any" | "value" | "text" | "integer";

/** The audit entries that are an event. */
export interface AuditRule {
	/** Each entry with one of these actions. */
	readonly actions: readonly string[];
	/** An entry that creates or changes a channel, if it sets this field. */
	readonly promoting?: {
		readonly field: (typeof PROMOTING_FIELDS)[number];
		readonly changed: SetValue;
		/** Null: the creation of a channel is not the event. */
		readonly created: SetValue | null;
	};
}

interface EventEntry {
	/** When it is sent, for the documentation. */
	readonly sent: string;
	/** Its name among checkboxes. */
	readonly choice: string;
	/** About no app, so only webhooks of the organization get it. */
	readonly ofOrganization?: true;
	/** Null: no audit entry; src/db/webhook-events.ts writes it. */
	readonly audit: AuditRule | null;
	/**
	 * One sentence for chats, mails and the list of deliveries; or the kind of a release, whose
	 * sentence is that of the release timeline. One change may be several events, so the kind says
	 * which one is meant; null: the change itself says it.
	 */
	readonly sentence: ((named: Named) => string) | { readonly release: string | null; readonly more: string };
}

const of = (...actions: readonly string[]): AuditRule => ({ actions });

/** One that a change of a field is, beside audit entries with these actions. */
const setting = (
	field: (typeof PROMOTING_FIELDS)[number],
	set: { readonly changed: SetValue; readonly created: SetValue | null },
	...actions: readonly string[]
): AuditRule => ({ actions, promoting: { field, ...set } });

/** @param more follows the sentence */
const release = (kind: string | null, more = "") => ({ release: kind, more });

/** For example "Ada Okafor opened preview pr-7 (com.example.app)". */
const did =
	(act: string) =>
	({ who, name, where }: Named) =>
		`${who} ${act} ${name}${where}`;

export const EVENTS = {
	"channel.promoted": {
		sent: "a bundle was released to a channel",
		choice: "Releases",
		audit: setting("version", { changed: "any", created: "value" }, "channel.rollout_finish"),
		sentence: release("promotion"),
	},
	"channel.rolled_back": {
		sent: "a channel was rolled back",
		choice: "Rollbacks",
		audit: of("channel.rollback"),
		sentence: release(null),
	},
	"rollout.started": {
		sent: "a rollout began",
		choice: "Rollouts that begin",
		audit: setting("rolloutVersion", { changed: "text", created: "text" }),
		sentence: release("rollout_started"),
	},
	"rollout.advanced": {
		sent: "a rollout took a step",
		choice: "Rollout steps",
		audit: setting("rolloutPercentageBps", { changed: "integer", created: null }, "channel.rollout_advance"),
		sentence: release(null),
	},
	"rollout.paused": {
		sent: "a rollout was paused, by a person or by its health gate",
		choice: "Paused rollouts",
		audit: setting("rolloutPausedAtMs", { changed: "integer", created: "integer" }, "channel.rollout_pause"),
		sentence: release("rollout_paused"),
	},
	"rollout.rolled_back": {
		sent: "the health gate rolled a rollout back",
		choice: "Rollouts that the health gate rolls back",
		audit: of("channel.rollout_rollback"),
		sentence: release("rollout_rolled_back"),
	},
	"rollout.failing": {
		sent: "a rollout fails, and its channel is set to notify only",
		choice: "Rollouts that fail",
		audit: of("channel.rollout_notify"),
		sentence: release("rollout_failing"),
	},
	"bundle.first_device": {
		sent: "the first device runs a bundle that is newer than the webhook",
		choice: "First device on a bundle",
		audit: null,
		sentence: ({ name, where }) => `The first device runs ${name}${where}`,
	},
	"preview.opened": {
		sent: "a preview was opened",
		choice: "Opened previews",
		audit: of("preview.open", "preview.reopen"),
		sentence: did("opened preview"),
	},
	"preview.closed": {
		sent: "a preview was closed",
		choice: "Closed previews",
		audit: of("preview.close"),
		sentence: did("closed preview"),
	},
	"proposal.created": {
		sent: "a release waits for approval",
		choice: "Releases that wait for approval",
		audit: of("proposal.create"),
		sentence: release("proposal_created", ", which waits for approval"),
	},
	"proposal.approved": {
		sent: "a release was approved",
		choice: "Approved releases",
		audit: of("proposal.approve"),
		sentence: release("proposal_approved"),
	},
	"proposal.rejected": {
		sent: "a release was rejected",
		choice: "Rejected releases",
		audit: of("proposal.reject"),
		sentence: release("proposal_rejected"),
	},
	"key.created": {
		sent: "an API key of the organization was created",
		choice: "Created keys",
		ofOrganization: true,
		audit: of("api_key.create"),
		sentence: did("created API key"),
	},
	"key.deleted": {
		sent: "an API key of the organization was deleted",
		choice: "Deleted keys",
		ofOrganization: true,
		audit: of("api_key.delete"),
		sentence: did("deleted API key"),
	},
	"member.added": {
		sent: "a member was added to the organization",
		choice: "Added members",
		ofOrganization: true,
		audit: of("member.add"),
		sentence: ({ name, by }) => `${name} became a member${by}`,
	},
	"member.removed": {
		sent: "a member was removed from the organization",
		choice: "Removed members",
		ofOrganization: true,
		audit: of("member.remove"),
		sentence: ({ name, by }) => `${name} was removed${by}`,
	},
	"webhook.disabled": {
		sent: "another webhook was disabled after failures",
		choice: "Disabled webhooks",
		audit: of("webhook.disable"),
		sentence: ({ name, reason }) => `The webhook ${name} was disabled${reason}`,
	},
} as const satisfies Readonly<Record<string, EventEntry>>;

export type EventType = keyof typeof EVENTS;
export const EVENT_TYPES = Object.keys(EVENTS) as EventType[];

/** Without the literal types of the table, whose entries differ in their fields. */
export const eventOf = (type: EventType): EventEntry => EVENTS[type];

/** The entry of a type that was stored; undefined for one of another release. */
export const knownEvent = (type: string): EventEntry | undefined =>
	Object.hasOwn(EVENTS, type) ? eventOf(type as EventType) : undefined;

/** Whether a webhook of one app gets the event. */
export const isOfApp = (type: EventType): boolean => eventOf(type).ofOrganization !== true;
