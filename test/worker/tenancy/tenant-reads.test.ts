/**
 * Each statement that reads answers with exactly the rows of its tenant. Two tenants have things of
 * the same names, so a missing condition shows as an additional row.
 */
import { beforeAll, describe, test } from "vitest";
import type { AppId, OrgId } from "../../../src/authz/decide";
import { partsOf } from "../../../src/db/accounts";
import {
	type ApiKeyFilter,
	apiKeyAsSeenBy,
	apiKeyById,
	apiKeyRecord,
	apiKeysPage,
	currentKeyHash,
	policiesElsewhere,
	sealedKeyText,
} from "../../../src/db/api-keys";
import { namedKeys, promotersOf } from "../../../src/db/approvers";
import {
	type AppFilter,
	appByPublicId,
	appContents,
	appCounts,
	appRecord,
	appsPage,
	appUuidsInOrg,
	appUuidsInOrgOfKey,
} from "../../../src/db/apps";
import { type AuditFilter, auditExport, auditPage, auditSearch, isSearch } from "../../../src/db/audit/entries";
import { invitationByEmail, invitationByToken } from "../../../src/db/invitations";
import { membershipByEmail, membersOf } from "../../../src/db/members";
import {
	deletedOrganizationById,
	deletedOrganizationsPage,
	keysUnderPolicy,
	organizationById,
	organizationContents,
	organizationsOfKeys,
	organizationsPage,
} from "../../../src/db/organizations";
import { insertTenants } from "../support/tenant-rows";
import { expectReads, type Read, type Row } from "../support/tenant-statements";
import { A, ADMINISTERING, B, CROSSED, otherThan, type TenantRows } from "../support/tenants";
import { NOW_MS } from "../support/world";

const INVITER_ROLES = JSON.stringify(["org_admin", "app_reader"].map((role) => ({ role, customPermissions: null })));
const ALL = { limit: 100, offset: 0 } as const;
const KEYS: ApiKeyFilter = { orgIds: [], ownKeyId: "absent", orgId: undefined, unusedSinceMs: undefined };

const APPROVAL = { promoters: JSON.stringify(["org_admin"]), mailed: ["org_admin"] };
const placeOf = ({ org, app, channel }: TenantRows) => ({ orgId: org, appId: app, channelId: channel });

const keys = (filter: (of: TenantRows) => Partial<ApiKeyFilter>) => (of: TenantRows) =>
	apiKeysPage({ ...KEYS, ...filter(of) }, ALL.limit, ALL.offset);

/** All bindings of the tenant's own key. */
const bindingsOf = ({ name }: TenantRows) =>
	["key", "key-app", "key-channel", "key-deleted", "key-deleted-owner", "key-elsewhere", "key-ended"].map(
		(id) => `${name}-${id}`,
	);

const ownKeys = (of: TenantRows): Row[] => [
	{ id: of.key, bindings: bindingsOf(of) },
	{ id: `key-expired-${of.name}`, bindings: [] },
	{ id: `key-shared-${of.name}`, bindings: [`${of.name}-key-shared`] },
];
const strangersKey = (...bindings: string[]): Row => ({ id: CROSSED.key, bindings });

const keysOf = (of: TenantRows): Row[] => [
	...ownKeys(of),
	{ id: otherThan(of).key, bindings: [`${otherThan(of).name}-key-elsewhere`] },
];

