/**
 * The consumer of the Queue. Batches may be delivered again, so all work is idempotent. A message
 * that fails does not stop the others in its batch: they are acknowledged, and it is retried with
 * growing delays until it becomes a dead letter (src/queue/dead-letters.ts).
 */
import { openDb } from "./db/client";
import { Conflict } from "./db/optimistic";
import { openTelemetry } from "./db/telemetry-reads";
import type { Deps } from "./deps";
import { ApiError, causeText } from "./errors";
import { recordSamples } from "./features/rollouts/samples";
import { STEP_AT_MOST_EVERY_MS, stepRollouts } from "./features/rollouts/steps";
import { type AssignedEvents, assignEvents, readKnownSince, storeAppsAndVersions } from "./features/statistics/assign";
import { consumeDeviceEvents } from "./features/statistics/device-events";
import { noteDownloads } from "./features/statistics/failures";
import { noteFirstDevices } from "./features/webhooks/first-device";
import { keyUsageStatement } from "./http/pipeline/last-used";
import type { AccessDenied, DeviceEvent, DeviceEvents, KeyUsed, QueueMessage } from "./messages";
import { deniedStatement } from "./queue/access-denied";
import { collectGarbage, collectGarbageSoon } from "./queue/garbage";
import { publishChanged } from "./snapshots/publish";

/**
 * Longest retry delay. With twenty retries (wrangler.toml) a message becomes a dead letter after
 * about ten hours.
 */
const LONGEST_DELAY_SECONDS = 60 * 60;

/**
 * Attempts at halves of a batch to isolate the failing message; an attempt calls D1 up to 30 times,
 * and an invocation may do so 1,000 times.
 */
const MOST_ATTEMPTS = 24;

interface Delivered {
	readonly body: QueueMessage;
}

/** Some messages of a batch failed; the others were processed. */
export class BatchFailed extends Error {
	override readonly name = "BatchFailed";
	constructor(readonly failed: ReadonlySet<Delivered>) {
		super(`${failed.size} of the batch's messages failed`);
	}
}

/** Acknowledges processed messages and retries failed ones. */
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

/** @throws {BatchFailed} when messages failed; only processed ones may be acknowledged */
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
		// Once per batch, whatever the number of messages.
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
				// When D1 does not answer, or another consumer always wins, the messages are not the cause.
				const isTheirs = !(error instanceof ApiError || error instanceof Conflict) && kind !== "collect_garbage";
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

/** All of it is idempotent. A database that fails does not stop the events of the others. */
async function consumeEvents(deps: Deps, events: readonly DeviceEvent[]): Promise<void> {
	// An event of another version must fail and be repeated, not be dropped as too old.
	if (!events.every(({ atMs }) => Number.isSafeInteger(atMs))) throw new Error("an event has no time");
	const groups = await assignEvents(deps, events);
	const results = await Promise.allSettled(groups.map((group) => consumeGroup(deps, group)));
	for (const result of results) if (result.status === "rejected") throw result.reason;
	if (results.some((result) => result.status === "fulfilled" && result.value)) await publish(deps);
	await noteFirstDevices(deps, events);
	const reported = groups.flatMap(({ rolloutEvents }) => rolloutEvents);
	if (reported.length === 0) return;
	const oldestAtMs = reported.reduce((oldest, { atMs }) => Math.min(oldest, atMs), Number.POSITIVE_INFINITY);
	try {
		await stepRollouts(deps, STEP_AT_MOST_EVERY_MS, oldestAtMs);
		await publish(deps);
	} catch (error) {
		// The reports are stored, and clean-up steps every rollout: one rollout that fails, perhaps of
		// another app, must not retry the messages.
		deps.log("error", "rollouts_not_stepped", { cause: causeText(error) });
	}
}

/**
 * Never rejects, because the reports are stored, and other isolates load from D1 what is not
 * published.
 */
async function publish(deps: Deps): Promise<void> {
	await publishChanged(deps, 1).catch((error: unknown) =>
		deps.log("warn", "snapshot_not_stored", { cause: causeText(error) }),
	);
}

/**
 * Device rows first, because a rollout counts devices that were known before.
 * @returns whether devices may be offered something else now
 */
async function consumeGroup(deps: Deps, assigned: AssignedEvents): Promise<boolean> {
	const { binding, reports, rolloutEvents } = assigned;
	await storeAppsAndVersions(deps, assigned);
	const news = await consumeDeviceEvents(deps, openTelemetry(deps, binding), reports);
	await noteDownloads(deps, news);
	if (rolloutEvents.length > 0) await recordSamples(deps, rolloutEvents, await readKnownSince(deps, assigned));
	return news.length > 0;
}

/**
 * A kind of another version of this Worker, perhaps a later one that was rolled back: retried until
 * a version knows it.
 */
async function unknownKind(): Promise<never> {
	throw new Error("unknown kind of message");
}
