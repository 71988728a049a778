/**
 * Devices on which the single files of a bundle failed. The stock plugin ignores the zip whenever the answer has a manifest, so a device whose
 * network or storage breaks one of a thousand files would fail at every check. After two failed attempts it is offered the zip, until the next
 * bundle.
 *
 * The memory is that of one isolate and bounded. Another isolate offers the files until two failed attempts were reported to it, too.
 */

const STARTS = "download_manifest_start";
const FAILS: ReadonlySet<string> = new Set([
	"download_manifest_file_fail",
	"download_manifest_checksum_fail",
	"download_manifest_brotli_fail",
	"manifest_path_fail",
]);
/** Actions after which the device has the files. */
const SUCCEEDS: ReadonlySet<string> = new Set(["download_manifest_complete", "set"]);

const MOST_ATTEMPTS = 2;
/** About a hundred bytes each. */
const MOST_DEVICES = 20_000;

interface Failing {
	readonly version: string;
	/** Attempts with a failed file. */
	attempts: number;
	/** An attempt reports each file that failed. */
	isCounted: boolean;
	/** By the device's clock: a client repeats reports whose answer was lost. 0: the last report had no time. */
	reportedAtMs: number;
}

export interface FailedFiles {
	/** Reads a report, in the order of the device. */
	note(appId: string, deviceId: string, action: string, version: string, deviceAtMs: number | null): void;
	/** The version of the bundle whose files the device shall not be offered again; undefined for almost all devices. */
	of(appId: string, deviceId: string): string | undefined;
}

/** One for each isolate. */
export function createFailedFiles(): FailedFiles {
	const failing = new Map<string, Failing>();
	const keyOf = (appId: string, deviceId: string) => `${appId} ${deviceId}`;
	return {
		note(appId, deviceId, action, version, deviceAtMs) {
			const fails = FAILS.has(action);
			if (!fails && (failing.size === 0 || (action !== STARTS && !SUCCEEDS.has(action)))) return;
			const key = keyOf(appId, deviceId);
			const before = failing.get(key);
			const known = before?.version === version ? before : undefined;
			const atMs = deviceAtMs ?? 0;
			if (known !== undefined && atMs !== 0 && atMs <= known.reportedAtMs) return;
			if (!fails) {
				if (known === undefined) return;
				if (action !== STARTS) failing.delete(key);
				else Object.assign(known, { isCounted: false, reportedAtMs: atMs });
				return;
			}
			if (known !== undefined) {
				if (!known.isCounted) known.attempts += 1;
				Object.assign(known, { isCounted: true, reportedAtMs: atMs });
				return;
			}
			failing.delete(key);
			failing.set(key, { version, attempts: 1, isCounted: true, reportedAtMs: atMs });
			const [oldest] = failing.keys();
			if (failing.size > MOST_DEVICES && oldest !== undefined) failing.delete(oldest);
		},
		of(appId, deviceId) {
			if (failing.size === 0) return undefined;
			const known = failing.get(keyOf(appId, deviceId));
			return known !== undefined && known.attempts >= MOST_ATTEMPTS ? known.version : undefined;
		},
	};
}
