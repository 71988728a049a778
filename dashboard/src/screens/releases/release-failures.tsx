/**
 * The share that failed, with its interval beside the limit of the channel and the release before,
 * in one population.
 */
import { Badge } from "../../components/badge";
import { Card } from "../../components/card";
import { HEALTH_BADGES } from "../../components/health";
import { type RateBar, RateChart } from "../../components/rate-chart";
import { countText } from "../../components/size";
import { chanceText, healthOf, nameOf, type Release } from "./release-texts";

const TITLES = { devices: "Devices that failed", installs: "Installs that failed" } as const;
const OPEN: readonly Release["state"][] = ["off", "rolling_out", "ready_to_finish", "paused"];

export function ReleaseFailures({ release }: { readonly release: Release }) {
	const { failures, version, before, devices, state } = release;
	const { population } = failures;
	const [text, tone] = HEALTH_BADGES[healthOf(release)];
	const isOpen = OPEN.includes(state);
	const bars: RateBar[] = [];
	if (failures.release !== null) {
		bars.push({
			version: nameOf(version),
			...failures.release,
			tone: isOpen ? "ro" : state === "live" ? "live" : "old",
		});
	}
	if (failures.before !== null && before !== null) {
		bars.push({ version: nameOf(before.version), ...failures.before, tone: isOpen ? "live" : "old" });
	}
	return (
		<Card title={TITLES[population]} actions={<Badge tone={tone}>{text}</Badge>}>
			<div className="sec">
				{failures.release === null ? null : (
					<RateChart label={TITLES[population]} bars={bars} limit={failures.limit} population={population} />
				)}
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
