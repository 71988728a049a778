/**
 * The course of one figure beside a row of a list: 96 x 24, one line with an end point. No axis and
 * no pointer; the row leads to the chart.
 */
import { areaPath, linePath } from "../../../src/charts/marks";
import "./charts.css";

const WIDTH_PX = 96;
const HEIGHT_PX = 24;
const EDGE_PX = 3;

interface SparklineProps {
	/** By day, oldest first; null is a day without a value. */
	readonly values: readonly (number | null)[];
	/** The range and the figure, e.g. "Devices, last 14 days". */
	readonly label: string;
	/** The figure itself is bad, e.g. failed installs above the limit. */
	readonly isBad?: boolean;
}

export function Sparkline({ values, label, isBad = false }: SparklineProps) {
	const most = values.reduce<number>((high, value) => Math.max(high, value ?? 0), 0);
	const state = most === 0 ? " is-flat" : isBad ? " is-bad" : "";
	const step = (WIDTH_PX - 2 * EDGE_PX) / Math.max(1, values.length - 1);
	const scales = {
		toX: (index: number) => (values.length === 1 ? WIDTH_PX / 2 : EDGE_PX + index * step),
		toY: (value: number) => HEIGHT_PX - EDGE_PX - (most === 0 ? 0 : value / most) * (HEIGHT_PX - 2 * EDGE_PX),
	};
	const last = values.findLastIndex((value) => value !== null);
	return (
		<svg className={`sparkline${state}`} viewBox={`0 0 ${WIDTH_PX} ${HEIGHT_PX}`} role="img" aria-label={label}>
			<path className="sparkline-wash" d={areaPath(values, scales)} />
			<path className="sparkline-line" d={linePath(values, scales)} />
			{last < 0 ? null : <circle cx={scales.toX(last)} cy={scales.toY(values[last] ?? 0)} r={2} />}
		</svg>
	);
}
