/**
 * The webhooks of an organization and of its apps: endpoints that are sent their events. Secrets
 * are shown once, when they are created, and a webhook never moves from an app to the organization
 * or to another app.
 */
import * as v from "valibot";
import { mintWebhookSecret, publicKeyOf } from "../../authz/webhook-secrets";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { installedWith, triggerNames } from "../../db/triggers";
import { giveUpDeliveries } from "../../db/webhook-deliveries";
import {
	deleteWebhook as deleteWebhookStatement,
	insertWebhook,
	MOST_WEBHOOKS,
	MOST_WEBHOOKS_OF_APP,
	updateWebhook,
	webhookById,
	webhookExists,
	webhookIs,
	webhooksOf,
	webhooksOfAppWithinLimit,
	webhooksWithinLimit,
} from "../../db/webhooks";
import { HOUR_MS } from "../../domain/time";
import { ApiError } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { acknowledgement, eventsField, OK, optional, publicAppId, uuid } from "../../http/schemas";
import {
	auditedApp,
	checkEvents,
	checkUrl,
	descriptionField,
	EXAMPLE_ORG_ID,
	EXAMPLE_WEBHOOK,
	FORMATS,
	seal,
	shownUrl,
	TAG,
	unseal,
	urlField,
	webhookAnswer,
	webhookNotFound,
	webhookSchema,
	webhookWithSecretSchema,
} from "./record";
import { ownerAccess, webhookAccess } from "./scope";

const MOST_OVERLAP_HOURS = 7 * 24;
const DEFAULT_OVERLAP_HOURS = 24;

export const webhookChanged = () =>
	new ApiError(
		"webhook_changed",
		"The webhook was changed by another request; read it again with GET /webhook, and repeat the request.",
	);

export const listWebhooks = endpoint({
	method: "GET",
	path: "/webhook",
	tag: TAG,
	summary: "List the webhooks of an organization, or of one app, oldest first",
	description: [
		"With `app_id` the answer has only the webhooks of that app, and needs `app.update_settings` on it.",
		"`url` is shown without its query; of Slack, Discord and Teams only the host, because the whole",
		"address is a secret there.",
		"`failing_since` is the first failed attempt since the last success.",
		"An empty list of `events` means all.",
	],
	access: ownerAccess("query"),
	query: v.object({ orgId: uuid, app_id: optional(publicAppId) }),
	response: v.array(webhookSchema),
	errors: ["app_not_found"],
	example: { query: { orgId: EXAMPLE_ORG_ID }, response: [EXAMPLE_WEBHOOK] },
	load: ({ query }) => ({ webhooks: webhooksOf(query.orgId, query.app_id) }),
	async handle({ loaded, nowMs }) {
		return loaded.webhooks.map((row) => webhookAnswer(row, nowMs));
	},
});

