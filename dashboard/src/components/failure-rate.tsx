/**
 * Failed installs in a row of a list, with their state against the limit of a channel. Installs are
 * attempts that devices reported, as in the statistics.
 */
import { wilsonInterval } from "../../../src/domain/rollouts/wilson";
import { type AnswerOf, useAsk } from "../api";
import { Dot } from "./badge";
import type { Channel } from "./channel-badges";
import { HEALTH_BADGES, stateOfRate } from "./health";
import { countText, shareText } from "./size";

type Installs = Extract<AnswerOf<"GET /statistics/app/:app_id/installs">, { total: unknown }>;

export interface Attempts {
	readonly install: number;
	readonly fail: number;
}
const NONE: Attempts = { install: 0, fail: 0 };

/** The attempts that a row of a list finds in the figures of 30 days; undefined without an answer. */
export function useAttempts(
	appId: string,
): (find: (installs: Installs) => Attempts | undefined) => Attempts | undefined {
	const { data } = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId } });
	return (find) => (data !== undefined && "total" in data ? (find(data) ?? NONE) : undefined);
}

/** Part of a sentence: `8 of 1,460 installs failed`. */
export function failedText({ install, fail }: Attempts): string {
	const of = install + fail;
	return of === 0 ? "no installs" : `${countText(fail)} of ${countText(of)} failed`;
}

export function FailureRate({
	attempts: { install, fail },
	channel,
}: {
	readonly attempts: Attempts;
	/** Its limit is the measure; undefined: there is none, so the figures stand alone. */
	readonly channel: Pick<Channel, "autoPauseFailureRateBps" | "autoPauseConfidence"> | undefined;
}) {
	const of = install + fail;
	if (of === 0) return <span className="muted">no installs</span>;
	const text = `${countText(fail)} of ${countText(of)}`;
	if (channel === undefined) return <span title={`${shareText(fail, of)} of the installs failed`}>{text}</span>;
	const limit = channel.autoPauseFailureRateBps / 10_000;
	const { lower, upper } = wilsonInterval(fail, of, channel.autoPauseConfidence);
	const state = stateOfRate({ of, lowerBound: lower, upperBound: upper, limit });
	const [word, tone] = HEALTH_BADGES[state];
	return (
		<span
			className="rate-in-row"
			title={`${shareText(fail, of)} of the installs failed. ${word}: ${shareText(limit, 1)}`}
		>
			{text}
			<span className="sr">, {word.toLowerCase()}</span>
			<Dot {...(tone === undefined ? {} : { tone })} />
		</span>
	);
}
