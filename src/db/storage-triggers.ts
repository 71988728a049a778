/**
 * Triggers that keep the stored bytes of each app in its row, so that the storage quota reads one row for each app. Their texts follow the names
 * (triggers.ts).
 */

export const STORAGE_TRIGGERS: Readonly<Record<string, string>> = {
	bundles_storage_insert: `AFTER INSERT ON bundles
		WHEN NEW.storage_provider = 'r2' AND (NEW.status = 'pending' OR NEW.object_key IS NOT NULL) AND NEW.size_bytes > 0
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes + NEW.size_bytes WHERE id = NEW.app_id;
		END`,
	bundles_storage_update: `AFTER UPDATE OF size_bytes, status, object_key ON bundles
		WHEN NEW.storage_provider = 'r2'
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes
		    + iif(NEW.status = 'pending' OR NEW.object_key IS NOT NULL, coalesce(NEW.size_bytes, 0), 0)
		    - iif(OLD.status = 'pending' OR OLD.object_key IS NOT NULL, coalesce(OLD.size_bytes, 0), 0)
		  WHERE id = NEW.app_id;
		END`,
	bundles_storage_delete: `AFTER DELETE ON bundles
		WHEN OLD.storage_provider = 'r2' AND (OLD.status = 'pending' OR OLD.object_key IS NOT NULL) AND OLD.size_bytes > 0
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes - OLD.size_bytes WHERE id = OLD.app_id;
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
		  UPDATE apps SET storage_bytes = storage_bytes + NEW.reserved_bytes WHERE id = NEW.app_id;
		END`,
	uploads_storage_complete: `AFTER UPDATE OF completed_at_ms ON uploads
		WHEN OLD.reserved_bytes > 0 AND OLD.completed_at_ms IS NULL AND NEW.completed_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes - OLD.reserved_bytes WHERE id = OLD.app_id;
		END`,
	uploads_storage_delete: `AFTER DELETE ON uploads
		WHEN OLD.reserved_bytes > 0 AND OLD.completed_at_ms IS NULL
		BEGIN
		  UPDATE apps SET storage_bytes = storage_bytes - OLD.reserved_bytes WHERE id = OLD.app_id;
		END`,
};

/** Counts the bytes from scratch. */
export const RECOUNT_STORAGE = `UPDATE apps SET storage_bytes =
	(SELECT coalesce(sum(size_bytes), 0) FROM bundles
		WHERE bundles.app_id = apps.id AND storage_provider = 'r2' AND (status = 'pending' OR object_key IS NOT NULL))
	+ (SELECT coalesce(sum(size_bytes), 0) FROM delta_objects WHERE delta_objects.app_id = apps.id)
	+ (SELECT coalesce(sum(reserved_bytes), 0) FROM uploads WHERE uploads.app_id = apps.id AND completed_at_ms IS NULL)`;
