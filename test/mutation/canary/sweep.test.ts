/** Catches mutants 1 and 2, and seems to catch others in ways that a sweep must not believe. */
import { beforeEach, describe, expect, test } from "vitest";
import { on } from "../switch";

test("the condition holds", () => expect(on(1)).toBe(false));

describe("what comes before each test", () => {
	let isFresh = false;
	beforeEach(() => {
		isFresh = true;
		return () => {
			isFresh = false;
		};
	});
	test("comes before it every time", () => {
		expect(isFresh).toBe(true);
		isFresh = false;
		expect(on(2)).toBe(false);
	});
});

let runs = 0;
test("runs only once", () => {
	runs += 1;
	expect([runs, on(3)]).toEqual([1, false]);
});

let isBroken = false;
test("holds never again", () => {
	if (on(4)) isBroken = true;
	expect(isBroken).toBe(false);
});

let failures = 0;
test("fails by chance", () => {
	if (on(5)) failures += 1;
	expect(on(5) && failures === 1).toBe(false);
});

test("has no time", () => (on(6) ? new Promise(() => undefined) : undefined));

let isSpoilt = false;
test("spoils the next", () => {
	if (on(7)) isSpoilt = true;
});
test("is spoilt", () => expect([isSpoilt, on(8)]).toEqual([false, false]));
