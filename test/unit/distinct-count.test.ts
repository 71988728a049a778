/**
 * Distinct devices: exact to a thousand, within the stated bound above, and a union whatever the
 * order and the overlap of the days.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	addDevice,
	countDistinct,
	decodeSketch,
	EXACT_UP_TO,
	emptySketch,
	encodeSketch,
	mergeSketches,
	type Sketch,
} from "../../src/domain/statistics/distinct-count";

const sketchOf = (from: number, to: number): Sketch => {
	let sketch = emptySketch();
	for (let device = from; device < to; device++) sketch = addDevice(sketch, `device-${device}`);
	return sketch;
};

describe("countDistinct", () => {
	test("is exact to 1,000 devices, however often each one is added", () => {
		for (const devices of [0, 1, 2, 999, EXACT_UP_TO]) {
			let sketch = sketchOf(0, devices);
			for (let device = 0; device < devices; device += 3) sketch = addDevice(sketch, `device-${device}`);
			expect(countDistinct(sketch)).toBe(devices);
		}
	});

	test.each([1_001, 2_000, 5_000, 20_000, 60_000])("is within 2 % for %i devices", (devices) => {
		const counted = countDistinct(sketchOf(0, devices));
		expect(Math.abs(counted - devices) / devices).toBeLessThan(0.02);
	});

	test("is the same after encoding, whose size does not grow with the fleet", () => {
		for (const devices of [0, 3, 1_000, 5_000]) {
			const sketch = sketchOf(0, devices);
			const text = encodeSketch(sketch);
			expect(countDistinct(decodeSketch(text))).toBe(countDistinct(sketch));
			expect(text.length).toBeLessThanOrEqual(22_500);
		}
	});
});

describe("a stored sketch", () => {
	/**
	 * Registers up to `most`, pseudo-random by the seed: fast-check itself takes a second to draw so
	 * many values.
	 */
	function registersOf(seed: number, most: number): Uint8Array {
		let state = seed | 1;
		return Uint8Array.from({ length: 1 << 15 }, () => {
			state ^= state << 13;
			state ^= state >>> 17;
			state ^= state << 5;
			return (state >>> 0) % (most + 1);
		});
	}

	test("keeps every register, however far apart they are", () => {
		fc.assert(
			fc.property(fc.integer(), fc.nat(50), (seed, most) => {
				const registers = registersOf(seed, most);
				const decoded = decodeSketch(encodeSketch({ kind: "estimated", registers }));
				if (decoded.kind !== "estimated") throw new Error("not estimated");
				expect(Buffer.compare(decoded.registers, registers)).toBe(0);
			}),
			{ numRuns: 50 },
		);
	});
});

describe("a union", () => {
	test("counts a device of several days once", () => {
		expect(countDistinct(mergeSketches(sketchOf(0, 600), sketchOf(300, 900)))).toBe(900);
		const large = countDistinct(mergeSketches(sketchOf(0, 30_000), sketchOf(10_000, 40_000)));
		expect(Math.abs(large - 40_000) / 40_000).toBeLessThan(0.02);
	});

	test("is the same in any order, with exact and estimated days mixed", () => {
		const range = fc.tuple(fc.nat(3_000), fc.nat(2_000)).map(([from, length]) => [from, from + length] as const);
		fc.assert(
			fc.property(fc.array(range, { minLength: 1, maxLength: 4 }), (ranges) => {
				const merged = (list: readonly (readonly [number, number])[]) =>
					encodeSketch(list.map(([from, to]) => sketchOf(from, to)).reduce(mergeSketches, emptySketch()));
				expect(merged(ranges)).toEqual(merged([...ranges].reverse()));
			}),
			{ numRuns: 20 },
		);
	});
});
