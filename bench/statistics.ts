/** The few figures that a run is told in. Pure; the tests hold them to worked examples. */

/** Nearest rank: the smallest value that at least `percent` of the values do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
	if (values.length === 0) return Number.NaN;
	const sorted = Float64Array.from(values).sort();
	const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
	return sorted[rank - 1] ?? Number.NaN;
}

/** The middle one, or the mean of the two middle ones. */
export function median(values: readonly number[]): number {
	const sorted = Float64Array.from(values).sort();
	const middle = sorted.length / 2;
	const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
	return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

/**
 * How many times the rate of `others` the rate of `ours` is: the median over the rounds of the ratio within a round. What else the
 * machine was doing in a round weighs on both sides of it.
 */
export function ratioOfRounds(ours: readonly number[], others: readonly number[]): number {
	const rounds = Math.min(ours.length, others.length);
	return median(Array.from({ length: rounds }, (_, round) => (ours[round] ?? 0) / (others[round] ?? 0)));
}
