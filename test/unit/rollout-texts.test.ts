/** Sentences of the rollout card and the release dialog, for each state that they describe. */
import { describe, expect, test } from "vitest";
import {
	countsText,
	nextStepText,
	notCountedText,
	progressText,
	type RolloutAnswer,
	rateText,
	rateTitle,
} from "../../dashboard/src/components/rollout-texts";
import { shareText } from "../../dashboard/src/components/size";
import { rolloutEffect } from "../../dashboard/src/release-dialog/release-plan";

const NOW_MS = Date.parse("2026-11-22T08:00:00Z");
const ROLLOUT: RolloutAnswer = {
	channel: "production",
	state: "running",
	pauseReason: null,
	rollout_id: "r",
	version: "2.4.0",
	stableVersion: "2.3.1",
	percentageBps: 2_500,
	steps: [25, 100],
	startedAt: "2026-11-22T07:00:00.000Z",
	stepAt: "2026-11-22T07:58:00.000Z",
	judgedFrom: "2026-11-22T07:00:00.000Z",
	devices: { served: 197, installed: 169, failed: 6, silent: 22 },
	signals: { crashed: 0, errored: 0 },
	rates: [],
	running: 169,
	notCounted: { newer: 0, sharedNetwork: 0, more: false },
	sampleFull: false,
	health: { failureRate: 0.034286, lowerBound: 0.0158, upperBound: 0.07291, limit: 0.02, confidence: 0.95 },
	readyToFinish: false,
	verdict: "hold",
	reason: "",
	next: { percentageBps: 10_000, at: "2026-11-22T08:58:00.000Z", devicesNeeded: 50, waitingFor: [] },
	checkedAt: null,
	triggeredAt: null,
	previous: null,
};
const NOBODY = { served: 0, installed: 0, failed: 0, silent: 0 };

describe("progressText", () => {
	const RATE = { kind: "failed", devices: 0, of: 175, lowerBound: 0, upperBound: 0.01, limit: 0.02 } as const;
	const past = { percentageBps: 10_000, at: "2026-11-22T07:58:00.000Z", devicesNeeded: 0, waitingFor: [] };
	test.each<[Partial<RolloutAnswer>, string]>([
		[{ rates: [RATE], next: past }, "Healthy. Goes to 100 % within 15 minutes, if it stays healthy."],
		[
			{ rates: [RATE, { ...RATE, kind: "crashed", lowerBound: 0.03, upperBound: 0.1 }], next: past },
			"Too many devices fail. Goes to 100 % within 15 minutes, if it stays healthy.",
		],
		[{ next: past }, "Too few reports to tell. Goes to 100 % within 15 minutes, if it stays healthy."],
		[{ rates: [RATE], readyToFinish: true }, "Every device is offered it. It is ready to finish."],
	])("of %j is %s", (fields, text) => {
		expect(progressText({ ...ROLLOUT, ...fields }, NOW_MS).replaceAll("\u00a0", " ")).toBe(text);
	});
});

describe("shareText", () => {
	test.each([
		[601, 617, "97 %"],
		[8, 1_460, "0.5 %"],
		[6, 175, "3.4 %"],
		[1, 20, "5 %"],
		[0, 617, "0 %"],
		[617, 617, "100 %"],
		[616, 617, "over 99 %"],
		[1, 100_000, "under 0.1 %"],
		[0, 0, "—"],
	])("%i of %i is %s", (part, whole, text) => expect(shareText(part, whole)).toBe(text));
});

