/**
 * Statements about devices: those that read reports in the telemetry database, and those by which
 * the main database adds what it knows. Each answers with the rows of its app alone, also beside
 * rows that no request can create.
 */
import { type CompiledQuery, sql } from "kysely";
import { beforeAll, describe, test } from "vitest";
import type { AppId } from "../../../src/authz/decide";
import { devicesByChannel } from "../../../src/db/channel-devices";
import { devicesNaming } from "../../../src/db/channel-names";
import { query } from "../../../src/db/client";
import { decidedChannels } from "../../../src/db/decided-channels";
import { overrideOf } from "../../../src/db/device-overrides";
import {
	type ChannelPlaces,
	channelPlaces,
	type DeviceFilter,
	deviceById,
	devicesPage,
	joinedColumns,
	type ReportedRow,
} from "../../../src/db/devices";
import { fleetPage } from "../../../src/db/fleet";
import { storeBuildsRunning } from "../../../src/db/native-packages";
import { nextReportRemoval } from "../../../src/db/report-removals";
import { devicesByKey, signingKeyNames } from "../../../src/db/signing-keys";
import { devicesByStoreVersion, storeBuildsOf } from "../../../src/db/store-versions";
import { lastSeenRunning, reportedVersions, versionsSeenSince } from "../../../src/db/telemetry-reads";
import { uploadersOf } from "../../../src/db/uploaders";
import { insertTenants } from "../support/tenant-rows";
import { expectReads, type Read, type Row } from "../support/tenant-statements";
import { A, B, CROSSED, KEY_ID, otherThan, type TenantRows } from "../support/tenants";
import { NOW_MS } from "../support/world";

const ALL = { limit: 100, offset: 0 } as const;
const ANY_DEVICE: DeviceFilter = {
	channel: undefined,
	version: undefined,
	platform: undefined,
	customId: undefined,
	keyId: undefined,
	seenFromMs: undefined,
	seenToMs: undefined,
	search: undefined,
	searchesCustomIds: true,
};
const list = (filter: Partial<DeviceFilter>, placesOf?: (of: TenantRows) => ChannelPlaces) => (of: TenantRows) =>
	devicesPage(of.app, { ...ANY_DEVICE, ...filter }, placesOf?.(of), ALL.limit, ALL.offset);
const overridden = ["device-1"];
/** The channels that reports name. */
const places = {
	production: (of: TenantRows) => ({ channelId: of.channel, set: [], overridden }),
	beta: (of: TenantRows) => ({ channelId: of.beta, set: ["device-1"], overridden }),
	ofOther: (of: TenantRows) => ({ channelId: otherThan(of).channel, set: [], overridden: [] }),
};

/** The part of an app that decides devices, among them one that names a channel of the other tenant. */
const decided = (of: TenantRows, appId: AppId) =>
	decidedChannels(
		{ appId, publicAppId: of.publicAppId },
		["beta"],
		[
			{ device_id: "absent", default_channel: `channel-of-${otherThan(of).name}`, version_name: "2.0.0" },
			{ device_id: "device-1", default_channel: null, version_name: "1.0.0" },
			{ device_id: "device-2", default_channel: null, version_name: `9.0.${of.name}` },
		],
		[otherThan(of).stable],
	);

const device = (of: TenantRows, id: 1 | 2): Row => ({
	app_id: of.app,
	device_id: `device-${id}`,
	channel_id: of.channel,
	version_name: id === 1 ? "1.0.0" : `9.0.${of.name}`,
});
const both = (of: TenantRows) => [device(of, 1), device(of, 2)];
const first = (of: TenantRows) => [device(of, 1)];
const second = (of: TenantRows) => [device(of, 2)];
const devices = (of: TenantRows) => both(of) as unknown as ReportedRow[];
const versions = (of: TenantRows) => ["1.0.0", `9.0.${of.name}`, `9.0.${otherThan(of).name}`];
const own = (of: TenantRows) => [{ name: "1.0.0" }, { name: `9.0.${of.name}` }];
/** The columns of a fleet. */
const withoutChannel = ({ device_id, version_name }: Row): Row => ({ device_id, version_name });
const counted = (of: TenantRows, name: string): CompiledQuery =>
	sql`SELECT ${devicesNaming(sql`${of.app}`, sql`${name}`)} AS devices`.compile(query);