export const createWebhook = endpoint({
	method: "POST",
	path: "/webhook",
	tag: TAG,
	summary: "Send events of an organization, or of one app, to an address",
	description: [
		"`format` is `standard` (Standard Webhooks, the default), `slack`, `discord` or `teams`.",
		"Without `events`, or with an empty list, every event is sent.",
		"With `app_id` only events of that app; then `app.update_settings` on the app is enough to create,",
		"change and delete it.",
		"`secret` and `public_key` verify deliveries of the",
		"format `standard`; the secret is in no later answer.",
	],
	access: ownerAccess("body"),
	body: v.object({
		orgId: uuid,
		url: urlField,
		description: optional(descriptionField),
		format: optional(v.picklist(FORMATS, `must be one of ${FORMATS.join(", ")}`)),
		app_id: optional(publicAppId),
		events: optional(eventsField),
		enabled: optional(v.boolean()),
	}),
	status: [201],
	response: webhookWithSecretSchema,
	errors: ["app_not_found", "webhook_limit_reached"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, url: EXAMPLE_WEBHOOK.url, events: EXAMPLE_WEBHOOK.events },
		response: { ...EXAMPLE_WEBHOOK, secret: "whsec_…" },
	},
	// The database may not have them yet, or those of the release before.
	load: () => ({ triggers: triggerNames() }),
	async handle({ db, deps, scope, scopeRow, input, loaded, nowMs, actor }) {
		const { url, format = "standard", app_id = null } = input.body;
		const appId = scopeRow.app_uuid;
		checkUrl(url, deps);
		checkEvents(input.body.events, appId !== null);
		const id = deps.newId();
		const current = format === "standard" ? mintWebhookSecret(deps.randomBytes) : undefined;
		const row = {
			id,
			app_id: appId,
			user_id: null,
			format,
			description: input.body.description ?? new URL(url).host,
			shown_url: shownUrl(url),
			sealed: await seal({ url, ...(current === undefined ? {} : { current }) }, id, deps, nowMs),
			public_key: current === undefined ? null : await publicKeyOf(current),
			previous_until_ms: null,
			events: JSON.stringify([...new Set(input.body.events ?? [])]),
			failing_since_ms: null,
			disabled_at_ms: input.body.enabled === false ? nowMs : null,
			disabled_reason: input.body.enabled === false ? ("requested" as const) : null,
			created_at_ms: nowMs,
			updated_at_ms: nowMs,
		};
		const shown = { ...row, org_id: scope.orgId, public_app_id: app_id };
		const answer = webhookAnswer(shown, nowMs);
		await db.batch([
			...installedWith(loaded.triggers),
			insertWebhook(scope.orgId, row),
			appId === null
				? guard(webhooksWithinLimit(scope.orgId), () => limitReached("An organization", MOST_WEBHOOKS))
				: guard(webhooksOfAppWithinLimit(scope.orgId, appId), () => limitReached("An app", MOST_WEBHOOKS_OF_APP)),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.create",
				target: { type: "webhook", id, name: row.description },
				...auditedApp(shown),
				after: { url: row.shown_url, format, app_id, events: answer.events },
			}),
		]);
		return new Reply(201, { ...answer, secret: current?.secret ?? null });
	},
});

const limitReached = (owner: string, limit: number) =>
	new ApiError("webhook_limit_reached", `${owner} has at most ${limit} webhooks; delete one that is not used.`, {
		moreInfo: { limit },
	});

export const changeWebhook = endpoint({
	method: "PUT",
	path: "/webhook",
	tag: TAG,
	summary: "Change the address, the events or the name of a webhook, or disable and enable it",
	description:
		"A disabled webhook gets no events, and its waiting deliveries fail; replay them after it is enabled again. The format cannot change.",
	access: webhookAccess("body"),
	body: v.object({
		orgId: uuid,
		id: uuid,
		url: optional(urlField),
		description: optional(descriptionField),
		events: optional(eventsField),
		enabled: optional(v.boolean()),
	}),
	response: webhookSchema,
	errors: ["webhook_not_found", "webhook_changed"],
	example: { body: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_WEBHOOK.id, enabled: true }, response: EXAMPLE_WEBHOOK },
	load: ({ body }) => ({ webhook: webhookById(body.orgId, body.id) }),
	async handle({ db, deps, scope, input, loaded, nowMs, actor }) {
		const row = loaded.webhook[0];
		if (row === undefined) throw webhookNotFound();
		const { url, description = row.description, enabled = row.disabled_at_ms === null } = input.body;
		const before = webhookAnswer(row, nowMs);
		const events = JSON.stringify(input.body.events === undefined ? before.events : [...new Set(input.body.events)]);
		if (url !== undefined) checkUrl(url, deps);
		checkEvents(input.body.events, row.app_id !== null);
		const sealed =
			url === undefined ? row.sealed : await seal({ ...(await unseal(row, deps)), url }, row.id, deps, nowMs);
		const isChanged = enabled !== before.enabled;
		const values = {
			description,
			events,
			sealed,
			shown_url: url === undefined ? row.shown_url : shownUrl(url),
			...(isChanged ? { disabled_at_ms: enabled ? null : nowMs } : {}),
			...(isChanged ? { disabled_reason: enabled ? null : ("requested" as const) } : {}),
			...(isChanged && enabled ? { failing_since_ms: null } : {}),
			updated_at_ms: nowMs,
		};
		const after = webhookAnswer({ ...row, ...values }, nowMs);
		const changed = (["description", "url", "events", "enabled"] as const).filter(
			(field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]),
		);
		if (changed.length === 0 && sealed === row.sealed) return before;
		const fieldsOf = (answer: typeof after) => Object.fromEntries(changed.map((field) => [field, answer[field]]));
		await db.batch([
			guard(webhookIs(scope.orgId, row), webhookChanged),
			updateWebhook(scope.orgId, row.id, values),
			giveUpDeliveries(row.id),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.update",
				target: { type: "webhook", id: row.id, name: description },
				...auditedApp(row),
				before: fieldsOf(before),
				after: fieldsOf(after),
			}),
		]);
		return after;
	},
});

