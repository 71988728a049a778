/**
 * The update decision, rung by rung and repair by repair (U1 to U12 are the defects of the service whose clients we serve), then what
 * must hold for every input.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isInRollout } from "../../src/domain/rollout";
import {
	type Bundle,
	type Channel,
	type Decision,
	type Device,
	decideUpdate,
	type Snapshot,
} from "../../src/domain/update-decision";
import { UPDATE_PACKAGES } from "../../src/domain/update-package";

const bundle = (version: string, more: Partial<Bundle> = {}): Bundle => ({
	id: 1,
	version,
	ready: true,
	keyId: null,
	minUpdateVersion: null,
	hasZip: true,
	hasManifest: false,
	...more,
});
const channel = (more: Partial<Channel> = {}): Channel => ({
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
	...more,
});
const device = (more: Partial<Device> = {}): Device => ({
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
const decide = (
	on: Partial<Channel> | readonly Channel[] = {},
	by: Partial<Device> = {},
	of: Partial<Snapshot> = {},
): Decision => {
	const channels = Array.isArray(on) ? on : [channel(on as Partial<Channel>)];
	return decideUpdate({ channels, currentBundleExists: true, ...of }, device(by));
};
const gone = { currentBundleExists: false };
const refusedWith = (error: string, kind: string) => expect.objectContaining({ outcome: "none", error, kind });

describe("the ladder", () => {
	test("a device that nothing stops gets the channel's bundle", () => {
		expect(decide()).toMatchObject({ outcome: "update", bundle: { version: "1.0.1" } });
	});

	test.each<[string, string, Partial<Channel>, Partial<Device>]>([
		["unknown_version_build", "failed", {}, { versionBuild: "unknown" }],
		["semver_error", "failed", {}, { versionBuild: "beta" }],
		["unsupported_plugin_version", "failed", {}, { pluginVersion: "4.2.0" }],
		["no_channel", "failed", { public: false }, {}],
		["no_bundle", "failed", { bundle: bundle("1.0.1", { hasZip: false }) }, {}],
		["key_id_mismatch", "blocked", { bundle: bundle("1.0.1", { keyId: "A" }) }, { keyId: "B" }],
		["no_new_version_available", "up_to_date", {}, { versionName: "1.0.1" }],
		["disable_auto_update_to_major", "blocked", { bundle: bundle("2.0.0") }, {}],
		["disable_auto_update_to_minor", "blocked", { bundle: bundle("1.1.0"), disableAutoUpdate: "minor" }, {}],
		["disable_auto_update_to_patch", "blocked", { disableAutoUpdate: "patch" }, {}],
		[
			"disable_auto_update_to_metadata",
			"blocked",
			{ bundle: bundle("1.0.1", { minUpdateVersion: "1.2.0" }), disableAutoUpdate: "version_number" },
			{},
		],
		["disable_auto_update_under_native", "blocked", { bundle: bundle("0.9.0") }, {}],
		["disable_prod_build", "blocked", { allowProd: false }, {}],
		["disable_dev_build", "blocked", { allowDev: false }, { isProd: false }],
		["disable_device", "blocked", { allowDevice: false }, {}],
		["disable_emulator", "blocked", { allowEmulator: false }, { isEmulator: true }],
		["already_on_builtin", "up_to_date", { bundle: null }, {}],
		[
			"revert_to_builtin_plugin_version_too_old",
			"failed",
			{ bundle: null },
			{ versionName: "1.0.1", pluginVersion: "6.1.9" },
		],
	])("%s is %s", (error, kind, on, by) => {
		expect(decide(on, by)).toEqual(refusedWith(error, kind));
	});

	test("clearing one obstacle after the other meets the rungs in their order, each until it is cleared", () => {
		let target = bundle("2.0.0", { hasZip: false, keyId: "A" });
		let serving = channel({ public: false, platforms: { ios: true, android: false, electron: true }, bundle: target });
		serving = { ...serving, allowProd: false, allowDev: false, allowDevice: false, allowEmulator: false };
		let asking = device({ versionBuild: "unknown", pluginVersion: "4.2.0", keyId: "B", versionName: "2.0.0" });
		let overridden = false;
		const by = (change: Partial<Device>) => () => {
			asking = { ...asking, ...change };
		};
		const on = (change: Partial<Channel>) => () => {
			serving = { ...serving, ...change };
		};
		const of = (change: Partial<Bundle>) => () => {
			target = { ...target, ...change };
			serving = { ...serving, bundle: target };
		};
		const steps: readonly [code: string, clear: () => void][] = [
			["unknown_version_build", by({ versionBuild: "beta" })],
			["semver_error", by({ versionBuild: "1.0.0" })],
			["unsupported_plugin_version", by({ pluginVersion: "8.51.23" })],
			[
				"no_channel",
				() => {
					overridden = true;
				},
			],
			["no_bundle", of({ hasZip: true })],
			["key_id_mismatch", by({ keyId: "A" })],
			["no_new_version_available", by({ versionName: "1.0.1" })],
			["disabled_platform_android", on({ platforms: { ios: true, android: true, electron: true } })],
			["disable_auto_update_to_major", on({ disableAutoUpdate: "minor" })],
			["disable_auto_update_to_minor", on({ disableAutoUpdate: "patch" })],
			["disable_auto_update_to_patch", on({ disableAutoUpdate: "version_number" })],
			["misconfigured_channel", of({ minUpdateVersion: "9.0.0" })],
			["disable_auto_update_to_metadata", by({ versionBuild: "9.0.0" })],
			["disable_auto_update_under_native", on({ disableAutoUpdateUnderNative: false })],
			["disable_prod_build", by({ isProd: false })],
			["disable_dev_build", on({ allowDev: true })],
			["disable_device", by({ isEmulator: true })],
			["disable_emulator", on({ allowEmulator: true })],
		];
		const answer = () => {
			const override = overridden ? { channel: serving, bundle: null } : undefined;
			return decideUpdate({ channels: [serving], currentBundleExists: true, override }, asking);
		};
		for (const [code, clear] of steps) {
			expect(answer(), code).toMatchObject({ outcome: "none", error: code });
			clear();
		}
		expect(answer()).toMatchObject({ outcome: "update", bundle: { version: "2.0.0" } });
		on({ bundle: null, allowEmulator: false })();
		by({ pluginVersion: "6.1.9", versionName: "builtin" })();
		for (const [code, clear] of [
			["disable_emulator", on({ allowEmulator: true })],
			["already_on_builtin", by({ versionName: "1.0.1" })],
			["revert_to_builtin_plugin_version_too_old", by({ pluginVersion: "6.2.0" })],
		] as const) {
			expect(answer(), code).toMatchObject({ outcome: "none", error: code });
			clear();
		}
		expect(answer().outcome).toBe("builtin");
	});

	test("U11: gates compare the store build, never the bundle in use", () => {
		const inUse = { versionName: "1.9.0" };
		expect(decide({ bundle: bundle("2.0.0") }, inUse)).toEqual(refusedWith("disable_auto_update_to_major", "blocked"));
		expect(decide({ bundle: bundle("1.0.9"), disableAutoUpdate: "minor" }, inUse).outcome).toBe("update");
		expect(decide({ bundle: bundle("1.0.1") }, inUse).outcome).toBe("update");
	});

	test("what a gate allows is served", () => {
		expect(decide({ bundle: bundle("1.9.9"), disableAutoUpdate: "major" }).outcome).toBe("update");
		expect(decide({ bundle: bundle("1.0.9"), disableAutoUpdate: "minor" }).outcome).toBe("update");
		expect(decide({ bundle: bundle("9.0.0"), disableAutoUpdate: "none" }).outcome).toBe("update");
		const enough = bundle("1.0.1", { minUpdateVersion: "1.0.0" });
		expect(decide({ bundle: enough, disableAutoUpdate: "version_number" }).outcome).toBe("update");
		expect(decide({ bundle: bundle("0.9.0"), disableAutoUpdateUnderNative: false }).outcome).toBe("update");
	});

	test("a native version that is no SemVer is read as the number it holds", () => {
		expect(decide({ bundle: bundle("2.0.0") }, { versionBuild: "1" })).toEqual(
			refusedWith("disable_auto_update_to_major", "blocked"),
		);
		expect(decide({ bundle: bundle("2.0.1") }, { versionBuild: "2.0" }).outcome).toBe("update");
	});

	test("a store build that stands for the channel's bundle is up to date, however its version is written", () => {
		const upToDate = refusedWith("no_new_version_available", "up_to_date");
		expect(decide({ bundle: bundle("2.0.0") }, { versionBuild: "2.0" })).toEqual(upToDate);
		expect(decide({ bundle: bundle("1.2.3+45") }, { versionBuild: "1.2.3+45" })).toEqual(upToDate);
		expect(decide({ bundle: bundle("1.2.3") }, { versionBuild: "1.2.3+45" })).toEqual(upToDate);
		expect(decide({ bundle: bundle("1.2.3+46") }, { versionBuild: "1.2.3+45" }).outcome).toBe("update");
	});

	test.each(["builtin", "", "1.0.0"])("a device that says it runs %j runs the store build 1.0.0", (versionName) => {
		expect(decide({ bundle: null }, { versionName })).toEqual(refusedWith("already_on_builtin", "up_to_date"));
		expect(decide([], { versionName }, gone)).toEqual(refusedWith("no_channel", "failed"));
	});

	test("a store build without a number of its own is older than every bundle", () => {
		const versionBuild = "builtin";
		expect(decide({}, { versionBuild })).toEqual(refusedWith("disable_auto_update_to_major", "blocked"));
		expect(decide({ disableAutoUpdate: "none" }, { versionBuild }).outcome).toBe("update");
	});

	test("keys are compared where both are known and the plugin names its own as the uploader does", () => {
		const sealed = { bundle: bundle("1.0.1", { keyId: "A" }) };
		const mismatch = refusedWith("key_id_mismatch", "blocked");
		const electron = { platform: "electron", pluginVersion: "0.0.1" } as const;
		expect(decide(sealed, { keyId: "B", pluginVersion: "8.40.8" })).toEqual(mismatch);
		expect(decide(sealed, { keyId: "B", pluginVersion: "8.40.7" }).outcome).toBe("update");
		expect(decide(sealed, { keyId: "B", ...electron })).toEqual(mismatch);
		expect(decide(sealed, { keyId: "A" }).outcome).toBe("update");
		expect(decide(sealed, {}).outcome).toBe("update");
		expect(decide({}, { keyId: "B" }).outcome).toBe("update");
	});

	test("a channel whose bundle is not ready serves nobody; the next one does, and the trace says why", () => {
		const unready = bundle("1.0.9", { ready: false });
		expect(decide({ bundle: unready })).toEqual(refusedWith("no_channel", "failed"));
		const named = channel({ id: 2, name: "mine", public: false, allowDeviceSelfSet: true, bundle: unready });
		const decision = decide([channel(), named], { defaultChannel: "mine" });
		expect(decision).toMatchObject({ outcome: "update", bundle: { version: "1.0.1" } });
		expect(decision.trace).toContainEqual({
			rule: "default_channel",
			outcome: "skipped",
			finding: "bundle 1.0.9 of channel mine is not ready",
			remedy: expect.any(String),
		});
	});

	test("every rule leaves a step in the trace that a person can read", () => {
		const { trace } = decide({ allowProd: false });
		expect(trace.at(-1)).toMatchObject({ rule: "disable_prod_build", outcome: "decided" });
		expect(trace.length).toBeGreaterThan(5);
		for (const step of trace) expect(step.finding).not.toBe("");
	});
});

describe("repairs", () => {
	test("U1: a channel on the store build brings a device home that runs a bundle", () => {
		expect(decide({ bundle: null }, { versionName: "1.0.1" }).outcome).toBe("builtin");
		expect(decide({ bundle: null }, { versionName: "1.0.0", versionBuild: "1.0.0" })).toEqual(
			refusedWith("already_on_builtin", "up_to_date"),
		);
	});

	test.each([
		["unknown", []],
		["private and not to be chosen", [channel({ id: 2, name: "mine", public: false })]],
		[
			"off for the platform",
			[
				channel({
					id: 2,
					name: "mine",
					allowDeviceSelfSet: true,
					public: false,
					platforms: { ios: true, android: false, electron: true },
				}),
			],
		],
	])("U4: a default channel that is %s falls through to the public one, and the trace says why", (_, named) => {
		const decision = decide([channel(), ...named], { defaultChannel: "mine" });
		expect(decision).toMatchObject({ outcome: "update", channel: { name: "production" } });
		expect(decision.trace).toContainEqual(expect.objectContaining({ rule: "default_channel", outcome: "skipped" }));
	});

	test("a default channel that may be chosen is taken before the public one", () => {
		const mine = channel({ id: 2, name: "mine", public: false, allowDeviceSelfSet: true, bundle: bundle("1.0.2") });
		expect(decide([channel(), mine], { defaultChannel: "mine" })).toMatchObject({ bundle: { version: "1.0.2" } });
	});

	test("U9: a channel that needs a minimum version and has none is blocked, not failed", () => {
		expect(decide({ disableAutoUpdate: "version_number" })).toEqual(refusedWith("misconfigured_channel", "blocked"));
	});

	test("a device whose bundle was deleted and that no channel serves goes home; one whose bundle is there stays", () => {
		const preview = { versionName: "1.1.0-pr.1" };
		expect(decide([], preview, gone).outcome).toBe("builtin");
		expect(decide([], preview)).toEqual(refusedWith("no_channel", "failed"));
		expect(decide([], {}, gone)).toEqual(refusedWith("no_channel", "failed"));
		expect(decide([], { ...preview, pluginVersion: "6.1.9" }, gone)).toEqual(
			refusedWith("revert_to_builtin_plugin_version_too_old", "failed"),
		);
	});

	test("a device whose bundle was deleted goes home rather than be refused, but takes an update where there is one", () => {
		const preview = { versionName: "1.1.0-pr.1" };
		expect(decide({ allowProd: false }, preview, gone).outcome).toBe("builtin");
		expect(decide({ allowProd: false }, preview)).toEqual(refusedWith("disable_prod_build", "blocked"));
		expect(decide({}, preview, gone)).toMatchObject({ outcome: "update", bundle: { version: "1.0.1" } });
	});

	test.each(["ios", "android", "electron"] as const)(
		"U10: disabled_platform_%s is reached through an override",
		(platform) => {
			const platforms = { ios: true, android: true, electron: true, [platform]: false };
			const override = { channel: channel({ platforms }), bundle: null };
			expect(decide([], { platform }, { override })).toEqual(refusedWith(`disabled_platform_${platform}`, "blocked"));
		},
	);

	test("Electron's plugin version, which is always 0.0.1, stops nothing", () => {
		const electron = { platform: "electron", pluginVersion: "0.0.1" } as const;
		expect(decide({}, electron).outcome).toBe("update");
		expect(decide({ bundle: null }, { ...electron, versionName: "1.0.1" }).outcome).toBe("builtin");
	});
});

describe("an override", () => {
	const secret = channel({ id: 2, name: "secret", public: false, bundle: bundle("1.0.2") });

	test("lets a channel serve that nobody may choose, before the named and the public one", () => {
		const named = channel({ id: 3, name: "mine", allowDeviceSelfSet: true, bundle: bundle("1.0.3") });
		const by = { defaultChannel: "mine" };
		const all = [channel(), secret, named];
		expect(decide(all, by)).toMatchObject({ bundle: { version: "1.0.3" } });
		expect(decide(all, by, { override: { channel: secret, bundle: null } })).toMatchObject({
			bundle: { version: "1.0.2" },
			channel: { name: "secret" },
		});
	});

	test("does not lift the other rules of its channel", () => {
		const override = { channel: { ...secret, allowProd: false }, bundle: null };
		expect(decide([channel()], {}, { override })).toEqual(refusedWith("disable_prod_build", "blocked"));
	});

	test("whose channel has no bundle that is ready falls through to the public one", () => {
		const override = { channel: { ...secret, bundle: bundle("1.0.2", { ready: false }) }, bundle: null };
		expect(decide([channel()], {}, { override })).toMatchObject({ channel: { name: "production" } });
	});

	test("of the bundle takes the place of the channel's, rollout or not, under the channel's rules", () => {
		const rollout = { id: "r", bundle: bundle("1.0.4"), percentageBps: 10_000, enabled: true, paused: false };
		const force = (version: string) => ({ override: { channel: null, bundle: bundle(version) } });
		expect(decide({ rollout }, {}, force("1.0.7"))).toMatchObject({ bundle: { version: "1.0.7" } });
		expect(decide({}, {}, force("2.0.0"))).toEqual(refusedWith("disable_auto_update_to_major", "blocked"));
		expect(decide({}, { versionName: "1.0.7" }, force("1.0.7"))).toEqual(
			refusedWith("no_new_version_available", "up_to_date"),
		);
	});

	test("of the bundle serves a device that no channel serves; a bundle that is not ready counts for nothing", () => {
		const force = (more: Partial<Bundle>) => ({ override: { channel: null, bundle: bundle("2.0.0", more) } });
		expect(decide([], {}, force({}))).toMatchObject({ outcome: "update", channel: null, bundle: { version: "2.0.0" } });
		expect(decide([], {}, force({ hasZip: false }))).toEqual(refusedWith("no_bundle", "failed"));
		expect(decide([], {}, force({ ready: false }))).toEqual(refusedWith("no_channel", "failed"));
		expect(decide({}, {}, force({ ready: false }))).toMatchObject({ bundle: { version: "1.0.1" } });
	});
});

describe("rollouts", () => {
	const rolledOut = (percentageBps: number, more = {}) => ({
		rollout: { id: "salt", bundle: bundle("1.0.2", { id: 2 }), percentageBps, enabled: true, paused: false, ...more },
	});

	test("nobody at 0 %, everybody at 100 %", () => {
		expect(decide(rolledOut(0))).toMatchObject({ bundle: { version: "1.0.1" } });
		expect(decide(rolledOut(10_000))).toMatchObject({ bundle: { version: "1.0.2" } });
	});

	test("U12: a device on the rolled out bundle stays on it, at 0 % and while it is paused; disabled, it comes back", () => {
		const by = { versionName: "1.0.2" };
		expect(decide(rolledOut(0), by)).toEqual(refusedWith("no_new_version_available", "up_to_date"));
		expect(decide(rolledOut(10_000, { paused: true }), by)).toEqual(
			refusedWith("no_new_version_available", "up_to_date"),
		);
		expect(decide(rolledOut(10_000, { paused: true }))).toMatchObject({ bundle: { version: "1.0.1" } });
		expect(decide(rolledOut(10_000, { enabled: false }), by)).toMatchObject({ bundle: { version: "1.0.1" } });
	});

	test("raising the share keeps every earlier device in, and lowering it again brings the same ones back", () => {
		fc.assert(
			fc.property(fc.uuid(), fc.uuid(), fc.nat(10_000), fc.nat(10_000), (salt, id, one, other) => {
				const [low, high] = [Math.min(one, other), Math.max(one, other)];
				if (isInRollout(salt, id, low)) expect(isInRollout(salt, id, high)).toBe(true);
			}),
		);
		const ids = Array.from({ length: 500 }, (_, index) => `device-${index}`);
		const cohort = (bps: number) => ids.filter((id) => isInRollout("salt", id, bps));
		const [few, many, fewAgain] = [cohort(2000), cohort(6000), cohort(2000)];
		expect(many).toEqual(expect.arrayContaining(few));
		expect(many.length).toBeGreaterThan(few.length);
		expect(fewAgain).toEqual(few);
		expect(few.length).toBeGreaterThan(0);
	});

	test("another rollout takes in other devices", () => {
		const ids = Array.from({ length: 500 }, (_, index) => `device-${index}`);
		const cohort = (salt: string) => ids.filter((id) => isInRollout(salt, id, 5000));
		expect(cohort("one")).not.toEqual(cohort("other"));
	});

	test("a bundle that is not ready is rolled out to nobody, not even to those who run it", () => {
		const unready = rolledOut(10_000, { bundle: bundle("1.0.2", { ready: false }) });
		expect(decide(unready)).toMatchObject({ bundle: { version: "1.0.1" } });
		expect(decide(unready, { versionName: "1.0.2" })).toMatchObject({ bundle: { version: "1.0.1" } });
	});

	test("the share of devices is the share that was asked for", () => {
		const ids = Array.from({ length: 20_000 }, (_, index) => `device-${index}`);
		for (const bps of [500, 2000, 5000]) {
			const share = ids.filter((id) => isInRollout("another salt", id, bps)).length / ids.length;
			// Four standard deviations of a fair draw.
			expect(Math.abs(share - bps / 10_000)).toBeLessThan(0.015);
		}
	});
});

describe("the update package", () => {
	const [both, zipOnly, filesOnly] = [
		{ hasZip: true, hasManifest: true },
		{ hasZip: true, hasManifest: false },
		{ hasZip: false, hasManifest: true },
	];
	const formOf = (updatePackage: Channel["updatePackage"], forms: object, by: Partial<Device> = {}) => {
		const decision = decide({ updatePackage, bundle: bundle("1.0.2", forms) }, by);
		return decision.outcome === "update" ? decision.form : decision;
	};
	const onBundle = { versionName: "1.0.1" };

	test.each([
		["all", both, {}, "all"],
		["all", zipOnly, {}, "zip"],
		["all", filesOnly, {}, "delta"],
		["zip", both, {}, "zip"],
		["delta", both, {}, "delta"],
		["zip_from_builtin", both, {}, "zip"],
		["zip_from_builtin", both, onBundle, "all"],
		["delta_from_builtin", both, {}, "delta"],
		["delta_from_builtin", both, onBundle, "all"],
		// The other form beats none.
		["zip", filesOnly, {}, "delta"],
		["delta", zipOnly, {}, "zip"],
	] as const)("%s offers, of %j to %j, %s", (mode, forms, by, form) => {
		expect(formOf(mode, forms, by)).toBe(form);
	});

	test("leaves a step in the trace that names the mode, and the remedy where the bundle lacks the form", () => {
		const step = (forms: object) =>
			decide({ updatePackage: "delta", bundle: bundle("1.0.2", forms) }).trace.find(
				({ rule }) => rule === "update_package",
			);
		expect(step(both)).toEqual({
			rule: "update_package",
			outcome: "passed",
			finding: "the channel offers single files (delta)",
		});
		expect(step(zipOnly)).toMatchObject({
			outcome: "skipped",
			finding: expect.stringContaining("only as a zip"),
			remedy: expect.stringContaining("updatePackage"),
		});
		expect(decide().trace.some(({ rule }) => rule === "update_package")).toBe(false);
	});
});

describe("whatever is asked", () => {
	const versions = fc.constantFrom("1.0.0", "1.0.1", "2.0.0", "0.9.0", "1.1.0-pr.1");
	const bundles = fc.record({
		id: fc.nat(),
		version: versions,
		ready: fc.boolean(),
		keyId: fc.constantFrom(null, "A", "B"),
		minUpdateVersion: fc.option(versions),
		hasZip: fc.boolean(),
		hasManifest: fc.boolean(),
	});
	const channels: fc.Arbitrary<Channel> = fc.record({
		id: fc.nat(),
		name: fc.constantFrom("production", "mine"),
		public: fc.boolean(),
		platforms: fc.record({ ios: fc.boolean(), android: fc.boolean(), electron: fc.boolean() }),
		allowDeviceSelfSet: fc.boolean(),
		allowEmulator: fc.boolean(),
		allowDevice: fc.boolean(),
		allowDev: fc.boolean(),
		allowProd: fc.boolean(),
		disableAutoUpdate: fc.constantFrom("major", "minor", "patch", "version_number", "none"),
		disableAutoUpdateUnderNative: fc.boolean(),
		updatePackage: fc.constantFrom(...UPDATE_PACKAGES),
		bundle: fc.option(bundles),
		rollout: fc.option(
			fc.record({
				id: fc.string(),
				bundle: bundles,
				percentageBps: fc.nat(10_000),
				enabled: fc.boolean(),
				paused: fc.boolean(),
			}),
		),
	});
	const devices: fc.Arbitrary<Device> = fc.record({
		deviceId: fc.uuid(),
		platform: fc.constantFrom("ios", "android", "electron"),
		versionName: fc.oneof(versions, fc.constant("builtin"), fc.string()),
		versionBuild: fc.oneof(versions, fc.constantFrom("1", "unknown"), fc.string()),
		pluginVersion: fc.oneof(fc.constantFrom("8.51.23", "0.0.1", "4.0.0", "6.1.0"), fc.string()),
		isEmulator: fc.boolean(),
		isProd: fc.boolean(),
		defaultChannel: fc.constantFrom("", "mine", "nowhere"),
		keyId: fc.constantFrom(undefined, "A"),
	});
	const snapshots: fc.Arbitrary<Snapshot> = fc.record({
		channels: fc.array(channels, { maxLength: 4 }),
		currentBundleExists: fc.boolean(),
		override: fc.option(fc.record({ channel: fc.option(channels), bundle: fc.option(bundles) }), { nil: undefined }),
	});

	test("there is one answer with a trace; a private channel that devices may not choose serves by override alone", () => {
		fc.assert(
			fc.property(snapshots, devices, (snapshot, asking) => {
				const decision = decideUpdate(snapshot, asking);
				expect(decision.trace.at(-1)?.outcome).toBe("decided");
				if (decision.outcome === "none") expect(["up_to_date", "blocked", "failed"]).toContain(decision.kind);
				if (decision.outcome !== "update") return;
				const { channel: serving } = decision;
				if (serving === null) expect(decision.bundle).toBe(snapshot.override?.bundle);
				else {
					if (serving !== snapshot.override?.channel) {
						expect(serving.public || serving.allowDeviceSelfSet).toBe(true);
					}
					expect(serving.platforms[asking.platform]).toBe(true);
				}
				expect((decision.bundle.hasZip || decision.bundle.hasManifest) && decision.bundle.ready).toBe(true);
				expect(decision.bundle.version).not.toBe(asking.versionName);
				// No form is offered that the bundle does not have.
				if (decision.form !== "delta") expect(decision.bundle.hasZip).toBe(true);
				if (decision.form !== "zip") expect(decision.bundle.hasManifest).toBe(true);
			}),
			{ numRuns: 1000 },
		);
	});
});
