/**
 * Each guard holds for one thing in one state. Every condition that holds has neighbours that differ in one value and do not hold. The
 * guards are asked about the second of two tenants, whose things have the same names.
 */
import { type Expression, type SqlBool, sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import type { OrgId } from "../../../src/authz/decide";
import type { RoleName } from "../../../src/authz/permissions";
import {
	hasManifest,
	manifestIsNewOrHas,
	manifestIsNewOrHolds,
	manifestIsSetOrBundleUnused,
	manifestIsStored,
} from "../../../src/compat/capgo-cli/queries";
import { isNoLastOwner, partsAre } from "../../../src/db/accounts";
import {
	apiKeyExists,
	apiKeyNoStronger,
	apiKeyUnchanged,
	appsAreOf,
	callerUnchanged,
	isBoundIn,
	policiesElsewhere,
	policiesElsewhereAre,
} from "../../../src/db/api-keys";
import { appIsLive } from "../../../src/db/apps";
import { bundleIsLive, bundleIsPending, bundleIsReady } from "../../../src/db/bundles";
import {
	bundleUnusedExceptBy,
	channelDiffers,
	channelExists,
	channelPlatformsAre,
	channelStillPointsTo,
} from "../../../src/db/channels";
import { hasOverride } from "../../../src/db/devices";
import { type InvitationRow, invitationIs, invitationIsAsRead, invitationIsGood } from "../../../src/db/invitations";
import {
	isNoMember,
	isNotTheLast,
	type Membership,
	memberHolds,
	membershipByEmail,
	membershipExists,
	membershipIs,
} from "../../../src/db/members";
import {
	type KeyUnderPolicy,
	keysUnderPolicy,
	organizationIsAsRead,
	organizationIsLive,
	organizationIsRestorable,
	policiesAre,
	someKeyStillAdministers,
	stillHoldsGlobally,
} from "../../../src/db/organizations";
import { type ActiveRolloutRow, activeRollout, rolloutIs, rolloutUnchanged } from "../../../src/db/rollouts";
import { bundlesAreSigned, policyHasSigningKey, signingKeyExists } from "../../../src/db/signing-keys";
import { uploadExists, uploadIsOpen } from "../../../src/db/uploads";
import {
	A,
	ABSENT,
	ADMINISTERING,
	B,
	CROSSED,
	holds,
	insertTenants,
	rowsOfAll,
	type TenantRows,
	WRONG_PAIRS,
} from "../support/tenants";
import { NOW_MS } from "../support/world";

const READ_INVITATION = { id: B.invitation, org_id: B.org as string, role_name: "org_member" } as InvitationRow;
const invited = (
	change: Partial<InvitationRow> = {},
	tokenHash = B.tokenHash,
	by: readonly RoleName[] = ADMINISTERING,
) => invitationIsGood({ ...READ_INVITATION, ...change }, tokenHash, by, NOW_MS);
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
	...{ id: B.key, updated_at_ms: 1, bindings: JSON.stringify(bindings.map((id) => ({ id }))) },
});
const caller = (keyId: string, secretHash: string, bindings: readonly string[]) => ({
	...{ kind: "key" as const, userId: "", keyId, secretHash, expiresAtMs: NOW_MS + 1, ipAllowList: null },
	bindings: bindings.map((id) => ({ id })),
});
const person = (userId: string, sessionId: string, bindings: readonly string[]) => ({
	...{ kind: "session" as const, userId, keyId: null, secretHash: `hash-of-${sessionId}`, expiresAtMs: null },
	...{ ipAllowList: null, bindings: bindings.map((id) => ({ id })) },
});
const stored = (path: string) => JSON.stringify([{ s3_path: path }]);

const FILES = JSON.stringify([{ file_name: "a.js", s3_path: "shared", file_hash: "hash" }]);
const OTHER_FILES = JSON.stringify([{ file_name: "b.js", s3_path: "shared", file_hash: "hash" }]);

