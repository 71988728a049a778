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
	/** Devices that must have told of the bundle since the step began. */
	readonly stepMinDevices: number;
}

/** Devices, each counted once by what came of it last. */
export interface Evidence {
	readonly installed: number;
	readonly failed: number;
	/** Those of both that told so since the step began. */
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
	/** What is not fulfilled yet; empty: it may be taken. */
	readonly waitingFor: readonly string[];
}

export interface Judgement {
	readonly verdict: "hold" | "advance" | FailureAction;
	readonly reason: string;
	readonly figures: Figures;
	readonly next: NextStep | null;
}

const MINUTE_MS = 60_000;
/** Told again no sooner, whatever the cooldown. */
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
		const reason = `${evidence.failed} of ${attempts} devices failed; with ${percent(gate.confidence)} confidence at least ${percent(interval.lower)} do, and the limit is ${percent(limit)}.`;
		const quietMs = Math.max(gate.cooldownMinutes * MINUTE_MS, gate.action === "notify" ? NOTIFY_AGAIN_MS : 0);
		const isQuiet = state.triggeredAtMs !== null && nowMs < state.triggeredAtMs + quietMs;
		return { verdict: isQuiet ? "hold" : gate.action, reason, figures, next };
	}
	if (next === null) {
		const reason = gate.stepsBps === null ? "A person sets the share of devices." : "The last step is reached.";
		return { verdict: "hold", reason, figures, next };
	}
	if (next.waitingFor.length > 0) {
		return { verdict: "hold", reason: `Waiting for ${next.waitingFor.join(", and for ")}.`, figures, next };
	}
	const reason = `${evidence.failed} of ${attempts} devices failed; with ${percent(gate.confidence)} confidence at most ${percent(interval.upper)} do, and the limit is ${percent(limit)}.`;
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
	const waitingFor: string[] = [];
	if (nowMs < atMs) waitingFor.push(`the end of the ${gate.stepMinutes} minutes of this step`);
	if (evidence.sinceStep < gate.stepMinDevices) {
		waitingFor.push(`${gate.stepMinDevices - evidence.sinceStep} more devices to tell of the bundle in this step`);
	}
	if (upper >= limit) {
		waitingFor.push(
			`more certainty: up to ${percent(upper)} of the devices may fail, and the limit is ${percent(limit)}`,
		);
	}
	return { percentageBps, atMs, waitingFor };
}

function percent(rate: number): string {
	return `${Math.round(rate * 10_000) / 100} %`;
}