const REPORTS: Readonly<Record<string, Read>> = {
	deviceById: [
		(of) => deviceById(of.app, "device-1"),
		(of) => [{ ...device(of, 1), custom_id: "somebody", custom_id_devices: 1 }],
	],
	"deviceById of a device that the app does not have": [
		(of) => deviceById(of.app, `device-of-${otherThan(of).name}`),
		() => [],
	],
	devicesPage: [list({}), both],
	"devicesPage of a version": [list({ version: "1.0.0" }), first],
	"devicesPage of another tenant's version": [(of) => list({ version: `9.0.${otherThan(of).name}` })(of), () => []],
	"devicesPage of a custom id": [list({ customId: "somebody" }), first],
	"devicesPage of a custom id with another version": [list({ customId: "somebody", version: "9" }), () => []],
	"devicesPage of a custom id on a channel": [list({ customId: "somebody", channel: "beta" }, places.beta), first],
	"devicesPage of a custom id on another channel": [
		list({ customId: "somebody", channel: "production" }, places.production),
		() => [],
	],
	"devicesPage of a key": [list({ keyId: KEY_ID }), first],
	"devicesPage of a channel": [list({ channel: "production" }, places.production), second],
	"devicesPage of a channel that an override sets": [list({ channel: "beta" }, places.beta), first],
	"devicesPage of a channel and a version": [list({ channel: "beta", version: "1.0.0" }, places.beta), first],
	"devicesPage of a channel and another version": [list({ channel: "beta", version: "9" }, places.beta), () => []],
	"devicesPage of another tenant's channel": [list({ channel: "beta" }, places.ofOther), () => []],
	fleetPage: [(of) => fleetPage(of.app, "", ALL.limit), (of) => both(of).map(withoutChannel)],
	"fleetPage after a device": [
		(of) => fleetPage(of.app, "device-1", ALL.limit),
		(of) => second(of).map(withoutChannel),
	],
	reportedVersions: [
		(of) => reportedVersions(of.app, versions(of)),
		(of) => own(of).map((row) => ({ ...row, devices: 1 })),
	],
	lastSeenRunning: [
		(of) => lastSeenRunning(of.app, versions(of), 10),
		(of) => own(of).map((row) => ({ ...row, last_seen_at_ms: of.seenAtMs })),
	],
	versionsSeenSince: [(of) => versionsSeenSince(of.app, versions(of), A.seenAtMs), (of) => (of === B ? own(of) : [])],
	devicesByKey: [(of) => devicesByKey(of.app), () => [{ key_id: KEY_ID, devices: 1 }]],
	"devicesByKey of an app without devices of keys": [() => devicesByKey(CROSSED.app), () => []],
	devicesByChannel: [
		(of) => devicesByChannel(of.app, [of.channel, of.beta]),
		(of) => [
			{ channel_id: of.channel, devices: 2 },
			{ channel_id: of.beta, devices: 0 },
		],
	],
	"devicesByChannel of another app's channel": [
		(of) => devicesByChannel("none" as AppId, [of.channel]),
		(of) => [{ channel_id: of.channel, devices: 0 }],
	],
	storeBuildsRunning: [
		(of) => storeBuildsRunning(of.app, ["1.0.0", "1.1.0"]),
		(of) => [{ version_build: `build-1-${of.name}` }],
	],
	storeBuildsOf: [
		(of) => storeBuildsOf(of.app),
		({ name, seenAtMs }) => [
			{
				store_builds: JSON.stringify([
					[`build-1-${name}`, seenAtMs],
					[`build-2-${name}`, seenAtMs],
				]),
				is_full: 0,
			},
		],
	],
	devicesByStoreVersion: [
		(of) => devicesByStoreVersion(of.app),
		({ name }) => [1, 2].map((id) => ({ version_build: `build-${id}-${name}`, devices: 1 })),
	],
	devicesNaming: [(of) => counted(of, `channel-of-${of.name}`), () => [{ devices: 2 }]],
	"devicesNaming another tenant's channel": [
		(of) => counted(of, `channel-of-${otherThan(of).name}`),
		() => [{ devices: 0 }],
	],
};

