/**
 * Line and stacked charts by day, each one drawing in a standalone SVG that also works in an
 * `<img>`. It has no script and no external reference, names are escaped, and the same input gives
 * the same bytes.
 */

import { escapeXml } from "../domain/words/plain-text";
import {
	type ChartModel,
	type ChartOptions,
	fullSubtitle,
	lineModel,
	type StackedChartOptions,
	stackedModel,
} from "./model";
import { panelHeightPx, panelSvg, WIDTH_PX } from "./panel";
import { STYLE_SHEET } from "./theme";

export type { ChartOptions, ChartSeries, StackedChartOptions } from "./model";
export type { Unit } from "./text";

/**
 * One line per series, at most eight: the three largest of the last day, then the largest overall.
 * Negative values lie below the zero line.
 */
export function lineChart(options: ChartOptions): string {
	return document(lineModel(options));
}

/**
 * Layers of a sum, the first series at the bottom, at most eight of them; beyond that the sum of
 * the others is the layer on top.
 */
export function stackedChart(options: StackedChartOptions): string {
	return document(stackedModel(options));
}

function document(model: ChartModel): string {
	const heightPx = panelHeightPx(model);
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" class="capstan-chart" lang="en" role="img" width="${WIDTH_PX}" height="${heightPx}" viewBox="0 0 ${WIDTH_PX} ${heightPx}">`,
		`<title>${escapeXml([model.title, fullSubtitle(model)].filter(Boolean).join(", "))}</title>`,
		`<desc>${escapeXml(model.description)}</desc>`,
		`<style>${STYLE_SHEET}</style>`,
		`<rect class="background" width="${WIDTH_PX}" height="${heightPx}"/>`,
		panelSvg(model),
		"</svg>\n",
	].join("\n");
}
