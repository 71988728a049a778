/**
 * Places of the names of series: beside their last values, as near as there is room. No two names
 * touch, and all keep the order of the marks.
 */
import type { ChartModel, ModelSeries } from "./model";

/**
 * Places from top to bottom, moved down and then up as little as possible, so that all are `gapPx`
 * apart and inside.
 */
export function spread(places: readonly number[], gapPx: number, top: number, bottom: number): number[] {
	const result = [...places];
	for (const [index, place] of result.entries()) {
		const least = index === 0 ? top : (result[index - 1] ?? top) + gapPx;
		result[index] = Math.max(place, least);
	}
	for (let index = result.length - 1; index >= 0; index--) {
		const most = index === result.length - 1 ? bottom : (result[index + 1] ?? bottom) - gapPx;
		result[index] = Math.min(result[index] ?? most, most);
	}
	return result;
}

/**
 * The height of a series at its last value, in the unit of the axis: the middle of its band, or the
 * point of its line.
 */
export function endOf(model: ChartModel, { values, spans }: ModelSeries): number {
	const last = values.findLastIndex((value) => value !== null);
	const span = spans[last] ?? [0, 0];
	return model.kind === "line" ? (values[last] ?? 0) : (span[0] + span[1]) / 2;
}
