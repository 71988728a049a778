/**
 * The consumer of the Queue. Batches may be delivered again, so all work here is safe to repeat; a batch that fails is retried by the
 * Queue and, in the end, done by the scheduled sweep.
 */
import type { Deps } from "../deps";
import type { QueueMessage } from "./messages";
import { collectGarbageSoon } from "./producer";
import { collectGarbage } from "./sweep";

export async function consume(deps: Deps, batch: Pick<MessageBatch<QueueMessage>, "messages">): Promise<void> {
	// However many messages ask for it, garbage is collected once a batch.
	if (!batch.messages.some((message) => message.body.kind === "collect_garbage")) return;
	if (await collectGarbage(deps)) await collectGarbageSoon(deps);
}
