/**
 * Triggers that keep what quotas count in the rows of apps and organizations, so that a quota reads
 * one row, and that mark bindings of keys of other organizations. Their texts follow the names
 * (triggers.ts).
 */

const STORED = (row: "NEW" | "OLD") =>
	`iif(${row}.storage_provider = 'r2' AND (${row}.status = 'pending' OR ${row}.object_key IS NOT NULL), coalesce(${row}.size_bytes, 0), 0)`;
const PENDING = (row: "NEW" | "OLD") =>
	`iif(${row}.storage_provider = 'r2' AND ${row}.status = 'pending', coalesce(${row}.size_bytes, 0), 0)`;

export const USAGE_TRIGGERS: Readonly<Record<string, string>> = {
	bundles_usage_insert: `AFTER INSERT ON bundles
		BEGIN
		  UPDATE apps SET bundle_count = bundle_count + (NEW.deleted_at_ms IS NULL), storage_bytes = storage_bytes + ${STORED("NEW")},
		    pending_bytes = pending_bytes + ${PENDING("NEW")}
		  WHERE id = NEW.app_id;
		END`,
	bundles_usage_update: `AFTER UPDATE OF size_bytes, status, object_key, deleted_at_ms ON bundles
		WHEN ${STORED("NEW")} <> ${STORED("OLD")} OR ${PENDING("NEW")} <> ${PENDING("OLD")} OR (NEW.deleted_at_ms IS NULL) <> (OLD.deleted_at_ms IS NULL)
		BEGIN
		  UPDATE apps SET bundle_count = bundle_count + (NEW.deleted_at_ms IS NULL) - (OLD.deleted_at_ms IS NULL),
		    storage_bytes = storage_bytes + ${STORED("NEW")} - ${STORED("OLD")},
		    pending_bytes = pending_bytes + ${PENDING("NEW")} - ${PENDING("OLD")}
		  WHERE id = NEW.app_id;
		END`,
	bundles_usage_delete: `AFTER DELETE ON bundles
		WHEN ${STORED("OLD")} <> 0 OR OLD.deleted_at_ms IS NULL
		BEGIN
		  UPDATE apps SET bundle_count = bundle_count - (OLD.deleted_at_ms IS NULL), storage_bytes = storage_bytes - ${STORED("OLD")},
		    pending_bytes = pending_bytes - ${PENDING("OLD")}
		  WHERE id = OLD.app_id;
		END`,
	channels_usage_insert: `AFTER INSERT ON channels
		BEGIN
		  UPDATE apps SET channel_count = channel_count + 1 WHERE id = NEW.app_id;
		END`,
	channels_usage_delete: `AFTER DELETE ON channels
		BEGIN
		  UPDATE apps SET channel_count = channel_count - 1 WHERE id = OLD.app_id;
		END`,
	// Previews that were closed before they were opened do not count.
	previews_usage_insert: `AFTER INSERT ON previews
		WHEN NEW.opened_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET preview_count = preview_count + 1 WHERE id = NEW.app_id;
		END`,
	previews_usage_opening: `AFTER UPDATE OF opened_at_ms ON previews
		WHEN OLD.opened_at_ms IS NULL AND NEW.opened_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET preview_count = preview_count + 1 WHERE id = NEW.app_id;
		END`,
	previews_usage_delete: `AFTER DELETE ON previews
		WHEN OLD.opened_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET preview_count = preview_count - 1 WHERE id = OLD.app_id;
		END`,
	apps_usage_insert: `AFTER INSERT ON apps
		BEGIN
		  UPDATE organizations SET app_count = app_count + 1, storage_bytes = storage_bytes + NEW.storage_bytes WHERE id = NEW.owner_org;
		END`,
	apps_usage_move: `AFTER UPDATE OF owner_org ON apps
		WHEN NEW.owner_org <> OLD.owner_org
		BEGIN
		  UPDATE organizations SET app_count = app_count - 1, storage_bytes = storage_bytes - OLD.storage_bytes WHERE id = OLD.owner_org;
		  UPDATE organizations SET app_count = app_count + 1, storage_bytes = storage_bytes + NEW.storage_bytes WHERE id = NEW.owner_org;
		END`,
	apps_usage_update: `AFTER UPDATE OF storage_bytes ON apps
		WHEN NEW.owner_org = OLD.owner_org AND NEW.storage_bytes <> OLD.storage_bytes
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes + NEW.storage_bytes - OLD.storage_bytes WHERE id = NEW.owner_org;
		END`,
	apps_usage_delete: `AFTER DELETE ON apps
		BEGIN
		  UPDATE organizations SET app_count = app_count - 1, storage_bytes = storage_bytes - OLD.storage_bytes WHERE id = OLD.owner_org;
		END`,
	role_bindings_foreign: `AFTER INSERT ON role_bindings
		WHEN NEW.org_id <> (SELECT org_id FROM api_keys WHERE id = NEW.api_key_id)
		BEGIN
		  UPDATE role_bindings SET is_foreign = 1 WHERE id = NEW.id;
		END`,
	api_keys_usage_insert: `AFTER INSERT ON api_keys
		BEGIN
		  UPDATE organizations SET api_key_count = api_key_count + 1 WHERE id = NEW.org_id;
		END`,
	api_keys_usage_delete: `AFTER DELETE ON api_keys
		BEGIN
		  UPDATE organizations SET api_key_count = api_key_count - 1 WHERE id = OLD.org_id;
		END`,
	delta_objects_storage_insert: `AFTER INSERT ON delta_objects
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes + NEW.size_bytes WHERE id = NEW.app_id;
		END`,
	delta_objects_storage_delete: `AFTER DELETE ON delta_objects
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes - OLD.size_bytes WHERE id = OLD.app_id;
		END`,
	uploads_storage_insert: `AFTER INSERT ON uploads
		WHEN NEW.reserved_bytes > 0 AND NEW.completed_at_ms IS NULL
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes + NEW.reserved_bytes, pending_bytes = pending_bytes + NEW.reserved_bytes WHERE id = NEW.app_id;
		END`,
	uploads_storage_complete: `AFTER UPDATE OF completed_at_ms ON uploads
		WHEN OLD.reserved_bytes > 0 AND OLD.completed_at_ms IS NULL AND NEW.completed_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes - OLD.reserved_bytes, pending_bytes = pending_bytes - OLD.reserved_bytes WHERE id = OLD.app_id;
		END`,
	uploads_storage_delete: `AFTER DELETE ON uploads
		WHEN OLD.reserved_bytes > 0 AND OLD.completed_at_ms IS NULL
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes - OLD.reserved_bytes, pending_bytes = pending_bytes - OLD.reserved_bytes WHERE id = OLD.app_id;
		END`,
};

