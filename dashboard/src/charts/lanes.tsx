/**
 * Channels as lanes on one time axis: which version was live when, rollouts inside of them, open
 * previews, and below, on the same axis, the share of devices on each version. The colours are
 * those of `versionTones`, so that a version has one colour on the page.
 */

import { Link } from "wouter";
import { endOf, spread } from "../../../src/charts/labels";
import { spanPath } from "../../../src/charts/marks";
import type { ChartSeries } from "../../../src/charts/model";
import { stackedModel } from "../../../src/charts/model";
import type { Tone } from "../../../src/charts/palette";
import { fitText } from "../../../src/charts/text";
import { barsOf, type Lane, lanesSummary, type TimeScale, xOf } from "./lanes-model";
import { dayLabels, dayName, daysFromTo } from "./time-axis";
import { versionText } from "./version-text";
import { useWidth } from "./width";
import "./charts.css";

type LaneTone = Tone | "preview";

interface LanePreview {
	readonly name: string;
	readonly fromMs: number;
	readonly toMs: number;
}

interface LanesProps {
	/** Name of the figure for screen readers, e.g. "Bundles live on each channel". */
	readonly label: string;
	readonly fromMs: number;
	readonly toMs: number;
	readonly lanes: readonly Lane[];
	/** By version; a version without one is drawn as the oldest. */
	readonly tones: ReadonlyMap<string, LaneTone>;
	readonly previews?: readonly LanePreview[];
	/** Devices by version and day, oldest version first; days are those from `fromMs` to `toMs`. */
	readonly adoption?: { readonly days: readonly string[]; readonly series: readonly ChartSeries[] };
}

const LANE_PX = 24;
const LANE_STEP_PX = 34;
const FONT_PX = 12;
const LEFT_PX = 132;
const RIGHT_PX = 148;
const VERSION_GAP_PX = 14;
/** The share at the right of a version, and the gap before it. */
const SHARE_PX = 42;
/** Estimates of widths are generous, and nothing stands beside these texts. */
const NARROW = 0.9;
const AXIS_PX = 24;
const PREVIEW_PX = 7;
const PREVIEW_STEP_PX = 9;
const MOST_PREVIEWS = 6;
const ADOPTION_PX = 112;
/** Below this width, names stand above their lanes. */
const NARROW_PX = 560;

const classOf = (tones: LanesProps["tones"], version: string) => `lane-bar tone-${tones.get(version) ?? "s1"}`;

