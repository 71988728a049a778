/**
 * The drawing of an interactive chart: grid, marks, flags, cursor and the names of the series.
 * Hidden from screen readers, which have the table.
 */
import { FLAG_HEIGHT_PX, flagsOf } from "../../../src/charts/flags";
import { endOf, spread } from "../../../src/charts/labels";
import { areaPath, barsPath, linePath, spanPath } from "../../../src/charts/marks";
import type { ChartModel } from "../../../src/charts/model";
import { fitText } from "../../../src/charts/text";
import { type ChartData, type ChartScales, END_NAME_PX, NAME_GAP_PX, TICK_PX } from "./chart-model";
import { dayLabels } from "./time-axis";

interface DrawingProps {
	readonly data: ChartData;
	readonly model: ChartModel;
	readonly scales: ChartScales;
	readonly widthPx: number;
	readonly heightPx: number;
	readonly cursor: number | undefined;
	/** Names of the series beside their last values. */
	readonly hasNames: boolean;
}

export function ChartDrawing({ data, model, scales, widthPx, heightPx, cursor, hasNames }: DrawingProps) {
	const { left, right, top, bottom, toX, ticks } = scales;
	return (
		<svg className="chart-drawing" width={widthPx} height={heightPx} aria-hidden="true">
			{ticks.map(({ y, text }) => (
				<g key={text}>
					<path className={text === "0" ? "chart-zero" : "chart-grid"} d={`M${left},${y}H${right}`} />
					<text x={left - 8} y={y + 4} textAnchor="end">
						{text}
					</text>
				</g>
			))}
			{dayLabels(model.days, right - left).map(({ index, text }) => {
				const x = toX(index);
				const anchor = x + 22 > right ? "end" : x - 22 < left ? "start" : "middle";
				return (
					<text key={index} x={anchor === "end" ? right : x} y={heightPx - 4} textAnchor={anchor}>
						{text}
					</text>
				);
			})}
			{data.kind === "line" ? (
				<Lines data={data} model={model} scales={scales} />
			) : (
				model.series.map(({ name, tone, spans }) => (
					<path
						key={name}
						className={`chart-band tone-${tone}`}
						d={data.kind === "bars" || spans.length === 1 ? barsPath(spans, scales) : spanPath(spans, scales)}
					/>
				))
			)}
			{flagsOf(model, scales).map(({ index, x, widthPx: flagPx, text }) => (
				<g key={index}>
					<path className="chart-marker" d={`M${toX(index)},${top - 6}V${bottom}`} />
					<rect className="chart-flag" x={x} y={0.5} width={flagPx} height={FLAG_HEIGHT_PX} rx={5} />
					<text className="chart-flag-text" x={x + flagPx / 2} y={14} textAnchor="middle">
						{text}
					</text>
				</g>
			))}
			{cursor === undefined ? null : <Cursor data={data} model={model} scales={scales} index={cursor} />}
			{hasNames ? <Names model={model} scales={scales} /> : null}
		</svg>
	);
}

interface MarksProps {
	readonly data: ChartData;
	readonly model: ChartModel;
	readonly scales: ChartScales;
}

/** In the unit of the axis. */
const scaled = (values: readonly (number | null)[], { factor }: ChartModel) =>
	values.map((value) => (value === null ? null : value / factor));

function Lines({ data, model, scales }: MarksProps) {
	const { toX, toY } = scales;
	return (
		<>
			{data.comparison === undefined ? null : (
				<path
					className="chart-line is-before tone-before"
					d={linePath(scaled(data.comparison.values, model), scales)}
				/>
			)}
			{model.series.map(({ name, tone, values }) => (
				<g key={name} className={`tone-${tone}`}>
					{model.series.length === 1 ? <path className="chart-wash" d={areaPath(values, scales)} /> : null}
					<path className="chart-line" d={linePath(values, scales)} />
					{values.map((value, index) => {
						const isAlone = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
						if (value === null || !isAlone) return null;
						return <circle key={model.days[index]} className="chart-point" cx={toX(index)} cy={toY(value)} r={4} />;
					})}
				</g>
			))}
		</>
	);
}

function Cursor({ data, model, scales, index }: MarksProps & { readonly index: number }) {
	const { toX, toY, top, bottom } = scales;
	const x = toX(index);
	const before = data.comparison?.values[index] ?? null;
	return (
		<>
			<path className="chart-cursor" d={`M${x},${top}V${bottom}`} />
			{data.kind !== "line" || before === null ? null : (
				<circle className="chart-point tone-before" cx={x} cy={toY(before / model.factor)} r={4} />
			)}
			{data.kind === "line"
				? model.series.map(({ name, tone, values }) => {
						const value = values[index] ?? null;
						if (value === null) return null;
						return <circle key={name} className={`chart-point tone-${tone}`} cx={x} cy={toY(value)} r={5} />;
					})
				: null}
		</>
	);
}

const ROW_PX = 16;

function Names({ model, scales }: { readonly model: ChartModel; readonly scales: ChartScales }) {
	const ends = model.series.map((series) => ({ series, y: scales.toY(endOf(model, series)) }));
	if (model.kind === "line") ends.sort((one, other) => one.y - other.y);
	else ends.reverse();
	const top = Math.max(6, Math.min(scales.top, scales.bottom - (ends.length - 1) * ROW_PX));
	const places = spread(
		ends.map(({ y }) => y),
		ROW_PX,
		top,
		scales.bottom,
	);
	const x = scales.right + NAME_GAP_PX;
	return ends.map(({ series: { name, tone } }, index) => {
		const y = places[index] ?? 0;
		return (
			<g key={name}>
				<rect className={`chart-swatch tone-${tone}`} x={x} y={y - 4} width={8} height={8} rx={2} />
				<text className="chart-name" x={x + 13} y={y + 4}>
					{fitText(name, TICK_PX, END_NAME_PX, "middle")}
				</text>
			</g>
		);
	});
}
