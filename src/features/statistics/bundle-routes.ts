/**
 * Statistics of an app's bundles: adoption, success of installs by bundle and channel, and install
 * times. Each request is one batch, bounded by one row per day, bundle, channel and metric, and one
 * per day, bundle and bucket.
 */
import * as v from "valibot";
import { releaseMarkers } from "../../db/releases";
import {
	dailyTotals,
	dailyVersions,
	installTimesByBundle,
	installTimesByDay,
	outcomesByBundle,
	versionSketches,
} from "../../db/statistics";
import { openTelemetry } from "../../db/telemetry-reads";
import { firstStatisticsDay } from "../../domain/statistics/days";
import { endpoint } from "../../http/endpoint";
import { booleanText, optional, time } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { adoption } from "./active-devices";
import { CSV, csvAnswer, lineAnswer, markersOf, SVG, stackedAnswer } from "./answers";
import {
	adoptionOf,
	byBundle,
	byBundleAndChannel,
	byChannel,
	byDay,
	type Dataset,
	sumOutcomes,
	timesOf,
} from "./bundle-figures";
import { describedFigures } from "./definitions";
import { daysOf, nameOfDay, rangeFields, rangeOf } from "./range";

export const format = optional(v.picklist(["json", "csv"], "must be json or csv"));

export const usageSchema = v.strictObject({
	labels: v.array(v.string()),
	datasets: v.array(
		v.strictObject({
			label: v.string(),
			data: v.array(v.nullable(v.number())),
			metaCounts: v.array(v.nullable(v.number())),
		}),
	),
});

/** Rows of a table: day, version, devices, share. */
export const usageRows = (labels: readonly string[], datasets: readonly Dataset[]) =>
	labels.flatMap((label, index) =>
		datasets.map((one) => [label, one.label, one.metaCounts[index] ?? null, one.data[index] ?? null]),
	);

export const bundleUsage = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/bundle_usage",
	tag: "Statistics",
	summary: "Show the share of an app's devices on each bundle, by day",
	description: describedFigures(
		[
			"Each dataset is a bundle: `data` has its share of",
			"each day's devices in %, `metaCounts` their number.",
			"A day without devices has shares of 0, and null with `strict=true`.",
			"`format=csv` returns a table, `graph=stacked` a",
			"chart of the shares, `graph=line` a chart of the numbers.",
		],
		["bundle_usage"],
	),
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({
		...rangeFields,
		format,
		strict: optional(booleanText),
		graph: optional(v.picklist(["stacked", "line"], "must be stacked or line")),
	}),
	response: usageSchema,
	rawResponse: [CSV, SVG],
	errors: [],
	example: {
		query: { from: "2026-11-01", to: "2026-11-02" },
		response: {
			labels: ["2026-11-01", "2026-11-02"],
			datasets: [
				{ label: "1.3.0", data: [75, 20], metaCounts: [300, 82] },
				{ label: "1.4.0", data: [25, 80], metaCounts: [100, 328] },
			],
		},
	},
	load: ({ params, query }) => ({ markers: query.graph === undefined ? undefined : releaseMarkers(params.app_id) }),
	async handle({ deps, nowMs, input, scope, scopeRow, loaded }) {
		const range = rangeOf(input.query, nowMs);
		const firstKeptDay = firstStatisticsDay(deps.config, nowMs);
		const kept = { ...range, firstDay: Math.max(range.firstDay, firstKeptDay) };
		const reports = openTelemetry(deps, scopeRow.telemetry_binding);
		const [counted, sketches] = await reports.batch([
			dailyVersions(scope.appId, kept),
			versionSketches(scope.appId, kept),
		]);
		const datasets = adoptionOf(adoption(counted.rows, sketches.rows), range, firstKeptDay);
		const labels = daysOf(range).map(nameOfDay);
		const name = input.params.app_id;
		if (input.query.graph !== undefined) {
			const series = datasets.map(({ label, metaCounts }) => ({ name: label, values: metaCounts }));
			const chart = {
				title: "Bundle adoption",
				subtitle: name,
				unit: "count",
				valueLabel: "Devices",
				versions: true,
				markers: markersOf(loaded.markers),
				range,
				nowMs,
			} as const;
			return input.query.graph === "line"
				? lineAnswer({ ...chart, series })
				: stackedAnswer({ ...chart, series, shares: true });
		}
		if (input.query.format === "csv") {
			const header = ["date", "bundle", "devices", "share_percent"];
			return csvAnswer(`bundle-usage-${name}`, header, usageRows(labels, datasets));
		}
		if (input.query.strict === true) return { labels, datasets };
		const numbers = (values: readonly (number | null)[]) => values.map((value) => value ?? 0);
		return {
			labels,
			datasets: datasets.map(({ label, data, metaCounts }) => ({
				label,
				data: numbers(data),
				metaCounts: numbers(metaCounts),
			})),
		};
	},
});

