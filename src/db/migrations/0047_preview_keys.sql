-- The pull request of a CI job, decided when its key is exchanged. Keys from before live some minutes: those of jobs without a pull request
-- are limited to none until they end.
ALTER TABLE ci_keys ADD COLUMN is_limited INTEGER NOT NULL DEFAULT 1 CHECK (is_limited IN (0, 1));
ALTER TABLE ci_keys ADD COLUMN repository TEXT;
ALTER TABLE ci_keys ADD COLUMN number INTEGER;
-- The id of a repository is proven by a job's token. The id that a request names is not.
ALTER TABLE previews ADD COLUMN repository_id_proven INTEGER NOT NULL DEFAULT 0 CHECK (repository_id_proven IN (0, 1));
-- Pull requests that were closed before their preview was opened: only the newest ones of each caller are kept.
CREATE INDEX previews_never_opened ON previews (app_id, created_by, updated_at_ms) WHERE opened_at_ms IS NULL;
-- Bundles that callers limited to their own work uploaded.
ALTER TABLE bundles ADD COLUMN by_preview_key INTEGER NOT NULL DEFAULT 0 CHECK (by_preview_key IN (0, 1));
