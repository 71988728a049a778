/**
 * Which events open and close a preview. Events of a pull request arrive late, twice or in another
 * order: CI runs a job again, a webhook is delivered again, a build outlasts the merge. Each event
 * has the time of the change at its provider, so the order of arrival does not count.
 */

export interface PreviewEvents {
	readonly state: "open" | "closed" | "reopened";
	readonly closed_as: "request" | "time" | "webhook" | "kept" | null;
	/** Newest event for which CI opened or renewed the preview. */
	readonly opened_event_at_ms: number | null;
	/** Newest event that reopened the pull request, from a webhook. */
	readonly reopened_event_at_ms: number | null;
	readonly closed_event_at_ms: number | null;
}

/**
 * Whether an event that closed the pull request still holds. With equal times a push precedes the
 * end, and the end precedes a reopening.
 */
export function stillCloses(events: PreviewEvents | undefined, eventAtMs: number): boolean {
	return (
		eventAtMs >= (events?.opened_event_at_ms ?? Number.NEGATIVE_INFINITY) &&
		eventAtMs > (events?.reopened_event_at_ms ?? Number.NEGATIVE_INFINITY)
	);
}

/** Whether an event that reopened the pull request still holds. */
export function stillReopens(events: PreviewEvents | undefined, eventAtMs: number): boolean {
	return eventAtMs >= (events?.closed_event_at_ms ?? Number.NEGATIVE_INFINITY);
}

/**
 * Whether CI may open the preview for this event. A preview that ended by its time, or whose pull
 * request was reopened, opens for any event; one that was closed opens only for a later event.
 */
export function mayOpen(events: PreviewEvents | undefined, eventAtMs: number | undefined): boolean {
	if (events === undefined || events.state !== "closed" || events.closed_as === "time") return true;
	return eventAtMs !== undefined && eventAtMs > (events.closed_event_at_ms ?? Number.NEGATIVE_INFINITY);
}

/** The newest of the known times. */
export function latest(...times: readonly (number | null | undefined)[]): number | null {
	const known = times.filter((time) => typeof time === "number");
	return known.length === 0 ? null : Math.max(...known);
}
