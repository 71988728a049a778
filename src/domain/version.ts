/**
 * SemVer of devices and bundles. Native version numbers such as "1" or "1.2" are coerced; bundle versions are SemVer already. Nothing here
 * throws.
 */

import type SemVer from "semver/classes/semver";
import coerce from "semver/functions/coerce";
import compare from "semver/functions/compare";
import parse from "semver/functions/parse";

/**
 * The version, coerced if it is not SemVer: "1.2" is 1.2.0, "2024.01.05-beta (77)" is 2024.1.5. Null without a number, or with one that is
 * too large.
 */
export function readVersion(text: string): SemVer | null {
	const known = READ.get(text);
	if (known !== undefined) return known;
	const version = parse(text) ?? coerce(text, { loose: true });
	if (READ.size >= MOST_READ) READ.clear();
	READ.set(text, version);
	return version;
}

/** A fleet has a few dozen versions, and each update check parses about ten. */
const READ = new Map<string, SemVer | null>();
const MOST_READ = 1_000;

/** The version of a store binary. "builtin" has no number and counts as the oldest. */
export function readNativeVersion(text: string): SemVer | null {
	return readVersion(text === "builtin" ? "0.0.0" : text);
}

/** Whether `text` is at least the version listed for its major. Majors above the table qualify; those below do not. */
export function atLeastForMajor(text: string, minimums: Readonly<Record<number, string>>): boolean {
	const version = readVersion(text);
	if (version === null) return false;
	const minimum = minimums[version.major];
	if (minimum !== undefined) return compare(version, readVersion(minimum) ?? minimum) >= 0;
	const majors = Object.keys(minimums).map(Number);
	return version.major > Math.max(...majors);
}

export { compare as compareVersions, type SemVer };
