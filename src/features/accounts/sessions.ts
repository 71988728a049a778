/**
 * The sessions of the signed-in account: list them, end one or all.
 */
import * as v from "valibot";
import { guard } from "../../db/client";
import { deleteSession, deleteSessions, logAccount, sessionExists, sessionsOf } from "../../db/sessions";
import { ApiError } from "../../errors";
import { clearSessionCookie } from "../../http/cookies";
import { endpoint, Reply } from "../../http/endpoint";
import { acknowledgement, booleanText, OK, optional, rfc3339, time, uuid } from "../../http/schemas";
import { ACCOUNT_TAG, accountOrigin, OWN_ACCOUNT, sessionOf } from "./new-session";

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
	tag: ACCOUNT_TAG,
	summary: "List your sessions, most recently used first",
	description:
		"`last_seen_at` is accurate to five minutes. A session ends seven days after its last use, and thirty days after its sign-in.",
	access: { ownSession: OWN_ACCOUNT },
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
	new ApiError("session_not_found", "Your account has no session with this id. List yours with GET /account/sessions.");

export const endSession = endpoint({
	method: "DELETE",
	path: "/account/sessions/:id",
	tag: ACCOUNT_TAG,
	summary: "End one of your sessions",
	access: { ownSession: OWN_ACCOUNT },
	response: acknowledgement,
	errors: ["session_not_found"],
	example: { response: OK },
	async handle(context) {
		const { db, principal, input, nowMs, origin } = context;
		const { userId, sessionId } = sessionOf(principal);
		const id = v.safeParse(uuid, input.params.id);
		if (!id.success) throw sessionNotFound();
		await db.batch([
			guard(sessionExists(userId, id.output), sessionNotFound),
			deleteSession(userId, id.output),
			logAccount({ userId, action: "session.revoke", details: { session: id.output } }, accountOrigin(context), nowMs),
		]);
		return new Reply(200, OK, id.output === sessionId ? clearSessionCookie(origin) : {});
	},
});

export const endSessions = endpoint({
	method: "DELETE",
	path: "/account/sessions",
	tag: ACCOUNT_TAG,
	summary: "End all of your sessions",
	description: "`others=true` keeps the current session.",
	access: { ownSession: OWN_ACCOUNT },
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
