/**
 * Counts of a dry run of a channel change: which devices change version, from which one, and which
 * devices a rule keeps from the bundle. Pure, so that every dialog counts in the same way.
 */
import { EFFECT_DAYS } from "../../../src/domain/defaults";
import { refusalWords } from "../../../src/domain/updates/refusals";
import type { AnswerOf } from "../api";
import { countOf, countText, shareText } from "./size";

export type Plan = AnswerOf<"POST /channel/what_if">;
type Decided = Plan["outcomes"][number]["after"];

export function titleOf({ devices, sampled }: Plan, moving: number): string {
	if (devices === 0) return `No device was seen in the last ${EFFECT_DAYS} days`;
	if (moving === 0) return "No device will change version";
	return sampled
		? `About ${shareText(moving, devices)} of the devices will change version`
		: `${countText(moving)} of ${countOf(devices, "device")} will change version`;
}

export const isSameVersion = (one: Decided, other: Decided) =>
	one.outcome === other.outcome && one.version === other.version;

/** Devices that change version at their next check, largest groups first. */
export function movesOf({ outcomes }: Plan) {
	const moves = new Map<string, { readonly key: string; readonly text: string; devices: number }>();
	for (const { before, after, devices } of outcomes) {
		if (after.outcome === "none" || isSameVersion(before, after)) continue;
		const to = after.outcome === "builtin" ? "back to the store build" : `get ${after.version}`;
		const instead =
			before.outcome === "none"
				? ""
				: before.outcome === "builtin"
					? " instead of the store build"
					: ` instead of ${before.version}`;
		const text = `${to}${instead}`;
		const move = moves.get(text) ?? { key: text, text, devices: 0 };
		move.devices += devices;
		moves.set(text, move);
	}
	return [...moves.values()].sort((left, right) => right.devices - left.devices);
}

/** Devices of the channel that a rule or an error keeps from its bundle, by reason. */
export function unreachedOf({ outcomes }: Plan, channel: string) {
	const reasons = new Map<string, number>();
	for (const { after, devices } of outcomes) {
		if (after.channel !== channel || (after.kind !== "blocked" && after.kind !== "failed")) continue;
		const reason = refusalWords(after.error ?? "");
		reasons.set(reason, (reasons.get(reason) ?? 0) + devices);
	}
	return [...reasons]
		.map(([reason, devices]) => ({ reason, devices }))
		.sort((left, right) => right.devices - left.devices);
}
