/**
 * The lanes of the app home from the release timeline: which version was live on a channel when.
 * Pure. A time that the known entries do not reach shows the version before the oldest of them.
 */

import type { Lane, RolloutStep, Segment } from "../../charts/lanes-model";
import type { Channel } from "../../components/channel-badges";
import { percentText } from "../../components/size";
import type { Release } from "../../releases";

const GOES_LIVE = ["created", "promotion", "rollback", "rollout_finished"];
const SETS_SHARE = ["rollout_started", "rollout_raised", "rollout_lowered", "rollout_resumed"];
const STORE = "builtin";

interface LaneRange {
	readonly fromMs: number;
	readonly toMs: number;
}

/** @param releases newest first, as the API answers them */
export function laneOf(
	channel: Channel,
	releases: readonly Release[],
	{ fromMs, toMs }: LaneRange,
	to: string,
	note: string,
): Lane {
	const own = releases.filter((release) => release.channel.name === channel.name).reverse();
	const changes = own.filter(({ action }) => GOES_LIVE.includes(action));
	const segments: Segment[] = [];
	const [oldest] = changes;
	const live = channel.version?.name ?? STORE;
	let version =
		oldest === undefined ? live : oldest.action === "created" ? undefined : (oldest.previous_version ?? STORE);
	let sinceMs = fromMs;
	const end = (atMs: number) => {
		if (version !== undefined && atMs > sinceMs) segments.push({ version, fromMs: sinceMs, toMs: atMs });
	};
	for (const change of changes) {
		const atMs = Math.max(fromMs, Date.parse(change.at));
		end(atMs);
		version = change.version ?? STORE;
		sinceMs = atMs;
	}
	end(toMs);
	const rollout = channel.rolloutEnabled ? channel.rollout_version_info?.name : undefined;
	return {
		name: channel.name,
		note,
		segments,
		now: channel.version?.name ?? "Store build",
		to,
		...(rollout === undefined
			? {}
			: {
					nowNote: `${rollout} at ${percentText(channel.rolloutPercentageBps)}`,
					rollout: { version: rollout, steps: stepsOf(own, rollout, { fromMs, toMs }) },
				}),
	};
}

function stepsOf(own: readonly Release[], rollout: string, { fromMs, toMs }: LaneRange): RolloutStep[] {
	const shares = own.filter(({ action, version }) => version === rollout && SETS_SHARE.includes(action));
	return shares.map(({ at, rollout_percentage_bps }, index) => ({
		percent: (rollout_percentage_bps ?? 0) / 100,
		fromMs: Math.max(fromMs, Date.parse(at)),
		toMs: Date.parse(shares[index + 1]?.at ?? new Date(toMs).toISOString()),
	}));
}
