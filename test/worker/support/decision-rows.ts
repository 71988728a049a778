/** Channels, bundles and devices for tests of explanations. */
import type { Bundle, Channel, Device } from "../../../src/domain/updates/model";

export const bundle = (version: string, more: Partial<Bundle> = {}): Bundle => ({
	id: 1,
	version,
	ready: true,
	keyId: null,
	minUpdateVersion: null,
	hasZip: true,
	hasManifest: true,
	...more,
});

export const channel = (more: Partial<Channel> = {}): Channel => ({
	id: 1,
	name: "production",
	public: true,
	platforms: { ios: true, android: true, electron: true },
	allowDeviceSelfSet: false,
	allowEmulator: true,
	allowDevice: true,
	allowDev: true,
	allowProd: true,
	disableAutoUpdate: "major",
	disableAutoUpdateUnderNative: true,
	updatePackage: "all",
	bundle: bundle("1.4.3"),
	rollout: null,
	preview: null,
	...more,
});

export const device = (more: Partial<Device> = {}): Device => ({
	deviceId: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	platform: "android",
	versionName: "builtin",
	versionBuild: "1.4.2",
	pluginVersion: "8.51.23",
	isEmulator: false,
	isProd: true,
	defaultChannel: "",
	keyId: undefined,
	...more,
});
