/**
 * Statements about offers of an app to another organization. An offer grants only the right to
 * accept it. The app moves in the batch of the acceptance, which ends the bindings of the giving
 * organization's keys and people. An offer is valid while the account and the key that made it may
 * still give the app away.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId, OrgId } from "../authz/decide";
import { GIVING } from "../authz/member-roles";
import { ROLE_NAMES, type RoleName } from "../authz/permissions";
import { TRANSFER_DAYS } from "../domain/defaults";
import { DAY_MS } from "../domain/time";
import { type Actor, auditEach } from "./audit/entries";
import { insertEach, jsonList, query } from "./client";
import { grantsAll } from "./custom-roles";
import { releaseDeltaFiles } from "./delta-files";
import { memberHoldsAll } from "./members";
import { appIdOf } from "./public-app-id";
import type { Holder } from "./role-bindings";
import { selectedToGarbage } from "./uploads";

/** Lifetime of an offer. */
export const TRANSFER_LIFETIME_MS = TRANSFER_DAYS * DAY_MS;

/** Offers the app and replaces an earlier offer. */
export function offerApp(
	orgId: OrgId,
	appId: AppId,
	offer: { readonly toOrg: string; readonly offeredBy: string; readonly holder: Holder },
	nowMs: number,
): CompiledQuery {
	const app = query.selectFrom("apps").where("id", "=", appId).where("owner_org", "=", orgId);
	return insertEach("app_transfers", app, (eb) => ({
		app_id: eb.ref("id"),
		from_org: eb.ref("owner_org"),
		to_org: offer.toOrg,
		offered_by: offer.offeredBy,
		offered_by_user: offer.holder.userId,
		offered_by_key: offer.holder.keyId,
		created_at_ms: nowMs,
		expires_at_ms: nowMs + TRANSFER_LIFETIME_MS,
	}))
		.onConflict((conflict) =>
			conflict.column("app_id").doUpdateSet((eb) => ({
				from_org: eb.ref("excluded.from_org"),
				to_org: eb.ref("excluded.to_org"),
				offered_by: eb.ref("excluded.offered_by"),
				offered_by_user: eb.ref("excluded.offered_by_user"),
				offered_by_key: eb.ref("excluded.offered_by_key"),
				created_at_ms: eb.ref("excluded.created_at_ms"),
				expires_at_ms: eb.ref("excluded.expires_at_ms"),
			})),
		)
		.compile();
}

export interface TransferRow {
	readonly id: string;
	readonly app_id: string;
	readonly name: string;
	readonly from_org: string;
	readonly from_name: string;
	readonly to_org: string;
	readonly offered_by: string;
	readonly created_at_ms: number;
	readonly expires_at_ms: number;
}

const TRANSFERS = sql`SELECT a.id, a.app_id, a.name, t.from_org, o.name AS from_name, t.to_org, t.offered_by, t.created_at_ms, t.expires_at_ms
	FROM app_transfers t INNER JOIN apps a ON a.id = t.app_id AND a.owner_org = t.from_org
	INNER JOIN organizations o ON o.id = t.from_org AND o.deleted_at_ms IS NULL`;

/** Open offers to and from the organization, the newest first. */
export function transfersPage(orgId: string, nowMs: number, limit: number, offset: number): CompiledQuery<TransferRow> {
	return sql<TransferRow>`${TRANSFERS} WHERE (t.from_org = ${orgId} OR t.to_org = ${orgId}) AND t.expires_at_ms > ${nowMs}
			AND ${isBacked(nowMs)} ORDER BY t.created_at_ms DESC, a.id LIMIT ${limit} OFFSET ${offset}`.compile(query);
}

/** The offer of an app by its public id, expired or not; for the scope of a request. */
export function transferOf(publicAppId: string): CompiledQuery<TransferRow> {
	return sql<TransferRow>`${TRANSFERS} WHERE a.id = ${appIdOf(publicAppId)}`.compile(query);
}

/**
 * For guards: the offer is unchanged and has not expired, and the giving organization still has the
 * app.
 */
export function transferIsOpen(offer: TransferRow, nowMs: number) {
	return sql<boolean>`EXISTS (${TRANSFERS} WHERE a.id = ${offer.id} AND t.from_org = ${offer.from_org} AND t.to_org = ${offer.to_org}
		AND t.created_at_ms = ${offer.created_at_ms} AND t.expires_at_ms > ${nowMs})`;
}

/**
 * Condition on an offer `t`: its account and its key still hold a role that may give the app away.
 */
const isBacked = (
	nowMs: number,
) => sql<boolean>`(${memberHoldsAll(sql`t.from_org`, sql`t.offered_by_user`, GIVING, nowMs)}
	AND (t.offered_by_key IS NULL OR EXISTS (SELECT 1 FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id
		WHERE b.api_key_id = t.offered_by_key AND b.org_id = t.from_org AND b.scope_type = 'org'
			AND ${grantsAll(GIVING)} AND coalesce(b.expires_at_ms, ${nowMs} + 1) > ${nowMs}
			AND coalesce(k.expires_at_ms, ${nowMs} + 1) > ${nowMs})))`;

