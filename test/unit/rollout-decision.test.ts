/** The update decision beside the channel's bundle: overrides, rollouts and the update package. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isInRollout } from "../../src/domain/rollouts/rollout";
import type { Bundle, Channel, Device } from "../../src/domain/updates/model";
import { bundle, channel, decide, refusedWith } from "./support/decision-scene";

describe("an override", () => {
	const secret = channel({ id: 2, name: "secret", public: false, bundle: bundle("1.0.2") });

	test("makes a channel serve that devices may not choose, before the named and the public one", () => {
		const named = channel({ id: 3, name: "mine", allowDeviceSelfSet: true, bundle: bundle("1.0.3") });
		const by = { defaultChannel: "mine" };
		const all = [channel(), secret, named];
		expect(decide(all, by)).toMatchObject({ bundle: { version: "1.0.3" } });
		expect(decide(all, by, { override: { channel: secret, bundle: null } })).toMatchObject({
			bundle: { version: "1.0.2" },
			channel: { name: "secret" },
		});
	});

	test("does not disable the other rules of its channel", () => {
		const override = { channel: { ...secret, allowProd: false }, bundle: null };
		expect(decide([channel()], {}, { override })).toEqual(refusedWith("disable_prod_build", "blocked"));
	});

	test("falls through to the public channel if its channel has no ready bundle", () => {
		const override = { channel: { ...secret, bundle: bundle("1.0.2", { ready: false }) }, bundle: null };
		expect(decide([channel()], {}, { override })).toMatchObject({ channel: { name: "production" } });
	});

	test("replaces the bundle of the channel, rollout or not, under the channel's rules", () => {
		const rollout = { id: "r", bundle: bundle("1.0.4"), percentageBps: 10_000, enabled: true, paused: false };
		const force = (version: string) => ({ override: { channel: null, bundle: bundle(version) } });
		expect(decide({ rollout }, {}, force("1.0.7"))).toMatchObject({ bundle: { version: "1.0.7" } });
		expect(decide({}, {}, force("2.0.0"))).toEqual(refusedWith("disable_auto_update_to_major", "blocked"));
		expect(decide({}, { versionName: "1.0.7" }, force("1.0.7"))).toEqual(
			refusedWith("no_new_version_available", "up_to_date"),
		);
	});

	test("serves its bundle to a device without a channel, and ignores a bundle that is not ready", () => {
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

	test("reach no device at 0 % and every device at 100 %", () => {
		expect(decide(rolledOut(0))).toMatchObject({ bundle: { version: "1.0.1" } });
		expect(decide(rolledOut(10_000))).toMatchObject({ bundle: { version: "1.0.2" } });
	});

	test("U12: keep a device on their bundle at 0 % and while paused; when disabled, the device returns", () => {
		const by = { versionName: "1.0.2" };
		expect(decide(rolledOut(0), by)).toEqual(refusedWith("no_new_version_available", "up_to_date"));
		expect(decide(rolledOut(10_000, { paused: true }), by)).toEqual(
			refusedWith("no_new_version_available", "up_to_date"),
		);
		expect(decide(rolledOut(10_000, { paused: true }))).toMatchObject({ bundle: { version: "1.0.1" } });
		expect(decide(rolledOut(10_000, { enabled: false }), by)).toMatchObject({ bundle: { version: "1.0.1" } });
	});

	test("keep every earlier device when the share rises, and the same ones when it falls again", () => {
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

	test("start with other devices in each rollout", () => {
		const ids = Array.from({ length: 500 }, (_, index) => `device-${index}`);
		const cohort = (salt: string) => ids.filter((id) => isInRollout(salt, id, 5000));
		expect(cohort("one")).not.toEqual(cohort("other"));
	});

	test("offer a bundle that is not ready to no device, not even to one that runs it", () => {
		const unready = rolledOut(10_000, { bundle: bundle("1.0.2", { ready: false }) });
		expect(decide(unready)).toMatchObject({ bundle: { version: "1.0.1" } });
		expect(decide(unready, { versionName: "1.0.2" })).toMatchObject({ bundle: { version: "1.0.1" } });
	});

	test("reach the share of devices that is set", () => {
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

	test("adds a step to the trace with the mode, and the remedy if the bundle lacks the form", () => {
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
