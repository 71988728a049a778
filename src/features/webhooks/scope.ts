/**
 * The target of a request about webhooks. A webhook of one app belongs to the people who may change
 * that app's settings, and an organization's webhook to those who may change the organization's.
 * The database decides which of both it is, never the request.
 */
import type { CompiledQuery } from "kysely";
import type { Permission } from "../../authz/permissions";
import { type WebhookTargetRow, webhookTarget, webhookTargetOfDelivery, webhookTargetOfNew } from "../../db/webhooks";
import { appNotFound, organizationNotFound, type RawInput, type ScopeSource, textAt } from "../../http/scope";
import { deliveryNotFound, webhookNotFound } from "./record";

const PERMISSIONS: readonly [Permission, Permission] = ["app.update_settings", "org.update_settings"];

/** Access of an endpoint by the target that `scope` reads. */
const accessTo = (scope: ScopeSource<WebhookTargetRow>) => ({
	permissions: PERMISSIONS,
	scope,
	choose: ({ scopeRow }: { readonly scopeRow: WebhookTargetRow }): [Permission] => [
		scopeRow.app_uuid === null ? "org.update_settings" : "app.update_settings",
	],
});

const targetOf = ({ org_id: orgId, app_uuid: appId }: WebhookTargetRow) =>
	appId === null ? { orgId } : { orgId, appId };

function scopeOf(
	part: "query" | "body",
	statement: (orgId: string, id: string) => CompiledQuery<WebhookTargetRow>,
	hidden: ScopeSource<WebhookTargetRow>["hidden"],
): ScopeSource<WebhookTargetRow> {
	return {
		statement: (raw) => {
			const [orgId, id] = [textAt(raw, `${part}.orgId`), textAt(raw, `${part}.id`)];
			return orgId === undefined || id === undefined ? undefined : statement(orgId.toLowerCase(), id.toLowerCase());
		},
		target: targetOf,
		hidden,
	};
}

const webhookScope = (part: "query" | "body") => scopeOf(part, webhookTarget, webhookNotFound);

/** One webhook, by `orgId` and `id`. */
export const webhookAccess = (part: "query" | "body") => accessTo(webhookScope(part));

/** The webhook of a delivery, by `orgId` and the delivery's `id`. */
export const deliveryAccess = (part: "query" | "body") =>
	accessTo(scopeOf(part, webhookTargetOfDelivery, deliveryNotFound));

function ownerScope(part: "query" | "body"): ScopeSource<WebhookTargetRow> {
	const appIn = (raw: RawInput) => textAt(raw, `${part}.app_id`);
	return {
		statement: (raw) => {
			const orgId = textAt(raw, `${part}.orgId`);
			return orgId === undefined ? undefined : webhookTargetOfNew(orgId.toLowerCase(), appIn(raw));
		},
		target: targetOf,
		hidden: (raw) => (raw === undefined || appIn(raw) === undefined ? organizationNotFound() : appNotFound()),
	};
}

/** The app that the request names by `app_id`, or its organization without one. */
export const ownerAccess = (part: "query" | "body") => accessTo(ownerScope(part));

/** The webhook whose address changes, if the request has its `id`, else the owner of a new one. */
export function addressAccess(part: "body") {
	const [ofOne, ofNew] = [webhookScope(part), ownerScope(part)];
	const isOfOne = (raw: RawInput) => textAt(raw, `${part}.id`) !== undefined;
	return accessTo({
		statement: (raw) => (isOfOne(raw) ? ofOne : ofNew).statement(raw),
		target: targetOf,
		hidden: (raw) => (raw !== undefined && isOfOne(raw) ? ofOne : ofNew).hidden(raw),
	});
}
