/** Numbers and sizes for people, in the form of the language of the screens. */
const UNITS = ["B", "kB", "MB", "GB", "TB"];
const number = new Intl.NumberFormat("en-GB");

export function countText(count: number): string {
	return number.format(count);
}

export function sizeText(bytes: number): string {
	const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length - 1);
	const value = bytes / 1000 ** power;
	return `${value.toFixed(power === 0 || value >= 100 ? 0 : 1)} ${UNITS[power]}`;
}

/** E.g. `3 bundles`, `1 bundle`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
	return `${countText(count)} ${count === 1 ? one : many}`;
}

/** A configured percentage, exact. */
export function percentText(basisPoints: number): string {
	return `${Math.round(basisPoints) / 100} %`;
}

/**
 * A share with the precision of its count: `97 %` of 617, `0.5 %` of 1,460. `0 %` and `100 %` mean
 * exactly none and all.
 */
export function shareText(part: number, whole: number): string {
	if (whole === 0) return "—";
	if (part === 0 || part === whole) return `${(part / whole) * 100} %`;
	const percent = (part / whole) * 100;
	const digits = percent < 10 && whole >= 100 ? 1 : 0;
	const text = percent.toFixed(digits);
	if (Number(text) === 0) return `under ${digits === 1 ? "0.1" : "1"} %`;
	return Number(text) === 100 ? "over 99 %" : `${text} %`;
}

/** Two digits of precision: "940 ms", "2.1 s", "64 s". */
export function durationText(ms: number): string {
	if (ms < 1000) return `${Math.round(ms)}\u00a0ms`;
	const seconds = ms / 1000;
	if (seconds >= 120) return `${Math.round(seconds / 60)}\u00a0min`;
	return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)}\u00a0s`;
}

/** Two digits at most. */
export const roundedShare = (share: number) => `${Number((share * 100).toPrecision(2))}\u00a0%`;
