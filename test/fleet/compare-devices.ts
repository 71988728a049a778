/** GET /device against the truth: every device of every app, each of its fields, and every filter. */
import type { AppWorld } from "./app-world";
import { exactly, type Gathered, gather, type Line } from "./comparison";
import { jsonOf } from "./http";
import type { SimulatedProduct } from "./product";
import { DAY_MS, type KnownDevice } from "./truth";

/** Larger lists are compared once, without filters: each filter goes through the list again. */
const MOST_FOR_FILTERS = 10_000;
/** So many apart, a single device is asked for by its id. */
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
	const gathered: Gathered = new Map();
	for (const app of apps) await compareApp(product, app, gathered);
	return [...gathered].map(([metric, pairs]) => exactly(metric, pairs));
}

async function compareApp(product: SimulatedProduct, app: AppWorld, gathered: Gathered): Promise<void> {
	const { truth, appId } = app;
	const expected = truth.devices.filter(({ deviceId, lastSeenDay }) => lastSeenDay >= 0 || truth.named.has(deviceId));
	const listed = await listAll(product, appId, {});
	const byId = new Map(listed.map((device) => [device.device_id, device]));
	gather(gathered, "devices listed", { of: appId, truth: expected.length, answer: byId.size });
	for (const known of expected) {
		if (known.lastSeenDay < 0) continue;
		const answered = byId.get(known.deviceId);
		const shown = answered === undefined ? undefined : fieldsOf(answered);
		for (const [field, value] of Object.entries(expectedFields(app, known))) {
			const right = shown?.[field] === value;
			const of = right ? "" : `${known.platform} ${known.deviceId} of ${appId} is ${value}, not ${shown?.[field]}`;
			gather(gathered, `devices with the right ${field}`, { of, truth: 1, answer: right ? 1 : 0 });
		}
	}
	await compareSingle(product, appId, listed, gathered);
	if (expected.length <= MOST_FOR_FILTERS) await compareFilters(product, app, expected, gathered);
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
		"day of last_seen_at": known.lastSeenDay,
	};
}

function fieldsOf(answer: DeviceAnswer): Fields {
	const { last_seen_at } = answer;
	const lastSeenDay = last_seen_at === null ? null : Math.floor(Date.parse(last_seen_at) / DAY_MS);
	return { ...answer, "day of last_seen_at": lastSeenDay };
}

async function compareSingle(
	product: SimulatedProduct,
	appId: string,
	listed: readonly DeviceAnswer[],
	gathered: Gathered,
): Promise<void> {
	for (let index = 0; index < listed.length; index += SAMPLE_STEP) {
		const device = listed[index];
		if (device === undefined) break;
		const single = await product.api("GET", `/device?app_id=${appId}&device_id=${device.device_id}`);
		const same = JSON.stringify(single) === JSON.stringify(device);
		gather(gathered, "devices asked for by id, as listed", { of: device.device_id, truth: 1, answer: same ? 1 : 0 });
	}
}

async function compareFilters(
	product: SimulatedProduct,
	{ truth, appId }: AppWorld,
	expected: readonly KnownDevice[],
	gathered: Gathered,
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
			// Who only ever reported runs nobody knows what.
			if (value !== null && value !== "") counts.set(value, (counts.get(value) ?? 0) + 1);
		}
		for (const [value, count] of counts) {
			const { length } = await listAll(product, appId, { [filter]: value });
			gather(gathered, `devices by ${filter}`, { of: `${appId} ${value}`, truth: count, answer: length });
		}
	}
	for (const day of new Set(seen.map(({ lastSeenDay }) => lastSeenDay))) {
		const range = { seen_from: isoOf(day * DAY_MS), seen_to: isoOf((day + 1) * DAY_MS - 1) };
		gather(gathered, "devices by day of last_seen_at", {
			of: `${appId} ${isoOf(day * DAY_MS).slice(0, 10)}`,
			truth: seen.filter(({ lastSeenDay }) => lastSeenDay === day).length,
			answer: (await listAll(product, appId, range)).length,
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
