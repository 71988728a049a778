/**
 * Line and stacked charts by day, each a standalone SVG that also works in an `<img>`. It has no script and no external reference, names are
 * escaped, and the same input gives the same bytes. The SVG contains two layouts of the same drawing and shows the one for its width, because
 * a layout of 720 pixels has text of 5 pixels on a phone.
 */
import {
	type ChartModel,
	type ChartOptions,
	fullSubtitle,
	lineModel,
	type StackedChartOptions,
	stackedModel,
} from "./model";
import { NARROW, panelHeightPx, panelSvg, WIDE } from "./panel";
import { escapeXml } from "./text";
import { STYLE_SHEET } from "./theme";

export type { ChartOptions, ChartSeries, StackedChartOptions } from "./model";
export type { Unit } from "./text";

/** One line per series, at most eight: the three largest of the last day, then the largest overall. Negative values lie below the zero line. */
export function lineChart(options: ChartOptions): string {
	return document(lineModel(options));
}

/** Layers of a sum, the first series at the bottom, at most those that `lineChart` keeps and the sum of the others on top. */
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
		// The attribute hides the second layout in viewers without style sheets.
		`<g class="wide">${panelSvg(model, WIDE, heightPx)}</g>`,
		`<g class="narrow" display="none" transform="scale(${enlargement})">${panelSvg(model, NARROW, heightPx / enlargement)}</g>`,
		"</svg>\n",
	].join("\n");
}
