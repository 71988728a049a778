/**
 * Random histories of devices for the tests of their rows: the reports of devices, the messages in
 * which an isolate sends them, deliveries in any order, repetition and batching, and by the
 * simplest means the rows that all of it implies.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { DAY_MS, MINUTE_MS } from "../../../src/domain/time";
import type { DeviceEvents, DeviceSeen } from "../../../src/messages";
import { createEventBuffer } from "../../../src/queue/event-buffer";
import { NOW_MS } from "../support/world";

const DEVICES = 2;
export const BUNDLES = ["1.0.1", "1.0.2"];
export const FACTS = {
	platform: "platform",
	version_name: "versionName",
	version_build: "versionBuild",
	os_version: "osVersion",
	plugin_version: "pluginVersion",
	custom_id: "customId",
	install_source: "installSource",
	key_id: "keyId",
	channel_id: "channelId",
} as const;

export type Said = Omit<DeviceSeen, "type" | "appId" | "deviceId" | "atMs">;
interface Act {
	readonly device: number;
	/** Since the act before. */
	readonly afterMs: number;
	/** More than one when the device reports a list. */
	readonly said: readonly Said[];
}

export const PLAIN: Said = {
	platform: "android",
	versionName: "1.0.1",
	versionBuild: "1.0.0",
	osVersion: "15",
	pluginVersion: "8.51.23",
	isProd: true,
	isEmulator: false,
	customId: "",
	installSource: "",
	keyId: "",
	defaultChannel: "",
	channelId: 1,
};
const common = {
	platform: fc.constantFrom("android", "ios"),
	osVersion: fc.constantFrom("", "17", "18"),
	pluginVersion: fc.constantFrom("8.0.0", "8.1.0"),
	isProd: fc.boolean(),
	isEmulator: fc.constant(false),
	customId: fc.constantFrom("", "one", "two"),
	installSource: fc.constantFrom("", "store"),
	keyId: fc.constant(""),
	defaultChannel: fc.constantFrom("", "beta"),
};
export const version = fc.constantFrom(...BUNDLES, "builtin", "1.0.0", "9.9.9");
const anyCheck: fc.Arbitrary<Said> = fc.record({
	...common,
	versionName: version,
	versionBuild: fc.constantFrom("1.0.0", "2.0.0"),
	channelId: fc.constantFrom(null, 1, 2, 3),
});
/** Most are as they were, or go to something and back. */
const usualCheck: fc.Arbitrary<Said> = fc
	.record({ versionName: fc.constantFrom("1.0.1", "1.0.2"), channelId: fc.constantFrom(1, 2) })
	.map((fields) => ({ ...PLAIN, ...fields }));
const check = fc.oneof({ weight: 4, arbitrary: usualCheck }, { weight: 1, arbitrary: anyCheck });
const anyReport: fc.Arbitrary<Said> = fc
	.record({
		...common,
		platform: fc.constantFrom("", "android"),
		pluginVersion: fc.constantFrom("", "8.1.0"),
		versionName: fc.oneof(fc.constant(""), version),
		versionBuild: fc.constantFrom("", "1.0.0"),
		channelId: fc.constant(null),
		moved: fc.boolean(),
	})
	.map(({ moved, ...said }) => ({ ...said, ...(moved && said.versionName !== "" ? { moved } : {}) }));
const usualReport: fc.Arbitrary<Said> = fc
	.constantFrom("", "1.0.1", "1.0.2")
	.map((versionName) => ({ ...PLAIN, channelId: null, versionName, ...(versionName === "" ? {} : { moved: true }) }));
export const report = fc.oneof({ weight: 3, arbitrary: usualReport }, { weight: 1, arbitrary: anyReport });
export const history: fc.Arbitrary<Act[]> = fc.array(
	fc.record({
		device: fc.nat(DEVICES - 1),
		afterMs: fc.oneof(
			fc.constantFrom(0, 0, 1),
			fc.integer({ min: 1, max: 90 }).map((minutes) => minutes * MINUTE_MS),
			fc.integer({ min: 1, max: 90 }).map((minutes) => minutes * MINUTE_MS),
			fc.integer({ min: 1, max: 30 }).map((hours) => hours * 60 * MINUTE_MS),
		),
		said: fc.oneof(
			{ weight: 2, arbitrary: check.map((said) => [said]) },
			{ weight: 1, arbitrary: fc.array(report, { minLength: 1, maxLength: 3 }) },
		),
	}),
	{ minLength: 3, maxLength: 18 },
);
/** Decides what becomes of the messages: one number for each. */
export const fate = fc.array(fc.nat(9_999), { minLength: 25, maxLength: 25 });

export interface Report extends Said {
	readonly device: string;
	readonly atMs: number;
}

export function reportsIn(acts: readonly Act[]): Report[][] {
	let atMs = NOW_MS;
	return acts.map(({ device, afterMs, said }) => {
		// All of it within what the consumer remembers.
		atMs = Math.min(atMs + afterMs, NOW_MS + 5 * DAY_MS);
		return said.map((item) => ({ ...item, device: `device-${device}`, atMs }));
	});
}

