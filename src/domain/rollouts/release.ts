/**
 * The course of a release from the entries of its channel's history: its state, its steps, and when
 * it went live and ended. Pure. At each moment of a channel exactly one release is live, and at
 * most one other is a rollout.
 */

/** Entries after which a bundle, or the store build, is live for every device of the channel. */
export const LIVE_ACTIONS = ["created", "promotion", "rollback", "rollout_finished"] as const;
/** Entries that change the share of a rollout. */
const STEP_ACTIONS: readonly string[] = ["rollout_started", "rollout_raised", "rollout_lowered"];

export const RELEASE_STATES = [
	"off",
	"rolling_out",
	"ready_to_finish",
	"paused",
	"live",
	"replaced",
	"rolled_back",
] as const;
type ReleaseState = (typeof RELEASE_STATES)[number];

interface Entry {
	readonly at_ms: number;
	readonly action: string;
	readonly rollout_percentage_bps: number | null;
	readonly actor_type: string;
}

interface Facts {
	/** Oldest first. */
	readonly entries: readonly Entry[];
	/** The channel's rollout, if it is this release. */
	readonly rollout: { readonly isOn: boolean; readonly isPaused: boolean; readonly isReady: boolean } | undefined;
	/** The entry that made the next release live, if this one was live. */
	readonly next: { readonly action: string; readonly at_ms: number } | undefined;
}

interface Course {
	readonly state: ReleaseState;
	readonly liveAtMs: number | null;
	readonly endedAtMs: number | null;
	/** Who paused the rollout; null unless it is paused. */
	readonly pausedBy: "service" | "person" | null;
}

export function courseOf({ entries, rollout, next }: Facts): Course {
	const liveAtMs = entries.find(({ action }) => (LIVE_ACTIONS as readonly string[]).includes(action))?.at_ms ?? null;
	if (liveAtMs !== null) {
		if (next === undefined) return { state: "live", liveAtMs, endedAtMs: null, pausedBy: null };
		const state = next.action === "rollback" ? "rolled_back" : "replaced";
		return { state, liveAtMs, endedAtMs: next.at_ms, pausedBy: null };
	}
	if (rollout === undefined) {
		const end = entries.at(-1);
		const state = end?.action === "rollout_rolled_back" ? "rolled_back" : "replaced";
		return { state, liveAtMs, endedAtMs: end?.at_ms ?? null, pausedBy: null };
	}
	const open = { liveAtMs, endedAtMs: null };
	if (!rollout.isOn) return { state: "off", pausedBy: null, ...open };
	if (!rollout.isPaused) return { state: rollout.isReady ? "ready_to_finish" : "rolling_out", pausedBy: null, ...open };
	const pause = entries.findLast(({ action }) => action === "rollout_paused");
	return { state: "paused", pausedBy: pause?.actor_type === "system" ? "service" : "person", ...open };
}

export interface Step {
	readonly percentageBps: number;
	readonly fromMs: number;
	/** Null: the present step. */
	readonly untilMs: number | null;
}

/** The shares of devices that the release had, one after the other. A pause is no step. */
export function stepsOf(entries: readonly Entry[], { liveAtMs, endedAtMs }: Course): Step[] {
	const shares: { percentageBps: number; fromMs: number }[] = [];
	for (const { action, at_ms: fromMs, rollout_percentage_bps: percentageBps } of entries) {
		if (!STEP_ACTIONS.includes(action) || percentageBps === null) continue;
		if (shares.at(-1)?.percentageBps !== percentageBps) shares.push({ percentageBps, fromMs });
	}
	return shares.map((share, index) => ({
		...share,
		untilMs: shares[index + 1]?.fromMs ?? liveAtMs ?? endedAtMs,
	}));
}
