-- The purge of an app deletes its webhooks.
CREATE INDEX webhooks_by_app ON webhooks (app_id) WHERE app_id IS NOT NULL;
