/**
 * Triggers that keep what quotas count in the rows of apps and organizations: stored bytes, bundles, channels and previews. A check of a
 * quota reads one row, however much there is. Previews that were closed before they were opened do not count. Their texts follow the names (triggers.ts).
 */

/** The organization that a deleted app can be restored to; its bytes count there as well. */
const restoredTo = (app: string) => `(SELECT org_id FROM deleted_apps WHERE app_id = ${app})`;

export const COUNT_TRIGGERS: Readonly<Record<string, string>> = {
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
	bundles_count_insert: `AFTER INSERT ON bundles
		WHEN NEW.deleted_at_ms IS NULL
		BEGIN
		  UPDATE apps SET bundle_count = bundle_count + 1 WHERE id = NEW.app_id;
		END`,
	bundles_count_update: `AFTER UPDATE OF deleted_at_ms ON bundles
		WHEN (NEW.deleted_at_ms IS NULL) <> (OLD.deleted_at_ms IS NULL)
		BEGIN
		  UPDATE apps SET bundle_count = bundle_count + iif(NEW.deleted_at_ms IS NULL, 1, -1) WHERE id = NEW.app_id;
		END`,
	bundles_count_delete: `AFTER DELETE ON bundles
		WHEN OLD.deleted_at_ms IS NULL
		BEGIN
		  UPDATE apps SET bundle_count = bundle_count - 1 WHERE id = OLD.app_id;
		END`,
	channels_count_insert: `AFTER INSERT ON channels
		BEGIN
		  UPDATE apps SET channel_count = channel_count + 1 WHERE id = NEW.app_id;
		END`,
	channels_count_delete: `AFTER DELETE ON channels
		BEGIN
		  UPDATE apps SET channel_count = channel_count - 1 WHERE id = OLD.app_id;
		END`,
	previews_count_insert: `AFTER INSERT ON previews
		WHEN NEW.opened_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET preview_count = preview_count + 1 WHERE id = NEW.app_id;
		END`,
	previews_count_opening: `AFTER UPDATE OF opened_at_ms ON previews
		WHEN OLD.opened_at_ms IS NULL AND NEW.opened_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET preview_count = preview_count + 1 WHERE id = NEW.app_id;
		END`,
	previews_count_delete: `AFTER DELETE ON previews
		WHEN OLD.opened_at_ms IS NOT NULL
		BEGIN
		  UPDATE apps SET preview_count = preview_count - 1 WHERE id = OLD.app_id;
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
	apps_storage_insert: `AFTER INSERT ON apps
		WHEN NEW.storage_bytes > 0
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes + NEW.storage_bytes WHERE id = NEW.owner_org;
		END`,
	apps_storage_update: `AFTER UPDATE OF storage_bytes ON apps
		WHEN NEW.storage_bytes <> OLD.storage_bytes
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes + NEW.storage_bytes - OLD.storage_bytes
		  WHERE id IN (NEW.owner_org, ${restoredTo("NEW.id")});
		END`,
	apps_storage_move: `AFTER UPDATE OF owner_org ON apps
		WHEN NEW.owner_org <> OLD.owner_org
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes - OLD.storage_bytes WHERE id = OLD.owner_org;
		  UPDATE organizations SET storage_bytes = storage_bytes + OLD.storage_bytes WHERE id = NEW.owner_org;
		  UPDATE uploads SET owner_org = NEW.owner_org WHERE app_id = NEW.id AND completed_at_ms IS NULL;
		END`,
	apps_storage_delete: `BEFORE DELETE ON apps
		WHEN OLD.storage_bytes > 0
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes - OLD.storage_bytes
		  WHERE id IN (OLD.owner_org, ${restoredTo("OLD.id")});
		END`,
	deleted_apps_storage_insert: `AFTER INSERT ON deleted_apps
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes + (SELECT storage_bytes FROM apps WHERE id = NEW.app_id)
		  WHERE id = NEW.org_id;
		END`,
	deleted_apps_storage_delete: `AFTER DELETE ON deleted_apps
		WHEN EXISTS (SELECT 1 FROM apps WHERE id = OLD.app_id)
		BEGIN
		  UPDATE organizations SET storage_bytes = storage_bytes - (SELECT storage_bytes FROM apps WHERE id = OLD.app_id)
		  WHERE id = OLD.org_id;
		END`,
};

/** Counts from scratch, apps first. */
export const RECOUNTS = [
	`UPDATE apps SET storage_bytes =
		(SELECT coalesce(sum(size_bytes), 0) FROM bundles
			WHERE bundles.app_id = apps.id AND storage_provider = 'r2' AND (status = 'pending' OR object_key IS NOT NULL))
		+ (SELECT coalesce(sum(size_bytes), 0) FROM delta_objects WHERE delta_objects.app_id = apps.id)
		+ (SELECT coalesce(sum(reserved_bytes), 0) FROM uploads WHERE uploads.app_id = apps.id AND completed_at_ms IS NULL),
		bundle_count = (SELECT count(*) FROM bundles WHERE bundles.app_id = apps.id AND deleted_at_ms IS NULL),
		channel_count = (SELECT count(*) FROM channels WHERE channels.app_id = apps.id),
		preview_count = (SELECT count(*) FROM previews WHERE previews.app_id = apps.id AND opened_at_ms IS NOT NULL)`,
	`UPDATE organizations SET storage_bytes =
		(SELECT coalesce(sum(storage_bytes), 0) FROM apps WHERE apps.owner_org = organizations.id)
		+ (SELECT coalesce(sum(apps.storage_bytes), 0) FROM deleted_apps
			INNER JOIN apps ON apps.id = deleted_apps.app_id WHERE deleted_apps.org_id = organizations.id)`,
];
