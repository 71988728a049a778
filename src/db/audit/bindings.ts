/**
 * Audit entries for bindings that the service creates and removes as a side effect of another
 * change. They belong to the organization and to no app, because readers of an app may not see who
 * has which rights.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import type { AppId, ChannelId, OrgId } from "../../authz/decide";
import { PREVIEW_CHANNEL_ROLES } from "../../authz/permissions";
import type { Holder } from "../role-bindings";
import { type Actor, auditEach } from "./entries";

/** A binding `b` in an audit entry. */
export const auditedBinding = sql`json_object('id', b.id, 'role_name', b.role_name, 'scope_type', b.scope_type, 'org_id', b.org_id,
	'app_id', b.app_id, 'channel_id', b.channel_id)`;

// For keys; roles of people below the organization are logged when they are assigned.
// A unary + keeps SQLite from reading all bindings of the organization or of the app.
const bindings = (
	shown: "before" | "after",
	condition: RawBuilder<unknown>,
	log: RawBuilder<unknown> = sql`b.org_id`,
) => {
	return sql`SELECT ${log} AS org_id, k.id AS target_id, k.name AS target_name,
			${shown === "before" ? auditedBinding : sql`NULL`} AS before, ${shown === "after" ? auditedBinding : sql`NULL`} AS after
		FROM role_bindings b INNER JOIN api_keys k ON k.id = b.api_key_id WHERE ${condition} ORDER BY b.created_at_ms, b.id`;
};

/** After the statement that creates the binding; no entry if none was created. */
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
 * Before the statement that deletes keys `k` of the organization with their bindings: an entry per
 * binding, in the log of its organization.
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
			bindings("before", sql`+k.org_id = ${homeOrgId} AND +b.org_id = ${homeOrgId} AND ${keys}`),
		),
		auditBindingsElsewhere(actor, atMs, homeOrgId, keys, details),
	];
}

/**
 * The same, only for bindings in other organizations, which learn that a key was deleted, but not
 * by whom.
 */
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
		bindings("before", sql`+k.org_id = ${homeOrgId} AND b.org_id <> ${homeOrgId} AND ${keys}`),
	);
}

/**
 * When an organization is purged: one audit entry per foreign key that loses a binding `b`, in the
 * log of the key's home organization. Run before the DELETE.
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

/** The actor in the log of another organization, without the address. */
export function elsewhere(actor: Actor): Actor {
	return { ...actor, ipAddress: null };
}

/** Before the statement that removes bindings `b` of the key from the organization. */
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
		bindings("before", sql`+b.org_id = ${orgId} AND ${taken}`),
	);
}

/** Before the statement that removes bindings `b` of an app that is purged. */
export function auditBindingsOfDeletedApp(actor: Actor, atMs: number, going: RawBuilder<unknown>): CompiledQuery {
	return auditEach(
		actor,
		atMs,
		{ action: "binding.delete", targetType: "api_key", details: { reason: "app_removed" } },
		bindings("before", going),
	);
}

/** Before the statement that deletes the app with its bindings. */
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
		bindings("before", sql`+b.org_id = ${orgId} AND b.app_id = ${app.uuid}`),
	);
}

/** Before the statement that deletes the channel with its bindings. */
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
		bindings("before", sql`+b.org_id = ${orgId} AND +b.app_id = ${channel.appId} AND b.channel_id = ${channel.id}`),
	);
}

/** Before the statement that ends the access of preview keys to the channel, which stays. */
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
			sql`+b.org_id = ${orgId} AND +b.app_id = ${channel.appId}
				AND +b.role_name IN (${sql.join(PREVIEW_CHANNEL_ROLES.map((role) => sql.lit(role)))})
				AND b.channel_id = (SELECT id FROM channels WHERE app_id = ${channel.appId} AND name = ${channel.name})`,
		),
	);
}
