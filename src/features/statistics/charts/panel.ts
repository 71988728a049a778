/**
 * The layout of a chart at a given width: heading, legend, axes and marks. Invariant: nothing leaves the drawing and no two texts touch,
 * whatever the names and figures are.
 */
import { dayAxis, type Label, valueAxis } from "./axes";
import { bandNumber, bandSvg, lineSvg, type Plot, sample } from "./marks";
import { type ChartModel, fullSubtitle } from "./model";
import { cleanName, estimatedWidthPx, fitText, round, text } from "./text";

export interface Panel {
	readonly widthPx: number;
	readonly paddingPx: number;
	readonly plotHeightPx: number;
	readonly pxPerTick: number;
	readonly titlePx: number;
	readonly subtitlePx: number;
	readonly labelPx: number;
	/** Fewest columns for more than four series, even if names must be shortened. */
	readonly legendColumns: number;
	readonly samplePx: number;
}

export const WIDE: Panel = {
	widthPx: 720,
	paddingPx: 18,
	plotHeightPx: 270,
	pxPerTick: 46,
	titlePx: 18,
	subtitlePx: 13,
	labelPx: 12,
	legendColumns: 3,
	samplePx: 26,
};

export const NARROW: Panel = {
	widthPx: 400,
	paddingPx: 10,
	plotHeightPx: 110,
	pxPerTick: 28,
	titlePx: 15,
	subtitlePx: 11.5,
	labelPx: 11,
	legendColumns: 3,
	samplePx: 22,
};

const SAMPLE_GAP_PX = 6;
const COLUMN_GAP_PX = 16;

interface Legend {
	readonly columns: number;
	readonly columnWidthPx: number;
	readonly rows: number;
	readonly rowHeightPx: number;
}

function legendLayout(model: ChartModel, panel: Panel): Legend {
	const entries = [...model.series.map(({ name }) => name), ...(model.omission === null ? [] : [model.omission])];
	const availablePx = panel.widthPx - 2 * panel.paddingPx;
	const wantedPx = entries.reduce((most, entry) => {
		const textPx = estimatedWidthPx(entry.slice(0, 200), panel.labelPx);
		return Math.max(most, Math.ceil(panel.samplePx + SAMPLE_GAP_PX + textPx));
	}, 0);
	const leastColumns = Math.min(entries.length, entries.length > 4 ? panel.legendColumns : 2) || 1;
	const fitting = Math.floor((availablePx + COLUMN_GAP_PX) / (wantedPx + COLUMN_GAP_PX));
	const columns = Math.max(leastColumns, Math.min(fitting, entries.length));
	const spreadPx = (availablePx - (columns - 1) * COLUMN_GAP_PX) / columns;
	return {
		columns,
		columnWidthPx: Math.min(spreadPx, wantedPx),
		rows: Math.ceil(entries.length / columns),
		rowHeightPx: panel.labelPx * 1.65,
	};
}

function verticalLayout(model: ChartModel, panel: Panel) {
	const legend = legendLayout(model, panel);
	const titleBaseline = panel.paddingPx + panel.titlePx;
	const subtitleBaseline = titleBaseline + (fullSubtitle(model) === "" ? 0 : panel.subtitlePx * 1.6);
	const legendTop = subtitleBaseline + panel.subtitlePx * 0.75;
	const axisTitleBaseline = legendTop + legend.rows * legend.rowHeightPx + panel.labelPx * 1.3;
	return {
		legend,
		titleBaseline,
		subtitleBaseline,
		legendTop,
		axisTitleBaseline,
		plotTop: axisTitleBaseline + panel.labelPx * 1.25,
		/** Below the plot: two rows of labels and the footer. */
		belowPx: panel.labelPx * 4.6 + panel.paddingPx,
	};
}

export function panelHeightPx(model: ChartModel, panel: Panel): number {
	const { plotTop, belowPx } = verticalLayout(model, panel);
	return plotTop + panel.plotHeightPx + belowPx;
}