/** Counts everything from scratch, apps before the organizations that have them. */
export const RECOUNT_USAGE = [
	`UPDATE apps SET storage_bytes =
	(SELECT coalesce(sum(size_bytes), 0) FROM bundles
		WHERE bundles.app_id = apps.id AND storage_provider = 'r2' AND (status = 'pending' OR object_key IS NOT NULL))
	+ (SELECT coalesce(sum(size_bytes), 0) FROM delta_objects WHERE delta_objects.app_id = apps.id)
	+ (SELECT coalesce(sum(reserved_bytes), 0) FROM uploads WHERE uploads.app_id = apps.id AND completed_at_ms IS NULL),
	pending_bytes = (SELECT coalesce(sum(size_bytes), 0) FROM bundles
		WHERE bundles.app_id = apps.id AND storage_provider = 'r2' AND status = 'pending')
	+ (SELECT coalesce(sum(reserved_bytes), 0) FROM uploads WHERE uploads.app_id = apps.id AND completed_at_ms IS NULL),
	channel_count = (SELECT count(*) FROM channels WHERE channels.app_id = apps.id),
	bundle_count = (SELECT count(*) FROM bundles WHERE bundles.app_id = apps.id AND bundles.deleted_at_ms IS NULL),
	preview_count = (SELECT count(*) FROM previews WHERE previews.app_id = apps.id AND opened_at_ms IS NOT NULL)`,
	`UPDATE organizations SET app_count = (SELECT count(*) FROM apps WHERE owner_org = organizations.id),
	storage_bytes = (SELECT coalesce(sum(apps.storage_bytes), 0) FROM apps WHERE owner_org = organizations.id),
	api_key_count = (SELECT count(*) FROM api_keys WHERE org_id = organizations.id)`,
	`UPDATE role_bindings SET is_foreign = 1
	WHERE is_foreign = 0 AND org_id <> (SELECT org_id FROM api_keys WHERE id = role_bindings.api_key_id)`,
];
