/** Compares GET /device with the truth: every device of every app, each field, and every filter. */
import { DAY_MS } from "../../../src/domain/time";
import type { AppWorld } from "./app-world";
import { addPair, exactly, type Line, type Pairs } from "./comparison";
import { jsonOf } from "./http";
import type { SimulatedProduct } from "./product";
import type { KnownDevice } from "./truth";

/** Larger lists are compared without filters, because each filter reads the whole list. */
const MOST_FOR_FILTERS = 10_000;
/** Interval of the devices that are also requested by id. */
const SAMPLE_STEP = 97;

interface DeviceAnswer {
	readonly device_id: string;
	readonly platform: string;
	readonly version_name: string;
	readonly version_build: string;
	readonly os_version: string;
	readonly plugin_version: string;
	readonly is_prod: boolean;
	readonly is_emulator: boolean;
	readonly custom_id: string | null;
	readonly channel: string | null;
	readonly override_channel: string | null;
	readonly override_version: string | null;
	readonly last_seen_at: string | null;
}

type Fields = Readonly<Record<string, unknown>>;

export async function compareDevices(product: SimulatedProduct, apps: readonly AppWorld[]): Promise<Line[]> {
	const pairs: Pairs = new Map();
	for (const app of apps) await compareApp(product, app, pairs);
	return [...pairs].map(([metric, pairs]) => exactly(metric, pairs));
}

async function compareApp(product: SimulatedProduct, app: AppWorld, pairs: Pairs): Promise<void> {
	const { truth, appId } = app;
	const expected = truth.devices.filter(({ deviceId, lastSeenDay }) => lastSeenDay >= 0 || truth.named.has(deviceId));
	const listed = await listAll(product, appId, {});
	const byId = new Map(listed.map((device) => [device.device_id, device]));
	addPair(pairs, "devices listed", { of: appId, truth: expected.length, answer: byId.size });
	for (const known of expected) {
		if (known.lastSeenDay < 0) continue;
		const answered = byId.get(known.deviceId);
		const shown = answered === undefined ? undefined : fieldsOf(answered, known.lastSeenDay);
		for (const [field, value] of Object.entries(expectedFields(app, known))) {
			const right = shown?.[field] === value;
			const of = right ? "" : `${known.platform} ${known.deviceId} of ${appId} is ${value}, not ${shown?.[field]}`;
			addPair(pairs, `devices with the right ${field}`, { of, truth: 1, answer: right ? 1 : 0 });
		}
	}
	await compareSingle(product, appId, listed, pairs);
	if (expected.length <= MOST_FOR_FILTERS) await compareFilters(product, app, expected, pairs);
}

function expectedFields(app: AppWorld, known: KnownDevice): Fields {
	return {
		platform: known.platform,
		version_name: known.versionName === "" ? null : known.versionName,
		version_build: known.versionBuild,
		os_version: known.osVersion,
		plugin_version: known.pluginVersion,
		is_prod: known.isProd,
		is_emulator: known.isEmulator,
		custom_id: known.customId === "" ? null : known.customId,
		channel: app.truth.channelOf(known),
		override_channel: app.truth.overrideChannelOf(known),
		override_version: app.truth.overrides.get(known.deviceId)?.version ?? null,
		"day of last_seen_at": "within a week before",
	};
}

/** A device that changes nothing has its row written once a week. */
const REFRESHED_AFTER_DAYS = 7;

function fieldsOf(answer: DeviceAnswer, lastSeenDay: number): Fields {
	const { last_seen_at } = answer;
	const day = last_seen_at === null ? Number.NaN : Math.floor(Date.parse(last_seen_at) / DAY_MS);
	const isRight = day <= lastSeenDay && day > lastSeenDay - REFRESHED_AFTER_DAYS;
	return { ...answer, "day of last_seen_at": isRight ? "within a week before" : last_seen_at };
}

async function compareSingle(
	product: SimulatedProduct,
	appId: string,
	listed: readonly DeviceAnswer[],
	pairs: Pairs,
): Promise<void> {
	for (let index = 0; index < listed.length; index += SAMPLE_STEP) {
		const device = listed[index];
		if (device === undefined) break;
		const single = await product.api("GET", `/device?app_id=${appId}&device_id=${device.device_id}`);
		const same = JSON.stringify(single) === JSON.stringify(device);
		addPair(pairs, "devices asked for by id, as listed", { of: device.device_id, truth: 1, answer: same ? 1 : 0 });
	}
}

async function compareFilters(
	product: SimulatedProduct,
	{ truth, appId }: AppWorld,
	expected: readonly KnownDevice[],
	pairs: Pairs,
): Promise<void> {
	const seen = expected.filter(({ lastSeenDay }) => lastSeenDay >= 0);
	const values: Readonly<Record<string, (device: KnownDevice) => string | null>> = {
		platform: ({ platform }) => platform,
		version: ({ versionName }) => versionName,
		channel: (device) => truth.channelOf(device),
	};
	for (const [filter, read] of Object.entries(values)) {
		const counts = new Map<string, number>();
		for (const device of filter === "channel" ? expected : seen) {
			const value = read(device);
			// The version of a device that only reported is unknown.
			if (value !== null && value !== "") counts.set(value, (counts.get(value) ?? 0) + 1);
		}
		for (const [value, count] of counts) {
			const { length } = await listAll(product, appId, { [filter]: value });
			addPair(pairs, `devices by ${filter}`, { of: `${appId} ${value}`, truth: count, answer: length });
		}
	}
	// Every device is listed for the week before its last report.
	for (const day of new Set(seen.map(({ lastSeenDay }) => lastSeenDay))) {
		const from = day - REFRESHED_AFTER_DAYS + 1;
		const range = { seen_from: isoOf(from * DAY_MS), seen_to: isoOf((day + 1) * DAY_MS - 1) };
		const listed = new Set((await listAll(product, appId, range)).map(({ device_id }) => device_id));
		addPair(pairs, "devices by day of last_seen_at", {
			of: `${appId} ${isoOf(day * DAY_MS).slice(0, 10)}`,
			truth: 0,
			answer: seen.filter(({ lastSeenDay, deviceId }) => lastSeenDay === day && !listed.has(deviceId)).length,
		});
	}
}

async function listAll(
	product: SimulatedProduct,
	appId: string,
	filter: Readonly<Record<string, string>>,
): Promise<DeviceAnswer[]> {
	const devices: DeviceAnswer[] = [];
	for (let page = 0; ; page += 1) {
		const query = new URLSearchParams({ app_id: appId, page: String(page), ...filter });
		const reply = await product.send("GET", `/device?${query}`, {});
		devices.push(...jsonOf<DeviceAnswer[]>(reply));
		if (reply.headers.link === undefined) return devices;
	}
}

function isoOf(ms: number): string {
	return new Date(ms).toISOString();
}
