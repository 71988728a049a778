/**
 * People who may release to a protected channel, for the question who approves a proposal. The
 * statement finds accounts by their roles and their own id; which of them may approve is decided by
 * the rule of the approval itself (authz/promoters.ts).
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import { ACCOUNT_BINDINGS } from "./account-bindings";
import { jsonList, query } from "./client";
import { getsMailsAbout } from "./event-mails";
import { liveBindings } from "./principals";

export interface PromoterRow {
	readonly id: string;
	readonly email: string;
	readonly has_passkey: 0 | 1;
	/** 1: the person chose mails about proposals, if the server sends any. */
	readonly is_mailed: 0 | 1;
	/** JSON of the live bindings, as `bindingsFrom` reads it. */
	readonly bindings: string;
}

interface PromotersOf {
	readonly orgId: OrgId;
	readonly appId: AppId;
	readonly channelId: ChannelId;
	/** JSON array of roles and ids; a channel that requires approval always names some. */
	readonly promoters: string;
	/** Roles whose holders may have mails about proposals. */
	readonly mailed: readonly string[];
	/** The account that is left out. */
	readonly except: string;
}

/**
 * At most `limit` accounts, by address. Reads the roles of the members, and of each account found
 * all of its roles in the organization.
 */
export function promotersOf(of: PromotersOf, nowMs: number, limit: number): CompiledQuery<PromoterRow> {
	const { orgId, appId, channelId, promoters, mailed, except } = of;
	const named = jsonList(promoters);
	const here = (b: string) => sql`(${sql.ref(`${b}.app_id`)} IS NULL OR ${sql.ref(`${b}.app_id`)} = ${appId})
		AND coalesce(${sql.ref(`${b}.channel_id`)}, ${channelId}) = ${channelId}`;
	// Each part ends with enough of them.
	const found = sql<string>`(SELECT user_id FROM (SELECT DISTINCT b.user_id FROM role_bindings b INDEXED BY role_bindings_of_members
			WHERE b.org_id = ${orgId} AND b.user_id IS NOT NULL AND b.user_id <> ${except} AND ${here("b")}
				AND (b.expires_at_ms IS NULL OR b.expires_at_ms > ${nowMs})
				AND (b.role_name IN ${named} OR b.user_id IN ${named}) LIMIT ${limit})
		UNION SELECT user_id FROM (SELECT DISTINCT m.user_id FROM group_bindings g CROSS JOIN group_members m ON m.group_id = g.group_id
			WHERE g.org_id = ${orgId} AND m.user_id <> ${except} AND ${here("g")}
				AND (g.role_name IN ${named} OR m.user_id IN ${named}) LIMIT ${limit}) LIMIT ${limit})`;
	const user = { id: sql.ref("u.id"), emailVerifiedAt: sql.ref("u.email_verified_at_ms") };
	const bindings = liveBindings(
		sql<boolean>`o.id = b.org_id AND b.org_id = ${orgId} AND b.user_id = u.id`,
		nowMs,
		ACCOUNT_BINDINGS,
	);
	return query
		.selectFrom("users as u")
		.select((eb) => [
			"u.id",
			"u.email",
			eb
				.exists(eb.selectFrom("passkeys").select("passkeys.id").whereRef("passkeys.user_id", "=", "u.id"))
				.$castTo<0 | 1>()
				.as("has_passkey"),
			getsMailsAbout(user, orgId, "proposal.created", mailed, nowMs).as("is_mailed"),
			bindings.as("bindings"),
		])
		.where("u.id", "in", found)
		.orderBy("u.email")
		.compile();
}

/** The number of keys that the channel names and that are not of the account. */
export function namedKeys(orgId: OrgId, promoters: string, except: string): CompiledQuery<{ keys: number }> {
	return (
		query
			.selectFrom("api_keys")
			.select((eb) => eb.fn.countAll<number>().as("keys"))
			// The + keeps the index of the organization's keys out.
			.where(sql<string>`+org_id`, "=", orgId)
			.where("id", "in", jsonList(promoters))
			.where("user_id", "<>", except)
			.compile()
	);
}
