/**
 * Devices on which the single files of a bundle failed. The stock plugin ignores the zip whenever
 * the answer has a manifest, so a device whose network or storage breaks one of a thousand files
 * would fail at every check. After two failed attempts it is offered the zip, until the next
 * bundle.
 *
 * This memory is that of one isolate and bounded: it answers the next check of the device at once.
 * The consumer counts the same attempts over all isolates (delta-attempts.ts), and its marks reach
 * every isolate with the app's snapshot (src/db/zip-only-devices.ts).
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

/**
 * Times are those of the device's clock; the order of arrival stands in for them in reports without
 * one.
 */
interface Failing {
	readonly version: string;
	/** Attempts with a failed file. */
	attempts: number;
	/**
	 * The failure that counted the last attempt: an attempt reports each file that failed, a
	 * client repeats lost reports.
	 */
	countedAtMs: number;
	lastStartAtMs: number;
	lastFailureAtMs: number;
}

export interface FailedFiles {
	/** Reads a report, in the order of the device. */
	note(appId: string, deviceId: string, action: string, version: string, deviceAtMs: number | null): void;
	/**
	 * The version of the bundle whose files the device shall not be offered again; undefined for
	 * almost all devices.
	 */
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
			if (known === undefined) {
				if (!fails) return;
				const atMs = deviceAtMs ?? 0;
				failing.delete(key);
				failing.set(key, { version, attempts: 1, countedAtMs: atMs, lastStartAtMs: -1, lastFailureAtMs: atMs });
				const [oldest] = failing.keys();
				if (failing.size > MOST_DEVICES && oldest !== undefined) failing.delete(oldest);
				return;
			}
			const latestAtMs = Math.max(known.lastStartAtMs, known.lastFailureAtMs);
			const atMs = deviceAtMs ?? latestAtMs + 1;
			if (SUCCEEDS.has(action)) {
				if (atMs > latestAtMs) failing.delete(key);
				return;
			}
			if (fails) known.lastFailureAtMs = Math.max(known.lastFailureAtMs, atMs);
			else known.lastStartAtMs = Math.max(known.lastStartAtMs, atMs);
			// The client sends each report by a request of its own, so the failure of an attempt may arrive
			// before its start.
			if (known.lastStartAtMs <= known.countedAtMs || known.lastFailureAtMs <= known.lastStartAtMs) return;
			known.attempts += 1;
			known.countedAtMs = known.lastFailureAtMs;
		},
		of(appId, deviceId) {
			if (failing.size === 0) return undefined;
			const known = failing.get(keyOf(appId, deviceId));
			return known !== undefined && known.attempts >= MOST_ATTEMPTS ? known.version : undefined;
		},
	};
}
