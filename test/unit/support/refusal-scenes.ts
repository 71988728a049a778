/**
 * A channel and a device for every refusal code, so that the guide shows for each code what
 * `capstan explain` says: the sentences are those of src/domain/updates/refusals.ts, as people read
 * them. A code without a scene does not compile.
 */
import { explainDecision } from "../../../src/domain/updates/explanation";
import type { Bundle, Channel, Device } from "../../../src/domain/updates/model";
import { REFUSAL_CODES, type RefusalCode, refusalOf } from "../../../src/domain/updates/refusals";
import { bundle, channel, decide, device } from "./decision-scene";

interface Scene {
	readonly on?: Partial<Channel>;
	readonly by?: Partial<Device>;
}

const LIVE = "1.4.0";
const live = (more: Partial<Bundle> = {}, version = LIVE) => bundle(version, more);

const SCENES: Readonly<Record<RefusalCode, Scene>> = {
	unknown_version_build: { by: { versionBuild: "unknown" } },
	semver_error: { by: { versionBuild: "spring release" } },
	unsupported_plugin_version: { by: { pluginVersion: "4.2.0" } },
	no_channel: { on: { public: false } },
	no_bundle: { on: { bundle: live({ hasZip: false }) }, by: { platform: "electron" } },
	key_id_mismatch: { on: { bundle: live({ keyId: "MIIBCgKCAQEA1aaaaaaa" }) }, by: { keyId: "MIIBCgKCAQEA2bbbbbbb" } },
	no_new_version_available: { by: { versionName: LIVE } },
	disabled_platform_ios: offFor("ios"),
	disabled_platform_android: offFor("android"),
	disabled_platform_electron: offFor("electron"),
	disable_auto_update_to_major: { on: { bundle: live({}, "2.0.0") } },
	disable_auto_update_to_minor: { on: { disableAutoUpdate: "minor" } },
	disable_auto_update_to_patch: { on: { disableAutoUpdate: "patch", bundle: live({}, "1.0.1") } },
	disable_auto_update_to_metadata: {
		on: { disableAutoUpdate: "version_number", bundle: live({ minUpdateVersion: "1.2.0" }) },
	},
	misconfigured_channel: { on: { disableAutoUpdate: "version_number" } },
	disable_auto_update_under_native: { by: { versionBuild: "1.5.0" } },
	disable_prod_build: { on: { allowProd: false } },
	disable_dev_build: { on: { allowDev: false }, by: { isProd: false } },
	disable_device: { on: { allowDevice: false } },
	disable_emulator: { on: { allowEmulator: false }, by: { isEmulator: true } },
	already_on_builtin: { on: { bundle: null } },
	revert_to_builtin_plugin_version_too_old: {
		on: { bundle: null },
		by: { versionName: LIVE, pluginVersion: "6.1.9" },
	},
};

function offFor(platform: Device["platform"]): Scene {
	const platforms = { ios: true, android: true, electron: true, [platform]: false };
	return { on: { platforms, public: false, allowDeviceSelfSet: true, name: "production" }, by: { platform } };
}

/**
 * The code and the sentences of a scene. A channel that is off for the platform is reached by an
 * override.
 */
export function explained(code: RefusalCode) {
	const { on = {}, by = {} } = SCENES[code];
	const serving = channel({ bundle: live(), ...on });
	const isForced = code.startsWith("disabled_platform_");
	const snapshot = {
		channels: [serving],
		currentBundleExists: true,
		override: isForced ? { channel: serving, bundle: null } : undefined,
	};
	const { because, remedy } = explainDecision(snapshot, device(by));
	const decision = decide([serving], by, snapshot);
	return { code: decision.outcome === "none" ? decision.error : decision.outcome, because, remedy };
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

/** The section of a guide about every code, in the order of the rules' table. */
export const refusalSections = () =>
	REFUSAL_CODES.map((code) => {
		const { because, remedy } = explained(code);
		const { kind } = refusalOf(code);
		return `### \`${code}\`\n\n${sentence(because)} (\`${kind}\`)\n\n**Remedy.** ${remedy?.message ?? "None."}\n`;
	}).join("\n");
