/**
 * Sentences about rollouts. Pure, so that tests can compare each one with the behaviour of the
 * server.
 */
import type { AnswerOf } from "../../../src/client/client";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/domain/time";
import { momentText } from "./dates";
import { type Health, stateOfRate } from "./health";
import { countOf, countText, percentText, shareText } from "./size";

export type RolloutAnswer = AnswerOf<"GET /channel/rollout">;

/** Devices that count, by their last report. */
export function countsText({ served, installed, failed, silent }: RolloutAnswer["devices"]): string {
	return [
		`${countText(served)} offered`,
		`${countText(installed)} installed`,
		`${countText(failed)} failed`,
		`${countText(silent)} not reported yet`,
	].join(" · ");
}

type Rate = RolloutAnswer["rates"][number];

const RATE_NAMES = { failed: "Failures", crashed: "Crashes", errored: "JavaScript errors" } as const;
const RATE_VERBS = {
	failed: ["failed", "fail"],
	crashed: ["crashed or stopped responding", "do"],
	errored: ["reported JavaScript errors", "do"],
} as const;

export function rateTitle(rate: Rate): string {
	const name = RATE_NAMES[rate.kind];
	const state = stateOfRate(rate);
	if (state === "unknown") return `Too few reports to judge ${rate.kind === "errored" ? name : name.toLowerCase()}.`;
	return `${name} are ${state} the limit.`;
}

/** The observed rate and its upper bound. */
export function rateText({ kind, devices, of, upperBound, limit }: Rate): string {
	const limitText = `The limit is ${percentText(limit * 10_000)}.`;
	if (of === 0) return limitText;
	const [did, does] = RATE_VERBS[kind];
	return `${countText(devices)} of ${countOf(of, "device")} ${did} (${shareText(devices, of)}). Allowing for chance, at most ${roundedUp(upperBound * 100)} % ${does}. ${limitText}`;
}

/** Two digits, rounded up. */
function roundedUp(percent: number): number {
	const step = percent >= 10 ? 1 : 0.1;
	return Math.min(100, Number((Math.ceil(percent / step - 1e-9) * step).toFixed(1)));
}

/** How many devices do not count, and why; undefined if all of them do. */
export function notCountedText(
	{ version, devices, running, notCounted }: RolloutAnswer,
	devicesPerNetwork: number | null,
): string | undefined {
	const { newer, sharedNetwork, more } = notCounted;
	const uncounted = newer + sharedNetwork;
	if (uncounted === 0 && !more) return undefined;
	const others =
		devicesPerNetwork === null
			? "others that count"
			: devicesPerNetwork === 1
				? "another one"
				: `${devicesPerNetwork} others`;
	const reasons = [
		...(newer === 0 ? [] : [`${countText(newer)} ${newer === 1 ? "is" : "are"} newer than the rollout`]),
		...(sharedNetwork === 0
			? []
			: [`${countText(sharedNetwork)} ${sharedNetwork === 1 ? "shares" : "share"} a network with ${others}`]),
	];
	const offered = devices.served + uncounted;
	const counting =
		devices.served === 0
			? "0 count towards health"
			: `${countText(devices.served)} of ${more ? "more than " : ""}${countText(offered)} that were offered it ${devices.served === 1 ? "counts" : "count"} towards health`;
	return `${countOf(running, "device")} ${running === 1 ? "runs" : "run"} ${version ?? "it"}. ${counting}: ${more ? "at least " : ""}${reasons.join(", ")}.`;
}

