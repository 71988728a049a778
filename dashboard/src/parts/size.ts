/** Numbers and sizes as people read them. */
const UNITS = ["B", "kB", "MB", "GB", "TB"];
const number = new Intl.NumberFormat();

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
