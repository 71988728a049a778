/**
 * Statements about the identities that link an account to providers, and the guard that keeps one
 * way to sign in. An account may have several identities at one provider; they are listed and
 * deleted together.
 */
import { type CompiledQuery, sql } from "kysely";
import { jsonList, query } from "./client";

/** The providers that the account is linked to, with the time of the first link. */
export function identitiesOf(userId: string): CompiledQuery<{ provider: string; linked_at_ms: number }> {
	return query
		.selectFrom("identities")
		.select((eb) => ["provider", eb.fn.min("created_at_ms").as("linked_at_ms")])
		.where("user_id", "=", userId)
		.groupBy("provider")
		.orderBy("provider")
		.compile();
}

/** Guard: the account is linked to the provider. */
export function identityExists(userId: string, provider: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM identities WHERE user_id = ${userId} AND provider = ${provider})`;
}

export function deleteIdentities(userId: string, provider: string): CompiledQuery {
	return query.deleteFrom("identities").where("user_id", "=", userId).where("provider", "=", provider).compile();
}

/**
 * The way to sign in that is about to be removed: a passkey by its id, or all identities at a
 * provider.
 */
export type WayOut = { readonly passkey: string } | { readonly provider: string };

/**
 * Guard: without `gone`, the account can still sign in with a passkey (if the deployment supports
 * them) or one of the providers.
 */
export function hasAnotherWayIn(
	userId: string,
	ways: { readonly passkeys: boolean; readonly providers: readonly string[] },
	gone: WayOut,
) {
	const passkey = "passkey" in gone ? gone.passkey : "";
	const providers = "provider" in gone ? ways.providers.filter((id) => id !== gone.provider) : ways.providers;
	return sql<boolean>`(
		EXISTS (SELECT 1 FROM passkeys WHERE user_id = ${userId} AND id <> ${passkey} AND ${ways.passkeys ? 1 : 0} = 1)
		OR EXISTS (SELECT 1 FROM identities WHERE user_id = ${userId} AND provider IN ${jsonList(JSON.stringify(providers))}))`;
}
