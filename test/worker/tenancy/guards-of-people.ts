/**
 * Guards on people and their rights: organizations and their policies, members, invitations, keys,
 * sessions and signing keys. Beside the conditions that hold stand their neighbours, which differ
 * in one value and do not hold.
 */
import type { OrgId } from "../../../src/authz/decide";
import { type Permission, ROLES, type RoleName } from "../../../src/authz/permissions";
import { isNoLastOwner, partsAre } from "../../../src/db/accounts";
import { apiKeyNoStronger, apiKeyUnchanged, policiesElsewhereAre } from "../../../src/db/api-keys";
import { callerUnchanged } from "../../../src/db/caller-guards";
import { type InvitationRow, invitationIs, invitationIsAsRead, invitationIsGood } from "../../../src/db/invitations";
import { isNoMember, isNotTheLast, memberHolds, membershipExists } from "../../../src/db/members";
import {
	type KeyUnderPolicy,
	organizationIsAsRead,
	organizationIsLive,
	organizationIsRestorable,
	policiesAre,
	someKeyStillAdministers,
	stillHoldsGlobally,
} from "../../../src/db/organizations";
import { policyHasSigningKey } from "../../../src/db/signing-keys";
import { A, ABSENT, ADMINISTERING, B, CROSSED } from "../support/tenants";
import { NOW_MS } from "../support/world";
import type { Guards } from "./guards-of-contents";

export const READ_INVITATION = { id: B.invitation, org_id: B.org as string, role_name: "org_member" } as InvitationRow;
const invited = (
	change: Partial<InvitationRow> = {},
	tokenHash = B.tokenHash,
	needed: readonly Permission[] = ["org.invite_user"],
) => invitationIsGood({ ...READ_INVITATION, ...change }, tokenHash, ROLES.org_member, needed, NOW_MS);
const EMAIL = "invited@example.com";
const asRead = (org: OrgId, email: string, change: Partial<InvitationRow> = {}) =>
	invitationIsAsRead(org, email, { ...READ_INVITATION, ...change });

const POLICIES = {
	enforce_hashed_api_keys: 0,
	require_apikey_expiration: 0,
	max_apikey_expiration_days: null,
} as const;
const keyAsRead = (id: string, change: Partial<KeyUnderPolicy> = {}) =>
	({ id, expires_at_ms: NOW_MS + 1, is_hashed_key: 0, ...change }) as KeyUnderPolicy;
const administers = (key: KeyUnderPolicy, roles: readonly RoleName[] = ADMINISTERING) =>
	someKeyStillAdministers(B.org, [key], roles, NOW_MS);
const holdsGlobally = (key: string, permission: string, role: RoleName) =>
	stillHoldsGlobally({ keyId: key, userId: "" }, permission, [role], NOW_MS);

const BINDINGS_OF_KEY = ["", "-app", "-channel", "-deleted", "-deleted-owner", "-elsewhere", "-ended"].map(
	(end) => `b-key${end}`,
);
const keyWith = (bindings: readonly string[]) => ({
	id: B.key,
	updated_at_ms: 1,
	bindings: JSON.stringify(bindings.map((id) => ({ id }))),
});
const caller = (keyId: string, secretHash: string, bindings: readonly string[]) => ({
	kind: "key" as const,
	userId: "",
	keyId,
	secretHash,
	expiresAtMs: NOW_MS + 1,
	ipAllowList: null,
	bindings: bindings.map((id) => ({ id })),
});
const person = (userId: string, sessionId: string, bindings: readonly string[]) => ({
	kind: "session" as const,
	userId,
	keyId: null,
	secretHash: `hash-of-${sessionId}`,
	expiresAtMs: null,
	ipAllowList: null,
	bindings: bindings.map((id) => ({ id })),
});

