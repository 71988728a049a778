/**
 * Distinct devices: exact to a thousand, within the stated bound above, and a union whatever the order and the overlap of the days.
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
} from "../../src/domain/distinct-count";

const sketchOf = (from: number, to: number): Sketch => {
	let sketch = emptySketch();
	for (let device = from; device < to; device++) sketch = addDevice(sketch, `device-${device}`);
	return sketch;
};

describe("a count", () => {
	test("is exact to a thousand, however often each device is seen", () => {
		for (const devices of [0, 1, 2, 999, EXACT_UP_TO]) {
			let sketch = sketchOf(0, devices);
			for (let device = 0; device < devices; device += 3) sketch = addDevice(sketch, `device-${device}`);
			expect(countDistinct(sketch)).toBe(devices);
		}
	});

	test.each([1_001, 2_000, 5_000, 20_000, 60_000])("of %i devices is within 2 percent", (devices) => {
		const counted = countDistinct(sketchOf(0, devices));
		expect(Math.abs(counted - devices) / devices).toBeLessThan(0.02);
	});

	test("survives being stored, at a size that does not grow with the fleet", () => {
		for (const devices of [0, 3, 1_000, 5_000]) {
			const sketch = sketchOf(0, devices);
			const text = encodeSketch(sketch);
			expect(countDistinct(decodeSketch(text))).toBe(countDistinct(sketch));
			expect(text.length).toBeLessThanOrEqual(22_500);
		}
	});
});

describe("a stored sketch", () => {
	const registers = fc.uint8Array({ minLength: 1 << 15, maxLength: 1 << 15, max: 50 });

	test("gives back every register, however far they lie apart", () => {
		fc.assert(
			fc.property(registers, fc.nat(30), (values, spread) => {
				const sketch = { kind: "estimated", registers: values.map((value) => value % (spread + 1)) } as const;
				expect(decodeSketch(encodeSketch(sketch))).toEqual(sketch);
			}),
			{ numRuns: 20 },
		);
	});

	test("of an earlier version, a byte a register, is read as well", () => {
		const values = Uint8Array.from({ length: 1 << 15 }, (_, index) => index % 40);
		let text = String.fromCharCode(2);
		for (const value of values) text += String.fromCharCode(value);
		expect(decodeSketch(btoa(text))).toEqual({ kind: "estimated", registers: values });
	});
});

describe("a union", () => {
	test("counts a device of several days once", () => {
		expect(countDistinct(mergeSketches(sketchOf(0, 600), sketchOf(300, 900)))).toBe(900);
		const large = countDistinct(mergeSketches(sketchOf(0, 30_000), sketchOf(10_000, 40_000)));
		expect(Math.abs(large - 40_000) / 40_000).toBeLessThan(0.02);
	});

	test("is the same in any order, exact and estimated days mixed", () => {
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
