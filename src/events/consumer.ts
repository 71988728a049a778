/**
 * The consumer of the Queue. Batches may be delivered again, so all work here is safe to repeat; a batch of whose work anything failed
 * is retried by the Queue and, in the end, done by the scheduled sweep or the next use of the key.
 */
import { openDb } from "../db/client";
import type { Deps } from "../deps";
import { consumeDeviceEvents } from "./device-events";
import { keyUsageStatement } from "./key-usage";
import type { QueueMessage } from "./messages";
import { collectGarbageSoon } from "./producer";
import { runSteps } from "./steps";
import { collectGarbage } from "./sweep";

/** @throws {Error} when any of the work failed: a message is acknowledged only by work that was done */
export async function consume(deps: Deps, batch: Pick<MessageBatch<QueueMessage>, "messages">): Promise<void> {
	const messages = batch.messages.map((message) => message.body);
	await runSteps(deps, "queue batch", {
		"device events": async () => {
			const events = messages.flatMap((message) => (message.kind === "device_events" ? message.events : []));
			if (events.length > 0) await consumeDeviceEvents(deps, events);
		},
		"key usage": async () => {
			const uses = messages.filter((message) => message.kind === "key_used");
			if (uses.length > 0) await openDb(deps.d1, "first-primary").batch([keyUsageStatement(uses)]);
		},
		garbage: async () => {
			// However many messages ask for it, garbage is collected once a batch.
			if (!messages.some((message) => message.kind === "collect_garbage")) return;
			if (await collectGarbage(deps)) await collectGarbageSoon(deps);
		},
	});
}
