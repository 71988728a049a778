/**
 * Why an update check got nothing, in one table for every screen and the command line: after "got none: ", or before the devices that it
 * concerns. The codes are those of update-decision.ts and update-rules.ts.
 */
const WORDS: Readonly<Record<string, string>> = {
	no_channel: "no channel serves the device",
	no_bundle: "the bundle has no files for the device",
	key_id_mismatch: "the bundle is encrypted with another key",
	unsupported_plugin_version: "the updater plugin is too old",
	revert_to_builtin_plugin_version_too_old: "the updater plugin is too old to go back to the store build",
	unknown_version_build: "the version of the store build is unknown",
	semver_error: "the version of the store build is not a version number",
	disable_auto_update_to_metadata: "the bundle needs a newer store build",
	disable_auto_update_to_major: "the channel allows no new major version",
	disable_auto_update_to_minor: "the bundle is of another minor version",
	disable_auto_update_to_patch: "the bundle is of another patch version",
	disable_auto_update_under_native: "the bundle is older than the store build",
	disable_prod_build: "the channel is off for production builds",
	disable_dev_build: "the channel is off for development builds",
	disable_device: "the channel is off for physical devices",
	disable_emulator: "the channel is off for emulators",
	disabled_platform_ios: "the channel is off for iOS",
	disabled_platform_android: "the channel is off for Android",
	disabled_platform_electron: "the channel is off for Electron",
	misconfigured_channel: "the channel updates by minimum store version, and the bundle has none",
};

/** An unknown code is shown with spaces. */
export function refusalWords(code: string): string {
	return Object.hasOwn(WORDS, code) ? (WORDS[code] ?? code) : code.replaceAll("_", " ");
}
