/**
 * Shows, accepts and declines invitations. The token is the credential of a new account; the owner
 * of an existing account must also sign in or enter a code. One batch accepts an invitation: it
 * creates the account, the membership and, unless the request wants none, a first API key, and
 * deletes the invitation. Every invalid invitation gets the same error.
 */
import { type CompiledQuery, sql } from "kysely";
import * as v from "valibot";
import { holdsAll, resolvedRole } from "../../authz/custom-roles";
import type { OrgId } from "../../authz/decide";
import { WEAKEST_MEMBER_ROLE } from "../../authz/member-roles";
import type { Role } from "../../authz/permissions";
import { codeHashes, hashKey, type MintedKey, mintKey } from "../../authz/secrets";
import { insertApiKey } from "../../db/api-keys";
import { auditStatement } from "../../db/audit/entries";
import { guard, onUnique } from "../../db/client";
import {
	deleteInvitation,
	type InvitationWithOrganization,
	insertAccount,
	invitationByToken,
	invitationIsGood,
} from "../../db/invitations";
import { insertMemberBinding } from "../../db/members";
import { keysOfOrganization } from "../../db/quotas";
import { insertBinding } from "../../db/role-bindings";
import { hasSession } from "../../db/sessions";
import { accountOfAttempt, countTry, deleteAttempt, isRightCode, markEmailVerified } from "../../db/sign-in";
import type { Deps } from "../../deps";
import { isReservedAddress } from "../../domain/network/reserved-address";
import type { Secrets } from "../../domain/secrets";
import { DAY_MS } from "../../domain/time";
import { ApiError, serviceUnavailable } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { batchInQuotas } from "../../http/quotas";
import { acknowledgement, label, OK, optional, rfc3339, text, time } from "../../http/schemas";
import {
	currentTokenHash,
	newSession,
	requireOwnPage,
	type SignInContext,
	signInFailed,
} from "../accounts/new-session";
import { codeField } from "../accounts/sign-in";
import { EXAMPLE_ORG_ID, EXAMPLE_TOKEN, EXAMPLE_UID, neededToInvite, shownInvitation } from "./member-rules";

/** Lifetime of a new member's first key, unless the organization allows less. */
const FIRST_KEY_DAYS = 90;
const FIRST_KEY_NAME = "Personal key";

const WHY_PUBLIC = "The token of the invitation is the credential; its holder may have no key yet.";
const tokenField = text(128);

export const showInvitation = endpoint({
	method: "POST",
	path: "/invitation/show",
	tag: "Members",
	summary: "Show the organization, the role and the inviter of an invitation",
	description: "A POST, so that the token does not appear in a URL.",
	access: { public: WHY_PUBLIC },
	body: v.object({ token: tokenField }),
	response: v.strictObject({
		organization: v.string(),
		email: v.string(),
		role: v.string(),
		permissions: v.array(v.string()),
		invited_by: v.string(),
		note: v.nullable(v.string()),
		expires_at: time,
	}),
	errors: ["invitation_not_found"],
	example: {
		body: { token: EXAMPLE_TOKEN },
		response: {
			organization: "My organization",
			email: "ada@example.com",
			role: WEAKEST_MEMBER_ROLE,
			permissions: ["org.read"],
			invited_by: "grace@example.com",
			note: "Welcome",
			expires_at: "2026-11-28T08:00:00.000Z",
		},
	},
	load: ({ body }, nowMs) => ({ invitation: invitationByToken(hashKey(body.token), nowMs) }),
	async handle({ loaded }) {
		const { invitation, role } = validInvitation(loaded.invitation[0]);
		return {
			organization: invitation.organization_name,
			email: invitation.email,
			role: role.name,
			permissions: [...role.permissions],
			invited_by: invitation.inviter_email,
			note: invitation.note,
			expires_at: rfc3339(invitation.expires_at_ms),
		};
	},
});

