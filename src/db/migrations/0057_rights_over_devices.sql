-- When a preview channel stopped serving devices by its name, because more than 20 sent it.
ALTER TABLE channels ADD COLUMN named_by_fleet_at_ms INTEGER;
CREATE INDEX channels_of_previews ON channels (id) WHERE is_preview = 1;

-- The key of the CI job that began an upload: its links end with the job's key. The Worker before writes none, and then they end with the
-- publisher's rights.
ALTER TABLE uploads ADD COLUMN created_by_job TEXT;
