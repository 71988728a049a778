/**
 * The request of a delivery in each format. Names in events were chosen by people: each format
 * escapes them, and mentions are switched off.
 */
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { hmacSha256, type WebhookSecret, webhookSignature } from "../../authz/webhook-secrets";
import type { Actor } from "../../db/audit/entries";
import { type EventData, eventBody, eventSentence, TEST_EVENT, type WebhookEvent } from "../../domain/webhooks/events";
import { choosesRecords, recordBody } from "../../domain/webhooks/records";
import { plainText } from "../../domain/words/plain-text";
import { releasePlace } from "../../domain/words/release-address";
import type { Format } from "./record";

interface DeliveredEvent extends WebhookEvent {
	readonly id: string;
}

export interface OutgoingRequest {
	readonly headers: Readonly<Record<string, string>>;
	readonly body: string;
}

const HEADERS = { "content-type": "application/json", "user-agent": "Capstan-Webhooks/1" } as const;

/** Discord's limit of a description is 4,096 characters, Slack's of a section 3,000. */
const LONGEST_SENTENCE = 1_500;

/** `data` of a test event. */
export function testEventData(
	{ type, id, name }: Pick<Actor, "type" | "id" | "name">,
	orgId: string,
	publicAppId: string | null,
	target: { readonly type: string; readonly id: string; readonly name: string },
): string {
	const data: EventData = {
		organization_id: orgId,
		app_id: publicAppId,
		action: TEST_EVENT,
		actor: { type, id, name },
		target,
	};
	return JSON.stringify(data);
}

interface Shape {
	readonly link: string | undefined;
	/** The webhook chose records. */
	readonly isOfRecords: boolean;
}

/** The body of an event is equal in all attempts. */
function contentOf(format: Format, event: DeliveredEvent, { link, isOfRecords }: Shape) {
	if (format !== "standard") return { body: JSON.stringify(CHATS[format](event, link)), isRecord: false };
	const [table = ""] = event.type.split(".");
	const isRecord = isOfRecords && (choosesRecords([table]) || event.type === TEST_EVENT);
	return { body: isRecord ? recordBody(event) : eventBody(event), isRecord };
}

const HIDDEN = "…";

/** The request of an attempt as people see it: without its signatures. */
export function shownRequest(format: Format, event: DeliveredEvent, atMs: number, shape: Shape): OutgoingRequest {
	const { body, isRecord } = contentOf(format, event, shape);
	if (format !== "standard") return { headers: HEADERS, body };
	const timestamp = String(Math.floor(atMs / 1000));
	return {
		headers: {
			...HEADERS,
			"webhook-id": event.id,
			"webhook-timestamp": timestamp,
			"webhook-signature": HIDDEN,
			...(isRecord
				? {
						"x-capgo-event": event.type,
						"x-capgo-event-id": event.id,
						"x-capgo-timestamp": timestamp,
						"x-capgo-signature": HIDDEN,
					}
				: {}),
		},
		body,
	};
}

export async function outgoingRequest(
	format: Format,
	event: DeliveredEvent,
	secrets: readonly WebhookSecret[],
	nowMs: number,
	shape: Shape,
): Promise<OutgoingRequest> {
	const { body, isRecord } = contentOf(format, event, shape);
	if (format !== "standard") return { headers: HEADERS, body };
	const timestampSeconds = Math.floor(nowMs / 1000);
	return {
		headers: {
			...HEADERS,
			"webhook-id": event.id,
			"webhook-timestamp": String(timestampSeconds),
			"webhook-signature": await webhookSignature(secrets, event.id, timestampSeconds, body),
			...(isRecord ? await recordHeaders(event, secrets, timestampSeconds, body) : {}),
		},
		body,
	};
}

/**
 * The headers that receivers of Capgo's webhooks verify, beside those of Standard Webhooks. The
 * current secret signs, as a text.
 */
async function recordHeaders(
	event: DeliveredEvent,
	[current]: readonly WebhookSecret[],
	timestampSeconds: number,
	body: string,
): Promise<Record<string, string>> {
	if (current === undefined) return {};
	const signature = await hmacSha256(utf8ToBytes(current.secret), utf8ToBytes(`${timestampSeconds}.${body}`));
	return {
		"x-capgo-event": event.type,
		"x-capgo-event-id": event.id,
		"x-capgo-timestamp": String(timestampSeconds),
		"x-capgo-signature": `v1=${timestampSeconds}.${bytesToHex(signature)}`,
	};
}

