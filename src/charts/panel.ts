/**
 * The layout of a chart: heading, axes, marks, and the names of the series beside their last
 * values. Invariant: nothing leaves the drawing and no two texts touch, whatever the names and
 * figures are.
 */
import { dayAxis, type Label, valueAxis } from "./axes";
import { FLAG_HEIGHT_PX, FLAG_PX, flagsOf } from "./flags";
import { endOf, spread } from "./labels";
import { bandSvg, lineSvg, type Plot } from "./marks";
import { type ChartModel, fullSubtitle, type ModelSeries } from "./model";
import { cleanName, estimatedWidthPx, fitText, round, text } from "./text";

/** Its text is legible on a phone too, where the drawing has about 360 pixels. */
export const WIDTH_PX = 640;
const PADDING_PX = 20;
const TITLE_PX = 17;
const SUBTITLE_PX = 13.5;
const LABEL_PX = 13;
const FOOTER_PX = 12;
const PLOT_HEIGHT_PX = 200;
/** A chart without values says so in little space. */
const EMPTY_HEIGHT_PX = 72;
const PX_PER_TICK = 44;
const ROW_PX = LABEL_PX * 1.45;
const NAME_LIMIT_PX = 170;
const SWATCH_PX = 10;
const NAME_GAP_PX = 14;

function verticalLayout(model: ChartModel) {
	const titleBaseline = PADDING_PX + TITLE_PX * 0.9;
	const subtitleBaseline = titleBaseline + (fullSubtitle(model) === "" ? 0 : SUBTITLE_PX * 1.6);
	const axisTitleBaseline = subtitleBaseline + LABEL_PX * 2.2;
	const flagsTop = Math.ceil(axisTitleBaseline + LABEL_PX * 0.9);
	const plotTop = Math.ceil(axisTitleBaseline + LABEL_PX * 1.3) + (model.markers.length === 0 ? 0 : FLAG_HEIGHT_PX + 6);
	const plotBottom = plotTop + (model.emptyText === null ? PLOT_HEIGHT_PX : EMPTY_HEIGHT_PX);
	return { titleBaseline, subtitleBaseline, axisTitleBaseline, flagsTop, plotTop, plotBottom };
}

export function panelHeightPx(model: ChartModel): number {
	return Math.ceil(verticalLayout(model).plotBottom + LABEL_PX * 4.6 + PADDING_PX / 2);
}

export function panelSvg(model: ChartModel): string {
	const rows = verticalLayout(model);
	const { plotTop: top, plotBottom: bottom } = rows;
	const tickCount = Math.max(2, Math.floor((bottom - top) / PX_PER_TICK));
	const axis = valueAxis(model.unit, model.factor, model.low, model.high, tickCount);
	const ticks = model.emptyText === null ? axis.ticks : axis.ticks.filter(({ value }) => value === 0);
	const tickWidthPx = ticks.reduce((most, tick) => Math.max(most, estimatedWidthPx(tick.text, LABEL_PX)), 0);
	const left = Math.ceil(PADDING_PX + tickWidthPx + 8);
	const names = endNames(model);
	const right = WIDTH_PX - PADDING_PX - (names.widthPx === 0 ? 0 : names.widthPx + NAME_GAP_PX);
	const dayPx = (right - left) / Math.max(1, model.days.length);
	const plot: Plot = {
		left,
		right,
		top,
		bottom,
		dayPx,
		toX: (index) => left + (index + 0.5) * dayPx,
		toY: (value) => {
			const share = (value - axis.low) / (axis.high - axis.low);
			return bottom - Math.min(1, Math.max(0, share)) * (bottom - top);
		},
	};
	const availablePx = WIDTH_PX - 2 * PADDING_PX;
	const isLine = model.kind === "line";
	return [
		text(fitText(model.title, TITLE_PX * 1.15, availablePx), {
			x: PADDING_PX,
			y: rows.titleBaseline,
			sizePx: TITLE_PX,
			className: "text title",
			full: model.title,
		}),
		text(subtitleText(model, availablePx), {
			x: PADDING_PX,
			y: rows.subtitleBaseline,
			sizePx: SUBTITLE_PX,
			className: "muted",
			full: fullSubtitle(model),
		}),
		text(fitText(model.axisTitle, LABEL_PX, availablePx), {
			x: PADDING_PX,
			y: rows.axisTitleBaseline,
			sizePx: LABEL_PX,
			className: "muted",
			full: model.axisTitle,
		}),
		...ticks.map(({ value, text: tick }) => {
			const y = round(plot.toY(value));
			const kind = value === 0 ? "axis" : "grid";
			return `<path class="${kind}" d="M${left},${y}H${round(right)}"/>${text(tick, { x: left - 8, y: y + LABEL_PX * 0.35, sizePx: LABEL_PX, className: "muted", anchor: "end" })}`;
		}),
		`<g class="plot" data-plot="${[left, top, right, bottom].map(round).join(" ")}">`,
		...model.series.map((series) => (isLine ? lineSvg(series, model, plot) : bandSvg(series, plot))),
		"</g>",
		flagsSvg(model, plot, rows.flagsTop),
		namesSvg(model, plot, names),
		daysSvg(model, plot),
		model.emptyText === null ? "" : emptySvg(model.emptyText, plot),
	].join("");
}

/** Shortens the subtitle rather than the range of days. */
function subtitleText(model: ChartModel, availablePx: number): string {
	if (model.subtitle === "" || model.range === "") return fitText(fullSubtitle(model), SUBTITLE_PX, availablePx);
	const ending = ` · ${model.range}`;
	return fitText(model.subtitle, SUBTITLE_PX, availablePx - estimatedWidthPx(ending, SUBTITLE_PX)) + ending;
}