export const declineInvitation = endpoint({
	method: "POST",
	path: "/invitation/decline",
	tag: "Members",
	summary: "Decline an invitation, whose link stops working",
	description: "The activity of the organization says so.",
	access: { public: WHY_PUBLIC },
	body: v.object({ token: tokenField }),
	response: acknowledgement,
	errors: ["invitation_not_found"],
	example: { body: { token: EXAMPLE_TOKEN }, response: OK },
	load: ({ body }, nowMs) => ({ invitation: invitationByToken(hashKey(body.token), nowMs) }),
	async handle({ db, input, loaded, actor, nowMs }) {
		const { invitation, role } = validInvitation(loaded.invitation[0]);
		const { id, email } = invitation;
		const orgId = invitation.org_id as OrgId;
		await db.batch([
			guard(
				invitationIsGood(invitation, hashKey(input.body.token), role, neededToInvite(role), nowMs),
				invitationNotFound,
			),
			deleteInvitation(orgId, email),
			// The link does not prove whose account it is for: the inviter has it as well.
			auditStatement({ ...actor, type: "user", id: null, name: email }, nowMs, {
				orgId,
				action: "invitation.decline",
				target: { type: "invitation", id, name: email },
				before: shownInvitation(role.name, invitation.expires_at_ms),
				details: { proven_by: "link", ...linkOf(invitation) },
			}),
		]);
		return OK;
	},
});

export const acceptInvitation = endpoint({
	method: "POST",
	path: "/invitation/accept",
	tag: "Members",
	summary: "Accept an invitation, get a first API key, and sign in",
	description: [
		"Creates an account for the invited address if none exists, and adds it as a member.",
		"An existing account joins only from its own session, or with `attempt` and `code` of POST",
		"/sign-in/code if mail is configured: the link alone does not prove who owns the address, because the",
		"inviter has it as well (401 `sign_in_required`).",
		`The account gets an API key with the role in this organization, which expires after ${FIRST_KEY_DAYS} days or the`,
		"organization's maximum; the secret is in this response only.",
		"`name` is the key's name; `create_key: false` creates none, and `api_key` is null.",
		"`sign_in: true`, which only the service's own page may send, also signs in to an account that is new",
		"or was verified by the code.",
	],
	access: { public: WHY_PUBLIC },
	body: v.object({
		token: tokenField,
		name: optional(label()),
		create_key: optional(v.boolean()),
		sign_in: optional(v.boolean()),
		attempt: optional(tokenField),
		code: optional(codeField),
	}),
	status: [201],
	response: v.strictObject({
		status: v.literal("ok"),
		org_id: v.string(),
		uid: v.string(),
		email: v.string(),
		role: v.string(),
		signed_in: v.boolean(),
		api_key: v.nullable(v.strictObject({ id: v.string(), key: v.string(), expires_at: time })),
	}),
	errors: [
		"quota_exceeded",
		"invitation_not_found",
		"sign_in_required",
		"sign_in_failed",
		"cross_site_request",
		"https_required",
		"too_many_requests",
	],
	example: {
		body: { token: EXAMPLE_TOKEN, name: "Ada's laptop" },
		response: {
			status: "ok",
			org_id: EXAMPLE_ORG_ID,
			uid: EXAMPLE_UID,
			email: "ada@example.com",
			role: WEAKEST_MEMBER_ROLE,
			signed_in: false,
			api_key: {
				id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
				key: "cap_…",
				expires_at: "2027-02-19T08:00:00.000Z",
			},
		},
	},
	// Counts a try with a code in its own batch, because the batch that rejects a wrong code is rolled
	// back.
	load: ({ body }, nowMs) => ({
		invitation: invitationByToken(hashKey(body.token), nowMs),
		tries: body.attempt === undefined ? undefined : countTry(hashKey(body.attempt), "code", nowMs),
	}),
	async handle(context) {
		const { db, deps, input, loaded, nowMs } = context;
		const current = currentTokenHash(context);
		const signsIn = input.body.sign_in === true;
		// A session cookie is accepted from our own pages only.
		if (signsIn || current !== undefined) requireOwnPage(context);
		const { invitation, role } = validInvitation(loaded.invitation[0]);
		// The token authorizes the request for this organization; the endpoint is public, so no decision
		// was made before.
		const orgId = invitation.org_id as OrgId;
		const { email } = invitation;
		const isNew = invitation.user_id === null;
		const uid = invitation.user_id ?? deps.newId();
		const proof = isNew ? undefined : proofOfAccount(uid, current, input.body, deps.config.secrets, nowMs);
		const key = input.body.create_key === false ? undefined : newKey(invitation, input.body.name, deps, nowMs);
		const session =
			signsIn && proof?.by !== "session" ? newSession(context, uid, isNew ? "invitation" : "code") : undefined;
		await batchInQuotas(db, deps.config.quotas, key === undefined ? [] : [keysOfOrganization(orgId)], [
			...(proof === undefined ? [] : [guard(proof.condition, proof.failure)]),
			guard(
				invitationIsGood(invitation, hashKey(input.body.token), role, neededToInvite(role), nowMs),
				invitationNotFound,
			),
			...(isNew
				? [
						onUnique(insertAccount(uid, email, nowMs), "users.email", () =>
							serviceUnavailable("the account was created at the same time"),
						),
					]
				: []),
			...(proof?.by === "code" ? [...markEmailVerified(uid, current, nowMs), deleteAttempt(proof.attempt)] : []),
			insertMemberBinding({ id: deps.newId(), userId: uid, orgId, role: role.name }, nowMs),
			...(key === undefined ? [] : insertFirstKey(key, { userId: uid, orgId, role: role.name }, deps.newId(), nowMs)),
			deleteInvitation(orgId, email),
			...auditAcceptance(context, invitation, { uid, role: role.name, key, provenBy: proof?.by ?? "new_account" }),
			...(session?.statements ?? []),
		]);
		const answer = {
			status: "ok" as const,
			org_id: orgId,
			uid,
			email,
			role: role.name,
			signed_in: session !== undefined || proof?.by === "session",
			api_key: key === undefined ? null : { id: key.id, key: key.text, expires_at: rfc3339(key.expiresAtMs) },
		};
		return new Reply(201, answer, session === undefined ? {} : { "Set-Cookie": session.cookie });
	},
});