/** For guards: the account and key of the offer may still give the app away. */
export function transferIsBacked(appId: string, nowMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM app_transfers t WHERE t.app_id = ${appId} AND ${isBacked(nowMs)})`;
}

/** Withdraws the offers of a person and their keys, when the person loses the right to offer. */
export function withdrawTransfersOf(orgId: OrgId, userId: string, actor: Actor, nowMs: number): CompiledQuery[] {
	return [
		auditEach(
			actor,
			nowMs,
			{ action: "app.transfer_withdraw", targetType: "app", ofApps: true, details: { lost_the_right: userId } },
			sql`SELECT t.from_org AS org_id, a.id AS target_id, a.app_id AS target_name, a.id AS app_uuid, a.app_id,
				json_object('to_org', t.to_org) AS before, NULL AS after
				FROM app_transfers t INNER JOIN apps a ON a.id = t.app_id
				WHERE t.from_org = ${orgId} AND t.offered_by_user = ${userId} ORDER BY a.id`,
		),
		query.deleteFrom("app_transfers").where("from_org", "=", orgId).where("offered_by_user", "=", userId).compile(),
	];
}

/** For guards: there is an offer of the app by the organization. */
export function transferIsOffered(orgId: OrgId, appId: AppId) {
	return sql<boolean>`EXISTS (SELECT 1 FROM app_transfers WHERE app_id = ${appId} AND from_org = ${orgId})`;
}

export function deleteTransfer(appId: string): CompiledQuery {
	return query.deleteFrom("app_transfers").where("app_id", "=", appId).compile();
}

const NEW_PAGE_ID = sql<string>`lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-'
	|| hex(randomblob(2)) || '-' || hex(randomblob(6)))`;

/**
 * Moves the app with everything in it, because its rows name only the app. Channel promoters that
 * are roles stay; keys and people are removed.
 *
 * @param administrators roles that become promoters of a protected channel without any other
 * promoter
 */
export function moveApp(offer: TransferRow, administrators: readonly RoleName[], nowMs: number): CompiledQuery[] {
	const promoters = sql<string>`coalesce((SELECT nullif(json_group_array(value), '[]') FROM json_each(promoters)
		WHERE value IN ${jsonList(JSON.stringify(ROLE_NAMES))}), ${JSON.stringify(administrators)})`;
	return [
		// Upload links of the giving organization's keys would stay valid otherwise.
		selectedToGarbage(
			sql`SELECT object_prefix FROM uploads WHERE app_id = ${offer.id} AND completed_at_ms IS NULL`,
			nowMs,
		),
		releaseDeltaFiles(sql`app_id = ${offer.id} AND status = 'pending'`, nowMs),
		...[
			query.deleteFrom("uploads").where("app_id", "=", offer.id).where("completed_at_ms", "is", null),
			query.deleteFrom("bundles").where("app_id", "=", offer.id).where("status", "=", "pending"),
			// With their publishers, which trust jobs of the giving organization.
			query
				.deleteFrom("api_keys")
				.where("id", "in", query.selectFrom("publishers").select("api_key_id").where("app_id", "=", offer.id)),
			query.deleteFrom("role_bindings").where("app_id", "=", offer.id),
			query.deleteFrom("group_bindings").where("app_id", "=", offer.id),
			query.deleteFrom("webhooks").where("org_id", "=", offer.from_org).where("app_id", "=", offer.id),
			query.deleteFrom("app_reservations").where("org_id", "=", offer.from_org).where("app_id", "=", offer.app_id),
			// Everybody who saw a page of the giving organization knows its address.
			query
				.updateTable("previews")
				.set({ page_id: NEW_PAGE_ID, revision: sql<number>`revision + 1` })
				.where("app_id", "=", offer.id),
			query
				.updateTable("proposals")
				.set({ state: "withdrawn", decided_at_ms: nowMs })
				.where("app_id", "=", offer.id)
				.where("state", "=", "pending"),
			query.updateTable("channels").set({ promoters }).where("app_id", "=", offer.id).where("protected", "=", 1),
			query
				.updateTable("apps")
				.set({ owner_org: offer.to_org, updated_at_ms: nowMs, revision: sql<number>`revision + 1` })
				.where("id", "=", offer.id)
				.where("owner_org", "=", offer.from_org),
		].map((statement) => statement.compile()),
		deleteTransfer(offer.id),
	];
}

interface EndingBinding {
	readonly id: string;
	readonly role_name: string;
	readonly scope_type: "app" | "channel";
	readonly channel_id: number | null;
	readonly holder_type: "api_key" | "user" | "group";
	readonly holder_id: string;
	readonly holder_name: string;
	/** Number of all bindings, before the limit. */
	readonly bindings: number;
}

/** Role bindings on the app, which a transfer ends. */
export function bindingsEnding(publicAppId: string, limit: number): CompiledQuery<EndingBinding> {
	const first = (table: string) => sql`(SELECT * FROM ${sql.table(table)} WHERE app_id = ${appIdOf(publicAppId)}
		ORDER BY created_at_ms, id LIMIT ${limit})`;
	const count = (table: string) =>
		sql`(SELECT count(*) FROM ${sql.table(table)} WHERE app_id = ${appIdOf(publicAppId)})`;
	return sql<EndingBinding>`SELECT id, role_name, scope_type, channel_id, holder_type, holder_id, holder_name,
			${count("role_bindings")} + ${count("group_bindings")} AS bindings FROM (
			SELECT b.id, b.role_name, b.scope_type, b.channel_id, CASE WHEN k.id IS NULL THEN 'user' ELSE 'api_key' END AS holder_type,
				coalesce(k.id, u.id) AS holder_id, coalesce(k.name, u.email) AS holder_name, b.created_at_ms
			FROM ${first("role_bindings")} b LEFT JOIN api_keys k ON k.id = b.api_key_id LEFT JOIN users u ON u.id = b.user_id
			UNION ALL SELECT b.id, b.role_name, b.scope_type, b.channel_id, 'group', g.id, g.name, b.created_at_ms
			FROM ${first("group_bindings")} b INNER JOIN groups g ON g.id = b.group_id)
		ORDER BY created_at_ms, id LIMIT ${limit}`.compile(query);
}
