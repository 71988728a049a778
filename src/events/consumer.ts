/**
 * The consumer of the Queue. Batches may be delivered again, so all work here is safe to repeat; a batch that fails is retried by the
 * Queue and, in the end, done by the scheduled sweep.
 */
import { openDb } from "../db/client";
import type { Deps } from "../deps";
import { keyUsageStatement } from "./key-usage";
import type { QueueMessage } from "./messages";
import { collectGarbageSoon } from "./producer";
import { collectGarbage } from "./sweep";

export async function consume(deps: Deps, batch: Pick<MessageBatch<QueueMessage>, "messages">): Promise<void> {
	const messages = batch.messages.map((message) => message.body);
	const uses = messages.filter((message) => message.kind === "key_used");
	if (uses.length > 0) await openDb(deps.d1, "first-primary").batch([keyUsageStatement(uses)]);
	// However many messages ask for it, garbage is collected once a batch.
	if (!messages.some((message) => message.kind === "collect_garbage")) return;
	if (await collectGarbage(deps)) await collectGarbageSoon(deps);
}
