/**
 * When a session was last seen, to five minutes: written after the answer, and only when the row is older than that, so a busy session
 * costs one write in five minutes. What could not be written is written with the next request.
 */
import type { SessionPrincipal } from "../authz/principal";
import { openDb } from "../db/client";
import { markSessionSeen } from "../db/sessions";
import type { Deps } from "../deps";
import { causeText } from "../errors";

const RESOLUTION_MS = 5 * 60 * 1000;

export function noteSessionUse(
	deps: Deps,
	session: SessionPrincipal,
	nowMs: number,
	waitUntil: (work: Promise<unknown>) => void,
): void {
	if (session.lastSeenAtMs > nowMs - RESOLUTION_MS) return;
	const written = openDb(deps.d1, "first-primary").batch([markSessionSeen(session.userId, session.sessionId, nowMs)]);
	waitUntil(written.catch((error) => deps.log("warn", "session_use_not_written", { cause: causeText(error) })));
}
