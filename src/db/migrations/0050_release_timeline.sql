-- The release timeline of an app: the CI job of an entry, and the history of all channels in order of time.
ALTER TABLE channel_history ADD COLUMN ci TEXT;
DROP INDEX channel_history_by_app;
CREATE INDEX channel_history_by_time ON channel_history (app_id, at_ms);
