/**
 * Why an update failed, by the action that a plugin reports. Pure. The plugins of majors 5 to 8
 * share these names; the camelCase ones are refusals that older plugins repeat from the server. A
 * device counts once for each cause, bundle and day.
 */

export const FAILURE_CAUSES = ["download", "file", "checksum", "decrypt", "unzip", "space", "refused", "app"] as const;
export type FailureCause = (typeof FAILURE_CAUSES)[number];

const ACTIONS: { readonly [Cause in FailureCause]: readonly string[] } = {
	download: ["download_fail", "finish_download_fail"],
	file: ["download_manifest_file_fail", "download_manifest_brotli_fail", "manifest_path_fail"],
	checksum: ["checksum_fail", "checksum_required", "download_manifest_checksum_fail"],
	decrypt: ["decrypt_fail", "session_key_required", "keyMismatch"],
	unzip: ["unzip_fail", "windows_path_fail", "canonical_path_fail", "directory_path_fail"],
	space: ["insufficient_disk_space", "low_mem_fail"],
	refused: [
		"blocked_by_server_url",
		"rate_limit_reached",
		"backend_refusal",
		"needPlanUpgrade",
		"missingBundle",
		"cannotGetBundle",
		"cannotUpdateViaPrivateChannel",
		"channelMisconfigured",
		"NoChannelOrOverride",
		"disableAutoUpdateToMajor",
		"disableAutoUpdateToMinor",
		"disableAutoUpdateToPatch",
		"disableAutoUpdateMetadata",
		"disableAutoUpdateUnderNative",
		"disableDevBuild",
		"disableProdBuild",
		"disableDevice",
		"disableEmulator",
		"disablePlatformIos",
		"disablePlatformAndroid",
		"disablePlatformElectron",
		"InvalidIp",
	],
	app: ["set_fail", "update_fail"],
};

const CAUSE_OF_ACTION: ReadonlyMap<string, FailureCause> = new Map(
	FAILURE_CAUSES.flatMap((cause) => ACTIONS[cause].map((action) => [action, cause] as const)),
);

export function failureCauseOf(action: string): FailureCause | undefined {
	return CAUSE_OF_ACTION.get(action);
}

/** The plugin reports them only while it downloads single files. */
const OF_SINGLE_FILES: ReadonlySet<string> = new Set([...ACTIONS.file, "download_manifest_checksum_fail"]);

export const failsSingleFiles = (action: string): boolean => OF_SINGLE_FILES.has(action);

/** As `daily_health` stores it, beside health signals. */
export type StoredCause = `failed_${FailureCause}`;
export const storedCause = (cause: FailureCause): StoredCause => `failed_${cause}`;

export type FailureCounts = Readonly<Record<FailureCause, number>>;

/** Devices by cause, from rows of `daily_health`. */
export function failureCounts(rows: readonly { readonly signal: string; readonly amount: number }[]): FailureCounts {
	const of = (cause: FailureCause) =>
		rows.reduce((sum, { signal, amount }) => sum + (signal === storedCause(cause) ? amount : 0), 0);
	return Object.fromEntries(FAILURE_CAUSES.map((cause) => [cause, of(cause)])) as Record<FailureCause, number>;
}
