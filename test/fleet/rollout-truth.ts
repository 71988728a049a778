/**
 * A rollout with a health gate as it really went: which devices were given its bundle, what they said became of it, and what a gate has
 * to make of that. The rules are those of the documentation, written a second time; nothing is shared with the product.
 */
import { dayOf } from "./truth";

export interface Gate {
	/** Percent. */
	readonly steps: readonly number[];
	readonly limitBps: number;
	/** Devices that must have told something of the bundle in a step. */
	readonly stepMinDevices: number;
	readonly minAttempts: number;
	readonly minFailures: number;
}

/** The bounds at both of which an interval of this confidence ends. */
export const CONFIDENCE = 0.8;
const DEVIATIONS = 1.2815515655446004;

export type Verdict = "waits" | "grows" | "stops" | "at the end";

interface ServedDevice {
	installedAtMs: number;
	failedAtMs: number;
}

export class RolloutTruth {
	/** Of those who count, by number. */
	readonly #devices = new Map<number, ServedDevice>();
	/** All who were given the bundle, those included who do not count. */
	readonly served = new Set<number>();
	stepAtMs: number;
	percent: number;

	constructor(
		readonly version: string,
		readonly gate: Gate,
		readonly startedAtMs: number,
		/** Of a hundred devices: on how many the bundle does not start. */
		readonly failingPercent: number,
	) {
		this.stepAtMs = startedAtMs;
		this.percent = gate.steps[0] ?? 0;
	}

	/** The same devices always. */
	failsOn(device: number): boolean {
		return (device * 37) % 100 < this.failingPercent;
	}

	/** A check was answered with the bundle. Who was first seen on the day of the rollout, or never before, does not count. */
	serves(device: number, firstSeenDay: number): void {
		this.served.add(device);
		if (firstSeenDay >= dayOf(this.startedAtMs) || this.#devices.has(device)) return;
		this.#devices.set(device, { installedAtMs: 0, failedAtMs: 0 });
	}

	/** The device itself told what became of the bundle. */
	told(device: number, outcome: "installed" | "failed", nowMs: number): void {
		const known = this.#devices.get(device);
		if (known === undefined) return;
		if (outcome === "installed") known.installedAtMs = nowMs;
		else known.failedAtMs = nowMs;
	}

	/** A check showed that the device runs the bundle: news only where it had not said so. */
	runs(device: number, nowMs: number): void {
		const known = this.#devices.get(device);
		if (known !== undefined && known.installedAtMs <= known.failedAtMs) known.installedAtMs = nowMs;
	}

	get figures() {
		const devices = [...this.#devices.values()];
		const hasTold = ({ installedAtMs, failedAtMs }: ServedDevice) => Math.max(installedAtMs, failedAtMs) > 0;
		const failed = devices.filter((device) => hasTold(device) && device.failedAtMs >= device.installedAtMs).length;
		const told = devices.filter(hasTold).length;
		const inStep = devices.filter(
			({ installedAtMs, failedAtMs }) => Math.max(installedAtMs, failedAtMs) >= this.stepAtMs,
		).length;
		return { served: devices.length, installed: told - failed, failed, silent: devices.length - told, inStep };
	}

	/** What a gate makes of it once the step has lasted long enough. */
	get verdict(): Verdict {
		const { installed, failed, inStep } = this.figures;
		const { limitBps, minAttempts, minFailures, stepMinDevices } = this.gate;
		const limit = limitBps / 10_000;
		const [lower, upper] = wilson(failed, installed + failed);
		if (installed + failed >= minAttempts && failed >= minFailures && lower >= limit) return "stops";
		if (this.#next === undefined) return "at the end";
		return inStep >= stepMinDevices && upper < limit ? "grows" : "waits";
	}

	get #next(): number | undefined {
		return this.gate.steps.find((step) => step > this.percent);
	}

	grow(nowMs: number): void {
		this.percent = this.#next ?? this.percent;
		this.stepAtMs = nowMs;
	}
}

/** Wilson's interval in the form that his paper gives it. */
export function wilson(failed: number, all: number): readonly [number, number] {
	if (all === 0) return [0, 1];
	const share = failed / all;
	const square = DEVIATIONS ** 2;
	const middle = (failed + square / 2) / (all + square);
	const half = (DEVIATIONS * Math.sqrt(all * share * (1 - share) + square / 4)) / (all + square);
	return [middle - half, middle + half];
}
