/**
 * Statements that give roles to keys and accounts, and take roles from keys. Whether the caller may
 * give a role is decided before; these statements only write.
 */
import type { CompiledQuery } from "kysely";
import type { OrgId } from "../authz/decide";
import type { ScopeType } from "../authz/permissions";
import type { Principal } from "../authz/principal";
import { insertEach, jsonList, query } from "./client";

/** The holder of a binding: a key, or an account if `keyId` is null. */
export type Holder = Pick<Principal, "userId" | "keyId">;

const holderColumns = ({ userId, keyId }: Holder) =>
	keyId === null ? { api_key_id: null, user_id: userId } : { api_key_id: keyId, user_id: null };

interface NewBinding {
	readonly id: string;
	readonly holder: Holder;
	readonly role: string;
	readonly orgId: string;
	readonly appId: string | null;
	readonly createdAtMs: number;
}

export function insertBinding(
	scopeType: ScopeType,
	binding: NewBinding & { readonly channelId?: number | null },
): CompiledQuery {
	return query
		.insertInto("role_bindings")
		.values({
			id: binding.id,
			...holderColumns(binding.holder),
			role_name: binding.role,
			scope_type: scopeType,
			org_id: binding.orgId,
			app_id: binding.appId,
			channel_id: binding.channelId ?? null,
			created_at_ms: binding.createdAtMs,
		})
		.compile();
}

/**
 * A binding on a channel that the same batch creates; the channel is found by its name, because its
 * id is not known yet. Inserts nothing if the parent binding no longer exists.
 */
export function insertChannelBinding(
	binding: NewBinding & { readonly appId: string },
	channelName: string,
	parentBindingId: string,
): CompiledQuery {
	const { api_key_id, user_id } = holderColumns(binding.holder);
	const place = query
		.selectFrom("channels")
		.innerJoin("role_bindings as parent", (join) => join.on("parent.id", "=", parentBindingId))
		.where("channels.app_id", "=", binding.appId)
		.where("channels.name", "=", channelName)
		.where("parent.api_key_id", "is", api_key_id)
		.where("parent.user_id", "is", user_id);
	return insertEach("role_bindings", place, (eb) => ({
		id: binding.id,
		api_key_id,
		user_id,
		role_name: binding.role,
		scope_type: "channel" as const,
		org_id: eb.ref("parent.org_id"),
		app_id: eb.ref("channels.app_id"),
		channel_id: eb.ref("channels.id"),
		parent_binding_id: eb.ref("parent.id"),
		created_at_ms: binding.createdAtMs,
	})).compile();
}

/**
 * Removes bindings of a key in one organization, and by cascade the bindings that came from them.
 */
export function deleteBindings(orgId: OrgId, apiKeyId: string, ids: readonly string[]): CompiledQuery {
	return query
		.deleteFrom("role_bindings")
		.where("org_id", "=", orgId)
		.where("api_key_id", "=", apiKeyId)
		.where("id", "in", jsonList(JSON.stringify(ids)))
		.compile();
}
