/**
 * Statements about the webhooks of an organization. The address and the secrets of a webhook are
 * sealed; a change of them is guarded by the sealed text that it replaces.
 */
import { type CompiledQuery, type Insertable, type Selectable, sql, type Updateable } from "kysely";
import type { OrgId } from "../authz/decide";
import { query } from "./client";
import { appIdOf } from "./public-app-id";
import type { SealedRows } from "./reseal";
import type { WebhooksTable } from "./schema";

export type WebhookRow = Selectable<WebhooksTable>;
/** `public_app_id` is null as well if the app is in another organization now. */
export type ShownWebhookRow = WebhookRow & { readonly public_app_id: string | null };

/** Limit of an organization itself; choices of mails and webhooks of its apps are not counted. */
export const MOST_WEBHOOKS = 50;
/** Limit of an app, whose administrators cannot use up those of the organization. */
export const MOST_WEBHOOKS_OF_APP = 10;

const shown = query
	.selectFrom("webhooks")
	.leftJoin("apps", (join) =>
		join.onRef("apps.id", "=", "webhooks.app_id").onRef("apps.owner_org", "=", "webhooks.org_id"),
	)
	.selectAll("webhooks")
	.select("apps.app_id as public_app_id");

/** The app or, with null, the organization whose settings a webhook belongs to. */
export interface WebhookTargetRow {
	readonly org_id: string;
	/** Null as well if the app was deleted or is in another organization now. */
	readonly app_uuid: string | null;
}

const ownerOfWebhook = (orgId: string) =>
	query
		.selectFrom("organizations as o")
		.innerJoin("webhooks as w", "w.org_id", "o.id")
		.leftJoin("apps as a", (join) =>
			join.onRef("a.id", "=", "w.app_id").onRef("a.owner_org", "=", "o.id").onRef("a.app_id", "<>", "a.id"),
		)
		.select(["o.id as org_id", "a.id as app_uuid"])
		.where("o.id", "=", orgId)
		.where("o.deleted_at_ms", "is", null)
		.where("w.user_id", "is", null);

export function webhookTarget(orgId: string, id: string): CompiledQuery<WebhookTargetRow> {
	return ownerOfWebhook(orgId).where("w.id", "=", id).compile();
}

export function webhookTargetOfDelivery(orgId: string, deliveryId: string): CompiledQuery<WebhookTargetRow> {
	return ownerOfWebhook(orgId)
		.innerJoin("webhook_deliveries as d", "d.webhook_id", "w.id")
		.where("d.id", "=", deliveryId)
		.where("d.org_id", "=", orgId)
		.compile();
}

/** @param publicAppId an app that the organization does not have is no target */
export function webhookTargetOfNew(orgId: string, publicAppId: string | undefined): CompiledQuery<WebhookTargetRow> {
	const organization = query
		.selectFrom("organizations as o")
		.where("o.id", "=", orgId)
		.where("o.deleted_at_ms", "is", null);
	if (publicAppId === undefined) {
		return organization.select(["o.id as org_id", sql<null>`NULL`.as("app_uuid")]).compile();
	}
	return organization
		.innerJoin("apps as a", "a.owner_org", "o.id")
		.where("a.id", "=", appIdOf(publicAppId))
		.whereRef("a.app_id", "<>", "a.id")
		.select(["o.id as org_id", "a.id as app_uuid"])
		.compile();
}

/** Without choices of mails, oldest first; with `publicAppId` only those of the app. */
export function webhooksOf(orgId: string, publicAppId?: string): CompiledQuery<ShownWebhookRow> {
	return shown
		.where("webhooks.org_id", "=", orgId)
		.$if(publicAppId !== undefined, (rows) => rows.where("apps.id", "=", appIdOf(publicAppId ?? "")))
		.where("webhooks.user_id", "is", null)
		.orderBy("webhooks.created_at_ms")
		.orderBy("webhooks.id")
		.limit(MOST_WEBHOOKS)
		.compile();
}

export function webhookById(orgId: string, id: string): CompiledQuery<ShownWebhookRow> {
	return shown
		.where("webhooks.org_id", "=", orgId)
		.where("webhooks.id", "=", id)
		.where("webhooks.user_id", "is", null)
		.compile();
}

export function insertWebhook(orgId: OrgId, values: Omit<Insertable<WebhooksTable>, "org_id">): CompiledQuery {
	return query
		.insertInto("webhooks")
		.values({ ...values, org_id: orgId })
		.compile();
}

export function updateWebhook(
	orgId: OrgId,
	id: string,
	values: Omit<Updateable<WebhooksTable>, "id" | "org_id" | "user_id" | "created_at_ms">,
): CompiledQuery {
	return query.updateTable("webhooks").set(values).where("org_id", "=", orgId).where("id", "=", id).compile();
}

export function deleteWebhook(orgId: OrgId, id: string): CompiledQuery {
	return query.deleteFrom("webhooks").where("org_id", "=", orgId).where("id", "=", id).compile();
}

/** For guards, after the insertion. */
export function webhooksWithinLimit(orgId: OrgId) {
	return sql<boolean>`(SELECT count(*) FROM webhooks WHERE org_id = ${orgId} AND user_id IS NULL AND app_id IS NULL) <= ${MOST_WEBHOOKS}`;
}

/** For guards, after the insertion. */
export function webhooksOfAppWithinLimit(orgId: OrgId, appId: string) {
	return sql<boolean>`(SELECT count(*) FROM webhooks WHERE org_id = ${orgId} AND app_id = ${appId}) <= ${MOST_WEBHOOKS_OF_APP}`;
}

/** For guards: nobody changed the webhook since it was read. */
export function webhookIs(orgId: OrgId, { id, sealed, updated_at_ms }: WebhookRow) {
	return sql<boolean>`EXISTS (SELECT 1 FROM webhooks WHERE org_id = ${orgId} AND id = ${id} AND sealed = ${sealed}
		AND updated_at_ms = ${updated_at_ms})`;
}

export function webhookExists(orgId: OrgId, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM webhooks WHERE org_id = ${orgId} AND id = ${id} AND user_id IS NULL)`;
}

/** A sealed text opens only for its webhook. */
export const webhookPurpose = (id: string) => `webhook:${id}`;

/** The sealed texts of webhooks; of all organizations. */
export const SEALED_WEBHOOKS: SealedRows<{ readonly id: string; readonly sealed: string }> = {
	name: "webhook",
	select: (secretId, limit) =>
		query
			.selectFrom("webhooks")
			.select(["id", "sealed"])
			.where("sealed", "<>", "")
			.where("sealed", "not like", `${secretId}.%`)
			.limit(limit)
			.compile(),
	async replace({ id, sealed: before }, sealAgain) {
		const sealed = await sealAgain(before, webhookPurpose(id));
		return query.updateTable("webhooks").set({ sealed }).where("id", "=", id).where("sealed", "=", before).compile();
	},
};
