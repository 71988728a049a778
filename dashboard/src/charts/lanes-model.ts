/**
 * Lanes of channels on one time axis: which version was live when. Pure. Every segment lies inside
 * of the axis, and a label is shown only where it fits.
 */
import { estimatedWidthPx, fitText } from "../../../src/charts/text";

export interface Segment {
	readonly version: string;
	readonly fromMs: number;
	readonly toMs: number;
}

export interface RolloutStep {
	/** 0 to 100. */
	readonly percent: number;
	readonly fromMs: number;
	readonly toMs: number;
}

export interface Lane {
	readonly name: string;
	/** E.g. "8,064 devices". */
	readonly note: string;
	readonly segments: readonly Segment[];
	readonly rollout?: { readonly version: string; readonly steps: readonly RolloutStep[] };
	/** At the right: the version now. */
	readonly now: string;
	/** E.g. "2.4.0 at 25 %". */
	readonly nowNote?: string;
	/** Path of the channel. */
	readonly to?: string;
}

export interface TimeScale {
	readonly fromMs: number;
	readonly toMs: number;
	readonly left: number;
	readonly right: number;
}

export function xOf({ fromMs, toMs, left, right }: TimeScale, atMs: number): number {
	const share = (atMs - fromMs) / Math.max(1, toMs - fromMs);
	return left + Math.min(1, Math.max(0, share)) * (right - left);
}

/** As many gaps as neighbours have between them. */
const GAP_PX = 1.5;
const LABEL_SPACE_PX = 12;

interface Bar {
	readonly version: string;
	readonly x: number;
	readonly widthPx: number;
	/** Empty where it does not fit. */
	readonly label: string;
}

/** Segments inside of the axis, without those that would have no width. */
export function barsOf(segments: readonly Segment[], scale: TimeScale, fontPx: number): Bar[] {
	return segments.flatMap(({ version, fromMs, toMs }) => {
		if (toMs <= scale.fromMs || fromMs >= scale.toMs || toMs <= fromMs) return [];
		const x = xOf(scale, fromMs);
		const widthPx = Math.max(1, xOf(scale, toMs) - x - GAP_PX);
		const roomPx = widthPx - LABEL_SPACE_PX;
		const fits = estimatedWidthPx(version, fontPx) * 0.9 <= roomPx;
		const label = fits ? version : roomPx > fontPx * 5 ? fitText(version, fontPx, roomPx, "middle") : "";
		return [{ version, x, widthPx, label }];
	});
}

/** A description of the chart in words. */
export function lanesSummary(lanes: readonly Lane[]): string {
	const sentences = lanes.map(({ name, note, now, nowNote }) =>
		[`${name}: ${now}`, nowNote, note].filter((part) => part !== undefined && part !== "").join(", "),
	);
	return sentences.length === 0 ? "No channel has a bundle." : `${sentences.join(". ")}.`;
}
