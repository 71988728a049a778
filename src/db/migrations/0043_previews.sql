-- Previews of pull requests, which the server closes with everything that belongs to them.
CREATE TABLE previews (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  repository TEXT NOT NULL,
  repository_id TEXT,
  number INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'reopened')),
  channel_name TEXT,
  channel_id INTEGER REFERENCES channels (id) ON DELETE SET NULL,
  page_id TEXT NOT NULL UNIQUE,
  commit_sha TEXT,
  title TEXT,
  lifetime_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  opened_at_ms INTEGER,
  opened_event_at_ms INTEGER,
  reopened_event_at_ms INTEGER,
  closed_event_at_ms INTEGER,
  closed_at_ms INTEGER,
  closed_as TEXT CHECK (closed_as IN ('request', 'time', 'webhook', 'kept')),
  revision INTEGER NOT NULL DEFAULT 0,
  created_by TEXT NOT NULL,
  created_by_key TEXT,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  UNIQUE (app_id, repository, number),
  UNIQUE (app_id, channel_name)
) STRICT;
CREATE INDEX previews_by_channel ON previews (channel_id) WHERE channel_id IS NOT NULL;
CREATE INDEX previews_open ON previews (expires_at_ms) WHERE state = 'open';
CREATE INDEX previews_ended ON previews (updated_at_ms) WHERE state <> 'open';

CREATE TABLE preview_repositories (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  repository TEXT NOT NULL,
  suffix TEXT NOT NULL,
  PRIMARY KEY (app_id, repository),
  UNIQUE (app_id, suffix)
) STRICT, WITHOUT ROWID;

ALTER TABLE bundles ADD COLUMN preview_id TEXT;
CREATE INDEX bundles_by_preview ON bundles (preview_id) WHERE preview_id IS NOT NULL;
ALTER TABLE apps ADD COLUMN preview_max_days INTEGER NOT NULL DEFAULT 30 CHECK (preview_max_days BETWEEN 1 AND 365);
