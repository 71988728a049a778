/**
 * The steps of a release as one bar: those that were, the present one, those that come, and the
 * end. Upright on phones.
 */
import type { ReactNode } from "react";
import { Badge } from "../../components/badge";
import { momentText } from "../../components/dates";
import { type RolloutAnswer, spanText } from "../../components/rollout-texts";
import { countText, percentText } from "../../components/size";
import { type Release, stateBadge } from "./release-texts";

interface ShownStep {
	readonly key: string;
	readonly name: string;
	readonly tone: "done" | "live" | "old" | "now" | "bad" | "warn" | "next";
	readonly badge?: string;
	readonly lines: readonly string[];
}

export function ReleaseSteps({
	release,
	rollout,
	nowMs,
}: {
	readonly release: Release;
	readonly rollout: RolloutAnswer | undefined;
	readonly nowMs: number;
}) {
	const steps = [...past(release, nowMs), ...coming(release, rollout), ...end(release, nowMs)];
	if (steps.length === 0) return null;
	return (
		<ol className="stp" aria-label="Steps">
			{steps.map(({ key, name, tone, badge, lines }) => (
				<li key={key} className={`is-${tone}`} {...(badge === undefined ? {} : { "aria-current": "step" as const })}>
					<strong className="strong row">
						{name} {badge === undefined ? null : <StepBadge release={release}>{badge}</StepBadge>}
					</strong>
					{lines.map((line) => (
						<span key={line}>{line}</span>
					))}
				</li>
			))}
		</ol>
	);
}

function StepBadge({ release, children }: { readonly release: Release; readonly children: ReactNode }) {
	return <Badge tone={stateBadge(release)[1]}>{children}</Badge>;
}

const isOpen = ({ state }: Release) => ["rolling_out", "ready_to_finish", "paused", "off"].includes(state);

function past(release: Release, nowMs: number): ShownStep[] {
	const { steps, state, paused_by } = release;
	return steps.map(({ percentage_bps, from, until, failed, of }) => {
		const isNow = until === null && isOpen(release);
		const spans =
			until === null
				? `since ${momentText(from, nowMs)}`
				: `${momentText(from, nowMs)}, for ${spanText(Date.parse(until) - Date.parse(from))}`;
		const tone = !isOpen(release)
			? state === "live"
				? ("live" as const)
				: ("old" as const)
			: isNow && state === "paused"
				? paused_by === "service"
					? ("bad" as const)
					: ("warn" as const)
				: ("done" as const);
		return {
			key: from,
			name: percentText(percentage_bps),
			tone,
			...(isNow ? { badge: state === "paused" ? "Paused" : state === "off" ? "Off" : "Now" } : {}),
			lines: [spans, `${countText(failed)} of ${countText(of)} failed`],
		};
	});
}

/** Automatic steps that follow. */
function coming(release: Release, rollout: RolloutAnswer | undefined): ShownStep[] {
	if (!isOpen(release) || rollout?.steps == null) return [];
	const reached = release.steps.at(-1)?.percentage_bps ?? 0;
	const isPaused = release.state === "paused";
	return rollout.steps
		.filter((share) => share * 100 > reached)
		.map((share) => ({
			key: `next ${share}`,
			name: percentText(share * 100),
			tone: "next",
			lines: [isPaused ? "not while it is paused" : "when the step before is healthy"],
		}));
}

function end(release: Release, nowMs: number): ShownStep[] {
	const { steps, live_at, state, entries } = release;
	if (steps.length === 0) return [];
	if (live_at !== null) {
		const finish = entries.find(({ action }) => action === "rollout_finished");
		return [
			{
				key: "finished",
				name: "Finished",
				tone: state === "live" ? "live" : "old",
				...(state === "live" ? { badge: "Live" } : {}),
				lines: [momentText(live_at, nowMs), finish?.actor.type === "system" ? "by itself" : "by hand"],
			},
		];
	}
	if (!isOpen(release)) return [];
	const lines = [state === "paused" ? "not while it is paused" : "then it is live for every device"];
	return [{ key: "finished", name: "Finished", tone: "next", lines }];
}
