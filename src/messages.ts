/**
 * Messages of the Queue. A message may arrive twice and in any order, so the handling of each kind
 * must be idempotent.
 */

import type { Actor } from "./db/audit/entries";
import type { FailureCause } from "./domain/statistics/failure-causes";
import type { Signal } from "./domain/statistics/health-signals";
import type { RefusedAccount } from "./errors";

/** Objects were released: delete those that `garbage_objects` lists. */
interface CollectGarbage {
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

/**
 * A device checked or reported: its properties, the version that it runs and the channel that
 * serves it. App and id identify a device.
 */
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
	 * Result of a check: `update`, `builtin`, or the code of the refusal, and the version that is
	 * offered.
	 */
	readonly decision?: string;
	readonly offered?: string;
	/**
	 * Set when this report differs from the device's last one. Forces a write even if the row already
	 * has these values, so that its timestamp beats an older message that is delivered later.
	 */
	readonly moved?: true;
	/**
	 * The address has exceeded its limit of new devices for the app today: only a known device is
	 * written.
	 */
	readonly crowded?: true;
}

/**
 * `start`, the start of a download, is not counted; the time of an install is measured from it.
 * `cause` counts for its cause alone.
 */
export type CountedMetric = "get" | "install" | "fail" | "start" | "cause" | Signal;

/** Counted once per `id`, which repeated reports of the same event share. */
export interface CountedEvent {
	readonly type: "count";
	readonly id: string;
	readonly appId: string;
	readonly deviceId: string;
	readonly versionName: string;
	/** The channel that serves the device; empty if none does. */
	readonly channelName: string;
	readonly metric: CountedMetric;
	readonly atMs: number;
	/** By the device's clock; null if it did not report a time. */
	readonly deviceAtMs: number | null;
	/** The device reports starts of downloads, so its installs can be timed. */
	readonly timed: boolean;
	/** When a health signal happened, by the server's clock. */
	readonly happenedAtMs?: number;
	/** Duration of a launch. */
	readonly durationMs?: number;
	/** Text for people: the action of a failure, the message of an error. */
	readonly detail?: string;
	/** Why the update failed. */
	readonly cause?: FailureCause;
	/** Network of the address that reported a failed download; empty if unknown. */
	readonly network?: string;
	/** As for `DeviceSeen`. */
	readonly crowded?: true;
}

/** A person set or removed the override of a device. */
export interface OverrideChanged {
	readonly type: "override";
	readonly appId: string;
	readonly deviceId: string;
	readonly atMs: number;
	/** Name of the person or the key. */
	readonly by: string;
	readonly channel: string | null;
	readonly version: string | null;
}

/** Bytes of one app that an isolate has sent since its last event of this kind. */
export interface BytesServed {
	readonly type: "served";
	readonly id: string;
	/** UUID, because links contain no public id. */
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
	/** Version that the device ran. */
	readonly fromVersion: string;
	/** Network of the device's address; empty if unknown. */
	readonly network: string;
	readonly atMs: number;
}

/** Outcome of a bundle on a device, as the device reports it. */
export interface RolloutReported {
	readonly type: "rollout_reported";
	readonly appId: string;
	readonly deviceId: string;
	/** Version that the report is about; for a failed download it may be the running one, or empty. */
	readonly versionName: string;
	readonly outcome: "installed" | "failed" | "download_failed" | "crashed" | "errored";
	/** When the bundle was set, or when the app that crashed ended, by the device's clock. */
	readonly deviceAtMs?: number;
	/** Network of the reporting address; empty if unknown. */
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

/** Events of an app that were accepted and lost, because its buffer or the database was full. */
export interface EventsLost {
	readonly type: "lost";
	readonly id: string;
	readonly appId: string;
	readonly atMs: number;
	readonly events: number;
}

export type RolloutEvent = RolloutServed | RolloutReported | RolloutRuns;
export type DeviceEvent = DeviceSeen | CountedEvent | OverrideChanged | BytesServed | EventsLost | RolloutEvent;

export function isRolloutEvent(event: DeviceEvent): event is RolloutEvent {
	return event.type === "rollout_served" || event.type === "rollout_reported" || event.type === "rollout_runs";
}

/** Identifies the device of an event. */
export const rolloutDeviceKey = ({ appId, deviceId }: Pick<RolloutEvent, "appId" | "deviceId">) =>
	`${appId} ${deviceId}`;

export interface DeviceEvents {
	readonly kind: "device_events";
	readonly id: string;
	readonly events: readonly DeviceEvent[];
}

/** A denied attempt, for the audit log. The number of these messages is limited. */
export interface AccessDenied {
	readonly kind: "access_denied";
	/**
	 * The organization that the attempt was about; null: the first one, because no key of any
	 * organization was presented.
	 */
	readonly orgId: string | null;
	/** The account instead, where a sign-in was refused. */
	readonly account?: RefusedAccount;
	readonly actor: Actor;
	/** The permission that is missing, or the code of the error. */
	readonly what: string;
	readonly details: Readonly<Record<string, string>>;
	readonly atMs: number;
}

/** A webhook has due deliveries. In a queue of its own. */
export interface WebhookDue {
	readonly kind: "webhook_due";
	readonly webhookId: string;
}

export type QueueMessage = CollectGarbage | KeyUsed | DeviceEvents | AccessDenied;
