/**
 * Explanations: each refusal has a true remedy that names the channel and the values. Every row of
 * the table is refused, its remedy is applied, and the device is decided again.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideUpdate, type Snapshot } from "../../../src/domain/updates/decision";
import { explainDecision } from "../../../src/domain/updates/explanation";
import type { Channel, Device } from "../../../src/domain/updates/model";
import { UPDATE_PACKAGES } from "../../../src/domain/updates/package";
import { type ChannelSettings, REFUSAL_CODES } from "../../../src/domain/updates/refusals";
import { bundle, channel, device } from "../support/decision-rows";
import { REFUSALS, type Refusal } from "./refusals";

const snapshotOf = (on: Refusal["on"], override: Refusal["override"]): Snapshot => ({
	channels: override?.channel == null ? [channel(on)] : [],
	currentBundleExists: true,
	override,
});

/** The settings as POST /channel would make them. */
function changed(
	one: Channel,
	{ channel: name, ...settings }: ChannelSettings & { readonly channel: string },
): Channel {
	if (one.name !== name) return one;
	const columns: Readonly<Record<string, string>> = {
		allow_device_self_set: "allowDeviceSelfSet",
		allow_emulator: "allowEmulator",
		allow_device: "allowDevice",
		allow_dev: "allowDev",
		allow_prod: "allowProd",
	};
	const next: Record<string, unknown> = { ...one, platforms: { ...one.platforms } };
	for (const [field, value] of Object.entries(settings)) {
		if (field in one.platforms) (next.platforms as Record<string, unknown>)[field] = value;
		else next[columns[field] ?? field] = value;
	}
	return next as unknown as Channel;
}
const served = (snapshot: Snapshot, asking: Device) => decideUpdate(snapshot, asking).outcome;

describe("the remedy of a refusal", () => {
	test("is tried for every code", () => {
		expect([...new Set(REFUSALS.map(({ error }) => error))].sort()).toEqual([...REFUSAL_CODES].sort());
	});

	test.each(REFUSALS)("$error: $message", ({ error, on, by, override, because, message, done, settings }) => {
		const [snapshot, asking] = [snapshotOf(on, override), device(by)];
		expect(decideUpdate(snapshot, asking)).toMatchObject({ outcome: "none", error });
		const explained = explainDecision(snapshot, asking);
		expect({ because: explained.because, ...explained.remedy }).toMatchObject({
			because,
			message,
			settings: settings ?? null,
		});
		expect(explained.remedy?.otherwise ?? "", "in the words of screens").not.toMatch(/[a-z]_[a-z]|[a-z][A-Z]/);
		expect(done ?? settings, "a row says what to do").toBeDefined();
		if (done !== undefined) {
			const after = snapshotOf({ ...on, ...done.on }, done.override ?? override);
			expect(served(after, device({ ...by, ...done.by }))).toBe("update");
		}
		if (settings !== undefined) {
			const forced = override?.channel == null ? null : changed(override.channel, settings);
			const after = {
				...snapshot,
				channels: snapshot.channels.map((one) => changed(one, settings)),
				override: override === undefined ? undefined : { ...override, channel: forced },
			};
			expect(served(after, asking)).toBe("update");
		}
	});

	test("exists for every refusal, and its settings end the refusal", () => {
		const bundles = fc.record({
			id: fc.nat(),
			version: fc.constantFrom("1.0.0", "1.0.1", "2.0.0", "0.9.0", "1.1.0-pr.1"),
			ready: fc.boolean(),
			keyId: fc.constantFrom(null, "A", "B"),
			minUpdateVersion: fc.option(fc.constantFrom("1.0.0", "3.0.0")),
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
			rollout: fc.constant(null),
		});
		const snapshots: fc.Arbitrary<Snapshot> = fc.record({
			channels: fc.uniqueArray(channels, { maxLength: 2, selector: ({ name }) => name }),
			currentBundleExists: fc.boolean(),
			override: fc.option(fc.record({ channel: fc.option(channels), bundle: fc.option(bundles) }), { nil: undefined }),
		});
		const devices: fc.Arbitrary<Device> = fc.record({
			deviceId: fc.uuid(),
			platform: fc.constantFrom("ios", "android", "electron"),
			versionName: fc.constantFrom("builtin", "1.0.1", "9.9.9"),
			versionBuild: fc.constantFrom("1.0.0", "2.0.0", "unknown", "beta"),
			pluginVersion: fc.constantFrom("8.51.23", "8.51.23", "4.0.0", "6.1.0"),
			isEmulator: fc.boolean(),
			isProd: fc.boolean(),
			defaultChannel: fc.constantFrom("", "mine", "nowhere"),
			keyId: fc.constantFrom(undefined, "A"),
		});
		const seen = new Set<string>();
		fc.assert(
			fc.property(snapshots, devices, (snapshot, asking) => {
				const decision = decideUpdate(snapshot, asking);
				const { because, remedy } = explainDecision(snapshot, asking);
				expect(because).not.toMatch(/undefined|null|^$/);
				if (decision.outcome !== "none") {
					expect(remedy).toBeNull();
					return;
				}
				seen.add(decision.error);
				expect(remedy?.message).toMatch(/^[A-Z](?!.*(undefined|null)).+\.$/);
				const settings = remedy?.settings ?? undefined;
				if (settings === undefined) return;
				const forced = snapshot.override?.channel;
				const after = decideUpdate(
					{
						...snapshot,
						channels: snapshot.channels.map((one) => changed(one, settings)),
						override:
							snapshot.override === undefined
								? undefined
								: { ...snapshot.override, channel: forced == null ? null : changed(forced, settings) },
					},
					asking,
				);
				if (after.outcome === "none") expect(after.kind).toBe("up_to_date");
			}),
			{ numRuns: 20_000, seed: 11 },
		);
		const inTable = new Set(REFUSALS.map(({ error }) => error));
		expect([...seen].filter((error) => !inTable.has(error))).toEqual([]);
		expect([...inTable].filter((error) => !seen.has(error))).toEqual([]);
	});
});

