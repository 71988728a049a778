/**
 * What the audit log says of the bindings that the service gives and takes by itself, beside a change that was asked for. They are
 * entries of the organization and of no app: who may do what is not for everybody to read who may read an app.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../authz/decide";
import type { Holder } from "./api-keys";
import { type Actor, auditEach } from "./audit";

/** A binding `b` as the audit log tells of it. */
export const auditedBinding = sql`json_object('id', b.id, 'role_name', b.role_name, 'scope_type', b.scope_type, 'org_id', b.org_id,
	'app_id', b.app_id, 'channel_id', b.channel_id)`;

// Of keys; what people hold below the organization is told of when it is given.
const bindings = (
	shown: "before" | "after",
	condition: RawBuilder<unknown>,
	log: RawBuilder<unknown> = sql`b.org_id`,
) => {
	return sql`SELECT ${log} AS org_id, k.id AS target_id, k.name AS target_name,
			${shown === "before" ? auditedBinding : sql`NULL`} AS before, ${shown === "after" ? auditedBinding : sql`NULL`} AS after
		FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id WHERE ${condition} ORDER BY b.created_at_ms, b.id`;
};

/** After the statement that gives it; nothing was given, nothing is told. */
export function auditBindingGiven(
	actor: Actor,
	atMs: number,
	orgId: string | RawBuilder<unknown>,
	bindingId: string,
	holder?: Holder,
): CompiledQuery {
	if (holder?.keyId === null) {
		return auditEach(
			actor,
			atMs,
			{ action: "binding.create", targetType: "user" },
			sql`SELECT b.org_id, u.id AS target_id, u.email AS target_name, NULL AS before, ${auditedBinding} AS after
				FROM role_bindings b INNER JOIN users u ON u.id = b.user_id WHERE b.org_id = ${orgId} AND b.id = ${bindingId}`,
		);
	}
	return auditEach(
		actor,
		atMs,
		{ action: "binding.create", targetType: "api_key" },
		bindings("after", sql`b.org_id = ${orgId} AND b.id = ${bindingId}`),
	);
}

/**
 * Before the statement that removes keys of the organization, `k` in SQL, and with them their bindings: an entry for each binding, in the
 * log of the organization that it was in.
 */
export function auditBindingsOfKeys(
	actor: Actor,
	atMs: number,
	homeOrgId: string | RawBuilder<unknown>,
	keys: RawBuilder<unknown>,
	details: Readonly<Record<string, unknown>>,
): CompiledQuery[] {
	return [
		auditEach(
			actor,
			atMs,
			{ action: "binding.delete", targetType: "api_key", details },
			bindings("before", sql`k.org_id = ${homeOrgId} AND b.org_id = ${homeOrgId} AND ${keys}`),
		),
		auditBindingsElsewhere(actor, atMs, homeOrgId, keys, details),
	];
}

/** The same for bindings in other organizations alone. They learn that a key has gone, and not from where that was done. */
export function auditBindingsElsewhere(
	actor: Actor,
	atMs: number,
	homeOrgId: string | RawBuilder<unknown>,
	keys: RawBuilder<unknown>,
	details: Readonly<Record<string, unknown>>,
): CompiledQuery {
	return auditEach(
		elsewhere(actor),
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { ...details, other_organization: true } },
		bindings("before", sql`k.org_id = ${homeOrgId} AND b.org_id <> ${homeOrgId} AND ${keys}`),
	);
}

/**
 * Before the statement that removes bindings, `b` in SQL, from an organization that goes itself: an entry for each of a key of another
 * organization, in the log of that one, whose key it is.
 */
export function auditForeignBindings(
	actor: Actor,
	atMs: number,
	orgId: string,
	going: RawBuilder<unknown>,
	details: Readonly<Record<string, unknown>>,
): CompiledQuery {
	return auditEach(
		elsewhere(actor),
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { ...details, other_organization: true } },
		bindings("before", sql`b.org_id = ${orgId} AND k.org_id <> ${orgId} AND ${going}`, sql`k.org_id`),
	);
}

/** The actor as another organization's log names it: where somebody works from is not for strangers. */
export function elsewhere(actor: Actor): Actor {
	return { ...actor, ipAddress: null };
}

/** Before the statement that removes bindings of the key, `b` in SQL, from the organization. */
export function auditBindingsTaken(
	actor: Actor,
	atMs: number,
	orgId: string,
	taken: RawBuilder<unknown>,
	details: Readonly<Record<string, unknown>>,
): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "binding.delete", targetType: "api_key", details },
		bindings("before", sql`b.org_id = ${orgId} AND ${taken}`),
	);
}

/** Before the statement that removes bindings, `b` in SQL, of an app that is removed for good. */
export function auditBindingsOfDeletedApp(actor: Actor, atMs: number, going: RawBuilder<unknown>): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { reason: "app_removed" } },
		bindings("before", going),
	);
}

/** Before the statement that removes the app, and with it its bindings. */
export function auditBindingsOfApp(
	actor: Actor,
	atMs: number,
	orgId: OrgId,
	app: { readonly uuid: AppId; readonly id: string },
): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { with_app: app.id } },
		bindings("before", sql`b.org_id = ${orgId} AND b.app_id = ${app.uuid}`),
	);
}

/** Before the statement that removes the channel, and with it its bindings. */
export function auditBindingsOfChannel(
	actor: Actor,
	atMs: number,
	orgId: OrgId,
	channel: { readonly appId: AppId; readonly id: ChannelId; readonly name: string },
): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { with_channel: channel.name } },
		bindings("before", sql`b.org_id = ${orgId} AND b.app_id = ${channel.appId} AND b.channel_id = ${channel.id}`),
	);
}

/** Before the statement that ends the power of preview keys over the channel, which stays. */
export function auditPreviewAccessEnded(
	actor: Actor,
	atMs: number,
	orgId: OrgId,
	channel: { readonly appId: AppId; readonly name: string },
): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { with_channel: channel.name } },
		bindings(
			"before",
			sql`b.org_id = ${orgId} AND b.app_id = ${channel.appId}
				AND b.channel_id = (SELECT id FROM channels WHERE app_id = ${channel.appId} AND name = ${channel.name})`,
		),
	);
}
