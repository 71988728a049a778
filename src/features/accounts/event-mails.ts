/**
 * Mails about events of organizations, chosen by each person for each organization. They are
 * deliveries of webhooks (src/features/webhooks/deliver.ts), with the same attempts.
 */
import * as v from "valibot";
import { AUDIT_READERS } from "../../authz/member-roles";
import { guard } from "../../db/client";
import { chooseEventMails, eventMailsOf, mayHaveMails } from "../../db/event-mails";
import { logAccount } from "../../db/sessions";
import { installedWith, triggerNames } from "../../db/triggers";
import { EVENT_TYPES, type EventType } from "../../domain/webhooks/event-types";
import { endpoint } from "../../http/endpoint";
import { acknowledgement, eventsField, OK, uuid } from "../../http/schemas";
import { organizationNotFound } from "../../http/scope";
import { ACCOUNT_TAG, accountOrigin, OWN_ACCOUNT, sessionOf } from "./new-session";

const MOST_ORGANIZATIONS = 200;
const EXAMPLE: { readonly org_id: string; readonly events: EventType[] } = {
	org_id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21",
	events: ["rollout.paused", "proposal.created"],
};

export const listEventMails = endpoint({
	method: "GET",
	path: "/account/mails",
	tag: ACCOUNT_TAG,
	summary: "List the organizations that can send you mails, and the events that you chose",
	description: "Organizations whose audit log you may read. `available` is false if this server sends no mail.",
	access: { ownSession: OWN_ACCOUNT },
	response: v.strictObject({
		available: v.boolean(),
		organizations: v.array(
			v.strictObject({ org_id: v.string(), name: v.string(), events: v.array(v.picklist(EVENT_TYPES)) }),
		),
	}),
	errors: [],
	example: { response: { available: true, organizations: [{ ...EXAMPLE, name: "Example" }] } },
	async handle({ db, deps, principal, nowMs }) {
		const { userId } = sessionOf(principal);
		const [{ rows }] = await db.batch([eventMailsOf(userId, AUDIT_READERS, nowMs, MOST_ORGANIZATIONS)]);
		return {
			available: deps.config.mail !== undefined,
			organizations: rows.map(({ id, name, events }) => ({
				org_id: id,
				name,
				events: events === null ? [] : JSON.parse(events),
			})),
		};
	},
});

export const chooseMails = endpoint({
	method: "PUT",
	path: "/account/mails",
	tag: ACCOUNT_TAG,
	summary: "Choose the events of an organization that you get mails about",
	description: "Replaces the choice; an empty list ends the mails. Mails go to your verified address.",
	access: { ownSession: OWN_ACCOUNT },
	body: v.object({ org_id: uuid, events: eventsField }),
	response: acknowledgement,
	errors: ["organization_not_found"],
	example: { body: EXAMPLE, response: OK },
	load: () => ({ triggers: triggerNames() }),
	async handle(context) {
		const { db, deps, principal, input, loaded, nowMs } = context;
		const { userId } = sessionOf(principal);
		const { org_id: orgId, events } = input.body;
		await db.batch([
			...installedWith(loaded.triggers),
			guard(mayHaveMails(userId, orgId, AUDIT_READERS, nowMs), organizationNotFound),
			chooseEventMails(userId, orgId, deps.newId(), [...new Set(events)], nowMs),
			logAccount(
				{ userId, action: "mails.choose", details: { organization: orgId, events } },
				accountOrigin(context),
				nowMs,
			),
		]);
		return OK;
	},
});