export function Lanes({ label, fromMs, toMs, lanes, tones, previews = [], adoption }: LanesProps) {
	const [ref, widthPx] = useWidth<HTMLElement>();
	const isNarrow = widthPx < NARROW_PX;
	const scale: TimeScale = {
		fromMs,
		toMs,
		left: isNarrow ? 0 : LEFT_PX,
		right: isNarrow ? widthPx - 1 : widthPx - RIGHT_PX,
	};
	const headPx = isNarrow ? 20 : 0;
	const stepPx = LANE_STEP_PX + headPx;
	const previewsTop = AXIS_PX + lanes.length * stepPx;
	const shownPreviews = previews.slice(0, MOST_PREVIEWS);
	const previewsPx = previews.length === 0 ? 0 : headPx + Math.max(30, shownPreviews.length * PREVIEW_STEP_PX + 6);
	const adoptionTop = previewsTop + previewsPx + headPx + 6;
	const bottom = adoption === undefined ? previewsTop + previewsPx : adoptionTop + ADOPTION_PX;
	const days = daysFromTo(dayName(fromMs), dayName(toMs));
	const head = { scale, isNarrow, widthPx };
	return (
		<figure className="chart-figure" ref={ref}>
			<figcaption className="sr">
				{label}. {lanesSummary(lanes)}
			</figcaption>
			{widthPx === 0 ? null : (
				<svg className="chart-drawing" width={widthPx} height={bottom + 4} aria-hidden="true">
					{dayLabels(days, scale.right - scale.left).map(({ index, text }) => {
						const x = xOf(scale, Date.parse(days[index] ?? ""));
						if (x < scale.left + 16) return null;
						return (
							<g key={index}>
								<text x={x} y={11} textAnchor="middle">
									{text}
								</text>
								<path className="chart-grid" d={`M${x},18V${bottom}`} />
							</g>
						);
					})}
					{lanes.map((lane, index) => (
						<LaneRow key={lane.name} lane={lane} top={AXIS_PX + index * stepPx} tones={tones} {...head} />
					))}
					{previews.length === 0 ? null : (
						<g>
							<RowHead
								name={previews.length === 1 ? "1 preview" : `${previews.length} previews`}
								note=""
								now={`${previews.length} open`}
								top={previewsTop}
								{...head}
							/>
							{shownPreviews.map(({ name, ...times }, index) => (
								<rect
									key={name}
									className="lane-bar tone-preview"
									x={xOf(scale, times.fromMs)}
									y={previewsTop + headPx + index * PREVIEW_STEP_PX}
									width={Math.max(2, xOf(scale, times.toMs) - xOf(scale, times.fromMs) - 1)}
									height={PREVIEW_PX}
									rx={PREVIEW_PX / 2}
								/>
							))}
						</g>
					)}
					{adoption === undefined ? null : (
						<Adoption adoption={adoption} top={adoptionTop} headPx={headPx} tones={tones} {...head} />
					)}
					<path className="lane-now" d={`M${scale.right},18V${bottom}`} />
				</svg>
			)}
			{/* The drawing is hidden from screen readers, so the lanes lead on from here. */}
			<ul className="sr">
				{lanes.map(({ name, now, nowNote, to }) => (
					<li key={name}>
						{to === undefined ? name : <Link href={to}>{name}</Link>}: {now} {nowNote}
					</li>
				))}
			</ul>
		</figure>
	);
}

interface HeadProps {
	readonly scale: TimeScale;
	readonly isNarrow: boolean;
	readonly widthPx: number;
}

function RowHead({
	name,
	note,
	now,
	nowNote,
	top,
	isNarrow,
	widthPx,
}: HeadProps & {
	readonly name: string;
	readonly note: string;
	readonly now: string;
	readonly nowNote?: string | undefined;
	readonly top: number;
}) {
	if (isNarrow) {
		return (
			<>
				<text className="chart-name" x={0} y={top + 12}>
					{fitText(name, FONT_PX, widthPx / 2 - 8, "middle")}
				</text>
				<text x={widthPx - 5} y={top + 12} textAnchor="end">
					{fitText([now, nowNote].filter(Boolean).join(" · "), FONT_PX, widthPx / 2 - 8, "middle")}
				</text>
			</>
		);
	}
	const isDouble = note !== "";
	return (
		<>
			<text className="chart-name" x={0} y={top + (isDouble ? 10 : 16)}>
				{fitText(name, FONT_PX * NARROW, LEFT_PX - 8, "middle")}
			</text>
			<text x={0} y={top + 24}>
				{note}
			</text>
			<text className="chart-name" x={widthPx} y={top + (nowNote === undefined ? 16 : 10)} textAnchor="end">
				{fitText(now, FONT_PX * NARROW, RIGHT_PX - 8, "middle")}
			</text>
			<text x={widthPx} y={top + 24} textAnchor="end">
				{nowNote === undefined ? null : fitText(nowNote, FONT_PX * NARROW, RIGHT_PX - 8, "middle")}
			</text>
		</>
	);
}

