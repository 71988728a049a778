/**
 * Statements about passkeys. Sign-in finds a passkey by its public credential id; every other
 * statement names the account.
 */
import { type CompiledQuery, type Insertable, type Selectable, sql } from "kysely";
import { query } from "./client";
import type { PasskeysTable } from "./schema";

export type PasskeyRow = Selectable<PasskeysTable>;

/** The passkeys of an account, oldest first. */
export function passkeysOf(userId: string): CompiledQuery<PasskeyRow> {
	return query
		.selectFrom("passkeys")
		.selectAll()
		.where("user_id", "=", userId)
		.orderBy("created_at_ms")
		.orderBy("id")
		.compile();
}

/** The passkey with this credential id, with the address of its account. */
export function passkeyByCredential(credentialId: string): CompiledQuery<PasskeyRow & { readonly email: string }> {
	return query
		.selectFrom("passkeys")
		.innerJoin("users", "users.id", "passkeys.user_id")
		.selectAll("passkeys")
		.select("users.email")
		.where("passkeys.credential_id", "=", credentialId)
		.compile();
}

export function insertPasskey(values: Insertable<PasskeysTable>): CompiledQuery {
	return query.insertInto("passkeys").values(values).compile();
}

/** Guard: the passkey exists and has not been used since it was read. */
export function passkeyIs({ user_id, id, counter }: PasskeyRow) {
	return sql<boolean>`EXISTS (SELECT 1 FROM passkeys WHERE user_id = ${user_id} AND id = ${id} AND counter = ${counter})`;
}

/** Guard: the account has the passkey. */
export function passkeyExists(userId: string, id: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM passkeys WHERE user_id = ${userId} AND id = ${id})`;
}

export function updatePasskey(
	userId: string,
	id: string,
	values: Partial<Pick<PasskeyRow, "name" | "counter" | "last_used_at_ms">>,
): CompiledQuery {
	return query.updateTable("passkeys").set(values).where("user_id", "=", userId).where("id", "=", id).compile();
}

export function deletePasskey(userId: string, id: string): CompiledQuery {
	return query.deleteFrom("passkeys").where("user_id", "=", userId).where("id", "=", id).compile();
}
