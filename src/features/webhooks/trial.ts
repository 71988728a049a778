/**
 * POST /webhook/try: a test event for an address before a webhook is saved with it. It is answered
 * with the receiver's answer, stores nothing, and follows the rules, the rights and the limit of
 * saving.
 */
import * as v from "valibot";
import { mintWebhookSecret } from "../../authz/webhook-secrets";
import { webhookById } from "../../db/webhooks";
import { keptAnswer } from "../../domain/webhooks/answers";
import { TEST_EVENT } from "../../domain/webhooks/events";
import { choosesRecords } from "../../domain/webhooks/records";
import { invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { countFetch } from "../../http/limits/requests";
import { optional, publicAppId, uuid } from "../../http/schemas";
import { linkOf, outgoingRequest, testEventData } from "./formats";
import {
	checkUrl,
	EXAMPLE_ORG_ID,
	FORMATS,
	type Format,
	secretsAt,
	TAG,
	unseal,
	urlField,
	webhookNotFound,
} from "./record";
import { addressAccess } from "./scope";
import { sendTo } from "./sending";

export const tryAddress = endpoint({
	method: "POST",
	path: "/webhook/try",
	tag: TAG,
	summary: "Send a test event to an address before a webhook is saved with it",
	description: [
		"With `id`, the address is tried for that webhook, in its format and signed with its secret; without",
		"it for a new webhook, signed with a secret of this request alone.",
		"The answer has that of the receiver, within 15 seconds. Nothing is stored.",
	],
	access: addressAccess("body"),
	refusesUnknown: true,
	body: v.object({
		orgId: uuid,
		url: urlField,
		id: optional(uuid),
		app_id: optional(publicAppId),
		format: optional(v.picklist(FORMATS, `must be one of ${FORMATS.join(", ")}`)),
	}),
	response: v.strictObject({
		/** Null: the receiver did not answer. */
		status_code: v.nullable(v.number()),
		duration_ms: v.number(),
		error: v.nullable(v.string()),
		response: v.nullable(keptAnswer),
	}),
	errors: ["app_not_found", "webhook_not_found"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, url: "https://hooks.example.com/capstan" },
		response: {
			status_code: 204,
			duration_ms: 120,
			error: null,
			response: { headers: {}, body: "", truncated: false },
		},
	},
	load: ({ body: { orgId, id } }) => ({ webhook: id === undefined ? undefined : webhookById(orgId, id) }),
	async handle({ deps, scope, scopeRow, input, loaded, nowMs, actor }) {
		const { url, id, app_id, format: named } = input.body;
		const [row] = loaded.webhook;
		if (id !== undefined && row === undefined) throw webhookNotFound();
		if (row !== undefined && (app_id !== undefined || named !== undefined)) {
			const path = app_id === undefined ? "format" : "app_id";
			throw invalidRequest([{ path, message: "is that of the webhook already; leave it out with id" }]);
		}
		checkUrl(url, deps);
		await countFetch(deps, `webhook address ${scopeRow.app_uuid ?? scope.orgId}`, "Too many addresses were tested");
		const format = (row?.format as Format | undefined) ?? named ?? "standard";
		const sealed =
			row === undefined
				? { url, ...(format === "standard" ? { current: mintWebhookSecret(deps.randomBytes) } : {}) }
				: await unseal(row, deps);
		const event = {
			id: `msg_${deps.newId().replaceAll("-", "")}`,
			type: TEST_EVENT,
			atMs: nowMs,
			data: testEventData(actor, scope.orgId, row === undefined ? (app_id ?? null) : row.public_app_id, {
				type: "webhook",
				id: row?.id ?? "new",
				name: row?.description ?? new URL(url).host,
			}),
		};
		const shape = {
			link: linkOf(event, deps.config.publicUrl),
			isOfRecords: row !== undefined && choosesRecords(JSON.parse(row.events)),
		};
		const secrets = secretsAt(sealed, row?.previous_until_ms ?? null, nowMs);
		const startMs = deps.now();
		const request = await outgoingRequest(format, event, secrets, nowMs, shape);
		const answer = await sendTo(deps, url, request, { organization: scope.orgId });
		return {
			status_code: answer.statusCode,
			duration_ms: (answer.answeredAtMs ?? deps.now()) - startMs,
			error: answer.error,
			response: answer.kept ?? null,
		};
	},
});
