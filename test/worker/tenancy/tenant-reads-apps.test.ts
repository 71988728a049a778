/**
 * Statements that read the bundles and channels of an app: each answers with the rows of its tenant
 * and no others, also beside rows that no request can create.
 */
import { beforeAll, describe, test } from "vitest";
import { cliChannels, deltaObject, missingDeltaPaths } from "../../../src/compat/capgo-cli/queries";
import { type BUNDLE_STATES, bundleCounts, bundlesPage, foundBundles } from "../../../src/db/bundle-list";
import {
	bundleById,
	bundleByName,
	bundleOfScope,
	bundleRecord,
	bundlesByNames,
	doomedBundles,
	liveBundles,
	objectIsNamed,
	shownOnProtectedChannel,
	unusedBundles,
} from "../../../src/db/bundles";
import { liveAppWithId } from "../../../src/db/changes";
import { channelByName, channelContents, channelsPage, writtenChannel } from "../../../src/db/channels";
import { manifestFiles } from "../../../src/db/delta-files";
import { manifestSizes } from "../../../src/db/devices";
import { bundlesWithSamePackages, packagesOfChannel } from "../../../src/db/native-packages";
import { signaturesOfBundles, signingKeysOf, signingRulesOfApp, unsignedChannels } from "../../../src/db/signing-keys";
import { insertTenants } from "../support/tenant-rows";
import { expectReads, type Read, type Row } from "../support/tenant-statements";
import { KEY_ID, otherThan, type TenantRows } from "../support/tenants";

const ALL = { limit: 100, offset: 0 } as const;
const stable = (of: TenantRows): Row => bundle(of, of.stable, "production");

const bundle = (of: TenantRows, id: number, ...channels: string[]): Row => {
	return { id, app_id: of.app, public_app_id: of.publicAppId, channels: JSON.stringify(channels) };
};

type BundleState = (typeof BUNDLE_STATES)[number];
/** The bundles of each state. */
const FOUND: Readonly<Record<BundleState, Read[1]>> = {
	live: (of) => [bundle(of, of.next, "production"), stable(of)],
	unused: (of) => [bundle(of, of.unused)],
	preview: () => [],
	unfinished: (of) => [{ id: of.pending }],
	deleted: (of) => [{ id: of.deleted }],
};

