/**
 * The health gate of a staged rollout: decides whether the share of devices grows, stops or waits, with the reason. Pure: the same samples
 * at the same time give the same judgement, so several isolates may judge one rollout.
 *
 * It uses both bounds of a Wilson interval. The share grows only if the upper bound of the failure rate is below the limit, and the rollout
 * stops if the lower bound reaches the limit. Otherwise there are too few reports and the rollout waits, so chance neither grows nor stops it.
 */
import { type Interval, wilsonInterval } from "./wilson";

export type FailureAction = "pause" | "rollback" | "notify";

export interface GateSettings {
	/** Whether failures stop the rollout. With automatic steps they always do. */
	readonly enabled: boolean;
	readonly limitBps: number;
	/** Two-sided. */
	readonly confidence: number;
	/** A rollout with fewer devices or fewer failures is not stopped. */
	readonly minAttempts: number;
	readonly minFailures: number;
	readonly action: FailureAction;
	readonly cooldownMinutes: number;
	/** Growing shares; null: a person sets the share. */
	readonly stepsBps: readonly number[] | null;
	readonly stepMinutes: number;
	/** Devices that must have reported since the step began. */
	readonly stepMinDevices: number;
}

/** Devices, each counted once by its last report. */
export interface HealthSamples {
	readonly installed: number;
	readonly failed: number;
	/** Devices of both kinds that reported since the step began. */
	readonly sinceStep: number;
}

export interface RolloutState {
	readonly percentageBps: number;
	readonly stepAtMs: number;
	/** Last action of the gate; null: none in this rollout. */
	readonly triggeredAtMs: number | null;
}

export interface Figures extends Interval {
	readonly attempts: number;
	readonly failures: number;
}

export interface NextStep {
	readonly percentageBps: number;
	/** Earliest time of the step. */
	readonly atMs: number;
	/** Further devices that must report, if none of them fails; null: no number is enough. */
	readonly devicesNeeded: number | null;
	/** Unmet conditions; if empty, the step may be taken. */
	readonly waitingFor: readonly string[];
}

export interface Judgement {
	readonly verdict: "hold" | "advance" | FailureAction;
	readonly reason: string;
	readonly figures: Figures;
	readonly next: NextStep | null;
}

const MINUTE_MS = 60_000;
/** Minimum time between two notices, also with a shorter cooldown. */
const NOTIFY_AGAIN_MS = 60 * MINUTE_MS;

export function judge(gate: GateSettings, state: RolloutState, samples: HealthSamples, nowMs: number): Judgement {
	const attempts = samples.installed + samples.failed;
	const interval = wilsonInterval(samples.failed, attempts, gate.confidence);
	const figures: Figures = { attempts, failures: samples.failed, ...interval };
	const next = nextStep(gate, state, samples, figures, nowMs);
	if (!gate.enabled && gate.stepsBps === null) {
		return { verdict: "hold", reason: "The health gate is off.", figures, next };
	}
	const limit = gate.limitBps / 10_000;
	const isBad =
		attempts >= Math.max(1, gate.minAttempts) &&
		samples.failed >= Math.max(1, gate.minFailures) &&
		interval.lower >= limit;
	if (isBad) {
		const reason = `${samples.failed} of ${attempts} devices failed: with ${exactPercent(gate.confidence)} confidence at least ${percent(interval.lower)} fail, and the limit is ${exactPercent(limit)}.`;
		const quietMs = Math.max(gate.cooldownMinutes * MINUTE_MS, gate.action === "notify" ? NOTIFY_AGAIN_MS : 0);
		const isQuiet = state.triggeredAtMs !== null && nowMs < state.triggeredAtMs + quietMs;
		return { verdict: isQuiet ? "hold" : gate.action, reason, figures, next };
	}
	if (next === null) {
		const reason =
			gate.stepsBps === null
				? "You set the share of devices; it does not grow by itself."
				: "The last step is reached.";
		return { verdict: "hold", reason, figures, next };
	}
	if (next.waitingFor.length > 0) {
		return { verdict: "hold", reason: `Waiting for ${next.waitingFor.join(", and for ")}.`, figures, next };
	}
	const reason = `${samples.failed} of ${attempts} devices failed: with ${exactPercent(gate.confidence)} confidence at most ${percent(interval.upper)} fail, and the limit is ${exactPercent(limit)}.`;
	return { verdict: "advance", reason, figures, next };
}

function nextStep(
	gate: GateSettings,
	state: RolloutState,
	samples: HealthSamples,
	{ upper }: Figures,
	nowMs: number,
): NextStep | null {
	const percentageBps = gate.stepsBps?.find((step) => step > state.percentageBps);
	if (percentageBps === undefined) return null;
	const atMs = state.stepAtMs + gate.stepMinutes * MINUTE_MS;
	const limit = gate.limitBps / 10_000;
	const missingInStep = Math.max(0, gate.stepMinDevices - samples.sinceStep);
	const missingForCertainty = reportsUntilSure(gate.confidence, limit, samples);
	const waitingFor: string[] = [];
	if (nowMs < atMs) waitingFor.push(`the end of this step, which lasts ${gate.stepMinutes} minutes`);
	if (missingInStep > 0) waitingFor.push(`${missingInStep} more devices to report in this step`);
	if (upper >= limit) {
		waitingFor.push(
			missingForCertainty === null
				? `a failure rate below ${exactPercent(limit)}, which no number of reports can show`
				: `${missingForCertainty} more devices to report without a failure, which would show that fewer than ${exactPercent(limit)} fail`,
		);
	}
	const devicesNeeded = missingForCertainty === null ? null : Math.max(missingInStep, missingForCertainty);
	return { percentageBps, atMs, devicesNeeded, waitingFor };
}

/** No step records as many devices. */
const MOST_REPORTS = 1_000_000;

/** Further devices without a failure that bring the upper bound below the limit; null: more than `MOST_REPORTS`. */
function reportsUntilSure(confidence: number, limit: number, { installed, failed }: HealthSamples): number | null {
	const isSure = (more: number) => wilsonInterval(failed, installed + failed + more, confidence).upper < limit;
	if (isSure(0)) return 0;
	if (!isSure(MOST_REPORTS)) return null;
	let [tooFew, enough] = [0, MOST_REPORTS];
	while (enough - tooFew > 1) {
		const middle = Math.floor((tooFew + enough) / 2);
		if (isSure(middle)) enough = middle;
		else tooFew = middle;
	}
	return enough;
}

/** An estimate, rounded to its precision. */
function percent(rate: number): string {
	const value = rate * 100;
	return `${Number(value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2))} %`;
}

/** A setting, without rounding. */
function exactPercent(rate: number): string {
	return `${Math.round(rate * 10_000) / 100} %`;
}
