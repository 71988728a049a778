/**
 * The account of whoever is signed in: its sessions, its log, its address, its end. What is done here is done to oneself, so no role is
 * asked for; what that changes in organizations is written down in theirs.
 */
import * as v from "valibot";
import { codeHashes, hashCode, hashKey, mintAttemptToken, mintCode, mintSessionToken } from "../../authz/keys";
import { ADMINISTERING_ROLES, OWNING_ROLES } from "../../authz/member-roles";
import { invalidSession, type Principal, type SessionPrincipal } from "../../authz/principal";
import { RECENT_SIGN_IN_MS, SESSION_LIFETIME_MS } from "../../authz/session";
import {
	accountDetails,
	auditEmailChange,
	changeEmail as changeEmailStatements,
	deleteAccountStatements,
	isNoLastOwner,
	type Part,
	partsAre,
	partsOf,
} from "../../db/accounts";
import { batchOrFail, guard } from "../../db/client";
import {
	accountLogPage,
	deleteSession,
	deleteSessions,
	logAccount,
	sessionExists,
	sessionsOf,
} from "../../db/sessions";
import {
	accountByEmail,
	askedByAccount,
	beginAttempt,
	CODE_LIFETIME_MS,
	countTry,
	deleteAttempt,
	isRightCode,
} from "../../db/sign-in";
import { signingSecret } from "../../domain/secrets";
import { ApiError } from "../../errors";
import { sendMail } from "../../events/mail";
import { endpoint, Reply } from "../endpoint";
import { pageBounds, pageReply } from "../page";
import { countSignIn, tooManyCodes } from "../request-limits";
import {
	acknowledgement,
	booleanText,
	OK,
	optional,
	pageNumber,
	personsAddress,
	rfc3339,
	text,
	time,
	uuid,
} from "../schemas";
import { clearSessionCookie, sessionCookie } from "../session-cookie";
import { accountOrigin, signInFailed } from "../sign-in";
import { codeField, EXAMPLE_ATTEMPT, noMail, SIGNED_IN_EXAMPLE } from "./sign-in";

const OWN = "It is about the account of whoever is signed in.";
const TAG = "Account";

function sessionOf(principal: Principal): SessionPrincipal {
	if (principal.kind !== "session") throw invalidSession();
	return principal;
}

export const getAccount = endpoint({
	method: "GET",
	path: "/account",
	tag: TAG,
	summary: "Show who is signed in",
	description:
		"What outlives a session (passkeys, addresses, API keys, members, the end of the account) needs a recent sign-in; after `recent_sign_in_until`, `/sign-in?again=1&next=…` asks for one.",
	access: { ownSession: OWN },
	response: v.strictObject({
		uid: v.string(),
		email: v.string(),
		email_verified: v.boolean(),
		passkeys: v.number(),
		/** Owns the first organization. */
		is_operator: v.boolean(),
		created_at: time,
		session_id: v.string(),
		recent_sign_in_until: time,
	}),
	errors: [],
	example: {
		response: {
			uid: SIGNED_IN_EXAMPLE.uid,
			email: SIGNED_IN_EXAMPLE.email,
			email_verified: true,
			passkeys: 1,
			is_operator: false,
			created_at: "2026-11-21T08:00:00.000Z",
			session_id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
			recent_sign_in_until: "2026-11-21T08:15:00.000Z",
		},
	},
	load: (_input, nowMs, tokenHash) => [accountDetails(tokenHash, OWNING_ROLES, nowMs)] as const,
	async handle({ loaded, principal }) {
		const [account] = loaded[0].rows;
		if (account === undefined) throw invalidSession();
		const { sessionId, signedInAtMs } = sessionOf(principal);
		return {
			uid: account.id,
			email: account.email,
			email_verified: account.email_verified_at_ms !== null,
			passkeys: account.passkeys,
			is_operator: account.is_operator === 1,
			created_at: rfc3339(account.created_at_ms),
			session_id: sessionId,
			recent_sign_in_until: rfc3339(signedInAtMs + RECENT_SIGN_IN_MS),
		};
	},
});

const sessionSchema = v.strictObject({
	id: v.string(),
	current: v.boolean(),
	method: v.string(),
	user_agent: v.nullable(v.string()),
	ip_address: v.nullable(v.string()),
	created_at: time,
	last_seen_at: time,
	expires_at: time,
});

