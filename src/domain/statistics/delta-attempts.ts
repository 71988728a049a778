/**
 * Failed attempts of a device to download the single files of a bundle, from its reports. Pure;
 * kept in the device's row. The plugin never falls back to the zip by itself, so the server counts:
 * after two attempts it offers the zip.
 *
 * An attempt has one report for each file that failed, then the end of the download; any of them
 * may be lost on a bad network, or arrive a little late. Reports up to the last one that was
 * counted are skipped, so a message that is delivered again counts nothing twice.
 */
import { MINUTE_MS } from "../time";

/** Reports of files may arrive after the end of their download. */
const LATE_MS = 10_000;
/** A failure so long after the last one belongs to another attempt, even if no end was reported. */
const APART_MS = MINUTE_MS;
export const ATTEMPTS_BEFORE_ZIP = 2;

/**
 * Version, attempts, 1 while one is under way, its last report, and when the last one ended (0: a
 * new one has started).
 */
export type StoredAttempts = readonly [
	version: string,
	attempts: number,
	isOpen: 0 | 1,
	atMs: number,
	endedAtMs: number,
];

export interface AttemptReport {
	readonly kind: "file" | "start" | "end" | "install";
	readonly version: string;
	readonly atMs: number;
}

/**
 * @param reports of the device, in the order of their times
 * @param runs the version that the device runs: the end of a download may name it instead of the
 * one that failed
 * @returns undefined if nothing is to be kept
 */
export function attemptsAfter(
	stored: StoredAttempts | undefined,
	reports: readonly AttemptReport[],
	runs: string | undefined,
): StoredAttempts | undefined {
	if (reports.length === 0) return stored;
	let [version, attempts, isOpen, lastAtMs, endedAtMs] = stored ?? ["", 0, 0 as const, 0, 0];
	const countedAtMs = lastAtMs;
	for (const report of reports) {
		const { kind, atMs } = report;
		if (atMs <= countedAtMs) continue;
		const isTarget = report.version !== "" && report.version !== runs;
		if (isTarget && report.version !== version && kind !== "install") {
			if (kind === "start") continue;
			[version, attempts, isOpen, endedAtMs] = [report.version, 0, 0, 0];
		}
		if (kind === "file") {
			const isLate = isOpen === 0 && endedAtMs > 0 && atMs - endedAtMs < LATE_MS;
			const isNext = isOpen === 0 ? !isLate : atMs - lastAtMs >= APART_MS;
			if (isNext) attempts += 1;
			if (!isLate) isOpen = 1;
		} else if (kind === "end") {
			if (isTarget && isOpen === 0) attempts += 1;
			[isOpen, endedAtMs] = [0, atMs];
		} else if (kind === "start") [isOpen, endedAtMs] = [0, 0];
		else if (report.version === version) [attempts, isOpen, endedAtMs] = [0, 0, 0];
		lastAtMs = Math.max(lastAtMs, atMs);
	}
	return version === "" ? undefined : [version, Math.min(attempts, ATTEMPTS_BEFORE_ZIP), isOpen, lastAtMs, endedAtMs];
}
