/**
 * Which devices are offered the zip, over random histories of their reports beside a plain model.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createFailedFiles } from "../../src/domain/updates/failed-files";

const FAILS = ["download_manifest_file_fail", "download_manifest_checksum_fail", "download_manifest_brotli_fail"];
const report = fc.record({
	device: fc.constantFrom("one", "two"),
	version: fc.constantFrom("1.0.1", "1.0.2"),
	action: fc.oneof(
		{ weight: 3, arbitrary: fc.constantFrom(...FAILS, "manifest_path_fail") },
		{ weight: 3, arbitrary: fc.constant("download_manifest_start") },
		{ weight: 1, arbitrary: fc.constantFrom("download_manifest_complete", "set", "download_fail", "ping") },
	),
	/** The client sends its report again, because the answer was lost. */
	repeated: fc.boolean(),
});

test("a device gets the zip of a bundle after two attempts with failed files, repeated reports aside", () => {
	fc.assert(
		fc.property(fc.array(report, { maxLength: 40 }), fc.boolean(), (reports, hasTimes) => {
			const failedFiles = createFailedFiles();
			const failed = new Map<string, { version: string; attempts: number; isOpen: boolean }>();
			let atMs = 1_000;
			for (const { device, version, action, repeated } of reports) {
				atMs += 1;
				const times = hasTimes && repeated ? 2 : 1;
				for (let sent = 0; sent < times; sent++)
					failedFiles.note("app", device, action, version, hasTimes ? atMs : null);
				const before = failed.get(device);
				const known = before?.version === version ? before : undefined;
				if (action.endsWith("_fail") && action !== "download_fail") {
					if (known === undefined) failed.set(device, { version, attempts: 1, isOpen: false });
					else if (known.isOpen) Object.assign(known, { attempts: known.attempts + 1, isOpen: false });
				} else if (action === "download_manifest_start" && known !== undefined) known.isOpen = true;
				else if (known !== undefined && ["download_manifest_complete", "set"].includes(action)) failed.delete(device);
				for (const each of ["one", "two"]) {
					const model = failed.get(each);
					expect(failedFiles.of("app", each)).toBe((model?.attempts ?? 0) >= 2 ? model?.version : undefined);
					expect(failedFiles.of("other", each)).toBeUndefined();
				}
			}
		}),
		{ numRuns: 500, seed: 20_261_127 },
	);
});

test("reports of one attempt count once, in whatever order they arrive", () => {
	const first = [
		["download_manifest_start", 1_000],
		["download_manifest_file_fail", 1_010],
		["download_manifest_checksum_fail", 1_020],
	] as const;
	const second = [
		["download_manifest_start", 2_000],
		["download_manifest_file_fail", 2_010],
		["download_manifest_file_fail", 2_020],
	] as const;
	fc.assert(
		fc.property(
			fc.shuffledSubarray([...first], { minLength: 3 }),
			fc.shuffledSubarray([...second], { minLength: 3 }),
			(firstReports, secondReports) => {
				const failedFiles = createFailedFiles();
				for (const [action, atMs] of firstReports) failedFiles.note("app", "one", action, "1.0.1", atMs);
				expect(failedFiles.of("app", "one")).toBeUndefined();
				for (const [action, atMs] of secondReports) failedFiles.note("app", "one", action, "1.0.1", atMs);
				expect(failedFiles.of("app", "one")).toBe("1.0.1");
				// The answer of a report of the first attempt was lost.
				failedFiles.note("app", "one", "download_manifest_complete", "1.0.1", 500);
				expect(failedFiles.of("app", "one")).toBe("1.0.1");
			},
		),
		{ numRuns: 100, seed: 20_261_127 },
	);
});

describe("memory", () => {
	test("is bounded: the oldest device is forgotten", () => {
		const failedFiles = createFailedFiles();
		const fail = (device: string) => {
			failedFiles.note("app", device, "download_manifest_start", "1.0.1", null);
			failedFiles.note("app", device, "download_manifest_file_fail", "1.0.1", null);
		};
		fail("first");
		fail("first");
		expect(failedFiles.of("app", "first")).toBe("1.0.1");
		for (let index = 0; index < 20_000; index++) fail(String(index));
		expect(failedFiles.of("app", "first")).toBeUndefined();
	});
});