export const listSessions = endpoint({
	method: "GET",
	path: "/account/sessions",
	tag: TAG,
	summary: "List where you are signed in, the last used first",
	description:
		"`last_seen_at` is right to five minutes. A session ends seven days after its last use, and thirty days after its sign-in.",
	access: { ownSession: OWN },
	response: v.array(sessionSchema),
	errors: [],
	example: {
		response: [
			{
				id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
				current: true,
				method: "passkey",
				user_agent: "Mozilla/5.0 …",
				ip_address: "192.0.2.7",
				created_at: "2026-11-21T08:00:00.000Z",
				last_seen_at: "2026-11-21T08:00:00.000Z",
				expires_at: "2026-12-21T08:00:00.000Z",
			},
		],
	},
	async handle({ db, principal, nowMs }) {
		const { userId, sessionId } = sessionOf(principal);
		const [sessions] = await db.batch([sessionsOf(userId, nowMs)]);
		return sessions.rows.map(({ id, method, user_agent, ip_address, ...times }) => ({
			id,
			current: id === sessionId,
			method,
			user_agent,
			ip_address,
			created_at: rfc3339(times.created_at_ms),
			last_seen_at: rfc3339(times.last_seen_at_ms),
			expires_at: rfc3339(times.expires_at_ms),
		}));
	},
});

const sessionNotFound = () =>
	new ApiError("session_not_found", "Your account has no such session; look at GET /account/sessions.");

export const endSession = endpoint({
	method: "DELETE",
	path: "/account/sessions/:id",
	tag: TAG,
	summary: "End one of your sessions at once",
	access: { ownSession: OWN },
	response: acknowledgement,
	errors: ["session_not_found"],
	example: { response: OK },
	async handle(context) {
		const { db, principal, input, nowMs, origin } = context;
		const { userId, sessionId } = sessionOf(principal);
		const id = v.safeParse(uuid, input.params.id);
		if (!id.success) throw sessionNotFound();
		await batchOrFail(
			db,
			[
				guard("session_there", sessionExists(userId, id.output)),
				deleteSession(userId, id.output),
				logAccount(
					{ userId, action: "session.revoke", details: { session: id.output } },
					accountOrigin(context),
					nowMs,
				),
			],
			{ session_there: sessionNotFound },
		);
		return new Reply(200, OK, id.output === sessionId ? clearSessionCookie(origin) : {});
	},
});

export const endSessions = endpoint({
	method: "DELETE",
	path: "/account/sessions",
	tag: TAG,
	summary: "End all of your sessions at once",
	description: "`others=true` leaves the one that asks.",
	access: { ownSession: OWN },
	query: v.object({ others: optional(booleanText) }),
	response: v.strictObject({ status: v.literal("ok"), ended: v.number() }),
	errors: [],
	example: { query: { others: "true" }, response: { status: "ok", ended: 2 } },
	async handle(context) {
		const { db, principal, input, nowMs, origin } = context;
		const { userId, sessionId } = sessionOf(principal);
		const others = input.query.others === true;
		const [ended] = await db.batch([
			deleteSessions(userId, others ? sessionId : undefined),
			logAccount({ userId, action: "session.revoke_all", details: { others } }, accountOrigin(context), nowMs),
		]);
		const answer = { status: "ok" as const, ended: ended.rows.length };
		return new Reply(200, answer, others ? {} : clearSessionCookie(origin));
	},
});

