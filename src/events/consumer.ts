/**
 * The consumer of the Queue. Batches may be delivered again, so all work here is safe to repeat. A message that cannot be done keeps none
 * of the others in its batch: they are done and acknowledged without it, and it is delivered again, later each time, until the Queue
 * gives it up to the dead letters (src/events/dead-letters.ts).
 */
import { openDb } from "../db/client";
import type { Deps } from "../deps";
import { ApiError, causeText } from "../errors";
import { deniedStatement } from "./access-denied";
import { consumeDeviceEvents } from "./device-events";
import { keyUsageStatement } from "./key-usage";
import type { AccessDenied, DeviceEvent, DeviceEvents, KeyUsed, QueueMessage } from "./messages";
import { collectGarbageSoon } from "./producer";
import { consumeRolloutEvidence, isRolloutEvent } from "./rollout-evidence";
import { STEP_AT_MOST_EVERY_MS, stepRollouts } from "./rollout-steps";
import { collectGarbage } from "./sweep";
import { Overtaken } from "./turns";

/** Between two deliveries at most. With twenty of them (wrangler.toml) a message is given up after about nine hours. */
const LONGEST_DELAY_SECONDS = 60 * 60;

/** Halves of a batch that are tried to find the message that fails; an invocation may call D1 a thousand times, one try does so 30 times. */
const MOST_ATTEMPTS = 24;

interface Delivered {
	readonly body: QueueMessage;
}

/** Some of a batch could not be done; the rest was. */
export class BatchFailed extends Error {
	override readonly name = "BatchFailed";
	constructor(readonly failed: ReadonlySet<Delivered>) {
		super(`${failed.size} of the batch's messages failed`);
	}
}

/** Acknowledges what was done, and asks for the rest again. */
export async function consumeAndSettle(
	deps: Deps,
	batch: { readonly messages: readonly Pick<Message<QueueMessage>, "body" | "attempts" | "ack" | "retry">[] },
): Promise<void> {
	try {
		await consume(deps, batch);
	} catch (error) {
		if (!(error instanceof BatchFailed)) throw error;
		for (const message of batch.messages) {
			if (error.failed.has(message)) {
				message.retry({ delaySeconds: Math.min(2 ** message.attempts, LONGEST_DELAY_SECONDS) });
			} else message.ack();
		}
	}
}

/** @throws {BatchFailed} when any of the work failed: a message is acknowledged only by work that was done */
export async function consume(deps: Deps, batch: { readonly messages: readonly Delivered[] }): Promise<void> {
	const failed = new Set<Delivered>();
	const work: Readonly<Record<QueueMessage["kind"], (bodies: readonly QueueMessage[]) => Promise<unknown>>> = {
		device_events: (bodies) =>
			consumeEvents(
				deps,
				(bodies as readonly DeviceEvents[]).flatMap(({ events }) => events),
			),
		key_used: (bodies) => openDb(deps.d1, "first-primary").batch([keyUsageStatement(bodies as readonly KeyUsed[])]),
		access_denied: (bodies) =>
			openDb(deps.d1, "first-primary").batch((bodies as readonly AccessDenied[]).map(deniedStatement)),
		// However many messages ask for it, garbage is collected once a batch.
		collect_garbage: async () => {
			if (await collectGarbage(deps)) await collectGarbageSoon(deps);
		},
	};
	let attempts = MOST_ATTEMPTS;
	const byKind = Map.groupBy(batch.messages, ({ body }) => body?.kind);
	for (const [kind, messages] of byKind) {
		const run = Object.hasOwn(work, kind) ? work[kind] : unknownKind;
		const attempt = async (some: readonly Delivered[]): Promise<void> => {
			attempts -= 1;
			try {
				await run(some.map(({ body }) => body));
			} catch (error) {
				deps.log("error", "messages_failed", { kind, messages: some.length, cause: causeText(error) });
				// When the database does not answer, or another consumer is always faster, no message is to blame.
				const isTheirs = !(error instanceof ApiError || error instanceof Overtaken) && kind !== "collect_garbage";
				if (some.length === 1 || !isTheirs || attempts <= 0) {
					for (const message of some) failed.add(message);
					return;
				}
				const middle = Math.ceil(some.length / 2);
				await attempt(some.slice(0, middle));
				await attempt(some.slice(middle));
			}
		};
		await attempt(messages);
	}
	if (failed.size > 0) throw new BatchFailed(failed);
}

/** Rollouts after the devices: who was known before counts. All of it may be repeated when some of it fails. */
async function consumeEvents(deps: Deps, events: readonly DeviceEvent[]): Promise<void> {
	await consumeDeviceEvents(
		deps,
		events.filter((event) => !isRolloutEvent(event)),
	);
	const told = events.filter(isRolloutEvent);
	if (told.length === 0) return;
	await consumeRolloutEvidence(deps, told);
	try {
		await stepRollouts(deps, STEP_AT_MOST_EVERY_MS);
	} catch (error) {
		// What was told is kept, and the sweep looks at every rollout: no message has to come again because one of them, perhaps of
		// another app, could not be stepped.
		deps.log("error", "rollouts_not_stepped", { cause: causeText(error) });
	}
}

/** Of another version of this Worker, perhaps a later one that was rolled back: kept until somebody knows it. */
async function unknownKind(): Promise<never> {
	throw new Error("no such kind of message");
}