/** Conditions on a tenant's own thing. */
const OWN: Readonly<Record<string, (of: TenantRows, thing: TenantRows) => Expression<SqlBool>>> = {
	bundleIsReady: (of, { stable }) => bundleIsReady(of.app, stable),
	bundleIsLive: (of, { stable }) => bundleIsLive(of.app, stable),
	bundleIsPending: (of, { pending }) => bundleIsPending(of.app, pending),
	channelDiffers: (of, { beta }) => channelDiffers(of.app, beta, { allow_dev: 0 }),
	channelExists: (of, { channel }) => channelExists(of.app, channel),
	channelStillPointsTo: (of, { channel, stable, next }) => channelStillPointsTo(of.app, channel, stable, next),
	channelPlatformsAre: (of, { channel }) =>
		channelPlatformsAre(of.app, channel, { public: 1, ios: 1, android: 1, electron: 1 }),
	"bundleUnusedExceptBy, inverted": (of, { stable }) => sql<boolean>`NOT ${bundleUnusedExceptBy(of.app, stable, 0)}`,
	uploadExists: (of, { upload }) => uploadExists(of.app, upload),
	uploadIsOpen: (of, { upload }) => uploadIsOpen(of.app, upload),
	manifestIsStored: (of, { name, key }) => manifestIsStored(of.app, stored(`only-${name}`), key),
	invitationIs: (of, { invitation }) => invitationIs(of.org, { ...READ_INVITATION, id: invitation }),
	apiKeyExists: (of, { key }) => apiKeyExists(of.org, key),
	isBoundIn: (of, { name }) => isBoundIn(of.org, `key-shared-${name}`),
	appIsLive: (of, { app }) => appIsLive(of.org, app),
	signingKeyExists: (of, { name }) => signingKeyExists(of.org, `signing-${name}`),
};

