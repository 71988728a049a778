/**
 * The health gate of a staged rollout: decides whether the share of devices grows, stops or waits,
 * with the reason. Pure: the same samples at the same time give the same judgement, so several
 * isolates may judge one rollout.
 *
 * It uses both bounds of a Wilson interval. The share grows only if the upper bound of the failure
 * rate is below the limit, and the rollout stops if the lower bound reaches the limit. Otherwise
 * there are too few reports and the rollout waits, so chance neither grows nor stops it. While
 * reports are delayed it does not grow either, because failures may be among them.
 */
import { MINUTE_MS } from "../time";
import { type Interval, wilsonInterval } from "./wilson";

type FailureAction = "pause" | "rollback" | "notify";

export interface GateSettings {
	/** Whether failures stop the rollout. With automatic steps they always do. */
	readonly enabled: boolean;
	readonly limitBps: number;
	/**
	 * Limit on devices that installed the bundle and crashed or stopped responding; null: not
	 * judged.
	 */
	readonly crashLimitBps: number | null;
	/** Limit on devices that installed the bundle and reported JavaScript errors; null: not judged. */
	readonly errorLimitBps: number | null;
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
	/** Installed devices. */
	readonly crashed: number;
	readonly errored: number;
	/** Installed and failed devices that reported since the step began. */
	readonly sinceStep: number;
}

interface RolloutState {
	readonly percentageBps: number;
	readonly stepAtMs: number;
	/** Last action of the gate; null: none in this rollout. */
	readonly triggeredAtMs: number | null;
	/** Reports wait in the queue; by the time of the oldest one. */
	readonly delayedReports?: { readonly sinceMs: number } | undefined;
}

export interface Figures extends Interval {
	readonly attempts: number;
	readonly failures: number;
}

/** A share of devices that has a limit. */
interface JudgedRate {
	readonly kind: "failed" | "crashed" | "errored";
	readonly devices: number;
	readonly of: number;
	readonly limit: number;
	readonly interval: Interval;
}

interface NextStep {
	readonly percentageBps: number;
	/** Earliest time of the step. */
	readonly atMs: number;
	/** Further devices that must report, if none of them fails; null: no number is enough. */
	readonly devicesNeeded: number | null;
	/** Unmet conditions; if empty, the step may be taken. */
	readonly waitingFor: readonly string[];
}

export interface Judgement {
	readonly verdict: "hold" | "advance" | "finish" | FailureAction;
	readonly reason: string;
	readonly figures: Figures;
	/** The rates that have a limit: failed installs first. */
	readonly rates: readonly JudgedRate[];
	readonly next: NextStep | null;
}

/** Verbs after a number of devices. */
const WHAT_HAPPENED = {
	failed: "failed",
	crashed: "crashed or stopped responding",
	errored: "reported JavaScript errors",
} as const;
const WITHOUT = { failed: "a failure", crashed: "a crash", errored: "a JavaScript error" } as const;
const DO = { failed: "fail", crashed: "do", errored: "do" } as const;

/** Minimum time between two notices, also with a shorter cooldown. */
const NOTIFY_AGAIN_MS = 60 * MINUTE_MS;

export function judge(gate: GateSettings, state: RolloutState, samples: HealthSamples, nowMs: number): Judgement {
	const attempts = samples.installed + samples.failed;
	const rates = judgedRates(gate, samples);
	const figures: Figures = {
		attempts,
		failures: samples.failed,
		...wilsonInterval(samples.failed, attempts, gate.confidence),
	};
	const next = nextStep(gate, state, samples, rates, nowMs);
	const judged = { figures, rates, next };
	if (!gate.enabled && gate.stepsBps === null) {
		return { verdict: "hold", reason: "The health gate is off.", ...judged };
	}
	const bad = rates.find(
		({ devices, of, limit, interval }) =>
			of >= Math.max(1, gate.minAttempts) && devices >= Math.max(1, gate.minFailures) && interval.lower >= limit,
	);
	const sentence = ({ kind, devices, of, limit, interval }: JudgedRate, bound: "lower" | "upper") =>
		`${devices} of ${of} devices ${WHAT_HAPPENED[kind]}: with ${exactPercent(gate.confidence)} confidence at ${bound === "lower" ? "least" : "most"} ${percent(interval[bound])} ${DO[kind]}, and the limit is ${exactPercent(limit)}.`;
	if (bad !== undefined) {
		const quietMs = Math.max(gate.cooldownMinutes * MINUTE_MS, gate.action === "notify" ? NOTIFY_AGAIN_MS : 0);
		const isQuiet = state.triggeredAtMs !== null && nowMs < state.triggeredAtMs + quietMs;
		return { verdict: isQuiet ? "hold" : gate.action, reason: sentence(bad, "lower"), ...judged };
	}
	if (next === null) {
		if (gate.stepsBps === null) {
			const reason = isFull(state)
				? "Every device is offered the bundle. The rollout is ready to finish, which makes the bundle stable."
				: "You set the share of devices; it does not grow by itself.";
			return { verdict: "hold", reason, ...judged };
		}
		if (!isFull(state))
			return {
				verdict: "hold",
				reason: "The last step is reached; a person raises the share or finishes the rollout.",
				...judged,
			};
		const { waitingFor } = conditionsOfStep(gate, state, samples, rates, nowMs);
		if (waitingFor.length > 0) {
			const reason = `Waiting for ${waitingFor.join(", and for ")}. Then the rollout finishes, and its bundle becomes stable.`;
			return { verdict: "hold", reason, ...judged };
		}
		return { verdict: "finish", reason: rates.map((rate) => sentence(rate, "upper")).join(" "), ...judged };
	}
	if (next.waitingFor.length > 0) {
		return { verdict: "hold", reason: `Waiting for ${next.waitingFor.join(", and for ")}.`, ...judged };
	}
	return { verdict: "advance", reason: rates.map((rate) => sentence(rate, "upper")).join(" "), ...judged };
}

