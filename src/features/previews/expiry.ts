/**
 * Closes previews whose time is over. An upload at the same time renews the preview, and then it
 * stays.
 */
import type { AppId } from "../../authz/decide";
import { systemActor } from "../../db/audit/entries";
import { guard, openDb } from "../../db/client";
import { expiredPreviews, previewChanged, previewIsExpired } from "../../db/previews";
import type { Deps } from "../../deps";
import { causeText } from "../../errors";
import { collectGarbageSoon } from "../../queue/garbage";
import { closeStatements } from "./closing";

/** Per run of the clean-up; the next run continues. */
const MOST_PREVIEWS = 50;

/** @throws {Error} when one could not be closed; the others were */
export async function closeExpiredPreviews(deps: Deps): Promise<void> {
	const actor = systemActor(deps.newId());
	const nowMs = deps.now();
	const db = openDb(deps.d1, "first-primary");
	const [{ rows }] = await db.batch([expiredPreviews(nowMs, MOST_PREVIEWS)]);
	let failure: unknown;
	for (const preview of rows) {
		try {
			await db.batch([
				guard(previewIsExpired(preview.app_id as AppId, preview.id, nowMs), previewChanged),
				...closeStatements(preview, { actor, nowMs, closedAs: "time", eventAtMs: null }),
			]);
		} catch (error) {
			deps.log("error", "preview_not_closed", { preview: preview.id, cause: causeText(error) });
			failure = error;
		}
	}
	if (rows.length > 0) await collectGarbageSoon(deps);
	if (failure !== undefined) throw failure;
}
