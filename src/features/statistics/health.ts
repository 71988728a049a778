/**
 * Health signals of an app's bundles: crashes, hangs, JavaScript errors and launch times. One
 * batch, bounded by one row per day, bundle and signal, and one per day, bundle and bucket of
 * launch times.
 */
import * as v from "valibot";
import { releaseMarkers } from "../../db/releases";
import { dailyHealth, type HealthRow } from "../../db/statistics";
import { openTelemetry } from "../../db/telemetry-reads";
import { firstStatisticsDay } from "../../domain/statistics/days";
import { percentileMs } from "../../domain/statistics/duration-histogram";
import { endpoint } from "../../http/endpoint";
import { optional, time } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { CSV, csvAnswer, lineAnswer, markersOf, SVG } from "./answers";
import { labelOf } from "./bundle-figures";
import { describedFigures } from "./definitions";
import { daysOf, rangeFields, rangeOf, startOfDay } from "./range";

const COUNTED = ["crash", "anr", "js_error", "launch_timeout"] as const;
const FIGURES = [...COUNTED, "launches", "launch_p50_ms", "launch_p95_ms"] as const;
type Health = Readonly<Record<(typeof FIGURES)[number], number | null>>;

const figure = v.nullable(v.number());
const health = {
	crash: figure,
	anr: figure,
	js_error: figure,
	launch_timeout: figure,
	launches: figure,
	launch_p50_ms: figure,
	launch_p95_ms: figure,
};
const EXAMPLE: Health = {
	crash: 3,
	anr: 1,
	js_error: 12,
	launch_timeout: 0,
	launches: 298,
	launch_p50_ms: 840,
	launch_p95_ms: 2190,
};

export const healthStatistics = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/health",
	tag: "Statistics",
	summary: "Show the crashes, hangs, JavaScript errors and launch times of an app's bundles",
	description: describedFigures(
		[
			"In total, by bundle and by day.",
			"`version` restricts all of it to one bundle.",
			"`format=csv` returns the table by bundle,",
			"`graph=signals` and `graph=launch_time` a chart by day.",
		],
		["health", "launch_time"],
	),
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({
		...rangeFields,
		version: optional(v.pipe(v.string(), v.maxLength(512))),
		format: optional(v.picklist(["json", "csv"], "must be json or csv")),
		graph: optional(v.picklist(["signals", "launch_time"], "must be signals or launch_time")),
	}),
	response: v.strictObject({
		total: v.strictObject(health),
		byBundle: v.array(v.strictObject({ version: v.string(), ...health })),
		byDay: v.array(v.strictObject({ date: time, ...health })),
	}),
	rawResponse: [CSV, SVG],
	errors: [],
	example: {
		query: { from: "2026-11-01", to: "2026-11-01" },
		response: {
			total: EXAMPLE,
			byBundle: [{ version: "1.4.0", ...EXAMPLE }],
			byDay: [{ date: "2026-11-01T00:00:00.000Z", ...EXAMPLE }],
		},
	},
	load: ({ params, query }) => ({ markers: query.graph === undefined ? undefined : releaseMarkers(params.app_id) }),
	async handle({ deps, nowMs, input, scope, scopeRow, loaded }) {
		const range = rangeOf(input.query, nowMs);
		const firstKeptDay = firstStatisticsDay(deps.config, nowMs);
		const kept = { ...range, firstDay: Math.max(range.firstDay, firstKeptDay) };
		const reports = openTelemetry(deps, scopeRow.telemetry_binding);
		const [{ rows }] = await reports.batch([dailyHealth(scope.appId, kept, input.query.version)]);
		const ofDays = Map.groupBy(rows, ({ day }) => day);
		const byDay = daysOf(range).map((day) => ({
			date: startOfDay(day),
			...(day < firstKeptDay ? UNKNOWN : healthOf(ofDays.get(day) ?? [])),
		}));
		const byBundle = [...Map.groupBy(rows, ({ version_name }) => version_name)].map(([name, own]) => ({
			version: labelOf(name),
			...healthOf(own),
		}));
		const name = input.params.app_id;
		const chart = { subtitle: input.query.version ?? name, range, nowMs, markers: markersOf(loaded.markers) };
		if (input.query.graph === "signals") {
			const title = "Devices with crashes and errors";
			const series = COUNTED.map((signal) => ({ name: NAMES[signal], values: byDay.map((day) => day[signal]) }));
			return lineAnswer({ ...chart, title, unit: "count", valueLabel: "Devices", series });
		}
		if (input.query.graph === "launch_time") {
			const series = [
				{ name: "Half of all (p50)", values: byDay.map((day) => day.launch_p50_ms) },
				{ name: "95 of 100 (p95)", values: byDay.map((day) => day.launch_p95_ms) },
			];
			return lineAnswer({ ...chart, title: "Time to launch", unit: "milliseconds", valueLabel: "Time", series });
		}
		if (input.query.format === "csv") {
			const table = byBundle.map((row) => [row.version, ...FIGURES.map((of) => row[of])]);
			return csvAnswer(`health-${name}`, ["bundle", ...FIGURES], table);
		}
		return { total: healthOf(rows), byBundle, byDay };
	},
});

const NAMES = {
	crash: "Crashed",
	anr: "Stopped responding",
	js_error: "JavaScript error",
	launch_timeout: "Launch timed out",
} as const;
const UNKNOWN: Health = {
	crash: null,
	anr: null,
	js_error: null,
	launch_timeout: null,
	launches: null,
	launch_p50_ms: null,
	launch_p95_ms: null,
};

function healthOf(rows: readonly HealthRow[]): Health {
	const of = (wanted: HealthRow["signal"]) => rows.filter(({ signal }) => signal === wanted);
	const sum = (some: readonly HealthRow[]) => some.reduce((total, { amount }) => total + amount, 0);
	const launches = of("launch");
	return {
		crash: sum(of("crash")),
		anr: sum(of("anr")),
		js_error: sum(of("js_error")),
		launch_timeout: sum(of("launch_timeout")),
		launches: sum(launches),
		launch_p50_ms: percentileMs(launches, 50),
		launch_p95_ms: percentileMs(launches, 95),
	};
}
