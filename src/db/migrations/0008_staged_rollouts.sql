-- Staged rollouts: steps and the health gate of a channel, where each rollout stands, and what its devices told.
-- What each column means stands in schema.sql at the project's root.
ALTER TABLE channels ADD COLUMN rollout_steps TEXT;
ALTER TABLE channels ADD COLUMN rollout_step_minutes INTEGER NOT NULL DEFAULT 60;
ALTER TABLE channels ADD COLUMN rollout_step_min_devices INTEGER NOT NULL DEFAULT 50;
ALTER TABLE channels ADD COLUMN rollout_count_new_devices INTEGER NOT NULL DEFAULT 0 CHECK (rollout_count_new_devices IN (0, 1));
ALTER TABLE channels ADD COLUMN rollout_devices_per_network INTEGER DEFAULT 3;
ALTER TABLE channels ADD COLUMN auto_pause_enabled INTEGER NOT NULL DEFAULT 0 CHECK (auto_pause_enabled IN (0, 1));
ALTER TABLE channels ADD COLUMN auto_pause_window_minutes INTEGER;
ALTER TABLE channels ADD COLUMN auto_pause_failure_rate_bps INTEGER NOT NULL DEFAULT 500;
ALTER TABLE channels ADD COLUMN auto_pause_confidence_bps INTEGER NOT NULL DEFAULT 9500;
ALTER TABLE channels ADD COLUMN auto_pause_min_attempts INTEGER NOT NULL DEFAULT 20;
ALTER TABLE channels ADD COLUMN auto_pause_min_failures INTEGER NOT NULL DEFAULT 10;
ALTER TABLE channels ADD COLUMN auto_pause_action TEXT NOT NULL DEFAULT 'pause' CHECK (auto_pause_action IN ('pause', 'rollback', 'notify'));
ALTER TABLE channels ADD COLUMN auto_pause_cooldown_minutes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE rollouts (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  version_id INTEGER NOT NULL,
  version_name TEXT NOT NULL,
  percentage_bps INTEGER NOT NULL,
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  started_at_ms INTEGER NOT NULL,
  step_at_ms INTEGER NOT NULL,
  judged_from_ms INTEGER NOT NULL,
  sampling INTEGER NOT NULL DEFAULT 1 CHECK (sampling IN (0, 1)),
  checked_at_ms INTEGER,
  triggered_at_ms INTEGER,
  ended_at_ms INTEGER,
  ended_as TEXT CHECK (ended_as IN ('promoted', 'rolled_back', 'replaced'))
) STRICT, WITHOUT ROWID;
CREATE INDEX rollouts_by_channel ON rollouts (channel_id, ended_at_ms);
CREATE INDEX rollouts_by_app ON rollouts (app_id);
CREATE INDEX rollouts_under_way ON rollouts (app_id, version_name) WHERE ended_at_ms IS NULL;
CREATE TABLE rollout_devices (
  rollout_id TEXT NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
  device_id TEXT NOT NULL,
  network TEXT,
  told_network TEXT,
  from_version TEXT,
  first_served_at_ms INTEGER,
  last_served_at_ms INTEGER,
  installed_at_ms INTEGER,
  failed_at_ms INTEGER,
  PRIMARY KEY (rollout_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_devices_by_network ON rollout_devices (rollout_id, network) WHERE network IS NOT NULL;
CREATE INDEX rollout_devices_abroad ON rollout_devices (rollout_id, told_network) WHERE told_network <> network;
CREATE INDEX rollout_devices_early ON rollout_devices (rollout_id, told_network) WHERE first_served_at_ms IS NULL;
-- Rollouts that are under way are judged by what their devices tell from now on.
INSERT INTO rollouts (id, app_id, channel_id, version_id, version_name, percentage_bps, paused, started_at_ms, step_at_ms, judged_from_ms)
SELECT c.rollout_id, c.app_id, c.id, b.id, b.name, c.rollout_percentage_bps, c.rollout_paused_at_ms IS NOT NULL OR c.rollout_enabled = 0,
  c.updated_at_ms,
  CAST(unixepoch('subsec') * 1000 AS INTEGER), CAST(unixepoch('subsec') * 1000 AS INTEGER)
FROM channels c JOIN bundles b ON b.id = c.rollout_version_id WHERE c.rollout_id IS NOT NULL;
