/**
 * What each figure is: the one text of it. The page at /docs/statistics and the descriptions in openapi.json are made from here, so that
 * people and programs read the same.
 */
import type { Metric } from "./items";

export type Figure = Metric | "bundle_usage" | "success_rate" | "install_time";

export const DEFINITIONS: Readonly<Record<Figure, string>> = {
	mau: "Different devices, told apart by app and device id, that asked for an update or reported anything. As a running total: different devices since the first day of the range, each counted once however many days it came; never a sum of days. Without accumulation: different devices of that day, exact. The devices of several apps are the sum of each app's. A running total is exact to 1,000 devices an app; above that its standard error is 0.57 %, so 1,999 of 2,000 answers lie within 2 %.",
	storage:
		"Bytes that the app's bundles and the files of their manifests take at the end of the day; today, at the time of the request. Bundles elsewhere (`external_url`), unfinished uploads and what was deleted are not in it; a file of a deleted bundle's manifest that no other bundle uses is removed a day later. It is a level and not a flow: accumulation does not change it. Null on days that were not measured. Where more than 50,000 bundles and files would have to be added up, today's value is at most 15 minutes old.",
	bandwidth:
		"Bytes of the bodies that `GET /files/download/…` answered with: the whole file, or the range that was asked for. A download that breaks off counts as what it was answered with. Answers without a body (HEAD, 304, errors), copies that a cache in between gives out, and bundles elsewhere (`external_url`) are not in it.",
	get: "Downloads that devices reported as complete (`download_complete`).",
	install:
		"Installs that devices reported (`set`): a bundle became the one that the app runs. The store build counts as well.",
	fail: "Failures that devices reported: `download_fail`, `set_fail` and `update_fail`.",
	bundle_usage:
		"The share of the day's devices that ran a bundle. Each device counts once a day, under the version that it last had on that day. One that went to a version and back within the day, in checks that two isolates heard and without reporting the way back, may stand under the version between. `builtin` is the build from the store, `unknown` a version that the app never had here.",
	success_rate:
		"Installs out of installs and failures, in %; null where there was neither. A failure counts for the version that the report names, and for the channel that decided for the device when the report came.",
	install_time:
		"From the last start of the download of a bundle (`download_zip_start` or `download_manifest_start`) to its `set`, by the device's clock where it told both times, else by the times of arrival here. Electron does not report starts, so its installs are not timed. Percentiles are read from a histogram whose buckets grow by 5 %, so they lie within 2.5 % of the true ones, over any number of days and bundles.",
};

const COMMON =
	"Days are days of UTC. `from` and `to` are days or times of them, both inclusive, 366 days at most; without them the last 30. Days to come are left out; days that are not kept any more have null for every figure.";

/** For the description of an endpoint. */
export function definitionsOf(figures: readonly Figure[]): string {
	return `${COMMON}\n\n${figures.map((figure) => `- \`${figure}\`: ${DEFINITIONS[figure]}`).join("\n")}`;
}
