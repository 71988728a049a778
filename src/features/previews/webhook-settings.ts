/**
 * GET, POST and DELETE /preview/hook, and POST /preview/hook/rotate: the webhooks of GitHub and
 * GitLab that close previews.
 */

import * as v from "valibot";
import { mintSharedSecret } from "../../authz/webhook-secrets";
import { auditStatement } from "../../db/audit/entries";
import { guard } from "../../db/client";
import { deleteHook, type HookListRow, hookExists, hooksOfApp, insertHook, rotateHook } from "../../db/preview-hooks";
import { hooksOfAppQuota } from "../../db/quotas";
import { HOUR_MS } from "../../domain/time";
import { endpoint, Reply } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import {
	acknowledgement,
	nullableRfc3339,
	nullableTime,
	OK,
	optional,
	publicAppId,
	rfc3339,
	time,
	uuid,
} from "../../http/schemas";
import { appScope, hiddenAs } from "../../http/scope";
import { sealHookSecret } from "./hook-secrets";

const DEFAULT_OVERLAP_HOURS = 24;

const hookSchema = v.strictObject({
	id: v.string(),
	provider: v.picklist(["github", "gitlab"]),
	url: v.string(),
	created_at: time,
	updated_at: time,
	/** The previous secret is valid until then. */
	previous_valid_until: nullableTime,
	last_delivery_at: nullableTime,
});
const secretSchema = v.strictObject({
	id: v.string(),
	url: v.string(),
	secret: v.string(),
	previous_valid_until: nullableTime,
});

const EXAMPLE_ID = "0d4c8f4e-2f61-4f39-9b43-6d2f5c1c7b55";
const EXAMPLE_URL = `https://updates.example.com/hooks/github/${EXAMPLE_ID}`;
const hookNotFound = hiddenAs(
	"preview_hook_not_found",
	"The app has no webhook with this id; list them with GET /preview/hook.",
);

const urlOf = (origin: string, provider: string, id: string) => `${origin}/hooks/${provider}/${id}`;

export const listPreviewHooks = endpoint({
	method: "GET",
	path: "/preview/hook",
	tag: "Previews",
	summary: "List the webhooks that close previews of an app",
	access: { permission: "app.update_settings", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId }),
	response: v.array(hookSchema),
	errors: [],
	example: {
		query: { app_id: "com.example.app" },
		response: [
			{
				id: EXAMPLE_ID,
				provider: "github",
				url: EXAMPLE_URL,
				created_at: "2026-11-21T08:00:00.000Z",
				updated_at: "2026-11-21T08:00:00.000Z",
				previous_valid_until: null,
				last_delivery_at: null,
			},
		],
	},
	load: ({ query }) => ({ hooks: hooksOfApp(query.app_id) }),
	async handle({ loaded, origin, nowMs }) {
		return loaded.hooks.map((row: HookListRow) => ({
			id: row.id,
			provider: row.provider,
			url: urlOf(origin, row.provider, row.id),
			created_at: rfc3339(row.created_at_ms),
			updated_at: rfc3339(row.updated_at_ms),
			previous_valid_until: nullableRfc3339((row.previous_until_ms ?? 0) > nowMs ? row.previous_until_ms : null),
			last_delivery_at: nullableRfc3339(row.last_delivery_at_ms),
		}));
	},
});

export const createPreviewHook = endpoint({
	method: "POST",
	path: "/preview/hook",
	tag: "Previews",
	summary: "Create a webhook that closes previews of an app",
	description: [
		"Enter `url` and `secret` in the settings of the repository (GitHub: content type `application/json`,",
		'event "Pull requests"; GitLab: trigger "Merge request events").',
		"The secret is shown once.",
		"A preview then closes seconds after its pull request, without a CI job.",
	],
	access: { permission: "app.update_settings", scope: appScope("body.app_id") },
	body: v.object({ app_id: publicAppId, provider: v.picklist(["github", "gitlab"]) }),
	status: [201],
	response: secretSchema,
	errors: ["quota_exceeded"],
	example: {
		body: { app_id: "com.example.app", provider: "github" },
		response: { id: EXAMPLE_ID, url: EXAMPLE_URL, secret: "whsec_…", previous_valid_until: null },
	},
	async handle({ db, deps, input, principal, scope, scopeRow, origin, nowMs, actor }) {
		const { provider } = input.body;
		const id = deps.newId();
		const secret = mintSharedSecret(deps.randomBytes);
		await batchInQuotas(
			db,
			deps.config.quotas,
			[hooksOfAppQuota(scope.appId)],
			[
				insertHook({
					id,
					app_id: scope.appId,
					provider,
					sealed_secret: await sealHookSecret(deps, id, secret, nowMs),
					previous_sealed_secret: null,
					previous_until_ms: null,
					last_delivery_at_ms: null,
					created_by: principal.userId,
					created_at_ms: nowMs,
					updated_at_ms: nowMs,
				}),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "preview_hook.create",
					target: { type: "preview_hook", id, name: provider },
					app: { uuid: scope.appId, id: scopeRow.app_id },
					after: { provider },
				}),
			],
		);
		return new Reply(201, { id, url: urlOf(origin, provider, id), secret, previous_valid_until: null });
	},
});

