/**
 * Answers of statistics as CSV and as SVG. An SVG has no script and refers to nothing outside of
 * it.
 */

import type { ChartOptions, StackedChartOptions } from "../../charts/chart";
import { lineChart, stackedChart } from "../../charts/chart";
import type { Marker } from "../../charts/model";
import type { ReleaseMarkerRow } from "../../db/releases";
import type { DayRange } from "../../db/statistics";
import { dayOf } from "../../domain/statistics/days";
import { type CsvCell, toCsv } from "../../http/csv";
import { daysOf, nameOfDay } from "./range";

/**
 * Releases, newest first, as markers from old to new: the flag of a day with several names the last
 * one.
 */
export const markersOf = (rows: readonly ReleaseMarkerRow[]): Marker[] =>
	rows.map(({ version_name, at_ms }) => ({ day: nameOfDay(dayOf(at_ms)), label: version_name })).reverse();

export const CSV = { contentType: "text/csv; charset=utf-8", description: "A table with a header." };
export const SVG = { contentType: "image/svg+xml", description: "A chart." };

export function csvAnswer(name: string, columns: readonly string[], rows: readonly (readonly CsvCell[])[]): Response {
	return new Response(toCsv(columns, rows), {
		headers: {
			"content-type": CSV.contentType,
			"content-disposition": `attachment; filename="${name.replaceAll(/[^\w.-]/g, "_")}.csv"`,
			"x-content-type-options": "nosniff",
		},
	});
}

type Chart<Options extends ChartOptions> = Omit<Options, "days" | "generatedAtMs"> & {
	readonly range: DayRange;
	readonly nowMs: number;
};

export function lineAnswer({ range, nowMs, ...options }: Chart<ChartOptions>): Response {
	return svg(lineChart({ ...options, days: daysOf(range).map(nameOfDay), generatedAtMs: nowMs }));
}

export function stackedAnswer({ range, nowMs, ...options }: Chart<StackedChartOptions>): Response {
	return svg(stackedChart({ ...options, days: daysOf(range).map(nameOfDay), generatedAtMs: nowMs }));
}

function svg(text: string): Response {
	return new Response(text, {
		headers: {
			"content-type": SVG.contentType,
			"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *",
			"x-content-type-options": "nosniff",
		},
	});
}
