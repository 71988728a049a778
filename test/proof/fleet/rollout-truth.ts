/**
 * The true course of a rollout with a health gate: the devices that were offered its bundle, their
 * reports, and the verdict that a gate must reach. The rules follow the documentation and share no
 * code with the product.
 */
import { dayOf } from "./truth";

export interface Gate {
	/** Percent. */
	readonly steps: readonly number[];
	readonly limitBps: number;
	/** Undefined: crashes and hangs are not judged. */
	readonly crashLimitBps?: number;
	/** Undefined: JavaScript errors are not judged. */
	readonly errorLimitBps?: number;
	/** Devices that must report on the bundle within a step. */
	readonly stepMinDevices: number;
	readonly minAttempts: number;
	readonly minFailures: number;
}

/** A bundle that starts, and then misbehaves on a share of the devices. */
export interface Trouble {
	/** Reports of such a device at its next start. */
	readonly actions: readonly string[];
	/** Share of the devices. */
	readonly percent: number;
	/** Only after the rollout has reached this share, such as a service that breaks under load. */
	readonly fromShare?: number;
}

/** Confidence of the interval, on both sides. */
export const CONFIDENCE = 0.8;
const DEVIATIONS = 1.2815515655446004;

export type Verdict = "waits" | "grows" | "stops" | "at the end";

interface ServedDevice {
	installedAtMs: number;
	failedAtMs: number;
	crashedAtMs: number;
	erroredAtMs: number;
}

export class RolloutTruth {
	/** The devices that count, by number. */
	readonly #devices = new Map<number, ServedDevice>();
	/** Every device that was offered the bundle, including devices that do not count. */
	readonly served = new Set<number>();
	stepAtMs: number;
	percent: number;

	constructor(
		readonly version: string,
		readonly gate: Gate,
		readonly startedAtMs: number,
		/** Share of the devices on which the bundle does not start. */
		readonly failingPercent: number,
		readonly troubles: readonly Trouble[] = [],
	) {
		this.stepAtMs = startedAtMs;
		this.percent = gate.steps[0] ?? 0;
	}

	/** Always true for the same devices. */
	failsOn(device: number): boolean {
		return (device * 37) % 100 < this.failingPercent;
	}

	/**
	 * Reports of the device at the start after the bundle was set. Always the same for the same share
	 * of the rollout.
	 */
	troublesOf(device: number): readonly string[] {
		return this.troubles.flatMap(({ actions, percent, fromShare = 0 }, index) =>
			this.percent >= fromShare && (device * 53 + index * 41 + 11) % 100 < percent ? actions : [],
		);
	}

	/**
	 * A check was answered with the bundle. A device counts only if it was first seen before the day
	 * of the rollout.
	 */
	serves(device: number, firstSeenDay: number): void {
		this.served.add(device);
		if (firstSeenDay >= dayOf(this.startedAtMs) || this.#devices.has(device)) return;
		this.#devices.set(device, { installedAtMs: 0, failedAtMs: 0, crashedAtMs: 0, erroredAtMs: 0 });
	}

	/** The device reported the outcome of the bundle. */
	reports(device: number, outcome: "installed" | "failed" | "crashed" | "errored", nowMs: number): void {
		const known = this.#devices.get(device);
		if (known !== undefined) known[`${outcome}AtMs`] = nowMs;
	}

	/**
	 * A check showed that the device runs the bundle; this counts only if the device had not reported
	 * it.
	 */
	runs(device: number, nowMs: number): void {
		const known = this.#devices.get(device);
		if (known !== undefined && known.installedAtMs <= known.failedAtMs) known.installedAtMs = nowMs;
	}

	get figures() {
		const devices = [...this.#devices.values()];
		const hasReported = ({ installedAtMs, failedAtMs }: ServedDevice) => Math.max(installedAtMs, failedAtMs) > 0;
		const failed = devices.filter((device) => hasReported(device) && device.failedAtMs >= device.installedAtMs).length;
		const reported = devices.filter(hasReported).length;
		const inStep = devices.filter(
			({ installedAtMs, failedAtMs }) => Math.max(installedAtMs, failedAtMs) >= this.stepAtMs,
		).length;
		const isInstalled = ({ installedAtMs, failedAtMs }: ServedDevice) => installedAtMs > failedAtMs;
		const crashed = devices.filter((device) => isInstalled(device) && device.crashedAtMs > 0).length;
		const errored = devices.filter((device) => isInstalled(device) && device.erroredAtMs > 0).length;
		const silent = devices.length - reported;
		return { served: devices.length, installed: reported - failed, failed, crashed, errored, silent, inStep };
	}

	/** The verdict of a gate after the step has lasted long enough. */
	get verdict(): Verdict {
		const { installed, failed, crashed, errored, inStep } = this.figures;
		const { limitBps, crashLimitBps, errorLimitBps, minAttempts, minFailures, stepMinDevices } = this.gate;
		const judged = [
			{ bad: failed, all: installed + failed, limitBps },
			{ bad: crashed, all: installed, limitBps: crashLimitBps },
			{ bad: errored, all: installed, limitBps: errorLimitBps },
		].flatMap(({ bad, all, limitBps: limit }) => (limit === undefined ? [] : [{ bad, all, limit: limit / 10_000 }]));
		const isBad = ({ bad, all, limit }: (typeof judged)[number]) =>
			all >= minAttempts && bad >= minFailures && wilson(bad, all)[0] >= limit;
		if (judged.some(isBad)) return "stops";
		if (this.#next === undefined) return "at the end";
		const isGood = judged.every(({ bad, all, limit }) => wilson(bad, all)[1] < limit);
		return inStep >= stepMinDevices && isGood ? "grows" : "waits";
	}

	get #next(): number | undefined {
		return this.gate.steps.find((step) => step > this.percent);
	}

	grow(nowMs: number): void {
		this.percent = this.#next ?? this.percent;
		this.stepAtMs = nowMs;
	}
}

/** Wilson's score interval. */
export function wilson(failed: number, all: number): readonly [number, number] {
	if (all === 0) return [0, 1];
	const share = failed / all;
	const square = DEVIATIONS ** 2;
	const middle = (failed + square / 2) / (all + square);
	const half = (DEVIATIONS * Math.sqrt(all * share * (1 - share) + square / 4)) / (all + square);
	return [middle - half, middle + half];
}