/** Releases: a dashed line through the plot below each flag. */
function flagsSvg(model: ChartModel, plot: Plot, top: number): string {
	const flags = flagsOf(model, plot).map(({ index, x, widthPx, text: label }) => {
		const [lineX, foot] = [round(plot.toX(index)), top + FLAG_HEIGHT_PX];
		const line = `<path class="release" d="M${lineX},${foot}V${round(plot.bottom)}"/>`;
		const flag = `<rect class="flag" x="${round(x)}" y="${top + 0.5}" width="${round(widthPx)}" height="${FLAG_HEIGHT_PX - 1}" rx="5"/>`;
		const name = text(label, {
			x: x + widthPx / 2,
			y: top + FLAG_HEIGHT_PX * 0.7,
			sizePx: FLAG_PX,
			className: "muted",
			anchor: "middle" as const,
		});
		return line + flag + name;
	});
	return flags.length === 0 ? "" : `<g class="releases">${flags.join("")}</g>`;
}

interface EndNames {
	readonly widthPx: number;
	readonly texts: ReadonlyMap<ModelSeries, string>;
	readonly omission: string;
}

function endNames(model: ChartModel): EndNames {
	const roomPx = NAME_LIMIT_PX - SWATCH_PX - 6;
	// Names of apps and bundles differ at their ends.
	const texts = new Map(model.series.map((series) => [series, fitText(series.name, LABEL_PX, roomPx, "middle")]));
	const omission = model.omission === null ? "" : fitText(cleanName(model.omission), LABEL_PX, roomPx);
	const widths = [...texts.values(), omission].map((name) => Math.ceil(estimatedWidthPx(name, LABEL_PX)));
	const widestPx = widths.reduce((most, widthPx) => Math.max(most, widthPx), 0);
	return { widthPx: widestPx === 0 ? 0 : widestPx + SWATCH_PX + 6, texts, omission };
}

function namesSvg(model: ChartModel, plot: Plot, { texts, omission, widthPx }: EndNames): string {
	if (widthPx === 0) return "";
	// The top of a stack is its last series; names keep the order of the marks.
	const fromTop = model.series.map((series) => ({ series, y: plot.toY(endOf(model, series)) }));
	if (model.kind === "line") fromTop.sort((one, other) => one.y - other.y);
	else fromTop.reverse();
	const rows = fromTop.length + (omission === "" ? 0 : 1);
	const heightPx = (rows - 1) * ROW_PX;
	const top = Math.min(plot.top, plot.bottom - heightPx);
	const middles = spread(
		[...fromTop.map(({ y }) => y), ...(omission === "" ? [] : [plot.bottom])],
		ROW_PX,
		top,
		Math.max(plot.bottom, top + heightPx),
	);
	const x = plot.right + NAME_GAP_PX;
	const nameAt = (content: string, position: number, className: string, full: string) =>
		text(content, {
			x: x + SWATCH_PX + 6,
			y: (middles[position] ?? 0) + LABEL_PX * 0.35,
			sizePx: LABEL_PX,
			className,
			full,
		});
	const entries = fromTop.map(({ series }, position) => {
		const middle = middles[position] ?? 0;
		const isLine = model.kind === "line";
		const [heightPx, radiusPx] = isLine ? [3, 1.5] : [SWATCH_PX, 3];
		const swatch = `<rect class="marker tone-${series.tone}" x="${round(x)}" y="${round(middle - heightPx / 2)}" width="${SWATCH_PX}" height="${heightPx}" rx="${radiusPx}"/>`;
		return swatch + nameAt(texts.get(series) ?? "", position, "text", series.name);
	});
	if (omission !== "") entries.push(nameAt(omission, fromTop.length, "muted", model.omission ?? ""));
	return `<g class="legend">${entries.join("")}</g>`;
}

function emptySvg(content: string, plot: Plot): string {
	const sizePx = LABEL_PX + 1;
	return text(fitText(content, sizePx, plot.right - plot.left - 8), {
		x: (plot.left + plot.right) / 2,
		y: (plot.top + plot.bottom) / 2,
		sizePx,
		className: "muted",
		anchor: "middle",
		full: content,
	});
}

function daysSvg(model: ChartModel, plot: Plot): string {
	const { bottom } = plot;
	const axis = dayAxis(model.days, plot.toX, LABEL_PX, PADDING_PX, WIDTH_PX - 4);
	const row = (labels: readonly Label[], y: number, className: string) =>
		labels.map((label) =>
			text(label.text, { x: label.xPx + label.widthPx / 2, y, sizePx: LABEL_PX, className, anchor: "middle" }),
		);
	const tickMarks = axis.tickIndexes.map((index) => `M${round(plot.toX(index))},${round(bottom)}v4`).join("");
	const footerY = bottom + LABEL_PX * 4.5;
	const note = axis.grid === "Mondays" ? "Day (UTC), Mondays labelled" : "Day (UTC)";
	const footerWidthPx = estimatedWidthPx(model.footer, FOOTER_PX);
	const rightPx = WIDTH_PX - PADDING_PX;
	return [
		tickMarks === "" ? "" : `<path class="axis" d="${tickMarks}"/>`,
		...row(axis.labels, bottom + LABEL_PX * 1.5, "muted"),
		...row(axis.contextLabels, bottom + LABEL_PX * 2.8, "muted"),
		text(note, { x: plot.left, y: footerY, sizePx: FOOTER_PX, className: "muted" }),
		plot.left + estimatedWidthPx(note, FOOTER_PX) + 10 + footerWidthPx > rightPx
			? ""
			: text(model.footer, { x: rightPx, y: footerY, sizePx: FOOTER_PX, className: "muted", anchor: "end" }),
	].join("");
}
