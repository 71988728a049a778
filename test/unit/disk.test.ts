/**
 * Problems of a directory are named with the remedy, also where the runtime reports an internal
 * error.
 */
import { describe, expect, test } from "vitest";
import { diskFailure, whileBusy } from "../../src/operator/disk";
import { Failure } from "../../src/operator/failure";

const INTERNAL = new Error("internal error; reference = 9e882v9i7a0q7v6d11ajp74l");
const coded = (code: string, more: object = {}) => Object.assign(new Error(code), { code, ...more });
const judge = async (error: unknown, freeBytes = 1e9) =>
	diskFailure(error, "/data/backup", "A former backup in it is whole.", async () => freeBytes);

describe("a directory", () => {
	const full =
		"No space is left for /data/backup. A former backup in it is whole. Free some space, and run the same command again.";
	test.each([
		[coded("ENOSPC"), 1e9, full],
		[coded("EDQUOT"), 1e9, full],
		[INTERNAL, 0, full],
		[
			coded("EROFS", { path: "/data" }),
			1e9,
			"/data cannot be written to (EROFS). Make it writable, or name another directory.",
		],
		[coded("ENOENT", { syscall: "mkdir" }), 1e9, "/data/backup cannot be written to (ENOENT)"],
		[coded("ENOTDIR", { path: "/data" }), 1e9, "/data is a file, and a directory is needed."],
	])("%#: the failure names the remedy", async (error, freeBytes, message) => {
		const failure = await judge(error, freeBytes);
		expect(failure).toBeInstanceOf(Failure);
		expect((failure as Failure).message).toContain(message);
	});

	test("has nothing to do with other errors, and failures stay as they are", async () => {
		for (const error of [INTERNAL, coded("ENOENT", { syscall: "open" }), new Failure("known")]) {
			expect(await judge(error)).toBe(error);
		}
		// The nearest directory that exists counts.
		expect(await diskFailure(INTERNAL, "/nowhere/at/all", "")).toBe(INTERNAL);
	});
});

describe("a busy database", () => {
	const pauses: number[] = [];
	const pause = async (ms: number) => {
		pauses.push(ms);
	};

	test("is read once the other process lets it go", async () => {
		const answers = [INTERNAL, new Error("D1_ERROR: database is locked: SQLITE_BUSY")];
		const work = async () => {
			const error = answers.shift();
			if (error !== undefined) throw error;
			return 7;
		};
		expect(await whileBusy("here", work, { pause })).toBe(7);
		expect(pauses).toHaveLength(2);
	});

	test("that stays busy is a failure with the remedy, and other errors are none of it", async () => {
		const work = (error: Error) => whileBusy("here", () => Promise.reject(error), { limitMs: 1_000, pause });
		await expect(work(INTERNAL)).rejects.toThrow(
			"The database of here did not answer for 1 s: another process holds it, or the disk is full or damaged.",
		);
		pauses.length = 0;
		await expect(work(new Error("D1_ERROR: no such table: x"))).rejects.toThrow("no such table");
		expect(pauses).toEqual([]);
	});
});
