/**
 * Invitations: an administrator creates a link, and the person who has it joins. The token in it is kept as a hash only. It is the
 * credential for a new account; an account that exists already must also show that it is its owner who joins.
 * Accepting happens once and whole: account, membership, a first API key, and the end of the invitation are one batch. Every invitation
 * that is no good, for whatever reason, is answered alike.
 */
import { sql } from "kysely";
import * as v from "valibot";
import type { OrgId } from "../../authz/decide";
import { codeHashes, hashKey, mintInvitationToken, mintKey } from "../../authz/keys";
import { MEMBER_ROLES, WEAKEST_MEMBER_ROLE } from "../../authz/member-roles";
import type { RoleName } from "../../authz/permissions";
import { insertApiKey, insertBinding } from "../../db/api-keys";
import { auditStatement } from "../../db/audit";
import { guard } from "../../db/client";
import {
	deleteInvitation,
	type InvitationWithOrganization,
	insertAccount,
	invitationByEmail,
	invitationByToken,
	invitationIsAsRead,
	invitationIsGood,
	replaceInvitation,
} from "../../db/invitations";
import { insertMemberBinding, isNoMember, memberHolds } from "../../db/members";
import { invitationsOfOrganization, keysOfOrganization } from "../../db/quotas";
import { hasSession } from "../../db/sessions";
import { accountOfAttempt, countTry, deleteAttempt, isRightCode, markEmailVerified } from "../../db/sign-in";
import { isReservedAddress } from "../../domain/reserved-address";
import type { Secrets } from "../../domain/secrets";
import { DAY_MS } from "../../domain/time";
import { ApiError, invalidRequest, serviceUnavailable } from "../../errors";
import { endpoint, Reply } from "../endpoint";
import { refuseMoreAddresses, refuseStronger } from "../key-rules";
import { invitationLink, inviterMustBeMember, memberRole, refuseToTake, rolesThatMayInvite } from "../member-rules";
import { batchInQuotas } from "../quotas";
import { label, optional, personsAddress, rfc3339, text, time, uuid } from "../schemas";
import { orgScope } from "../scope";
import { currentTokenHash, newSession, requireOwnPage, signInFailed } from "../sign-in";
import { codeField } from "./sign-in";

const INVITATION_LIFETIME_MS = 7 * DAY_MS;
/** Of the key that a new member starts with, unless the organization allows less. */
const FIRST_KEY_DAYS = 90;
const FIRST_KEY_NAME = "Personal key";

const EXAMPLE_ORG_ID = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
const EXAMPLE_TOKEN = "inv_…";

/** What `invite_type` may say in the stead of `role`: the names that other services of this kind have for roles. */
const INVITE_TYPES: ReadonlyMap<string, RoleName> = new Map(
	[
		...MEMBER_ROLES.flatMap((role): [string, RoleName][] => [
			[role, role],
			[role.replace(/^org_/, ""), role],
		]),
		...["read", "upload", "write"].flatMap((name): [string, RoleName][] =>
			WEAKEST_MEMBER_ROLE === undefined ? [] : [[name, WEAKEST_MEMBER_ROLE]],
		),
	].flatMap(([name, role]): [string, RoleName][] => [
		[name, role],
		[`invite_${name}`, role],
	]),
);