const API_KEYS: Readonly<Record<string, Read>> = {
	apiKeysPage: [keys((of) => ({ orgIds: [of.org] })), (of) => [...keysOf(of), strangersKey(`x-${of.name}-ended`)]],
	"apiKeysPage with the caller's own key": [
		keys((of) => ({ orgIds: [of.org], ownKeyId: CROSSED.key })),
		(of) => [...keysOf(of), strangersKey("x-a-app", "x-a-ended", "x-b-app", "x-b-ended", "x-key")],
	],
	"apiKeysPage of one of two organizations": [
		keys((of) => ({ orgIds: [of.org, CROSSED.org], orgId: CROSSED.org })),
		() => [strangersKey("x-a-app", "x-a-ended", "x-b-app", "x-b-ended", "x-key")],
	],
	"apiKeysPage of an organization that is not the caller's": [
		keys((of) => ({ orgIds: [of.org], orgId: otherThan(of).org })),
		(of) => [{ id: otherThan(of).key, bindings: [`${otherThan(of).name}-key-elsewhere`] }],
	],
	apiKeyById: [(of) => apiKeyById(of.key), (of) => ownKeys(of).slice(0, 1)],
	"apiKeyAsSeenBy the key's own organization": [
		(of) => apiKeyAsSeenBy(of.org, of.key),
		(of) => [{ id: of.key, bindings: bindingsOf(of) }],
	],
	"apiKeyAsSeenBy another organization": [
		(of) => apiKeyAsSeenBy(otherThan(of).org, of.key),
		(of) => [{ id: of.key, bindings: [`${of.name}-key-elsewhere`] }],
	],
	apiKeyRecord: [(of) => apiKeyRecord(of.org, of.key), (of) => ownKeys(of).slice(0, 1)],
	"apiKeyRecord of another tenant's key": [(of) => apiKeyRecord(of.org, otherThan(of).key), () => []],
	sealedKeyText: [(of) => sealedKeyText(of.key), (of) => [{ key_ciphertext: `sealed-${of.name}` }]],
	currentKeyHash: [(of) => currentKeyHash(of.key), (of) => [{ key_hash: of.keyHash }]],
	policiesElsewhere: [(of) => policiesElsewhere(of.key), (of) => [{ id: otherThan(of).org }]],
};
const ownApp = (of: TenantRows): Row => ({ id: of.app, default_channel: "production" });
const emptyApp = (of: TenantRows): Row => ({ id: of.emptyApp, default_channel: null });

const contents = (of: TenantRows) => {
	// The bundles that have bytes, and three files.
	const bytes = [of.stable, of.next, of.unused].reduce((sum, size) => sum + size, 0);
	return { channels: 2, bundles: 4, bundle_bytes: 2 * bytes };
};
const NO_APPS: AppFilter = { orgIds: [], appIds: [], orgId: undefined };

const apps = (filter: (of: TenantRows) => Partial<AppFilter>) => (of: TenantRows) =>
	appsPage({ ...NO_APPS, ...filter(of) }, ALL.limit, ALL.offset);

const APPS: Readonly<Record<string, Read>> = {
	appByPublicId: [(of) => appByPublicId(of.publicAppId), (of) => [ownApp(of)]],
	"appByPublicId of an empty app": [(of) => appByPublicId(`com.example.empty.${of.name}`), (of) => [emptyApp(of)]],
	"appsPage of an organization": [apps((of) => ({ orgIds: [of.org] })), (of) => [ownApp(of), emptyApp(of)]],
	"appsPage of one app": [apps((of) => ({ appIds: [of.emptyApp] })), (of) => [emptyApp(of)]],
	"appsPage of one of two organizations": [
		apps((of) => ({ orgIds: [A.org, B.org], appIds: [A.app, B.app], orgId: of.org })),
		(of) => [ownApp(of), emptyApp(of)],
	],
	"appsPage of an organization that is not the caller's": [
		apps((of) => ({ orgIds: [of.org], appIds: [of.app], orgId: otherThan(of).org })),
		() => [],
	],
	appRecord: [(of) => appRecord(of.app), (of) => [ownApp(of)]],
	"appRecord of an app that does not exist": [() => appRecord("absent" as AppId), () => []],
	appContents: [
		(of) => appContents(of.publicAppId),
		// With the third tenant's binding.
		(of) => [{ ...contents(of), api_key_bindings: 3 }],
	],
	appUuidsInOrg: [
		(of) => appUuidsInOrg(of.org, [A.emptyApp, B.emptyApp, of.deletedApp]),
		(of) => [{ id: of.emptyApp }],
	],
	appUuidsInOrgOfKey: [
		(of) => appUuidsInOrgOfKey(of.key, [A.emptyApp, B.emptyApp, of.deletedApp]),
		(of) => [{ id: of.emptyApp }],
	],
	appCounts: [(of) => appCounts([of.org]), (of) => [{ owner_org: of.org, apps: 2 }]],
};