describe("the rollout card", () => {
	test("counts devices by their last report", () => {
		expect(countsText(ROLLOUT.devices)).toBe("197 offered · 169 installed · 6 failed · 22 not reported yet");
	});

	const RATE = { kind: "failed", devices: 6, of: 175, lowerBound: 0.0158, upperBound: 0.07291, limit: 0.02 } as const;
	test.each([
		[
			RATE,
			"Too few reports to judge failures.",
			"6 of 175 devices failed (3.4 %). Allowing for chance, at most 7.3 % fail. The limit is 2 %.",
		],
		[
			{ ...RATE, kind: "crashed", devices: 1, of: 1_452, lowerBound: 0.0001, upperBound: 0.0039 },
			"Crashes are below the limit.",
			"1 of 1,452 devices crashed or stopped responding (0.1 %). Allowing for chance, at most 0.4 % do. The limit is 2 %.",
		],
		[
			{ ...RATE, kind: "errored", devices: 90, lowerBound: 0.44, upperBound: 0.59 },
			"JavaScript errors are above the limit.",
			"90 of 175 devices reported JavaScript errors (51 %). Allowing for chance, at most 59 % do. The limit is 2 %.",
		],
		[
			{ ...RATE, devices: 0, of: 0, lowerBound: 0, upperBound: 1 },
			"Too few reports to judge failures.",
			"The limit is 2 %.",
		],
	] as const)(
		"shows a rate with the precision of its count, and what it says about the limit: %o",
		(rate, title, text) => {
			expect(rateTitle(rate)).toBe(title);
			expect(rateText(rate)).toBe(text);
		},
	);

	test.each([
		[
			"every device is new or shares a network",
			{ devices: NOBODY, running: 102, notCounted: { newer: 64, sharedNetwork: 38, more: false } },
			"102 devices run 2.4.0. 0 count towards health: 64 are newer than the rollout, 38 share a network with 3 others.",
		],
		[
			"some count",
			{ running: 260, notCounted: { newer: 1, sharedNetwork: 0, more: false } },
			"260 devices run 2.4.0. 197 of 198 that were offered it count towards health: 1 is newer than the rollout.",
		],
		[
			"one runs it",
			{ devices: NOBODY, running: 1, notCounted: { newer: 1, sharedNetwork: 0, more: false } },
			"1 device runs 2.4.0. 0 count towards health: 1 is newer than the rollout.",
		],
		[
			"there are more than are noted",
			{ devices: NOBODY, running: 5_000, notCounted: { newer: 5_000, sharedNetwork: 0, more: true } },
			"5,000 devices run 2.4.0. 0 count towards health: at least 5,000 are newer than the rollout.",
		],
	])("names the devices that do not count: %s", (_, fields, text) => {
		expect(notCountedText({ ...ROLLOUT, ...fields }, 3)).toBe(text);
	});

	test("shows no text if every device counts", () => {
		expect(notCountedText(ROLLOUT, 3)).toBe(undefined);
	});

	const fine = { ...ROLLOUT, devices: { served: 40, installed: 30, failed: 0, silent: 10 } };
	const at = "2026-11-22T07:59:00.000Z";
	test.each([
		[
			"too few reports",
			{ ...fine },
			"Next step (100 %) in 58 min, if 50 more devices report and the failure rate stays below 2 %. Too few reports so far.",
		],
		[
			"failures above the limit",
			{},
			"Next step (100 %) in 58 min, if 50 more devices report and the failure rate stays below 2 %. The failure rate is above that so far.",
		],
		[
			"only time is missing",
			{ ...fine, next: { ...ROLLOUT.next, devicesNeeded: 0 } },
			"Next step (100 %) in 58 min, if the failure rate stays below 2 %.",
		],
		[
			"only one report is missing",
			{ ...fine, next: { ...ROLLOUT.next, at, devicesNeeded: 1 } },
			"Next step (100 %) as soon as 1 more device reports and the failure rate stays below 2 %. Too few reports so far.",
		],
		[
			"nothing is missing",
			{ ...fine, next: { ...ROLLOUT.next, at, devicesNeeded: 0 } },
			"Next step (100 %) within 15 minutes, if the failure rate stays below 2 %.",
		],
		[
			"no number of reports is enough",
			{ health: { ...ROLLOUT.health, limit: 0 }, next: { ...ROLLOUT.next, devicesNeeded: null } },
			"Next step (100 %): never, because no number of reports shows a failure rate below 0 %. Raise the limit in the rollout settings.",
		],
		[
			"days are missing",
			{ ...fine, next: { ...ROLLOUT.next, at: "2026-11-25T08:00:00.000Z", devicesNeeded: 0 } },
			"Next step (100 %) in 3 days, if the failure rate stays below 2 %.",
		],
	])("names the conditions of the next step: %s", (_, fields, text) => {
		expect(nextStepText({ ...ROLLOUT, ...fields } as RolloutAnswer, NOW_MS)).toBe(text);
	});

	test("shows no next step for a manual rollout", () => {
		expect(nextStepText({ ...ROLLOUT, next: null }, NOW_MS)).toBe(undefined);
	});
});

describe("the effect of a promotion on the current rollout", () => {
	const running = {
		version: { id: 1, name: "2.3.1" },
		rollout_version_info: { id: 2, name: "2.4.0" },
		rolloutEnabled: true,
		rolloutPausedAt: null,
		rolloutPercentageBps: 2_500,
	};
	const paused = { ...running, rolloutPausedAt: "2026-11-22T08:00:00.000Z" };
	const off = { ...running, rolloutEnabled: false };
	const everyDevice = { version: "2.5.0", way: "all", percentage: 5 } as const;
	const share = { version: "2.5.0", way: "share", percentage: 5 } as const;

	test("is not shown without a rollout", () => {
		expect(rolloutEffect({ ...running, rollout_version_info: null }, everyDevice)).toBe(undefined);
	});

	test.each([
		[
			running,
			{ ...everyDevice, version: "2.4.0" },
			/^This finishes the rollout of 2\.4\.0: .* every device gets it\.$/,
		],
		[paused, everyDevice, /^The rollout of 2\.4\.0 ends: .* get 2\.5\.0/],
		[running, everyDevice, /^The rollout of 2\.4\.0 ends: .* get 2\.5\.0/],
		[running, share, /^The rollout of 2\.4\.0 has reached 25 %: finish it or roll it back before/],
		[off, share, /^This replaces the rollout of 2\.4\.0, which is switched off\.$/],
		[
			{ ...running, rolloutPercentageBps: 10_000 },
			share,
			/^2\.4\.0 .* becomes the stable bundle, and .* 2\.5\.0 starts/,
		],
		[
			{ ...paused, rolloutPercentageBps: 10_000 },
			share,
			/^The rollout of 2\.4\.0 has reached 100 %: finish it or roll it back before/,
		],
		[
			running,
			{ ...share, version: "2.4.0" },
			/continues .* from 25 % to 5 %\. Devices that run 2\.4\.0 already keep it\.$/,
		],
		[
			running,
			{ ...share, version: "2.4.0", percentage: 50 },
			/continues with the same devices: .* from 25 % to 50 %\.$/,
		],
		[paused, { ...share, version: "2.4.0", percentage: 50 }, /It stays paused until you resume it\.$/],
		[
			running,
			{ ...share, version: "2.4.0", way: "steps" as const },
			/continues .* stays at 25 % and grows from there\.$/,
		],
	])("is named in case %#", (channel, planned, text) => expect(rolloutEffect(channel, planned)).toMatch(text));
});
