/**
 * Messages of the events queue that have not been consumed, as the platform counts them. A local
 * runtime may count nothing, so readers must go on without it.
 */
import type { Deps } from "../deps";
import { causeText } from "../errors";

export interface Backlog {
	readonly messages: number;
	/** Null: none waits. */
	readonly oldestAtMs: number | null;
}

/** @returns null where the runtime does not report it */
export async function readBacklog({ events, log }: Pick<Deps, "events" | "log">): Promise<Backlog | null> {
	try {
		const metrics = await events.metrics?.();
		if (metrics === undefined) return null;
		const { backlogCount, oldestMessageTimestamp } = metrics;
		const oldestAtMs = backlogCount === 0 ? undefined : oldestMessageTimestamp?.getTime();
		return { messages: backlogCount, oldestAtMs: oldestAtMs ?? null };
	} catch (error) {
		log("warn", "backlog_not_read", { cause: causeText(error) });
		return null;
	}
}
