/**
 * Statistics as pictures for a report: line and stacked charts by day, each one SVG text that stands alone or in an `<img>`. No script,
 * no reference to anything outside, nothing that a name could break out of; the same input gives the same bytes. A chart is drawn
 * twice, wide and narrow, and shows the one that suits its width, so that its text can be read on a telephone too.
 */
import {
	type ChartModel,
	type ChartOptions,
	fullSubtitle,
	lineModel,
	type StackedChartOptions,
	stackedModel,
} from "./chart-model";
import { NARROW, panelHeightPx, panelSvg, WIDE } from "./chart-panel";
import { escapeXml } from "./chart-text";
import { STYLE_SHEET } from "./chart-theme";

export type { ChartOptions, ChartSeries, StackedChartOptions } from "./chart-model";
export type { Unit } from "./chart-text";

/** One line a series; of more than eight the biggest eight, three of them the biggest of the last day. Negative values are drawn below the zero line. */
export function lineChart(options: ChartOptions): string {
	return document(lineModel(options));
}

/** Parts of a whole, the first series at the bottom; of more than eight those that lineChart keeps and, on top, the sum of the others. */
export function stackedChart(options: StackedChartOptions): string {
	return document(stackedModel(options));
}

function document(model: ChartModel): string {
	const widthPx = WIDE.widthPx;
	const enlargement = WIDE.widthPx / NARROW.widthPx;
	const heightPx = Math.ceil(Math.max(panelHeightPx(model, WIDE), panelHeightPx(model, NARROW) * enlargement));
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" class="capstan-chart" lang="en" role="img" width="${widthPx}" height="${heightPx}" viewBox="0 0 ${widthPx} ${heightPx}">`,
		`<title>${escapeXml([model.title, fullSubtitle(model)].filter(Boolean).join(", "))}</title>`,
		`<desc>${escapeXml(model.description)}</desc>`,
		`<style>${STYLE_SHEET}</style>`,
		`<rect class="background" width="${widthPx}" height="${heightPx}"/>`,
		// The attribute hides the second drawing where style sheets are not read.
		`<g class="wide">${panelSvg(model, WIDE, heightPx)}</g>`,
		`<g class="narrow" display="none" transform="scale(${enlargement})">${panelSvg(model, NARROW, heightPx / enlargement)}</g>`,
		"</svg>\n",
	].join("\n");
}