export const GUARDS_OF_PEOPLE: Guards = {
	organizationIsLive: () => ({
		yes: [organizationIsLive(B.org)],
		no: [organizationIsLive(B.deletedOrg), organizationIsLive(ABSENT.org)],
	}),
	organizationIsRestorable: () => ({
		yes: [organizationIsRestorable(B.deletedOrg, NOW_MS - 1)],
		no: [organizationIsRestorable(B.deletedOrg, NOW_MS), organizationIsRestorable(B.org, NOW_MS - 1)],
	}),
	policiesAre: () => ({
		yes: [policiesAre(B.org, POLICIES)],
		no: [
			policiesAre(B.deletedOrg, POLICIES),
			policiesAre(CROSSED.org, POLICIES),
			policiesAre(B.org, { ...POLICIES, max_apikey_expiration_days: 7 }),
		],
	}),
	invitationIsAsRead: () => ({
		yes: [
			asRead(B.org, EMAIL),
			invitationIsAsRead(B.org, "absent@example.com", undefined),
			invitationIsAsRead(CROSSED.org, EMAIL, undefined),
		],
		no: [
			asRead(A.org, EMAIL),
			asRead(B.org, "late@example.com"),
			asRead(B.org, EMAIL, { id: `${B.invitation}-late` }),
			asRead(B.org, EMAIL, { role_name: "org_admin" }),
			invitationIsAsRead(B.org, EMAIL, undefined),
		],
	}),
	invitationIsGood: () => ({
		yes: [invited()],
		no: [
			invited({ id: `${B.invitation}-late` }),
			invited({ id: `${B.invitation}-late` }, `${B.tokenHash}-late`),
			invited({ org_id: B.deletedOrg }),
			invited({ id: `${B.invitation}-deleted`, org_id: B.deletedOrg }, `${B.tokenHash}-deleted`),
			invited({ role_name: "org_admin" }),
			invited({}, A.tokenHash),
			invited({}, B.tokenHash, ["org.delete"]),
		],
	}),
	isNoMember: () => ({
		yes: [isNoMember(B.org, A.email, NOW_MS), isNoMember(B.org, "former@example.com", NOW_MS)],
		no: [isNoMember(B.org, B.email, NOW_MS), isNoMember(B.org, "shared@example.com", NOW_MS)],
	}),
	memberHolds: () => ({
		yes: [memberHolds(B.org, B.user, ADMINISTERING, NOW_MS)],
		no: [
			memberHolds(B.org, A.user, ADMINISTERING, NOW_MS),
			memberHolds(A.org, B.user, ADMINISTERING, NOW_MS),
			memberHolds(B.org, "user-shared", ADMINISTERING, NOW_MS),
			memberHolds(B.org, B.user, ["org_member"], NOW_MS),
			memberHolds(B.org, "user-former", ["app_admin"], NOW_MS),
		],
	}),
	isNotTheLast: () => ({
		yes: [
			isNotTheLast(B.org, "user-former", ["org_super_admin"]),
			isNotTheLast(B.org, "user-former", ["app_admin"]),
			isNotTheLast(B.org, "user-shared", ["org_member", "org_admin"]),
		],
		no: [isNotTheLast(B.org, B.user, ADMINISTERING), isNotTheLast(B.org, "user-shared", ["org_member"])],
	}),
	membershipExists: () => ({
		yes: [membershipExists(B.org, B.user), membershipExists(B.org, A.user), membershipExists(B.org, "user-shared")],
		no: [membershipExists(CROSSED.org, A.user), membershipExists(CROSSED.org, B.user)],
	}),
	organizationIsAsRead: () => ({
		yes: [organizationIsAsRead(B.org, { ...POLICIES, updated_at_ms: 1 })],
		no: [
			organizationIsAsRead(B.org, { ...POLICIES, updated_at_ms: 5 }),
			organizationIsAsRead(B.org, { ...POLICIES, enforce_hashed_api_keys: 1, updated_at_ms: 1 }),
			organizationIsAsRead(B.deletedOrg as OrgId, { ...POLICIES, updated_at_ms: 1 }),
		],
	}),
	policiesElsewhereAre: () => ({
		yes: [policiesElsewhereAre([{ id: A.org, ...POLICIES }]), policiesElsewhereAre([])],
		no: [
			policiesElsewhereAre([{ id: A.org, ...POLICIES, enforce_hashed_api_keys: 1 }]),
			policiesElsewhereAre([{ id: A.org, ...POLICIES, require_apikey_expiration: 1 }]),
			policiesElsewhereAre([{ id: A.org, ...POLICIES, max_apikey_expiration_days: 1 }]),
		],
	}),
	someKeyStillAdministers: () => ({
		yes: [administers(keyAsRead(B.key))],
		no: [
			administers(keyAsRead(A.key)),
			administers(keyAsRead("absent")),
			administers(keyAsRead(B.key, { expires_at_ms: null })),
			administers(keyAsRead(B.key, { is_hashed_key: 1 })),
			administers(keyAsRead(B.key), ["app_admin"]),
			administers(keyAsRead(B.key), ["org_super_admin"]),
			administers(keyAsRead(B.key), ["app_reader"]),
		],
	}),
	stillHoldsGlobally: () => ({
		yes: [holdsGlobally(B.key, "org.create", "org_admin")],
		no: [
			holdsGlobally(B.key, "another", "org_admin"),
			holdsGlobally(`key-shared-${B.name}`, "org.create", "org_member"),
			holdsGlobally(B.key, "org.create", "org_super_admin"),
			holdsGlobally(B.key, "org.create", "app_reader"),
			holdsGlobally(B.key, "org.create", "app_admin"),
		],
	}),
	apiKeyUnchanged: () => ({
		yes: [apiKeyUnchanged(keyWith(BINDINGS_OF_KEY))],
		no: [
			apiKeyUnchanged({ ...keyWith(BINDINGS_OF_KEY), id: A.key }),
			apiKeyUnchanged({ ...keyWith([]), id: "absent" }),
			apiKeyUnchanged({ ...keyWith(BINDINGS_OF_KEY), updated_at_ms: 2 }),
			apiKeyUnchanged(keyWith(BINDINGS_OF_KEY.slice(1))),
			apiKeyUnchanged(keyWith([...BINDINGS_OF_KEY, "absent"])),
			apiKeyUnchanged(keyWith([...BINDINGS_OF_KEY, "a-key"])),
		],
	}),
	apiKeyNoStronger: () => ({
		yes: [apiKeyNoStronger(A.org, keyWith(["b-key-elsewhere"])), apiKeyNoStronger(CROSSED.org, keyWith([]))],
		no: [apiKeyNoStronger(A.org, keyWith([])), apiKeyNoStronger(B.org, keyWith(BINDINGS_OF_KEY.slice(1)))],
	}),
	callerUnchanged: () => ({
		yes: [
			callerUnchanged(caller(B.key, B.keyHash, ["b-key"])),
			callerUnchanged(caller(B.key, B.previousKeyHash, ["b-key"])),
		],
		no: [
			callerUnchanged(caller(A.key, B.keyHash, ["a-key"])),
			callerUnchanged(caller(B.key, B.keyHash, ["a-key"])),
			callerUnchanged(caller(B.key, B.keyHash, ["absent"])),
			callerUnchanged(caller(B.key, A.keyHash, ["b-key"])),
			callerUnchanged({ ...caller(B.key, B.keyHash, ["b-key"]), expiresAtMs: null }),
			callerUnchanged({ ...caller(B.key, B.keyHash, ["b-key"]), ipAllowList: ["::/0"] }),
		],
	}),
	"callerUnchanged, of a session": () => ({
		yes: [
			callerUnchanged(person(B.user, B.session, ["b-user"])),
			callerUnchanged(person(B.user, B.session, ["b-user", "b-user-app"])),
		],
		no: [
			callerUnchanged(person(A.user, B.session, [])),
			callerUnchanged(person(B.user, "absent", [])),
			callerUnchanged(person(B.user, B.session, ["a-user"])),
			callerUnchanged(person(B.user, B.session, ["absent"])),
		],
	}),
	isNoLastOwner: () => ({
		yes: [isNoLastOwner("user-shared", ADMINISTERING)],
		no: [isNoLastOwner(B.user, ADMINISTERING), isNoLastOwner("user-shared", ["org_member"])],
	}),
	partsAre: () => ({
		yes: [
			partsAre(B.user, [B.org, B.deletedOrg, A.org]),
			partsAre("user-shared", [A.org, B.org, CROSSED.org, B.deletedOrg]),
		],
		no: [partsAre(B.user, [B.org, B.deletedOrg]), partsAre(B.user, [])],
	}),
	invitationIs: () => ({
		yes: [invitationIs(B.org, READ_INVITATION)],
		no: [
			invitationIs(B.org, { ...READ_INVITATION, role_name: "org_admin" }),
			invitationIs(B.org, { ...READ_INVITATION, id: "absent" }),
			invitationIs(B.org, { ...READ_INVITATION, id: A.invitation }),
		],
	}),
	policyHasSigningKey: () => ({
		yes: [policyHasSigningKey(B.org), policyHasSigningKey(CROSSED.org)],
		no: [policyHasSigningKey("absent" as OrgId)],
	}),
};
