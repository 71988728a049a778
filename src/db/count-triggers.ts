/**
 * Triggers that keep the number of each app's channels and previews in its row, so that a quota of them reads one row. Previews that were closed
 * before they were opened do not count. Their texts follow the names (triggers.ts).
 */

const counted = (column: string, row: "NEW" | "OLD", by: "+ 1" | "- 1") =>
	`BEGIN
		  UPDATE apps SET ${column} = ${column} ${by} WHERE id = ${row}.app_id;
		END`;

export const COUNT_TRIGGERS: Readonly<Record<string, string>> = {
	channels_count_insert: `AFTER INSERT ON channels
		${counted("channel_count", "NEW", "+ 1")}`,
	channels_count_delete: `AFTER DELETE ON channels
		${counted("channel_count", "OLD", "- 1")}`,
	previews_count_insert: `AFTER INSERT ON previews
		WHEN NEW.opened_at_ms IS NOT NULL
		${counted("preview_count", "NEW", "+ 1")}`,
	previews_count_opening: `AFTER UPDATE OF opened_at_ms ON previews
		WHEN OLD.opened_at_ms IS NULL AND NEW.opened_at_ms IS NOT NULL
		${counted("preview_count", "NEW", "+ 1")}`,
	previews_count_delete: `AFTER DELETE ON previews
		WHEN OLD.opened_at_ms IS NOT NULL
		${counted("preview_count", "OLD", "- 1")}`,
};

/** Counts from scratch. */
export const RECOUNT = `UPDATE apps SET
	channel_count = (SELECT count(*) FROM channels WHERE channels.app_id = apps.id),
	preview_count = (SELECT count(*) FROM previews WHERE previews.app_id = apps.id AND opened_at_ms IS NOT NULL)`;
