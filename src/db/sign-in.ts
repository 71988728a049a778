/**
 * Statements of signing in: attempts that have begun, links that sign in once, and who somebody is at a provider. An attempt or a link
 * is known by the hash of its token alone. Whoever proves that an address is theirs throws out whoever used its account without proof.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { DAY_MS } from "../domain/time";
import { jsonList, query } from "./client";
import type { AttemptKind, Flag } from "./schema";
import { type AccountId, hasSession } from "./sessions";

const MINUTE_MS = 60_000;

export const CODE_LIFETIME_MS = 10 * MINUTE_MS;
/** Wrong codes that one attempt bears. */
export const MOST_TRIES = 5;
interface Bounds {
	/** Wrong codes in a day after which no more are sent. */
	readonly failedTriesADay: number;
	/** Mails in the life of a code, and in a day, so that nobody is flooded. */
	readonly codesAtOnce: number;
	readonly codesADay: number;
}

/** Of one who asks, for one address. */
const OF_ONE: Bounds = { failedTriesADay: 25, codesAtOnce: 3, codesADay: 20 };
/** Of all together of whom nothing is known: some hundred guesses a day at a million codes are all that strangers get. */
const OF_STRANGERS: Bounds = { failedTriesADay: 100, codesAtOnce: 10, codesADay: 60 };

/** Before the id of a browser in which the address was proved. */
const BROWSER = "browser ";

/**
 * Who asks for a code. Nobody must be able to use up what the owner of an address may ask for: a browser in which they proved it before
 * is counted by itself, and strangers by their network and all together.
 */
export const askedByBrowser = (id: string) => `${BROWSER}${id}`;
export const askedByAccount = (userId: string) => `account ${userId}`;
export const askedByNetwork = (network: string | undefined) => `network ${network ?? "unknown"}`;

export interface NewAttempt {
	readonly tokenHash: string;
	readonly kind: AttemptKind;
	readonly userId: string | null;
	readonly email: string | null;
	readonly secret: string;
	readonly expiresAtMs: number;
	/** Of what is sent by mail. */
	readonly askedBy?: string;
}

/** Begins an attempt. One that sends mail is not begun when there have been too many; RETURNING tells. */
export function beginAttempt(attempt: NewAttempt, nowMs: number): CompiledQuery<{ begun: number }> {
	const { tokenHash, kind, userId, email, secret, expiresAtMs, askedBy } = attempt;
	const areBearable = (those: RawBuilder<boolean>, bounds: Bounds) => {
		const earlier = (what: RawBuilder<number>, sinceMs: number) =>
			sql<number>`(SELECT ${what} FROM sign_in_attempts
				WHERE email = ${email} AND created_at_ms > ${nowMs - sinceMs} AND ${those})`;
		return sql<boolean>`(${earlier(sql`coalesce(sum(failed_tries), 0)`, DAY_MS)} < ${bounds.failedTriesADay}
			AND ${earlier(sql`count(*)`, CODE_LIFETIME_MS)} < ${bounds.codesAtOnce}
			AND ${earlier(sql`count(*)`, DAY_MS)} < ${bounds.codesADay})`;
	};
	const isStranger = askedBy?.startsWith(BROWSER) === false;
	const isBearable = sql<boolean>`(${email === null ? sql`1` : areBearable(sql`asked_by = ${askedBy}`, OF_ONE)}
		AND ${isStranger ? areBearable(sql`asked_by NOT LIKE ${`${BROWSER}%`}`, OF_STRANGERS) : sql`1`})`;
	return sql<{
		begun: number;
	}>`INSERT INTO sign_in_attempts (token_hash, kind, user_id, email, secret, created_at_ms, expires_at_ms, asked_by)
		SELECT ${tokenHash}, ${kind}, ${userId}, ${email}, ${secret}, ${nowMs}, ${expiresAtMs}, ${askedBy ?? null} WHERE ${isBearable}
		RETURNING 1 AS begun`.compile(query);
}

/** Counts a try with a code, before anybody looks whether it is right: guesses sent at once count one by one. */
export function countTry(tokenHash: string, kind: AttemptKind, nowMs: number): CompiledQuery {
	return (
		query
			.updateTable("sign_in_attempts")
			.set((eb) => ({ failed_tries: eb("failed_tries", "+", 1) }))
			.where("token_hash", "=", tokenHash)
			.where("kind", "=", kind)
			// One more than the most: a try that is beyond it finds the attempt dead.
			.where("failed_tries", "<=", MOST_TRIES)
			.where("expires_at_ms", ">", nowMs)
			.compile()
	);
}

/**
 * The condition that this is the code of the attempt, after `countTry`.
 * @param about whose address it is to prove, and which
 */
