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

const bundle = (version: string, more: Partial<Bundle> = {}): Bundle => ({
	id: 1,
	version,
	keyId: null,
	minUpdateVersion: null,
	hasContent: true,
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
const decide = (on: Partial<Channel> | readonly Channel[] = {}, by: Partial<Device> = {}, exists = true): Decision => {
	const channels = Array.isArray(on) ? on : [channel(on as Partial<Channel>)];
	return decideUpdate({ channels, currentBundleExists: exists }, device(by));
};
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
		["no_bundle", "failed", { bundle: bundle("1.0.1", { hasContent: false }) }, {}],
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
	])("%s (%s), and one step away from it an update or the store build", (error, kind, on, by) => {
		expect(decide(on, by)).toEqual(refusedWith(error, kind));
		expect(decide().outcome).toBe("update");
	});

	test("gates compare the store build, and the last of equal rank that is passed serves", () => {
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

	test("every step of the way leaves a trace that a person can read, with the remedy where something is in the way", () => {
		const { trace } = decide({ allowProd: false });
		expect(trace.at(-1)).toMatchObject({ rule: "disable_prod_build", outcome: "decided", remedy: expect.any(String) });
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
		expect(decide([], { versionName: "1.1.0-pr.1" }, false).outcome).toBe("builtin");
		expect(decide([], { versionName: "1.1.0-pr.1" }, true)).toEqual(refusedWith("no_channel", "failed"));
		expect(decide([], {}, false)).toEqual(refusedWith("no_channel", "failed"));
	});

	test("Electron's plugin version, which is always 0.0.1, stops nothing", () => {
		const electron = { platform: "electron", pluginVersion: "0.0.1" } as const;
		expect(decide({}, electron).outcome).toBe("update");
		expect(decide({ bundle: null }, { ...electron, versionName: "1.0.1" }).outcome).toBe("builtin");
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
				expect(isInRollout(salt, id, low)).toBe(isInRollout(salt, id, low));
			}),
		);
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

describe("whatever is asked", () => {
	const versions = fc.constantFrom("1.0.0", "1.0.1", "2.0.0", "0.9.0", "1.1.0-pr.1");
	const bundles = fc.record({
		id: fc.nat(),
		version: versions,
		keyId: fc.constantFrom(null, "A", "B"),
		minUpdateVersion: fc.option(versions),
		hasContent: fc.boolean(),
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
	});

	test("there is one answer with a trace, and a private channel that devices may not choose never serves", () => {
		fc.assert(
			fc.property(snapshots, devices, (snapshot, asking) => {
				const decision = decideUpdate(snapshot, asking);
				expect(decision.trace.at(-1)?.outcome).toBe("decided");
				if (decision.outcome === "none") expect(["up_to_date", "blocked", "failed"]).toContain(decision.kind);
				if (decision.outcome !== "update") return;
				expect(decision.channel.public || decision.channel.allowDeviceSelfSet).toBe(true);
				expect(decision.channel.platforms[asking.platform]).toBe(true);
				expect(decision.bundle.hasContent).toBe(true);
				expect(decision.bundle.version).not.toBe(asking.versionName);
			}),
			{ numRuns: 500 },
		);
	});
});
