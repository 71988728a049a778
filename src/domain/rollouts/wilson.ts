/**
 * The Wilson score interval: the bounds of the true rate, with the given confidence, after
 * `successes` of `trials`. Unlike the normal approximation it holds for few trials and for rates
 * near 0, which are typical of failures. E. B. Wilson, "Probable inference, the law of succession,
 * and statistical inference", JASA 22 (1927), 209-212.
 */

export interface Interval {
	readonly lower: number;
	readonly upper: number;
}

/** @param confidence two-sided, such as 0.95. Without trials the interval is 0 to 1. */
export function wilsonInterval(successes: number, trials: number, confidence: number): Interval {
	if (trials === 0) return { lower: 0, upper: 1 };
	const z = normalQuantile((1 + confidence) / 2);
	const rate = successes / trials;
	const share = (z * z) / trials;
	const middle = rate + share / 2;
	const half = z * Math.sqrt((rate * (1 - rate) + share / 4) / trials);
	return {
		// Exact bounds, because rounding could move them.
		lower: successes === 0 ? 0 : Math.max(0, (middle - half) / (1 + share)),
		upper: successes === trials ? 1 : Math.min(1, (middle + half) / (1 + share)),
	};
}

/**
 * The quantile of the standard normal distribution at probability `p`; relative error below 1.2e-9.
 * P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function"
 * (2003).
 */
export function normalQuantile(p: number): number {
	if (p > 1 - TAIL) return -lowerTail(1 - p);
	if (p < TAIL) return lowerTail(p);
	const q = p - 0.5;
	const r = q * q;
	return (polynomial(A, r) * q) / polynomial([...B, 1], r);
}

function lowerTail(p: number): number {
	const q = Math.sqrt(-2 * Math.log(p));
	return polynomial(C, q) / polynomial([...D, 1], q);
}

/** Coefficients of the highest power first. */
function polynomial(coefficients: readonly number[], x: number): number {
	return coefficients.reduce((sum, coefficient) => sum * x + coefficient, 0);
}

const TAIL = 0.02425;
const A = [
	-3.969683028665376e1, 2.209460984245205e2, -2.759285104469687e2, 1.38357751867269e2, -3.066479806614716e1,
	2.506628277459239,
];
const B = [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1];
const C = [
	-7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838, -2.549732539343734, 4.374664141464968,
	2.938163982698783,
];
const D = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
