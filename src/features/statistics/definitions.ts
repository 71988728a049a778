/**
 * Definitions of the figures. The page at /docs/statistics and the descriptions in openapi.json
 * both contain these texts.
 */
import { CLEAN_UP_MINUTES } from "../../domain/defaults";
import { type Prose, proseText } from "../../http/endpoint";
import type { Metric } from "./figures";
import { MOST_DAYS } from "./range";

export type Figure =
	| Metric
	| "bundle_usage"
	| "native_usage"
	| "success_rate"
	| "install_time"
	| "health"
	| "launch_time"
	| "failure_cause";

const TEXTS: Readonly<Record<Figure, Prose>> = {
	mau: [
		"Distinct devices, by app and device id, that checked for an update or sent a report.",
		"As a running total: distinct devices since the first day of the range, each counted once, however",
		"many days it was active.",
		"Without accumulation: distinct devices of that day.",
		"For several apps the devices of each app are added up.",
		"Both are exact to 1,000 devices per app; above that the standard error is 0.57 %, so 1,999 of 2,000",
		"answers lie within 2 %.",
	],
	storage: [
		"Stored bytes of the app's bundles and of the files of their manifests at the end of the day; for",
		"today, at the time of the request.",
		"External bundles (`external_url`), unfinished uploads and deleted bundles do not count; a file of a",
		"deleted bundle's manifest that no other bundle uses is removed a day later.",
		"Storage is a level, so accumulation does not change it.",
		"Null on days without a measurement.",
		`With more than 50,000 bundles and files, today's value is up to ${CLEAN_UP_MINUTES} minutes old.`,
	],
	bandwidth: [
		"Bytes in the bodies of answers to `GET /files/download/…`: the whole file or the requested range.",
		"An interrupted download counts with the full length of its answer.",
		"Answers without a body (HEAD, 304, errors), copies from a cache between this server and the device,",
		"and external bundles (`external_url`) do not count.",
	],
	get: "Downloads that devices reported as complete (`download_complete`).",
	install: [
		"Installs that devices reported (`set`): the app began to run a bundle.",
		"The store build counts as well.",
	],
	fail: "Failures that devices reported: `download_fail`, `set_fail` and `update_fail`.",
	bundle_usage: [
		"Share of the day's devices that ran a bundle.",
		"Each device counts once a day, under its last version of that day.",
		"A device that changes its version and returns within a day, in checks that two isolates answer and",
		"without a report of the return, may count under the version in between.",
		"The number of devices of a bundle is exact while each bundle has at most 1,000 on the day; above",
		"that it lies within 2 % of the devices that ran the bundle on that day.",
		"`builtin` is the store build, `unknown` a version that the app never had on this server.",
	],
	native_usage: [
		"Share of the day's devices that run a store version, by the one that they reported last: a device",
		"counts under it on every day from its first report to a week after its last stored one, so an update",
		"in the store changes past days too.",
		"`unknown` are devices that reported no store version.",
	],
	success_rate: [
		"Installs divided by installs plus failures, in %; null without either.",
		"A failure counts for the version that the report names, and for the channel that served the device",
		"when the report arrived.",
	],
	install_time: [
		"Time from the last start of a bundle's download (`download_zip_start` or `download_manifest_start`)",
		"to its `set`, by the device's clock if it reported both times, else by the times of arrival.",
		"Electron reports no starts, so its installs have no times.",
		"Percentiles come from a histogram whose buckets grow by 5 %, so they lie within 2.5 % of the true",
		"values for any number of days and bundles.",
	],
	health: [
		"Devices that reported the signal (stock plugins from 8.51 on): `crash` is a crash of the app or its",
		"web view, `anr` an app that stopped responding, `js_error` an uncaught JavaScript error or",
		"rejection, `launch_timeout` a launch that did not finish.",
		"A device counts once per signal, bundle and day.",
		"A crash is reported at the next start and counts for the bundle that ran when the app ended, even if",
		"the plugin rolled back in between.",
	],
	failure_cause: [
		"Devices whose update failed, by the cause that the plugin reports: `download` (the zip, or the",
		"download as a whole), `file` (a single file of a manifest), `checksum`, `decrypt`, `unzip` (also",
		"names that the platform cannot write), `space` (disk or memory), `refused` (the server or the",
		"channel's settings) and `app` (the new bundle did not start, so the device rolled back).",
		"A device counts once per cause, bundle and day, and under each of its causes.",
		"A failure counts for the bundle that the report names; if that is the running one, for the bundle",
		"that the device was offered last.",
		"After two downloads with failed files a device is offered the zip, if the bundle has one.",
	],
	launch_time: [
		"Time until the app was ready, as the plugin measures",
		"it (`app_launch_ready`), once per device and bundle.",
		"Of the launches of a day, each isolate counts the",
		"first 20 of the app, and those of one device in 32 beyond.",
		"Percentiles lie within 2.5 % of those of the counted launches.",
	],
};

export const DEFINITIONS = Object.fromEntries(
	Object.entries(TEXTS).map(([figure, prose]) => [figure, proseText(prose)]),
) as Readonly<Record<Figure, string>>;

const COMMON = proseText([
	"Days are in UTC.",
	`\`from\` and \`to\` are days or times, both inclusive, for at most ${MOST_DAYS} days; the default is the last 30.`,
	"Future days are left out; days beyond the retention have null for every figure.",
]);

/** The description of an endpoint, followed by the definitions of its figures. */
export function describedFigures(description: Prose, figures: readonly Figure[]): string {
	const list = figures.map((figure) => `- \`${figure}\`: ${DEFINITIONS[figure]}`);
	return [proseText(description), COMMON, list.join("\n")].join("\n\n");
}
