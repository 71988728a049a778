/**
 * Sentences about what happened on a device: the one place for the dashboard and the command line. The device is the unnamed subject, except that
 * an override begins with the person or key that set it. A sentence is a list of parts, so that a screen can link versions and channels.
 */
import type { EventKind } from "./device-story";
import { type SentencePart, STORE_BUILD } from "./release-sentences";

interface EventFacts {
	readonly kind: EventKind;
	readonly version: string | null;
	readonly detail: string | null;
	/** The person or key that set an override. */
	readonly by: string | null;
	/** The channel of an override. */
	readonly channel: string | null;
}

const UP_TO_DATE: ReadonlySet<string | null> = new Set(["no_new_version_available", "already_on_builtin"]);

/** Whether the event is a check that got nothing although there was something to get. */
export function isRefusal({ kind, detail }: Pick<EventFacts, "kind" | "detail">): boolean {
	return kind === "check" && detail !== "update" && detail !== "builtin" && !UP_TO_DATE.has(detail);
}

const REFUSALS: Readonly<Record<string, string>> = {
	no_channel: "no channel serves it",
	no_bundle: "the bundle has no files for it",
	key_id_mismatch: "the bundle is encrypted with another key",
	unsupported_plugin_version: "its plugin is too old",
	revert_to_builtin_plugin_version_too_old: "its plugin is too old to go back to the store build",
	unknown_version_build: "it did not report the version of its store build",
	semver_error: "the version of its store build is not a version number",
	disable_auto_update_to_metadata: "its store build is too old",
	disable_auto_update_to_major: "the bundle is of another major version",
	disable_auto_update_to_minor: "the bundle is of another minor version",
	disable_auto_update_to_patch: "the bundle is of another patch version",
	disable_auto_update_under_native: "the bundle is older than its store build",
	disable_prod_build: "the channel is off for production builds",
	disable_dev_build: "the channel is off for development builds",
	disable_device: "the channel is off for physical devices",
	disable_emulator: "the channel is off for emulators",
	disabled_platform_ios: "the channel is off for iOS",
	disabled_platform_android: "the channel is off for Android",
	disabled_platform_electron: "the channel is off for Electron",
	misconfigured_channel: "the channel is misconfigured",
};

/** Why an update check got nothing. */
function refusalWords(code: string): string {
	return Object.hasOwn(REFUSALS, code) ? (REFUSALS[code] ?? code) : code.replaceAll("_", " ");
}

const FAILURES: Readonly<Record<string, string>> = {
	download_fail: "Could not download ",
	set_fail: "Could not install ",
	update_fail: "Went back from ",
};

/** E.g. `Installed 1.4.0`. */
export function eventSentence({ kind, version, detail, by, channel }: EventFacts): SentencePart[] {
	const bundle: SentencePart =
		version === null ? "an unknown bundle" : version === "builtin" ? STORE_BUILD : { version };
	switch (kind) {
		case "first_seen":
			return ["Reported for the first time, running ", bundle];
		case "check":
			if (detail === "update") return ["Was offered ", bundle];
			if (detail === "builtin") return [`Was sent back to ${STORE_BUILD}`];
			if (UP_TO_DATE.has(detail)) return version === null ? ["Is up to date"] : ["Is up to date with ", bundle];
			return [`Asked for an update and got none: ${refusalWords(detail ?? "unknown reason")}`];
		case "download":
			return ["Downloaded ", bundle];
		case "install":
			return ["Installed ", bundle];
		case "fail":
			return [FAILURES[detail ?? ""] ?? "Failed to update to ", bundle];
		case "crash":
			return ["The app crashed while it ran ", bundle];
		case "anr":
			return ["The app stopped responding while it ran ", bundle];
		case "js_error":
			return ["JavaScript error in ", bundle];
		case "launch_timeout":
			return ["The app took too long to launch with ", bundle];
		case "override": {
			const who = by ?? "A team member";
			if (version === null && channel === null) return [`${who} removed the override`];
			return [
				`${who} set `,
				...(channel === null ? [] : ["channel ", { channel }]),
				...(channel === null || version === null ? [] : [" and "]),
				...(version === null ? [] : ["bundle ", bundle]),
				" for this device",
			];
		}
	}
}

/** Message of a crash or an error; other details are in the sentence. */
export function eventNote({ kind, detail }: Pick<EventFacts, "kind" | "detail">): string | null {
	return ["crash", "anr", "js_error", "launch_timeout"].includes(kind) ? detail : null;
}
