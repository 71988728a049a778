/**
 * Decides which health signals an isolate passes on: one per device, signal, bundle, network and
 * hour, however many the app reports. A report from another network never silences that of the
 * device. Launches come with every start of every app, so of those beyond the first of the day a
 * share of the devices counts: percentiles need no more.
 */

import { hashOf, recentMap } from "../domain/recent";
import { dayOf } from "../domain/statistics/days";
import type { Signal } from "../domain/statistics/health-signals";
import { HOUR_MS } from "../domain/time";

/** Devices and signals, about 100 bytes each. */
const MOST_SIGNALS = 20_000;
const MOST_APPS = 2_000;
/** Launches of one app and day that an isolate passes on without a choice. */
const FIRST_LAUNCHES = 20;
/** One device in this many is counted beyond them. */
const LAUNCH_SHARE = 32;

export interface SignalSource {
	readonly appId: string;
	readonly deviceId: string;
	readonly versionName: string;
	/** Network of the address that reported it. */
	readonly network: string;
}

export function signalSample(seed: number) {
	const passed = recentMap<number>(MOST_SIGNALS);
	const launches = recentMap<{ day: number; count: number }>(MOST_APPS);

	function isChosen(appId: string, deviceId: string, versionName: string, atMs: number): boolean {
		const day = dayOf(atMs);
		const own = launches.get(appId) ?? { day, count: 0 };
		if (own.day !== day) Object.assign(own, { day, count: 0 });
		own.count += 1;
		launches.set(appId, own);
		// The same devices in every isolate.
		return own.count <= FIRST_LAUNCHES || hashOf(`${deviceId} ${versionName}`, 0) % LAUNCH_SHARE === 0;
	}

	return {
		takes(signal: Signal, { appId, deviceId, versionName, network }: SignalSource, atMs: number): boolean {
			const key = `${appId} ${deviceId} ${signal}`;
			const period = signal === "launch" ? dayOf(atMs) : `${Math.floor(atMs / HOUR_MS)} ${network}`;
			const hash = hashOf(`${versionName} ${period}`, seed);
			if (passed.get(key) === hash) return false;
			passed.set(key, hash);
			return signal !== "launch" || isChosen(appId, deviceId, versionName, atMs);
		},
	};
}
