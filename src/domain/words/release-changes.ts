/**
 * Releases out of entries of the audit log: which kind of release an entry is, and its sentence.
 * Messages of webhooks need no more than this, so the names of settings stay in
 * change-sentences.ts, out of the Worker.
 */
import { releaseSentence, type SentencePart, STORE_BUILD } from "./releases";

type Fields = Readonly<Record<string, unknown>>;

export interface ChangeFacts {
	readonly action: string;
	readonly target: { readonly type: string; readonly id: string; readonly name: string | null };
	readonly before: Fields | null;
	readonly after: Fields | null;
	readonly details: Fields;
}

const textOf = (value: unknown) => (typeof value === "string" ? value : null);
const numberOf = (value: unknown) => (typeof value === "number" ? value : null);

/** The kind of a change of what a channel serves; undefined: the entry changes settings only. */
export function releaseKind({ action, target, before, after }: ChangeFacts): string | undefined {
	if (target.type !== "channel" || after === null) return undefined;
	const hasVersion = Object.hasOwn(after, "version");
	if (action === "channel.create") return "created";
	if (action === "channel.rollback") return hasVersion ? "rollback" : "rollout_rolled_back";
	if (action === "channel.rollout_rollback") return "rollout_rolled_back";
	if (action === "channel.rollout_pause") return "rollout_paused";
	if (hasVersion) {
		const isFinished = typeof after.version === "string" && after.version === before?.rolloutVersion;
		return isFinished ? "rollout_finished" : "promotion";
	}
	if (textOf(after.rolloutVersion) !== null) return "rollout_started";
	if (after.rolloutVersion === null) return "rollout_rolled_back";
	if (after.rolloutEnabled === true) return "rollout_started";
	if (after.rolloutEnabled === false) return "rollout_stopped";
	if (Object.hasOwn(after, "rolloutPausedAtMs")) {
		return after.rolloutPausedAtMs === null ? "rollout_resumed" : "rollout_paused";
	}
	if (numberOf(after.rolloutPercentageBps) !== null) {
		const isRaised = Number(after.rolloutPercentageBps) > Number(before?.rolloutPercentageBps ?? 0);
		return isRaised ? "rollout_raised" : "rollout_lowered";
	}
	return undefined;
}

/** Kinds whose bundle is the channel's own; the others are about the bundle of its rollout. */
const OF_CHANNEL = ["created", "promotion", "rollback", "rollout_finished"];

/**
 * The sentence of a release out of what its entry replaced. An entry about a rollout need not name
 * the bundle.
 */
export function releaseOf(
	kind: string,
	{ target, before, after, details }: Omit<ChangeFacts, "action">,
): SentencePart[] {
	const isOfChannel = OF_CHANNEL.includes(kind);
	const isProposal = kind.startsWith("proposal_");
	const rollout = textOf(after?.rolloutVersion) ?? textOf(before?.rolloutVersion) ?? textOf(details.version);
	const proposed = textOf(after?.version) ?? textOf(details.version) ?? rollout ?? textOf(details.rolloutVersion);
	const parts = releaseSentence({
		action: kind,
		channel: { name: target.name ?? target.id, isPreview: false },
		version: isOfChannel ? textOf(after?.version) : isProposal ? proposed : rollout,
		previousVersion: textOf(before?.version),
		rolloutPercentageBps:
			numberOf(after?.rolloutPercentageBps) ??
			numberOf(details.percentage_bps) ??
			numberOf(before?.rolloutPercentageBps),
	});
	return isOfChannel || isProposal || rollout !== null
		? parts
		: parts.map((part) => (part === STORE_BUILD ? "its bundle" : part));
}