export const rotateWebhookSecret = endpoint({
	method: "POST",
	path: "/webhook/rotate",
	tag: TAG,
	summary: "Create a new signing secret; the old one signs as well for a while",
	description: [
		`Deliveries carry the signatures of both secrets for \`overlap_hours\` (0 to ${MOST_OVERLAP_HOURS};`,
		`${DEFAULT_OVERLAP_HOURS} by default), so that receivers change theirs without losing events.`,
		"Only for the format `standard`.",
	],
	access: webhookAccess("body"),
	body: v.object({
		orgId: uuid,
		id: uuid,
		overlap_hours: optional(
			v.pipe(
				v.number(),
				v.integer("must be a whole number"),
				v.minValue(0, "must not be negative"),
				v.maxValue(MOST_OVERLAP_HOURS, `must be at most ${MOST_OVERLAP_HOURS}`),
			),
		),
	}),
	response: webhookWithSecretSchema,
	errors: ["webhook_not_found", "webhook_changed", "webhook_has_no_secret"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_WEBHOOK.id, overlap_hours: 24 },
		response: {
			...EXAMPLE_WEBHOOK,
			previous_secret_valid_until: "2026-11-22T08:00:00.000Z",
			secret: "whsec_…",
		},
	},
	load: ({ body }) => ({ webhook: webhookById(body.orgId, body.id) }),
	async handle({ db, deps, scope, input, loaded, nowMs, actor }) {
		const row = loaded.webhook[0];
		if (row === undefined) throw webhookNotFound();
		const { url, current } = await unseal(row, deps);
		if (current === undefined) {
			throw new ApiError(
				"webhook_has_no_secret",
				`Deliveries in the format ${row.format} are not signed; create a webhook with the format standard.`,
			);
		}
		const minted = mintWebhookSecret(deps.randomBytes);
		const untilMs = nowMs + (input.body.overlap_hours ?? DEFAULT_OVERLAP_HOURS) * HOUR_MS;
		const values = {
			sealed: await seal({ url, current: minted, previous: current }, row.id, deps, nowMs),
			public_key: await publicKeyOf(minted),
			previous_until_ms: untilMs,
			updated_at_ms: nowMs,
		};
		const answer = webhookAnswer({ ...row, ...values }, nowMs);
		await db.batch([
			guard(webhookIs(scope.orgId, row), webhookChanged),
			updateWebhook(scope.orgId, row.id, values),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.rotate",
				target: { type: "webhook", id: row.id, name: row.description },
				...auditedApp(row),
				details: { previous_secret_valid_until: answer.previous_secret_valid_until },
			}),
		]);
		return { ...answer, secret: minted.secret };
	},
});

export const deleteWebhook = endpoint({
	method: "DELETE",
	path: "/webhook",
	tag: TAG,
	summary: "Delete a webhook with its deliveries",
	access: webhookAccess("query"),
	query: v.object({ orgId: uuid, id: uuid }),
	queryOrBody: true,
	response: acknowledgement,
	errors: ["webhook_not_found"],
	example: { query: { orgId: EXAMPLE_ORG_ID, id: EXAMPLE_WEBHOOK.id }, response: OK },
	load: ({ query }) => ({ webhook: webhookById(query.orgId, query.id) }),
	async handle({ db, scope, loaded, nowMs, actor }) {
		const row = loaded.webhook[0];
		if (row === undefined) throw webhookNotFound();
		const { description, url, format, events } = webhookAnswer(row, nowMs);
		await db.batch([
			guard(webhookExists(scope.orgId, row.id), webhookNotFound),
			deleteWebhookStatement(scope.orgId, row.id),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "webhook.delete",
				target: { type: "webhook", id: row.id, name: description },
				...auditedApp(row),
				before: { url, format, events },
			}),
		]);
		return OK;
	},
});
