/**
 * Store versions as stores and build systems write them, against a bundle and a rule of the
 * channel: the decision for a device that runs its store build.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { equalVersion, readVersion } from "../../src/domain/updates/version";
import { bundle, decide } from "./support/decision-scene";

const SAME = "no_new_version_available";
const UNDER = "disable_auto_update_under_native";
const MAJOR = "disable_auto_update_to_major";
const MINOR = "disable_auto_update_to_minor";
const PATCH = "disable_auto_update_to_patch";
const UNREADABLE = "semver_error";

type Row = readonly [store: string, bundle: string, rule: "major" | "minor" | "patch" | "none", decision: string];
const ROWS: readonly Row[] = [
	// SemVer, and one to three whole numbers: the same version is the same bundle.
	["1.0.0", "1.0.0", "major", SAME],
	["1.0", "1.0.0", "major", SAME],
	["1", "1.0.0", "major", SAME],
	["01.00", "1.0.0", "major", SAME],
	["2024.01.05", "2024.1.5", "major", SAME],
	["3.2.0", "3.2.0", "patch", SAME],
	["1.0.0+57", "1.0.0", "major", SAME],
	["1.0.0-beta", "1.0.0-beta", "major", SAME],
	["1.0.0-beta.2", "1.0.0-beta.2", "none", SAME],
	["2.1", "2.1.0", "minor", SAME],
	// A rest is a build of that version, and gets the bundle with the same numbers.
	["1.0.0.57", "1.0.0", "major", "1.0.0"],
	["1.0.0.57", "1.0.0", "minor", "1.0.0"],
	["1.0.0.57", "1.0.0", "patch", "1.0.0"],
	["1.0.0.57", "1.0.0", "none", "1.0.0"],
	["1.0.0.0", "1.0.0", "major", "1.0.0"],
	["1.0-beta", "1.0.0", "major", "1.0.0"],
	["1.0 (57)", "1.0.0", "major", "1.0.0"],
	["1.0.0 (57)", "1.0.0", "major", "1.0.0"],
	["1.0.0_57", "1.0.0", "major", "1.0.0"],
	["1.0.0 beta", "1.0.0", "major", "1.0.0"],
	["2024.01.05-beta (77)", "2024.1.5", "major", "2024.1.5"],
	["2.1 build 77", "2.1.0", "major", "2.1.0"],
	["1.0.0-beta", "1.0.0", "major", "1.0.0"],
	["1.0.0-rc.1", "1.0.0", "patch", "1.0.0"],
	["1.0 (2024.1.5)", "1.0.0", "major", "1.0.0"],
	["v1.2.3.4", "1.2.3", "major", "1.2.3"],
	["1-SNAPSHOT", "1.0.0", "major", "1.0.0"],
	["3.2.0-ff1d84c_5", "3.2.0", "major", "3.2.0"],
	// A rest keeps the order.
	["1.0.1.57", "1.0.0", "major", UNDER],
	["1.0.1-beta (3)", "1.0.0", "major", UNDER],
	["2.0.0.1", "1.9.9", "none", UNDER],
	["1.1 (9)", "1.0.9", "major", UNDER],
	["1.0.0.57", "1.0.1", "major", "1.0.1"],
	["1.0.0.57", "1.0.1", "minor", "1.0.1"],
	["1.0.0.57", "1.1.0", "major", "1.1.0"],
	["1.0.0.57", "2.0.0", "major", MAJOR],
	["1.0.0.57", "1.1.0", "minor", MINOR],
	["1.0.0.57", "2.0.0", "minor", MINOR],
	["1.0.0.57", "1.0.1", "patch", PATCH],
	["1.0.0.57", "2.0.0", "none", "2.0.0"],
	["1.0-beta", "0.9.0", "major", UNDER],
	["1.0.0", "1.0.0-beta", "major", UNDER],
	// Plain versions under each rule.
	["1.0.0", "1.0.1", "major", "1.0.1"],
	["1.0.0", "1.9.0", "major", "1.9.0"],
	["1.0.0", "2.0.0", "major", MAJOR],
	["1.0.0", "1.0.5", "minor", "1.0.5"],
	["1.0.0", "1.1.0", "minor", MINOR],
	["1.0.0", "1.0.1", "patch", PATCH],
	["1.0.0", "2.0.0", "none", "2.0.0"],
	["1.2", "1.1.9", "major", UNDER],
	["1.2", "1.2.1", "minor", "1.2.1"],
	["2", "1.9.9", "none", UNDER],
	["10.0.0", "9.9.9", "major", UNDER],
	["9.9.9", "10.0.0", "major", MAJOR],
	// Code names: the first group of three numbers.
	["app2-1.1.0", "1.1.1", "major", "1.1.1"],
	["app2-1.1.0", "1.0.9", "major", UNDER],
	["app2-1.1.0", "1.1.0", "major", "1.1.0"],
	["release-3.2.0", "3.2.1", "minor", "3.2.1"],
	["Falcon9 1.4.2 build 7.7.7", "1.4.3", "major", "1.4.3"],
	["Oreo-8.1", "8.1.0", "major", "8.1.0"],
	["Version 2", "2.0.1", "major", "2.0.1"],
	["ios_5.0.0_prod", "4.9.9", "major", UNDER],
	// Nothing to read, or nothing that can be held exactly.
	["", "1.0.0", "major", UNREADABLE],
	["beta", "1.0.0", "major", UNREADABLE],
	["9007199254740993", "1.0.0", "major", UNREADABLE],
	["1.99999999999999999999.0", "1.0.0", "major", UNREADABLE],
	["app-20260101123456789012", "1.0.0", "major", UNREADABLE],
	["1.0.0.99999999999999999999", "1.0.0", "major", "1.0.0"],
];

describe("a device on its store build", () => {
	test.each(ROWS)("of version '%s', a channel with %s and the rule %s: %s", (versionBuild, version, rule, decision) => {
		const decided = decide({ bundle: bundle(version), disableAutoUpdate: rule }, { versionBuild });
		expect(decided.outcome === "update" ? version : decided).toEqual(
			decided.outcome === "update" ? decision : expect.objectContaining({ outcome: "none", error: decision }),
		);
	});
});

test("only SemVer and one to three whole numbers equal a version", () => {
	const number = fc.nat(9_999);
	fc.assert(
		fc.property(fc.array(number, { minLength: 1, maxLength: 3 }), ([major = 0, minor = 0, patch = 0]) => {
			expect(equalVersion([major, minor, patch].join("."))).toBe(`${major}.${minor}.${patch}`);
		}),
	);
	const rest = fc.constantFrom(".7", " (7)", "_7", " beta", ".0");
	fc.assert(
		fc.property(number, number, number, rest, (major, minor, patch, end) => {
			const text = `${major}.${minor}.${patch}${end}`;
			expect(equalVersion(text)).toBe(null);
			expect(readVersion(text)?.version, "it keeps its order").toBe(`${major}.${minor}.${patch}`);
		}),
	);
});
