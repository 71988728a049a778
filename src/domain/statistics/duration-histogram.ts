/**
 * Percentiles of durations from a histogram. Buckets grow by 5 %, so a histogram has a few hundred
 * numbers whatever it counts, histograms are merged by addition, and a percentile lies within 2.5 %
 * of the true one. Percentiles are never averaged.
 *
 * Bucket 0 is everything up to one millisecond; bucket n ends at BUCKET_GROWTH to the power n.
 */

/** The upper edge of a bucket is this many times its lower edge. */
const BUCKET_GROWTH = 1.05;

export function bucketOf(durationMs: number): number {
	// A duration on the edge belongs to the bucket that ends there, whatever the rounding of the
	// logarithm.
	return durationMs <= 1 ? 0 : Math.ceil(Math.log(durationMs) / Math.log(BUCKET_GROWTH) - 1e-9);
}

/** Differs from both edges of the bucket by the same share. */
function middleOfBucketMs(bucket: number): number {
	return bucket === 0 ? 1 : (2 * BUCKET_GROWTH ** bucket) / (1 + BUCKET_GROWTH);
}

export interface Bucket {
	readonly bucket: number;
	readonly amount: number;
}

/** Nearest-rank percentile; null without durations. Buckets may repeat, in any order. */
export function percentileMs(buckets: readonly Bucket[], percent: number): number | null {
	const total = buckets.reduce((sum, { amount }) => sum + amount, 0);
	if (total === 0) return null;
	const rank = Math.max(1, Math.ceil((total * percent) / 100));
	let seen = 0;
	for (const { bucket, amount } of [...buckets].sort((left, right) => left.bucket - right.bucket)) {
		seen += amount;
		if (seen >= rank) return Math.round(middleOfBucketMs(bucket));
	}
	return null;
}
