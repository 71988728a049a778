/**
 * The share that failed, with its interval beside the limit of the channel and the release before,
 * in one population. The scale ends above the longest interval, so that no point and no bound is
 * cut off.
 */
import { Badge } from "../../components/badge";
import { Card } from "../../components/card";
import { HEALTH_BADGES } from "../../components/health";
import { countText, shareText } from "../../components/size";
import { chanceText, failedText, healthOf, nameOf, type Rate, type Release, roundedShare } from "./release-texts";

interface Bar {
	readonly version: string;
	readonly rate: Rate;
	readonly tone: "ro" | "live" | "old";
}

const OPEN: readonly Release["state"][] = ["off", "rolling_out", "ready_to_finish", "paused"];

export function ReleaseFailures({ release }: { readonly release: Release }) {
	const { failures, version, before, devices, state } = release;
	const { population } = failures;
	const [text, tone] = HEALTH_BADGES[healthOf(release)];
	const isOpen = OPEN.includes(state);
	const bars: Bar[] = [];
	if (failures.release !== null) {
		bars.push({
			version: nameOf(version),
			rate: failures.release,
			tone: isOpen ? "ro" : state === "live" ? "live" : "old",
		});
	}
	if (failures.before !== null && before !== null) {
		bars.push({ version: nameOf(before.version), rate: failures.before, tone: isOpen ? "live" : "old" });
	}
	return (
		<Card
			title={population === "devices" ? "Devices that failed" : "Installs that failed"}
			actions={<Badge tone={tone}>{text}</Badge>}
		>
			<div className="sec">
				{failures.release === null ? null : <Chart bars={bars} limit={failures.limit} population={population} />}
				<p className="soft">{chanceText(release)}</p>
				{devices === null || failures.release === null ? null : (
					<p className="small muted sum-line">
						Counted: {countText(failures.release.of)} of the {countText(devices.running + devices.failed)} devices that
						reported{devices.complete ? "" : ", as far as they were recorded"}. Devices that are newer than the release,
						or share a network with others, get it but do not count.
					</p>
				)}
				{population === "installs" && failures.release !== null ? (
					<p className="small muted sum-line">
						Installs on {release.channel.name} in the days of each release, because it had no steps in which devices are
						counted.
					</p>
				) : null}
			</div>
		</Card>
	);
}

function Chart({
	bars,
	limit,
	population,
}: {
	readonly bars: readonly Bar[];
	readonly limit: number;
	readonly population: Release["failures"]["population"];
}) {
	const end = Math.min(1, Math.max(limit * 1.5, ...bars.map(({ rate }) => rate.upperBound * 1.2), 0.001));
	const at = (share: number) => `${(share / end) * 100}%`;
	const texts = bars.map(
		({ version, rate }) =>
			`${version}: ${failedText(rate, population)}, between ${roundedShare(rate.lowerBound)} and ${roundedShare(rate.upperBound)}.`,
	);
	// The labels of zero, limit and end would touch.
	const hasEnd = limit / end < 0.72;
	const anchor = limit / end < 0.14 ? "start" : "middle";
	return (
		<div className="rates failures" role="img" aria-label={`${texts.join(" ")} The limit is ${roundedShare(limit)}.`}>
			{bars.map(({ version, rate, tone }) => (
				<div className="rate" key={version}>
					<span className="cut num">{version}</span>
					<svg aria-hidden="true">
						<rect className="zone" x={at(limit)} width={at(end - limit)} height="100%" />
						<line className="limit" x1={at(limit)} x2={at(limit)} y1="0" y2="100%" />
						<line
							className={rate.lowerBound >= limit ? "whisker over" : "whisker"}
							x1={at(rate.lowerBound)}
							x2={at(rate.upperBound)}
							y1="50%"
							y2="50%"
						/>
						<circle className={`pt-${tone}`} cx={at(rate.failed / rate.of)} cy="50%" r="6" />
					</svg>
					<span className="num nowrap r">
						{countText(rate.failed)} of {countText(rate.of)} · {shareText(rate.failed, rate.of)}
					</span>
				</div>
			))}
			<div className="rate small muted" aria-hidden="true">
				<span />
				<svg aria-hidden="true">
					{limit / end < 0.14 ? null : (
						<text x="0" y="12">
							0
						</text>
					)}
					<text className="limit-text" x={at(limit)} y="12" textAnchor={anchor}>
						limit {roundedShare(limit)}
					</text>
					{hasEnd ? (
						<text x="100%" y="12" textAnchor="end">
							{roundedShare(end)}
						</text>
					) : null}
				</svg>
				<span />
			</div>
		</div>
	);
}
