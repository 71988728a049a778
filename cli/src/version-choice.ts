/**
 * The version of a release that names none: the next patch above the package, the store builds and the newest releases, because devices
 * refuse bundles that are older than their store build and ignore a version that they have.
 */
import coerce from "semver/functions/coerce";
import compare from "semver/functions/compare";
import parse from "semver/functions/parse";

/** The greatest version among these, without pre-releases; `1.0` counts as `1.0.0`. */
function greatest(versions: readonly string[]): string {
	let best = "0.0.0";
	for (const text of versions) {
		const version = parse(text) ?? coerce(text);
		if (version !== null && version.prerelease.length === 0 && compare(version, best) > 0) best = version.version;
	}
	return best;
}

export function nextVersion(known: readonly string[]): string {
	const { major, minor, patch } = parse(greatest(known)) ?? { major: 0, minor: 0, patch: 0 };
	return `${major}.${minor}.${patch + 1}`;
}
