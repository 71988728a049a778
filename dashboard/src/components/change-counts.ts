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

/** A group of devices that do not get the bundle. */
export interface Unreached {
	/** The refusal; `pinned`: another bundle is set for these devices. */
	readonly code: string;
	readonly reason: string;
	readonly devices: number;
	/** The ids of some of them. */
	readonly examples: readonly string[];
}

const PINNED = "pinned";
const wordsOf = (code: string) => (code === PINNED ? "a bundle is set for the device itself" : refusalWords(code));

/**
 * Devices of the channel that do not get its bundle, by reason: a rule or an error keeps them from
 * it.
 * @param version of the bundle that is released; with it also devices for which another one is set
 */
export function unreachedOf({ outcomes }: Plan, channel: string, version?: string): readonly Unreached[] {
	const groups = new Map<string, { devices: number; readonly examples: string[] }>();
	for (const { after, devices, examples } of outcomes) {
		const isRefused = after.kind === "blocked" || after.kind === "failed";
		const isPinned = version !== undefined && after.pinned && after.version !== version;
		if (after.channel !== channel || !(isRefused || isPinned)) continue;
		const code = isPinned ? PINNED : (after.error ?? "");
		const group = groups.get(code) ?? { devices: 0, examples: [] };
		group.devices += devices;
		group.examples.push(...examples);
		groups.set(code, group);
	}
	return [...groups]
		.map(([code, group]) => ({ code, reason: wordsOf(code), ...group }))
		.sort((left, right) => right.devices - left.devices);
}
