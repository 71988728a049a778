/**
 * Events about staged rollouts from update checks and reports. A check gives an event only if it
 * offered the rollout's bundle or came from it. Reports are passed on unverified; the consumer
 * decides by the offers which reports count (src/features/rollouts/outcomes.ts).
 */

import { networkOf } from "../../domain/network/ip-allow-list";
import { type Signal, signalOf } from "../../domain/statistics/health-signals";
import type { Decision } from "../../domain/updates/decision";
import { BUILTIN, type Device, runsStoreBuild } from "../../domain/updates/model";
import type { DeviceEvent, RolloutReported } from "../../messages";

/** Prefix of an address that names its network: the range that one subscriber easily controls. */
const NETWORK_BITS = { ipv4: 24, ipv6: 48 };

/** The network of an address, such as `192.0.2.0/24`; empty when there is none. */
export function rolloutNetworkOf(address: string | null): string {
	return address === null ? "" : (networkOf(address, NETWORK_BITS) ?? "");
}

/**
 * Events of an update check for the rollout of its channel; none if an override chose the bundle.
 */
export function checkEvents(
	appId: string,
	decision: Decision,
	device: Device,
	address: string | null,
	atMs: number,
): DeviceEvent[] {
	const rollout = decision.resolved?.rollout ?? null;
	if (rollout === null || !decision.rolloutConsidered) return [];
	const of = { appId, deviceId: device.deviceId, atMs };
	if (decision.outcome === "update" && decision.bundle.id === rollout.bundle.id) {
		const fromVersion = runsStoreBuild(device) ? BUILTIN : device.versionName;
		return [{ type: "rollout_served", ...of, rolloutId: rollout.id, fromVersion, network: rolloutNetworkOf(address) }];
	}
	if (device.versionName !== rollout.bundle.version) return [];
	return [{ type: "rollout_runs", ...of, versionName: rollout.bundle.version, network: rolloutNetworkOf(address) }];
}

const OUTCOMES: Readonly<Record<string, RolloutReported["outcome"]>> = {
	set: "installed",
	set_fail: "failed",
	update_fail: "failed",
	download_fail: "download_failed",
};

/** The gate does not judge launches. */
const SIGNAL_OUTCOMES: Readonly<Partial<Record<Signal, RolloutReported["outcome"]>>> = {
	crash: "crashed",
	anr: "crashed",
	js_error: "errored",
};

interface Report {
	readonly action?: string | undefined;
	readonly device_id: string;
	readonly version_build?: string | undefined;
}

/**
 * Events of a report: the outcome of an installation or a download, or a health signal.
 * @param deviceAtMs when the bundle was set or the app ended, by the device's clock; null if the
 * report does not say
 */
export function reportEvents(
	appId: string,
	report: Report,
	versionName: string,
	{
		address,
		atMs,
		deviceAtMs,
	}: { readonly address: string | null; readonly atMs: number; readonly deviceAtMs: number | null },
): RolloutReported[] {
	const action = report.action ?? "";
	const signal = signalOf(action);
	const outcome =
		signal === undefined ? (Object.hasOwn(OUTCOMES, action) ? OUTCOMES[action] : undefined) : SIGNAL_OUTCOMES[signal];
	if (outcome === undefined) return [];
	const isBuiltin = versionName !== "" && versionName === report.version_build;
	const name = isBuiltin ? BUILTIN : versionName;
	const network = rolloutNetworkOf(address);
	const event = {
		type: "rollout_reported",
		appId,
		deviceId: report.device_id,
		versionName: name,
		outcome,
		network,
		atMs,
	} as const;
	return [deviceAtMs === null ? event : { ...event, deviceAtMs }];
}

/** A bundle that was installed and crashes is both. */
const isInstallation = ({ outcome }: RolloutReported) => outcome !== "crashed" && outcome !== "errored";

/**
 * Drops reports that a later report of the same request supersedes. The reports of a request share
 * one time, so their order decides.
 */
export function withoutSuperseded(events: readonly DeviceEvent[]): DeviceEvent[] {
	const isSupersededBy = (one: RolloutReported, other: RolloutReported) =>
		one.appId === other.appId &&
		one.deviceId === other.deviceId &&
		isInstallation(one) &&
		isInstallation(other) &&
		(one.versionName === other.versionName || (one.outcome === "download_failed" && other.outcome === "installed"));
	const kept: DeviceEvent[] = [];
	const later = new Map<string, RolloutReported[]>();
	for (const event of events.toReversed()) {
		if (event.type === "rollout_reported") {
			const others = later.get(event.deviceId) ?? [];
			if (others.some((other) => isSupersededBy(event, other))) continue;
			later.set(event.deviceId, [...others, event]);
		}
		kept.push(event);
	}
	return kept.toReversed();
}