export const accountLog = endpoint({
	method: "GET",
	path: "/account/log",
	tag: TAG,
	summary: "List what happened to your account, newest first",
	description:
		"Sign-ins, sign-outs, passkeys, providers, sessions, changes of address; for you alone, for ninety days.",
	access: { ownSession: OWN },
	query: v.object({ page: pageNumber }),
	response: v.array(
		v.strictObject({
			id: v.number(),
			at: time,
			action: v.string(),
			details: v.record(v.string(), v.unknown()),
			request_id: v.string(),
			ip_address: v.nullable(v.string()),
			user_agent: v.nullable(v.string()),
		}),
	),
	errors: [],
	example: {
		query: { page: "0" },
		response: [
			{
				id: 12,
				at: "2026-11-21T08:00:00.000Z",
				action: "sign_in",
				details: { method: "passkey" },
				request_id: "e929ae96-7f2b-4a51-8b6e-2a1f0b8c1d11",
				ip_address: "192.0.2.7",
				user_agent: "Mozilla/5.0 …",
			},
		],
	},
	async handle({ db, principal, input, request, origin }) {
		const { page } = input.query;
		const { limit, offset } = pageBounds(page);
		const [entries] = await db.batch([accountLogPage(principal.userId, limit, offset)]);
		return pageReply({ request, origin }, page, entries.rows, ({ at_ms, details, ...entry }) => ({
			...entry,
			at: rfc3339(at_ms),
			details: JSON.parse(details) as Record<string, unknown>,
		}));
	},
});

export const sendEmailCode = endpoint({
	method: "POST",
	path: "/account/email",
	tag: TAG,
	summary: "Begin to change your e-mail address",
	description: "A code goes to the new address, unless it is another account's; the answer does not tell.",
	access: { ownSession: OWN },
	recentSignIn: true,
	body: v.object({ email: personsAddress }),
	status: [202],
	response: v.strictObject({ status: v.literal("ok"), attempt: v.string(), expires_at: time }),
	errors: ["sign_in_method_not_found"],
	example: {
		body: { email: "ada@example.com" },
		response: { status: "ok", attempt: EXAMPLE_ATTEMPT, expires_at: "2026-11-21T08:10:00.000Z" },
	},
	async handle({ db, deps, principal, input, nowMs, actor, origin, waitUntil }) {
		if (deps.config.mail === undefined) throw noMail();
		await countSignIn(deps, actor.ipAddress);
		const { userId } = principal;
		const { email } = input.body;
		const attempt = mintAttemptToken(deps.randomBytes);
		const code = mintCode(deps.randomBytes);
		const expiresAtMs = nowMs + CODE_LIFETIME_MS;
		const secret = hashCode(code, attempt.hash, signingSecret(deps.config.secrets, nowMs));
		const [begun, taken] = await db.batch([
			beginAttempt(
				{
					...{ tokenHash: attempt.hash, kind: "email", userId, email, secret, expiresAtMs },
					askedBy: askedByAccount(userId),
				},
				nowMs,
			),
			accountByEmail(email),
		]);
		if (begun.rows.length === 0) throw tooManyCodes();
		const isFree = taken.rows.every((account) => account.id === userId);
		if (isFree) {
			waitUntil(
				sendMail(deps, {
					to: email,
					subject: `${code} confirms your address`,
					text: `${code} confirms that this is the address of your account at ${origin}. It is good for ten minutes. If you did not ask for it, do nothing.`,
				}),
			);
		}
		return new Reply(202, { status: "ok" as const, attempt: attempt.text, expires_at: rfc3339(expiresAtMs) });
	},
});

export const changeEmail = endpoint({
	method: "PUT",
	path: "/account/email",
	tag: TAG,
	summary: "Change your e-mail address, with the code that went there",
	description: "Every other session ends, and this one gets a new token. The old address is told.",
	access: { ownSession: OWN },
	recentSignIn: true,
	body: v.object({ attempt: text(128), email: personsAddress, code: codeField }),
	response: v.strictObject({ status: v.literal("ok"), email: v.string() }),
	errors: ["sign_in_failed", "email_not_available"],
	example: {
		body: { attempt: EXAMPLE_ATTEMPT, email: "ada@example.com", code: "123456" },
		response: { status: "ok", email: "ada@example.com" },
	},
	async handle(context) {
		const { db, deps, principal, input, nowMs, actor, origin, waitUntil } = context;
		const { userId, sessionId, email: oldEmail } = sessionOf(principal);
		const { email, code } = input.body;
		const hash = hashKey(input.body.attempt);
		const codes = codeHashes(code, hash, deps.config.secrets);
		const isProved = isRightCode(hash, "email", codes, nowMs, { userId, email });
		const token = mintSessionToken(deps.randomBytes);
		const results = await batchOrFail(
			db,
			[
				countTry(hash, "email", nowMs),
				auditEmailChange(userId, email, isProved, actor, nowMs),
				...changeEmailStatements({ userId, sessionId }, email, token.hash, isProved, nowMs),
				logAccount({ userId, action: "email.change", details: { email } }, accountOrigin(context), nowMs, isProved),
				deleteAttempt(hash, isProved),
			],
			{
				"users.email": () =>
					new ApiError("email_not_available", "This address was taken by another account meanwhile; use another one."),
			},
		);
		if (results.at(-1)?.changes !== 1) throw signInFailed({ userId });
		if (oldEmail !== email) {
			waitUntil(
				sendMail(deps, {
					to: oldEmail,
					subject: "The address of your account was changed",
					text: `Your account at ${origin} has another address now, and this one no longer signs in to it. If you did not change it, tell whoever runs the service, or an administrator of your organization, at once.`,
				}),
			);
		}
		return new Reply(
			200,
			{ status: "ok" as const, email },
			{ "Set-Cookie": sessionCookie(origin, token.text, SESSION_LIFETIME_MS) },
		);
	},
});

