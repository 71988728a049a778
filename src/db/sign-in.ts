/**
 * Statements of signing in: pending attempts, single-use links, and identities at providers. An
 * attempt or a link is found by the hash of its token. The first verification of an address removes
 * the credentials that were added to its account before.
 */
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { SIGN_IN_CODE_MINUTES } from "../domain/defaults";
import { DAY_MS, MINUTE_MS } from "../domain/time";
import { insertIf, jsonList, query } from "./client";
import type { AttemptKind, Flag } from "./schema";
import { type AccountId, hasSession } from "./sessions";

export const CODE_LIFETIME_MS = SIGN_IN_CODE_MINUTES * MINUTE_MS;
/** Wrong codes that an attempt accepts before it is invalid. */
const MOST_TRIES = 5;
/** Limits for codes to one address. */
interface Bounds {
	/** Wrong codes in a day after which no more codes are sent. */
	readonly failedTriesADay: number;
	/**
	 * Codes sent within the lifetime of a code, and within a day; limits the mail that an address
	 * receives.
	 */
	readonly codesAtOnce: number;
	readonly codesADay: number;
}

/** Limits of one requester. */
const PER_REQUESTER: Bounds = { failedTriesADay: 25, codesAtOnce: 3, codesADay: 20 };
/**
 * Limits of all unrecognized requesters together: at most 100 guesses a day at a code of six
 * digits.
 */
const ALL_STRANGERS: Bounds = { failedTriesADay: 100, codesAtOnce: 10, codesADay: 60 };

/** Prefix of the id of a browser in which the address was verified. */
const BROWSER = "browser ";

/**
 * The requester of a code, stored as `asked_by`. A browser in which the address was verified before
 * has its own limits, so that strangers cannot use up the limits of the address's owner. Strangers
 * are limited per network and all together.
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
	/** The requester; required for attempts that send mail. */
	readonly askedBy?: string;
}

/**
 * Inserts an attempt and returns a row, or inserts nothing if an attempt that sends mail would
 * exceed its limits.
 */
export function beginAttempt(attempt: NewAttempt, nowMs: number): CompiledQuery<{ begun: number }> {
	const { tokenHash, kind, userId, email, secret, expiresAtMs, askedBy } = attempt;
	const isWithin = (those: RawBuilder<boolean>, bounds: Bounds) => {
		const earlier = (what: RawBuilder<number>, sinceMs: number) =>
			sql<number>`(SELECT ${what} FROM sign_in_attempts
				WHERE email = ${email} AND created_at_ms > ${nowMs - sinceMs} AND ${those})`;
		return sql<boolean>`(${earlier(sql`coalesce(sum(failed_tries), 0)`, DAY_MS)} < ${bounds.failedTriesADay}
			AND ${earlier(sql`count(*)`, CODE_LIFETIME_MS)} < ${bounds.codesAtOnce}
			AND ${earlier(sql`count(*)`, DAY_MS)} < ${bounds.codesADay})`;
	};
	const isStranger = askedBy?.startsWith(BROWSER) === false;
	const isAllowed = sql<boolean>`(${email === null ? sql`1` : isWithin(sql`asked_by = ${askedBy}`, PER_REQUESTER)}
		AND ${isStranger ? isWithin(sql`asked_by NOT LIKE ${`${BROWSER}%`}`, ALL_STRANGERS) : sql`1`})`;
	const row = {
		token_hash: tokenHash,
		kind,
		user_id: userId,
		email,
		secret,
		created_at_ms: nowMs,
		expires_at_ms: expiresAtMs,
		asked_by: askedBy ?? null,
	};
	return insertIf("sign_in_attempts", row, isAllowed).returning(sql<number>`1`.as("begun")).compile();
}

/**
 * Counts a try with a code. Run before the code is compared, so that concurrent guesses are counted
 * one by one.
 */