function LaneRow({
	lane,
	top,
	tones,
	...head
}: HeadProps & { readonly lane: Lane; readonly top: number; readonly tones: LanesProps["tones"] }) {
	const { scale, isNarrow } = head;
	const y = isNarrow ? top + 20 : top;
	const { rollout } = lane;
	return (
		<g>
			<RowHead name={lane.name} note={lane.note} now={lane.now} nowNote={lane.nowNote} top={top} {...head} />
			<rect className="lane-ground" x={scale.left} y={y} width={scale.right - scale.left} height={LANE_PX} rx={4} />
			{barsOf(lane.segments, scale, FONT_PX).map(({ version, x, widthPx, label }) => (
				<g key={x} className={classOf(tones, version)}>
					<title>{version}</title>
					<rect x={x} y={y} width={widthPx} height={LANE_PX} rx={4} />
					<text className="lane-label" x={x + 8} y={y + 16}>
						{label}
					</text>
				</g>
			))}
			{rollout === undefined
				? null
				: rollout.steps.map(({ percent, fromMs, toMs }) => {
						const x = xOf(scale, fromMs);
						const heightPx = Math.max(3, (LANE_PX * percent) / 100);
						return (
							<rect
								key={fromMs}
								className="lane-rollout tone-ro"
								x={x}
								y={y + LANE_PX - heightPx}
								width={Math.max(1, xOf(scale, toMs) - x)}
								height={heightPx}
							/>
						);
					})}
		</g>
	);
}

function Adoption({
	adoption,
	top,
	headPx,
	tones,
	...head
}: HeadProps & {
	readonly adoption: NonNullable<LanesProps["adoption"]>;
	readonly top: number;
	readonly headPx: number;
	readonly tones: LanesProps["tones"];
}) {
	const { scale, isNarrow, widthPx } = head;
	const model = stackedModel({
		title: "Installed",
		unit: "count",
		shares: true,
		days: adoption.days,
		series: adoption.series,
		tones: new Map([...tones].filter((entry): entry is [string, Tone] => entry[1] !== "preview")),
		versions: true,
	});
	const count = adoption.days.length;
	const toX = (index: number) => scale.left + (index / Math.max(1, count - 1)) * (scale.right - scale.left);
	const toY = (value: number) => top + ADOPTION_PX * (1 - Math.min(100, Math.max(0, value)) / 100);
	const now = model.series
		.map((series) => ({ series, share: series.values.at(-1) ?? 0, y: toY(endOf(model, series)) }))
		.filter(({ share }) => share >= 0.5)
		.reverse();
	const places = spread(
		now.map(({ y }) => y),
		16,
		top + 6,
		top + ADOPTION_PX - 2,
	);
	const shareText = (share: number) => `${Math.round(share)} %`;
	return (
		<g>
			{isNarrow ? (
				<RowHead
					name="Installed"
					note=""
					now={now
						.toSorted((one, other) => other.share - one.share)
						.slice(0, 2)
						.map(({ series, share }) => `${versionText(series.name)} ${shareText(share)}`)
						.join(" · ")}
					top={top - headPx}
					{...head}
				/>
			) : (
				<>
					<text className="chart-name" x={0} y={top + 12}>
						Installed
					</text>
					<text x={0} y={top + 27}>
						share of devices
					</text>
					{[0, 50].map((share) => (
						<text key={share} x={scale.left - 8} y={toY(share) + (share === 0 ? 0 : 4)} textAnchor="end">
							{shareText(share)}
						</text>
					))}
					{now.map(({ series, share }, index) => (
						<g key={series.name}>
							<text className="chart-name" x={scale.right + VERSION_GAP_PX} y={(places[index] ?? 0) + 4}>
								{fitText(versionText(series.name), FONT_PX * NARROW, RIGHT_PX - VERSION_GAP_PX - SHARE_PX, "middle")}
							</text>
							<text x={widthPx} y={(places[index] ?? 0) + 4} textAnchor="end">
								{shareText(share)}
							</text>
						</g>
					))}
				</>
			)}
			{model.series.map((series) => (
				<path
					key={series.name}
					className={`chart-band tone-${series.tone}`}
					d={count === 1 ? oneDay(series.spans[0] ?? null, scale, toY) : spanPath(series.spans, { toX, toY })}
				/>
			))}
			{model.hasValues ? null : (
				<text x={(scale.left + scale.right) / 2} y={top + ADOPTION_PX / 2} textAnchor="middle">
					No device has reported yet
				</text>
			)}
		</g>
	);
}

/** One day fills the whole width. */
function oneDay(span: readonly [number, number] | null, { left, right }: TimeScale, toY: (value: number) => number) {
	return span === null ? "" : `M${left},${toY(span[0])}H${right}V${toY(span[1])}H${left}Z`;
}
