/**
 * The effect of a release on devices, as the server counts them: how many by store build get the
 * bundle, which get none and why, and what one on the bundle before loads. Facts that a key may not
 * read are left out, because the release itself is done.
 */

import type { AnswerOf } from "../../src/client/client";
import { EFFECT_DAYS } from "../../src/domain/defaults";
import { dashboardPage, type Server } from "./api";
import { EXIT, type ExitCode } from "./failure";
import { type Reach, showReach } from "./reach";
import { counted, sizeText, type Terminal } from "./terminal";

type StoreBuild = AnswerOf<"POST /channel/what_if">["store_builds"][number];

export interface Delivery {
	/** By store build, the most frequent first; undefined if the key may not read devices. */
	readonly storeBuilds: readonly StoreBuild[] | undefined;
	/** Only a part of the fleet was counted. */
	readonly isSampled: boolean;
	/** Bytes that a device on the bundle before loads; undefined without such a bundle. */
	readonly loadedBytes: number | undefined;
	/** The page of the release in the dashboard. */
	readonly url: string;
}

interface Asked {
	readonly appId: string;
	readonly channel: string;
	readonly version: string;
	/** The bundle that the channel served before. */
	readonly before: string | undefined;
}

export async function deliveryOf(server: Server, asked: Asked): Promise<Delivery> {
	const { appId, channel, version } = asked;
	const [effect, loadedBytes] = await Promise.all([
		server.api("POST /channel/what_if", { body: { app_id: appId, channel } }).catch(() => undefined),
		loadedBytesOf(server, asked).catch(() => undefined),
	]);
	return {
		storeBuilds: effect?.store_builds,
		isSampled: effect?.sampled === true,
		loadedBytes,
		url: dashboardPage(server, "apps", appId, "channels", channel, "releases", version),
	};
}

async function loadedBytesOf({ api }: Server, { appId, version, before }: Asked): Promise<number | undefined> {
	if (before === undefined || before === version) return undefined;
	const query = { app_id: appId, version };
	const [{ difference }, { by, files }, bundles] = await Promise.all([
		api("GET /bundle/difference", { query: { ...query, base: before } }),
		api("GET /bundle/files", { query }),
		api("GET /bundle", { query }),
	]);
	if (by === "zip") return bundles[0]?.size ?? undefined;
	if (difference === null || by === null) return undefined;
	const loaded = new Set(difference.files.filter(({ change }) => change !== "removed").map(({ file }) => file));
	// Names of compressed files end in .br in one of the answers.
	const isLoaded = (file: string) => loaded.has(file) || loaded.has(`${file}.br`);
	return files.filter(({ file }) => isLoaded(file)).reduce((sum, { stored }) => sum + stored, 0);
}

const MOST_BUILDS = 8;

/** @param version the bundle that was released */
function showDelivery(terminal: Terminal, delivery: Delivery, version: string, before: string | undefined): void {
	const { storeBuilds = [], isSampled, loadedBytes, url } = delivery;
	const all = storeBuilds.reduce((sum, { devices }) => sum + devices, 0);
	const got = storeBuilds.reduce((sum, { offered }) => sum + (offered[version] ?? 0), 0);
	if (all > 0 && got === all && !isSampled) {
		terminal.line(
			`Every device gets it: ${counted(all, "device")} of the last ${EFFECT_DAYS} days, at their next check.`,
		);
	} else {
		for (const build of storeBuilds.slice(0, MOST_BUILDS)) terminal.line(`  ${buildText(build, version)}`);
		const others = storeBuilds.length - MOST_BUILDS;
		if (others > 0) terminal.line(`  and ${counted(others, "more store build")}`);
		if (isSampled) terminal.line("  (counted for 5,000 devices)");
	}
	if (loadedBytes !== undefined && before !== undefined) {
		terminal.line(`A device on ${before} loads ${sizeText(loadedBytes)}.`);
	}
	terminal.line(url);
}

/** Devices are known, and none of them gets the bundle or runs it. */
function reachesNobody({ storeBuilds = [] }: Delivery, version: string): boolean {
	return (
		storeBuilds.length > 0 &&
		storeBuilds.every(({ offered, up_to_date }) => (offered[version] ?? 0) === 0 && up_to_date === 0)
	);
}

/**
 * Prints the problems of a bundle that is live now, and who gets it.
 * @returns the exit code of the command
 */
export function showOutcome(
	terminal: Terminal,
	{
		reach,
		delivery,
		version,
		before,
		rollout,
	}: {
		readonly reach: Reach | undefined;
		readonly delivery: Delivery | undefined;
		readonly version: string;
		readonly before: string | undefined;
		/**
		 * The share of the devices in percent, which may have none of the known ones; undefined: every
		 * device.
		 */
		readonly rollout: number | undefined;
	},
): ExitCode {
	const code = reach === undefined ? EXIT.ok : showReach(terminal, reach);
	if (delivery === undefined) return code;
	showDelivery(terminal, delivery, version, before);
	if (rollout !== undefined || !reachesNobody(delivery, version)) return code;
	if (code === EXIT.ok) {
		terminal.line(
			`${terminal.style("yellow", "Problem")} No device of the last ${EFFECT_DAYS} days gets ${version}; the lines above say why.`,
		);
	}
	return EXIT.failure;
}

/**
 * Such as `Store build 3.2.0: 12 of 14 devices get 1.4.0; 2 get nothing
 * (disable_auto_update_under_native)`.
 */
function buildText({ version_build, devices, offered, up_to_date, refused }: StoreBuild, version: string): string {
	const others = Object.entries(offered).filter(([name]) => name !== version);
	const parts = [
		`${offered[version] ?? 0} of ${counted(devices, "device")} get ${version}`,
		...others.map(([name, count]) => `${count} get ${name}`),
		...(up_to_date === 0 ? [] : [`${up_to_date} up to date`]),
		...Object.entries(refused).map(([error, count]) => `${count} get nothing (${error})`),
	];
	return `Store build ${version_build}: ${parts.join("; ")}`;
}

/** Fields of the result for programs. */
export const deliveryFields = ({ storeBuilds, isSampled, loadedBytes, url }: Delivery) => ({
	url,
	store_builds: storeBuilds ?? null,
	sampled: isSampled,
	loaded_bytes: loadedBytes ?? null,
});