export const rotatePreviewHook = endpoint({
	method: "POST",
	path: "/preview/hook/rotate",
	tag: "Previews",
	summary: "Replace the secret of a webhook that closes previews",
	description: [
		"The secret is shown once.",
		"The previous one stays valid for `overlap_hours` (24 by default; 0 ends it immediately), so that no",
		"delivery is lost until the provider has the new one.",
	],
	access: { permission: "app.update_settings", scope: appScope("body.app_id") },
	body: v.object({
		app_id: publicAppId,
		id: uuid,
		overlap_hours: optional(
			v.pipe(
				v.number(),
				v.integer("must be a whole number of hours"),
				v.minValue(0, "must not be negative"),
				v.maxValue(168, "must be at most 168 hours"),
			),
		),
	}),
	response: secretSchema,
	errors: ["preview_hook_not_found"],
	example: {
		body: { app_id: "com.example.app", id: EXAMPLE_ID },
		response: { id: EXAMPLE_ID, url: EXAMPLE_URL, secret: "whsec_…", previous_valid_until: "2026-11-22T08:00:00.000Z" },
	},
	load: ({ body }) => ({ hooks: hooksOfApp(body.app_id) }),
	async handle({ db, deps, input, loaded, scope, scopeRow, origin, nowMs, actor }) {
		const hook = loaded.hooks.find(({ id }) => id === input.body.id);
		if (hook === undefined) throw hookNotFound();
		const secret = mintSharedSecret(deps.randomBytes);
		const untilMs = nowMs + (input.body.overlap_hours ?? DEFAULT_OVERLAP_HOURS) * HOUR_MS;
		await db.batch([
			guard(hookExists(scope.appId, hook.id), hookNotFound),
			rotateHook(scope.appId, hook.id, await sealHookSecret(deps, hook.id, secret, nowMs), untilMs, nowMs),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "preview_hook.rotate",
				target: { type: "preview_hook", id: hook.id, name: hook.provider },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				details: { previous_valid_until: rfc3339(untilMs) },
			}),
		]);
		return {
			id: hook.id,
			url: urlOf(origin, hook.provider, hook.id),
			secret,
			previous_valid_until: nullableRfc3339(untilMs > nowMs ? untilMs : null),
		};
	},
});

export const deletePreviewHook = endpoint({
	method: "DELETE",
	path: "/preview/hook",
	tag: "Previews",
	summary: "Delete a webhook that closes previews",
	access: { permission: "app.update_settings", scope: appScope("query.app_id") },
	query: v.object({ app_id: publicAppId, id: uuid }),
	queryOrBody: true,
	response: acknowledgement,
	errors: ["preview_hook_not_found"],
	example: { query: { app_id: "com.example.app", id: EXAMPLE_ID }, response: OK },
	load: ({ query }) => ({ hooks: hooksOfApp(query.app_id) }),
	async handle({ db, input, loaded, scope, scopeRow, nowMs, actor }) {
		const hook = loaded.hooks.find(({ id }) => id === input.query.id);
		if (hook === undefined) throw hookNotFound();
		await db.batch([
			guard(hookExists(scope.appId, hook.id), hookNotFound),
			deleteHook(scope.appId, hook.id),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "preview_hook.delete",
				target: { type: "preview_hook", id: hook.id, name: hook.provider },
				app: { uuid: scope.appId, id: scopeRow.app_id },
				before: { provider: hook.provider },
			}),
		]);
		return OK;
	},
});
