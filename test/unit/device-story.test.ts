/**
 * The story of a device: the same whatever the order of its events, bounded, and written by itself
 * only when a refusal begins or ends.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DeviceStory, EVENT_KINDS, readEvent, type StoryEvent } from "../../src/domain/statistics/device-story";

const event = fc.record({
	atMs: fc.integer({ min: 1_000, max: 2_000 }),
	kind: fc.constantFrom(...EVENT_KINDS),
	version: fc.constantFrom("1.0.0", "1.1.0", ""),
	detail: fc.constantFrom("", "set_fail"),
});
const eventsOf = (story: DeviceStory) => (story.stored?.events ?? []).map(readEvent);
const storyOf = (events: readonly StoryEvent[], before?: DeviceStory) => {
	const story = new DeviceStory(before?.stored, 0);
	for (const one of events) story.add(one);
	return story;
};

describe("the story of a device", () => {
	test("has each event once, in the order of time, in however many batches it arrives", () => {
		fc.assert(
			fc.property(fc.array(event, { maxLength: 40 }), fc.nat({ max: 40 }), (events, cut) => {
				const split = storyOf(events, storyOf(events.slice(cut)));
				const texts = eventsOf(split).map((one) => JSON.stringify(one));
				expect(new Set(texts)).toEqual(new Set(events.map((one) => JSON.stringify(one))));
				expect(texts).toHaveLength(new Set(texts).size);
				const times = eventsOf(split).map((one) => one?.atMs ?? 0);
				expect(times).toEqual([...times].sort((one, other) => one - other));
			}),
		);
	});

	test("keeps the last 60 events, none from before the first day, and short texts", () => {
		const many = Array.from(
			{ length: 100 },
			(_, index) => ({ atMs: index, kind: "install", version: "1", detail: "" }) as const,
		);
		expect(eventsOf(storyOf(many)).map((one) => one?.atMs)).toEqual(many.slice(40).map(({ atMs }) => atMs));
		const story = new DeviceStory(storyOf(many).stored, 90);
		expect(story.add({ atMs: 89, kind: "crash", version: "1", detail: "" })).toBe(false);
		story.add({ atMs: 95, kind: "js_error", version: "v".repeat(500), detail: "d".repeat(5_000) });
		expect(eventsOf(story)).toHaveLength(11);
		expect(JSON.stringify(story.stored).length).toBeLessThan(600);
	});

	test("has a check only if its decision differs, and writes the row for a refusal and its end", () => {
		let stored: DeviceStory["stored"];
		const check = (atMs: number, decision: string, version: string) => {
			const story = new DeviceStory(stored, 0);
			story.check(atMs, decision, version);
			stored = story.stored;
			return { isNews: story.isNews, added: story.added.length };
		};
		expect(check(1, "no_new_version_available", "1.0.0")).toEqual({ isNews: false, added: 1 });
		expect(check(2, "no_new_version_available", "1.0.0")).toEqual({ isNews: false, added: 0 });
		expect(check(3, "update", "1.1.0")).toEqual({ isNews: false, added: 1 });
		expect(check(4, "disable_emulator", "1.0.0")).toEqual({ isNews: true, added: 1 });
		expect(check(5, "disable_emulator", "1.0.0")).toEqual({ isNews: false, added: 0 });
		expect(check(3, "update", "1.2.0"), "an earlier check").toEqual({ isNews: false, added: 0 });
		expect(check(6, "no_new_version_available", "1.0.0")).toEqual({ isNews: true, added: 1 });
	});
});
