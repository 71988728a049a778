/**
 * Native packages of a bundle: the plugins that its web code calls, whose native code is in the
 * store build and cannot be updated live. A bundle fits the devices of a channel if the live bundle
 * there has the same packages; the rules are those of the stock CLI's `bundle compatibility`. Pure.
 */
import compare from "semver/functions/compare";
import parse from "semver/functions/parse";

/** As the stock CLI sends it. A checksum is a SHA-256 of the native code for the platform. */
export interface NativePackage {
	readonly name: string;
	readonly version: string;
	/** The range in package.json. */
	readonly requested_version?: string | undefined;
	readonly ios_checksum?: string | undefined;
	readonly android_checksum?: string | undefined;
}

/**
 * The first one that applies; a package that the live bundle has and this one lacks is no problem.
 */
export const PACKAGE_PROBLEMS = ["added", "version", "native_code"] as const;
type PackageProblem = (typeof PACKAGE_PROBLEMS)[number];

export interface ComparedPackage {
	readonly name: string;
	/** Null: the bundle does not use the package any more. */
	readonly version: string | null;
	/** Null: the live bundle does not have the package. */
	readonly live_version: string | null;
	readonly problem: PackageProblem | null;
}

export const COMPATIBILITY_VERDICTS = ["compatible", "incompatible", "unknown"] as const;
/** Why a verdict does not come from a comparison. */
export const NOT_COMPARED_PACKAGES = [
	"store_build_live",
	"live_bundle_lists_none",
	"bundle_lists_none",
	"newer_store_builds_only",
] as const;

/** A bundle's columns; `native_packages` is JSON, null if the uploader named none. */
export interface PackagedBundle {
	readonly name: string;
	readonly native_packages: string | null;
	readonly min_update_version: string | null;
}

export interface Compatibility {
	readonly verdict: (typeof COMPATIBILITY_VERDICTS)[number];
	readonly not_compared: (typeof NOT_COMPARED_PACKAGES)[number] | null;
	/** Problems first, then by name. */
	readonly packages: readonly ComparedPackage[];
}

export const packagesOf = (text: string | null): NativePackage[] | null => (text === null ? null : JSON.parse(text));

/**
 * The stored form: by name and with the keys in one order, so that equal packages are equal texts.
 */
export function packagesText(packages: readonly NativePackage[]): string {
	const ordered = packages.map(({ name, version, requested_version, ios_checksum, android_checksum }) => ({
		name,
		version,
		requested_version,
		ios_checksum,
		android_checksum,
	}));
	return JSON.stringify(ordered.sort((one, other) => (one.name < other.name ? -1 : 1)));
}

/**
 * @param live the bundle that devices of the channel have; undefined: the store build
 * @param byMinimum whether the channel updates by `min_update_version`
 */
export function compatibilityOf(
	bundle: PackagedBundle,
	live: PackagedBundle | undefined,
	byMinimum: boolean,
): Compatibility {
	const unknown = (not_compared: Compatibility["not_compared"]) =>
		({ verdict: "unknown", not_compared, packages: listed(bundle) }) as const;
	if (live === undefined) return unknown("store_build_live");
	const before = packagesOf(live.native_packages);
	if (before === null) return unknown("live_bundle_lists_none");
	const after = packagesOf(bundle.native_packages);
	if (after === null) return unknown("bundle_lists_none");
	const packages = comparePackages(after, before);
	const isIncompatible = packages.some(({ problem }) => problem !== null);
	// No device with the store build that the live bundle was made for is offered this one.
	if (isIncompatible && byMinimum && raisesMinimum(bundle, live)) {
		return { verdict: "compatible", not_compared: "newer_store_builds_only", packages };
	}
	return { verdict: isIncompatible ? "incompatible" : "compatible", not_compared: null, packages };
}

/**
 * Whether a channel that requires compatible bundles refuses the bundle. An unlisted one could be
 * anything.
 */
export const isRefused = ({ verdict, not_compared }: Compatibility): boolean =>
	verdict === "incompatible" || not_compared === "bundle_lists_none";

const listed = ({ native_packages }: PackagedBundle): ComparedPackage[] =>
	(packagesOf(native_packages) ?? []).map(({ name, version }) => ({
		name,
		version,
		live_version: null,
		problem: null,
	}));

function raisesMinimum(bundle: PackagedBundle, live: PackagedBundle): boolean {
	const [after, before] = [parse(bundle.min_update_version), parse(live.min_update_version)];
	return after !== null && (before === null || compare(after, before) > 0);
}

function comparePackages(after: readonly NativePackage[], before: readonly NativePackage[]): ComparedPackage[] {
	const live = new Map(before.map((each) => [each.name, each]));
	const kept = after.map((each) => {
		const old = live.get(each.name);
		live.delete(each.name);
		return {
			name: each.name,
			version: each.version,
			live_version: old?.version ?? null,
			problem: problemOf(each, old),
		};
	});
	const removed = [...live.values()].map(({ name, version }) => ({
		name,
		version: null,
		live_version: version,
		problem: null,
	}));
	return [...kept, ...removed].sort(
		(one, other) => Number(one.problem === null) - Number(other.problem === null) || (one.name < other.name ? -1 : 1),
	);
}

function problemOf(after: NativePackage, before: NativePackage | undefined): PackageProblem | null {
	if (before === undefined) return "added";
	if (!isSameVersion(after.version, before.version)) return "version";
	const differs = (one: string | undefined, other: string | undefined) =>
		one !== undefined && other !== undefined && one !== other;
	return differs(after.ios_checksum, before.ios_checksum) || differs(after.android_checksum, before.android_checksum)
		? "native_code"
		: null;
}

/**
 * Build metadata does not count. A range, which stands for a package that was not installed, is
 * equal to its own text only.
 */
function isSameVersion(one: string, other: string): boolean {
	if (one === other) return true;
	const [left, right] = [parse(one), parse(other)];
	return left !== null && right !== null && compare(left, right) === 0;
}

const NAMED = 5;

/**
 * "@capacitor/camera 7.0.0 (not in the live bundle), @capacitor/app 7.1.0 (live: 7.0.0) and 2 more"
 */
export function problemsText(packages: readonly ComparedPackage[]): string {
	const problems = packages.filter(({ problem }) => problem !== null);
	const texts = problems.slice(0, NAMED).map(({ name, version, live_version, problem }) => {
		if (problem === "added") return `${name} ${version} (not in the live bundle)`;
		return problem === "version"
			? `${name} ${version} (live: ${live_version})`
			: `${name} ${version} (other native code)`;
	});
	const more = problems.length - texts.length;
	return `${texts.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
