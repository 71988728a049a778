/**
 * Webhooks by Capgo's paths, names and events, beside this server's. They are the same webhooks: a
 * list has both kinds, and a delivery about a record carries the headers of both.
 */

import * as v from "valibot";
import type { NamedRows } from "../../db/named-reads";
import { deliveriesOf, deliveryCounts } from "../../db/webhook-deliveries";
import { webhookById, webhooksOf } from "../../db/webhooks";
import { DAY_MS } from "../../domain/time";
import { EVENT_TYPES } from "../../domain/webhooks/event-types";
import { RECORD_TABLES } from "../../domain/webhooks/records";
import { listDeliveries, replayWebhook, testWebhook } from "../../features/webhooks/deliveries";
import { descriptionField, urlField, webhookNotFound } from "../../features/webhooks/record";
import { changeWebhook, createWebhook, deleteWebhook, listWebhooks } from "../../features/webhooks/routes";
import type { AnyEndpoint } from "../../http/endpoint";
import { pageBounds } from "../../http/paging";
import { nullableTime, optional, PAGE_SIZE, pageNumber, shortList, text, time, uuid } from "../../http/schemas";
import { orgScope, type RawInput, type ScopeSource } from "../../http/scope";
import { alias, bodyOf, type Fields, type Form } from "./form";

const EXAMPLE_ORG = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
const EXAMPLE_ID = "0d9b2f0e-2a59-4c56-9a43-6f1f0c9b7c11";
const EXAMPLE_DELIVERY = "7c8f2b64d1a04b0e9c0e0f6f3f1c7a10";
/** Deliveries of each state that an answer counts. */
const MOST_COUNTED = 10_000;

const EVENTS = [...RECORD_TABLES, ...EVENT_TYPES];
const events = v.pipe(
	shortList(v.picklist(EVENTS, `must be one of ${RECORD_TABLES.join(", ")}`), EVENTS.length, "names each event once"),
	v.minLength(1, "must name an event"),
);
const version = optional(v.picklist(["legacy", "standard"], "must be legacy or standard"));
const settings = { enabled: optional(v.boolean()), deliveryVersion: version, delivery_version: version };

const webhookSchema = v.strictObject({
	id: v.string(),
	org_id: v.string(),
	name: v.string(),
	url: v.string(),
	enabled: v.boolean(),
	events: v.array(v.string()),
	delivery_version: v.literal("standard"),
	created_at: time,
	updated_at: time,
	created_by: v.null(),
});
const withSecret = v.strictObject({ ...webhookSchema.entries, secret: v.nullable(v.string()) });

const webhookOf = (own: Fields, orgId: string): Fields => ({
	id: own.id,
	org_id: orgId,
	name: own.description,
	url: own.url,
	enabled: own.enabled,
	events: own.events,
	delivery_version: "standard",
	created_at: own.created_at,
	updated_at: own.updated_at,
	created_by: null,
});

/** Every delivery is signed in both ways, so the older one alone is not to be had. */
const withoutEffect = (raw: RawInput) =>
	["deliveryVersion", "delivery_version"].filter((name) => bodyOf(raw)[name] === "legacy");

type Reading = Form & {
	readonly summary: string;
	readonly example: AnyEndpoint["example"];
	readonly status?: NonNullable<AnyEndpoint["status"]>;
	readonly input?: { readonly query?: v.GenericSchema; readonly body?: v.GenericSchema };
};

/**
 * An alias whose input is checked under the names of scripts, and becomes that of the endpoint. It
 * is for people who may change the organization, whose rights include those on its apps.
 */
function webhookAlias<const Method_ extends AnyEndpoint["method"], const Path extends string>(
	own: AnyEndpoint,
	method: Method_,
	path: Path,
	{ input, ...form }: Reading,
) {
	const formed = alias(own, method, path, form);
	const { scope } = formed.access as { readonly scope: ScopeSource<never> };
	const access: AnyEndpoint["access"] = { permission: "org.update_settings", scope };
	return { ...formed, ...input, access };
}

const exampleWebhook = {
	id: EXAMPLE_ID,
	org_id: EXAMPLE_ORG,
	name: "Release log",
	url: "https://hooks.example.com/capstan",
	enabled: true,
	events: ["channels"],
	delivery_version: "standard",
	created_at: "2026-11-21T08:00:00.000Z",
	updated_at: "2026-11-21T08:00:00.000Z",
	created_by: null,
};

const record = (own: unknown, { scope }: { readonly scope: { readonly orgId: string } }) =>
	webhookOf(own as Fields, scope.orgId);

