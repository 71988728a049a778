/** Channels, bundles and devices for tests of the update decision. */
import { expect } from "vitest";
import { type Decision, decideUpdate, type Snapshot, type TraceStep } from "../../../src/domain/updates/decision";
import type { Bundle, Channel, Device } from "../../../src/domain/updates/model";

export const bundle = (version: string, more: Partial<Bundle> = {}): Bundle => ({
	id: 1,
	version,
	ready: true,
	keyId: null,
	minUpdateVersion: null,
	hasZip: true,
	hasManifest: false,
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
	bundle: bundle("1.0.1"),
	rollout: null,
	preview: null,
	...more,
});

export const device = (more: Partial<Device> = {}): Device => ({
	deviceId: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	platform: "android",
	versionName: "builtin",
	versionBuild: "1.0.0",
	pluginVersion: "8.51.23",
	isEmulator: false,
	isProd: true,
	defaultChannel: "",
	keyId: undefined,
	...more,
});

export const decide = (
	on: Partial<Channel> | readonly Channel[] = {},
	by: Partial<Device> = {},
	of: Partial<Snapshot> = {},
): Decision & { readonly trace: readonly TraceStep[] } => {
	const channels = Array.isArray(on) ? on : [channel(on as Partial<Channel>)];
	const trace: TraceStep[] = [];
	return { ...decideUpdate({ channels, currentBundleExists: true, ...of }, device(by), trace), trace };
};

export const refusedWith = (error: string, kind: string) => expect.objectContaining({ outcome: "none", error, kind });
