/**
 * The health gate of a staged rollout: whether its share of devices may grow, must stop, or waits, and why. Pure: what was counted and
 * the time come in, and the same figures always give the same judgement, so it does not matter who judges or how often.
 *
 * Both bounds of one Wilson interval are used. The share grows only while the upper bound is under the limit: the rollout was shown to
 * be good. It is stopped when the lower bound is at the limit or over it: it was shown to be bad. In between there is too little to say
 * either, and it waits; chance alone neither spreads a bundle nor takes one back.
 */
import { type Interval, wilsonInterval } from "./wilson";

export type FailureAction = "pause" | "rollback" | "notify";

export interface GateSettings {
	/** Whether failures stop the rollout. They do in any case while it takes steps by itself. */
	readonly enabled: boolean;
	readonly limitBps: number;
	/** Two-sided. */
	readonly confidence: number;
	/** Nothing is stopped on fewer devices, or fewer failures. */
	readonly minAttempts: number;
	readonly minFailures: number;
	readonly action: FailureAction;
	readonly cooldownMinutes: number;
	/** Shares to go through, growing; null: a person sets the share. */
	readonly stepsBps: readonly number[] | null;
	readonly stepMinutes: number;
	/** Devices that must have reported since the step began. */
	readonly stepMinDevices: number;
}

/** Devices, each counted once by its last report. */
export interface Evidence {
	readonly installed: number;
	readonly failed: number;
	/** Both of them that reported since the step began. */
	readonly sinceStep: number;
}

export interface RolloutState {
	readonly percentageBps: number;
	readonly stepAtMs: number;
	/** When the gate last acted; null: never in this rollout. */
	readonly triggeredAtMs: number | null;
}

export interface Figures extends Interval {
	readonly attempts: number;
	readonly failures: number;
}

export interface NextStep {
	readonly percentageBps: number;
	/** Not before. */
	readonly atMs: number;
	/** How many more devices must report, if none of them fails; null: no number of reports is enough. */
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
/** An audit entry of `notify` comes no more often, whatever the cooldown. */
const NOTIFY_AGAIN_MS = 60 * MINUTE_MS;

export function judge(gate: GateSettings, state: RolloutState, evidence: Evidence, nowMs: number): Judgement {
	const attempts = evidence.installed + evidence.failed;
	const interval = wilsonInterval(evidence.failed, attempts, gate.confidence);
	const figures: Figures = { attempts, failures: evidence.failed, ...interval };
	const next = nextStep(gate, state, evidence, figures, nowMs);
	if (!gate.enabled && gate.stepsBps === null) {
		return { verdict: "hold", reason: "The health gate is off.", figures, next };
	}
	const limit = gate.limitBps / 10_000;
	const isBad =
		attempts >= Math.max(1, gate.minAttempts) &&
		evidence.failed >= Math.max(1, gate.minFailures) &&
		interval.lower >= limit;
	if (isBad) {
		const reason = `${evidence.failed} of ${attempts} devices failed: with ${exactPercent(gate.confidence)} confidence at least ${percent(interval.lower)} fail, and the limit is ${exactPercent(limit)}.`;
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
	const reason = `${evidence.failed} of ${attempts} devices failed: with ${exactPercent(gate.confidence)} confidence at most ${percent(interval.upper)} fail, and the limit is ${exactPercent(limit)}.`;
	return { verdict: "advance", reason, figures, next };
}

function nextStep(
	gate: GateSettings,
	state: RolloutState,
	evidence: Evidence,
	{ upper }: Figures,
	nowMs: number,
): NextStep | null {
	const percentageBps = gate.stepsBps?.find((step) => step > state.percentageBps);
	if (percentageBps === undefined) return null;
	const atMs = state.stepAtMs + gate.stepMinutes * MINUTE_MS;
	const limit = gate.limitBps / 10_000;
	const missingInStep = Math.max(0, gate.stepMinDevices - evidence.sinceStep);
	const missingForCertainty = reportsUntilSure(gate.confidence, limit, evidence);
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

/** More reports than this are out of reach: no step ever notes as many devices. */
const MOST_REPORTS = 1_000_000;

/** How many more devices without a failure bring the upper bound below the limit; null: more than any rollout sees. */
function reportsUntilSure(confidence: number, limit: number, { installed, failed }: Evidence): number | null {
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

/** An estimate, with the digits that it has. */
function percent(rate: number): string {
	const value = rate * 100;
	return `${Number(value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2))} %`;
}

/** A setting, as it was set. */
function exactPercent(rate: number): string {
	return `${Math.round(rate * 10_000) / 100} %`;
}
