/**
 * The end of a local run, whose Queue is in the memory of its runtime: reports of devices are sent
 * and consumed before the runtime ends. `npm start` asks for it by a scheduled event (`DRAIN`),
 * which nobody can send from outside.
 */
import type { Deps } from "../deps";
import type { QueueMessage } from "../messages";

/** Requests under way end their work in the meantime. */
const LAST_REQUESTS_MS = 50;
const POLL_MS = 25;
/** For a database that does not answer; `npm start` waits a little longer. */
const LONGEST_MS = 5_000;

/** Counts the messages of the events queue that are sent, and those that a consumer has handled. */
export function countMessages(queue: Deps["events"]) {
	let waiting = 0;
	const events: Deps["events"] = {
		async send(message: QueueMessage, ...more: []) {
			waiting += 1;
			return queue.send(message, ...more);
		},
		metrics: async () => {
			if (queue.metrics === undefined) throw new Error("the runtime has no metrics");
			return queue.metrics();
		},
	};
	return {
		events,
		handled(messages: number): void {
			waiting -= messages;
		},
		async drain({ delay, now }: Pick<Deps, "delay" | "now">, flush: () => Promise<unknown>): Promise<void> {
			const untilMs = now() + LONGEST_MS;
			await delay(LAST_REQUESTS_MS);
			await flush();
			while (waiting > 0 && now() < untilMs) await delay(POLL_MS);
		},
	};
}
