/**
 * SemVer as devices and gates mean it. Native version numbers come as "1", "1.2" or worse and are coerced; bundle versions are SemVer
 * already. Nothing here throws.
 */

import type SemVer from "semver/classes/semver";
import coerce from "semver/functions/coerce";
import compare from "semver/functions/compare";
import parse from "semver/functions/parse";

/**
 * The version, coerced where it is not SemVer: "1.2" is 1.2.0, "2024.01.05-beta (77)" is 2024.1.5. Null when it holds no number, or one
 * that is too large.
 */
export function readVersion(text: string): SemVer | null {
	const known = READ.get(text);
	if (known !== undefined) return known;
	const version = parse(text) ?? coerce(text, { loose: true });
	if (READ.size >= MOST_READ) READ.clear();
	READ.set(text, version);
	return version;
}

/** A fleet has a few dozen versions, and each update check reads some ten of them. */
const READ = new Map<string, SemVer | null>();
const MOST_READ = 1_000;

/** The version of a store binary. A binary that calls itself "builtin" has no number of its own and counts as the oldest there is. */
export function readNativeVersion(text: string): SemVer | null {
	return readVersion(text === "builtin" ? "0.0.0" : text);
}

/** Whether `text` is at least the version given for its major; majors beyond the table understand everything, those below nothing. */
export function atLeastForMajor(text: string, minimums: Readonly<Record<number, string>>): boolean {
	const version = readVersion(text);
	if (version === null) return false;
	const minimum = minimums[version.major];
	if (minimum !== undefined) return compare(version, readVersion(minimum) ?? minimum) >= 0;
	const majors = Object.keys(minimums).map(Number);
	return version.major > Math.max(...majors);
}

export { compare as compareVersions, type SemVer };
