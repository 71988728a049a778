/**
 * Percentiles of durations from counts in buckets. Buckets grow by five per cent, so a histogram of any number of durations is a few
 * hundred numbers, histograms are merged by adding them up, and a percentile read from one lies within 2.5 % of the true one. Nothing
 * here averages percentiles.
 */

/** The upper edge of a bucket is this many times its lower edge. */
export const BUCKET_GROWTH = 1.05;

/** Bucket 0 is everything up to one millisecond; bucket n ends at BUCKET_GROWTH to the power n. */
export function bucketOf(durationMs: number): number {
	return durationMs <= 1 ? 0 : Math.ceil(Math.log(durationMs) / Math.log(BUCKET_GROWTH) - 1e-9);
}

/** Farthest from either edge of the bucket by the same share. */
export function middleOfBucketMs(bucket: number): number {
	return bucket === 0 ? 1 : (2 * BUCKET_GROWTH ** bucket) / (1 + BUCKET_GROWTH);
}

export interface Bucket {
	readonly bucket: number;
	readonly amount: number;
}

/** The duration that so many of a hundred did not exceed (nearest rank); null where there is none. Buckets may repeat, in any order. */
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
