/**
 * Every statement that reads holds its tenant and its thing by itself: asked here of two tenants whose things have the same names, and
 * held to exactly the rows of the one that it is asked about. A condition that is gone shows as a row too many.
 */
import type { CompiledQuery } from "kysely";
import { sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import { promoteBundle } from "../../src/api/routes/bundle";
import { deleteChannel } from "../../src/api/routes/channel";
import { appScope, channelOrAppScope, channelScope, orgScope, type RawInput } from "../../src/api/scope";
import type { AppId, OrgId } from "../../src/authz/decide";
import { partsOf } from "../../src/db/accounts";
import {
	type ApiKeyFilter,
	apiKeyAsSeenBy,
	apiKeyById,
	apiKeyRecord,
	apiKeysPage,
	currentKeyHash,
	policiesElsewhere,
	sealedKeyText,
} from "../../src/db/api-keys";
import {
	type AppFilter,
	appByPublicId,
	appContents,
	appCounts,
	appRecord,
	appsPage,
	appUuidsInOrg,
	appUuidsInOrgOfKey,
	auditedAppNow,
	EVERYTHING_AUDITED,
} from "../../src/db/apps";
import { type AuditFilter, auditBefore, auditPage } from "../../src/db/audit";
import {
	bundleById,
	bundleByName,
	bundleIdNamed,
	bundleOfScope,
	bundleRecord,
	bundlesByNames,
	bundlesGoing,
	bundlesPage,
	objectIsNamed,
} from "../../src/db/bundles";
import { wholeChannelNow } from "../../src/db/channel-audit";
import { channelByName, channelContents, channelIdNamed, channelsPage } from "../../src/db/channels";
import { query } from "../../src/db/client";
import { cliChannels, deltaObject, missingDeltaPaths } from "../../src/db/compat";
import { type DeviceFilter, deviceById, devicesPage, fleetPage, manifestSizes } from "../../src/db/devices";
import { invitationByEmail, invitationByToken } from "../../src/db/invitations";
import { appIsLive } from "../../src/db/live-apps";
import { emailOf, membershipByEmail, membersOf } from "../../src/db/members";
import {
	deletedOrganizationById,
	deletedOrganizationsPage,
	keysUnderPolicy,
	organizationById,
	organizationContents,
	organizationsOfKeys,
	organizationsPage,
} from "../../src/db/organizations";
import { dueRollouts, lastEndedRollout, standingOf } from "../../src/db/rollouts";
import {
	devicesByKey,
	signaturesOfBundles,
	signingKeysOf,
	signingRulesOfApp,
	unsignedChannels,
} from "../../src/db/signing-keys";
import {
	appPointer,
	manifestOf,
	overrideOf,
	readyBundle,
	readyBundleOf,
	snapshotBundles,
	snapshotStatements,
} from "../../src/db/snapshot";
import {
	dailySketches,
	dailyStorage,
	dailyTotals,
	dailyVersions,
	installTimesByBundle,
	installTimesByDay,
	outcomesByBundle,
	type StatisticsOf,
	sketchesFit,
	statisticsApps,
	storedNow,
} from "../../src/db/statistics";
import { latestUploadOf, uploadById, uploadByLink } from "../../src/db/uploads";
import {
	A,
	ADMINISTERING,
	B,
	CROSSED,
	DAY,
	insertTenants,
	KEY_ID,
	otherThan,
	readValue,
	rowsOfAll,
	type TenantRows,
} from "./support/tenants";
import { NOW_MS } from "./support/world";

type Row = Record<string, unknown>;
/** A statement about a tenant, and the rows that it answers with, by the columns that tell them apart. */
type Read = readonly [(of: TenantRows) => CompiledQuery, (of: TenantRows) => readonly Row[]];

const ALL = { limit: 100, offset: 0 } as const;
const nameOf = (row: Row) => String(row.id ?? row.device_id ?? row.target_id);
const idsOf = (text: unknown) => (JSON.parse(String(text)) as { id: string }[]).map(({ id }) => id).sort();

const KEYS: ApiKeyFilter = { orgIds: [], ownKeyId: "absent", orgId: undefined, unusedSinceMs: undefined };
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
	"apiKeysPage, with the caller's own": [
		keys((of) => ({ orgIds: [of.org], ownKeyId: CROSSED.key })),
		(of) => [...keysOf(of), strangersKey("x-a-app", "x-a-ended", "x-b-app", "x-b-ended", "x-key")],
	],
	"apiKeysPage, of one of two organizations": [
		keys((of) => ({ orgIds: [of.org, CROSSED.org], orgId: CROSSED.org })),
		() => [strangersKey("x-a-app", "x-a-ended", "x-b-app", "x-b-ended", "x-key")],
	],
	"apiKeysPage, of one that is not the caller's": [
		keys((of) => ({ orgIds: [of.org], orgId: otherThan(of).org })),
		(of) => [{ id: otherThan(of).key, bindings: [`${otherThan(of).name}-key-elsewhere`] }],
	],
	apiKeyById: [(of) => apiKeyById(of.key), (of) => ownKeys(of).slice(0, 1)],
	"apiKeyAsSeenBy, by its own organization": [
		(of) => apiKeyAsSeenBy(of.org, of.key),
		(of) => [{ id: of.key, bindings: bindingsOf(of) }],
	],
	"apiKeyAsSeenBy, by another": [
		(of) => apiKeyAsSeenBy(otherThan(of).org, of.key),
		(of) => [{ id: of.key, bindings: [`${of.name}-key-elsewhere`] }],
	],
	apiKeyRecord: [(of) => apiKeyRecord(of.org, of.key), (of) => ownKeys(of).slice(0, 1)],
	"apiKeyRecord, of another's key": [(of) => apiKeyRecord(of.org, otherThan(of).key), () => []],
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
	"appByPublicId, of an empty one": [(of) => appByPublicId(`com.example.empty.${of.name}`), (of) => [emptyApp(of)]],
	"appsPage, of an organization": [apps((of) => ({ orgIds: [of.org] })), (of) => [ownApp(of), emptyApp(of)]],
	"appsPage, of one app": [apps((of) => ({ appIds: [of.emptyApp] })), (of) => [emptyApp(of)]],
	"appsPage, of one of two organizations": [
		apps((of) => ({ orgIds: [A.org, B.org], appIds: [A.app, B.app], orgId: of.org })),
		(of) => [ownApp(of), emptyApp(of)],
	],
	"appsPage, of one that is not the caller's": [
		apps((of) => ({ orgIds: [of.org], appIds: [of.app], orgId: otherThan(of).org })),
		() => [],
	],
	appRecord: [(of) => appRecord(of.app), (of) => [ownApp(of)]],
	appContents: [
		(of) => appContents(of.publicAppId, true),
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
	...{ actor: undefined, action: undefined, target: undefined, fromMs: undefined, toMs: undefined },
};
const ENTRIES = (of: TenantRows): Row[] => [
	{ org_id: of.org, target_id: "2", actor_id: of.user, app_uuid: null },
	{ org_id: of.org, target_id: "1", actor_id: of.key, app_uuid: of.app },
];
const entries = (filter: Partial<AuditFilter>) => (of: TenantRows) =>
	auditPage({ orgId: of.org }, { ...ANY_ENTRY, ...filter }, ALL.limit, ALL.offset);

const AUDIT: Readonly<Record<string, Read>> = {
	"auditPage, of an organization": [entries({}), ENTRIES],
	"auditPage, of an app": [
		(of) => auditPage({ publicAppId: of.publicAppId }, ANY_ENTRY, ALL.limit, ALL.offset),
		(of) => ENTRIES(of).slice(1),
	],
	"auditPage, of an app by its UUID": [
		(of) => auditPage({ appUuid: of.app }, ANY_ENTRY, ALL.limit, ALL.offset),
		(of) => ENTRIES(of).slice(1),
	],
	"auditPage, by an actor": [(of) => entries({ actor: of.user })(of), (of) => ENTRIES(of).slice(0, 1)],
	"auditPage, by an actor's name": [(of) => entries({ actor: `name of ${of.key}` })(of), (of) => ENTRIES(of).slice(1)],
	"auditPage, of a target": [entries({ target: "2" }), (of) => ENTRIES(of).slice(0, 1)],
	"auditPage, of a target's name": [entries({ target: "name of 1" }), (of) => ENTRIES(of).slice(1)],
	"auditPage, of a target and its type": [entries({ target: "channel:1" }), (of) => ENTRIES(of).slice(1)],
	auditBefore: [
		(of) => auditBefore({ orgId: of.org }, ANY_ENTRY, of.name === "a" ? 2 : 4, ALL.limit),
		(of) => ENTRIES(of).slice(1),
	],
};

const stable = (of: TenantRows): Row => bundle(of, of.stable, "production");
const bundle = (of: TenantRows, id: number, ...channels: string[]): Row => {
	return { id, app_id: of.app, public_app_id: of.publicAppId, channels: JSON.stringify(channels) };
};

const BUNDLES: Readonly<Record<string, Read>> = {
	bundlesPage: [
		(of) => bundlesPage(of.publicAppId, undefined, ALL.limit, ALL.offset),
		(of) => [bundle(of, of.unused), bundle(of, of.next, "production"), stable(of)],
	],
	"bundlesPage, of one version": [
		(of) => bundlesPage(of.publicAppId, "1.0.0", ALL.limit, ALL.offset),
		(of) => [stable(of)],
	],
	bundleByName: [(of) => bundleByName(of.publicAppId, "1.0.0"), (of) => [stable(of)]],
	bundlesByNames: [(of) => bundlesByNames(of.publicAppId, ["1.0.0", "absent"]), (of) => [stable(of)]],
	bundleById: [(of) => bundleById(of.publicAppId, of.stable), (of) => [stable(of)]],
	"bundleById, of another's": [(of) => bundleById(of.publicAppId, otherThan(of).stable), () => []],
	"bundleById, of a deleted one": [(of) => bundleById(of.publicAppId, of.deleted), () => []],
	bundleOfScope: [(of) => bundleOfScope(of.stable), (of) => [stable(of)]],
	"bundleOfScope, of a deleted one": [(of) => bundleOfScope(of.deleted), () => []],
	bundleRecord: [(of) => bundleRecord(of.app, "1.0.0"), (of) => [stable(of)]],
	bundlesGoing: [
		(of) => bundlesGoing(of.app, undefined, ALL.limit),
		(of) => [{ id: of.unused, bundles: 1, bundle_bytes: of.unused, device_overrides: 0 }],
	],
	"bundlesGoing, one that is used": [
		(of) => bundlesGoing(of.app, of.stable, ALL.limit),
		(of) => [{ id: of.stable, bundles: 1, bundle_bytes: of.stable, device_overrides: 1 }],
	],
	"bundlesGoing, another's": [(of) => bundlesGoing(of.app, otherThan(of).stable, ALL.limit), () => []],
	"bundlesGoing, a deleted one": [(of) => bundlesGoing(of.app, of.deleted, ALL.limit), () => []],
	"bundlesPage, of a signed one": [
		(of) => bundlesPage(of.publicAppId, "1.0.0", ALL.limit, ALL.offset),
		(of) => [{ id: of.stable, signer: KEY_ID }],
	],
	"bundlesPage, of one that another tenant's key signed": [
		(of) => bundlesPage(of.publicAppId, "1.1.0", ALL.limit, ALL.offset),
		(of) => [{ id: of.next, signer: null }],
	],
	signaturesOfBundles: [
		(of) => signaturesOfBundles(of.app, [of.stable, otherThan(of).next, of.pending]),
		(of) => [{ id: of.stable, file_hashes: '["hash"]', signing_rules: rulesOf(of) }],
	],
	signingRulesOfApp: [(of) => signingRulesOfApp(of.publicAppId), (of) => [{ signing_rules: rulesOf(of) }]],
	signingKeysOf: [(of) => signingKeysOf(of.org), (of) => [{ id: `signing-${of.name}`, org_id: of.org }]],
	unsignedChannels: [
		(of) => unsignedChannels(of.org, "", ALL.limit),
		(of) => [{ app_id: of.publicAppId, channel: "production", version: "1.1.0", total: 1 }],
	],
	"unsignedChannels, without a key of its own": [
		(of) => unsignedChannels(of.org, `signing-${of.name}`, ALL.limit),
		() => [
			{ version: "1.0.0", total: 2 },
			{ version: "1.1.0", total: 2 },
		],
	],
	"unsignedChannels, without a key of another tenant": [
		(of) => unsignedChannels(of.org, `signing-${otherThan(of).name}`, ALL.limit),
		() => [{ version: "1.1.0", total: 1 }],
	],
	"unsignedChannels, not wanted": [(of) => unsignedChannels(of.org, "", ALL.limit, false), () => []],
	devicesByKey: [
		(of) => devicesByKey(of.publicAppId),
		() => [{ key_id: KEY_ID, devices: 1, signing_key_name: "Same" }],
	],
	"devicesByKey, of an app without any": [() => devicesByKey(CROSSED.publicAppId), () => []],
	"devicesPage, of a key": [
		(of) => devicesPage(of.publicAppId, { ...ANY_DEVICE, keyId: KEY_ID }, ALL.limit, ALL.offset),
		() => [{ device_id: "device-1" }],
	],
	appIsLive: [(of) => appIsLive(of.app), () => [{ live: 1 }]],
	"appIsLive, of a deleted organization": [(of) => appIsLive(of.deletedApp), () => []],
	"objectIsNamed, a bundle": [(of) => objectIsNamed(of.app, `${of.app}/${of.stable}`), () => [{ named: 1 }]],
	"objectIsNamed, another's bundle": [
		(of) => objectIsNamed(of.app, `${otherThan(of).app}/${otherThan(of).stable}`),
		() => [],
	],
	"objectIsNamed, a file": [(of) => objectIsNamed(of.app, `${of.app}/delta/shared`), () => [{ named: 1 }]],
	"objectIsNamed, another's file": [(of) => objectIsNamed(of.app, `${otherThan(of).app}/delta/shared`), () => []],
	"objectIsNamed, of a deleted organization": [
		(of) => objectIsNamed(of.deletedApp, `${of.deletedApp}/delta/shared`),
		() => [],
	],
};

const production = (of: TenantRows): Row => ({
	...{ id: of.channel, version_name: "1.0.0", version_id: of.stable },
	...{ rollout_version_name: "1.1.0", rollout_version_id: of.next },
});
const beta = (of: TenantRows): Row => ({ id: of.beta, version_name: null, rollout_version_name: null });
const paths = (...wanted: string[]) => JSON.stringify(wanted.map((path) => ({ s3_path: path })));
const ANY_DEVICE: DeviceFilter = {
	...{ channel: undefined, version: undefined, platform: undefined, customId: undefined, keyId: undefined },
	...{ seenFromMs: undefined, seenToMs: undefined },
};
const rulesOf = (of: TenantRows) => JSON.stringify({ required: 1, keys: [`${KEY_ID}-${of.name}`] });
const setDevice = (of: TenantRows): Row => ({
	...{ device_id: "device-1", channel: "beta", override_version: "1.1.0" },
	...{ override_channel_id: of.beta, override_version_id: of.next },
});
const otherDevice = (of: TenantRows): Row => ({
	...{ device_id: "device-2", channel: "production", override_version: "1.0.0" },
	...{ override_channel_id: null, override_version_id: of.stable },
});

const CHANNELS_AND_DEVICES: Readonly<Record<string, Read>> = {
	channelByName: [(of) => channelByName(of.publicAppId, "production"), (of) => [production(of)]],
	channelContents: [
		(of) => channelContents(of.app, of.beta, [of.stable]),
		// Both devices: one has the channel, the other one the bundle.
		() => [{ api_key_bindings: 1, device_overrides: 2, rollouts: 1 }],
	],
	"channelContents, with another's bundle": [
		(of) => channelContents(of.app, of.channel, [otherThan(of).stable, of.unused]),
		// With a rollout that the channel does not name.
		() => [{ api_key_bindings: 0, device_overrides: 0, rollouts: 3 }],
	],
	"channelContents, of another's channel": [
		(of) => channelContents(of.app, otherThan(of).beta, []),
		() => [{ api_key_bindings: 0, device_overrides: 0, rollouts: 0 }],
	],
	channelsPage: [(of) => channelsPage(of.publicAppId, ALL.limit, ALL.offset), (of) => [production(of), beta(of)]],
	cliChannels: [
		(of) => cliChannels(of.publicAppId, {}),
		(of) => [
			{ ...production(of), owner_org: of.org },
			{ ...beta(of), owner_org: of.org },
		],
	],
	"cliChannels, by name": [(of) => cliChannels(of.publicAppId, { name: "beta" }), (of) => [beta(of)]],
	"cliChannels, by another name": [
		(of) => cliChannels(of.publicAppId, { nameIsNot: "beta" }),
		(of) => [production(of)],
	],
	"cliChannels, by their bundle": [
		(of) => cliChannels(of.publicAppId, { usesBundle: of.stable }),
		(of) => [production(of)],
	],
	"cliChannels, by their rollout's bundle": [
		(of) => cliChannels(of.publicAppId, { usesBundle: of.next }),
		(of) => [production(of)],
	],
	"missingDeltaPaths, by the key's own secret": [
		(of) => missingDeltaPaths(of.publicAppId, paths("shared", "own", "only-a", "only-b"), of.keyHash),
		(of) => [{ path: `only-${otherThan(of).name}` }],
	],
	"missingDeltaPaths, by the key's previous secret": [
		(of) => missingDeltaPaths(of.publicAppId, paths("own"), of.previousKeyHash),
		() => [],
	],
	"missingDeltaPaths, by another's key": [
		(of) => missingDeltaPaths(of.publicAppId, paths("shared", "own"), otherThan(of).keyHash),
		() => [{ path: "own" }],
	],
	deltaObject: [(of) => deltaObject(of.publicAppId, "shared", of.keyHash), (of) => [{ size_bytes: of.stable }]],
	"deltaObject, of the key": [
		(of) => deltaObject(of.publicAppId, "own", of.keyHash),
		(of) => [{ size_bytes: of.unused }],
	],
	"deltaObject, of another's key": [(of) => deltaObject(of.publicAppId, "own", otherThan(of).keyHash), () => []],
	deviceById: [(of) => deviceById(of.publicAppId, "device-1"), (of) => [setDevice(of)]],
	"deviceById, whose channel is another app's": [
		() => deviceById(CROSSED.publicAppId, "device-1"),
		() => [{ device_id: "device-1", channel: null }],
	],
	devicesPage: [
		(of) => devicesPage(of.publicAppId, ANY_DEVICE, ALL.limit, ALL.offset),
		(of) => [setDevice(of), otherDevice(of)],
	],
	"devicesPage, of a channel": [
		(of) => devicesPage(of.publicAppId, { ...ANY_DEVICE, channel: "production" }, ALL.limit, ALL.offset),
		(of) => [otherDevice(of)],
	],
	"devicesPage, of a channel that was set": [
		(of) => devicesPage(of.publicAppId, { ...ANY_DEVICE, channel: "beta" }, ALL.limit, ALL.offset),
		(of) => [setDevice(of)],
	],
	"devicesPage, of a channel, where another app's is set": [
		() => devicesPage(CROSSED.publicAppId, { ...ANY_DEVICE, channel: "beta" }, ALL.limit, ALL.offset),
		() => [],
	],
	"devicesPage, of a version": [
		(of) => devicesPage(of.publicAppId, { ...ANY_DEVICE, version: "1.0.0" }, ALL.limit, ALL.offset),
		(of) => [setDevice(of)],
	],
	"devicesPage, of a custom id with another version": [
		(of) => devicesPage(of.publicAppId, { ...ANY_DEVICE, customId: "somebody", version: "9" }, ALL.limit, ALL.offset),
		() => [],
	],
	"devicesPage, of a custom id": [
		(of) => devicesPage(of.publicAppId, { ...ANY_DEVICE, customId: "somebody" }, ALL.limit, ALL.offset),
		(of) => [setDevice(of)],
	],
	fleetPage: [
		(of) => fleetPage(of.app, "", ALL.limit),
		(of) => [
			{
				...{ device_id: "device-1", runs_ready_bundle: 1 },
				override_channel_id: of.beta,
				override_version_id: of.next,
			},
			{ ...{ device_id: "device-2", runs_ready_bundle: 0 }, override_channel_id: null, override_version_id: of.stable },
		],
	],
	"fleetPage, whose bundles are other apps'": [
		() => fleetPage(CROSSED.app, "device-1", ALL.limit),
		() => [{ device_id: "device-2", runs_ready_bundle: 0 }],
	],
	"fleetPage, from a device on": [
		(of) => fleetPage(of.app, "device-1", ALL.limit),
		() => [{ device_id: "device-2", override_channel_id: null }],
	],
	manifestSizes: [(of) => manifestSizes(of.app, "1.0.0"), (of) => [{ file_name: "a.js", size_bytes: of.stable }]],
};

const PEOPLE: Readonly<Record<string, Read>> = {
	invitationByEmail: [
		(of) => invitationByEmail(of.org, "invited@example.com"),
		(of) => [{ id: of.invitation, org_id: of.org }],
	],
	invitationByToken: [
		(of) => invitationByToken(of.tokenHash, NOW_MS),
		(of) => [
			{ id: of.invitation, user_id: null, inviter_email: of.email, inviter_roles: '["org_admin","app_reader"]' },
		],
	],
	"invitationByToken, of a deleted organization": [
		(of) => invitationByToken(`token-${of.name}-deleted`, NOW_MS),
		() => [],
	],
	"invitationByToken, of one that ran out": [(of) => invitationByToken(`token-${of.name}-late`, NOW_MS), () => []],
	membersOf: [
		(of) => membersOf(of.org, undefined, NOW_MS, ALL.limit, ALL.offset),
		(of) => [
			{ id: of.user, email: of.email, roles: '["org_admin","app_reader"]', is_invitation: 0 },
			{ id: of.invitation, email: "invited@example.com", roles: '["org_member"]', is_invitation: 1 },
			{ id: "user-shared", email: "shared@example.com", roles: '["org_member"]', is_invitation: 0 },
		],
	],
	"membersOf, a person": [
		(of) => membersOf(of.org, "user-shared", NOW_MS, ALL.limit, ALL.offset),
		() => [{ id: "user-shared", email: "shared@example.com", roles: '["org_member"]', is_invitation: 0 }],
	],
	"membersOf, an invitation": [
		(of) => membersOf(of.org, of.invitation, NOW_MS, ALL.limit, ALL.offset),
		(of) => [{ id: of.invitation, email: "invited@example.com", is_invitation: 1 }],
	],
	"membersOf, another's": [(of) => membersOf(of.org, otherThan(of).user, NOW_MS, ALL.limit, ALL.offset), () => []],
	"membersOf, another's invitation": [
		(of) => membersOf(of.org, otherThan(of).invitation, NOW_MS, ALL.limit, ALL.offset),
		() => [],
	],
	membershipByEmail: [
		(of) => membershipByEmail(of.org, of.email, NOW_MS),
		(of) => [
			{
				...{ user_id: of.user, roles: '["org_admin","app_reader"]', foreign_keys: "[]" },
				keys: JSON.stringify([{ id: of.key, name: "Same", roles: ["org_admin", "app_reader"] }]),
				// The person's own roles: keys that come and go do not hold a change off.
				fingerprint: JSON.stringify([`${of.name}-user`, `${of.name}-user-ended`, `${of.name}-user-ending`]),
			},
		],
	],
	"membershipByEmail, of somebody with a key from elsewhere": [
		(of) => membershipByEmail(of.org, otherThan(of).email, NOW_MS),
		(of) => [
			{
				...{ user_id: otherThan(of).user, roles: "[]", keys: "[]" },
				foreign_keys: JSON.stringify([{ id: otherThan(of).key, name: "Same", roles: ["org_member"] }]),
				fingerprint: "[]",
			},
		],
	],
	"membershipByEmail, of somebody who is in several": [
		(of) => membershipByEmail(of.org, "shared@example.com", NOW_MS),
		(of) => [
			{
				...{ user_id: "user-shared", roles: '["org_member"]' },
				keys: JSON.stringify([
					{ id: `key-expired-${of.name}`, name: "Same", roles: [] },
					{ id: `key-shared-${of.name}`, name: "Same", roles: ["org_member"] },
				]),
				foreign_keys: JSON.stringify([{ id: CROSSED.key, name: "Same", roles: ["org_member"] }]),
				fingerprint: JSON.stringify([`${of.name}-shared`]),
			},
		],
	],
	"membershipByEmail, of somebody whose role ran out": [
		(of) => membershipByEmail(of.org, "former@example.com", NOW_MS),
		(of) => [{ user_id: "user-former", roles: "[]", keys: "[]", fingerprint: JSON.stringify([`${of.name}-former`]) }],
	],
	"membershipByEmail, of a stranger": [() => membershipByEmail(CROSSED.org, A.email, NOW_MS), () => []],
	partsOf: [
		(of) => partsOf(`hash-of-${of.session}`, ADMINISTERING),
		(of) => [
			{
				...{ id: of.org, is_last_owner: 1, roles: '["org_admin","app_reader","org_member"]' },
				keys: JSON.stringify([{ id: of.key, name: "Same" }]),
			},
			{ id: of.deletedOrg, is_last_owner: 1, roles: '["org_admin"]', keys: "[]" },
			{ id: otherThan(of).org, is_last_owner: 0, roles: "[]", keys: "[]" },
		],
	],
	"partsOf, of somebody with the one role that owns": [
		() => partsOf("hash-of-session-shared", ["org_member", "org_super_admin"]),
		() => [
			{ id: A.org, is_last_owner: 1 },
			{ id: B.org, is_last_owner: 1 },
			{ id: CROSSED.org, is_last_owner: 0, roles: "[]" },
		],
	],
	"partsOf, of somebody with a role that owns nothing": [
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
	"organizationById, of a deleted one": [(of) => organizationById(of.deletedOrg), () => []],
	deletedOrganizationById: [(of) => deletedOrganizationById(of.deletedOrg), (of) => [{ id: of.deletedOrg }]],
	deletedOrganizationsPage: [
		(of) => deletedOrganizationsPage([of.org, of.deletedOrg as OrgId], NOW_MS - 1, ALL.limit, ALL.offset),
		(of) => [{ id: of.deletedOrg }],
	],
	"deletedOrganizationsPage, of those that are past restoring": [
		(of) => deletedOrganizationsPage([of.org, of.deletedOrg as OrgId], NOW_MS, ALL.limit, ALL.offset),
		() => [],
	],
	"deletedOrganizationById, of one that is not": [(of) => deletedOrganizationById(of.org), () => []],
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
	"organizationsOfKeys, of one person": [(of) => organizationsOfKeys(of.org, "shared@example.com"), () => []],
	"organizationsOfKeys, of the key's owner": [
		(of) => organizationsOfKeys(of.org, of.email),
		(of) => [{ id: of.deletedOrg }, { id: otherThan(of).org }],
	],
	keysUnderPolicy: [
		(of) => keysUnderPolicy(of.org, ADMINISTERING, ["org_member", "app_reader", "app_admin"], NOW_MS, true),
		(of) => [
			{ ...POLICY_KEY, id: of.key, org_id: of.org, is_hashed_key: 0, administers: 1 },
			{ ...POLICY_KEY, id: otherThan(of).key, org_id: otherThan(of).org, owns: 1 },
			{ ...POLICY_KEY, id: `key-shared-${of.name}`, org_id: of.org, owns: 1 },
		],
	],
};

const standing = (of: TenantRows): Row => ({
	...{ id: of.channel, app_id: of.app, public_app_id: of.publicAppId, org_id: of.org },
	...{ version_name: `${of.rollout} of 1.1.0`, served: 2, installed: 2 },
});

const ROLLOUTS: Readonly<Record<string, Read>> = {
	standingOf: [(of) => standingOf(of.publicAppId, "production", NOW_MS), (of) => [standing(of)]],
	"standingOf, that another app's channel names": [
		(of) => standingOf(of.publicAppId, "beta", NOW_MS),
		(of) => [{ id: of.beta, served: 1 }],
	],
	dueRollouts: [() => dueRollouts(NOW_MS, 2, NOW_MS), () => [standing(A), standing(B)]],
	"dueRollouts, of deleted organizations": [
		() => dueRollouts(NOW_MS, ALL.limit, NOW_MS),
		() => [standing(A), standing(B)],
	],
	"standingOf, of a deleted organization": [(of) => standingOf(of.deletedPublicAppId, "production", NOW_MS), () => []],
	lastEndedRollout: [
		(of) => lastEndedRollout(of.publicAppId, "production"),
		(of) => [{ version_name: `${of.endedRollout} of 1.1.0` }],
	],
	"lastEndedRollout, of a channel without": [(of) => lastEndedRollout(of.publicAppId, "beta"), () => []],
};

const served = (of: TenantRows): Row[] => [
	{ id: of.stable, name: "1.0.0", has_manifest: 1 },
	{ id: of.next, name: "1.1.0", has_manifest: 0 },
];

const SNAPSHOTS: Readonly<Record<string, Read>> = {
	appPointer: [(of) => appPointer(of.publicAppId), (of) => [{ id: of.app }]],
	"appPointer, of a deleted organization": [(of) => appPointer(of.deletedPublicAppId), () => []],
	snapshotBundles: [(of) => snapshotBundles(of.app, [A.stable, B.stable, of.next]), (of) => served(of)],
	"snapshotStatements, the app": [
		(of) => snapshotStatements(of.publicAppId)[0],
		(of) => [{ id: of.app, owner_org: of.org }],
	],
	"snapshotStatements, channels": [
		(of) => snapshotStatements(of.publicAppId)[1],
		(of) => [{ id: of.channel, version_id: of.stable }, { id: of.beta }],
	],
	"snapshotStatements, bundles": [(of) => snapshotStatements(of.publicAppId)[2], (of) => served(of)],
	"snapshotStatements, bundles that belong to other apps": [() => snapshotStatements(CROSSED.publicAppId)[2], () => []],
	"snapshotStatements, overrides": [
		(of) => snapshotStatements(of.publicAppId)[3],
		(of) => [
			{ device_id: "device-1", channel_id: of.beta, version_id: of.next },
			{ device_id: "device-2", channel_id: null, version_id: of.stable },
		],
	],
	overrideOf: [(of) => overrideOf(of.app, "device-1"), (of) => [{ device_id: "device-1", version_id: of.next }]],
	"overrideOf, of a device without": [(of) => overrideOf(of.app, "device-3"), () => []],
	readyBundle: [(of) => readyBundle(of.app, "1.0.0"), (of) => [{ id: of.stable }]],
	readyBundleOf: [(of) => readyBundleOf(of.publicAppId, "1.0.0"), (of) => [{ id: of.stable }]],
	manifestOf: [
		(of) => manifestOf(of.app, of.stable),
		(of) => [{ file_name: "a.js", object_key: `${of.app}/delta/shared` }],
	],
	"manifestOf, of files in another app": [(of) => manifestOf(of.app, of.unused), () => []],
};

const RANGE = { firstDay: DAY, lastDay: DAY };
/** The tenant's ready bundles, and the files of its delta store, which have the same sizes. */
const stored = ({ app, stable, next, unused }: TenantRows): Row => ({
	app,
	size_bytes: 2 * (stable + next + unused),
	counted: 6,
});
const inOrg = (of: TenantRows): StatisticsOf => ({ orgIds: [of.org], appIds: [] });
const inApp = (of: TenantRows): StatisticsOf => ({ orgIds: [], appIds: [of.app] });

const STATISTICS: Readonly<Record<string, Read>> = {
	"statisticsApps, of an organization": [
		(of) => statisticsApps(inOrg(of)),
		(of) => [{ id: of.app }, { id: of.emptyApp }],
	],
	"statisticsApps, of one app": [(of) => statisticsApps(inApp(of)), (of) => [{ id: of.app, app_id: of.publicAppId }]],
	dailyTotals: [(of) => dailyTotals(inOrg(of), RANGE, true), (of) => [{ app: of.app, day: DAY, get_count: of.stable }]],
	dailyStorage: [
		(of) => dailyStorage(inOrg(of), RANGE, true),
		(of) => [{ app: of.app, day: DAY, size_bytes: of.stable }],
	],
	"storedNow, of an organization": [(of) => storedNow(inOrg(of)), (of) => [stored(of)]],
	"storedNow, of one app": [(of) => storedNow(inApp(of)), (of) => [stored(of)]],
	dailySketches: [
		(of) => dailySketches(inApp(of), RANGE),
		(of) => [{ app: of.app, day: DAY, sketch: `sketch ${of.stable}` }],
	],
	dailyVersions: [
		(of) => dailyVersions(of.app, RANGE),
		(of) => [{ version_name: "1.0.0", day: DAY, amount: of.stable }],
	],
	outcomesByBundle: [
		(of) => outcomesByBundle(of.app, RANGE),
		(of) => [{ version_name: "1.0.0", channel_name: "production", install: of.stable, fail: 0 }],
	],
	installTimesByBundle: [
		(of) => installTimesByBundle(of.app, RANGE),
		(of) => [{ version_name: "1.0.0", bucket: 1, amount: of.stable }],
	],
	installTimesByDay: [(of) => installTimesByDay(of.app, RANGE), (of) => [{ day: DAY, bucket: 1, amount: of.stable }]],
};

const uploadRow = (of: TenantRows, id: string, bundleName: string | null): Row => {
	return { id, public_app_id: of.publicAppId, owner_org: of.org, bundle_name: bundleName };
};

const UPLOADS: Readonly<Record<string, Read>> = {
	uploadById: [(of) => uploadById(of.upload), (of) => [uploadRow(of, of.upload, "2.0.0")]],
	uploadByLink: [
		(of) => uploadByLink(of.upload, NOW_MS),
		(of) => [{ ...uploadRow(of, of.upload, "2.0.0"), uploader_name: "Same" }],
	],
	"uploadByLink, of a person": [
		(of) => uploadByLink(`${of.upload}-of-user`, NOW_MS),
		(of) => [{ id: `${of.upload}-of-user`, uploader_name: of.email }],
	],
	"uploadByLink, of a person who has no part in it": [(of) => uploadByLink(`${of.upload}-of-other`, NOW_MS), () => []],
	"uploadByLink, of a person whose part ran out": [(of) => uploadByLink(`${of.upload}-of-gone`, NOW_MS), () => []],
	"uploadByLink, of a key that ran out": [(of) => uploadByLink(`${of.upload}-expired`, NOW_MS), () => []],
	"uploadByLink, of a deleted organization": [(of) => uploadByLink(`${of.upload}-in-deleted`, NOW_MS), () => []],
	"latestUploadOf, whose name a deleted bundle had": [
		(of) => latestUploadOf(of.publicAppId, "1.0.0"),
		(of) => [uploadRow(of, `${of.upload}-stable`, "1.0.0")],
	],
	latestUploadOf: [(of) => latestUploadOf(of.publicAppId, "2.0.0"), (of) => [uploadRow(of, of.upload, "2.0.0")]],
};

/** A statement of a scope, for a request that says this. */
function scoped(
	source: { statement: (raw: RawInput) => CompiledQuery | undefined },
	body: (of: TenantRows) => Row,
): (of: TenantRows) => CompiledQuery {
	return (of) => {
		const statement = source.statement({ params: {}, query: {}, body: body(of), headers: new Headers() });
		if (statement === undefined) throw new Error("the request says no target");
		return statement;
	};
}
const scopeRow = (of: TenantRows, rest: Row = {}): Row => ({
	id: of.app,
	app_id: of.publicAppId,
	owner_org: of.org,
	...rest,
});

const SCOPES: Readonly<Record<string, Read>> = {
	orgScope: [scoped(orgScope("body.org"), ({ org }) => ({ org })), (of) => [{ id: of.org }]],
	"orgScope, of a deleted one": [scoped(orgScope("body.org"), ({ deletedOrg }) => ({ org: deletedOrg })), () => []],
	"orgScope, among the deleted": [
		scoped(orgScope("body.org", true), ({ deletedOrg }) => ({ org: deletedOrg })),
		(of) => [{ id: of.deletedOrg }],
	],
	"orgScope, among the deleted, of one that is not": [
		scoped(orgScope("body.org", true), ({ org }) => ({ org })),
		() => [],
	],
	appScope: [scoped(appScope("body.app"), ({ publicAppId }) => ({ app: publicAppId })), (of) => [scopeRow(of)]],
	"channelScope, by name": [
		scoped(channelScope("body.app", { name: "body.name" }), (of) => ({ app: of.publicAppId, name: "beta" })),
		(of) => [scopeRow(of, { channel_id: of.beta })],
	],
	"channelScope, by id": [
		scoped(channelScope("body.app", { id: "body.id" }), (of) => ({ app: of.publicAppId, id: of.beta })),
		(of) => [scopeRow(of, { channel_id: of.beta })],
	],
	"channelScope, by another's id": [
		scoped(channelScope("body.app", { id: "body.id" }), (of) => ({ app: of.publicAppId, id: otherThan(of).beta })),
		(of) => [scopeRow(of, { channel_id: null })],
	],
	channelOrAppScope: [
		scoped(channelOrAppScope("body.app", { name: "body.name" }), (of) => ({ app: of.publicAppId, name: "absent" })),
		(of) => [scopeRow(of, { channel_id: null })],
	],
};

beforeAll(insertTenants);

describe.each(
	Object.entries({
		...{ API_KEYS, APPS, AUDIT, BUNDLES, CHANNELS_AND_DEVICES, PEOPLE, ORGANIZATIONS },
		...{ ROLLOUTS, SNAPSHOTS, STATISTICS, UPLOADS, SCOPES },
	}),
)("a statement that reads of %s", (_, reads) => {
	test.each(Object.entries(reads))(
		"%s: answers with what the tenant has, and nothing else",
		async (_, [read, expected]) => {
			const [ofA, ofB] = await rowsOfAll([read(A), read(B)]);
			const shown = (rows: readonly Row[] = []) =>
				rows
					.map((row) => (typeof row.bindings === "string" ? { ...row, bindings: idsOf(row.bindings) } : row))
					// Not every statement has an order, nor do these tests ask for one.
					.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other)));
			expect(shown(ofA)).toMatchObject(shown(expected(A)));
			expect(shown(ofB)).toMatchObject(shown(expected(B)));
		},
	);
});