const creation = webhookAlias(createWebhook, "POST", "/webhooks", {
	summary: "Create a webhook for records",
	input: {
		body: v.pipe(
			v.object({ orgId: uuid, name: descriptionField, url: urlField, events, ...settings }),
			v.transform(({ orgId, name, url, events, enabled }) => ({ orgId, url, description: name, events, enabled })),
		),
	},
	forms: { withoutEffect },
	response: () => v.strictObject({ status: v.literal("Webhook created"), webhook: withSecret }),
	answer: (own, asked) => ({
		status: "Webhook created",
		webhook: { ...record(own, asked), secret: (own as Fields).secret },
	}),
	example: { body: { orgId: EXAMPLE_ORG, name: "Release log", url: exampleWebhook.url, events: ["channels"] } },
});

const byWebhook = { webhookId: uuid, orgId: uuid } as const;

const change = webhookAlias(changeWebhook, "PUT", "/webhooks", {
	summary: "Change a webhook",
	scope: orgScope("body.orgId") as unknown as ScopeSource<never>,
	input: {
		body: v.pipe(
			v.object({
				...byWebhook,
				name: optional(descriptionField),
				url: optional(urlField),
				events: optional(events),
				...settings,
			}),
			v.transform(({ orgId, webhookId, name, url, events, enabled }) => ({
				orgId,
				id: webhookId,
				description: name,
				url,
				events,
				enabled,
			})),
		),
	},
	forms: { withoutEffect },
	response: () => v.strictObject({ status: v.literal("Webhook updated"), webhook: webhookSchema }),
	answer: (own, asked) => ({ status: "Webhook updated", webhook: record(own, asked) }),
	example: { body: { orgId: EXAMPLE_ORG, webhookId: EXAMPLE_ID, enabled: true } },
});

const removal = webhookAlias(deleteWebhook, "DELETE", "/webhooks", {
	summary: "Delete a webhook",
	scope: orgScope("query.orgId") as unknown as ScopeSource<never>,
	input: {
		query: v.pipe(
			v.object(byWebhook),
			v.transform(({ orgId, webhookId }) => ({ orgId, id: webhookId })),
		),
	},
	response: () => v.strictObject({ status: v.literal("Webhook deleted"), webhookId: v.string() }),
	answer: (_, { input }) => ({ status: "Webhook deleted", webhookId: input.query?.id ?? EXAMPLE_ID }),
	example: { query: { orgId: EXAMPLE_ORG, webhookId: EXAMPLE_ID } },
});

const test = webhookAlias(testWebhook, "POST", "/webhooks/test", {
	summary: "Send a test event to a webhook",
	scope: orgScope("body.orgId") as unknown as ScopeSource<never>,
	input: {
		body: v.pipe(
			v.object(byWebhook),
			v.transform(({ orgId, webhookId }) => ({ orgId, id: webhookId })),
		),
	},
	response: () =>
		v.strictObject({
			success: v.literal(true),
			status: v.null(),
			duration_ms: v.null(),
			response_preview: v.literal(""),
			delivery_id: v.string(),
			message: v.string(),
		}),
	answer: (own) => ({
		success: true,
		status: null,
		duration_ms: null,
		response_preview: "",
		delivery_id: (own as Fields).delivery_id,
		message: "The test event is on its way; GET /webhooks/deliveries shows what the receiver answered.",
	}),
	example: { body: { orgId: EXAMPLE_ORG, webhookId: EXAMPLE_ID } },
});

const retry = webhookAlias(replayWebhook, "POST", "/webhooks/deliveries/retry", {
	summary: "Send an event again to its webhook",
	scope: orgScope("body.orgId") as unknown as ScopeSource<never>,
	input: {
		body: v.pipe(
			v.object({ orgId: uuid, deliveryId: text(64) }),
			v.transform(({ orgId, deliveryId }) => ({ orgId, id: deliveryId.toLowerCase() })),
		),
	},
	response: () => v.strictObject({ status: v.literal("Delivery queued for retry"), deliveryId: v.string() }),
	answer: (own) => ({ status: "Delivery queued for retry", deliveryId: (own as Fields).delivery_id }),
	example: { body: { orgId: EXAMPLE_ORG, deliveryId: EXAMPLE_DELIVERY } },
});

interface Loading {
	readonly query: {
		readonly orgId: string;
		readonly webhookId?: string;
		readonly id: string;
		readonly page: number;
	} & {
		readonly status?: keyof typeof STATES;
	};
}
interface Loaded {
	readonly loaded: NamedRows<{ readonly counts: ReturnType<typeof deliveryCounts> }>;
}

const counts = v.strictObject({ success: v.number(), failed: v.number(), pending: v.number() });
const countsOf = (rows: readonly { delivered: number; failed: number; pending: number }[]) => {
	const [{ delivered, failed, pending } = { delivered: 0, failed: 0, pending: 0 }] = rows;
	return { success: delivered, failed, pending };
};

