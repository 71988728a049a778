/** Percentile, median and ratio. Pure. */

/** Nearest rank: the smallest value that at least `percent` of the values do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
	if (values.length === 0) return Number.NaN;
	const sorted = Float64Array.from(values).sort();
	const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
	return sorted[rank - 1] ?? Number.NaN;
}

/** The middle value, or the mean of the two middle values. */
export function median(values: readonly number[]): number {
	const sorted = Float64Array.from(values).sort();
	const middle = sorted.length / 2;
	const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
	return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

/**
 * The ratio of `ours` and `others` within each round, because other load affects both sides of a
 * round.
 */
function ratiosOfRounds(ours: readonly number[], others: readonly number[]): number[] {
	const rounds = Math.min(ours.length, others.length);
	return Array.from({ length: rounds }, (_, round) => (ours[round] ?? 0) / (others[round] ?? 0));
}

/** The median of the ratios of all rounds. */
export function ratioOfRounds(ours: readonly number[], others: readonly number[]): number {
	return median(ratiosOfRounds(ours, others));
}

/** How far the ratios of the rounds lie apart: the interquartile range by the median. */
export function spreadOfRounds(ours: readonly number[], others: readonly number[]): number {
	const ratios = ratiosOfRounds(ours, others);
	return (percentile(ratios, 75) - percentile(ratios, 25)) / median(ratios);
}
