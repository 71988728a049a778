/** The state of a rate beside its limit, and its words. Pure. */

export type Health = "below" | "unknown" | "above";

interface Judged {
	readonly of: number;
	readonly lowerBound: number;
	readonly upperBound: number;
	readonly limit: number;
}

/** Whether the rate is surely below or above its limit. */
export function stateOfRate({ of, lowerBound, upperBound, limit }: Judged): Health {
	if (of > 0 && lowerBound >= limit) return "above";
	return of > 0 && upperBound < limit ? "below" : "unknown";
}

export const HEALTH_BADGES: Readonly<Record<Health, readonly [string, "ok" | "bad" | undefined]>> = {
	below: ["Below the limit", "ok"],
	unknown: ["Too few to tell", undefined],
	above: ["Above the limit", "bad"],
};