function judgedRates(gate: GateSettings, { installed, failed, crashed, errored }: HealthSamples): JudgedRate[] {
	const rate = (kind: JudgedRate["kind"], devices: number, of: number, limitBps: number | null): JudgedRate[] =>
		limitBps === null
			? []
			: [{ kind, devices, of, limit: limitBps / 10_000, interval: wilsonInterval(devices, of, gate.confidence) }];
	return [
		...rate("failed", failed, installed + failed, gate.limitBps),
		...rate("crashed", crashed, installed, gate.crashLimitBps),
		...rate("errored", errored, installed, gate.errorLimitBps),
	];
}

function nextStep(
	gate: GateSettings,
	state: RolloutState,
	samples: HealthSamples,
	rates: readonly JudgedRate[],
	nowMs: number,
): NextStep | null {
	const percentageBps = gate.stepsBps?.find((step) => step > state.percentageBps);
	if (percentageBps === undefined) return null;
	return { percentageBps, ...conditionsOfStep(gate, state, samples, rates, nowMs) };
}

const isFull = ({ percentageBps }: RolloutState): boolean => percentageBps >= 10_000;

/** Conditions of the present step for the next one, or for the end of the rollout. */
function conditionsOfStep(
	gate: GateSettings,
	state: RolloutState,
	samples: HealthSamples,
	rates: readonly JudgedRate[],
	nowMs: number,
): Omit<NextStep, "percentageBps"> {
	const atMs = state.stepAtMs + gate.stepMinutes * MINUTE_MS;
	const missingInStep = Math.max(0, gate.stepMinDevices - samples.sinceStep);
	const waitingFor: string[] = [];
	if (nowMs < atMs) waitingFor.push(endOfStep(gate.stepMinutes));
	if (missingInStep > 0) waitingFor.push(`${missingInStep} more devices to report in this step`);
	if (state.delayedReports !== undefined) waitingFor.push(delayText(state.delayedReports, nowMs));
	let devicesNeeded: number | null = missingInStep;
	for (const rate of rates) {
		const missing = reportsUntilSure(gate.confidence, rate);
		devicesNeeded = missing === null || devicesNeeded === null ? null : Math.max(devicesNeeded, missing);
		if (rate.interval.upper < rate.limit) continue;
		const [what, limit] = [rate.kind, exactPercent(rate.limit)];
		waitingFor.push(
			missing === null
				? `a ${what === "failed" ? "failure" : what === "crashed" ? "crash" : "JavaScript error"} rate below ${limit}, which no number of reports can show`
				: `${missing} more devices to report without ${WITHOUT[what]}, which would show that fewer than ${limit} ${DO[what]}`,
		);
	}
	return { atMs, devicesNeeded, waitingFor };
}

/** A reason to wait. */
export const endOfStep = (minutes: number) => `the end of this step, which lasts ${minutes} minutes`;

function delayText(delayed: NonNullable<RolloutState["delayedReports"]>, nowMs: number): string {
	const minutes = Math.round((nowMs - delayed.sinceMs) / MINUTE_MS);
	return `delayed reports of devices, the oldest of which has waited ${minutes} minutes`;
}

/** No step records as many devices. */
const MOST_REPORTS = 1_000_000;

/**
 * Further devices without a failure that bring the upper bound below the limit;
 * null: more than `MOST_REPORTS`.
 */
function reportsUntilSure(confidence: number, { devices, of, limit }: JudgedRate): number | null {
	const isSure = (more: number) => wilsonInterval(devices, of + more, confidence).upper < limit;
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