interface FirstKey extends MintedKey {
	readonly id: string;
	readonly name: string;
	readonly expiresAtMs: number;
}

function newKey(
	{ max_apikey_expiration_days: mostDays }: InvitationWithOrganization,
	name: string | undefined,
	{ newId, randomBytes }: Deps,
	nowMs: number,
): FirstKey {
	const days = Math.min(FIRST_KEY_DAYS, mostDays ?? FIRST_KEY_DAYS);
	return {
		...mintKey(randomBytes),
		id: newId(),
		name: name ?? FIRST_KEY_NAME,
		expiresAtMs: nowMs + days * DAY_MS,
	};
}

function insertFirstKey(
	key: FirstKey,
	{ userId, orgId, role }: { readonly userId: string; readonly orgId: OrgId; readonly role: string },
	bindingId: string,
	nowMs: number,
): CompiledQuery[] {
	const holder = { userId, keyId: key.id };
	return [
		insertApiKey(orgId, {
			id: key.id,
			user_id: userId,
			name: key.name,
			key_hash: key.hash,
			key_hint: key.hint,
			expires_at_ms: key.expiresAtMs,
			created_at_ms: nowMs,
			updated_at_ms: nowMs,
		}),
		insertBinding("org", { id: bindingId, holder, role, orgId, appId: null, createdAtMs: nowMs }),
	];
}

/** Details of the audit entries of an invitation's link. */
const linkOf = ({ invited_by, inviter_email }: InvitationWithOrganization) => ({
	by_link: true,
	invited_by,
	invited_by_name: inviter_email,
});

