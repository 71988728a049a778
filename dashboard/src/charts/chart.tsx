/**
 * An interactive chart by day: values at the pointer, arrow keys, Home and End, a legend that hides
 * series, release flags, the period before, a table and a CSV file. The figures and colours are
 * those of the API's charts. Styles come from classes only, because the page's
 * Content-Security-Policy refuses style attributes; the tooltip is placed through the CSSOM.
 */
import { type ReactNode, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { toCsv } from "../../../src/http/csv";
import { ChartDrawing } from "./chart-drawing";
import {
	type ChartData,
	csvOf,
	dayAfterKey,
	dayAt,
	drawnModel,
	endNamesPx,
	hasFigures,
	type OpenTarget,
	scalesOf,
	seriesAt,
	shownSeries,
	spokenTip,
	type Tip,
	tipOf,
} from "./chart-model";
import { ChartTable } from "./chart-table";
import { useWidth } from "./width";
import "./charts.css";

/** Below this width the tooltip is docked above the plot, and names are in the legend only. */
const NARROW_PX = 560;
const TIP_PX = 224;
const TIP_GAP_PX = 14;
const BELOW_PX = 24;
const FLAGS_PX = 30;
const TOP_PX = 10;

interface ChartProps {
	readonly data: ChartData;
	/** One sentence in place of a chart without figures. */
	readonly emptyText: string;
	/** Without extension. */
	readonly fileName: string;
	readonly heightPx?: number;
	/** Names of series that are switched off. */
	readonly hidden: readonly string[];
	readonly onHide: (hidden: readonly string[]) => void;
	/** Beside the legend. */
	readonly controls?: ReactNode;
	/** Population and definition, below the plot. */
	readonly note?: ReactNode;
	/** Opens the release or bundle behind a day. */
	readonly onOpen?: (target: OpenTarget) => void;
	/** The effect of a click, e.g. "open 2.3.1"; undefined: none. */
	readonly openText?: (target: OpenTarget) => string | undefined;
}

export default function Chart({
	data,
	emptyText,
	fileName,
	heightPx = 260,
	hidden: hiddenNames,
	onHide,
	controls,
	note,
	onOpen,
	openText,
}: ChartProps) {
	const [ref, widthPx] = useWidth<HTMLDivElement>();
	const [cursor, setCursor] = useState<OpenTarget | undefined>();
	const [spoken, setSpoken] = useState("");
	const [hasTable, setTable] = useState(false);
	const tableId = useId();
	const captionId = useId();
	const shown = useMemo(() => shownSeries(data), [data]);
	// One series at least stays, whatever an address says.
	const hidden = useMemo(() => {
		const names = new Set(hiddenNames);
		return shown.every(({ name }) => names.has(name)) ? new Set<string>() : names;
	}, [shown, hiddenNames]);
	const model = useMemo(() => drawnModel(data, shown, hidden), [data, shown, hidden]);
	const isNarrow = widthPx < NARROW_PX;
	const namesPx = isNarrow ? 0 : endNamesPx(model);
	const top = model.markers.length > 0 ? FLAGS_PX : TOP_PX;
	const area = { right: Math.max(1, widthPx - namesPx - 1), top, bottom: heightPx - BELOW_PX };
	const scales = scalesOf(model, data, area);
	const index = cursor === undefined || cursor.index >= data.days.length ? undefined : cursor.index;
	const tipIndex = index ?? (isNarrow ? data.days.length - 1 : undefined);
	const tip = tipIndex === undefined || tipIndex < 0 ? undefined : tipOf(data, shown, hidden, tipIndex);
	const leadsTo = cursor === undefined || index === undefined ? undefined : openText?.(cursor);

	if (!hasFigures(data)) {
		return (
			<figure className="chart-figure">
				<figcaption className="sr">{data.title}</figcaption>
				<div className="chart-head">
					<span />
					{controls}
				</div>
				<p className="chart-empty">{emptyText}</p>
			</figure>
		);
	}

	const targetAt = (event: React.PointerEvent | React.MouseEvent): OpenTarget => {
		const box = event.currentTarget.getBoundingClientRect();
		const at = dayAt(scales, event.clientX - box.left, data.days.length);
		const series = seriesAt(model, scales, at, event.clientY - box.top);
		return { index: at, day: data.days[at] ?? "", ...(series === undefined ? {} : { series }) };
	};
	const open = (target: OpenTarget | undefined) => {
		if (target !== undefined && openText?.(target) !== undefined) onOpen?.(target);
	};
	const onKeyDown = (event: React.KeyboardEvent) => {
		if (event.key === "Enter") return open(cursor);
		if (event.key === "Escape" && cursor !== undefined) {
			setCursor(undefined);
			setSpoken("");
			return event.stopPropagation();
		}
		const next = dayAfterKey(event.key, index, data.days.length);
		if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
		event.preventDefault();
		setCursor({ index: next, day: data.days[next] ?? "" });
		setSpoken(spokenTip(tipOf(data, shown, hidden, next)));
	};
	return (
		<figure className="chart-figure">
			<figcaption className="sr" id={captionId}>
				{data.title}, {model.range}
			</figcaption>
			<div className="chart-head">
				<Legend data={data} shown={shown} hidden={hidden} onToggle={(name) => onHide(toggled(hiddenNames, name))} />
				{controls}
			</div>
			{isNarrow && tip !== undefined ? <TipBox tip={tip} /> : null}
			<div
				className={leadsTo === undefined ? "chart-plot" : "chart-plot leads-on"}
				ref={ref}
				role="application"
				aria-roledescription="chart"
				aria-label={`${model.description} Arrow keys move from day to day.`}
				// biome-ignore lint/a11y/noNoninteractiveTabindex: the keys of the chart need the focus
				tabIndex={0}
				onKeyDown={onKeyDown}
				onPointerMove={(event) => setCursor(targetAt(event))}
				onPointerDown={(event) => setCursor(targetAt(event))}
				onPointerLeave={(event) => event.pointerType === "mouse" && setCursor(undefined)}
				onBlur={() => setCursor(undefined)}
				onClick={(event) => open(targetAt(event))}
			>
				{widthPx === 0 ? null : (
					<ChartDrawing
						data={data}
						model={model}
						scales={scales}
						widthPx={widthPx}
						heightPx={heightPx}
						cursor={index}
						hasNames={namesPx > 0}
					/>
				)}
				{!isNarrow && tip !== undefined && index !== undefined ? (
					<FloatingTip tip={tip} x={scales.toX(index)} widthPx={widthPx} topPx={top} leadsTo={leadsTo} />
				) : null}
			</div>
			<p className="sr" aria-live="polite">
				{spoken}
			</p>
			<div className="chart-foot">
				{note === undefined ? null : <span>{note}</span>}
				<button
					type="button"
					aria-expanded={hasTable}
					aria-controls={tableId}
					onClick={() => setTable((before) => !before)}
				>
					{hasTable ? "Hide table" : "Show as table"}
				</button>
				<button
					type="button"
					onClick={() => {
						const { columns, rows } = csvOf(data, shown);
						saveFile(`${fileName}.csv`, toCsv(columns, rows));
					}}
				>
					Download CSV
				</button>
			</div>
			<div id={tableId}>{hasTable ? <ChartTable data={data} shown={shown} /> : null}</div>
		</figure>
	);
}

function toggled(names: readonly string[], name: string): string[] {
	return names.includes(name) ? names.filter((each) => each !== name) : [...names, name];
}

function Legend({
	data,
	shown,
	hidden,
	onToggle,
}: {
	readonly data: ChartData;
	readonly shown: readonly { readonly name: string; readonly tone: string }[];
	readonly hidden: ReadonlySet<string>;
	readonly onToggle: (name: string) => void;
}) {
	const { comparison } = data;
	const visible = shown.length - shown.filter(({ name }) => hidden.has(name)).length;
	return (
		<fieldset className="chart-legend" aria-label="Series">
			{shown.map(({ name, tone }) => {
				const swatch = <i className={`chart-square tone-${tone}`} aria-hidden="true" />;
				if (shown.length === 1) {
					return (
						<span key={name}>
							{swatch}
							{name}
						</span>
					);
				}
				const isShown = !hidden.has(name);
				return (
					<button
						key={name}
						type="button"
						aria-pressed={isShown}
						// The last one stays: an empty plot answers nothing.
						disabled={isShown && visible === 1}
						onClick={() => onToggle(name)}
					>
						{swatch}
						{name}
					</button>
				);
			})}
			{comparison === undefined ? null : (
				<span>
					<i className="chart-dash tone-before" aria-hidden="true" />
					{comparison.label}
				</span>
			)}
		</fieldset>
	);
}

function TipBox({ tip, leadsTo }: { readonly tip: Tip; readonly leadsTo?: string | undefined }) {
	return (
		<div className="chart-tip is-docked">
			<TipContent tip={tip} leadsTo={leadsTo} />
		</div>
	);
}

function FloatingTip({
	tip,
	x,
	widthPx,
	topPx,
	leadsTo,
}: {
	readonly tip: Tip;
	readonly x: number;
	readonly widthPx: number;
	readonly topPx: number;
	readonly leadsTo: string | undefined;
}) {
	const ref = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const fitsRight = x + TIP_GAP_PX + TIP_PX <= widthPx;
		const left = fitsRight ? x + TIP_GAP_PX : Math.max(0, x - TIP_GAP_PX - TIP_PX);
		ref.current?.style.setProperty("transform", `translate(${Math.round(left)}px, ${topPx}px)`);
	}, [x, widthPx, topPx]);
	return (
		<div className="chart-tip is-floating" ref={ref}>
			<TipContent tip={tip} leadsTo={leadsTo} />
		</div>
	);
}

function TipContent({ tip, leadsTo }: { readonly tip: Tip; readonly leadsTo: string | undefined }) {
	return (
		<>
			<span className="chart-tip-note">{tip.day}</span>
			{tip.rows.map(({ name, tone, text }) => (
				<span className="chart-tip-row" key={name}>
					<i className={`${tone === "before" ? "chart-dash" : "chart-square"} tone-${tone}`} aria-hidden="true" />
					<span>{name}</span>
					<strong>{text}</strong>
				</span>
			))}
			{tip.note === "" ? null : <span className="chart-tip-note">{tip.note}</span>}
			{leadsTo === undefined ? null : <span className="chart-tip-note">Click to {leadsTo}</span>}
		</>
	);
}

function saveFile(name: string, text: string): void {
	const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
	const link = document.createElement("a");
	link.href = url;
	link.download = name;
	link.click();
	URL.revokeObjectURL(url);
}
