/**
 * The figures of a release, of one population each: devices that a rollout offered the bundle in
 * steps, or, without steps, the installs that devices reported.
 */
import type { AppId } from "../../authz/decide";
import {
	installsOfReleases,
	outcomesBySteps,
	type ReleaseNeighbourRow,
	type StepOutcomeRow,
} from "../../db/channel-releases";
import type { Database } from "../../db/client";
import { tryTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";
import type { stepsOf } from "../../domain/rollouts/release";
import { wilsonInterval } from "../../domain/rollouts/wilson";
import { dayOf } from "../../domain/statistics/days";
import { nullableRfc3339, rfc3339 } from "../../http/schemas";

/** Days of installs that are added up for a release. */
const MOST_DAYS = 60;

type Step = ReturnType<typeof stepsOf>[number];

/** The devices of the rollouts of these releases, by the steps of the first one. */
export async function outcomesOf(
	db: Database,
	releases: readonly (ReleaseNeighbourRow | undefined)[],
	steps: readonly Step[],
): Promise<readonly StepOutcomeRow[]> {
	const rollouts = releases.map((release) => release?.rollout_id).filter((id) => id != null);
	if (rollouts.length === 0) return [];
	const [outcomes] = await db.batch([
		outcomesBySteps(
			rollouts,
			steps.map(({ fromMs }) => fromMs),
		),
	]);
	return outcomes.rows;
}

/** @param own the devices of the release */
export function stepAnswer(step: Step, index: number, own: readonly StepOutcomeRow[]) {
	// Reports from before the first known step are of it.
	const rows = own.filter((row) => row.step !== null && Math.max(1, row.step) === index + 1);
	const failed = sum(rows, "counted_failed");
	return {
		percentage_bps: step.percentageBps,
		from: rfc3339(step.fromMs),
		until: nullableRfc3339(step.untilMs),
		failed,
		of: failed + sum(rows, "counted_installed"),
	};
}

export function devicesAnswer(self: ReleaseNeighbourRow, own: readonly StepOutcomeRow[]) {
	return {
		offered: sum(own, "offered"),
		running: sum(own, "installed"),
		failed: sum(own, "failed"),
		not_reported: sum(own, "offered") - sum(own, "installed") - sum(own, "failed"),
		counted: sum(own, "counted"),
		complete: self.rollout_sampling === 1 && self.rollout_noting_uncounted === 1,
	};
}

/** The share that failed among the devices that count. */
export function countedRate(rows: readonly StepOutcomeRow[], confidence: number) {
	const failed = sum(rows, "counted_failed");
	return rateOf(failed, failed + sum(rows, "counted_installed"), confidence);
}

/** A version while it was live; null is the store build, which has no installs. */
interface LiveVersion {
	readonly version: string | null;
	readonly fromMs: number;
	readonly untilMs: number;
}

/**
 * The shares of installs that failed; null without installs, or while the telemetry database does
 * not answer.
 */
export async function installedRates(
	deps: Pick<Deps, "telemetry" | "deadline" | "log">,
	telemetryBinding: string,
	{ appId, channel, confidence }: { readonly appId: AppId; readonly channel: string; readonly confidence: number },
	live: { readonly release: LiveVersion; readonly before: LiveVersion },
) {
	const ranges = [...rangeOf(live.release), ...rangeOf(live.before)];
	const installs = await tryTelemetry(deps, telemetryBinding, installsOfReleases(appId, channel, ranges));
	const rate = ({ version }: LiveVersion) => {
		const row = installs?.find(({ version_name }) => version_name === version);
		return row === undefined ? null : rateOf(row.fail, row.install + row.fail, confidence);
	};
	return { release: rate(live.release), before: rate(live.before) };
}

function sum<Key extends string>(rows: readonly Readonly<Record<Key, number>>[], key: Key): number {
	return rows.reduce((total, row) => total + row[key], 0);
}

function rateOf(failed: number, of: number, confidence: number) {
	if (of === 0) return null;
	const { lower, upper } = wilsonInterval(failed, of, confidence);
	return { failed, of, lowerBound: rounded(lower), upperBound: rounded(upper) };
}

const rounded = (share: number): number => Math.round(share * 1e6) / 1e6;

/** The days of a release, newest first. */
function rangeOf({ version, fromMs, untilMs }: LiveVersion) {
	if (version === null) return [];
	const lastDay = dayOf(untilMs);
	const length = Math.min(MOST_DAYS, lastDay - dayOf(fromMs) + 1);
	return [{ version, days: Array.from({ length: Math.max(0, length) }, (_, index) => lastDay - index) }];
}
