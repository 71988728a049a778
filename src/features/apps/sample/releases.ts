/**
 * The releases of the sample app over the last month: who released what to which channel, when and
 * why. Pure. Two rollouts have not ended: one that a person raises, and one that its health gate
 * paused; the service takes no step of either, so no event follows.
 */
import type { CiContext } from "../../../domain/ci/context";
import { startOfDayMs } from "../../../domain/statistics/days";
import { HOUR_MS } from "../../../domain/time";
import { PREVIEW_VERSION } from "./bundles";

export const PRODUCTION = "production";
export const BETA = "beta";
export const PREVIEW = "pr-52";

const PEOPLE = ["Ada Okafor", "Grace Lindqvist"] as const;
const CI = "GitHub Actions";
type SampleActor = (typeof PEOPLE)[number] | typeof CI | "Capstan";

type Action = ("created" | "promotion" | "rollback") | ("rollout_started" | "rollout_raised" | "rollout_paused");

export interface SampleRelease {
	readonly channel: string;
	readonly daysAgo: number;
	/** UTC. */
	readonly hour: number;
	readonly action: Action;
	readonly version: string;
	readonly bps?: number;
	readonly reason?: string;
	readonly by: SampleActor;
}

/** The rollouts that have not ended, by channel. */
export const ROLLOUTS = {
	[PRODUCTION]: { version: "2.4.0", stable: "2.3.1", bps: 2_500 },
	[BETA]: { version: "2.4.0-beta.1", stable: "2.3.1", bps: 5_000 },
} as const;

const production = (daysAgo: number, hour: number, action: Action, version: string, by: SampleActor, more = {}) => ({
	channel: PRODUCTION,
	daysAgo,
	hour,
	action,
	version,
	by,
	...more,
});
const beta = (...given: Parameters<typeof production>) => ({ ...production(...given), channel: BETA });

/** In the order of time. The pause has the reason of the health gate. */
export const RELEASES: readonly SampleRelease[] = [
	beta(29, 9, "created", "2.1.0", "Ada Okafor"),
	production(28, 10, "created", "2.1.0", "Ada Okafor"),
	production(24, 11, "promotion", "2.1.1", CI),
	beta(21, 16, "promotion", "2.2.0", CI),
	production(19, 9, "promotion", "2.2.0", "Ada Okafor"),
	production(14, 14, "promotion", "2.2.1", CI),
	beta(10, 15, "promotion", "2.3.0", CI),
	production(8, 10, "promotion", "2.3.0", "Grace Lindqvist"),
	production(7, 8, "rollback", "2.2.1", "Ada Okafor", { reason: "Crashes at the start on Android 13" }),
	beta(7, 13, "promotion", "2.3.1", CI),
	production(5, 13, "promotion", "2.3.1", "Grace Lindqvist"),
	beta(4, 9, "rollout_started", "2.4.0-beta.1", "Grace Lindqvist", { bps: ROLLOUTS.beta.bps }),
	beta(3, 11, "rollout_paused", "2.4.0-beta.1", "Capstan", { bps: ROLLOUTS.beta.bps }),
	{ channel: PREVIEW, daysAgo: 3, hour: 12, action: "created", version: PREVIEW_VERSION, by: CI },
	production(2, 9, "rollout_started", "2.4.0", "Ada Okafor", { bps: 1_000 }),
	production(1, 8, "rollout_raised", "2.4.0", "Ada Okafor", { bps: ROLLOUTS.production.bps }),
];

export const releasedAtMs = ({ daysAgo, hour }: Pick<SampleRelease, "daysAgo" | "hour">, today: number): number =>
	startOfDayMs(today - daysAgo) + hour * HOUR_MS;

const GOES_LIVE: readonly Action[] = ["created", "promotion", "rollback"];
export const goesLive = ({ action }: SampleRelease): boolean => GOES_LIVE.includes(action);

const REPOSITORY = "acme/sample-shop";
/** Addresses of example.com lead nowhere. */
const ADDRESS = `https://git.example.com/${REPOSITORY}`;
const FIRST_RUN = 1_841;

export const commitLink = (commit: string): string => `${ADDRESS}/commit/${commit}`;

/** The CI job of a release; undefined for a person. */
export function jobOf({ by, daysAgo, channel }: SampleRelease, commit: string): CiContext | undefined {
	if (by !== CI) return undefined;
	const run_id = String(FIRST_RUN + 30 - daysAgo);
	return {
		provider: "github",
		repository: REPOSITORY,
		repository_id: null,
		run_id,
		run_attempt: "1",
		run_url: `${ADDRESS}/actions/runs/${run_id}`,
		commit,
		ref: "refs/heads/main",
		number: channel === PREVIEW ? 52 : null,
		actor: "grace",
	};
}

/** A type and the part of an id, for the audit columns of the history. */
export function actorTypeOf(by: SampleActor): "user" | "api_key" | "system" {
	return by === CI ? "api_key" : by === "Capstan" ? "system" : "user";
}
