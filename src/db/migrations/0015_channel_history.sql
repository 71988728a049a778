-- What was live on each channel when, by whom and why. The bundles that were live lately are in use: clean-up leaves them.
ALTER TABLE apps ADD COLUMN keep_live_bundles INTEGER NOT NULL DEFAULT 5 CHECK (keep_live_bundles BETWEEN 0 AND 50);

CREATE TABLE channel_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  at_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  version_id INTEGER,
  version_name TEXT,
  previous_version_name TEXT,
  rollout_percentage_bps INTEGER,
  reason TEXT,
  actor_type TEXT NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id TEXT,
  actor_name TEXT NOT NULL,
  rollback_target INTEGER NOT NULL DEFAULT 0 CHECK (rollback_target IN (0, 1)),
  rolled_back INTEGER NOT NULL DEFAULT 0 CHECK (rolled_back IN (0, 1))
) STRICT;
CREATE INDEX channel_history_by_channel ON channel_history (channel_id, id);
CREATE INDEX channel_history_by_app ON channel_history (app_id);
CREATE INDEX channel_history_targets ON channel_history (channel_id, id) WHERE rollback_target = 1;
CREATE INDEX channel_history_targets_by_version ON channel_history (version_id) WHERE rollback_target = 1;

-- Existing channels: every change of the live bundle that the audit log has. The log names bundles by version, so the newest bundle of that
-- name at the time is meant.
INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, version_name, previous_version_name, actor_type, actor_id, actor_name)
SELECT c.app_id, c.id, l.at_ms,
  CASE WHEN l.action = 'channel.create' THEN 'created'
    WHEN l.before ->> '$.rolloutVersion' = l.after ->> '$.version' THEN 'rollout_finished' ELSE 'promotion' END,
  (SELECT b.id FROM bundles b WHERE b.app_id = c.app_id AND b.name = l.after ->> '$.version' AND b.created_at_ms <= l.at_ms
    ORDER BY b.id DESC LIMIT 1),
  l.after ->> '$.version', l.before ->> '$.version', l.actor_type, l.actor_id, l.actor_name
FROM audit_log l JOIN channels c ON c.app_id = l.app_uuid AND c.id = CAST(l.target_id AS INTEGER)
WHERE l.app_uuid IS NOT NULL AND l.target_type = 'channel' AND l.action IN ('channel.create', 'channel.update', 'channel.promote')
  AND (l.action = 'channel.create' OR json_type(l.after, '$.version') IS NOT NULL)
ORDER BY l.id;
-- A name whose bundle is gone for good is no store build.
UPDATE channel_history SET version_id = 0 WHERE version_id IS NULL AND version_name IS NOT NULL;

-- What is live now, where the audit log does not say how it came there.
INSERT INTO channel_history (app_id, channel_id, at_ms, action, version_id, version_name, reason, actor_type, actor_name)
SELECT c.app_id, c.id, c.updated_at_ms, 'promotion', c.version_id, b.name, 'Live before this history began.', 'system', 'Capstan'
FROM channels c LEFT JOIN bundles b ON b.id = c.version_id
WHERE NOT EXISTS (SELECT 1 FROM channel_history h WHERE h.channel_id = c.id)
  OR c.version_id IS NOT (SELECT h.version_id FROM channel_history h WHERE h.channel_id = c.id ORDER BY h.id DESC LIMIT 1);

UPDATE channel_history SET rollback_target = 1
WHERE id IN (SELECT max(id) FROM channel_history GROUP BY channel_id, version_id)
  AND (version_id IS NULL OR EXISTS (SELECT 1 FROM bundles b WHERE b.id = channel_history.version_id AND b.status = 'ready'));

-- The name that people read.
UPDATE audit_log SET actor_name = 'Automatic clean-up' WHERE actor_type = 'system' AND actor_name = 'sweep';
