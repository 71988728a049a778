-- Webhooks of GitHub and GitLab that close previews. Their secrets are sealed with the server's secret, because a signature is verified with them.
CREATE TABLE preview_hooks (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  provider TEXT NOT NULL CHECK (provider IN ('github', 'gitlab')),
  sealed_secret TEXT NOT NULL,
  previous_sealed_secret TEXT,
  previous_until_ms INTEGER,
  last_delivery_at_ms INTEGER,
  created_by TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX preview_hooks_by_app ON preview_hooks (app_id, created_at_ms);