export const inviteMember = endpoint({
	method: "POST",
	path: "/organization/members",
	tag: "Members",
	summary: "Invite a person by their e-mail address",
	description:
		"The answer carries the link for them to follow, good for 7 days and once; the service keeps no copy of it, and sends no mail. A second invitation of the same address replaces the first. `invite_type` is another name for `role`.",
	access: { permission: "org.invite_user", scope: orgScope("body.orgId") },
	recentSignIn: true,
	body: v.object({
		orgId: uuid,
		email: personsAddress,
		role: optional(memberRole),
		invite_type: optional(v.picklist([...INVITE_TYPES.keys()], `must be one of ${MEMBER_ROLES.join(", ")}`)),
	}),
	status: [201],
	response: v.strictObject({
		status: v.literal("ok"),
		invitation_id: v.string(),
		email: v.string(),
		role: v.string(),
		expires_at: time,
		link: v.string(),
	}),
	errors: ["quota_exceeded", "already_member", "invitation_changed", "cannot_remove_higher_role"],
	example: {
		body: { orgId: EXAMPLE_ORG_ID, email: "ada@example.com", role: WEAKEST_MEMBER_ROLE },
		response: {
			status: "ok",
			invitation_id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
			email: "ada@example.com",
			role: WEAKEST_MEMBER_ROLE,
			expires_at: "2026-11-28T08:00:00.000Z",
			link: `https://updates.example.com/invitation#token=${EXAMPLE_TOKEN}`,
		},
	},
	load: ({ body }) => [invitationByEmail(body.orgId, body.email)] as const,
	async handle({ db, deps, principal, scope, input, loaded, nowMs, actor, origin }) {
		const { email } = input.body;
		const role = roleOf(input.body);
		refuseStronger(principal, role, { orgId: scope.orgId });
		// Whoever accepts gets a key that works from everywhere.
		refuseMoreAddresses(principal, []);

		const [replaced] = loaded[0].rows;
		if (replaced !== undefined && replaced.expires_at_ms > nowMs) {
			refuseToTake(principal, [replaced.role_name], scope.orgId, "The invitation that this would replace");
		}
		const id = deps.newId();
		const token = mintInvitationToken(deps.randomBytes);
		const expiresAtMs = nowMs + INVITATION_LIFETIME_MS;
		await batchInQuotas(
			db,
			deps.config.quotas,
			[invitationsOfOrganization(scope.orgId, nowMs)],
			[
				guard("no_member", isNoMember(scope.orgId, email, nowMs)),
				guard("as_read", invitationIsAsRead(scope.orgId, email, replaced)),
				guard("inviter_may", memberHolds(scope.orgId, principal.userId, rolesThatMayInvite(role), nowMs)),
				...replaceInvitation(scope.orgId, {
					id,
					email,
					role_name: role,
					token_hash: token.hash,
					invited_by: principal.userId,
					expires_at_ms: expiresAtMs,
					created_at_ms: nowMs,
				}),
				auditStatement(actor, nowMs, {
					orgId: scope.orgId,
					action: "invitation.create",
					target: { type: "invitation", id, name: email },
					...(replaced === undefined ? {} : { before: shown(replaced.role_name, replaced.expires_at_ms) }),
					after: shown(role, expiresAtMs),
				}),
			],
			{
				no_member: () =>
					new ApiError(
						"already_member",
						"This person is a member already; change their role with PUT /organization/members.",
					),
				as_read: () =>
					new ApiError(
						"invitation_changed",
						"Somebody else invited this person at the same moment; look at GET /organization/members and repeat.",
					),
				inviter_may: () => inviterMustBeMember(role),
			},
		);
		return new Reply(201, {
			status: "ok" as const,
			invitation_id: id,
			email,
			role,
			expires_at: rfc3339(expiresAtMs),
			link: invitationLink(origin, token.text),
		});
	},
});

const shown = (role: string, expiresAtMs: number) => ({ role, expires_at: rfc3339(expiresAtMs) });

function roleOf(body: { readonly role?: RoleName | undefined; readonly invite_type?: string | undefined }): RoleName {
	const type = body.invite_type === undefined ? undefined : INVITE_TYPES.get(body.invite_type);
	const role = body.role ?? type;
	if (role === undefined)
		throw invalidRequest([{ path: "role", message: `must be one of ${MEMBER_ROLES.join(", ")}` }]);
	if (type !== undefined && type !== role) {
		throw invalidRequest([{ path: "invite_type", message: "differs from role; send role alone" }]);
	}
	return role;
}

const WHY_PUBLIC = "The token of the invitation is the credential; who has it need have no key yet.";
const tokenField = text(128);

export const showInvitation = endpoint({
	method: "POST",
	path: "/invitation/show",
	tag: "Members",
	summary: "Show what an invitation offers",
	description: "A POST, so that the token stands in no URL.",
	access: { public: WHY_PUBLIC },
	consistency: "first-primary",
	body: v.object({ token: tokenField }),
	response: v.strictObject({ organization: v.string(), email: v.string(), role: v.string(), expires_at: time }),
	errors: ["invitation_not_found", "too_many_requests"],
	example: {
		body: { token: EXAMPLE_TOKEN },
		response: {
			organization: "My organization",
			email: "ada@example.com",
			role: WEAKEST_MEMBER_ROLE,
			expires_at: "2026-11-28T08:00:00.000Z",
		},
	},
	load: ({ body }, nowMs) => [invitationByToken(hashKey(body.token), nowMs)] as const,
	async handle({ loaded }) {
		const { invitation, role } = goodInvitation(loaded[0].rows[0]);
		return {
			organization: invitation.organization_name,
			email: invitation.email,
			role,
			expires_at: rfc3339(invitation.expires_at_ms),
		};
	},
});

