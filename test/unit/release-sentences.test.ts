/** Sentences about releases and changes, as people read them. */
import { describe, expect, test } from "vitest";
import { eventSentence } from "../../src/domain/webhooks/events";
import { type ChangeFacts, changeSentence, settingChanges } from "../../src/domain/words/changes";
import { commitOfLink, plainSentence, type ReleaseFacts, releaseSentence } from "../../src/domain/words/releases";

const production = { name: "production", isPreview: false };
const facts = (fields: Partial<ReleaseFacts>): ReleaseFacts => ({
	action: "promotion",
	channel: production,
	version: "2.4.0",
	previousVersion: "2.3.1",
	rolloutPercentageBps: null,
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
		action: "channel.update",
		target: { type: "channel", id: "7", name: "production" },
		before: {},
		after: {},
		details: {},
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
				action: "channel.rollout_advance",
				before: { rolloutPercentageBps: 500 },
				after: { rolloutPercentageBps: 2500 },
				details: { version: "2.4.0" },
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
			"changed Minimum reporting devices per step of production from 50 to 20",
		],
		[
			{ before: { disableAutoUpdate: "major" }, after: { disableAutoUpdate: "none" } },
			"changed Allowed updates of production from No major updates to All updates",
		],
		[
			{ before: { autoPauseAction: "pause" }, after: { autoPauseAction: "notify" } },
			"changed Action when a limit is exceeded of production from Pause the rollout to Notify only, and continue",
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
			{ action: "webhook.stop", target: { type: "webhook", id: "0d9b2f0e", name: "Board" }, before: null, after: null },
			"stopped a delivery of webhook Board",
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

	test("names lists and claims without the marks of JSON", () => {
		const changed = settingChanges({
			before: { claims: { repository_id: "1", ref: "refs/heads/main" }, channels: ["beta", "dev"], events: [] },
			after: { claims: { repository_id: "1" }, channels: null, events: ["channel.promoted"] },
		});
		expect(changed.map(({ label, before, after }) => `${label}: ${before} to ${after}`)).toEqual([
			"claims: repository_id 1, ref refs/heads/main to repository_id 1",
			"channels: beta, dev to null",
			"events: all to channel.promoted",
		]);
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

describe("a message of a webhook", () => {
	const said = (type: string, fields: object) => {
		const channel = { type: "channel", id: "4", name: "production" };
		const ada = { type: "user", id: "u", name: "Ada" };
		const data = { app_id: "com.example.app", actor: ada, target: channel, before: null, after: null, details: {} };
		return eventSentence({ type, data: JSON.stringify({ ...data, ...fields }) }).replaceAll("\u00a0", " ");
	};
	const system = { actor: { type: "system", id: null, name: "Automatic clean-up" } };
	test.each([
		[
			"channel.promoted",
			{ action: "channel.update", before: { version: "1.3.0" }, after: { version: "1.4.0" } },
			"Ada released 1.4.0 to production (com.example.app)",
		],
		[
			"channel.rolled_back",
			{
				action: "channel.rollback",
				before: { version: "1.4.0" },
				after: { version: "1.3.0" },
				details: { reason: "Login loop" },
			},
			"Ada rolled production back from 1.4.0 to 1.3.0 (com.example.app): Login loop",
		],
		[
			"rollout.started",
			{
				action: "channel.update",
				before: { version: "1.3.0" },
				after: { version: "1.3.1", rolloutVersion: "1.4.0", rolloutPercentageBps: 500 },
			},
			"Ada started the rollout of 1.4.0 on production at 5 % (com.example.app)",
		],
		[
			"rollout.advanced",
			{
				...system,
				action: "channel.rollout_advance",
				before: { rolloutPercentageBps: 500 },
				after: { rolloutPercentageBps: 2_500 },
				details: { version: "1.4.0", reason: "312 reports, 1 failed" },
			},
			"Capstan raised the rollout of 1.4.0 on production to 25 % (com.example.app): 312 reports, 1 failed",
		],
		[
			"rollout.paused",
			{
				...system,
				action: "channel.rollout_pause",
				after: { rolloutPausedAtMs: 1 },
				details: { version: "1.4.0", percentage_bps: 500 },
			},
			"Capstan paused the rollout of 1.4.0 on production at 5 % (com.example.app)",
		],
		[
			"proposal.created",
			{ action: "proposal.create", after: { version: "1.4.0" } },
			"Ada proposed 1.4.0 for production, which waits for approval (com.example.app)",
		],
		["webhook.unknown", {}, "webhook.unknown"],
	])("%s reads as in the dashboard", (type, fields, sentence) => expect(said(type, fields)).toBe(sentence));
});