/**
 * Whether each version counts the same with the store build that its device has reported by then.
 * Otherwise the count depends on the batches: a stored row has the later build, and a version that
 * equals it counts as the store build.
 */
export function hasClearVersions(reports: readonly Report[]): boolean {
	const last = new Map<string, Report>();
	return reports.every((report) => {
		const known = last.get(report.device);
		const named = report.versionName === "" ? (known ?? report) : report;
		const versionBuild = report.versionBuild || known?.versionBuild || "";
		const now = { ...report, versionName: named.versionName, versionBuild };
		last.set(report.device, now);
		return named.versionName === "" || countedAs(now) === countedAs(named);
	});
}

/** The messages that an isolate sends to the Queue. */
export async function messagesOf(acts: readonly Report[][]): Promise<DeviceEvents[]> {
	const sent: DeviceEvents[] = [];
	let nowMs = 0;
	const buffer = createEventBuffer({
		events: { send: async (message: unknown) => void sent.push(message as DeviceEvents) } as never,
		log: () => undefined,
		config: { localRun: undefined },
		now: () => nowMs,
		delay: async () => undefined,
		newId: () => String(sent.length),
	});
	for (const act of acts) {
		const work: Promise<unknown>[] = [];
		const events = act.map(({ device, ...said }) => ({
			...said,
			type: "seen" as const,
			appId: "",
			deviceId: device,
		}));
		nowMs = act[0]?.atMs ?? nowMs;
		buffer.add(events, (promised) => void work.push(promised));
		await Promise.all(work);
	}
	return sent;
}

/** Any order, some of them twice or three times, in batches of one to five. */
export function delivered(messages: readonly DeviceEvents[], numbers: readonly number[]): DeviceEvents[][] {
	const number = (index: number) => numbers[index % numbers.length] ?? 0;
	const all = messages.flatMap((message, index) =>
		Array.from({ length: [1, 1, 2, 3][number(index) % 4] ?? 1 }, (_, copy) => ({
			message,
			place: (number(index) * 7919 + copy * 104_729) % 10_007,
		})),
	);
	const waiting = all.sort((one, other) => one.place - other.place).map(({ message }) => message);
	const batches: DeviceEvents[][] = [];
	while (waiting.length > 0) batches.push(waiting.splice(0, 1 + (number(waiting.length) % 5)));
	return batches;
}

export function countedAs({ versionName, versionBuild }: Said): string | undefined {
	if (versionName === "" || BUNDLES.includes(versionName)) return versionName || undefined;
	return ["builtin", versionBuild].includes(versionName) ? "builtin" : "";
}

/** The same by the simplest means. */
export function truthOf(reports: readonly Report[]) {
	const devices = new Map<string, Record<string, unknown>>();
	const versions = new Map<string, string>();
	const last = new Map<string, string>();
	for (const said of reports) {
		const row = devices.get(said.device) ?? { device_id: said.device };
		devices.set(said.device, row);
		for (const [column, field] of Object.entries(FACTS)) {
			row[column] = said[field] === "" || said[field] === null ? (row[column] ?? null) : said[field];
		}
		row.is_prod = Number(said.isProd);
		row.default_channel = said.defaultChannel || null;
		last.set(said.device, countedAs(said) ?? last.get(said.device) ?? "");
		versions.set(`${Math.floor(said.atMs / DAY_MS)} ${said.device}`, last.get(said.device) ?? "");
	}
	const counts = new Map<string, number>();
	const totals = new Map<number, number>();
	for (const [key, name] of versions) {
		const [day = ""] = key.split(" ");
		counts.set(`${day} ${name}`, (counts.get(`${day} ${name}`) ?? 0) + 1);
		totals.set(Number(day), (totals.get(Number(day)) ?? 0) + 1);
	}
	return {
		devices: [...devices.values()].sort((one, other) => (String(one.device_id) < String(other.device_id) ? -1 : 1)),
		versions: [...counts]
			.map(([key, amount]) => {
				const [day, version_name] = key.split(" ");
				return { day: Number(day), version_name, amount };
			})
			.sort((one, other) => one.day - other.day || (String(one.version_name) < String(other.version_name) ? -1 : 1)),
		totals: [...totals].sort(([one], [other]) => one - other).map(([day, device_count]) => ({ day, device_count })),
	};
}

/** No device counts twice on a day. */
export function expectAtMost(
	versions: readonly { readonly day: number; readonly amount: number }[],
	totals: readonly { readonly day: number; readonly device_count: number }[],
): void {
	for (const { day, device_count } of totals) {
		const ofDay = versions.filter((row) => row.day === day);
		expect(
			ofDay.reduce((sum, { amount }) => sum + amount, 0),
			`day ${day}`,
		).toBeLessThanOrEqual(device_count);
	}
}
