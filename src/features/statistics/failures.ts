/**
 * Failed updates in the reports of a device: the causes that count, and the downloads of single
 * files that failed. The server offers the zip to a device after two of them, because the plugin
 * itself never falls back.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { openDb } from "../../db/client";
import { endZipOnly, markZipOnly } from "../../db/zip-only-devices";
import type { Deps } from "../../deps";
import { hashOf } from "../../domain/recent";
import { dayOf } from "../../domain/statistics/days";
import { ATTEMPTS_BEFORE_ZIP, type AttemptReport, attemptsAfter } from "../../domain/statistics/delta-attempts";
import { type FailureCause, failsSingleFiles } from "../../domain/statistics/failure-causes";
import { type RecentReports, storyIn } from "../../domain/statistics/recent-reports";
import { BUILTIN } from "../../domain/updates/model";
import type { CountedEvent, DeviceSeen } from "../../messages";
import type { KnownRow } from "./device-row-statements";

interface Reports {
	readonly appId: string;
	readonly deviceId: string;
	readonly seen: readonly DeviceSeen[];
	readonly counted: readonly CountedEvent[];
}

/** A change of what a device is offered, by its reports about the single files of a bundle. */
export interface DownloadNews {
	readonly what: "failed_twice" | "installed";
	readonly appId: string;
	readonly deviceId: string;
	readonly version: string;
	/** Network of the last failure. */
	readonly network: string;
	readonly knownSinceMs: number;
}

type FailureOfCause = CountedEvent & {
	readonly cause: FailureCause;
	/** No other figure has the failure. */
	readonly isAlone: boolean;
};

/**
 * Failures by their cause, with an id that is the same for all of the cause, bundle and day. A
 * plugin reports most failures under the version that the device runs: such a failure counts for
 * the bundle that the device was offered last.
 */
export function causesOf(
	{ seen, counted }: Reports,
	row: KnownRow,
	isKnownVersion: (event: CountedEvent) => boolean,
): FailureOfCause[] {
	return counted.flatMap((event) => {
		const { cause, atMs } = event;
		if (cause === undefined) return [];
		const isNamed = event.versionName !== "" && (cause === "app" || !isRunning(event.versionName, seen, row));
		// The server offered a version that it has.
		const offered = isNamed ? undefined : offeredBefore(atMs, seen, row);
		const versionName = offered ?? (isKnownVersion(event) ? event.versionName : "");
		const id = hashOf(JSON.stringify(["failed", cause, versionName, dayOf(atMs)]), 0)
			.toString(36)
			.padStart(12, "0");
		return [{ ...event, id, versionName, cause, metric: "cause" as const, isAlone: event.metric === "cause" }];
	});
}

function isRunning(version: string, seen: readonly DeviceSeen[], row: KnownRow): boolean {
	if (version === BUILTIN || version === row.version_name || version === row.version_build) return true;
	return seen.some(({ versionName, versionBuild }) => version === versionName || version === versionBuild);
}

/** The version that the last check before the time was offered. */
function offeredBefore(atMs: number, seen: readonly DeviceSeen[], row: KnownRow): string | undefined {
	const check = seen.findLast((each) => each.decision !== undefined && each.atMs <= atMs);
	if (check !== undefined) return check.offered;
	const [decision, version] = storyIn(row.recent_reports)?.decision?.split(" ") ?? [];
	return decision === "update" ? version : undefined;
}

/**
 * Counts the failed downloads of single files, and returns the ones that change what the device is
 * offered.
 */
export function newsOf(
	{ appId, deviceId, seen, counted }: Reports,
	fresh: readonly CountedEvent[],
	recent: RecentReports,
	row: KnownRow,
	knownSinceMs: number,
): DownloadNews[] {
	const reports = attemptReports(counted, new Set(fresh));
	if (reports.length === 0) return [];
	const runs = seen.findLast(({ versionName }) => versionName !== "")?.versionName ?? row.version_name ?? undefined;
	recent.attempts = attemptsAfter(recent.attempts, reports, runs === undefined ? undefined : String(runs));
	const of = { appId, deviceId, knownSinceMs };
	// Devices without failed attempts have no mark that an install could end.
	const installs = counted.filter(
		({ metric, versionName }) => metric === "install" && versionName === recent.attempts?.[0],
	);
	const news: DownloadNews[] = installs.map(({ versionName }) => ({
		...of,
		what: "installed",
		version: versionName,
		network: "",
	}));
	const [version, attempts] = recent.attempts ?? ["", 0];
	const failure = counted.findLast(({ network }) => network !== undefined);
	// Also when the message is delivered again, because the mark may not have been written.
	if (attempts >= ATTEMPTS_BEFORE_ZIP && failure?.network !== undefined) {
		news.push({ ...of, what: "failed_twice", version, network: failure.network });
	}
	return news;
}

function attemptReports(counted: readonly CountedEvent[], fresh: ReadonlySet<CountedEvent>): AttemptReport[] {
	let lastAtMs = 0;
	return counted.flatMap((event): AttemptReport[] => {
		const { metric, detail = "", versionName } = event;
		const kind =
			metric === "start" || metric === "install"
				? metric
				: failsSingleFiles(detail)
					? "file"
					: metric === "fail" && detail === "download_fail"
						? "end"
						: undefined;
		if (kind === undefined) return [];
		// Reports of one request have one time, in their order.
		lastAtMs = Math.max(event.atMs, lastAtMs + 1);
		// A client repeats a report without an answer; it ends no second attempt.
		const isRepeated = kind === "end" && !fresh.has(event);
		return [{ kind, version: isRepeated ? "" : versionName, atMs: lastAtMs }];
	});
}

const NETWORK_LENGTH = 24;

/**
 * Marks devices whose single files failed twice, and ends the marks of installed bundles.
 * Idempotent.
 */
export async function noteDownloads(deps: Pick<Deps, "d1" | "now">, news: readonly DownloadNews[]): Promise<void> {
	if (news.length === 0) return;
	const nowMs = deps.now();
	const of = (wanted: DownloadNews["what"]) => news.filter(({ what }) => what === wanted);
	const failures = of("failed_twice").map(({ network, ...failure }) => ({
		...failure,
		network: bytesToHex(sha256(utf8ToBytes(`capstan failed files\n${failure.appId}\n${network}`))).slice(
			0,
			NETWORK_LENGTH,
		),
	}));
	const installed = of("installed");
	await openDb(deps.d1, "first-primary").batch([
		...(installed.length === 0 ? [] : endZipOnly(installed, nowMs)),
		...(failures.length === 0 ? [] : markZipOnly(failures, nowMs)),
	]);
}
