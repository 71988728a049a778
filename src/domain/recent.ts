/**
 * Compact memory of many devices: a map that evicts the least recently used entries, and hashes
 * instead of texts. The isolate's random seed prevents prepared collisions.
 */

const PRIME = 0x01000193;
/** A hash of 52 bits. */
export function hashOf(text: string, seed: number): number {
	let one = seed | 0;
	let other = ~seed | 0;
	for (let index = 0; index < text.length; index += 1) {
		const code = text.charCodeAt(index);
		one = Math.imul(one ^ code, PRIME);
		other = Math.imul(other ^ (code + index), 0x85ebca6b) ^ (other >>> 13);
	}
	one ^= one >>> 15;
	other ^= other >>> 16;
	return (one >>> 0) + ((other >>> 0) & 0xfffff) * 0x100000000;
}

interface RecentMap<Value> {
	get(key: string): Value | undefined;
	set(key: string, value: Value): void;
}

/** Holds at least the `least` most recently used entries, and at most twice as many. */
export function recentMap<Value>(least: number): RecentMap<Value> {
	let young = new Map<string, Value>();
	let old = new Map<string, Value>();
	function set(key: string, value: Value): void {
		if (young.size >= least && !young.has(key)) {
			old = young;
			young = new Map();
		}
		young.set(key, value);
	}
	return {
		get(key) {
			const value = young.get(key);
			if (value !== undefined) return value;
			const before = old.get(key);
			if (before !== undefined) set(key, before);
			return before;
		},
		set,
	};
}
