/**
 * The update decision, rule by rule and repair by repair (U1 to U12 are defects of the service
 * whose clients we serve), then properties of every input.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideUpdate, type Snapshot, type TraceStep } from "../../src/domain/updates/decision";
import { type Bundle, type Channel, type Device, readsManifest } from "../../src/domain/updates/model";
import { UPDATE_PACKAGES } from "../../src/domain/updates/package";
import { bundle, channel, decide, device, refusedWith } from "./support/decision-scene";

const gone = { currentBundleExists: false };

describe("the rules", () => {
	test("give a device the channel's bundle if none refuses", () => {
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

	test("refuse in their order: each refusal stays until its cause is removed", () => {
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

	test("a bundle that a gate allows is served", () => {
		expect(decide({ bundle: bundle("1.9.9"), disableAutoUpdate: "major" }).outcome).toBe("update");
		expect(decide({ bundle: bundle("1.0.9"), disableAutoUpdate: "minor" }).outcome).toBe("update");
		expect(decide({ bundle: bundle("9.0.0"), disableAutoUpdate: "none" }).outcome).toBe("update");
		const enough = bundle("1.0.1", { minUpdateVersion: "1.0.0" });
		expect(decide({ bundle: enough, disableAutoUpdate: "version_number" }).outcome).toBe("update");
		expect(decide({ bundle: bundle("0.9.0"), disableAutoUpdateUnderNative: false }).outcome).toBe("update");
	});

	test("a native version that is no SemVer is read by the number in it", () => {
		expect(decide({ bundle: bundle("2.0.0") }, { versionBuild: "1" })).toEqual(
			refusedWith("disable_auto_update_to_major", "blocked"),
		);
		expect(decide({ bundle: bundle("2.0.1") }, { versionBuild: "2.0" }).outcome).toBe("update");
	});

	test("a store build with the version of the channel's bundle is up to date, in any spelling", () => {
		const upToDate = refusedWith("no_new_version_available", "up_to_date");
		expect(decide({ bundle: bundle("2.0.0") }, { versionBuild: "2.0" })).toEqual(upToDate);
		expect(decide({ bundle: bundle("1.2.3+45") }, { versionBuild: "1.2.3+45" })).toEqual(upToDate);
		expect(decide({ bundle: bundle("1.2.3") }, { versionBuild: "1.2.3+45" })).toEqual(upToDate);
		expect(decide({ bundle: bundle("1.2.3+46") }, { versionBuild: "1.2.3+45" }).outcome).toBe("update");
	});

	test.each(["builtin", "", "1.0.0"])("a device that reports %j runs the store build 1.0.0", (versionName) => {
		expect(decide({ bundle: null }, { versionName })).toEqual(refusedWith("already_on_builtin", "up_to_date"));
		expect(decide([], { versionName }, gone)).toEqual(refusedWith("no_channel", "failed"));
	});

	test("a store build without a number is older than every bundle", () => {
		const versionBuild = "builtin";
		expect(decide({}, { versionBuild })).toEqual(refusedWith("disable_auto_update_to_major", "blocked"));
		expect(decide({ disableAutoUpdate: "none" }, { versionBuild }).outcome).toBe("update");
	});

	test("keys are compared if both are known and the plugin computes its key id as the uploader does", () => {
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

	test("a channel whose bundle is not ready serves no device; the next channel does, and the trace gives the reason", () => {
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

	test("every rule adds a readable step to the trace", () => {
		const { trace } = decide({ allowProd: false });
		expect(trace.at(-1)).toMatchObject({ rule: "disable_prod_build", outcome: "decided" });
		expect(trace.length).toBeGreaterThan(5);
		for (const step of trace) expect(step.finding).not.toBe("");
	});
});

describe("repairs", () => {
	test("U1: a channel on the store build reverts a device that runs a bundle", () => {
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
	])("U4: a default channel that is %s falls through to the public one, and the trace gives the reason", (_, named) => {
		const decision = decide([channel(), ...named], { defaultChannel: "mine" });
		expect(decision).toMatchObject({ outcome: "update", channel: { name: "production" } });
		expect(decision.trace).toContainEqual(expect.objectContaining({ rule: "default_channel", outcome: "skipped" }));
	});

	test("a default channel that devices may choose comes before the public one", () => {
		const mine = channel({ id: 2, name: "mine", public: false, allowDeviceSelfSet: true, bundle: bundle("1.0.2") });
		expect(decide([channel(), mine], { defaultChannel: "mine" })).toMatchObject({ bundle: { version: "1.0.2" } });
	});

	test("U9: a channel that needs a minimum version and has none is blocked, not failed", () => {
		expect(decide({ disableAutoUpdate: "version_number" })).toEqual(refusedWith("misconfigured_channel", "blocked"));
	});

	test("a device that no channel serves reverts if its bundle was deleted, and else keeps it", () => {
		const preview = { versionName: "1.1.0-pr.1" };
		expect(decide([], preview, gone).outcome).toBe("builtin");
		expect(decide([], preview)).toEqual(refusedWith("no_channel", "failed"));
		expect(decide([], {}, gone)).toEqual(refusedWith("no_channel", "failed"));
		expect(decide([], { ...preview, pluginVersion: "6.1.9" }, gone)).toEqual(
			refusedWith("revert_to_builtin_plugin_version_too_old", "failed"),
		);
	});

	test("a device whose bundle was deleted reverts instead of being refused, but prefers an update", () => {
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

	test("Electron's plugin version, which is always 0.0.1, never refuses", () => {
		const electron = { platform: "electron", pluginVersion: "0.0.1" } as const;
		expect(decide({}, electron).outcome).toBe("update");
		expect(decide({ bundle: null }, { ...electron, versionName: "1.0.1" }).outcome).toBe("builtin");
	});
});

describe("any input", () => {
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
		preview: fc.option(fc.record({ hasForm: fc.boolean(), isNamedByFleet: fc.boolean() })),
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

	test("has one answer with a trace, and a private channel that devices may not choose serves only by override", () => {
		fc.assert(
			fc.property(snapshots, devices, (snapshot, asking) => {
				const trace: TraceStep[] = [];
				const decision = decideUpdate(snapshot, asking, trace);
				expect(trace.at(-1)?.outcome).toBe("decided");
				expect(decideUpdate(snapshot, asking), "recording a trace changes nothing").toEqual(decision);
				const withoutBundle = decideUpdate({ ...snapshot, currentBundleExists: !snapshot.currentBundleExists }, asking);
				if (!decision.dependsOnCurrentBundle) expect(withoutBundle).toEqual(decision);
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
				if (decision.form !== "zip") expect(decision.bundle.hasManifest && readsManifest(asking)).toBe(true);
			}),
			{ numRuns: 1000 },
		);
	});
});