export const acceptInvitation = endpoint({
	method: "POST",
	path: "/invitation/accept",
	tag: "Members",
	summary: "Accept an invitation, get a first API key, and sign in",
	description:
		"Creates an account for the invited address if there is none, and makes it a member. An account that exists already joins from its own session only, or with `attempt` and `code` of POST /sign-in/code, where mail is configured: the link alone does not show whose the address is, because the inviter has it as well (401 `sign_in_required`). The key is the account's, has the role in this organization, and expires after 90 days or what the organization allows; its secret is in this answer only. `name` is the key's name. `sign_in: true`, which only the service's own page may send, also signs in to an account that is new or was proven by the code.",
	access: { public: WHY_PUBLIC },
	consistency: "first-primary",
	body: v.object({
		token: tokenField,
		name: optional(label()),
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
		api_key: v.strictObject({ id: v.string(), key: v.string(), expires_at: time }),
	}),
	errors: [
		...(["quota_exceeded", "invitation_not_found", "sign_in_required", "sign_in_failed"] as const),
		...(["cross_site_request", "https_required", "too_many_requests"] as const),
	],
	example: {
		body: { token: EXAMPLE_TOKEN, name: "Ada's laptop" },
		response: {
			status: "ok",
			org_id: EXAMPLE_ORG_ID,
			uid: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
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
	// A try with a code is counted by itself: the batch that finds it wrong is taken back whole.
	load: ({ body }, nowMs) =>
		[
			invitationByToken(hashKey(body.token), nowMs),
			...(body.attempt === undefined ? [] : [countTry(hashKey(body.attempt), "code", nowMs)]),
		] as const,
	async handle(context) {
		const { db, deps, input, loaded, nowMs, actor } = context;
		const { attempt, code } = input.body;
		const current = currentTokenHash(context);
		const signsIn = input.body.sign_in === true;
		// A session counts for requests of our own pages only.
		if (signsIn || current !== undefined) requireOwnPage(context);
		const { invitation, role } = goodInvitation(loaded[0].rows[0]);
		// The token is the right to be in this organization; nobody has decided anything before.
		const orgId = invitation.org_id as OrgId;
		const { email } = invitation;
		const isNew = invitation.user_id === null;
		const uid = invitation.user_id ?? deps.newId();
		const proof = isNew ? undefined : proofOfAccount(uid, current, attempt, code, deps.config.secrets, nowMs);
		const [keyId, keyBindingId, memberBindingId] = [deps.newId(), deps.newId(), deps.newId()];
		const key = mintKey(deps.randomBytes);
		const keyName = input.body.name ?? FIRST_KEY_NAME;
		const days = Math.min(FIRST_KEY_DAYS, invitation.max_apikey_expiration_days ?? FIRST_KEY_DAYS);
		const expiresAtMs = nowMs + days * DAY_MS;
		const person = { ...actor, type: "user" as const, id: uid, name: email };
		const details = {
			...{ by_link: true, proven_by: proof?.by ?? "new_account" },
			...{ invited_by: invitation.invited_by, invited_by_name: invitation.inviter_email },
		};
		const session =
			signsIn && proof?.by !== "session" ? newSession(context, uid, isNew ? "invitation" : "code") : undefined;
		await batchInQuotas(
			db,
			deps.config.quotas,
			[keysOfOrganization(orgId)],
			[
				...(proof === undefined ? [] : [guard("proven", proof.condition)]),
				guard(
					"invitation_good",
					invitationIsGood(invitation, hashKey(input.body.token), rolesThatMayInvite(role), nowMs),
				),
				...(isNew ? [insertAccount(uid, email, nowMs)] : []),
				...(proof?.by === "code" ? [...markEmailVerified(uid, current, nowMs), deleteAttempt(proof.attempt)] : []),
				insertMemberBinding({ id: memberBindingId, userId: uid, orgId, role }, nowMs),
				insertApiKey(orgId, {
					id: keyId,
					user_id: uid,
					name: keyName,
					key_hash: key.hash,
					key_ciphertext: null,
					key_hint: key.hint,
					expires_at_ms: expiresAtMs,
					last_used_at_ms: null,
					created_at_ms: nowMs,
					updated_at_ms: nowMs,
					previous_key_hash: null,
					previous_valid_until_ms: null,
					ip_allow_list: null,
				}),
				insertBinding("org", {
					id: keyBindingId,
					holder: { userId: uid, keyId },
					role,
					orgId,
					appId: null,
					createdAtMs: nowMs,
				}),
				deleteInvitation(orgId, email),
				auditStatement(person, nowMs, {
					orgId,
					action: "invitation.accept",
					target: { type: "invitation", id: invitation.id, name: email },
					before: shown(role, invitation.expires_at_ms),
					details,
				}),
				auditStatement(person, nowMs, {
					orgId,
					action: "member.add",
					target: { type: "user", id: uid, name: email },
					after: { role },
					details,
				}),
				auditStatement(person, nowMs, {
					orgId,
					action: "api_key.create",
					target: { type: "api_key", id: keyId, name: keyName },
					after: {
						name: keyName,
						is_hashed_key: true,
						expires_at: rfc3339(expiresAtMs),
						bindings: [{ role_name: role, scope_type: "org", org_id: orgId }],
						global_permissions: [],
						ip_allow_list: [],
					},
					details,
				}),
				...(session?.statements ?? []),
			],
			{
				proven: () => (proof?.by === "code" ? signInFailed({ attempt: proof.attempt }) : signInRequired()),
				invitation_good: invitationNotFound,
				// Another invitation of the same new address was accepted at this very moment; the next try finds the account.
				"users.email": () => serviceUnavailable("the account was made at the same moment"),
			},
		);
		const answer = {
			status: "ok" as const,
			org_id: orgId,
			uid,
			email,
			role,
			signed_in: session !== undefined || proof?.by === "session",
			api_key: { id: keyId, key: key.text, expires_at: rfc3339(expiresAtMs) },
		};
		return new Reply(201, answer, session === undefined ? {} : { "Set-Cookie": session.cookie });
	},
});

/**
 * The proof that the owner of an existing account sends the request, checked in the batch that joins.
 * @throws {ApiError} `sign_in_required` when nothing does
 */
function proofOfAccount(
	uid: string,
	sessionHash: string | undefined,
	attempt: string | undefined,
	code: string | undefined,
	secrets: Secrets,
	nowMs: number,
) {
	if (attempt !== undefined && code !== undefined) {
		const hash = hashKey(attempt);
		const isRight = isRightCode(hash, "code", codeHashes(code, hash, secrets), nowMs);
		const condition = sql<boolean>`(${isRight} AND ${accountOfAttempt(hash)} = ${uid})`;
		return { by: "code" as const, attempt: hash, condition };
	}
	if (sessionHash === undefined) throw signInRequired();
	return { by: "session" as const, condition: hasSession(uid, sessionHash, nowMs) };
}

const signInRequired = () =>
	new ApiError(
		"sign_in_required",
		"The invited address has an account here: sign in to it at /sign-in and open the link again, or send attempt and code of POST /sign-in/code.",
	);

const invitationNotFound = () =>
	new ApiError("invitation_not_found", "This invitation is not known, was used, or has run out; ask for a new one.");

/** @throws {ApiError} `invitation_not_found` as well when the member who made it has left or could not make it any more */
function goodInvitation(invitation: InvitationWithOrganization | undefined): {
	invitation: InvitationWithOrganization;
	role: RoleName;
} {
	const role = MEMBER_ROLES.find((name) => name === invitation?.role_name);
	if (invitation === undefined || role === undefined || isReservedAddress(invitation.email)) throw invitationNotFound();
	const inviterRoles: string[] = JSON.parse(invitation.inviter_roles);
	if (!rolesThatMayInvite(role).some((name) => inviterRoles.includes(name))) throw invitationNotFound();
	return { invitation, role };
}
