/**
 * The statements of an isolate that follows changes: the rows of the change feed, and whether one
 * app is live. They are constant text (`plain`), because checks of devices run them. Triggers write
 * the rows (change-triggers.ts); src/snapshots/ decides what is fresh.
 */
import type { CompiledQuery } from "kysely";
import type { AppId } from "../authz/decide";
import { plain } from "./plain";

/** Rows of one answer. If there are more, the next question follows immediately. */
export const PAGE_ROWS = 500;

export interface ChangeRow {
	readonly seq: number;
	readonly token: string;
	readonly app_id: string | null;
	readonly public_app_id: string | null;
	readonly current_public_id: string | null;
	readonly revision_token: string | null;
	readonly is_live: 0 | 1 | null;
}

/** The rows from the position on, or the newest one if the position is beyond it. */
export function changesFrom(seq: number, rows = PAGE_ROWS): CompiledQuery<ChangeRow> {
	return plain<ChangeRow>(
		`SELECT c.seq, c.token, c.app_id, c.public_app_id, a.app_id AS current_public_id, a.revision_token,
			o.deleted_at_ms IS NULL AS is_live
		FROM changes c LEFT JOIN apps a ON a.id = c.app_id LEFT JOIN organizations o ON o.id = a.owner_org
		WHERE c.seq >= min(?1, (SELECT max(seq) FROM changes)) ORDER BY c.seq LIMIT ?2`,
		seq,
		rows,
	);
}

/** One row if the app exists and its organization is not deleted. */
export function liveAppWithId(appId: AppId): CompiledQuery<{ live: number }> {
	return plain(
		`SELECT 1 AS live FROM apps INNER JOIN organizations ON organizations.id = apps.owner_org
			WHERE apps.id = ?1 AND organizations.deleted_at_ms IS NULL`,
		appId,
	);
}

export function publicIdOf(appId: AppId): CompiledQuery<{ readonly app_id: string }> {
	return plain("SELECT app_id FROM apps WHERE id = ?1", appId);
}

/** Rows of the feed that `changedLately` looks at. */
const MOST_LOOKED_AT = 500;

/**
 * Live apps that changed in the last minutes by the clock of the database, the newest change first,
 * with their tokens.
 */
export function changedLately(
	minutes: number,
	limit: number,
): CompiledQuery<{ readonly app_id: string; readonly token: string }> {
	return plain(
		`SELECT a.app_id, a.revision_token AS token FROM changes c INNER JOIN apps a ON a.id = c.app_id
			INNER JOIN organizations o ON o.id = a.owner_org
			WHERE c.seq > (SELECT max(seq) FROM changes) - ?1 AND c.at_ms > (unixepoch() - ?2 * 60) * 1000
				AND o.deleted_at_ms IS NULL
			GROUP BY a.id ORDER BY max(c.seq) DESC LIMIT ?3`,
		MOST_LOOKED_AT,
		minutes,
		limit,
	);
}
