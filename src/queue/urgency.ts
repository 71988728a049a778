/**
 * Which events must not wait: failures, rollout events, and the first installs of an app in an
 * hour, which people watch.
 */
import { recentMap } from "../domain/recent";
import { HOUR_MS } from "../domain/time";
import type { CountedMetric, DeviceEvent } from "../messages";

/**
 * Installs of an app that do not wait, by isolate and hour. An isolate of a large fleet has more,
 * and a message for each of them would cost as much as those of all checks.
 */
export const URGENT_INSTALLS_AN_HOUR = 6;
/** Apps whose urgent installs are counted. */
const MOST_APPS = 1_000;

/** Metrics that people wait for, and on which rollouts depend. */
const URGENT: ReadonlySet<CountedMetric> = new Set(["install", "fail", "cause"]);

/** One for each isolate. */
export function createUrgency(now: () => number) {
	const installs = recentMap<{ readonly sinceMs: number; readonly count: number }>(MOST_APPS);

	function hasManyInstalls(appId: string): boolean {
		const nowMs = now();
		const before = installs.get(appId);
		const hour = before === undefined || nowMs - before.sinceMs >= HOUR_MS ? { sinceMs: nowMs, count: 0 } : before;
		if (hour.count >= URGENT_INSTALLS_AN_HOUR) return true;
		installs.set(appId, { ...hour, count: hour.count + 1 });
		return false;
	}

	return {
		/** Whether the event may wait for others. It counts as one of its app's installs of the hour. */
		mayWait(event: DeviceEvent): boolean {
			if (event.type === "seen") return true;
			if (event.type !== "count") return false;
			return event.metric === "install" ? hasManyInstalls(event.appId) : !URGENT.has(event.metric);
		},
	};
}
