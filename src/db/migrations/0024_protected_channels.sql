-- Channels that preview keys created: their names are free again after deletion. A channel that became public is none any more.
ALTER TABLE channels ADD COLUMN is_preview INTEGER NOT NULL DEFAULT 0 CHECK (is_preview IN (0, 1));
UPDATE channels SET is_preview = 1 WHERE public = 0
  AND id IN (SELECT channel_id FROM role_bindings WHERE role_name = 'channel_preview');

-- Protection: who promotes, and whether somebody else has to approve.
ALTER TABLE channels ADD COLUMN protected INTEGER NOT NULL DEFAULT 0 CHECK (protected IN (0, 1));
ALTER TABLE channels ADD COLUMN promoters TEXT NOT NULL DEFAULT '[]';
ALTER TABLE channels ADD COLUMN requires_approval INTEGER NOT NULL DEFAULT 0 CHECK (requires_approval IN (0, 1));

ALTER TABLE apps ADD COLUMN preview_channel_prefix TEXT;
ALTER TABLE apps ADD COLUMN preview_prereleases_only INTEGER NOT NULL DEFAULT 0 CHECK (preview_prereleases_only IN (0, 1));

CREATE TABLE channel_names (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  reserved INTEGER NOT NULL CHECK (reserved IN (0, 1)),
  used_at_ms INTEGER NOT NULL,
  PRIMARY KEY (app_id, name)
) STRICT;
CREATE INDEX channel_names_of_previews ON channel_names (used_at_ms) WHERE reserved = 0;

-- Names of channels that are there, previews apart, and of those that the audit log says were deleted.
INSERT INTO channel_names (app_id, name, reserved, used_at_ms)
SELECT app_id, name, 1, updated_at_ms FROM channels WHERE is_preview = 0;
INSERT OR IGNORE INTO channel_names (app_id, name, reserved, used_at_ms)
SELECT l.app_uuid, l.target_name, 1, max(l.at_ms) FROM audit_log l JOIN apps a ON a.id = l.app_uuid
WHERE l.target_type = 'channel' AND l.action = 'channel.delete' AND l.target_name IS NOT NULL
  AND (l.before ->> '$.public' = 1 OR l.target_id NOT IN (
    SELECT b.after ->> '$.channel_id' FROM audit_log b WHERE b.action = 'binding.create'
      AND b.after ->> '$.role_name' = 'channel_preview' AND b.after ->> '$.channel_id' IS NOT NULL))
GROUP BY l.app_uuid, l.target_name;
INSERT OR IGNORE INTO channel_names (app_id, name, reserved, used_at_ms)
SELECT id, default_upload_channel, 1, updated_at_ms FROM apps;

-- How many devices name a channel that is not there.
CREATE INDEX devices_by_default_channel ON devices (app_id, default_channel) WHERE default_channel IS NOT NULL;

CREATE TABLE proposals (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected', 'superseded', 'withdrawn')),
  version_id INTEGER,
  version_name TEXT,
  changes TEXT NOT NULL,
  base TEXT NOT NULL,
  proposer_type TEXT NOT NULL CHECK (proposer_type IN ('api_key', 'user')),
  proposed_by TEXT NOT NULL,
  proposed_by_key TEXT,
  proposer_name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  decided_by TEXT,
  decider_name TEXT,
  decided_at_ms INTEGER,
  comment TEXT
) STRICT;
CREATE UNIQUE INDEX proposals_pending ON proposals (channel_id) WHERE state = 'pending';
CREATE INDEX proposals_by_channel ON proposals (channel_id);
CREATE INDEX proposals_by_app ON proposals (app_id, created_at_ms);
CREATE INDEX proposals_pending_by_version ON proposals (version_id) WHERE state = 'pending';

-- Who proposed what the actor of an entry approved.
ALTER TABLE channel_history ADD COLUMN proposer_name TEXT;
