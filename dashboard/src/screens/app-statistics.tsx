/** The figures of one app, its adoption and the health of its installs among them. */
import type { AppScreenProps } from "../app";
import { COMMON_FIGURES, type Figure, Statistics } from "./statistics";

const FIGURES: readonly Figure[] = [
	{ label: "Adoption", path: "/bundle_usage", graph: "stacked", isCounted: false },
	{ label: "Devices by bundle", path: "/bundle_usage", graph: "line", isCounted: false },
	{ label: "Success of installs", path: "/installs", graph: "success_rate", isCounted: false },
	{ label: "Time of installs", path: "/installs", graph: "install_time", isCounted: false },
	...COMMON_FIGURES,
];

export default function AppStatistics({ appId }: AppScreenProps) {
	return <Statistics address={`/statistics/app/${encodeURIComponent(appId)}`} figures={FIGURES} />;
}
