/**
 * Triggers that record which parts of an app changed with each of its revisions (`changed_items`).
 * Every row that a snapshot contains (snapshot-load.ts) must be recorded here when it is added,
 * changed or removed: a part that is left out stays old in every snapshot that is brought up to
 * date. Too many records are harmless, because the rows are read as they are then.
 */
import { CHANNEL_COLUMNS } from "./snapshot-load";

/**
 * Revisions of an app whose records are kept. A snapshot of an earlier one is replaced by reading
 * the whole app.
 */
const KEPT_REVISIONS = 100;

const record = (kind: string, item: string, appId: string, from = "") =>
	`INSERT INTO changed_items (app_id, revision, kind, item)
		    SELECT apps.id, apps.revision, '${kind}', ${item} FROM apps${from === "" ? "" : ` CROSS JOIN ${from}`}
		    WHERE apps.id = ${appId} AND ${item} IS NOT NULL ON CONFLICT DO NOTHING;`;

const trigger = (event: string, when: string, ...records: readonly string[]) =>
	`AFTER ${event}${when === "" ? "" : ` WHEN ${when}`}
		BEGIN
		  ${records.join("\n\t\t  ")}
		END`;

/** For the trigger that raises the revision: its token is known from now on, and old records go. */
export const endOfRevision = `INSERT INTO changed_items (app_id, revision, kind, item)
		    SELECT OLD.id, OLD.revision, 'token', OLD.revision_token WHERE OLD.revision_token IS NOT NULL ON CONFLICT DO NOTHING;
		  DELETE FROM changed_items WHERE app_id = NEW.id AND revision < NEW.revision - ${KEPT_REVISIONS};`;

const device = (row: "NEW" | "OLD") => record("device", `${row}.device_id`, `${row}.app_id`);
const channel = (row: "NEW" | "OLD") => record("channel", `${row}.id`, `${row}.app_id`);
const bundle = (row: "NEW" | "OLD") => record("bundle", `${row}.id`, `${row}.app_id`);
/** The channel and the bundles that name the page of the preview. */
const preview = (row: "NEW" | "OLD") => [
	record("channel", `${row}.channel_id`, `${row}.app_id`),
	record("bundle", "b.id", `${row}.app_id`, `bundles b ON b.preview_id = ${row}.id AND b.app_id = apps.id`),
];

export const ITEM_TRIGGERS: Readonly<Record<string, string>> = {
	channels_item_insert: trigger("INSERT ON channels", "", channel("NEW")),
	channels_item_update: trigger(
		`UPDATE OF ${CHANNEL_COLUMNS.filter((name) => name !== "id").join(", ")} ON channels`,
		"",
		channel("NEW"),
	),
	channels_item_delete: trigger("DELETE ON channels", "", channel("OLD")),
	// A pending bundle is in no snapshot.
	bundles_item_insert: trigger("INSERT ON bundles", "NEW.status = 'ready'", bundle("NEW")),
	bundles_item_update: trigger(
		`UPDATE OF status, checksum, sha256, object_key, external_url, session_key, key_id, min_update_version, comment, link, preview_id
			ON bundles`,
		"'ready' IN (OLD.status, NEW.status)",
		bundle("NEW"),
	),
	// The name of a row that is gone cannot be read, nor that from before.
	bundles_item_rename: trigger("UPDATE OF name ON bundles", "NEW.status = 'ready'", record("all", "''", "NEW.app_id")),
	bundles_item_delete: trigger("DELETE ON bundles", "OLD.status = 'ready'", record("all", "''", "OLD.app_id")),
	overrides_item_insert: trigger("INSERT ON device_overrides", "", device("NEW")),
	overrides_item_update: trigger("UPDATE OF channel_id, version_id ON device_overrides", "", device("NEW")),
	overrides_item_delete: trigger("DELETE ON device_overrides", "", device("OLD")),
	zip_only_item_insert: trigger("INSERT ON zip_only_devices", "", device("NEW")),
	zip_only_item_update: trigger("UPDATE OF version_id, ended_at_ms ON zip_only_devices", "", device("NEW")),
	zip_only_item_delete: trigger("DELETE ON zip_only_devices", "", device("OLD")),
	previews_item_insert: trigger("INSERT ON previews", "NEW.state = 'open'", ...preview("NEW")),
	previews_item_update: trigger(
		"UPDATE OF state, page_id, channel_id ON previews",
		"'open' IN (OLD.state, NEW.state)",
		record("channel", "OLD.channel_id", "OLD.app_id"),
		...preview("NEW"),
	),
	previews_item_delete: trigger("DELETE ON previews", "OLD.state = 'open'", ...preview("OLD")),
};
