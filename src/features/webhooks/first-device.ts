/**
 * Reports the first device that runs a bundle, once for each bundle and never with a row for each
 * device. The consumer asks D1 only about bundles that this isolate has not asked about, and once a
 * minute where no webhook wants the event. The id of the event names the bundle, so that repeated
 * messages and other isolates report it once.
 *
 * Only bundles of the last thirty days are reported, as long as events are kept, and only those
 * that are newer than some webhook that takes the event: older ones may have had devices before
 * anybody asked. Reports of devices are not verified, so a stranger can cause the event early.
 */

import { openDb } from "../../db/client";
import { DELIVERIES_KEPT_MS } from "../../db/webhook-deliveries";
import { reportFirstDevices } from "../../db/webhook-events";
import type { Deps } from "../../deps";
import { MINUTE_MS } from "../../domain/time";
import { causeText } from "../../errors";
import type { DeviceEvent } from "../../messages";
import { wakeDueWebhooks } from "../../queue/webhook-wake";

/** About 100 bytes each. */
const MOST_KNOWN = 10_000;
/** Bundles of one statement; the next batch of messages reports the others. */
const MOST_ASKED = 200;

interface Known {
	readonly bundles: Set<string>;
	/** No webhook wants the event until then. */
	idleUntilMs: number;
}

const knownBy = new WeakMap<Deps, Known>();

/** Never rejects: the messages of devices must not be retried for it. */
export async function noteFirstDevices(deps: Deps, events: readonly DeviceEvent[]): Promise<void> {
	const known = knownBy.get(deps) ?? { bundles: new Set(), idleUntilMs: 0 };
	knownBy.set(deps, known);
	const nowMs = deps.now();
	if (nowMs < known.idleUntilMs) return;
	const asked = new Map<string, { readonly app: string; readonly version: string }>();
	for (const event of events) {
		const runs = event.type === "seen" || (event.type === "count" && event.metric === "install");
		if (!runs || event.crowded === true || event.versionName === "" || event.versionName === "builtin") continue;
		const name = `${event.appId} ${event.versionName}`;
		if (known.bundles.has(name) || asked.size >= MOST_ASKED) continue;
		asked.set(name, { app: event.appId, version: event.versionName });
	}
	if (asked.size === 0) return;
	try {
		const [reported, wanted] = await openDb(deps.d1, "first-primary").batch(
			reportFirstDevices([...asked.values()], nowMs, nowMs - DELIVERIES_KEPT_MS),
		);
		if (wanted.rows[0]?.wanted !== 1) {
			known.idleUntilMs = nowMs + MINUTE_MS;
			return;
		}
		if (known.bundles.size + asked.size > MOST_KNOWN) known.bundles.clear();
		for (const name of asked.keys()) known.bundles.add(name);
		if (reported.changes > 0) await wakeDueWebhooks(deps);
	} catch (error) {
		deps.log("warn", "first_devices_not_reported", { cause: causeText(error) });
	}
}
