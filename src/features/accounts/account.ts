/**
 * The signed-in account: show it, list its activity, delete it. Deleting removes it from every
 * organization; each organization audits that in its log. An account cannot be deleted while it is
 * the last owner of an organization.
 */
import * as v from "valibot";
import { ADMINISTERING_ROLES, OWNING_ROLES } from "../../authz/member-roles";
import { invalidSession } from "../../authz/principal";
import { RECENT_SIGN_IN_MS } from "../../authz/session";
import {
	accountDetails,
	deleteAccountStatements,
	isNoLastOwner,
	type Part,
	partsAre,
	partsOf,
} from "../../db/accounts";
import { guard } from "../../db/client";
import { accountLogPage } from "../../db/sessions";
import { ACCOUNT_LOG_DAYS } from "../../domain/defaults";
import { ApiError } from "../../errors";
import { clearSessionCookie } from "../../http/cookies";
import { endpoint, Reply } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { booleanText, optional, pageNumber, rfc3339, time } from "../../http/schemas";
import { ACCOUNT_TAG, OWN_ACCOUNT, sessionOf } from "./new-session";
import { SIGNED_IN_EXAMPLE } from "./sign-in";

export const getAccount = endpoint({
	method: "GET",
	path: "/account",
	tag: ACCOUNT_TAG,
	summary: "Show the signed-in account",
	description: [
		"Changes that outlive a session (passkeys, addresses, API",
		"keys, members, account deletion) require a recent sign-in.",
		"After `recent_sign_in_until`, open `/sign-in?again=1&next=…` to sign in again.",
	],
	access: { ownSession: OWN_ACCOUNT },
	response: v.strictObject({
		uid: v.string(),
		email: v.string(),
		email_verified: v.boolean(),
		passkeys: v.number(),
		/** True if the account owns the first organization. */
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
	load: (_input, nowMs, tokenHash) => ({ account: accountDetails(tokenHash, OWNING_ROLES, nowMs) }),
	async handle({ loaded, principal }) {
		const [account] = loaded.account;
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

export const accountLog = endpoint({
	method: "GET",
	path: "/account/log",
	tag: ACCOUNT_TAG,
	summary: "List the activity of your account, newest first",
	description: `Sign-ins, sign-outs, and changes of passkeys, providers, sessions and the address, for ${ACCOUNT_LOG_DAYS} days. Visible to you only.`,
	access: { ownSession: OWN_ACCOUNT },
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

const partSchema = v.strictObject({ id: v.string(), name: v.string() });
const named = ({ id, name }: Part) => ({ id, name });

export const deleteAccount = endpoint({
	method: "DELETE",
	path: "/account",
	tag: ACCOUNT_TAG,
	summary: "Delete your account",
	description: [
		"Removes you from every organization: your roles, your API keys and the invitations that you sent.",
		"Audit logs keep your actions and your address.",
		"Refused while you are the last member who can delete an organization; the error lists these",
		"organizations, including deleted ones that can still be restored.",
		"`dry_run=true` shows what would be removed and changes nothing.",
	],
	access: { ownSession: OWN_ACCOUNT },
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
	load: (_input, _nowMs, tokenHash) => ({ parts: partsOf(tokenHash, OWNING_ROLES) }),
	async handle({ db, principal, input, loaded, nowMs, actor, origin }) {
		const { userId, email } = sessionOf(principal);
		const parts = loaded.parts;
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
		await db.batch([
			guard(partsAre(userId, ids), accountChanged),
			guard(isNoLastOwner(userId, OWNING_ROLES), accountChanged),
			...deleteAccountStatements({ id: userId, email }, parts, roles, actor, nowMs),
		]);
		return new Reply(200, answer, clearSessionCookie(origin));
	},
});

const accountChanged = () =>
	new ApiError(
		"account_changed",
		"Your membership in an organization was changed by another request. Send dry_run=true to see the current state, then retry.",
	);

function lastOwner(parts: readonly Part[]): ApiError {
	const names = parts.map((part) => `"${part.name}"`).join(", ");
	return new ApiError(
		"cannot_remove_last_super_admin",
		`You are the last member who can delete ${names}. Give that role to another member first, or delete the organization and wait until it can no longer be restored.`,
		{ moreInfo: { organizations: parts.map((part) => ({ ...named(part), deleted: part.deleted_at_ms !== null })) } },
	);
}
