/** What people read about releases and changes. */
import { describe, expect, test } from "vitest";
import { type ChangeFacts, changeSentence, settingChanges } from "../../src/domain/change-sentences";
import { commitOfLink, plainSentence, type ReleaseFacts, releaseSentence } from "../../src/domain/release-sentences";

const production = { name: "production", isPreview: false };
const facts = (fields: Partial<ReleaseFacts>): ReleaseFacts => ({
	...{
		action: "promotion",
		channel: production,
		version: "2.4.0",
		previousVersion: "2.3.1",
		rolloutPercentageBps: null,
	},
	...fields,
});
const said = (fields: Partial<ReleaseFacts>) =>
	`Ada ${plainSentence(releaseSentence(facts(fields)))}`.replaceAll("\u00a0", " ");

describe("releaseSentence", () => {
	test.each<[Partial<ReleaseFacts>, string]>([
		[{}, "Ada released 2.4.0 to production"],
		[{ channel: undefined }, "Ada released 2.4.0 to every device"],
		[{ version: null }, "Ada returned production to the store build"],
		[{ action: "rollback", version: "2.2.1" }, "Ada rolled production back from 2.3.1 to 2.2.1"],
		[{ action: "rollback", version: null, channel: undefined }, "Ada rolled back from 2.3.1 to the store build"],
		[{ action: "rollout_raised", rolloutPercentageBps: 2500 }, "Ada raised the rollout of 2.4.0 on production to 25 %"],
		[
			{ action: "rollout_started", rolloutPercentageBps: 500, channel: undefined },
			"Ada started the rollout of 2.4.0 at 5 %",
		],
		[{ action: "created", version: null }, "Ada created production"],
		[
			{ action: "created", version: null, channel: { name: "pr-150", isPreview: true } },
			"Ada opened the preview pr-150",
		],
		[{ action: "proposal_created" }, "Ada proposed 2.4.0 for production"],
	])("says %j as %s", (fields, sentence) => {
		expect(said(fields)).toBe(sentence);
	});
});

describe("changeSentence", () => {
	const entry = (fields: Partial<ChangeFacts>): ChangeFacts => ({
		...{ action: "channel.update", target: { type: "channel", id: "7", name: "production" } },
		...{ before: {}, after: {}, details: {} },
		...fields,
	});
	test.each<[Partial<ChangeFacts>, string]>([
		[
			{ action: "channel.promote", before: { version: "2.3.0" }, after: { version: "2.3.1" } },
			"released 2.3.1 to production",
		],
		[
			{
				before: { rolloutVersion: null },
				after: { rolloutVersion: "2.4.0", rolloutEnabled: true, rolloutPercentageBps: 500 },
			},
			"started the rollout of 2.4.0 on production at 5 %",
		],
		[
			{
				...{ action: "channel.rollout_advance", before: { rolloutPercentageBps: 500 } },
				...{ after: { rolloutPercentageBps: 2500 }, details: { version: "2.4.0" } },
			},
			"raised the rollout of 2.4.0 on production to 25 %",
		],
		[
			{ before: { rolloutPercentageBps: 2500 }, after: { rolloutPercentageBps: 1000 } },
			"lowered the rollout of its bundle on production to 10 %",
		],
		[
			{ action: "channel.rollback", before: { version: "2.3.0" }, after: { version: "2.2.1" } },
			"rolled production back from 2.3.0 to 2.2.1",
		],
		[
			{ before: { rolloutStepMinDevices: 50 }, after: { rolloutStepMinDevices: 20 } },
			"changed Minimum devices per step of production from 50 to 20",
		],
		[{ before: { ios: true, public: false }, after: { ios: false, public: true } }, "changed 2 settings of production"],
		[
			{
				action: "api_key.create",
				target: { type: "api_key", id: "k", name: "CI" },
				before: null,
				after: { name: "CI" },
			},
			"created API key CI",
		],
		[
			{ action: "bundle.upload", target: { type: "bundle", id: "9", name: "2.4.0" }, before: null, after: {} },
			"uploaded bundle 2.4.0",
		],
	])("says %j as %s", (fields, sentence) => {
		expect(plainSentence(changeSentence(entry(fields))).replaceAll("\u00a0", " ")).toBe(sentence);
	});

	test("names each changed setting with its old and new value", () => {
		const changed = settingChanges({
			before: { rolloutStepsBps: null, retention: 2_592_000, ios: true },
			after: { rolloutStepsBps: "[500,2500]", retention: 0, ios: true },
		});
		expect(
			changed.map(({ label, before, after }) => `${label}: ${before} to ${after}`.replaceAll("\u00a0", " ")),
		).toEqual(["Rollout steps: null to 5 %, 25 %", "Keep unused bundles: 30 days to forever"]);
	});
});

test.each([
	["https://github.com/acme/shop/commit/9C1e44f", "9c1e44f"],
	["https://gitlab.com/acme/shop/-/commit/9c1e44f#note", "9c1e44f"],
	["https://example.com/notes/9c1e44f", null],
	[null, null],
])("commitOfLink reads %s as %s", (link, commit) => {
	expect(commitOfLink(link)).toBe(commit);
});