const ANY_ENTRY: AuditFilter = {
	actor: undefined,
	action: undefined,
	target: undefined,
	search: undefined,
	fromMs: undefined,
	toMs: undefined,
};

const ENTRIES = (of: TenantRows): Row[] => [
	{ org_id: of.org, target_id: "2", actor_id: of.user, app_uuid: null },
	{ org_id: of.org, target_id: "1", actor_id: of.key, app_uuid: of.app },
];

const entries = (filter: Partial<AuditFilter>) => (of: TenantRows) =>
	(isSearch({ ...ANY_ENTRY, ...filter }) ? auditSearch : auditPage)(
		{ orgId: of.org },
		{ ...ANY_ENTRY, ...filter },
		ALL.limit,
		ALL.offset,
	);

const AUDIT: Readonly<Record<string, Read>> = {
	"auditPage of an organization": [entries({}), ENTRIES],
	"auditPage of an app": [
		(of) => auditPage({ publicAppId: of.publicAppId }, ANY_ENTRY, ALL.limit, ALL.offset),
		(of) => ENTRIES(of).slice(1),
	],
	"auditPage of an app by its UUID": [
		(of) => auditPage({ appUuid: of.app }, ANY_ENTRY, ALL.limit, ALL.offset),
		(of) => ENTRIES(of).slice(1),
	],
	"auditSearch by an actor": [(of) => entries({ actor: of.user })(of), (of) => ENTRIES(of).slice(0, 1)],
	"auditSearch by an actor's name": [(of) => entries({ actor: `name of ${of.key}` })(of), (of) => ENTRIES(of).slice(1)],
	"auditSearch of a target": [entries({ target: "2" }), (of) => ENTRIES(of).slice(0, 1)],
	"auditSearch of a target's name": [entries({ target: "name of 1" }), (of) => ENTRIES(of).slice(1)],
	"auditSearch of a target and its type": [entries({ target: "channel:1" }), (of) => ENTRIES(of).slice(1)],
	auditExport: [(of) => auditExport({ orgId: of.org }, ANY_ENTRY, ALL.limit), ENTRIES],
};

