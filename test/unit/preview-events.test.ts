/**
 * The order of events that open and close previews, and what the payloads of GitHub and GitLab say.
 */
import { describe, expect, test } from "vitest";
import { mayOpen, type PreviewEvents, stillCloses, stillReopens } from "../../src/domain/ci/preview-events";
import { githubEvent, gitlabEvent } from "../../src/domain/ci/pull-request-event";

const events = (fields: Partial<PreviewEvents> = {}): PreviewEvents => ({
	state: "open",
	closed_as: null,
	opened_event_at_ms: null,
	reopened_event_at_ms: null,
	closed_event_at_ms: null,
	...fields,
});

describe("the end of a pull request", () => {
	test("holds unless a later push or a reopening of the same time is known", () => {
		expect(stillCloses(undefined, 5)).toBe(true);
		expect(stillCloses(events({ opened_event_at_ms: 5 }), 5)).toBe(true);
		expect(stillCloses(events({ opened_event_at_ms: 6 }), 5)).toBe(false);
		expect(stillCloses(events({ reopened_event_at_ms: 5 }), 5)).toBe(false);
		expect(stillCloses(events({ reopened_event_at_ms: 4 }), 5)).toBe(true);
	});

	test("is undone by a reopening of the same time or later", () => {
		expect(stillReopens(events({ closed_event_at_ms: 5 }), 5)).toBe(true);
		expect(stillReopens(events({ closed_event_at_ms: 6 }), 5)).toBe(false);
	});

	test("lets CI open the preview for a later event only", () => {
		const closed = events({ state: "closed", closed_as: "webhook", closed_event_at_ms: 5 });
		expect([undefined, 4, 5, 6].map((at) => mayOpen(closed, at))).toEqual([false, false, false, true]);
		expect(mayOpen({ ...closed, closed_as: "time" }, undefined)).toBe(true);
		expect(mayOpen({ ...closed, state: "reopened" }, 4)).toBe(true);
		expect(mayOpen(undefined, undefined)).toBe(true);
	});
});

describe("a payload", () => {
	const github = (action: string, fields: Record<string, unknown> = {}) => ({
		action,
		number: 128,
		repository: { id: 456, full_name: "Acme/Shop" },
		pull_request: { updated_at: "2026-11-21T08:00:09Z", closed_at: "2026-11-21T08:00:00Z", ...fields },
	});
	const at = (text: string) => Date.parse(text);

	test("of GitHub has the time at which the pull request was closed, whatever changed later", () => {
		const named = { repository: "acme/shop", repositoryId: "456", number: 128 };
		expect(githubEvent("pull_request", github("closed"))).toEqual({
			action: "closed",
			atMs: at("2026-11-21T08:00:00Z"),
			...named,
		});
		expect(githubEvent("pull_request", github("reopened", { closed_at: null }))).toEqual({
			action: "reopened",
			atMs: at("2026-11-21T08:00:09Z"),
			...named,
		});
	});

	test("of GitLab has times in both of its formats", () => {
		const gitlab = (action: string, updated_at: string) => ({
			object_kind: "merge_request",
			project: { id: 456, path_with_namespace: "Acme/Apps/Shop" },
			object_attributes: { iid: 128, action, updated_at },
		});
		const named = { repository: "acme/apps/shop", repositoryId: "456", number: 128 };
		for (const action of ["close", "merge"]) {
			expect(gitlabEvent(gitlab(action, "2026-11-21 08:00:00 UTC"))).toEqual({
				action: "closed",
				atMs: at("2026-11-21T08:00:00Z"),
				...named,
			});
		}
		expect(gitlabEvent(gitlab("reopen", "2026-11-21T08:00:00.000Z"))).toEqual({
			action: "reopened",
			atMs: at("2026-11-21T08:00:00Z"),
			...named,
		});
		expect(gitlabEvent(gitlab("update", "2026-11-21T08:00:00Z"))).toBeUndefined();
	});

	test("that is about something else, or has another shape, is ignored", () => {
		expect(githubEvent("push", github("closed"))).toBeUndefined();
		for (const payload of [null, [], "closed", {}, github("labeled"), { ...github("closed"), number: "128" }]) {
			expect(githubEvent("pull_request", payload)).toBeUndefined();
			expect(gitlabEvent(payload)).toBeUndefined();
		}
		expect(githubEvent("pull_request", github("closed", { closed_at: "yesterday" }))).toBeUndefined();
	});
});