export function countTry(tokenHash: string, kind: AttemptKind, nowMs: number): CompiledQuery {
	return (
		query
			.updateTable("sign_in_attempts")
			.set((eb) => ({ failed_tries: eb("failed_tries", "+", 1) }))
			.where("token_hash", "=", tokenHash)
			.where("kind", "=", kind)
			// Counts up to MOST_TRIES + 1, the value at which `isRightCode` rejects the attempt.
			.where("failed_tries", "<=", MOST_TRIES)
			.where("expires_at_ms", ">", nowMs)
			.compile()
	);
}

/**
 * SQL condition: this is the code of a valid attempt. Run after `countTry`.
 * @param about the account and the address that the attempt must be for
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

/** Deletes a used attempt, if the condition holds. */
export function deleteAttempt(tokenHash: string, condition: RawBuilder<boolean> = sql<boolean>`true`): CompiledQuery {
	return query.deleteFrom("sign_in_attempts").where("token_hash", "=", tokenHash).where(condition).compile();
}

/** The unexpired challenge of an attempt. */
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

/** Guard: the attempt is unused. */
export function attemptExists(tokenHash: string) {
	return sql<boolean>`EXISTS (SELECT 1 FROM sign_in_attempts WHERE token_hash = ${tokenHash})`;
}

export interface AccountRow {
	readonly id: string;
	readonly email: string;
}

/** The account with this address. Callers must not reveal to strangers whether it exists. */
export function accountByEmail(email: string): CompiledQuery<AccountRow> {
	return query.selectFrom("users").select(["id", "email"]).where("email", "=", email).compile();
}

/** SQL for the id of the account that a code was sent to. */
export function accountOfAttempt(tokenHash: string) {
	return sql<string>`(SELECT u.id FROM sign_in_attempts a INNER JOIN users u ON u.email = a.email WHERE a.token_hash = ${tokenHash})`;
}

/** The account, if the code is right. */
export function accountByCode(tokenHash: string, isRight: RawBuilder<boolean>): CompiledQuery<AccountRow> {
	return query
		.selectFrom("users")
		.select(["id", "email"])
		.where("id", "=", accountOfAttempt(tokenHash))
		.where(isRight)
		.compile();
}

/** The account that an unexpired link signs in to, and whether the link verifies its address. */
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

/** Guard: the link is unused and unexpired. */
export function linkExists(tokenHash: string, nowMs: number) {
	return sql<boolean>`EXISTS (SELECT 1 FROM sign_in_links WHERE token_hash = ${tokenHash} AND expires_at_ms > ${nowMs})`;
}

export function deleteLink(tokenHash: string): CompiledQuery {
	return query.deleteFrom("sign_in_links").where("token_hash", "=", tokenHash).compile();
}

/** The account that is linked to an identity at a provider. */
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

/** Guard: the account exists and has this address. */
export function accountIs({ id, email }: AccountRow) {
	return sql<boolean>`EXISTS (SELECT 1 FROM users WHERE id = ${id} AND email = ${email})`;
}

/**
 * Marks the address as verified. Credentials added before the first verification may belong to an
 * invitee who never owned the address, so all are removed, unless this browser is already signed in
 * to the account.
 */
export function markEmailVerified(
	userId: AccountId,
	currentTokenHash: string | undefined,
	nowMs: number,
	condition: RawBuilder<boolean> = sql<boolean>`true`,
): CompiledQuery[] {
	const isOthers = sql<boolean>`${condition} AND (SELECT email_verified_at_ms FROM users WHERE id = ${userId}) IS NULL
		AND NOT ${hasSession(userId, currentTokenHash, nowMs)}`;
	return [
		...(["passkeys", "identities", "sign_in_links", "sessions"] as const).map((table) =>
			query.deleteFrom(table).where("user_id", "=", userId).where(isOthers).compile(),
		),
		query.updateTable("users").set({ email_verified_at_ms: nowMs }).where("id", "=", userId).where(condition).compile(),
	];
}
