/**
 * What update checks and reports tell of staged rollouts. Nothing is believed here: a check is told of only when it was answered with
 * the rollout's bundle, and a report is handed on as it came; which reports count, the consumer decides by what was served
 * (src/events/rollout-evidence.ts). Apps without a rollout cost nothing.
 */

import type { AppSnapshot } from "../db/snapshot-cache";
import { networkOf } from "../domain/ip-allow-list";
import { BUILTIN, type Decision, type Device, runsStoreBuild } from "../domain/update-decision";
import type { DeviceEvent, RolloutTold } from "../events/messages";

/** How much of an address names its network: what one subscriber or one script holds with ease. */
const NETWORK_BITS = { ipv4: 24, ipv6: 48 };

/** The network of an address, such as `192.0.2.0/24`; empty when there is none. */
export function rolloutNetworkOf(address: string | null): string {
	return address === null ? "" : (networkOf(address, NETWORK_BITS) ?? "");
}

/** What the answer to a check tells of the rollout of the channel that decided. An operator's override is no rollout. */
export function checkEvidence(
	appId: string,
	decision: Decision,
	device: Device,
	address: string | null,
	atMs: number,
): DeviceEvent[] {
	const rollout = decision.resolved?.rollout ?? null;
	// The step stands in the trace unless an operator set the bundle of this one device.
	if (rollout === null || !rollout.enabled || !decision.trace.some(({ rule }) => rule === "rollout")) return [];
	const of = { appId, deviceId: device.deviceId, atMs };
	if (decision.outcome === "update" && decision.bundle.id === rollout.bundle.id) {
		const fromVersion = runsStoreBuild(device) ? BUILTIN : device.versionName;
		return [{ type: "rollout_served", ...of, rolloutId: rollout.id, fromVersion, network: rolloutNetworkOf(address) }];
	}
	if (device.versionName !== rollout.bundle.version) return [];
	return [{ type: "rollout_runs", ...of, versionName: rollout.bundle.version, network: rolloutNetworkOf(address) }];
}

const OUTCOMES: Readonly<Record<string, RolloutTold["outcome"]>> = {
	set: "installed",
	set_fail: "failed",
	update_fail: "failed",
	download_fail: "download_failed",
};

interface Report {
	readonly action?: string | undefined;
	readonly device_id: string;
	readonly version_build?: string | undefined;
}

const HAVE_ROLLOUT = new WeakMap<AppSnapshot, boolean>();

/** Whether devices of the app may have been served a rollout. Looked up once for each snapshot: a request may hold many reports. */
export function hasRollout(snapshot: AppSnapshot): boolean {
	const known = HAVE_ROLLOUT.get(snapshot);
	if (known !== undefined) return known;
	const found = [...snapshot.channelsById.values()].some((channel) => channel.rollout_enabled === 1);
	HAVE_ROLLOUT.set(snapshot, found);
	return found;
}

/** What a report tells of a bundle. */
export function reportEvidence(
	appId: string,
	report: Report,
	versionName: string,
	address: string | null,
	atMs: number,
): RolloutTold[] {
	const action = report.action ?? "";
	const outcome = Object.hasOwn(OUTCOMES, action) ? OUTCOMES[action] : undefined;
	if (outcome === undefined) return [];
	const isBuiltin = versionName !== "" && versionName === report.version_build;
	const name = isBuiltin ? BUILTIN : versionName;
	const network = rolloutNetworkOf(address);
	return [{ type: "rollout_told", appId, deviceId: report.device_id, versionName: name, outcome, network, atMs }];
}

/**
 * Reports of one request have one time, and stand in the order in which things happened: of a device, only what is not overtaken by a
 * later one of them is left.
 */
export function withoutOvertaken(events: readonly DeviceEvent[]): DeviceEvent[] {
	const isOvertakenBy = (one: RolloutTold, other: RolloutTold) =>
		one.appId === other.appId &&
		one.deviceId === other.deviceId &&
		(one.versionName === other.versionName || (one.outcome === "download_failed" && other.outcome === "installed"));
	const kept: DeviceEvent[] = [];
	const later = new Map<string, RolloutTold[]>();
	for (const event of events.toReversed()) {
		if (event.type === "rollout_told") {
			const others = later.get(event.deviceId) ?? [];
			if (others.some((other) => isOvertakenBy(event, other))) continue;
			later.set(event.deviceId, [...others, event]);
		}
		kept.push(event);
	}
	return kept.toReversed();
}
