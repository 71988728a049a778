/**
 * Whether devices can get a bundle that is live now, by what the server knows of their store
 * builds. A release that no device accepts looks like any other until somebody asks, so the
 * commands ask.
 */

import inc from "semver/functions/inc";
import { CapstanError } from "../../src/client/client";
import { compareVersions, readVersion } from "../../src/domain/updates/version";
import { type Channel, channelNamed } from "./channels";
import { EXIT, type ExitCode, usage } from "./failure";
import type { Settings } from "./settings";
import type { Terminal } from "./terminal";

/** Version of the store build that new Android and iOS projects have. */
const FIRST_STORE_VERSION = "1.0";

const MOST_NAMED = 3;

/** The newest first. */
const versionsOf = (texts: readonly string[]) =>
	texts
		.map((each) => readVersion(each))
		.filter((each) => each !== null)
		.sort((one, other) => compareVersions(other, one));

/**
 * Store builds of the devices that reported last; undefined for a key that may not read devices.
 */
export async function reportedStoreBuilds({ server, appId }: Settings): Promise<readonly string[] | undefined> {
	try {
		const { devices } = await server.api("GET /device?totals=true", { query: { app_id: appId } });
		return [...new Set(devices.map(({ version_build }) => version_build).filter((build) => build !== null))];
	} catch (error) {
		if (error instanceof CapstanError && error.status === 403) return undefined;
		throw error;
	}
}

/**
 * Stops a release whose version is below every reported store build. The reports do not move the
 * version by themselves, because anybody can send one: a false 900.0.0 would become the version of
 * the next release.
 * @throws {Failure} `older_than_store_builds`
 */
export function refuseBelowAll(version: string, builds: readonly string[], channel: Channel | undefined): void {
	if (channel?.disableAutoUpdateUnderNative === false) return;
	const known = versionsOf(builds);
	const [greatest] = known;
	if (greatest === undefined || !known.every((build) => compareVersions(build, version) > 0)) return;
	const named = builds.slice(0, MOST_NAMED).join(", ");
	throw usage(
		"older_than_store_builds",
		`The next version would be ${version}, and every store build that devices reported is newer (${named}), so no device would get it. Name a version of at least ${greatest.version}: capstan release --bundle ${inc(greatest.version, "patch")}`,
		{ field: "bundle", version, store_builds: builds },
	);
}

export interface Reach {
	readonly problems: Channel["misconfigured"];
	/** No known store build gets the bundle. */
	readonly isNobody: boolean;
	/** That no device has reported, and a warning if the version probably reaches nobody. */
	readonly remarks: readonly string[];
}

export async function reachOf(
	{ server, appId, project }: Settings,
	name: string,
	version: string,
	builds: readonly string[] | undefined,
): Promise<Reach> {
	// The bundle is live already, so a lost connection does not fail the command.
	const channel = await channelNamed(server, appId, name).catch(() => null);
	if (channel === null) {
		const remark = "Whether devices can get it is not known, because the server did not answer; see capstan status.";
		return { problems: [], isNobody: false, remarks: [remark] };
	}
	const problems = channel?.misconfigured ?? [];
	// A problem of one bundle names it; the others are of the whole channel.
	const isNobody = problems.some((problem) => problem.version === null || problem.version === version);
	return { problems, isNobody, remarks: remarksOf(version, builds, project.storeVersions.versions, channel) };
}

function remarksOf(
	version: string,
	builds: readonly string[] | undefined,
	storeVersions: readonly string[],
	channel: Channel | undefined,
): readonly string[] {
	if (builds === undefined || builds.length > 0) return [];
	const known = versionsOf(storeVersions);
	const greatest = known[0] ?? readVersion(FIRST_STORE_VERSION);
	const bundle = readVersion(version);
	if (greatest === null || bundle === null) return [NO_REPORT];
	const isUnknown = known.length === 0;
	if (compareVersions(bundle, greatest) < 0) {
		const reason = isUnknown
			? `New native projects start at store version ${FIRST_STORE_VERSION} and refuse older bundles.`
			: `The store build of this project has version ${greatest.version} and refuses older bundles.`;
		return [NO_REPORT, `${reason} Choose a version of at least ${greatest.version} with --bundle.`];
	}
	if (channel?.disableAutoUpdate !== "major" || bundle.major <= greatest.major) return [NO_REPORT];
	const reason = isUnknown
		? `New native projects start at store version ${FIRST_STORE_VERSION}`
		: `The store build of this project has version ${greatest.version}`;
	const remedy = `Choose a version such as ${inc(greatest.version, "patch")} with --bundle`;
	const condition = isUnknown ? `, if yours is still ${greatest.major}.x` : "";
	return [
		NO_REPORT,
		`${reason}, and the channel does not update across a major version to ${version}. ${remedy}${condition}.`,
	];
}

const NO_REPORT = "No device has reported yet.";

/**
 * Prints the problems and the remarks.
 * @returns the exit code of the command
 */
export function showReach(terminal: Terminal, { problems, isNobody, remarks }: Reach): ExitCode {
	for (const { message } of problems) terminal.line(`${terminal.style("yellow", "Problem")} ${message}`);
	const [first, warning] = remarks;
	if (first !== undefined && problems.length === 0) terminal.line(first);
	if (warning !== undefined) terminal.line(`${terminal.style("yellow", "Warning")} ${warning}`);
	return isNobody ? EXIT.failure : EXIT.ok;
}