/** Conditions that hold, and conditions that differ from these in one value and do not hold. */
const GUARDS: Readonly<Record<string, () => Readonly<Record<"yes" | "no", readonly Expression<SqlBool>[]>>>> = {
	appIsLive: () => ({
		yes: [appIsLive(B.org, B.app)],
		no: [appIsLive(B.deletedOrg, B.deletedApp)],
	}),
	appsAreOf: () => ({
		yes: [appsAreOf(B.org, [B.app, B.app]), appsAreOf(B.org, [])],
		no: [appsAreOf(B.org, [B.app, A.app]), appsAreOf(B.org, [A.app])],
	}),
	hasManifest: () => ({ yes: [hasManifest(B.stable)], no: [hasManifest(B.next), hasManifest(ABSENT.stable)] }),
	manifestIsNewOrHas: () => ({
		yes: [manifestIsNewOrHas(B.stable, 1), manifestIsNewOrHas(B.next, 2)],
		no: [manifestIsNewOrHas(B.stable, 2)],
	}),
	manifestIsNewOrHolds: () => ({
		yes: [manifestIsNewOrHolds(B.stable, FILES, B.key), manifestIsNewOrHolds(B.next, OTHER_FILES, B.key)],
		no: [manifestIsNewOrHolds(B.stable, OTHER_FILES, B.key)],
	}),
	manifestIsSetOrBundleUnused: () => ({
		yes: [manifestIsSetOrBundleUnused(B.app, B.stable), manifestIsSetOrBundleUnused(B.app, B.unused)],
		no: [manifestIsSetOrBundleUnused(B.app, B.next)],
	}),
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
	hasOverride: () => ({
		yes: [hasOverride(B.app, "device-1")],
		no: [hasOverride(B.app, "device-3"), hasOverride(B.deletedApp, "device-1")],
	}),
	rolloutIs: () => ({
		yes: [rolloutIs(B.app, B.channel, B.rollout), rolloutIs(B.app, B.beta, B.pausedRollout)],
		no: [
			rolloutIs(B.app, B.channel, B.endedRollout),
			rolloutIs(B.app, B.beta, B.rollout),
			rolloutIs(B.app, A.channel, A.rollout),
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
			invited({}, B.tokenHash, ["org_member"]),
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
	channelDiffers: () => ({
		yes: [channelDiffers(B.app, B.beta, { allow_dev: 0 }), channelDiffers(B.app, B.beta, { allow_dev: 0, ios: 1 })],
		no: [channelDiffers(B.app, B.beta, { allow_dev: 1 }), channelDiffers(B.app, A.beta, { allow_dev: 0 })],
	}),
	channelStillPointsTo: () => ({
		yes: [channelStillPointsTo(B.app, B.channel, B.stable, B.next)],
		no: [
			channelStillPointsTo(B.app, B.beta, B.stable, B.next),
			channelStillPointsTo(B.app, A.channel, A.stable, A.next),
			channelStillPointsTo(B.app, B.channel, B.stable, null),
			channelStillPointsTo(B.app, B.channel, B.unused, B.next),
		],
	}),
	invitationIs: () => ({
		yes: [invitationIs(B.org, READ_INVITATION)],
		no: [
			invitationIs(B.org, { ...READ_INVITATION, role_name: "org_admin" }),
			invitationIs(B.org, { ...READ_INVITATION, id: "absent" }),
			invitationIs(B.org, { ...READ_INVITATION, id: A.invitation }),
		],
	}),
	uploadExists: () => ({
		yes: [uploadExists(B.app, B.upload)],
		no: [
			uploadExists(B.app, "absent"),
			uploadExists(B.app, A.upload),
			uploadExists(B.deletedApp, `${B.upload}-in-deleted`),
		],
	}),
	bundlesAreSigned: () => ({
		yes: [
			bundlesAreSigned(B.app, []),
			bundlesAreSigned(B.app, [B.stable]),
			bundlesAreSigned(A.app, [A.stable]),
			// Bundles of another app are none of this one's.
			bundlesAreSigned(A.app, [B.next]),
		],
		no: [
			bundlesAreSigned(B.app, [B.next]),
			bundlesAreSigned(B.app, [B.stable, B.unused]),
			bundlesAreSigned(B.app, [B.unused]),
		],
	}),
	policyHasSigningKey: () => ({
		yes: [policyHasSigningKey(B.org), policyHasSigningKey(CROSSED.org)],
		no: [policyHasSigningKey("absent" as OrgId)],
	}),
	bundleUnusedExceptBy: () => ({
		yes: [bundleUnusedExceptBy(B.app, B.unused, 0), bundleUnusedExceptBy(B.app, B.stable, B.channel)],
		no: [bundleUnusedExceptBy(B.app, B.stable, 0), bundleUnusedExceptBy(B.app, B.next, B.beta)],
	}),
	manifestIsStored: () => ({
		yes: [manifestIsStored(B.app, stored("shared"), B.key), manifestIsStored(B.app, stored("own"), B.key)],
		no: [
			manifestIsStored(B.app, stored("only-a"), B.key),
			manifestIsStored(B.app, stored("own"), A.key),
			manifestIsStored(B.app, stored("own"), CROSSED.key),
		],
	}),
};

describe("a guard", () => {
	beforeAll(insertTenants);

	test.each(Object.entries(OWN))("%s holds for the tenant's object only", async (_, condition) => {
		expect(await holds(condition(B, B)), "the control").toBe(true);
		for (const [of, thing] of WRONG_PAIRS) {
			expect(await holds(condition(of, thing)), `${of.org} with ${thing.org}`).toBe(false);
		}
	});

	test.each(Object.entries(GUARDS))("%s holds for this state of the object and no other", async (_, conditions) => {
		const { yes, no } = conditions();
		for (const [index, condition] of yes.entries()) expect(await holds(condition), `${index} of yes`).toBe(true);
		for (const [index, condition] of no.entries()) expect(await holds(condition), `${index} of no`).toBe(false);
	});

	test("on a row that another statement read holds for exactly that row", async () => {
		const [[member] = [], [standing] = [], policies, keys] = await rowsOfAll([
			membershipByEmail(B.org, B.email, NOW_MS),
			activeRollout(B.publicAppId, "production", NOW_MS),
			policiesElsewhere(B.key),
			keysUnderPolicy(B.org, ADMINISTERING, [], NOW_MS, true),
		]);
		const [membership, row] = [member as unknown as Membership, standing as unknown as ActiveRolloutRow];
		expect(await holds(membershipIs(B.org, membership))).toBe(true);
		expect(await holds(membershipIs(A.org, membership))).toBe(false);
		expect(await holds(membershipIs(B.org, { ...membership, user_id: A.user }))).toBe(false);
		expect(await holds(rolloutUnchanged(row))).toBe(true);
		const changes: Partial<ActiveRolloutRow>[] = [
			...[{ app_id: A.app }, { id: B.beta }, { rollout_id: B.endedRollout }, { step_at_ms: 7 }],
		];
		for (const change of changes) {
			expect(await holds(rolloutUnchanged({ ...row, ...change })), JSON.stringify(change)).toBe(false);
		}
		expect(await holds(policiesElsewhereAre(policies as never))).toBe(true);
		expect(await holds(someKeyStillAdministers(B.org, keys as never, ADMINISTERING, NOW_MS))).toBe(true);
	});
});
