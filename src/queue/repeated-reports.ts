/**
 * The last report of each device to this isolate: a repeated report adds no event. A repeat that an
 * isolate does not notice costs an event and nothing else, because the consumer counts a report
 * once; so the memory is small and old devices leave it.
 */

import { hashOf, recentMap } from "../domain/recent";
import { dayOf } from "../domain/statistics/days";
import { fieldsOf, runsBuild } from "../domain/statistics/device-record";
import { DAY_MS, MINUTE_MS } from "../domain/time";
import type { CountedEvent, DeviceSeen, RolloutRuns, RolloutServed } from "../messages";

/** Devices whose last report is cached; at most about 500 bytes each. */
const MOST_REPORTS = 20_000;
/** Devices whose last rollout event is cached; about 150 bytes each. */
const MOST_ROLLOUT_REPORTS = 20_000;
/**
 * Rollout events of a device are sent again after this time: offers every 30 minutes, because the
 * gate needs them; "still running" once a day.
 */
const ROLLOUT_PERIOD_MS = { rollout_served: 30 * MINUTE_MS, rollout_runs: DAY_MS } as const;
/**
 * Files of a download that fail together are one event in this time, and a device has hundreds of
 * files.
 */
const CAUSE_PERIOD_MS = 5_000;
/**
 * Installs, downloads and failures of one device and day that an isolate accepts, more than a
 * device has.
 */
const MOST_REPORTS_A_DEVICE = 100;

/** Hash of a field that a report does not have. */
const UNKNOWN = -1;

interface LastReport {
	/** Hash of the report's content. */
	readonly hash: number;
	readonly atMs: number;
	/**
	 * Hashes of the last value of each field and of whether the version is the store build's; not
	 * every report has all fields.
	 */
	readonly fields: readonly number[];
	/** Counted reports of the device: the day times a thousand, plus their number on that day. */
	counted: number;
}

/** @param seed random for each isolate, against prepared collisions */
export function createRepeatedReports(seed: number) {
	const reports = recentMap<LastReport>(MOST_REPORTS);
	/** Hash of the last rollout event of each device. */
	const rolloutReports = recentMap<number>(MOST_ROLLOUT_REPORTS);
	/** The last report of each device about a download; the hash is that of a cause. */
	const downloads = recentMap<{ readonly hash: number; readonly atMs: number }>(MOST_ROLLOUT_REPORTS);

	return {
		/** The event to send; undefined if it repeats the device's last report of the day. */
		withoutRepeat(event: DeviceSeen): DeviceSeen | undefined {
			const device = deviceKey(event);
			const hash = hashOf(contentOf(event), seed);
			const before = reports.get(device);
			// An event that starts a version is sent even so: another isolate may have received a report in
			// between.
			if (before?.hash === hash && event.moved !== true) return undefined;
			const atMs = timeAfter(before, event.atMs);
			const fields = fieldHashes(event, seed);
			const isChanged = fields.some((value, index) => differ(value, before?.fields[index] ?? UNKNOWN));
			reports.set(device, {
				hash,
				atMs,
				fields: fields.map((value, index) => (value === UNKNOWN ? (before?.fields[index] ?? UNKNOWN) : value)),
				counted: before?.counted ?? 0,
			});
			return { ...event, atMs, ...(isChanged ? { moved: true } : {}) };
		},

		/** Whether the device has reported so much today that no more of its reports are counted. */
		exceedsLimit(event: { readonly appId: string; readonly deviceId: string; readonly atMs: number }): boolean {
			const device = reports.get(deviceKey(event));
			if (device === undefined) return false;
			// The day is the upper part of the number, so the count starts again at midnight.
			const day = dayOf(event.atMs) * 1_000;
			device.counted = Math.min(Math.max(device.counted, day), day + MOST_REPORTS_A_DEVICE) + 1;
			return device.counted > day + MOST_REPORTS_A_DEVICE;
		},

		/**
		 * Reports of a device about its downloads, in their order: those of one millisecond are a
		 * millisecond apart, as the consumer orders by time. Undefined if the same cause was just
		 * reported, with no start or end of a download in between.
		 */
		downloadInOrder(event: CountedEvent): CountedEvent | undefined {
			const { metric, cause, versionName, detail } = event;
			if (metric !== "start" && cause === undefined) return event;
			const device = deviceKey(event);
			const before = downloads.get(device);
			const content = JSON.stringify([Math.floor(event.atMs / CAUSE_PERIOD_MS), versionName, detail]);
			const hash = metric === "cause" ? hashOf(content, seed) : UNKNOWN;
			if (hash !== UNKNOWN && before?.hash === hash) return undefined;
			const atMs = timeAfter(before, event.atMs);
			downloads.set(device, { hash, atMs });
			return atMs === event.atMs ? event : { ...event, atMs };
		},

		/** Rollout events are de-duplicated the same way: one per device and period. */
		isRepeatedRollout({ atMs, ...event }: RolloutServed | RolloutRuns): boolean {
			const device = deviceKey(event);
			const hash = hashOf(JSON.stringify([Math.floor(atMs / ROLLOUT_PERIOD_MS[event.type]), event]), seed);
			if (rolloutReports.get(device) === hash) return true;
			rolloutReports.set(device, hash);
			return false;
		},

		/** Whether this isolate has received a report of the device lately. */
		knows: (appId: string, deviceId: string): boolean => reports.get(deviceKey({ appId, deviceId })) !== undefined,
	};
}

const deviceKey = ({ appId, deviceId }: { readonly appId: string; readonly deviceId: string }) =>
	`${appId} ${deviceId}`;

/**
 * Reports of one request have the same time, but the consumer orders by time: the later one is a
 * millisecond later.
 */
function timeAfter(before: Pick<LastReport, "atMs"> | undefined, atMs: number): number {
	const isSameTime = before !== undefined && atMs <= before.atMs && dayOf(before.atMs + 1) === dayOf(atMs);
	return isSameTime ? before.atMs + 1 : atMs;
}

function fieldHashes(event: DeviceSeen, seed: number): number[] {
	const values = [...fieldsOf(event), event.versionName === "" ? undefined : runsBuild(event)];
	return values.map((value) => (value === undefined ? UNKNOWN : hashOf(`${typeof value} ${value}`, seed)));
}

function differ(value: number, before: number): boolean {
	return value !== UNKNOWN && before !== UNKNOWN && value !== before;
}

/**
 * Everything in the event except for the time of day. Not JSON, because this runs on every check. A
 * device that sends the separator inside a text can make two of its states look the same, but no
 * other device's.
 */
function contentOf(event: DeviceSeen): string {
	const { platform, versionName, versionBuild, osVersion, pluginVersion, isProd, isEmulator, channelId } = event;
	const { customId, installSource, keyId, defaultChannel } = event;
	const decided = `${event.decision ?? ""} ${event.offered ?? ""}`;
	const own = `${decided}\0${customId}\0${installSource}\0${keyId}\0${defaultChannel}\0${versionName}\0${versionBuild}\0${osVersion}`;
	return `${dayOf(event.atMs)}\0${platform}\0${pluginVersion}\0${isProd}\0${isEmulator}\0${channelId}\0${own}`;
}
