/**
 * The version of a release that names none: the next patch above the package, the store builds and
 * the newest releases, because devices refuse bundles that are older than their store build and
 * ignore a version that they have.
 *
 * Only people who may release can move it. A bundle that was uploaded and never released, such as
 * by the preview key of a pull request, takes its own version and nothing more.
 */
import compare from "semver/functions/compare";
import parse from "semver/functions/parse";
import { readVersion } from "../../src/domain/updates/version";

export interface KnownVersions {
	/**
	 * Versions of the package, of store builds and of bundles that are live for everybody or on the
	 * channel of the release.
	 */
	readonly current: readonly string[];
	/**
	 * Versions that were live on the channel, also of bundles that are deleted, because devices keep
	 * them. They count with the major of a current one, so that a release of 900.0.0 by mistake ends
	 * with its rollback.
	 */
	readonly past: readonly string[];
	/** Versions of other bundles. */
	readonly taken: readonly string[];
}

/** `1.0` counts as `1.0.0`. Undefined for a pre-release, and for numbers that have no successor. */
function released(text: string): string | undefined {
	const version = readVersion(text);
	if (version === null || version.prerelease.length > 0) return undefined;
	return version.patch < Number.MAX_SAFE_INTEGER ? version.version : undefined;
}

const releasedOf = (texts: readonly string[]) => texts.map(released).filter((version) => version !== undefined);
const majorOf = (version: string) => version.split(".", 1)[0];

/** @param skipped patches to leave out, for a version that another run takes at the same time */
export function nextVersion({ current, past, taken }: KnownVersions, skipped = 0): string {
	const now = releasedOf(current);
	const majors = new Set(now.map(majorOf));
	const known = [...now, ...releasedOf(past).filter((version) => majors.has(majorOf(version)))];
	const greatest = known.reduce((best, version) => (compare(version, best) > 0 ? version : best), "0.0.0");
	const { major, minor, patch } = parse(greatest) ?? { major: 0, minor: 0, patch: 0 };
	const others = new Set(releasedOf(taken));
	for (let next = patch + 1 + skipped; ; next++) {
		const version = `${major}.${minor}.${next}`;
		if (!others.has(version)) return version;
	}
}
