/**
 * The steps of an update decision, as a trace names them, with the label of each on the screen of a
 * device. A label says the state in which the device passes; a step that decides otherwise has
 * `decided`.
 */
const RULE_LABELS = {
	device: "Device reports enough",
	unknown_version_build: "Store build has a version",
	semver_error: "Store build has a version number",
	unsupported_plugin_version: "Plugin is new enough",
	override_channel: "Channel set for this device",
	override_bundle: "Bundle set for this device",
	default_channel: "Default channel of the device",
	public_channel: "Public channel",
	no_channel: "Has a channel",
	rollout: "Rollout",
	bundle_has_content: "Bundle has files",
	encryption_key: "Encryption key matches",
	already_there: { passed: "Runs another bundle", decided: "Runs it already" },
	disabled_platform: "Platform enabled",
	disable_auto_update_to_major: "Same major version",
	disable_auto_update_to_minor: "Same minor version",
	disable_auto_update_to_patch: "Same patch version",
	disable_auto_update_to_metadata: "Store build is new enough for the bundle",
	disable_auto_update_under_native: "Not older than the store build",
	disable_prod_build: "Production builds allowed",
	disable_dev_build: "Development builds allowed",
	disable_device: "Physical devices allowed",
	disable_emulator: "Emulators allowed",
	already_on_builtin: "Runs a bundle",
	revert_to_builtin: "Plugin can revert to the store build",
	go_home: "Its bundle was deleted",
	store_build: "Store build",
	update_package: "Update format",
	serve: "Bundle is offered",
} as const satisfies Readonly<Record<string, string | { readonly passed: string; readonly decided: string }>>;

export type RuleName = keyof typeof RULE_LABELS;
export const RULE_NAMES = Object.keys(RULE_LABELS) as RuleName[];

export function ruleLabel(rule: RuleName, isDecided: boolean): string {
	const label: string | { readonly passed: string; readonly decided: string } = RULE_LABELS[rule];
	return typeof label === "string" ? label : isDecided ? label.decided : label.passed;
}