/**
 * The page of the dashboard that shows the subject of an event: for what a channel serves, the
 * release.
 */
export function linkOf({ data }: Pick<WebhookEvent, "data">, origin: string | undefined): string | undefined {
	if (origin === undefined) return undefined;
	const { action, app_id, target, before, after, details }: EventData = JSON.parse(data);
	if (app_id == null) return `${origin}/dashboard`;
	const channel = target?.type === "channel" ? target.name : null;
	if (channel === null) return `${origin}/dashboard/apps/${encodeURIComponent(app_id)}`;
	const texts = [after?.rolloutVersion, after?.version, details?.version, before?.rolloutVersion];
	// A proposal has no release yet.
	const isProposal = action?.includes("propos") === true;
	const version = isProposal ? undefined : texts.find((text) => typeof text === "string" && text !== "");
	if (typeof version === "string") return `${origin}/dashboard${releasePlace(app_id, channel, version)}`;
	return `${origin}/dashboard/apps/${encodeURIComponent(app_id)}/channels/${encodeURIComponent(channel)}`;
}

type Chat = (event: DeliveredEvent, link: string | undefined) => object;

const CHATS: Readonly<Record<Exclude<Format, "standard">, Chat>> = {
	slack(event, link) {
		const text = slackText(sentenceOf(event));
		const more = link === undefined ? "" : ` · <${link}|Open in Capstan>`;
		return {
			text,
			unfurl_links: false,
			blocks: [
				{ type: "section", text: { type: "mrkdwn", text, verbatim: true } },
				{ type: "context", elements: [{ type: "mrkdwn", text: `\`${event.type}\`${more}` }] },
			],
		};
	},
	discord(event, link) {
		return {
			username: "Capstan",
			embeds: [
				{
					title: event.type,
					description: markdownText(sentenceOf(event)),
					...(link === undefined ? {} : { url: link }),
					color: isAlarm(event.type) ? 0xd6336c : 0x1c7ed6,
					timestamp: new Date(event.atMs).toISOString(),
				},
			],
			allowed_mentions: { parse: [] },
		};
	},
	teams(event, link) {
		return {
			type: "message",
			attachments: [
				{
					contentType: "application/vnd.microsoft.card.adaptive",
					contentUrl: null,
					content: {
						$schema: "http://adaptivecards.io/schemas/adaptive-card.json",
						type: "AdaptiveCard",
						version: "1.4",
						body: [
							{
								type: "TextBlock",
								text: markdownText(sentenceOf(event)),
								wrap: true,
								...(isAlarm(event.type) ? { color: "Attention" } : {}),
							},
							{ type: "TextBlock", text: event.type, isSubtle: true, size: "Small", spacing: "None" },
						],
						...(link === undefined
							? {}
							: { actions: [{ type: "Action.OpenUrl", title: "Open in Capstan", url: link }] }),
					},
				},
			],
		};
	},
};

const isAlarm = (type: string) =>
	["channel.rolled_back", "rollout.paused", "rollout.rolled_back", "rollout.failing", "webhook.disabled"].includes(
		type,
	);

const sentenceOf = (event: DeliveredEvent) => {
	const sentence = plainText(eventSentence(event)).replace(/\s+/g, " ");
	return sentence.length > LONGEST_SENTENCE ? `${sentence.slice(0, LONGEST_SENTENCE)}…` : sentence;
};

/**
 * https://api.slack.com/reference/surfaces/formatting#escaping; the marks of mrkdwn cannot be
 * escaped, only separated. `verbatim` keeps Slack from turning addresses and names into links and
 * mentions, but not in the text of notifications, so their marks are separated as well.
 */
const slackText = (text: string) =>
	text
		.replaceAll("&", "&amp;")
		.replaceAll("<", "&lt;")
		.replaceAll(">", "&gt;")
		.replace(/[*_~`@]|:(?=\/\/)/g, "$&\u200b");

/** With the colon, because an address alone becomes a link. */
const markdownText = (text: string) => text.replace(/[\\*_~`|>#[\]()!<@:-]/g, "\\$&");