export function panelSvg(model: ChartModel, panel: Panel, heightPx: number): string {
	const { titlePx, subtitlePx, labelPx, paddingPx, widthPx } = panel;
	const rows = verticalLayout(model, panel);
	const top = rows.plotTop;
	const bottom = heightPx - rows.belowPx;
	const tickCount = Math.max(2, Math.floor((bottom - top) / panel.pxPerTick));
	const axis = valueAxis(model.unit, model.factor, model.low, model.high, tickCount);
	const ticks = model.hasValues ? axis.ticks : axis.ticks.filter(({ value }) => value === 0);
	const tickWidthPx = ticks.reduce((most, tick) => Math.max(most, estimatedWidthPx(tick.text, labelPx)), 0);
	const left = Math.ceil(paddingPx + tickWidthPx + 8);
	const right = widthPx - paddingPx;
	const dayPx = (right - left) / Math.max(1, model.days.length);
	const plot: Plot = {
		left,
		right,
		top,
		bottom,
		dayPx,
		labelPx,
		toX: (index) => left + (index + 0.5) * dayPx,
		toY: (value) => {
			const share = (value - axis.low) / (axis.high - axis.low);
			return bottom - Math.min(1, Math.max(0, share)) * (bottom - top);
		},
	};
	const availablePx = widthPx - 2 * paddingPx;
	const isLine = model.kind === "line";
	return [
		text(fitText(model.title, titlePx * 1.15, availablePx), {
			x: paddingPx,
			y: rows.titleBaseline,
			sizePx: titlePx,
			className: "text title",
			full: model.title,
		}),
		text(subtitleText(model, subtitlePx, availablePx), {
			x: paddingPx,
			y: rows.subtitleBaseline,
			sizePx: subtitlePx,
			className: "muted",
			full: fullSubtitle(model),
		}),
		legendSvg(model, panel, rows.legend, rows.legendTop),
		text(fitText(model.axisTitle, labelPx, availablePx), {
			x: paddingPx,
			y: rows.axisTitleBaseline,
			sizePx: labelPx,
			className: "muted",
			full: model.axisTitle,
		}),
		...ticks.map(({ value, text: tick }) => {
			const y = round(plot.toY(value));
			const kind = value === 0 ? "axis" : "grid";
			return `<path class="${kind}" d="M${left},${y}H${right}"/>${text(tick, { x: left - 8, y: y + labelPx * 0.35, sizePx: labelPx, className: "muted", anchor: "end" })}`;
		}),
		`<g class="plot" data-plot="${[left, top, right, bottom].map(round).join(" ")}">`,
		...model.series.map((series) => (isLine ? lineSvg(series, model, plot) : bandSvg(series, plot))),
		...(isLine ? [] : model.series.map((series) => bandNumber(series, plot))),
		"</g>",
		daysSvg(model, plot, panel, bottom),
		model.emptyText === null ? "" : emptySvg(model.emptyText, plot),
	].join("");
}

/** Shortens the subtitle rather than the range of days. */
function subtitleText(model: ChartModel, sizePx: number, availablePx: number): string {
	if (model.subtitle === "" || model.range === "") return fitText(fullSubtitle(model), sizePx, availablePx);
	const rangePart = ` · ${model.range}`;
	return fitText(model.subtitle, sizePx, availablePx - estimatedWidthPx(rangePart, sizePx)) + rangePart;
}

function emptySvg(content: string, { left, right, top, bottom, labelPx }: Plot): string {
	const sizePx = labelPx + 2;
	return text(fitText(content, sizePx, right - left), {
		x: (left + right) / 2,
		// Above the middle: a grid line often runs there.
		y: top + (bottom - top) * 0.45,
		sizePx,
		className: "muted",
		anchor: "middle",
		full: content,
	});
}

function daysSvg(model: ChartModel, plot: Plot, panel: Panel, bottom: number): string {
	const { labelPx, paddingPx, widthPx } = panel;
	const axis = dayAxis(model.days, plot.toX, labelPx, paddingPx, widthPx - 4);
	const row = (labels: readonly Label[], y: number, className: string) =>
		labels.map((label) =>
			text(label.text, { x: label.xPx + label.widthPx / 2, y, sizePx: labelPx, className, anchor: "middle" }),
		);
	const tickMarks = axis.tickIndexes.map((index) => `M${round(plot.toX(index))},${round(bottom)}v4`).join("");
	const footerY = bottom + labelPx * 4.4;
	const note = axis.grid === "Mondays" ? "Day (UTC), Mondays labelled" : "Day (UTC)";
	const footerPx = labelPx - 1;
	const footerWidthPx = estimatedWidthPx(model.footer, footerPx);
	return [
		tickMarks === "" ? "" : `<path class="axis" d="${tickMarks}"/>`,
		...row(axis.labels, bottom + labelPx * 1.5, "muted"),
		...row(axis.contextLabels, bottom + labelPx * 2.8, "muted"),
		text(note, { x: plot.left, y: footerY, sizePx: footerPx, className: "muted" }),
		plot.left + estimatedWidthPx(note, footerPx) + 10 + footerWidthPx > plot.right
			? ""
			: text(model.footer, { x: plot.right, y: footerY, sizePx: footerPx, className: "muted", anchor: "end" }),
	].join("");
}

function legendSvg(model: ChartModel, panel: Panel, legend: Legend, top: number): string {
	const { labelPx } = panel;
	const place = (position: number) => ({
		x: panel.paddingPx + (position % legend.columns) * (legend.columnWidthPx + COLUMN_GAP_PX),
		middle: top + (Math.floor(position / legend.columns) + 0.5) * legend.rowHeightPx,
	});
	const textPx = legend.columnWidthPx - panel.samplePx - SAMPLE_GAP_PX;
	const entries = model.series.map(({ name, slot }, position) => {
		const { x, middle } = place(position);
		// Names of apps and bundles differ at their ends.
		const label = text(fitText(name, labelPx, textPx, "middle"), {
			x: x + panel.samplePx + SAMPLE_GAP_PX,
			y: middle + labelPx * 0.35,
			sizePx: labelPx,
			full: name,
		});
		return sample(model.kind, slot, x, middle, labelPx, panel.samplePx) + label;
	});
	if (model.omission !== null) {
		const { x, middle } = place(model.series.length);
		entries.push(
			text(fitText(cleanName(model.omission), labelPx, legend.columnWidthPx), {
				x,
				y: middle + labelPx * 0.35,
				sizePx: labelPx,
				className: "muted",
				full: model.omission,
			}),
		);
	}
	return `<g class="legend">${entries.join("")}</g>`;
}
