/**
 * The preselection of the release dialog: every device at once is never proposed for many devices,
 * nor before their number is known, and a proposed way is always possible.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { partlyRolledOut, proposedVersion, usualWay } from "../../dashboard/src/release-dialog/release-plan";

type Channel = Parameters<typeof usualWay>[0];

const channels = fc
	.record({
		rolloutSteps: fc.constantFrom(null, [5, 25, 100], [50, 100]),
		rolloutEnabled: fc.boolean(),
		rolloutPercentageBps: fc.constantFrom(0, 500, 10_000),
		rolloutPausedAt: fc.constantFrom(null, "2026-11-22T08:00:00.000Z"),
		rollout_version_info: fc.constantFrom(null, { name: "1.1.0" }, { name: "1.2.0" }),
	})
	.map((fields) => fields as unknown as Channel);
const forms = fc.tuple(channels, fc.constantFrom("", "1.1.0", "1.3.0"), fc.boolean());

describe("usualWay", () => {
	test("proposes every device at once for at most 50 devices only", () => {
		const many = fc.option(fc.integer({ min: 51, max: 100_000 }), { nil: undefined });
		fc.assert(
			fc.property(forms, many, ([channel, version, maySet], devices) => {
				const way = usualWay(channel, version, devices, maySet);
				expect(way).not.toBe("all");
				// Nothing is proposed while steps would return devices to an older bundle.
				expect(way === undefined).toBe(partlyRolledOut(channel, version) !== undefined);
			}),
		);
	});

	test("follows the habit of a channel with few devices, as far as it is possible", () => {
		fc.assert(
			fc.property(forms, fc.integer({ min: 0, max: 50 }), ([channel, version, maySet], devices) => {
				const isHabit = channel.rolloutSteps !== null && partlyRolledOut(channel, version) === undefined;
				expect(usualWay(channel, version, devices, maySet)).toBe(isHabit ? "steps" : "all");
			}),
		);
	});

	test("proposes a share to people who may not set the steps that a channel lacks", () => {
		const channel = { rolloutSteps: null, rolloutEnabled: false } as unknown as Channel;
		expect(usualWay(channel, "1.3.0", undefined, false)).toBe("share");
		expect(usualWay(channel, "1.3.0", undefined, true)).toBe("steps");
	});
});

describe("proposedVersion", () => {
	test.each([
		[[], "1.0.1"],
		[["1.0.0", "1.10.0", "1.9.9"], "1.10.1"],
		[["2.0.0-beta.1", "1.4.0"], "1.4.1"],
	])("of %j is %s", (names, version) => expect(proposedVersion(names)).toBe(version));
});
