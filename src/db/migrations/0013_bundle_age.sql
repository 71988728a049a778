-- The sweep asks every fifteen minutes which bundles are older than their app keeps them; it must not read all the others for that.
CREATE INDEX bundles_by_age ON bundles (app_id, created_at_ms) WHERE deleted_at_ms IS NULL;
