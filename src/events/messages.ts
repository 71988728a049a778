/**
 * What travels through the Queue. Every message may arrive more than once and in any order, so each kind must be safe to repeat.
 */

/** Objects were let go of: remove what stands in `garbage_objects`. */
export interface CollectGarbage {
	readonly kind: "collect_garbage";
}

/** A key was used in the minute that begins at `atMs`. */
export interface KeyUsed {
	readonly kind: "key_used";
	readonly keyId: string;
	/** The organization that the key belongs to. */
	readonly orgId: string;
	readonly atMs: number;
}

/** A device was there: what it is and runs, and which channel decided. Devices are told apart by app and id. */
export interface DeviceSeen {
	readonly type: "seen";
	/** Public id of the app. */
	readonly appId: string;
	readonly deviceId: string;
	readonly atMs: number;
	readonly platform: string;
	readonly versionName: string;
	readonly versionBuild: string;
	readonly osVersion: string;
	readonly pluginVersion: string;
	readonly isProd: boolean;
	readonly isEmulator: boolean;
	readonly customId: string;
	readonly installSource: string;
	readonly keyId: string;
	readonly defaultChannel: string;
	readonly channelId: number | null;
}

export type CountedMetric = "get" | "install" | "fail" | "bandwidth";

/** Something to count, once: `id` is the same for the same thing however often it arrives. */
export interface CountedEvent {
	readonly type: "count";
	readonly id: string;
	readonly appId: string;
	readonly versionName: string;
	readonly metric: CountedMetric;
	readonly amount: number;
	readonly atMs: number;
}

export type DeviceEvent = DeviceSeen | CountedEvent;

export interface DeviceEvents {
	readonly kind: "device_events";
	readonly id: string;
	readonly events: readonly DeviceEvent[];
}

export type QueueMessage = CollectGarbage | KeyUsed | DeviceEvents;
