/**
 * Sentences about a release: its state, what happens next by itself, and what each entry of its
 * timeline did. Pure.
 */

import type { AnswerOf } from "../../../../src/client/client";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../../src/domain/time";
import { STORE_BUILD } from "../../../../src/domain/words/releases";
import type { Tone } from "../../components/badge";
import { type Health, stateOfRate } from "../../components/health";
import { countOf, countText, percentText, shareText } from "../../components/size";
import type { RolloutAnswer } from "../rollouts/rollout-texts";

export type Release = AnswerOf<"GET /release">;
export type Rate = NonNullable<Release["failures"]["release"]>;
type Entry = Release["entries"][number];

const moment = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const farDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** `21 Nov, 14:05`; `today, 14:05`; `21 Nov 2025` in another year. Local time. */
export function momentText(value: string, nowMs: number): string {
	const [at, now] = [new Date(value), new Date(nowMs)];
	if (at.toDateString() === now.toDateString()) return `today, ${clock.format(at)}`;
	return at.getFullYear() === now.getFullYear() ? moment.format(at) : farDay.format(at);
}

export const nameOf = (version: string | null) => version ?? STORE_BUILD;

/** How long a step lasted, in one unit. */
export function spanText(ms: number): string {
	if (ms < HOUR_MS) return `${Math.max(1, Math.round(ms / MINUTE_MS))} min`;
	return ms < 2 * DAY_MS ? `${Math.round(ms / HOUR_MS)} h` : countOf(Math.round(ms / DAY_MS), "day");
}

/** The badge beside the title. A release that was replaced is nothing special. */
export function stateBadge({ state, percentage_bps: bps, paused_by }: Release): readonly [string, Tone | undefined] {
	switch (state) {
		case "off":
			return ["Off", undefined];
		case "rolling_out":
			return [`Rolling out, ${percentText(bps)}`, "info"];
		case "ready_to_finish":
			return ["Ready to finish", "info"];
		case "paused":
			return [`Paused at ${percentText(bps)}`, paused_by === "service" ? "bad" : "warn"];
		case "live":
			return ["Live", "ok"];
		case "replaced":
			return ["Replaced", undefined];
		case "rolled_back":
			return ["Rolled back", undefined];
	}
}

/** Whether the failures of the release are surely below or above the channel's limit. */
export function healthOf({ failures: { release, limit } }: Release): Health {
	return release === null ? "unknown" : stateOfRate({ limit, ...release });
}

/** The first sentence of the page: how it goes, and what happens next by itself. */
export function headline(release: Release, rollout: RolloutAnswer | undefined, nowMs: number): string {
	const { version, state, live_at, ended_at, after, channel } = release;
	const name = nameOf(version);
	const when = (time: string | null) => (time === null ? "" : ` ${onText(time, nowMs)}`);
	switch (state) {
		case "off":
			return `The rollout is switched off. No device of ${channel.name} gets ${name}.`;
		case "paused":
			return `No further device gets ${name}. Devices that run it keep it.`;
		case "ready_to_finish":
			return `Every device of ${channel.name} is offered ${name}. It is ready to finish.`;
		case "rolling_out":
			return `${HEALTH_WORDS[healthOf(release)]} ${nextText(rollout, nowMs)}`;
		case "live":
			return `${name} is live on ${channel.name}${live_at === null ? "" : ` since ${momentText(live_at, nowMs)}`}.`;
		case "replaced":
			return after === null
				? `${name} was replaced${when(ended_at)}.`
				: `${name} was replaced by ${nameOf(after.version)}${when(ended_at)}.`;
		case "rolled_back":
			return `${channel.name} was rolled back from ${name} to ${nameOf(after?.version ?? null)}${when(ended_at)}.`;
	}
}

const HEALTH_WORDS: Readonly<Record<Health, string>> = {
	below: "Healthy.",
	unknown: "Too few reports to tell.",
	above: "Too many devices fail.",
};

/** `today at 13:20`, `on 22 Nov, 13:20`. */
function onText(time: string, nowMs: number): string {
	const text = momentText(time, nowMs);
	return text.startsWith("today, ") ? text.replace(", ", " at ") : `on ${text}`;
}

/** The next automatic step, with its time and what it waits for. */
function nextText(rollout: RolloutAnswer | undefined, nowMs: number): string {
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

/** `8 of 1,460 devices failed (0.5 %)`. */
export function failedText({ failed, of }: Rate, population: Release["failures"]["population"]): string {
	return `${countText(failed)} of ${countText(of)} ${population} failed (${shareText(failed, of)})`;
}

/** Two digits at most. */
export const roundedShare = (share: number) => `${Number((share * 100).toPrecision(2))}\u00a0%`;

/** The range that chance allows, beside the release before. */
export function chanceText({ failures: { release, before, population }, before: former }: Release): string {
	if (release === null) return `No ${population === "devices" ? "device that counts" : "install"} was reported yet.`;
	const most = `Allowing for chance, at most ${roundedShare(release.upperBound)} fail`;
	if (former === null || former.version === null) return `${most}.`;
	if (before === null) {
		return population === "devices"
			? `${most}. The devices of ${former.version} were not counted in steps, so there is no comparison.`
			: `${most}. No installs of ${former.version} are known to compare with.`;
	}
	if (release.lowerBound > before.upperBound) return `${most}: surely more than of ${former.version}.`;
	if (release.upperBound < before.lowerBound) return `${most}: surely fewer than of ${former.version}.`;
	return `${most}. The range overlaps that of ${former.version}: no sign that more fail.`;
}

/** The act of the entry, after the name of the person or program. */
export function entryText({ action, version, previous_version, rollout_percentage_bps: bps }: Entry): string {
	const share = percentText(bps ?? 0);
	switch (action) {
		case "created":
			return version === null ? "created the channel" : "created the channel with it";
		case "promotion":
			return version === null ? `returned the channel to ${STORE_BUILD}` : "released it to every device";
		case "rollback":
			return `rolled back to it from ${nameOf(previous_version)}`;
		case "rollout_prepared":
			return `prepared it for ${share}`;
		case "rollout_started":
			return `released it to ${share}`;
		case "rollout_stopped":
			return "switched the rollout off";
		case "rollout_raised":
			return `rolled it out to ${share}`;
		case "rollout_lowered":
			return `lowered it to ${share}`;
		case "rollout_paused":
			return `paused it at ${share}`;
		case "rollout_resumed":
			return `continued it at ${share}`;
		case "rollout_finished":
			return "finished the rollout";
		case "rollout_rolled_back":
			return `rolled back to ${nameOf(previous_version)}`;
		case "rollout_replaced":
			return "ended it for another release";
	}
}
