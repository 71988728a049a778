/**
 * SemVer of devices and bundles. Native version numbers such as "1" or "1.2" are coerced; bundle
 * versions are SemVer already. Nothing here throws.
 */

import type SemVer from "semver/classes/semver";
import compare from "semver/functions/compare";
import parse from "semver/functions/parse";

/**
 * The version, coerced if it is not SemVer: "1.2" is 1.2.0, "2024.01.05-beta (77)" is 2024.1.5,
 * "app2-1.1.0" is 1.1.0. Null without a number, or with one that a number cannot hold exactly.
 */
export function readVersion(text: string): SemVer | null {
	const known = READ.get(text);
	if (known !== undefined) return known;
	const version = parse(text) ?? coerced(text);
	if (READ.size >= MOST_READ) READ.clear();
	READ.set(text, version);
	return version;
}

/**
 * A text that begins with a number is read from there; a code name is read from its first group of
 * three numbers, if it has one.
 */
function coerced(text: string): SemVer | null {
	const group = /^v?\d/i.test(text) ? undefined : text.match(/\d+\.\d+\.\d+/)?.[0];
	const numbers = (group ?? text.match(/\d+(?:\.\d+){0,2}/)?.[0])?.split(".").map(Number);
	if (numbers === undefined || !numbers.every(Number.isSafeInteger)) return null;
	const [major, minor = 0, patch = 0] = numbers;
	return parse(`${major}.${minor}.${patch}`);
}

/**
 * The version that a store build equals, without build metadata. Null for a version with a rest
 * ("1.0.0.57", "1.0-beta", "2.1 (77)"): it orders as its first three numbers do, and is never the
 * same as a bundle's.
 */
export function equalVersion(storeVersion: string): string | null {
	const text = storeVersion.trim();
	const isWhole = parse(text) !== null || /^\d+(?:\.\d+){0,2}$/.test(text);
	return isWhole ? (readVersion(text)?.version ?? null) : null;
}

/** Length first, so that longer numbers are greater as text. */
const numberOrder = (digits: string) => String(digits.length).padStart(2, "0") + digits;

/**
 * Text whose order is the order of bundle versions, for an index. Build metadata, which has no
 * order, comes last.
 * @param version SemVer
 */
export function versionOrder(version: string): string {
	const [, numbers = "", preRelease, build = ""] = /^([^-+]*)(?:-([^+]*))?(.*)$/s.exec(version) ?? [];
	const parts = preRelease?.split(".").map((part) => (/^\d+$/.test(part) ? `0${numberOrder(part)}` : `1${part}`));
	// A pre-release precedes its release, and a shorter list of equal parts the longer one.
	return `${numbers.split(".").map(numberOrder).join("")}${parts === undefined ? "~" : `!${parts.join(",")}`}${build}`;
}

/** A fleet has a few dozen versions, and each update check parses about ten. */
const READ = new Map<string, SemVer | null>();
const MOST_READ = 1_000;

/** The version of a store binary. "builtin" has no number and counts as the oldest. */
export function readNativeVersion(text: string): SemVer | null {
	return readVersion(text === "builtin" ? "0.0.0" : text);
}

/**
 * Whether `text` is at least the version listed for its major. Majors above the table qualify;
 * those below do not.
 */
export function atLeastForMajor(text: string, minimums: Readonly<Record<number, string>>): boolean {
	const version = readVersion(text);
	if (version === null) return false;
	const minimum = minimums[version.major];
	if (minimum !== undefined) return compare(version, readVersion(minimum) ?? minimum) >= 0;
	const majors = Object.keys(minimums).map(Number);
	return version.major > Math.max(...majors);
}

export { compare as compareVersions, type SemVer };
