/**
 * Sentences about releases: the one place that says what happened to a channel, for screens, the
 * command line and messages. A sentence is a list of parts, so that a screen can link versions and
 * channels; the person or program that acted stands before it.
 */

export type SentencePart = string | { readonly version: string } | { readonly channel: string };

export interface ReleaseFacts {
	readonly action: string;
	/** Undefined: the reader knows the channel. */
	readonly channel: { readonly name: string; readonly isPreview: boolean } | undefined;
	/** Null: the store build. */
	readonly version: string | null;
	readonly previousVersion: string | null;
	readonly rolloutPercentageBps: number | null;
}

export const STORE_BUILD = "the store build";
/** The actor of automatic steps. */
export const SERVICE_NAME = "Capstan";

/** Basis points as a share: `25 %`, with a no-break space. */
export const shareText = (bps: number) => `${bps / 100}\u00a0%`;

/** The platforms of a channel. */
export function platformNames(channel: Readonly<Record<"ios" | "android" | "electron", boolean>>): string[] {
	const { ios, android, electron } = channel;
	return [ios && "iOS", android && "Android", electron && "Electron"].filter((name) => name !== false);
}

/** E.g. `raised the rollout of 2.4.0 on production to 25 %`. */
export function releaseSentence(facts: ReleaseFacts): SentencePart[] {
	const { action, channel, previousVersion, rolloutPercentageBps } = facts;
	const version: SentencePart = facts.version === null ? STORE_BUILD : { version: facts.version };
	const previous = previousVersion ?? STORE_BUILD;
	const share = shareText(rolloutPercentageBps ?? 0);
	const name: readonly SentencePart[] = channel === undefined ? ["the channel"] : [{ channel: channel.name }];
	const on: readonly SentencePart[] = channel === undefined ? [] : [" on ", { channel: channel.name }];
	const rollout: readonly SentencePart[] = ["the rollout of ", version, ...on];
	switch (action) {
		case "created":
			if (channel?.isPreview === true) return ["opened the preview ", ...name];
			return facts.version === null ? ["created ", ...name] : ["created ", ...name, " with ", version];
		case "promotion":
			if (facts.version === null) return ["returned ", ...name, " to ", STORE_BUILD];
			if (channel?.isPreview === true) return ["updated the preview ", ...name, " to ", version];
			return channel === undefined
				? ["released ", version, " to every device"]
				: ["released ", version, " to ", ...name];
		case "rollback":
			return channel === undefined
				? ["rolled back from ", previous, " to ", version]
				: ["rolled ", ...name, " back from ", previous, " to ", version];
		case "rollout_prepared":
			return ["prepared ", ...rollout, " at ", share];
		case "rollout_started":
			return ["started ", ...rollout, " at ", share];
		case "rollout_raised":
			return ["raised ", ...rollout, " to ", share];
		case "rollout_lowered":
			return ["lowered ", ...rollout, " to ", share];
		case "rollout_paused":
			return ["paused ", ...rollout, " at ", share];
		case "rollout_resumed":
			return ["resumed ", ...rollout, " at ", share];
		case "rollout_stopped":
			return ["turned off ", ...rollout];
		case "rollout_finished":
			return ["finished ", ...rollout, ", now on every device"];
		case "rollout_rolled_back":
			return ["rolled back ", ...rollout, " at ", share];
		case "rollout_replaced":
			return ["ended ", ...rollout, " for another bundle"];
		case "rollout_failing":
			return ["found too many failures in ", ...rollout];
		case "proposal_approved":
			return ["approved the proposal for ", ...name];
		case "proposal_created":
			return ["proposed ", version, " for ", ...name];
		case "proposal_rejected":
			return ["rejected ", version, " for ", ...name];
		case "proposal_withdrawn":
			return ["withdrew the proposal of ", version, " for ", ...name];
		default:
			return [`${action.replaceAll("_", " ")} `, version, ...on];
	}
}

export const plainSentence = (parts: readonly SentencePart[]): string =>
	parts.map((part) => (typeof part === "string" ? part : "version" in part ? part.version : part.channel)).join("");

/** The commit of a link to GitHub, GitLab, Bitbucket or Gitea. */
export function commitOfLink(link: string | null): string | null {
	return /\/commits?\/([0-9a-f]{7,64})(?:[/?#]|$)/i.exec(link ?? "")?.[1]?.toLowerCase() ?? null;
}
