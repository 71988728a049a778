/**
 * What travels through the Queue. Every message may arrive more than once and in any order, so each kind must be safe to repeat.
 */

import type { Actor } from "../db/audit";
import type { RefusedAccount } from "../errors";

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
	/**
	 * Something is other than the device said before, or it has just begun to run the version. So it is remembered when, even where its
	 * row says the same already: a message of before may be consumed later.
	 */
	readonly moved?: true;
	/** The address has shown more device ids of the app today than it may add: the device is recorded only if it is known already. */
	readonly crowded?: true;
}

/** `start`, the start of a download, is not counted itself: it is what the time of an install is measured from. */
export type CountedMetric = "get" | "install" | "fail" | "start";

/** Something to count, once: `id` is the same for the same thing however often it arrives. */
export interface CountedEvent {
	readonly type: "count";
	readonly id: string;
	readonly appId: string;
	readonly deviceId: string;
	readonly versionName: string;
	/** The channel that decides for the device; empty where none does. */
	readonly channelName: string;
	readonly metric: CountedMetric;
	readonly atMs: number;
	/** By the device's own clock, where it says. */
	readonly deviceAtMs: number | null;
	/** Whether the device says when downloads start, so that its installs can be timed. */
	readonly timed: boolean;
}

/** Bytes that one isolate has sent out of one app since it last said so. */
export interface BytesServed {
	readonly type: "served";
	readonly id: string;
	/** UUID: links name no other. */
	readonly appUuid: string;
	readonly atMs: number;
	/** By the key of the object in R2. */
	readonly bytes: Readonly<Record<string, number>>;
}

/** An update check was answered with the bundle of a rollout. */
export interface RolloutServed {
	readonly type: "rollout_served";
	readonly appId: string;
	readonly rolloutId: string;
	readonly deviceId: string;
	/** What the device ran. */
	readonly fromVersion: string;
	/** Where it asked from, cut to a network; empty when nobody knows. */
	readonly network: string;
	readonly atMs: number;
}

/** What became of a bundle on a device, by the device's own word. */
export interface RolloutTold {
	readonly type: "rollout_told";
	readonly appId: string;
	readonly deviceId: string;
	/** The version that the report is about; where a download failed it may be the one that runs, or empty. */
	readonly versionName: string;
	readonly outcome: "installed" | "failed" | "download_failed";
	/** Where it was told from, cut to a network; empty when nobody knows. */
	readonly network: string;
	readonly atMs: number;
}

/** A check showed that the device runs the bundle of a rollout. */
export interface RolloutRuns {
	readonly type: "rollout_runs";
	readonly appId: string;
	readonly deviceId: string;
	readonly versionName: string;
	readonly network: string;
	readonly atMs: number;
}

/** Events of an app that were taken and could not be kept: its buffer was full, or the database. */
export interface EventsLost {
	readonly type: "lost";
	readonly id: string;
	readonly appId: string;
	readonly atMs: number;
	readonly events: number;
}

export type RolloutEvent = RolloutServed | RolloutTold | RolloutRuns;
export type DeviceEvent = DeviceSeen | CountedEvent | BytesServed | EventsLost | RolloutEvent;

export interface DeviceEvents {
	readonly kind: "device_events";
	readonly id: string;
	readonly events: readonly DeviceEvent[];
}

/** Somebody was refused; written to a log in a bounded number. */
export interface AccessDenied {
	readonly kind: "access_denied";
	/** The organization that the attempt was about; null: the first one, because no key of any organization was presented. */
	readonly orgId: string | null;
	/** The account instead, where a sign-in was refused. */
	readonly account?: RefusedAccount;
	readonly actor: Actor;
	/** The permission that is missing, or the code of the error. */
	readonly what: string;
	readonly details: Readonly<Record<string, string>>;
	readonly atMs: number;
}

export type QueueMessage = CollectGarbage | KeyUsed | DeviceEvents | AccessDenied;
