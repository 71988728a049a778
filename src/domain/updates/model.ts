/**
 * Domain objects of an update check: the device, and the channels and bundles of its app. Snapshots
 * hold them and the decision reads them; neither knows database rows or request bodies.
 */
import type { UpdatePackage } from "./package";
import { atLeastForMajor } from "./version";

export const PLATFORMS = ["ios", "android", "electron"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** Version name of the bundle inside the store binary. */
export const BUILTIN = "builtin";

/**
 * From these versions of the native plugin on, `{"version":"builtin"}` brings a device back to its
 * store build.
 */
export const REVERTS_TO_BUILTIN = { 6: "6.2.0" } as const;

/** From these versions on the native plugin reads a manifest. */
const READS_MANIFEST = { 5: "5.10.0", 6: "6.25.0", 7: "7.0.35", 8: "8.0.0" };

export interface Device {
	readonly deviceId: string;
	readonly platform: Platform;
	/** The bundle it runs: a version, or `builtin`. */
	readonly versionName: string;
	/** Version of the store binary. */
	readonly versionBuild: string;
	readonly pluginVersion: string;
	readonly isEmulator: boolean;
	readonly isProd: boolean;
	/** Empty when the device has none. */
	readonly defaultChannel: string;
	readonly keyId: string | undefined;
	/**
	 * The version of a bundle whose single files failed on the device more than once
	 * (failed-files.ts).
	 */
	readonly failedFilesOf?: string | undefined;
}

/** The properties of a device that determine its channel. */
export type Asking = Pick<Device, "platform" | "defaultChannel">;

export interface Bundle {
	readonly id: number;
	readonly version: string;
	/** All bytes are stored and checked. A bundle that is not ready is offered to no device. */
	readonly ready: boolean;
	readonly keyId: string | null;
	readonly minUpdateVersion: string | null;
	readonly hasZip: boolean;
	/** There are single files to offer. Not every device can read a manifest (`readsManifest`). */
	readonly hasManifest: boolean;
}

export interface Channel {
	readonly id: number;
	readonly name: string;
	readonly public: boolean;
	readonly platforms: Readonly<Record<Platform, boolean>>;
	readonly allowDeviceSelfSet: boolean;
	readonly allowEmulator: boolean;
	readonly allowDevice: boolean;
	readonly allowDev: boolean;
	readonly allowProd: boolean;
	readonly disableAutoUpdate: "major" | "minor" | "patch" | "version_number" | "none";
	readonly disableAutoUpdateUnderNative: boolean;
	readonly updatePackage: UpdatePackage;
	/** Null: the bundle inside the store binary. */
	readonly bundle: Bundle | null;
	readonly rollout: Rollout | null;
	/** Set for the channel of a preview. */
	readonly preview: PreviewNaming | null;
}

/**
 * Whether a preview's channel serves devices that send its name. Operators and preview links reach
 * it all the same.
 */
interface PreviewNaming {
	/** The name has the form of a preview (preview-names.ts). */
	readonly hasForm: boolean;
	/** More devices sent the name than testers do. */
	readonly isNamedByFleet: boolean;
}

export interface Rollout {
	readonly id: string;
	readonly bundle: Bundle;
	readonly percentageBps: number;
	readonly enabled: boolean;
	readonly paused: boolean;
}

/** Set for one device by an operator. */
export interface Override {
	/** Serves the device even if devices may not choose this channel. The channel's rules apply. */
	readonly channel: Channel | null;
	/** Replaces the bundle of the channel that serves the device. */
	readonly bundle: Bundle | null;
}

export function runsStoreBuild(device: Pick<Device, "versionName" | "versionBuild">): boolean {
	return device.versionName === "" || device.versionName === BUILTIN || device.versionName === device.versionBuild;
}

/** Electron's updater downloads the zip even if there is a manifest. */
export function readsManifest(device: Pick<Device, "platform" | "pluginVersion">): boolean {
	return device.platform !== "electron" && atLeastForMajor(device.pluginVersion, READS_MANIFEST);
}

/** Finding of a rule that lets the device pass and has nothing else to say. */
export const NO_OBJECTION = "allowed";
