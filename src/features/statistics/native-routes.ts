/**
 * The share of an app's devices on each store version, by day. The database has the present store
 * version of a device and not its history, so that version counts on every day of the device.
 */
import * as v from "valibot";
import { devicesByStoreVersion, MOST_SAMPLED_DEVICES, type StoreVersionRow } from "../../db/store-versions";
import { openTelemetry } from "../../db/telemetry-reads";
import { endpoint } from "../../http/endpoint";
import { appScope } from "../../http/scope";
import { CSV, csvAnswer } from "./answers";
import { adoptionOf } from "./bundle-figures";
import { format, usageRows, usageSchema } from "./bundle-routes";
import { describedFigures } from "./definitions";
import { daysOf, nameOfDay, rangeFields, rangeOf } from "./range";

/**
 * A device that changes nothing stores a report a week, so its last one may be that much older than
 * its last check.
 */
const STORED_EVERY_DAYS = 7;

/** Store versions are any text; groups of digits are compared as numbers. Unknown ones are last. */
function inOrder(one: string, other: string): number {
	if (one === "" || other === "") return one === other ? 0 : one === "" ? 1 : -1;
	return one.localeCompare(other, "en", { numeric: true });
}

function ofDays(rows: readonly StoreVersionRow[], days: readonly number[]) {
	return days.flatMap((day) => {
		const counted = new Map<string, number>();
		for (const { version_build, first_day, last_day, devices } of rows) {
			if (day < first_day || day >= last_day + STORED_EVERY_DAYS) continue;
			const name = version_build ?? "";
			counted.set(name, (counted.get(name) ?? 0) + devices);
		}
		return [...counted].map(([version_name, amount]) => ({ version_name, day, amount }));
	});
}

export const nativeUsage = endpoint({
	method: "GET",
	path: "/statistics/app/:app_id/native_usage",
	tag: "Statistics",
	summary: "Show the share of an app's devices on each store version, by day",
	description: describedFigures(
		[
			"Each dataset is a store version (`version_build`), in the shape of bundle_usage.",
			"`format=csv` returns a table.",
			`Of an app with more than ${MOST_SAMPLED_DEVICES} devices, a sample of that many counts.`,
		],
		["native_usage"],
	),
	access: { permission: "app.read", scope: appScope("params.app_id") },
	query: v.object({ ...rangeFields, format }),
	response: usageSchema,
	rawResponse: CSV,
	errors: [],
	example: {
		query: { from: "2026-11-01", to: "2026-11-02" },
		response: {
			labels: ["2026-11-01", "2026-11-02"],
			datasets: [
				{ label: "3.0.0", data: [40, 25], metaCounts: [160, 100] },
				{ label: "3.1.0", data: [60, 75], metaCounts: [240, 300] },
			],
		},
	},
	async handle({ deps, nowMs, input, scope, scopeRow }) {
		const range = rangeOf(input.query, nowMs);
		const days = daysOf(range);
		const reports = openTelemetry(deps, scopeRow.telemetry_binding);
		const [found] = await reports.batch([devicesByStoreVersion(scope.appId)]);
		const datasets = adoptionOf(ofDays(found.rows, days), range, range.firstDay, inOrder);
		const labels = days.map(nameOfDay);
		if (input.query.format === "csv") {
			const header = ["date", "store_version", "devices", "share_percent"];
			return csvAnswer(`native-usage-${input.params.app_id}`, header, usageRows(labels, datasets));
		}
		return {
			labels,
			datasets: datasets.map(({ label, data, metaCounts }) => ({
				label,
				data: data.map((share) => share ?? 0),
				metaCounts,
			})),
		};
	},
});
