/**
 * Every refusal of an update: the state that causes it, the explanation and the remedy that the
 * device's operator reads, and the state or the settings after that remedy. The table is complete:
 * a refusal without a row fails the test.
 */

import type { Channel, Device, Override } from "../../../src/domain/updates/model";
import type { ChannelSettings } from "../../../src/domain/updates/refusals";
import { bundle, channel } from "../support/decision-rows";

export interface Refusal {
	readonly error: string;
	readonly on?: Partial<Channel>;
	readonly by?: Partial<Device>;
	readonly override?: Override;
	readonly because: string;
	readonly message: string;
	/** The remedy's steps besides or instead of settings, applied. */
	readonly done?: { readonly on?: Partial<Channel>; readonly by?: Partial<Device>; readonly override?: Override };
	readonly settings?: ChannelSettings & { readonly channel: string };
}

export const REFUSALS: readonly Refusal[] = [
	{
		error: "unknown_version_build",
		by: { versionBuild: "unknown" },
		because: "the device does not know the version of its store build",
		message:
			"Set the version of the native app, or version in the plugin's configuration, to a number such as 1.2.3, and ship that store build.",
		done: { by: { versionBuild: "1.2.3" } },
	},
	{
		error: "semver_error",
		by: { versionBuild: "beta" },
		because: 'the version of its store build, "beta", is not a version number',
		message:
			"Set the version of the native app, or version in the plugin's configuration, to a number such as 1.2.3, and ship that store build.",
		done: { by: { versionBuild: "1.2.3" } },
	},
	{
		error: "unsupported_plugin_version",
		by: { pluginVersion: "4.2.0" },
		because: "its plugin 4.2.0 is too old",
		message: "Update the plugin to 5.0.0 or newer in the next store build.",
		done: { by: { pluginVersion: "5.0.0" } },
	},
	{
		error: "no_channel",
		on: { public: false },
		because: "android has no public channel that can serve",
		message: "Make a channel public for android.",
		done: { on: { public: true } },
	},
	{
		error: "no_channel",
		on: { public: false, name: "pr-7" },
		by: { defaultChannel: "pr-8" },
		because:
			"the device may not use channel pr-8, which does not exist, and android has no public channel that can serve",
		message:
			"Create channel pr-8 and let devices choose it (allow_device_self_set), or make a channel public for android.",
		done: { on: { name: "pr-8", allowDeviceSelfSet: true } },
	},
	{
		error: "no_channel",
		on: { public: false, name: "pr-7", platforms: { ios: true, android: false, electron: true }, allowProd: false },
		by: { defaultChannel: "pr-7" },
		because: "the device may not use channel pr-7, and android has no public channel that can serve",
		message:
			"Turn on allow_device_self_set, turn on android, and turn on allow_prod on channel pr-7. Or make a channel public for android.",
		settings: { channel: "pr-7", allow_device_self_set: true, android: true, allow_prod: true },
	},
	{
		error: "no_channel",
		on: { bundle: bundle("1.4.3", { ready: false }) },
		because: "android has no public channel that can serve",
		message: "Finish the upload of bundle 1.4.3, or release another one to channel production.",
		done: { on: { bundle: bundle("1.4.4") } },
	},
	{
		error: "no_bundle",
		on: { bundle: bundle("1.4.3", { hasZip: false, hasManifest: false }) },
		because: "bundle 1.4.3 has no file that this device can read",
		message:
			"Upload the files of bundle 1.4.3 with a zip under another version, and release that one to channel production.",
		done: { on: { bundle: bundle("1.4.4") } },
	},
	{
		error: "key_id_mismatch",
		on: { bundle: bundle("1.4.3", { keyId: "AAAA" }) },
		by: { keyId: "BBBB" },
		because: "bundle 1.4.3 is encrypted with the key AAAA, and the device has the key BBBB",
		message:
			"Upload a bundle that is encrypted with the key BBBB and release it to channel production, or ship a store build that has the key AAAA.",
		done: { on: { bundle: bundle("1.4.3", { keyId: "BBBB" }) } },
	},
	{
		error: "no_new_version_available",
		by: { versionName: "1.4.3" },
		because: "it runs bundle 1.4.3 already",
		message: "Nothing needs to change. To change what it runs, release another bundle to channel production.",
		done: { on: { bundle: bundle("1.4.4") } },
	},
	{
		error: "no_new_version_available",
		by: { versionName: "1.4.9" },
		override: { channel: null, bundle: bundle("1.4.9") },
		because: "it runs bundle 1.4.9 already, which is set for this device",
		message: "Nothing needs to change. To change what it runs, set another bundle for this device.",
		done: { override: { channel: null, bundle: bundle("1.5.0") } },
	},
	...(["ios", "android", "electron"] as const).map((platform): Refusal => {
		const off = channel({ name: "beta", platforms: { ios: true, android: true, electron: true, [platform]: false } });
		return {
			error: `disabled_platform_${platform}`,
			by: { platform },
			override: { channel: off, bundle: null },
			because: `channel beta, which is set for this device, is off for ${platform}`,
			message: `Turn on ${platform} on channel beta.`,
			settings: { channel: "beta", [platform]: true },
		};
	}),
	{
		error: "disable_auto_update_to_major",
		on: { bundle: bundle("2.4.0") },
		because: "channel production allows only the major version of the store build: 2.4.0 on 1.4.2",
		message:
			"Release a bundle from 1.4.2 to below 2.0.0 to channel production, ship store build 2.0.0, or set disableAutoUpdate to none on channel production.",
		done: { on: { bundle: bundle("1.999.0") } },
		settings: { channel: "production", disableAutoUpdate: "none" },
	},
	{
		error: "disable_auto_update_to_minor",
		on: { bundle: bundle("1.5.0"), disableAutoUpdate: "minor" },
		because: "channel production allows only the minor version of the store build: 1.5.0 on 1.4.2",
		message:
			"Release a bundle 1.4.x of at least 1.4.2 to channel production, ship store build 1.5.0, or set disableAutoUpdate to none on channel production.",
		done: { on: { bundle: bundle("1.4.3") } },
		settings: { channel: "production", disableAutoUpdate: "none" },
	},
	{
		// Taking one limit away meets the other one.
		error: "disable_auto_update_to_minor",
		on: { bundle: bundle("1.3.0"), disableAutoUpdate: "minor", allowProd: false },
		because: "channel production allows only the minor version of the store build: 1.3.0 on 1.4.2",
		message:
			"Release a bundle 1.4.x of at least 1.4.2 to channel production, or set disableAutoUpdate to none and turn off disableAutoUpdateUnderNative on channel production. Also turn on allow_prod on channel production.",
		settings: {
			channel: "production",
			disableAutoUpdate: "none",
			disableAutoUpdateUnderNative: false,
			allow_prod: true,
		},
	},
	{
		error: "disable_auto_update_to_patch",
		on: { disableAutoUpdate: "patch" },
		because: "channel production allows only the patch version of the store build: 1.4.3 on 1.4.2",
		message: "Set disableAutoUpdate to none on channel production.",
		settings: { channel: "production", disableAutoUpdate: "none" },
	},
	{
		error: "misconfigured_channel",
		on: { disableAutoUpdate: "version_number" },
		because: "channel production updates by min_update_version, and bundle 1.4.3 has none",
		message:
			"Release a bundle of at least 1.4.2 with a min_update_version of at most 1.4.2 to channel production, or set disableAutoUpdate to none on channel production.",
		done: { on: { bundle: bundle("1.4.3", { minUpdateVersion: "1.4.2" }) } },
		settings: { channel: "production", disableAutoUpdate: "none" },
	},
	{
		error: "disable_auto_update_to_metadata",
		on: { disableAutoUpdate: "version_number", bundle: bundle("1.4.3", { minUpdateVersion: "1.6.0" }) },
		because: "channel production serves bundle 1.4.3, which needs store build 1.6.0; the device has 1.4.2",
		message:
			"Release a bundle of at least 1.4.2 with a min_update_version of at most 1.4.2 to channel production, ship store build 1.6.0, or set disableAutoUpdate to none on channel production.",
		done: { on: { bundle: bundle("1.4.3", { minUpdateVersion: "1.4.0" }) } },
		settings: { channel: "production", disableAutoUpdate: "none" },
	},
	{
		error: "disable_auto_update_under_native",
		on: { bundle: bundle("1.4.1") },
		because: "channel production offers no bundle older than the store build: 1.4.1 is older than 1.4.2",
		message:
			"Release a bundle from 1.4.2 to below 2.0.0 to channel production, or turn off disableAutoUpdateUnderNative on channel production.",
		done: { on: { bundle: bundle("1.4.3") } },
		settings: { channel: "production", disableAutoUpdateUnderNative: false },
	},
	{
		error: "disable_auto_update_under_native",
		on: { disableAutoUpdate: "none" },
		override: { channel: null, bundle: bundle("1.0.0") },
		because: "channel production offers no bundle older than the store build: 1.0.0 is older than 1.4.2",
		message:
			"Set a bundle of at least 1.4.2 for this device, or turn off disableAutoUpdateUnderNative on channel production.",
		done: { override: { channel: null, bundle: bundle("3.0.0") } },
		settings: { channel: "production", disableAutoUpdateUnderNative: false },
	},
	{
		error: "disable_auto_update_under_native",
		on: {
			rollout: { id: "r", bundle: bundle("1.4.0", { id: 2 }), percentageBps: 10_000, enabled: true, paused: false },
		},
		because: "channel production offers no bundle older than the store build: 1.4.0 is older than 1.4.2",
		message:
			"Roll out a bundle from 1.4.2 to below 2.0.0 on channel production, or turn off disableAutoUpdateUnderNative on channel production.",
		settings: { channel: "production", disableAutoUpdateUnderNative: false },
	},
	{
		error: "disable_prod_build",
		on: { allowProd: false },
		because: "channel production is off for production builds",
		message: "Turn on allow_prod on channel production.",
		settings: { channel: "production", allow_prod: true },
	},
	{
		error: "disable_dev_build",
		on: { allowDev: false, allowDevice: false },
		by: { isProd: false },
		because: "channel production is off for development builds",
		message: "Turn on allow_dev and turn on allow_device on channel production.",
		settings: { channel: "production", allow_dev: true, allow_device: true },
	},
	{
		error: "disable_device",
		on: { allowDevice: false },
		because: "channel production is off for physical devices",
		message: "Turn on allow_device on channel production.",
		settings: { channel: "production", allow_device: true },
	},
	{
		error: "disable_emulator",
		on: { allowEmulator: false },
		by: { isEmulator: true },
		because: "channel production is off for emulators",
		message: "Turn on allow_emulator on channel production.",
		settings: { channel: "production", allow_emulator: true },
	},
	{
		error: "already_on_builtin",
		on: { bundle: null },
		because: "channel production serves the store build, which it runs already",
		message: "Nothing needs to change. To change what it runs, release a bundle to channel production.",
		done: { on: { bundle: bundle("1.4.3") } },
	},
	{
		error: "revert_to_builtin_plugin_version_too_old",
		on: { bundle: null },
		by: { versionName: "1.4.3", pluginVersion: "6.1.9" },
		because: "channel production serves the store build, and its plugin 6.1.9 cannot go back to it",
		message: "Release a bundle to channel production, or update the plugin to 6.2.0 or newer in the next store build.",
		done: { on: { bundle: bundle("1.4.4") } },
	},
];
