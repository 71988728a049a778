/**
 * Triggers that write the change feed, so that no change can be left out of it, and the rows of the
 * feed.
 *
 * A migration that creates `apps` or `organizations` again must delete all rows of `changes`, so
 * that the triggers are installed again.
 */
import type { CompiledQuery } from "kysely";
import type { Deps } from "../deps";
import { DAY_MS } from "../domain/time";
import { openDb } from "./batch";
import { endOfRevision, ITEM_TRIGGERS } from "./item-triggers";
import { plain } from "./plain";

/**
 * Age of the rows that clean-up deletes. An isolate that asks for older ones drops everything that
 * it holds.
 */
const KEPT_MS = DAY_MS;

const TOKEN = "lower(hex(randomblob(12)))";
const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
const feedRow = (id: string, publicId: string) => `INSERT INTO changes (app_id, public_app_id, token, at_ms)
		  VALUES (${id}, ${publicId}, ${TOKEN}, ${NOW});`;

export const CHANGE_TRIGGERS: Readonly<Record<string, string>> = {
	apps_change_insert: `AFTER INSERT ON apps
		BEGIN
		  UPDATE apps SET revision_token = ${TOKEN} WHERE id = NEW.id;
		  ${feedRow("NEW.id", "NEW.app_id")}
		END`,
	apps_change_update: `AFTER UPDATE OF revision, app_id, owner_org ON apps
		BEGIN
		  UPDATE apps SET revision_token = ${TOKEN} WHERE id = NEW.id;
		  ${endOfRevision}
		  ${feedRow("NEW.id", "OLD.app_id")}
		END`,
	apps_change_delete: `AFTER DELETE ON apps
		BEGIN
		  ${feedRow("OLD.id", "OLD.app_id")}
		END`,
	organizations_change_update: `AFTER UPDATE OF deleted_at_ms ON organizations
		WHEN (OLD.deleted_at_ms IS NULL) <> (NEW.deleted_at_ms IS NULL)
		BEGIN
		  INSERT INTO changes (app_id, public_app_id, token, at_ms)
		    SELECT id, app_id, ${TOKEN}, ${NOW} FROM apps WHERE owner_org = NEW.id;
		END`,
	...ITEM_TRIGGERS,
};

/** The first row of the feed, which shows that the triggers exist. */
export const FEED_ROWS: readonly string[] = [
	`UPDATE apps SET revision_token = ${TOKEN} WHERE revision_token IS NULL`,
	`INSERT INTO changes (token, at_ms) SELECT ${TOKEN}, ${NOW} WHERE NOT EXISTS (SELECT 1 FROM changes)`,
];

/**
 * Deletes old rows, but not the newest row: it shows that the triggers exist, and it names no app
 * any more. By the clock of the database, as the triggers, and from the oldest row on, so that an
 * idle run reads one row.
 */
function trimmings(): CompiledQuery[] {
	const cutoff = `${NOW} - ${KEPT_MS}`;
	return [
		plain(`INSERT INTO changes (token, at_ms) SELECT ${TOKEN}, ${NOW} FROM changes
			WHERE seq = (SELECT max(seq) FROM changes) AND app_id IS NOT NULL AND at_ms < ${cutoff}`),
		plain(`DELETE FROM changes WHERE seq < coalesce(
			(SELECT seq FROM changes WHERE at_ms >= ${cutoff} ORDER BY seq LIMIT 1), (SELECT max(seq) FROM changes))`),
	];
}

/** Rows that one clean-up looks at: more changes than in the time between two of them. */
const MOST_LOOKED_AT = 1_000;

/**
 * Recently changed app ids that no live app has; their stored snapshots must be deleted, so that no
 * device gets them.
 */
export async function deletedAppIds(deps: Pick<Deps, "d1">): Promise<string[]> {
	const [changed] = await openDb(deps.d1, "first-primary").batch([
		plain<{ public_app_id: string | null; is_live: 0 | 1 }>(
			`SELECT c.public_app_id, EXISTS (SELECT 1 FROM apps a INNER JOIN organizations o ON o.id = a.owner_org
					WHERE a.app_id = c.public_app_id AND o.deleted_at_ms IS NULL) AS is_live
				FROM changes c ORDER BY c.seq DESC LIMIT ?1`,
			MOST_LOOKED_AT,
		),
	]);
	const gone = changed.rows.filter(({ is_live }) => is_live === 0).map(({ public_app_id }) => public_app_id);
	return [...new Set(gone.filter((id) => id !== null))];
}

/** For the scheduled clean-up. */
export async function trimFeed(deps: Pick<Deps, "d1">): Promise<void> {
	await openDb(deps.d1, "first-primary").batch(trimmings());
}
