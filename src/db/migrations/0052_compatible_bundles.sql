-- A channel may refuse bundles whose native packages its live bundle does not have.
ALTER TABLE channels ADD COLUMN require_compatible_bundle INTEGER NOT NULL DEFAULT 0 CHECK (require_compatible_bundle IN (0, 1));
-- For the channels on which a bundle was live.
CREATE INDEX channel_history_by_version ON channel_history (app_id, version_name, at_ms);