interface Acceptance {
	readonly uid: string;
	readonly role: string;
	readonly key: FirstKey | undefined;
	readonly provenBy: "new_account" | "code" | "session";
}

/** The entries for the invitation, the member and the key if there is one, by who joins. */
function auditAcceptance(
	{ actor, nowMs }: Pick<SignInContext, "actor" | "nowMs">,
	invitation: InvitationWithOrganization,
	{ uid, role, key, provenBy }: Acceptance,
): CompiledQuery[] {
	const { org_id: orgId, email } = invitation;
	const person = { ...actor, type: "user" as const, id: uid, name: email };
	const details = { proven_by: provenBy, ...linkOf(invitation) };
	const entries = [
		{
			action: "invitation.accept",
			target: { type: "invitation", id: invitation.id, name: email },
			before: shownInvitation(role, invitation.expires_at_ms),
		},
		{ action: "member.add", target: { type: "user", id: uid, name: email }, after: { role } },
		...(key === undefined
			? []
			: [
					{
						action: "api_key.create",
						target: { type: "api_key", id: key.id, name: key.name },
						after: {
							name: key.name,
							is_hashed_key: true,
							expires_at: rfc3339(key.expiresAtMs),
							bindings: [{ role_name: role, scope_type: "org", org_id: orgId }],
							global_permissions: [],
							ip_allow_list: [],
						},
					},
				]),
	];
	return entries.map((entry) => auditStatement(person, nowMs, { orgId, ...entry, details }));
}

/**
 * The proof that the owner of an existing account sends the request, checked in the batch that
 * joins.
 * @throws {ApiError} `sign_in_required` without a code and a session
 */
function proofOfAccount(
	uid: string,
	sessionHash: string | undefined,
	{ attempt, code }: { readonly attempt?: string | undefined; readonly code?: string | undefined },
	secrets: Secrets,
	nowMs: number,
) {
	if (attempt !== undefined && code !== undefined) {
		const hash = hashKey(attempt);
		const isRight = isRightCode(hash, "code", codeHashes(code, hash, secrets), nowMs);
		const condition = sql<boolean>`(${isRight} AND ${accountOfAttempt(hash)} = ${uid})`;
		return { by: "code" as const, attempt: hash, condition, failure: () => signInFailed({ attempt: hash }) };
	}
	if (sessionHash === undefined) throw signInRequired();
	return { by: "session" as const, condition: hasSession(uid, sessionHash, nowMs), failure: signInRequired };
}

const signInRequired = () =>
	new ApiError(
		"sign_in_required",
		"The invited address has an account. Sign in to it at /sign-in and open the link again, or send attempt and code of POST /sign-in/code.",
	);

const invitationNotFound = () =>
	new ApiError(
		"invitation_not_found",
		"This invitation is unknown, has expired or was already used. Ask for a new one.",
	);

/**
 * @throws {ApiError} `invitation_not_found`, also when the inviter has left or may no longer invite
 */
function validInvitation(invitation: InvitationWithOrganization | undefined): {
	invitation: InvitationWithOrganization;
	role: Role;
} {
	if (invitation === undefined || isReservedAddress(invitation.email)) throw invitationNotFound();
	const { role_name, custom_permissions } = invitation;
	const role = resolvedRole(role_name, "org", custom_permissions === null ? null : JSON.parse(custom_permissions));
	if (role?.scopeType !== "org") throw invitationNotFound();
	const held: { role: string; customPermissions: string[] | null }[] = JSON.parse(invitation.inviter_roles);
	const mayInvite = held.some(({ role: name, customPermissions }) => {
		const inviterRole = resolvedRole(name, "org", customPermissions);
		return inviterRole !== undefined && holdsAll(inviterRole, neededToInvite(role));
	});
	if (!mayInvite) throw invitationNotFound();
	return { invitation, role };
}