const BUNDLES: Readonly<Record<string, Read>> = {
	bundlesPage: [
		(of) => bundlesPage(of.publicAppId, {}, {}, ALL),
		(of) => [bundle(of, of.unused), bundle(of, of.next, "production"), stable(of)],
	],
	"bundlesPage of one version": [
		(of) => bundlesPage(of.publicAppId, { version: "1.0.0" }, {}, ALL),
		(of) => [stable(of)],
	],
	bundleByName: [(of) => bundleByName(of.publicAppId, "1.0.0"), (of) => [stable(of)]],
	bundlesByNames: [(of) => bundlesByNames(of.publicAppId, ["1.0.0", "absent"]), (of) => [stable(of)]],
	bundleById: [(of) => bundleById(of.publicAppId, of.stable), (of) => [stable(of)]],
	"bundleById of another tenant's bundle": [(of) => bundleById(of.publicAppId, otherThan(of).stable), () => []],
	"bundleById of a deleted bundle": [(of) => bundleById(of.publicAppId, of.deleted), () => []],
	bundleOfScope: [(of) => bundleOfScope(of.stable), (of) => [stable(of)]],
	"bundleOfScope of a deleted bundle": [(of) => bundleOfScope(of.deleted), () => []],
	bundleRecord: [(of) => bundleRecord(of.app, "1.0.0"), (of) => [stable(of)]],
	"bundleRecord of a name that the app does not have": [(of) => bundleRecord(of.emptyApp, "1.0.0"), () => []],
	doomedBundles: [
		(of) => doomedBundles(unusedBundles(of.app), ALL.limit),
		(of) => [{ id: of.unused, bundles: 1, bundle_bytes: of.unused, device_overrides: 0 }],
	],
	"doomedBundles of a bundle in use": [
		(of) => doomedBundles(liveBundles(of.app, [of.stable]), ALL.limit),
		(of) => [{ id: of.stable, bundles: 1, bundle_bytes: of.stable, device_overrides: 1 }],
	],
	"doomedBundles of another tenant's bundle": [
		(of) => doomedBundles(liveBundles(of.app, [otherThan(of).stable]), ALL.limit),
		() => [],
	],
	"doomedBundles of a deleted bundle": [(of) => doomedBundles(liveBundles(of.app, [of.deleted]), ALL.limit), () => []],
	"bundlesPage of a signed bundle": [
		(of) => bundlesPage(of.publicAppId, { version: "1.0.0" }, {}, ALL),
		(of) => [{ id: of.stable, signer: KEY_ID }],
	],
	"bundlesPage of a bundle that another tenant's key signed": [
		(of) => bundlesPage(of.publicAppId, { version: "1.1.0" }, {}, ALL),
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
	"unsignedChannels without a signing key of the organization": [
		(of) => unsignedChannels(of.org, `signing-${of.name}`, ALL.limit),
		() => [
			{ version: "1.0.0", total: 2 },
			{ version: "1.1.0", total: 2 },
		],
	],
	"unsignedChannels without a key of another tenant": [
		(of) => unsignedChannels(of.org, `signing-${otherThan(of).name}`, ALL.limit),
		() => [{ version: "1.1.0", total: 1 }],
	],
	"bundlesPage found by a part and sorted": [
		(of) => bundlesPage(of.publicAppId, { search: "1." }, { sort: "size", order: "asc" }, ALL),
		(of) => [stable(of), bundle(of, of.next, "production"), bundle(of, of.unused)],
	],
	...Object.fromEntries(
		Object.entries(FOUND).map(([state, expected]): [string, Read] => [
			`bundlesPage of state ${state}`,
			[(of) => bundlesPage(of.publicAppId, { state: state as BundleState }, {}, ALL), expected],
		]),
	),
	bundleCounts: [
		(of) => bundleCounts(of.publicAppId, undefined),
		(of) => {
			const states = Object.entries(FOUND).map(([state, rows]) => [state, rows(of).length] as const);
			return [{ states: JSON.stringify(Object.fromEntries([["all", 3], ...states])) }];
		},
	],
	foundBundles: [(of) => foundBundles(of.publicAppId, {}, {}), () => [{ total: 3, complete: 1 }]],
	"foundBundles of a version": [
		(of) => foundBundles(of.publicAppId, { version: "1.0.0" }, {}),
		() => [{ total: 1, complete: 1 }],
	],
	"foundBundles of a part": [
		(of) => foundBundles(of.publicAppId, { search: "1." }, {}),
		() => [{ total: 3, complete: 1 }],
	],
	...Object.fromEntries(
		Object.entries(FOUND).map(([state, expected]): [string, Read] => [
			`foundBundles of state ${state}`,
			[
				(of) => foundBundles(of.publicAppId, { state: state as BundleState }, {}),
				(of) => [{ total: expected(of).length, complete: 1 }],
			],
		]),
	),
	manifestFiles: [(of) => manifestFiles(of.app, of.stable, "", ALL.limit), () => [{ files: 1, found: 1 }]],
	"manifestFiles of another tenant's bundle": [
		(of) => manifestFiles(of.app, otherThan(of).stable, "", ALL.limit),
		() => [{ files: 0, found: 0, file_name: null }],
	],
	shownOnProtectedChannel: [(of) => shownOnProtectedChannel(of.publicAppId, "1.0.0"), () => []],
	packagesOfChannel: [
		(of) => packagesOfChannel(of.publicAppId, { name: "production" }),
		(of) => [{ id: of.stable }, { id: of.next }],
	],
	"packagesOfChannel by its id": [
		(of) => packagesOfChannel(of.publicAppId, { id: of.channel }),
		(of) => [{ id: of.stable }, { id: of.next }],
	],
	"packagesOfChannel by the id of another tenant's channel": [
		(of) => packagesOfChannel(of.publicAppId, { id: otherThan(of).channel }),
		() => [],
	],
	bundlesWithSamePackages: [
		(of) => bundlesWithSamePackages(of.publicAppId, "1.0.0"),
		() => [{ name: "1.2.0" }, { name: "1.1.0" }, { name: "1.0.0" }],
	],
	liveAppWithId: [(of) => liveAppWithId(of.app), () => [{ live: 1 }]],
	"liveAppWithId of a deleted organization": [(of) => liveAppWithId(of.deletedApp), () => []],
	"objectIsNamed of a bundle": [(of) => objectIsNamed(of.app, `${of.app}/${of.stable}`), () => [{ named: 1 }]],
	"objectIsNamed of another tenant's bundle": [
		(of) => objectIsNamed(of.app, `${otherThan(of).app}/${otherThan(of).stable}`),
		() => [],
	],
	"objectIsNamed of a file": [(of) => objectIsNamed(of.app, `${of.app}/delta/shared`), () => [{ named: 1 }]],
	"objectIsNamed of another tenant's file": [
		(of) => objectIsNamed(of.app, `${otherThan(of).app}/delta/shared`),
		() => [],
	],
	"objectIsNamed of a deleted organization": [
		(of) => objectIsNamed(of.deletedApp, `${of.deletedApp}/delta/shared`),
		() => [],
	],
};

const production = (of: TenantRows): Row => ({
	id: of.channel,
	version_name: "1.0.0",
	version_id: of.stable,
	rollout_version_name: "1.1.0",
	rollout_version_id: of.next,
});
const beta = (of: TenantRows): Row => ({ id: of.beta, version_name: null, rollout_version_name: null });
const paths = (...wanted: string[]) => JSON.stringify(wanted.map((path) => ({ s3_path: path })));

const rulesOf = (of: TenantRows) => JSON.stringify({ required: 1, keys: [`${KEY_ID}-${of.name}`] });

const CHANNELS: Readonly<Record<string, Read>> = {
	channelByName: [(of) => channelByName(of.publicAppId, "production"), (of) => [production(of)]],
	channelContents: [
		(of) => channelContents(of.app, of.beta, [of.stable]),
		// Both devices: one has the channel, the other one the bundle.
		() => [{ api_key_bindings: 1, device_overrides: 2, rollouts: 1 }],
	],
	"channelContents with another tenant's bundle": [
		(of) => channelContents(of.app, of.channel, [otherThan(of).stable, of.unused]),
		// With a rollout that the channel does not name.
		() => [{ api_key_bindings: 0, device_overrides: 0, rollouts: 3 }],
	],
	"channelContents of another tenant's channel": [
		(of) => channelContents(of.app, otherThan(of).beta, []),
		() => [{ api_key_bindings: 0, device_overrides: 0, rollouts: 0 }],
	],
	channelsPage: [(of) => channelsPage({ publicAppId: of.publicAppId, ...ALL }), (of) => [production(of), beta(of)]],
	writtenChannel: [(of) => writtenChannel(of.app, of.channel), (of) => [{ id: of.channel, public: 1 }]],
	"writtenChannel by name": [(of) => writtenChannel(of.app, { name: "beta" }), (of) => [{ id: of.beta, public: 0 }]],
	"writtenChannel of another app": [(of) => writtenChannel(of.app, otherThan(of).channel), () => []],
	cliChannels: [
		(of) => cliChannels(of.publicAppId, {}),
		(of) => [
			{ ...production(of), owner_org: of.org },
			{ ...beta(of), owner_org: of.org },
		],
	],
	"cliChannels by name": [(of) => cliChannels(of.publicAppId, { name: "beta" }), (of) => [beta(of)]],
	"cliChannels except one name": [(of) => cliChannels(of.publicAppId, { nameIsNot: "beta" }), (of) => [production(of)]],
	"cliChannels by their live bundle": [
		(of) => cliChannels(of.publicAppId, { usesBundle: of.stable }),
		(of) => [production(of)],
	],
	"cliChannels by their rollout's bundle": [
		(of) => cliChannels(of.publicAppId, { usesBundle: of.next }),
		(of) => [production(of)],
	],
	"missingDeltaPaths by the key's own secret": [
		(of) => missingDeltaPaths(of.publicAppId, paths("shared", "own", "only-a", "only-b"), of.keyHash),
		(of) => [{ path: `only-${otherThan(of).name}` }],
	],
	"missingDeltaPaths by the key's previous secret": [
		(of) => missingDeltaPaths(of.publicAppId, paths("own"), of.previousKeyHash),
		() => [],
	],
	"missingDeltaPaths by another tenant's key": [
		(of) => missingDeltaPaths(of.publicAppId, paths("shared", "own"), otherThan(of).keyHash),
		() => [{ path: "own" }],
	],
	deltaObject: [(of) => deltaObject(of.publicAppId, "shared", of.keyHash), (of) => [{ size_bytes: of.stable }]],
	"deltaObject of the key": [
		(of) => deltaObject(of.publicAppId, "own", of.keyHash),
		(of) => [{ size_bytes: of.unused }],
	],
	"deltaObject with another tenant's key": [
		(of) => deltaObject(of.publicAppId, "own", otherThan(of).keyHash),
		() => [],
	],
	manifestSizes: [(of) => manifestSizes(of.app, "1.0.0"), (of) => [{ file_name: "a.js", size_bytes: of.stable }]],
};

beforeAll(insertTenants);

describe.each([
	["bundles", BUNDLES],
	["channels", CHANNELS],
])("reads of %s", (_, reads) => {
	test.each(Object.entries(reads))("%s returns only the tenant's rows", (_, read) => expectReads(read));
});