const FACTS: Readonly<Record<string, Read>> = {
	signingKeyNames: [(of) => signingKeyNames(of.org), () => [{ key_id: KEY_ID, name: "Same" }]],
	"uploadersOf, the keys": [
		(of) => uploadersOf([{ created_by: of.user, created_by_key: of.key }])[0],
		(of) => [{ id: of.key }],
	],
	"uploadersOf, the people": [
		(of) => uploadersOf([{ created_by: of.user, created_by_key: null }])[1],
		(of) => [{ id: of.user, name: of.email }],
	],
	channelPlaces: [(of) => channelPlaces(of.app, "beta"), (of) => [{ channel_id: of.beta, places: '[["device-1",1]]' }]],
	"channelPlaces of a channel without overrides": [
		(of) => channelPlaces(of.app, "production"),
		(of) => [{ channel_id: of.channel, places: '[["device-1",0]]' }],
	],
	"channelPlaces with another app's channel in the override": [
		() => channelPlaces(CROSSED.app, "beta"),
		() => [{ channel_id: CROSSED.channel, places: '[["device-1",0]]' }],
	],
	joinedColumns: [
		(of) => joinedColumns(of.app, devices(of)),
		(of) => [
			{ channel: "beta", override_version: "1.1.0", override_channel_id: of.beta, override_version_id: of.next },
			{ channel: "production", override_version: "1.0.0", override_channel_id: null, override_version_id: of.stable },
		],
	],
	"joinedColumns of a device on another app's channel": [
		(of) => joinedColumns(CROSSED.app, devices(of).slice(0, 1)),
		() => [{ channel: null }],
	],
	overrideOf: [
		(of) => overrideOf(of.publicAppId, "device-1"),
		(of) => [{ device_id: "device-1", channel_id: of.beta, channel: "beta", version_id: of.next, version: "1.1.0" }],
	],
	"overrideOf a device without an override": [(of) => overrideOf(of.publicAppId, "device-3"), () => []],
	"decidedChannels, the channels": [
		(of) => decided(of, of.app)[1],
		// Beta is changed, and a device is set to it.
		(of) => [{ id: of.channel }, { id: of.beta }, { id: of.beta }],
	],
	"decidedChannels, the bundles": [(of) => decided(of, of.app)[2], (of) => [{ id: of.stable }, { id: of.next }]],
	"decidedChannels, the overrides": [
		(of) => decided(of, of.app)[3],
		(of) => [
			{ device_id: "device-1", channel_id: of.beta, version_id: of.next },
			{ device_id: "device-2", channel_id: null, version_id: of.stable },
		],
	],
	"decidedChannels, the ready versions": [(of) => decided(of, of.app)[4], () => [{ name: "1.0.0" }]],
	"decidedChannels, the ready versions of other apps": [(of) => decided(of, CROSSED.app)[4], () => []],
	nextReportRemoval: [() => nextReportRemoval(NOW_MS - 1, []), () => [{ app_id: A.removedApp }]],
};

beforeAll(insertTenants);

describe.each([
	["reports", REPORTS],
	["facts of the main database", FACTS],
])("reads of %s", (_, reads) => {
	test.each(Object.entries(reads))("%s returns only the tenant's rows", (_, read) => expectReads(read));
});
