/**
 * Flags of releases at the top of a chart, for the drawing of the API and for the interactive one. Flags never overlap: where there is no
 * room, one has the newest name and the number of the others.
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

export function flagsOf(model: ChartModel, { toX, right, left }: Place): Flag[] {
	const flags: { index: number; labels: string[]; x: number; widthPx: number }[] = [];
	const place = (index: number, labels: readonly string[]) => {
		const widthPx = estimatedWidthPx(textOf(labels), FLAG_PX) * 0.92 + 2 * FLAG_PADDING_PX;
		return { widthPx, x: Math.max(left, Math.min(toX(index) - widthPx / 2, right - widthPx)) };
	};
	for (const { index, label } of model.markers) {
		const labels = [fitText(label, FLAG_PX, MOST_NAME_PX, "middle")];
		let at = place(index, labels);
		while (flags.length > 0) {
			const before = flags.at(-1);
			if (before === undefined || before.x + before.widthPx + GAP_PX <= at.x) break;
			labels.unshift(...before.labels);
			flags.pop();
			at = place(index, labels);
		}
		flags.push({ index, labels, ...at });
	}
	return flags.map(({ index, labels, x, widthPx }) => ({ index, x, widthPx, text: textOf(labels) }));
}

function textOf(labels: readonly string[]): string {
	const last = labels.at(-1) ?? "";
	return labels.length === 1 ? last : `${last} +${labels.length - 1}`;
}