describe("the explanation names the cause", () => {
	const beta = channel({ id: 2, name: "beta", public: false, allowDeviceSelfSet: true, bundle: bundle("1.4.5") });
	const rollout = { id: "r", bundle: bundle("1.4.9", { id: 9 }), percentageBps: 10_000, enabled: true, paused: false };
	test.each<[string, string, Partial<Snapshot>, Partial<Device>]>([
		["public_channel", "production is the public channel for android and serves bundle 1.4.3", {}, {}],
		["default_channel", "the device asks for channel beta, which serves bundle 1.4.5", {}, { defaultChannel: "beta" }],
		[
			"rollout",
			"channel production rolls out bundle 1.4.9 to 100 % of its devices, and this is one of them",
			{ channels: [channel({ rollout })] },
			{},
		],
		[
			"device_bundle",
			"bundle 2.4.0 is set for this device",
			{ override: { channel: null, bundle: bundle("2.4.0") } },
			{},
		],
		[
			"device_channel",
			"channel beta is set for this device and serves bundle 1.4.5",
			{ override: { channel: beta, bundle: null } },
			{ defaultChannel: "production" },
		],
		[
			"public_channel",
			"production is the public channel for android and serves the store build",
			{ channels: [channel({ bundle: null })] },
			{ versionName: "1.4.3" },
		],
		[
			"deleted_bundle",
			"bundle 1.4.0-pr.1, which it runs, was deleted",
			{ channels: [], currentBundleExists: false },
			{ versionName: "1.4.0-pr.1" },
		],
	])("%s: because %s", (decidedBy, because, of, by) => {
		const channels = [channel({ disableAutoUpdate: "none" }), beta];
		const snapshot = { channels, currentBundleExists: true, ...of };
		expect(explainDecision(snapshot, device(by))).toEqual({ decidedBy, because, remedy: null });
	});
});
