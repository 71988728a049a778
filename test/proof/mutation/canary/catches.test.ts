/**
 * Catches mutant 1, in a test or before the tests, and breaks off with others in each of the ways
 * that say nothing about a mutant.
 */
import { existsSync, rmSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { on } from "../switch";

test("the condition holds", () => expect(on(1)).toBe(false));
test("there is time", () => (on(2) ? new Promise(() => undefined) : undefined));
test("the tests go on", () => {
	if (on(3)) process.kill(process.pid, "SIGKILL");
});
test("the test process goes on", () => {
	if (on(4)) process.kill(process.ppid, "SIGKILL");
});
test("the file comes to an end", () => {
	while (on(5));
});
describe("what comes before the tests", () => {
	beforeAll(() => expect(on(6)).toBe(false));
	test("holds", () => undefined);
});
test("nothing is left behind", () => {
	if (on(7)) void Promise.reject(new Error("nobody waits for this"));
});
test("nothing breaks off for once", () => {
	const path = process.env.CANARY_FILE ?? "";
	if (!on(8) || !existsSync(path)) return;
	rmSync(path);
	process.kill(process.ppid, "SIGKILL");
});
