/**
 * Wakes the consumer of due deliveries: one message for each webhook, so that a slow receiver
 * delays no other. A lost message loses no delivery, because clean-up wakes every webhook with due
 * deliveries again.
 */
import { type Database, openDb, type Statement } from "../db/client";
import { dueWebhooks, newlyDueWebhooks } from "../db/webhook-deliveries";
import type { Deps } from "../deps";
import { causeText } from "../errors";

/** Webhooks that one write or one run of clean-up wakes; the next one continues. */
const MOST_WOKEN = 100;

type Waking = Pick<Deps, "webhooks" | "log">;

/** Never rejects. */
export async function wakeWebhooks(deps: Waking, webhookIds: readonly string[], delaySeconds?: number): Promise<void> {
	try {
		for (const webhookId of webhookIds) {
			const message = { kind: "webhook_due", webhookId } as const;
			await deps.webhooks.send(message, delaySeconds === undefined ? {} : { delaySeconds });
		}
	} catch (error) {
		deps.log("warn", "queue_send_failed", { kind: "webhook_due", cause: causeText(error) });
	}
}

/** For clean-up, and for consumers after a write that is audited. */
export async function wakeDueWebhooks(deps: Waking & Pick<Deps, "d1" | "now">): Promise<void> {
	const [due] = await openDb(deps.d1, "first-primary").batch([dueWebhooks(deps.now(), MOST_WOKEN)]);
	await wakeWebhooks(
		deps,
		due.rows.map(({ webhook_id }) => webhook_id),
	);
}

const isAudited = ({ sql }: Statement) => /^\s*insert into "?audit_log/i.test(sql);

/**
 * The database of a handler: a batch with an audit entry also asks which webhooks it made due, in
 * the same round trip, and wakes them after the answer. Other batches are unchanged.
 */
export function wakingWrites(
	db: Database,
	deps: Waking,
	nowMs: number,
	waitUntil: (work: Promise<unknown>) => void,
): Database {
	const batch: Database["batch"] = async (statements, guards) => {
		if (!statements.some(isAudited)) return db.batch(statements, guards);
		const results = await db.batch([...statements, newlyDueWebhooks(nowMs, MOST_WOKEN)], guards);
		const due = results.pop()?.rows as readonly { readonly webhook_id: string }[] | undefined;
		if (due !== undefined && due.length > 0) {
			waitUntil(
				wakeWebhooks(
					deps,
					due.map(({ webhook_id }) => webhook_id),
				),
			);
		}
		return results as never;
	};
	return Object.create(db, { batch: { value: batch } });
}
