/** One event of a device as a sentence in a timeline. */
import type { ReactNode } from "react";
import type { AnswerOf } from "../../api";
import { TextLink } from "../../components/link";
import { Time } from "../../components/time";
import { Spot, TimelineItem } from "../../components/timeline";
import {
	IconAlertTriangle,
	IconBug,
	IconCheck,
	IconClock,
	IconDeviceMobile,
	IconDownload,
	type IconDrawing,
	IconPencil,
	IconRefresh,
	IconX,
} from "../../icons";
import { bundlePath, channelPath, devicePath } from "../../paths";

export type DeviceEvent = AnswerOf<"GET /device/events">["events"][number];
type Kind = DeviceEvent["kind"];

/** Kinds in the words of the screen, for the filter. */
export const KIND_LABELS: Readonly<Record<Kind, string>> = {
	first_seen: "First report",
	check: "Update check",
	download: "Download",
	install: "Install",
	fail: "Failure",
	crash: "Crash",
	anr: "Stopped responding",
	js_error: "JavaScript error",
	launch_timeout: "Launch timed out",
	override: "Override",
};

const PICTURES: Readonly<Record<Kind, readonly [IconDrawing, ("ok" | "warn" | "bad" | "info")?]>> = {
	first_seen: [IconDeviceMobile],
	check: [IconRefresh],
	download: [IconDownload, "info"],
	install: [IconCheck, "ok"],
	fail: [IconX, "bad"],
	crash: [IconBug, "bad"],
	anr: [IconClock, "bad"],
	js_error: [IconAlertTriangle, "warn"],
	launch_timeout: [IconClock, "warn"],
	override: [IconPencil, "info"],
};

export function EventItem({
	appId,
	event,
	showsDevice = false,
}: {
	readonly appId: string;
	readonly event: DeviceEvent;
	readonly showsDevice?: boolean;
}) {
	const [icon, tone] = pictureOf(event);
	return (
		<TimelineItem
			picture={tone === undefined ? <Spot icon={icon} /> : <Spot icon={icon} tone={tone} />}
			note={event.kind === "check" || event.kind === "fail" || event.kind === "first_seen" ? undefined : event.detail}
			meta={
				<>
					<span>
						<Time value={event.at} />
					</span>
					{showsDevice ? <TextLink to={devicePath(appId, event.device_id)}>{event.device_id}</TextLink> : null}
				</>
			}
		>
			{sentenceOf(appId, event)}
		</TimelineItem>
	);
}

const UP_TO_DATE: ReadonlySet<string | null> = new Set(["no_new_version_available", "already_on_builtin"]);

function pictureOf({ kind, detail }: DeviceEvent) {
	if (kind !== "check") return PICTURES[kind];
	const isRefused = detail !== "update" && detail !== "builtin" && !UP_TO_DATE.has(detail);
	return isRefused ? ([IconAlertTriangle, "warn"] as const) : PICTURES.check;
}

function sentenceOf(appId: string, { kind, version, detail, by, channel }: DeviceEvent): ReactNode {
	const bundle = <Bundle appId={appId} version={version} />;
	switch (kind) {
		case "first_seen":
			return <>Reported for the first time, running {bundle}</>;
		case "check":
			if (detail === "update") return <>Was offered {bundle}</>;
			if (detail === "builtin") return "Was sent back to the store build";
			if (UP_TO_DATE.has(detail)) return <>Is up to date with {bundle}</>;
			return (
				<>
					Asked for an update and got none: <strong>{REFUSALS[detail ?? ""] ?? detail?.replaceAll("_", " ")}</strong>
				</>
			);
		case "download":
			return <>Downloaded {bundle}</>;
		case "install":
			return <>Installed {bundle}</>;
		case "fail":
			return (
				<>
					{FAILURES[detail ?? ""] ?? "Failed to update to"} {bundle}
				</>
			);
		case "crash":
			return <>The app crashed while it ran {bundle}</>;
		case "anr":
			return <>The app stopped responding while it ran {bundle}</>;
		case "js_error":
			return <>JavaScript error in {bundle}</>;
		case "launch_timeout":
			return <>The app took too long to launch with {bundle}</>;
		case "override":
			if (version === null && channel === null) return <>{by ?? "Somebody"} removed the override</>;
			return (
				<>
					{by ?? "Somebody"} set{" "}
					{channel === null ? null : (
						<>
							channel <TextLink to={channelPath(appId, channel)}>{channel}</TextLink>
						</>
					)}
					{channel === null || version === null ? null : " and "}
					{version === null ? null : <>bundle {bundle}</>} for this device
				</>
			);
	}
}

function Bundle({ appId, version }: { readonly appId: string; readonly version: string | null }) {
	if (version === null) return "an unknown bundle";
	if (version === "builtin") return "the store build";
	return <TextLink to={bundlePath(appId, version)}>{version}</TextLink>;
}

const FAILURES: Readonly<Record<string, string>> = {
	download_fail: "Could not download",
	set_fail: "Could not install",
	update_fail: "Went back from",
};

const REFUSALS: Readonly<Record<string, string>> = {
	no_channel: "no channel serves it",
	no_bundle: "the bundle has no files for it",
	key_id_mismatch: "the bundle is encrypted with another key",
	unsupported_plugin_version: "its plugin is too old",
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