const PEOPLE: Readonly<Record<string, Read>> = {
	invitationByEmail: [
		(of) => invitationByEmail(of.org, "invited@example.com"),
		(of) => [{ id: of.invitation, org_id: of.org }],
	],
	invitationByToken: [
		(of) => invitationByToken(of.tokenHash, NOW_MS),
		(of) => [{ id: of.invitation, user_id: null, inviter_email: of.email, inviter_roles: INVITER_ROLES }],
	],
	"invitationByToken of a deleted organization": [
		(of) => invitationByToken(`token-${of.name}-deleted`, NOW_MS),
		() => [],
	],
	"invitationByToken of an expired invitation": [(of) => invitationByToken(`token-${of.name}-late`, NOW_MS), () => []],
	promotersOf: [
		(of) => promotersOf({ ...APPROVAL, ...placeOf(of), except: "absent" }, NOW_MS, ALL.limit),
		(of) => [{ id: of.user, email: of.email, has_passkey: 0, is_mailed: 0 }],
	],
	"promotersOf but the own account": [
		(of) => promotersOf({ ...APPROVAL, ...placeOf(of), except: of.user }, NOW_MS, ALL.limit),
		() => [],
	],
	"promotersOf by the account of another tenant": [
		(of) =>
			promotersOf(
				{ ...APPROVAL, ...placeOf(of), promoters: JSON.stringify([otherThan(of).user]), except: "absent" },
				NOW_MS,
				ALL.limit,
			),
		() => [],
	],
	namedKeys: [(of) => namedKeys(of.org, JSON.stringify([of.key, otherThan(of).key]), "absent"), () => [{ keys: 1 }]],
	membersOf: [
		(of) => membersOf(of.org, undefined, NOW_MS, ALL.limit, ALL.offset),
		(of) => [
			{ id: of.user, email: of.email, roles: '["org_admin","app_reader"]', is_invitation: 0 },
			{ id: of.invitation, email: "invited@example.com", roles: '["org_member"]', is_invitation: 1 },
			{ id: "user-shared", email: "shared@example.com", roles: '["org_member"]', is_invitation: 0 },
		],
	],
	"membersOf one person": [
		(of) => membersOf(of.org, "user-shared", NOW_MS, ALL.limit, ALL.offset),
		() => [{ id: "user-shared", email: "shared@example.com", roles: '["org_member"]', is_invitation: 0 }],
	],
	"membersOf one invitation": [
		(of) => membersOf(of.org, of.invitation, NOW_MS, ALL.limit, ALL.offset),
		(of) => [{ id: of.invitation, email: "invited@example.com", is_invitation: 1 }],
	],
	"membersOf another tenant's member": [
		(of) => membersOf(of.org, otherThan(of).user, NOW_MS, ALL.limit, ALL.offset),
		() => [],
	],
	"membersOf another tenant's invitation": [
		(of) => membersOf(of.org, otherThan(of).invitation, NOW_MS, ALL.limit, ALL.offset),
		() => [],
	],
	membershipByEmail: [
		(of) => membershipByEmail(of.org, of.email, NOW_MS),
		(of) => [
			{
				user_id: of.user,
				roles: '["org_admin","app_reader"]',
				foreign_keys: "[]",
				keys: JSON.stringify([{ id: of.key, name: "Same", roles: ["org_admin", "app_reader"] }]),
				// The person's own roles: keys that come and go do not hold a change off.
				fingerprint: JSON.stringify([`${of.name}-user`, `${of.name}-user-ended`, `${of.name}-user-ending`]),
			},
		],
	],
	"membershipByEmail of an owner of a foreign key": [
		(of) => membershipByEmail(of.org, otherThan(of).email, NOW_MS),
		(of) => [
			{
				user_id: otherThan(of).user,
				roles: "[]",
				keys: "[]",
				foreign_keys: JSON.stringify([{ id: otherThan(of).key, name: "Same", roles: ["org_member"] }]),
				fingerprint: "[]",
			},
		],
	],
	"membershipByEmail of a member of several organizations": [
		(of) => membershipByEmail(of.org, "shared@example.com", NOW_MS),
		(of) => [
			{
				user_id: "user-shared",
				roles: '["org_member"]',
				keys: JSON.stringify([
					{ id: `key-expired-${of.name}`, name: "Same", roles: [] },
					{ id: `key-shared-${of.name}`, name: "Same", roles: ["org_member"] },
				]),
				foreign_keys: JSON.stringify([{ id: CROSSED.key, name: "Same", roles: ["org_member"] }]),
				fingerprint: JSON.stringify([`${of.name}-shared`]),
			},
		],
	],
	"membershipByEmail of a member with an expired role": [
		(of) => membershipByEmail(of.org, "former@example.com", NOW_MS),
		(of) => [{ user_id: "user-former", roles: "[]", keys: "[]", fingerprint: JSON.stringify([`${of.name}-former`]) }],
	],
	"membershipByEmail of a stranger": [() => membershipByEmail(CROSSED.org, A.email, NOW_MS), () => []],
	partsOf: [
		(of) => partsOf(`hash-of-${of.session}`, ADMINISTERING),
		(of) => [
			{
				id: of.org,
				is_last_owner: 1,
				roles: '["org_admin","app_reader","org_member"]',
				keys: JSON.stringify([{ id: of.key, name: "Same" }]),
			},
			{ id: of.deletedOrg, is_last_owner: 1, roles: '["org_admin"]', keys: "[]" },
			{ id: otherThan(of).org, is_last_owner: 0, roles: "[]", keys: "[]" },
		],
	],
	"partsOf a person with the only role that owns": [
		() => partsOf("hash-of-session-shared", ["org_member", "org_super_admin"]),
		() => [
			{ id: A.org, is_last_owner: 1 },
			{ id: B.org, is_last_owner: 1 },
			{ id: CROSSED.org, is_last_owner: 0, roles: "[]" },
		],
	],
	"partsOf a person with a role that owns nothing": [
		() => partsOf("hash-of-session-shared", ["org_super_admin"]),
		() => [
			{ id: A.org, is_last_owner: 0, roles: '["org_member"]' },
			{ id: B.org, is_last_owner: 0 },
			{ id: CROSSED.org, is_last_owner: 0 },
		],
	],
};
const POLICY_KEY = { enforce_hashed_api_keys: 0, administers: 0, owns: 0 };