/** When the share grows next and what is missing; undefined for a manual rollout. */
export function nextStepText({ next, health, devices }: RolloutAnswer, nowMs: number): string | undefined {
	if (next === null || health === null) return undefined;
	const limit = percentText(health.limit * 10_000);
	const step = `Next step (${percentText(next.percentageBps)})`;
	if (next.devicesNeeded === null) {
		return `${step}: never, because no number of reports shows a failure rate below ${limit}. Raise the limit in the rollout settings.`;
	}
	const waitMs = Date.parse(next.at) - nowMs;
	const reported = devices.installed + devices.failed;
	const missing = next.devicesNeeded;
	const rate = `the failure rate stays below ${limit}`;
	const conditions =
		missing === 0
			? rate
			: `${countOf(missing, "more device", "more devices")} ${missing === 1 ? "reports" : "report"} and ${rate}`;
	const isAbove = reported > 0 && devices.failed / reported >= health.limit;
	const progress =
		missing === 0 ? "" : isAbove ? " The failure rate is above that so far." : " Too few reports so far.";
	if (waitMs > 0) return `${step} in ${waitText(waitMs)}, if ${conditions}.${progress}`;
	return missing === 0 ? `${step} within 15 minutes, if ${rate}.` : `${step} as soon as ${conditions}.${progress}`;
}

function waitText(ms: number): string {
	const minutes = Math.max(1, Math.round(ms / 60_000));
	if (minutes < 120) return `${minutes} min`;
	const hours = Math.round(minutes / 60);
	return hours < 48 ? `${hours} hours` : `${Math.round(hours / 24)} days`;
}

/** How long a step lasted, in one unit. */
export function spanText(ms: number): string {
	if (ms < HOUR_MS) return `${Math.max(1, Math.round(ms / MINUTE_MS))} min`;
	return ms < 2 * DAY_MS ? `${Math.round(ms / HOUR_MS)} h` : countOf(Math.round(ms / DAY_MS), "day");
}

export const HEALTH_WORDS: Readonly<Record<Health, string>> = {
	below: "Healthy.",
	unknown: "Too few reports to tell.",
	above: "Too many devices fail.",
};

/** How a rollout goes, and what happens next by itself. */
export function progressText(rollout: RolloutAnswer, nowMs: number): string {
	if (rollout.readyToFinish) return "Every device is offered it. It is ready to finish.";
	const states = rollout.rates.map(stateOfRate);
	const isBelow = states.length > 0 && states.every((state) => state === "below");
	const health = states.includes("above") ? "above" : isBelow ? "below" : "unknown";
	return `${HEALTH_WORDS[health]} ${nextText(rollout, nowMs)}`;
}

/** `today at 13:20`, `on 22 Nov, 13:20`. */
export function onText(time: string, nowMs: number): string {
	const text = momentText(time, nowMs);
	return text.startsWith("today, ") ? text.replace(", ", " at ") : `on ${text}`;
}

/** The next automatic step, with its time and what it waits for. */
export function nextText(rollout: RolloutAnswer | undefined, nowMs: number): string {
	if (rollout === undefined) return "";
	const { next, verdict, percentageBps, steps } = rollout;
	if (steps === null) return `A person sets the share: it stays at ${percentText(percentageBps)} until then.`;
	if (next === null) {
		if (percentageBps < 10_000) return "The last step is reached: a person raises the share or finishes it.";
		return verdict === "finish" ? "It finishes within 15 minutes." : "It finishes by itself, if it stays healthy.";
	}
	const share = percentText(next.percentageBps);
	const waitMs = Date.parse(next.at) - nowMs;
	const missing = next.devicesNeeded;
	if (missing === null) return `It never goes to ${share}: no number of reports shows so few failures.`;
	const reports =
		missing === 0 ? "" : ` and ${countOf(missing, "more device")} ${missing === 1 ? "reports" : "report"}`;
	if (waitMs > 0) {
		return `Goes to ${share} ${onText(next.at, nowMs)}, in ${spanText(waitMs)}, if it stays healthy${reports}.`;
	}
	return missing === 0
		? `Goes to ${share} within 15 minutes, if it stays healthy.`
		: `Goes to ${share} as soon as ${countOf(missing, "more device")} ${missing === 1 ? "reports" : "report"} and it stays healthy.`;
}
