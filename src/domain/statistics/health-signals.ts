/**
 * Health signals: reports of the plugin about a running app by itself. Pure. A signal counts once
 * per device, bundle and day, so a device that reports a thousand errors weighs as much as one that
 * reports one; a launch counts once per device and bundle. Kills by the system for memory are no
 * crashes, and a restart after a crash is not counted beside the crash.
 */
import { DAY_MS } from "../time";

const SIGNALS = ["crash", "anr", "js_error", "launch_timeout", "launch"] as const;
export type Signal = (typeof SIGNALS)[number];

const SIGNAL_OF_ACTION: Readonly<Record<string, Signal>> = {
	app_crash: "crash",
	app_crash_native: "crash",
	app_initialization_failure: "crash",
	webview_render_process_gone: "crash",
	webview_content_process_terminated: "crash",
	app_anr: "anr",
	webview_javascript_error: "js_error",
	webview_unhandled_rejection: "js_error",
	app_launch_timeout: "launch_timeout",
	app_launch_ready: "launch",
};

export function signalOf(action: string): Signal | undefined {
	return Object.hasOwn(SIGNAL_OF_ACTION, action) ? SIGNAL_OF_ACTION[action] : undefined;
}

export function isSignal(metric: string): metric is Signal {
	return (SIGNALS as readonly string[]).includes(metric);
}

/** An exit that is older was not of a bundle that anybody watches. */
const OLDEST_EXIT_MS = 30 * DAY_MS;

/**
 * When the signal happened, by the server's clock: a crash is reported at the next start, with the
 * time of the exit by the device's clock. The difference of two times of one clock does not depend
 * on the clock.
 * @param exitAtMs by the device's clock; null if the report has none
 * @param deviceAtMs time of the report by the same clock
 */
export function happenedAtMs(exitAtMs: number | null, deviceAtMs: number | null, nowMs: number): number {
	if (exitAtMs === null || deviceAtMs === null || exitAtMs > deviceAtMs) return nowMs;
	return Math.max(nowMs - (deviceAtMs - exitAtMs), nowMs - OLDEST_EXIT_MS);
}

/** A version and the time from which the device ran it. */
export interface RunFrom {
	readonly versionName: string;
	readonly atMs: number;
}

/**
 * The version that ran at the time. The report of a crash names the version that runs at the next
 * start, which is the one before if the plugin rolled back in between.
 * @param runs what is known of the device, in any order
 */
export function versionAt(atMs: number, runs: readonly RunFrom[], reported: string): string {
	let last: RunFrom | undefined;
	for (const run of runs) if (run.atMs <= atMs && (last === undefined || run.atMs >= last.atMs)) last = run;
	return last?.versionName ?? reported;
}