const partSchema = v.strictObject({ id: v.string(), name: v.string() });
const named = ({ id, name }: Part) => ({ id, name });

export const deleteAccount = endpoint({
	method: "DELETE",
	path: "/account",
	tag: TAG,
	summary: "Delete your account",
	description:
		"In every organization it is as if you were removed: your roles, the API keys that you made and the invitations that you sent go with you. What you did stays in the audit logs, with your address. Refused while you are the last who may delete an organization, which the answer names; one that is deleted and can be restored counts. `dry_run=true` shows what would go and does nothing.",
	access: { ownSession: OWN },
	recentSignIn: ({ query }) => query.dry_run !== true,
	query: v.object({ dry_run: optional(booleanText) }),
	response: v.strictObject({
		status: v.literal("ok"),
		dry_run: v.boolean(),
		left_organizations: v.array(partSchema),
		revoked_api_keys: v.array(partSchema),
	}),
	errors: ["cannot_remove_last_super_admin", "account_changed"],
	example: {
		query: { dry_run: "true" },
		response: {
			status: "ok",
			dry_run: true,
			left_organizations: [{ id: "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21", name: "My organization" }],
			revoked_api_keys: [{ id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31", name: "Nightly build" }],
		},
	},
	load: (_input, _nowMs, tokenHash) => [partsOf(tokenHash, OWNING_ROLES)] as const,
	async handle({ db, principal, input, loaded, nowMs, actor, origin }) {
		const { userId, email } = sessionOf(principal);
		const parts = loaded[0].rows;
		const lastOf = parts.filter((part) => part.is_last_owner === 1);
		if (lastOf.length > 0) throw lastOwner(lastOf);
		const dryRun = input.query.dry_run === true;
		const answer = {
			status: "ok" as const,
			dry_run: dryRun,
			left_organizations: parts.map(named),
			revoked_api_keys: parts.flatMap((part) => JSON.parse(part.keys) as { id: string; name: string }[]),
		};
		if (dryRun) return answer;
		const ids = parts.map((part) => part.id);
		const roles = { owning: OWNING_ROLES, administering: ADMINISTERING_ROLES };
		await batchOrFail(
			db,
			[
				guard("parts_as_read", partsAre(userId, ids)),
				guard("owner_left", isNoLastOwner(userId, OWNING_ROLES)),
				...deleteAccountStatements({ id: userId, email }, parts, roles, actor, nowMs),
			],
			{
				parts_as_read: accountChanged,
				owner_left: accountChanged,
			},
		);
		return new Reply(200, answer, clearSessionCookie(origin));
	},
});

const accountChanged = () =>
	new ApiError(
		"account_changed",
		"Your part in an organization was changed at the same moment; look at it and repeat.",
	);

function lastOwner(parts: readonly Part[]): ApiError {
	const names = parts.map((part) => `"${part.name}"`).join(", ");
	return new ApiError(
		"cannot_remove_last_super_admin",
		`You are the last who may delete ${names}; give that role to another member first, or delete the organization and wait until it can no longer be restored.`,
		{ moreInfo: { organizations: parts.map((part) => ({ ...named(part), deleted: part.deleted_at_ms !== null })) } },
	);
}
