/**
 * Chance that can be had again: every draw follows from a text such as "7/getApp/12", so a request
 * is known by its seed, its operation and its number, whatever ran before or beside it.
 */
import { createHash } from "node:crypto";

export interface Random {
	/** From 0 up to but not including 1. */
	number(): number;
	/** A whole number from `least` to `most`, both included. */
	integer(least: number, most: number): number;
	chance(probability: number): boolean;
	pick<Item>(items: readonly [Item, ...Item[]]): Item;
	pick<Item>(items: readonly Item[]): Item | undefined;
	/** One of the choices, as often as its weight says. */
	weighted<Item extends { readonly weight: number }>(items: readonly Item[]): Item | undefined;
}

export function randomOf(name: string): Random {
	const seed = createHash("sha256").update(name).digest();
	let [a, b, c, d] = [0, 4, 8, 12].map((at) => seed.readUInt32LE(at)) as [number, number, number, number];
	// sfc32: small, fast, and good enough for choosing malice.
	const number = () => {
		const sum = (((a + b) | 0) + d) | 0;
		d = (d + 1) | 0;
		a = b ^ (b >>> 9);
		b = (c + (c << 3)) | 0;
		c = ((c << 21) | (c >>> 11)) + sum;
		return (sum >>> 0) / 2 ** 32;
	};
	const integer = (least: number, most: number) => least + Math.floor(number() * (most - least + 1));
	return {
		number,
		integer,
		chance: (probability) => number() < probability,
		pick: <Item>(items: readonly Item[]) => items[integer(0, items.length - 1)] as Item,
		weighted(items) {
			let rest = number() * items.reduce((sum, { weight }) => sum + weight, 0);
			for (const item of items) {
				rest -= item.weight;
				if (rest < 0) return item;
			}
			return items.at(-1);
		},
	};
}