export function isRightCode(
	tokenHash: string,
	kind: AttemptKind,
	codeHashes: readonly string[],
	nowMs: number,
	about?: { readonly userId: string; readonly email: string },
) {
	const isAboutIt = about === undefined ? sql`true` : sql`user_id = ${about.userId} AND email = ${about.email}`;
	return sql<boolean>`EXISTS (SELECT 1 FROM sign_in_attempts WHERE token_hash = ${tokenHash} AND kind = ${kind}
		AND secret IN ${jsonList(JSON.stringify(codeHashes))} AND failed_tries <= ${MOST_TRIES} AND expires_at_ms > ${nowMs} AND ${isAboutIt})`;
}

/** Uses an attempt up, on the condition where one is given. */
export function deleteAttempt(tokenHash: string, condition: RawBuilder<boolean> = sql<boolean>`true`): CompiledQuery {
	return query.deleteFrom("sign_in_attempts").where("token_hash", "=", tokenHash).where(condition).compile();
}

/** A challenge that was given out and is still good. */
export function challengeOf(
	tokenHash: string,
	kind: AttemptKind,
	nowMs: number,
): CompiledQuery<{ secret: string; user_id: string | null }> {
	return query
		.selectFrom("sign_in_attempts")
		.select(["secret", "user_id"])
		.where("token_hash", "=", tokenHash)
		.where("kind", "=", kind)
		.where("expires_at_ms", ">", nowMs)
		.compile();
}

/** For guards: nobody has used the attempt up. */
export function attemptExists(tokenHash: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM sign_in_attempts WHERE token_hash = ${tokenHash})`;
}

export interface AccountRow {
	readonly id: string;
	readonly email: string;
}

/** The account with this address; for showing nobody whether there is one. */
export function accountByEmail(email: string): CompiledQuery<AccountRow> {
	return query.selectFrom("users").select(["id", "email"]).where("email", "=", email).compile();
}

/** For SQL: the account that a code was sent to. */
export function accountOfAttempt(tokenHash: string) {
	return sql<string>`(SELECT u.id FROM sign_in_attempts a INNER JOIN users u ON u.email = a.email WHERE a.token_hash = ${tokenHash})`;
}

/** The account, if the code is right. */
export function accountByCode(tokenHash: string, isRight: RawBuilder<boolean>): CompiledQuery<AccountRow> {
	return sql<AccountRow>`SELECT id, email FROM users WHERE id = ${accountOfAttempt(tokenHash)} AND ${isRight}`.compile(
		query,
	);
}

/** The account that a link signs in, and whether the link proves its address. */
export function accountByLink(
	tokenHash: string,
	nowMs: number,
): CompiledQuery<AccountRow & { readonly proves_email: Flag }> {
	return query
		.selectFrom("sign_in_links")
		.innerJoin("users", "users.id", "sign_in_links.user_id")
		.select(["users.id", "users.email", "sign_in_links.proves_email"])
		.where("sign_in_links.token_hash", "=", tokenHash)
		.where("sign_in_links.expires_at_ms", ">", nowMs)
		.compile();
}

/** For guards: nobody has used the link. */
export function linkExists(tokenHash: string, nowMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM sign_in_links WHERE token_hash = ${tokenHash} AND expires_at_ms > ${nowMs})`;
}

export function deleteLink(tokenHash: string): CompiledQuery {
	return query.deleteFrom("sign_in_links").where("token_hash", "=", tokenHash).compile();
}

/** The account of somebody at a provider. */
export function accountByIdentity(provider: string, subject: string): CompiledQuery<AccountRow> {
	return query
		.selectFrom("identities")
		.innerJoin("users", "users.id", "identities.user_id")
		.select(["users.id", "users.email"])
		.where("identities.provider", "=", provider)
		.where("identities.subject", "=", subject)
		.compile();
}

export function insertIdentity(provider: string, subject: string, userId: string, nowMs: number): CompiledQuery {
	return query.insertInto("identities").values({ provider, subject, user_id: userId, created_at_ms: nowMs }).compile();
}

/** For guards: the account is there under this address. */
export function accountIs({ id, email }: AccountRow) {
	return sql<boolean>`EXISTS (SELECT 1 FROM users WHERE id = ${id} AND email = ${email})`;
}

/**
 * The address was proved to be its user's. Until now the account may have been somebody's who had only the link of an invitation: all
 * that they sign in with goes, unless the proof comes from a browser that is signed in to this account.
 */
export function markEmailVerified(
	userId: AccountId,
	currentTokenHash: string | undefined,
	nowMs: number,
	condition: RawBuilder<boolean> = sql<boolean>`true`,
): CompiledQuery[] {
	const isOthers = sql`${condition} AND (SELECT email_verified_at_ms FROM users WHERE id = ${userId}) IS NULL
		AND NOT ${hasSession(userId, currentTokenHash, nowMs)}`;
	return [
		...["passkeys", "identities", "sign_in_links", "sessions"].map((table) =>
			sql`DELETE FROM ${sql.table(table)} WHERE user_id = ${userId} AND ${isOthers}`.compile(query),
		),
		sql`UPDATE users SET email_verified_at_ms = ${nowMs} WHERE id = ${userId} AND ${condition}`.compile(query),
	];
}
