/**
 * The statements that read reports in a telemetry database, and those that add what the main database knows, answer with the rows of their app
 * alone. The tables are the same in both databases, so they run in the main one here.
 */
import { beforeAll, describe, test } from "vitest";
import { countDevicesNaming } from "../../../src/db/channel-names";
import { storeBuildsOf } from "../../../src/db/channels";
import { type DeviceFilter, deviceFacts, reportedPage } from "../../../src/db/devices";
import {
	type ChannelPlaces,
	channelPlaces,
	joinedColumns,
	type ReportedRow,
	reportedDevice,
	reportedDevices,
} from "../../../src/db/reported-devices";
import { devicesByKeyThere, signingKeyNames } from "../../../src/db/signing-keys";
import { lastSeenRunning, reportedVersions, versionsSeenSince } from "../../../src/db/telemetry-reads";
import { insertTenants } from "../support/tenant-rows";
import { expectReads, type Read } from "../support/tenant-statements";
import { CROSSED, KEY_ID, otherThan, type TenantRows } from "../support/tenants";
import { NOW_MS } from "../support/world";

const ALL = { limit: 100, offset: 0 } as const;
const ANY_DEVICE: DeviceFilter = {
	...{ channel: undefined, version: undefined, platform: undefined, customId: undefined, keyId: undefined },
	...{ seenFromMs: undefined, seenToMs: undefined, search: undefined },
};
const list = (filter: Partial<DeviceFilter>, placesOf?: (of: TenantRows) => ChannelPlaces) => (of: TenantRows) =>
	reportedDevices(of.app, { ...ANY_DEVICE, ...filter }, placesOf?.(of), ALL.limit, ALL.offset);
const both = [{ device_id: "device-1" }, { device_id: "device-2" }];
const devices = (of: TenantRows) =>
	["device-1", "device-2"].map((device_id) => ({ device_id, channel_id: of.channel })) as unknown as ReportedRow[];
const versions = (of: TenantRows) => ["1.0.0", `9.0.${of.name}`, `9.0.${otherThan(of).name}`];
const own = (of: TenantRows) => [{ name: "1.0.0" }, { name: `9.0.${of.name}` }];

const REPORTS: Readonly<Record<string, Read>> = {
	reportedDevice: [(of) => reportedDevice(of.app, "device-1"), () => [{ device_id: "device-1", custom_id_devices: 1 }]],
	reportedDevices: [list({}), () => both],
	"reportedDevices of a version": [list({ version: "1.0.0" }), () => both.slice(0, 1)],
	"reportedDevices of a custom id": [list({ customId: "somebody" }), () => both.slice(0, 1)],
	"reportedDevices of a key": [list({ keyId: KEY_ID }), () => both.slice(0, 1)],
	"reportedDevices of a channel": [
		list({ channel: "production" }, (of) => ({ channelId: of.channel, set: [], overridden: ["device-1"] })),
		() => both.slice(1),
	],
	"reportedDevices of a channel that an override sets": [
		list({ channel: "beta" }, (of) => ({ channelId: of.beta, set: ["device-1"], overridden: ["device-1"] })),
		() => both.slice(0, 1),
	],
	"reportedDevices of another tenant's channel": [
		list({ channel: "beta" }, (of) => ({ channelId: otherThan(of).channel, set: [], overridden: [] })),
		() => [],
	],
	reportedPage: [(of) => reportedPage(of.app, "", ALL.limit), () => both],
	"reportedPage after a device": [(of) => reportedPage(of.app, "device-1", ALL.limit), () => both.slice(1)],
	reportedVersions: [
		(of) => reportedVersions(of.app, versions(of)),
		(of) => own(of).map((row) => ({ ...row, devices: 1 })),
	],
	lastSeenRunning: [(of) => lastSeenRunning(of.app, versions(of), 10), own],
	versionsSeenSince: [(of) => versionsSeenSince(of.app, versions(of), NOW_MS), () => []],
	devicesByKeyThere: [(of) => devicesByKeyThere(of.app), () => [{ key_id: KEY_ID, devices: 1 }]],
	"devicesByKeyThere of an app without devices": [() => devicesByKeyThere(CROSSED.app), () => []],
	storeBuildsOf: [(of) => storeBuildsOf(of.app), () => [{ store_builds: "[]", is_full: 0 }]],
	countDevicesNaming: [(of) => countDevicesNaming(of.app, "beta"), () => [{ devices: 0 }]],
};

const FACTS: Readonly<Record<string, Read>> = {
	signingKeyNames: [(of) => signingKeyNames(of.org), () => [{ key_id: KEY_ID, name: "Same" }]],
	channelPlaces: [(of) => channelPlaces(of.app, "beta"), (of) => [{ channel_id: of.beta, places: '[["device-1",1]]' }]],
	joinedColumns: [
		(of) => joinedColumns(of.app, devices(of)),
		(of) => [
			{ channel: "beta", override_channel_id: of.beta, override_version_id: of.next },
			{ channel: "production", override_channel_id: null, override_version_id: of.stable },
		],
	],
	"joinedColumns of a device on another app's channel": [
		(of) => joinedColumns(CROSSED.app, devices(of).slice(0, 1)),
		() => [{ channel: null }],
	],
	deviceFacts: [
		(of) =>
			deviceFacts(of.app, [
				{ device_id: "device-1", version_name: "1.0.0" },
				{ device_id: "absent", version_name: "9.9.9" },
			]),
		(of) => [
			{ position: 0, override_channel_id: of.beta, override_version_id: of.next, runs_ready_bundle: 1 },
			{ position: 1, override_channel_id: null, override_version_id: null, runs_ready_bundle: 0 },
		],
	],
};

beforeAll(insertTenants);

describe.each([
	["reports", REPORTS],
	["facts of the main database", FACTS],
])("reads of %s", (_, reads) => {
	test.each(Object.entries(reads))("%s returns only the tenant's rows", (_, read) => expectReads(read));
});