const outcomeFields = { install: v.number(), fail: v.number(), success_rate: v.nullable(v.number()) };
const timesFields = { timed: v.number(), p50_ms: v.nullable(v.number()), p95_ms: v.nullable(v.number()) };
const figure = v.nullable(v.number());

export const installStatistics = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/installs",
	tag: "Statistics",
	summary: "Show the success rate and the times of an app's installs",
	description: describedFigures(
		[
			"In total, by bundle, by channel, by bundle and channel, and by day.",
			"`timed` is the number of installs that the percentiles `p50_ms` and `p95_ms` are computed from.",
			"`format=csv` returns the table by bundle and channel, `graph=success_rate` and",
			"`graph=install_time` a chart by day.",
		],
		["install", "fail", "success_rate", "install_time"],
	),
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({
		...rangeFields,
		format,
		graph: optional(v.picklist(["success_rate", "install_time"], "must be success_rate or install_time")),
	}),
	response: v.strictObject({
		total: v.strictObject({ ...outcomeFields, ...timesFields }),
		byBundle: v.array(v.strictObject({ version: v.string(), ...outcomeFields, ...timesFields })),
		byChannel: v.array(v.strictObject({ channel: v.nullable(v.string()), ...outcomeFields })),
		byBundleAndChannel: v.array(
			v.strictObject({ version: v.string(), channel: v.nullable(v.string()), ...outcomeFields }),
		),
		byDay: v.array(
			v.strictObject({
				date: time,
				install: figure,
				fail: figure,
				success_rate: figure,
				timed: figure,
				p50_ms: figure,
				p95_ms: figure,
			}),
		),
	}),
	rawResponse: [CSV, SVG],
	errors: [],
	example: {
		query: { from: "2026-11-01", to: "2026-11-01" },
		response: {
			total: { install: 298, fail: 2, success_rate: 99.33, timed: 290, p50_ms: 1840, p95_ms: 9120 },
			byBundle: [
				{ version: "1.4.0", install: 298, fail: 2, success_rate: 99.33, timed: 290, p50_ms: 1840, p95_ms: 9120 },
			],
			byChannel: [{ channel: "production", install: 298, fail: 2, success_rate: 99.33 }],
			byBundleAndChannel: [{ version: "1.4.0", channel: "production", install: 298, fail: 2, success_rate: 99.33 }],
			byDay: [
				{
					date: "2026-11-01T00:00:00.000Z",
					install: 298,
					fail: 2,
					success_rate: 99.33,
					timed: 290,
					p50_ms: 1840,
					p95_ms: 9120,
				},
			],
		},
	},
	load: ({ params, query }) => ({ markers: query.graph === undefined ? undefined : releaseMarkers(params.app_id) }),
	async handle({ deps, nowMs, input, scope, scopeRow, loaded }) {
		const range = rangeOf(input.query, nowMs);
		const firstKeptDay = firstStatisticsDay(deps.config, nowMs);
		const kept = { ...range, firstDay: Math.max(range.firstDay, firstKeptDay) };
		const reports = openTelemetry(deps, scopeRow.telemetry_binding);
		const [outcomes, times, totals, timesOfDays] = await reports.batch([
			outcomesByBundle(scope.appId, kept),
			installTimesByBundle(scope.appId, kept),
			dailyTotals([scope.appId], kept, false),
			installTimesByDay(scope.appId, kept),
		]);
		const days = byDay(totals.rows, timesOfDays.rows, range, firstKeptDay);
		const name = input.params.app_id;
		const chart = { subtitle: name, range, nowMs, markers: markersOf(loaded.markers) };
		if (input.query.graph === "success_rate") {
			const series = [{ name: "Installs", values: days.map((day) => day.success_rate) }];
			const title = "Success rate of installs";
			return lineAnswer({ ...chart, title, unit: "percent", valueLabel: "Installs that succeeded", series });
		}
		if (input.query.graph === "install_time") {
			const series = [
				{ name: "Half of all (p50)", values: days.map((day) => day.p50_ms) },
				{ name: "95 of 100 (p95)", values: days.map((day) => day.p95_ms) },
			];
			return lineAnswer({ ...chart, title: "Time to install", unit: "milliseconds", valueLabel: "Time", series });
		}
		const both = byBundleAndChannel(outcomes.rows);
		if (input.query.format === "csv") {
			const columns = ["bundle", "channel", "install", "fail", "success_rate_percent"];
			const rows = both.map((row) => [row.version, row.channel, row.install, row.fail, row.success_rate]);
			return csvAnswer(`installs-${name}`, columns, rows);
		}
		return {
			total: { ...sumOutcomes(outcomes.rows), ...timesOf(times.rows) },
			byBundle: byBundle(outcomes.rows, times.rows),
			byChannel: byChannel(outcomes.rows),
			byBundleAndChannel: both,
			byDay: days,
		};
	},
});
