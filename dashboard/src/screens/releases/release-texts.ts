/**
 * Sentences about a release: its state, what happens next by itself, and what each entry of its
 * timeline did. Pure.
 */

import type { AnswerOf } from "../../../../src/client/client";
import { STORE_BUILD } from "../../../../src/domain/words/releases";
import type { Tone } from "../../components/badge";
import { momentText } from "../../components/dates";
import { type Health, stateOfRate } from "../../components/health";
import { HEALTH_WORDS, nextText, onText, type RolloutAnswer } from "../../components/rollout-texts";
import { countText, percentText, roundedShare, shareText } from "../../components/size";

export type Release = AnswerOf<"GET /release">;
export type Rate = NonNullable<Release["failures"]["release"]>;
type Entry = Release["entries"][number];

export const nameOf = (version: string | null) => version ?? STORE_BUILD;

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

/** `8 of 1,460 devices failed (0.5 %)`. */
export function failedText({ failed, of }: Rate, population: Release["failures"]["population"]): string {
	return `${countText(failed)} of ${countText(of)} ${population} failed (${shareText(failed, of)})`;
}

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