const listHandle = listWebhooks.handle as unknown as (context: unknown) => Promise<readonly Fields[]>;
const list = {
	...webhookAlias(listWebhooks, "GET", "/webhooks", {
		summary: "List webhooks, or show one with its deliveries of a day",
		input: { query: v.object({ orgId: uuid, webhookId: optional(uuid), page: pageNumber }) },
		response: () => v.union([v.array(webhookSchema), v.strictObject({ ...webhookSchema.entries, stats_24h: counts })]),
		example: { query: { orgId: EXAMPLE_ORG }, response: [exampleWebhook] },
	}),
	errors: [...listWebhooks.errors, "webhook_not_found" as const],
	load: ({ query: { orgId, webhookId } }: Loading, nowMs: number) => ({
		webhooks: webhookId === undefined ? webhooksOf(orgId) : webhookById(orgId, webhookId),
		counts: webhookId === undefined ? undefined : deliveryCounts(orgId, webhookId, nowMs - DAY_MS, MOST_COUNTED),
	}),
	handle: async (context: never) => {
		const { query } = (context as { input: Loading }).input;
		const { orgId } = (context as { scope: { orgId: string } }).scope;
		const shown = (await listHandle(context)).map((own) => webhookOf(own, orgId));
		if (query.webhookId === undefined) return query.page === 0 ? shown : [];
		const [webhook] = shown;
		if (webhook === undefined) throw webhookNotFound();
		return { ...webhook, stats_24h: countsOf((context as Loaded).loaded.counts) };
	},
};

/** A delivery that a person stopped is a failed one for scripts. */
const STATES = { success: ["delivered"], failed: ["failed", "stopped"], pending: ["pending"] } as const;
const STATE_NAMES = Object.keys(STATES) as (keyof typeof STATES)[];

const delivery = v.strictObject({
	id: v.string(),
	webhook_id: v.string(),
	org_id: v.string(),
	event_id: v.string(),
	event_type: v.string(),
	status: v.picklist(STATE_NAMES),
	response_status: v.nullable(v.number()),
	error: v.nullable(v.string()),
	attempt_count: v.number(),
	duration_ms: v.nullable(v.number()),
	next_retry_at: nullableTime,
	created_at: time,
});
const pagination = v.strictObject({
	page: v.number(),
	per_page: v.number(),
	total: v.number(),
	has_more: v.boolean(),
});

const deliveriesHandle = listDeliveries.handle as unknown as (
	context: unknown,
) => Promise<{ readonly body: readonly Fields[] }>;
const deliveries = {
	...webhookAlias(listDeliveries, "GET", "/webhooks/deliveries", {
		summary: "List the deliveries of a webhook, newest first",
		scope: orgScope("query.orgId") as unknown as ScopeSource<never>,
		input: {
			query: v.pipe(
				v.object({
					...byWebhook,
					page: pageNumber,
					status: optional(v.picklist(STATE_NAMES, `must be one of ${STATE_NAMES.join(", ")}`)),
				}),
				v.transform(({ webhookId, ...query }) => ({ ...query, id: webhookId })),
			),
		},
		response: () => v.strictObject({ deliveries: v.array(delivery), pagination }),
		example: {
			query: { orgId: EXAMPLE_ORG, webhookId: EXAMPLE_ID },
			response: { deliveries: [], pagination: { page: 0, per_page: PAGE_SIZE, total: 0, has_more: false } },
		},
	}),
	load: ({ query: { orgId, id, page, status } }: Loading) => {
		const { limit, offset } = pageBounds(page);
		return {
			webhook: webhookById(orgId, id),
			deliveries: deliveriesOf(orgId, id, status === undefined ? [] : STATES[status], limit, offset),
			counts: deliveryCounts(orgId, id, 0, MOST_COUNTED),
		};
	},
	handle: async (context: never) => {
		const { query } = (context as { input: Loading }).input;
		const { orgId } = (context as { scope: { orgId: string } }).scope;
		const { body } = await deliveriesHandle(context);
		const counted = countsOf((context as Loaded).loaded.counts);
		const total =
			query.status === undefined ? counted.success + counted.failed + counted.pending : counted[query.status];
		return {
			deliveries: body.map((own) => ({
				id: own.id,
				webhook_id: query.id,
				org_id: orgId,
				event_id: own.event_id,
				event_type: own.type,
				status: STATE_NAMES.find((name) => STATES[name].some((state) => state === own.state)) ?? "pending",
				response_status: own.status_code,
				error: own.error,
				attempt_count: own.attempts,
				duration_ms: own.duration_ms,
				next_retry_at: own.next_attempt_at,
				created_at: own.at,
			})),
			pagination: {
				page: query.page,
				per_page: PAGE_SIZE,
				total,
				has_more: (query.page + 1) * PAGE_SIZE < total,
			},
		};
	},
};

export const webhookEndpoints = [list, creation, change, removal, test, deliveries, retry] as const;