describe("what a statement names in its batch", () => {
	test.each([A, B])("bundleIdNamed and channelIdNamed: finds the app's own ($name)", async (of) => {
		expect(await readValue(bundleIdNamed(of.app, "1.0.0"))).toBe(`${of.stable}`);
		expect(await readValue(bundleIdNamed(of.app, "1.1.0"))).toBe(`${of.next}`);
		expect(await readValue(channelIdNamed(of.app, "beta"))).toBe(`${of.beta}`);
		expect(await readValue(channelIdNamed(of.app, "production"))).toBe(`${of.channel}`);
		expect(await readValue(emailOf(of.user))).toBe(of.email);
	});

	/** What an endpoint loads beside the decision, for a request that says this. */
	const loadedBy = (endpoint: unknown, input: object) =>
		rowsOfAll(
			(endpoint as { load: (input: unknown, nowMs: number, keyHash: string) => CompiledQuery[] }).load(input, 0, ""),
		);

	test.each([A, B])("promoteBundle and deleteChannel: load what the app itself has ($name)", async (of) => {
		const other = otherThan(of);
		const promoted = async (channel_id: number) => {
			const body = { app_id: of.publicAppId, version_id: of.next, channel_id };
			return (await loadedBy(promoteBundle, { body }))[0];
		};
		expect(await promoted(of.channel)).toMatchObject([{ name: "production", version_id: of.stable }]);
		expect(await promoted(other.channel)).toEqual([]);
		const pointTo = (version: number) =>
			sql`UPDATE channels SET version_id = ${version} WHERE id = ${CROSSED.channel}`.compile(query);
		await rowsOfAll([pointTo(of.stable)]);
		const named = { app_id: of.publicAppId, channel: "production" };
		const [, linked] = await loadedBy(deleteChannel, { query: named });
		expect(linked?.map(({ id, other_channels }) => [id, other_channels])).toEqual([
			[of.stable, null],
			[of.next, null],
		]);
		await rowsOfAll([pointTo(A.unused)]);
	});

	test.each([A, B])("auditedAppNow: tells of the one app ($name)", async (of) => {
		const [own, empty] = [
			await readValue(auditedAppNow(of.app, EVERYTHING_AUDITED)),
			await readValue(auditedAppNow(of.emptyApp, EVERYTHING_AUDITED)),
		];
		expect(JSON.parse(String(own))).toMatchObject({ channel_count: 2, bundle_count: 4 });
		expect(JSON.parse(String(empty))).toMatchObject({ channel_count: 0, bundle_count: 0 });
		expect(await readValue(auditedAppNow("absent" as AppId, EVERYTHING_AUDITED))).toBe(null);
	});

	test.each([A, B])("wholeChannelNow: tells of the one channel and its bundles ($name)", async (of) => {
		const [own, others] = [
			await readValue(wholeChannelNow(of.app, of.beta)),
			await readValue(wholeChannelNow(of.app, otherThan(of).channel)),
		];
		expect(JSON.parse(String(own))).toMatchObject({ public: false, version: null, rolloutVersion: null });
		expect(others).toBe(null);
		const serving = await readValue(wholeChannelNow(of.app, of.channel));
		expect(JSON.parse(String(serving))).toMatchObject({ public: true, version: "1.0.0", rolloutVersion: "1.1.0" });
	});

	test("sketchesFit: counts the sketches of the apps on the days alone", async () => {
		const doTheyFit = async (of: TenantRows, lastDay: number) => {
			return rowsOfAll([sketchesFit(inApp(of), { firstDay: DAY, lastDay })]).then(
				() => true,
				() => false,
			);
		};
		await rowsOfAll([
			sql`INSERT INTO daily_devices (app_id, day, sketch, revision) SELECT ${A.app}, ${DAY} + value,
				hex(zeroblob(950000)), 1 FROM json_each('[2,3,4,5,6,7,8,9,10,11,12,13,14,15]')`.compile(query),
		]);
		try {
			expect(await doTheyFit(B, DAY + 15)).toBe(true);
			expect(await doTheyFit(A, DAY + 1)).toBe(true);
			expect(await doTheyFit(A, DAY + 15)).toBe(false);
		} finally {
			await rowsOfAll([sql`DELETE FROM daily_devices WHERE day > ${DAY + 1}`.compile(query)]);
		}
	});
});