const ORGANIZATIONS: Readonly<Record<string, Read>> = {
	organizationsPage: [
		(of) => organizationsPage([of.org, of.deletedOrg as OrgId], ALL.limit, ALL.offset),
		(of) => [{ id: of.org }],
	],
	organizationById: [(of) => organizationById(of.org), (of) => [{ id: of.org }]],
	"organizationById of a deleted organization": [(of) => organizationById(of.deletedOrg), () => []],
	deletedOrganizationById: [(of) => deletedOrganizationById(of.deletedOrg), (of) => [{ id: of.deletedOrg }]],
	deletedOrganizationsPage: [
		(of) => deletedOrganizationsPage([of.org, of.deletedOrg as OrgId], NOW_MS - 1, ALL.limit, ALL.offset),
		(of) => [{ id: of.deletedOrg }],
	],
	"deletedOrganizationsPage of organizations that can no longer be restored": [
		(of) => deletedOrganizationsPage([of.org, of.deletedOrg as OrgId], NOW_MS, ALL.limit, ALL.offset),
		() => [],
	],
	"deletedOrganizationById of an organization that is not deleted": [(of) => deletedOrganizationById(of.org), () => []],
	organizationContents: [
		(of) => organizationContents(of.org, NOW_MS),
		(of) => [{ ...contents(of), apps: 2, members: 4, api_keys: 3, invitations: 1 }],
	],
	organizationsOfKeys: [
		(of) => organizationsOfKeys(of.org),
		(of) => [
			{ id: of.deletedOrg, api_keys: 1 },
			{ id: otherThan(of).org, api_keys: 1 },
		],
	],
	"organizationsOfKeys of one person": [(of) => organizationsOfKeys(of.org, "shared@example.com"), () => []],
	"organizationsOfKeys of the key's owner": [
		(of) => organizationsOfKeys(of.org, of.email),
		(of) => [{ id: of.deletedOrg }, { id: otherThan(of).org }],
	],
	keysUnderPolicy: [
		(of) => keysUnderPolicy(of.org, ADMINISTERING, ["org_member", "app_reader", "app_admin"], NOW_MS),
		(of) => [
			{ ...POLICY_KEY, id: of.key, org_id: of.org, is_hashed_key: 0, administers: 1 },
			{ ...POLICY_KEY, id: otherThan(of).key, org_id: otherThan(of).org, owns: 1 },
			{ ...POLICY_KEY, id: `key-shared-${of.name}`, org_id: of.org, owns: 1 },
		],
	],
};

beforeAll(insertTenants);

describe.each([
	["API keys", API_KEYS],
	["apps", APPS],
	["the audit log", AUDIT],
	["people", PEOPLE],
	["organizations", ORGANIZATIONS],
])("reads of %s", (_, reads) => {
	test.each(Object.entries(reads))("%s returns only the tenant's rows", (_, read) => expectReads(read));
});
