/**
 * Failed updates of an app's devices by cause and bundle, from the daily sums: one batch with a row
 * per day, bundle and cause.
 */
import * as v from "valibot";
import { failuresByCause } from "../../db/statistics";
import { openTelemetry } from "../../db/telemetry-reads";
import { firstStatisticsDay } from "../../domain/statistics/days";
import { FAILURE_CAUSES, type FailureCounts, failureCounts } from "../../domain/statistics/failure-causes";
import { endpoint } from "../../http/endpoint";
import { optional } from "../../http/schemas";
import { appScope } from "../../http/scope";
import { CSV, csvAnswer } from "./answers";
import { labelOf } from "./bundle-figures";
import { describedFigures } from "./definitions";
import { rangeFields, rangeOf } from "./range";

const count = v.number();
const causes = {
	download: count,
	file: count,
	checksum: count,
	decrypt: count,
	unzip: count,
	space: count,
	refused: count,
	app: count,
};

const EXAMPLE: FailureCounts = {
	download: 41,
	file: 12,
	checksum: 1,
	decrypt: 0,
	unzip: 0,
	space: 3,
	refused: 0,
	app: 2,
};

export const failureStatistics = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/failures",
	tag: "Statistics",
	summary: "Show why updates of an app's devices failed",
	description: describedFigures(
		[
			"In total and by bundle, the bundle with most failures first.",
			"`version` restricts both to one bundle.",
			"`format=csv` returns the table by bundle.",
		],
		["failure_cause"],
	),
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({
		...rangeFields,
		version: optional(v.pipe(v.string(), v.maxLength(512))),
		format: optional(v.picklist(["json", "csv"], "must be json or csv")),
	}),
	response: v.strictObject({
		total: v.strictObject(causes),
		byBundle: v.array(v.strictObject({ version: v.string(), ...causes })),
	}),
	rawResponse: [CSV],
	errors: [],
	example: {
		query: { from: "2026-11-01", to: "2026-11-01" },
		response: { total: EXAMPLE, byBundle: [{ version: "1.4.0", ...EXAMPLE }] },
	},
	async handle({ deps, nowMs, input, scope, scopeRow }) {
		const range = rangeOf(input.query, nowMs);
		const kept = { ...range, firstDay: Math.max(range.firstDay, firstStatisticsDay(deps.config, nowMs)) };
		const reports = openTelemetry(deps, scopeRow.telemetry_binding);
		const [{ rows }] = await reports.batch([failuresByCause(scope.appId, kept, input.query.version)]);
		const byBundle = [...Map.groupBy(rows, ({ version_name }) => version_name)]
			.map(([name, own]) => ({ version: labelOf(name), ...failureCounts(own) }))
			.sort((one, other) => sumOf(other) - sumOf(one));
		if (input.query.format === "csv") {
			const table = byBundle.map((row) => [row.version, ...FAILURE_CAUSES.map((cause) => row[cause])]);
			return csvAnswer(`failures-${input.params.app_id}`, ["bundle", ...FAILURE_CAUSES], table);
		}
		return { total: failureCounts(rows), byBundle };
	},
});

const sumOf = (counts: FailureCounts) => FAILURE_CAUSES.reduce((sum, cause) => sum + counts[cause], 0);
