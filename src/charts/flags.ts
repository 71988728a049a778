/**
 * Flags of releases at the top of a chart, for the drawing of the API and for the interactive one.
 * Flags never overlap: where there is no room, one has the newest name and the number of the
 * others.
 */
import type { ChartModel } from "./model";
import { estimatedWidthPx, fitText } from "./text";

export interface Flag {
	readonly index: number;
	readonly x: number;
	readonly widthPx: number;
	readonly text: string;
}

export const FLAG_PX = 11;
export const FLAG_HEIGHT_PX = 19;
const FLAG_PADDING_PX = 7;
/** Longer names are shortened in the middle, because versions differ at their ends. */
const MOST_NAME_PX = 120;
const GAP_PX = 4;

interface Place {
	readonly left: number;
	readonly right: number;
	readonly toX: (index: number) => number;
}

/** From the newest on: a flag takes the releases before it that have no room beside it. */
export function flagsOf(model: ChartModel, { toX, right, left }: Place): Flag[] {
	const flags: { index: number; labels: string[]; x: number; widthPx: number }[] = [];
	const place = (index: number, labels: readonly string[], most: number) => {
		const widthPx = estimatedWidthPx(textOf(labels), FLAG_PX) * 0.92 + 2 * FLAG_PADDING_PX;
		return { widthPx, x: Math.max(left, Math.min(toX(index) - widthPx / 2, most - widthPx)) };
	};
	const mostOf = (position: number) => (position < 0 ? right : (flags[position]?.x ?? right) - GAP_PX);
	for (const { index, label } of model.markers.toReversed()) {
		const name = fitText(label, FLAG_PX, MOST_NAME_PX, "middle");
		const newer = flags.at(-1);
		const at = place(index, [name], right);
		if (newer === undefined || at.x + at.widthPx + GAP_PX <= newer.x) {
			flags.push({ index, labels: [name], ...at });
			continue;
		}
		newer.labels.unshift(name);
		Object.assign(newer, place(newer.index, newer.labels, mostOf(flags.length - 2)));
	}
	return flags.toReversed().map(({ index, x, widthPx, labels }) => ({ index, x, widthPx, text: textOf(labels) }));
}

function textOf(labels: readonly string[]): string {
	const last = labels.at(-1) ?? "";
	return labels.length === 1 ? last : `${last} +${labels.length - 1}`;
}
